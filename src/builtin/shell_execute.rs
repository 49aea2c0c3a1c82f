//! `shell_execute`: a throwaway shell for one command text. It can do all that
//! this program can, so it is there only where it was asked for.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::timeout;

use super::{
    environment::InheritEnv,
    execution::counted,
    lines::Lines,
    process::{Happening, Launch, Process, Stderr, find},
};
use crate::action::{ActionSchema, Context, Port, RegisterError, Registry, SchemaError, handler};
use crate::wire::{Code, Reason, Status};

/// The action's name.
pub const NAME: &str = "shell_execute";
/// How long a command may run unless the caller says otherwise, in seconds.
pub const DEFAULT_SECONDS: u64 = 30;
/// How long any command may run, in seconds.
pub const MAX_SECONDS: u64 = 600;
/// How many lines of output are kept.
pub const MAX_LINES: usize = 1000;
/// How many bytes of output are kept.
pub const MAX_BYTES: usize = 128 * 1024;
/// How much of a command is narrated, in characters.
const NARRATED_CHARACTERS: usize = 200;

/// Registers the action.
///
/// # Errors
/// Where its name is taken.
pub fn register(registry: &Registry) -> Result<(), RegisterError> {
    registry.register(schema(), handler(|context: Context| async move { run(&context).await }))
}

fn schema() -> Result<ActionSchema, SchemaError> {
    ActionSchema::builder(NAME)
        .describe(
            "Runs a command in a new shell, which is gone afterwards. Up to 1,000 lines and 128 \
             KiB of what it prints are kept; a last line says so where more was printed.",
        )
        .input(Port::text("command").required().describe("The command, as for `sh -c`."))
        .input(
            Port::json("timeout_seconds")
                .schema(r#"{"type":"integer","minimum":1,"maximum":600,"default":30}"#)
                .describe("How long it may run."),
        )
        .input(Port::text("working_directory").describe("Where it runs."))
        .output(
            Port::text("lines")
                .stream()
                .describe("What it printed to stdout and stderr, in the order it did."),
        )
        .output(
            Port::json("exit_code")
                .required()
                .schema(r#"{"type":"integer"}"#)
                .describe("0 for success; 128 and the signal where it was killed."),
        )
        .build()
}

async fn run(context: &Context) -> Result<(), Status> {
    let command: String = context.read("command").await?;
    let seconds = context.read_optional::<u64>("timeout_seconds").await?;
    let limit = Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS));
    let directory = match context.read_optional::<PathBuf>("working_directory").await? {
        Some(directory) => directory,
        None => std::env::current_dir()
            .map_err(|error| Status::handler(Code::FailedPrecondition, error.to_string()))?,
    };
    let shell = find(Path::new("/bin/bash")).unwrap_or_else(|| PathBuf::from("/bin/sh"));
    context.log_internal(format!("the shell is {shell:?}\n"));
    let process = Process::start(Launch {
        program: shell,
        arguments: vec!["-c".to_owned(), command.clone()],
        environment: InheritEnv::Basics.variables(),
        directory,
        stdin: Bytes::new(),
        stderr: Stderr::WithStdout,
    })?;
    let mut shown: String = command.chars().take(NARRATED_CHARACTERS).collect();
    if shown.len() < command.len() {
        shown.push('…');
    }
    match timeout(limit, follow(context, process)).await {
        Ok(ended) => {
            let (lines, status) = ended?;
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            context.write("exit_code", &code.unwrap_or(-1)).await?;
            let lines = counted(lines, "line");
            context.log(format!("Ran `{shown}`.\n\n{lines} of output.\n"));
            Ok(())
        }
        Err(_) => {
            context.log(format!("Stopped `{shown}` after {limit:?}.\n"));
            Err(Status::of(
                Reason::Deadline,
                format!("the command did not end within {limit:?} and was stopped"),
            ))
        }
    }
}

/// Hands over lines as they come until the process ends: how many there were in
/// all, and how it ended.
async fn follow(context: &Context, mut process: Process) -> Result<(usize, ExitStatus), Status> {
    let mut output = Kept { context, lines: 0, bytes: 0, kept_lines: 0, cut: false };
    let mut lines = Lines::default();
    let mut ended = None;
    let broken = |error: std::io::Error| Status::handler(Code::Internal, error.to_string());
    while let Some(happening) = process.next().await.map_err(broken)? {
        match happening {
            Happening::Stdout(bytes) | Happening::Stderr(bytes) => {
                lines.push(&bytes);
                while let Some(line) = lines.next() {
                    output.take(&line).await?;
                }
            }
            Happening::Ended(status) => ended = Some(status),
        }
    }
    if let Some(line) = lines.rest() {
        output.take(&line).await?;
    }
    output.end().await?;
    let ended = ended.ok_or_else(|| Status::handler(Code::Internal, "the process has no end"))?;
    Ok((output.lines, ended))
}

/// What is handed over, and how much there was.
struct Kept<'a> {
    context: &'a Context,
    lines: usize,
    bytes: usize,
    kept_lines: usize,
    /// Once one line was left out, so are all that follow.
    cut: bool,
}

impl Kept<'_> {
    async fn take(&mut self, line: &str) -> Result<(), Status> {
        self.lines += 1;
        self.bytes += line.len() + 1;
        self.cut |= self.lines > MAX_LINES || self.bytes > MAX_BYTES;
        if self.cut {
            return Ok(());
        }
        self.kept_lines += 1;
        self.context.write("lines", line).await
    }

    async fn end(&self) -> Result<(), Status> {
        if !self.cut {
            return Ok(());
        }
        let Self { lines, bytes, kept_lines, .. } = self;
        let marker =
            format!("[output cut: the first {kept_lines} of {lines} lines, {bytes} bytes in all]");
        self.context.write("lines", &marker).await
    }
}
