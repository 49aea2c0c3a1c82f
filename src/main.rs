//! The program `a11-grpc`: see [`a11_grpc::cli`].

use std::{process::ExitCode, time::Duration};

use a11_grpc::cli::{Complaints, Program};
use anyhow::Context as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long what still runs may take to notice that the program ends.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let complaints = Complaints::of_command_line();
    let program = match complaints.parse() {
        Ok(program) => program,
        Err(code) => return code,
    };
    run(program, complaints).unwrap_or_else(|error| {
        complaints.tell(&format!("{error:#}"), None);
        ExitCode::from(3)
    })
}

fn run(program: Program, complaints: Complaints) -> anyhow::Result<ExitCode> {
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
            complaints.failed(&failure);
            ExitCode::from(failure.exit_code())
        }
    })
}
