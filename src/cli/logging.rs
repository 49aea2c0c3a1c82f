//! The program's own log, on standard error.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::{exit::Failure, output::tell, program::Talk};

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// Starts to log what passes the filter.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(with_sdk(filter))?;
    // Whoever read the log may be gone. Saying so there would panic, in the middle of
    // a call.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    // Somebody else's subscriber, in a program that embeds this one, stays.
    let _ = match format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            subscriber.with_ansi(colours).try_init()
        }
        LogFormat::Json => subscriber.json().try_init(),
    };
    Ok(())
}

/// What the MCP SDK says is of use to who works on it, and this program says what
/// is wrong in its own words: it is asked for by name, or by debug or trace for all.
fn with_sdk(filter: &str) -> String {
    let is_low =
        |part: &str| ["debug", "trace"].iter().any(|level| part.trim().eq_ignore_ascii_case(level));
    if filter.contains("rmcp") || filter.split(',').any(is_low) {
        return filter.to_owned();
    }
    format!("{filter},rmcp=off")
}

/// How a program that serves says something on standard error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Voice {
    pub(super) format: LogFormat,
    pub(super) talk: Talk,
}

impl Voice {
    /// Says it in the form of the log: as it is for people, unless nothing is to be
    /// said; as a log line for machines, which then read nothing else.
    pub(super) fn say(self, text: &str) {
        match (self.format, self.talk) {
            (LogFormat::Text, Talk::Normal) => tell(text),
            (LogFormat::Text, Talk::Quiet) => {}
            (LogFormat::Json, _) => match text.strip_prefix("warning: ") {
                Some(warning) => tracing::warn!("{warning}"),
                None => tracing::info!("{text}"),
            },
        }
    }
}
