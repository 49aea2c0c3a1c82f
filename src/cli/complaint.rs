//! What keeps the program from its work, on standard error: for people, or a JSON
//! line where the log is JSON.

use clap::Parser as _;
use std::process::ExitCode;

use super::{exit::Failure, logging::LogFormat, output::tell, program::Program};

/// How it is told that something went wrong. Known before the command line is
/// parsed, so that what is wrong with that is told the same way.
#[derive(Debug, Clone, Copy)]
pub struct Complaints(LogFormat);

impl Complaints {
    /// As the command line wants it.
    pub fn of_command_line() -> Self {
        let args: Vec<_> = std::env::args_os().collect();
        let is_json = args.iter().any(|arg| arg == "--log-format=json")
            || args.windows(2).any(|pair| pair[0] == "--log-format" && pair[1] == "json");
        Self(if is_json { LogFormat::Json } else { LogFormat::Text })
    }

    /// The program that the command line asks for.
    ///
    /// # Errors
    /// The exit code, where that is wrong or asks for help; it is told why.
    pub fn parse(self) -> Result<Program, ExitCode> {
        Program::try_parse().map_err(|error| {
            match self.0 {
                LogFormat::Json if error.use_stderr() => {
                    let text = error.to_string();
                    self.tell(text.trim().trim_start_matches("error: "), None);
                }
                // Nobody may be reading.
                LogFormat::Json | LogFormat::Text => drop(error.print()),
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
        })
    }

    /// Tells of a failure that is not quiet.
    pub fn failed(self, failure: &Failure) {
        if !failure.is_quiet() {
            self.tell(&failure.to_string(), failure.hint().as_deref());
        }
    }

    /// Tells what is wrong, and what to do about it.
    pub fn tell(self, text: &str, hint: Option<&str>) {
        if self.0 == LogFormat::Json {
            // Whatever the log leaves out.
            let log = tracing_subscriber::fmt()
                .json()
                .with_writer(std::io::stderr)
                .log_internal_errors(false)
                .finish();
            return tracing::subscriber::with_default(log, || tracing::error!(hint, "{text}"));
        }
        tell(&format!("error: {text}"));
        if let Some(hint) = hint {
            tell(&format!("hint: {hint}"));
        }
    }
}
