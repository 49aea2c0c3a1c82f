//! The program's own log, on standard error.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::{exit::Failure, output::tell};

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

/// The MCP SDK says at info what is of use to who works on it: it is asked for by
/// name, or by a lower level.
fn with_sdk(filter: &str) -> String {
    let is_info = |part: &str| part.trim().eq_ignore_ascii_case("info");
    if filter.split(',').any(is_info) && !filter.contains("rmcp") {
        return format!("{filter},rmcp=warn");
    }
    filter.to_owned()
}

/// Says something on standard error in the form of the log: as it is for people,
/// as a log line for machines, which then read nothing else.
pub(super) fn say(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => tell(text),
        LogFormat::Json => match text.strip_prefix("warning: ") {
            Some(warning) => tracing::warn!("{warning}"),
            None => tracing::info!("{text}"),
        },
    }
}
