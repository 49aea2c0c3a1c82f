//! The program `a11-grpc`: see [`a11_grpc::cli`].

use std::{io::Write as _, process::ExitCode, time::Duration};

use a11_grpc::cli::Program;
use anyhow::Context as _;
use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long what still runs may take to notice that the program ends.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run(Program::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(program: Program) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let outcome = runtime.block_on(program.run());
    // Bounded, since a read from standard input cannot be stopped.
    runtime.shutdown_timeout(LAST_MOMENTS);
    Ok(match outcome {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            if !failure.is_quiet() {
                let _ = writeln!(std::io::stderr(), "error: {failure}");
                if let Some(hint) = failure.hint() {
                    let _ = writeln!(std::io::stderr(), "hint: {hint}");
                }
            }
            ExitCode::from(failure.exit_code())
        }
    })
}
