//! One call of a command action: its inputs read, its program run, and what that
//! printed written to the outputs.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use serde_json::{Value, value::RawValue};
use tokio::time::timeout;

use super::{
    command::{Command, OUTPUT, RESULT},
    declaration::OutputForm,
    input::Input,
    lines::Lines,
    plan::{Given, Plan, bytes_in_json},
    process::{Happening, Process},
};
use crate::action::{Context, Handler, handler, log::LogEntry, port::Cardinality};
use crate::wire::chunk::{JSON, Kind};
use crate::wire::json_weight::{self, Weight};
use crate::wire::{Chunk, Code, Reason, Status};

/// How much input a call may have, in bytes: it is all held until the program
/// starts.
const MAX_INPUT_BYTES: usize = 16 * 1024 * 1024;
/// How much of stderr is narrated, in lines and in bytes.
const MAX_NARRATED_LINES: usize = 200;
const MAX_NARRATED_BYTES: usize = 32 * 1024;
/// How much of the end of stderr goes into a failure's message, in bytes.
const TAIL_BYTES: usize = 2 * 1024;

/// What runs a command action.
pub(crate) fn command_handler(command: Arc<Command>) -> impl Handler {
    handler(move |context: Context| {
        let command = command.clone();
        async move { run(&command.plan, &context).await }
    })
}

async fn run(plan: &Plan, context: &Context) -> Result<(), Status> {
    let given = read_inputs(plan, context).await?;
    let process = Process::start(plan.launch(&given))?;
    drop(given);
    match timeout(plan.timeout, follow(plan, context, process)).await {
        Ok(ended) => ended,
        Err(_) => Err(Status::of(
            Reason::Deadline,
            format!("`{}` did not end within {:?} and was stopped", plan.program(), plan.timeout),
        )),
    }
}

/// Reads what the process prints until it ends.
async fn follow(plan: &Plan, context: &Context, mut process: Process) -> Result<(), Status> {
    let mut printed = 0;
    let mut text = BytesMut::new();
    let mut lines = Lines::default();
    let mut line_count = 0_usize;
    let mut complaints = Complaints::new(context);
    let broken = |error: std::io::Error| Status::handler(Code::Internal, error.to_string());
    while let Some(happening) = process.next().await.map_err(broken)? {
        match happening {
            Happening::Stdout(bytes) => {
                printed += bytes.len();
                if printed > plan.max_output_bytes {
                    return Err(Status::of(
                        Reason::OutputTooLarge,
                        format!(
                            "`{}` printed more than {} bytes and was stopped",
                            plan.program(),
                            plan.max_output_bytes
                        ),
                    ));
                }
                match plan.output {
                    OutputForm::Text | OutputForm::Json => text.extend_from_slice(&bytes),
                    OutputForm::Lines => {
                        lines.push(&bytes);
                        while let Some(line) = lines.next() {
                            line_count += 1;
                            context.write(OUTPUT, &line).await?;
                        }
                    }
                }
            }
            Happening::Stderr(bytes) => complaints.take(&bytes),
            Happening::Ended(status) => {
                let tail = complaints.end();
                check_exit(plan, context, status, &tail)?;
            }
        }
    }
    match plan.output {
        OutputForm::Text => context.write(OUTPUT, &text_of(&text)).await?,
        OutputForm::Lines => {
            if let Some(line) = lines.rest() {
                line_count += 1;
                context.write(OUTPUT, &line).await?;
            }
        }
        OutputForm::Json => {
            context.write_chunk(RESULT, json_of(plan, text.freeze())?).await?;
        }
    }
    let amount = match plan.output {
        OutputForm::Lines => counted(line_count, "line"),
        OutputForm::Text | OutputForm::Json => counted(printed, "byte"),
    };
    context.log(format!("Ran `{}`.\n\n{amount} of output.\n", plan.program()));
    Ok(())
}

/// `1 line`, `2 lines`.
pub(super) fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What a program's end means: nothing, or the action's failure.
fn check_exit(
    plan: &Plan,
    context: &Context,
    status: ExitStatus,
    tail: &str,
) -> Result<(), Status> {
    if status.success() {
        return Ok(());
    }
    let (code, how) = match (status.code(), status.signal()) {
        (Some(number), _) => (plan.code_of_exit(number), format!("exit status {number}")),
        (None, Some(signal)) => (Code::Aborted, format!("killed by signal {signal}")),
        (None, None) => (Code::Aborted, "it ended in an unknown way".to_owned()),
    };
    context.log(format!("Ran `{}`: {how}.\n", plan.program()));
    let message = if tail.is_empty() { how } else { format!("{how}: {tail}") };
    Err(Status::handler(code, message))
}

/// What was printed, as a text without its last line end.
fn text_of(printed: &[u8]) -> String {
    let text = printed.strip_suffix(b"\n").unwrap_or(printed);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    String::from_utf8_lossy(text).into_owned()
}

/// What was printed, if it is JSON that fits the schema.
fn json_of(plan: &Plan, printed: Bytes) -> Result<Chunk, Status> {
    let unfit = |fault: String| {
        let program = plan.program();
        Status::of(Reason::InvalidOutput, format!("`{program}` printed what is {fault}"))
    };
    let value: &RawValue = serde_json::from_slice(&printed)
        .map_err(|error| unfit(format!("not one JSON value: {error}")))?;
    if let Some(schema) = &plan.output_schema {
        let value: Value = json_weight::read(value.get().as_bytes())
            .map_err(|error| unfit(format!("not one JSON value: {error}")))?;
        schema
            .validate(&value)
            .map_err(|error| unfit(format!("not the result declared: {error}")))?;
    }
    Ok(Chunk::new(JSON, printed.slice_ref(value.get().as_bytes())))
}

/// What a program writes to stderr: narrated line by line up to a bound, and its
/// end kept.
struct Complaints<'a> {
    context: &'a Context,
    lines: Lines,
    narrated_lines: usize,
    narrated_bytes: usize,
    tail: String,
}

impl<'a> Complaints<'a> {
    fn new(context: &'a Context) -> Self {
        let (lines, tail) = (Lines::default(), String::new());
        Self { context, lines, narrated_lines: 0, narrated_bytes: 0, tail }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
        while let Some(line) = self.lines.next() {
            self.line(&line);
        }
    }

    /// The end of all that was written.
    fn end(&mut self) -> String {
        if let Some(line) = self.lines.rest() {
            self.line(&line);
        }
        self.tail.trim().to_owned()
    }

    fn line(&mut self, line: &str) {
        self.tail.push_str(line);
        self.tail.push('\n');
        if self.tail.len() > TAIL_BYTES {
            let mut from = self.tail.len() - TAIL_BYTES;
            while !self.tail.is_char_boundary(from) {
                from += 1;
            }
            self.tail.drain(..from);
        }
        self.narrated_lines += 1;
        self.narrated_bytes += line.len();
        let within =
            self.narrated_lines <= MAX_NARRATED_LINES && self.narrated_bytes <= MAX_NARRATED_BYTES;
        if within {
            self.narrate(format!("{line}\n"));
        } else if self.narrated_lines <= MAX_NARRATED_LINES + 1 {
            self.narrated_lines = MAX_NARRATED_LINES + 1;
            self.narrate("[the rest of stderr is not shown]\n".to_owned());
        }
    }

    fn narrate(&self, text: String) {
        let channel = "stderr".to_owned();
        self.context.log_entry(LogEntry { channel, ..LogEntry::info(text) });
    }
}

/// All inputs, with the defaults of those that were not given.
async fn read_inputs(plan: &Plan, context: &Context) -> Result<Given, Status> {
    let mut given = Given::default();
    let mut room = MAX_INPUT_BYTES;
    let mut weight = Weight::default();
    for (input, port) in plan.inputs.iter().zip(context.schema().inputs()) {
        let chunks = match port.cardinality() {
            Cardinality::Unary => {
                context.read_chunk_within(&input.name, room).await?.into_iter().collect()
            }
            Cardinality::Stream => read_stream(input, context, room).await?,
        };
        let chunks: Vec<Chunk> = chunks.into_iter().filter(|chunk| !chunk.is_null()).collect();
        let size: usize = chunks.iter().map(|chunk| chunk.data().len()).sum();
        room = room.checked_sub(size).ok_or_else(too_much_input)?;
        if matches!(input.kind, Kind::Image | Kind::Audio | Kind::Bytes) && !chunks.is_empty() {
            let bytes = match chunks.as_slice() {
                [one] => one.data().clone(),
                several => several
                    .iter()
                    .fold(BytesMut::new(), |mut all, chunk| {
                        all.extend_from_slice(chunk.data());
                        all
                    })
                    .freeze(),
            };
            given.bytes.insert(input.name.clone(), bytes);
        }
        let mut values = vec![];
        for chunk in &chunks {
            values.push(value_of(input, chunk)?);
            if input.kind == Kind::Json {
                weight.add(chunk.data())?;
            }
        }
        let value = match port.cardinality() {
            _ if values.is_empty() => input.default.clone(),
            Cardinality::Unary => values.pop(),
            Cardinality::Stream => Some(Value::Array(values)),
        };
        if let Some(value) = value.filter(|value| !value.is_null()) {
            given.values.insert(input.name.clone(), value);
        }
    }
    Ok(given)
}

async fn read_stream(input: &Input, context: &Context, room: usize) -> Result<Vec<Chunk>, Status> {
    // Each chunk costs more than its bytes.
    const FIXED_BYTES: usize = 64;
    let mut values = context.read_chunks(&input.name)?;
    let (mut chunks, mut size) = (vec![], 0);
    while let Some(chunk) = values.try_next().await? {
        size += FIXED_BYTES + chunk.data().len();
        if size > room {
            return Err(too_much_input());
        }
        chunks.push(chunk);
    }
    Ok(chunks)
}

fn too_much_input() -> Status {
    Status::handler(
        Code::ResourceExhausted,
        format!("the inputs of a command are {MAX_INPUT_BYTES} bytes at most"),
    )
}

fn value_of(input: &Input, chunk: &Chunk) -> Result<Value, Status> {
    let unfit = |fault: String| {
        Status::of(Reason::InvalidInput, format!("input {:?}: {fault}", input.name))
    };
    match input.kind {
        Kind::Text => std::str::from_utf8(chunk.data())
            .map(Value::from)
            .map_err(|error| unfit(error.to_string())),
        Kind::Json => json_weight::read(chunk.data()).map_err(|error| unfit(error.to_string())),
        Kind::Image | Kind::Audio | Kind::Bytes => Ok(bytes_in_json(chunk.data())),
    }
}
