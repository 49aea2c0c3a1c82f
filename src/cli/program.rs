//! The program: its commands, and what they have in common.

use clap::{ArgAction, Parser, Subcommand};
use futures::FutureExt as _;

use super::{
    actions, call, completions, conversation, execute,
    exit::{Failure, Outcome},
    interaction,
    logging::{self, LogFormat},
    serve,
};
use crate::serve::signals::Signals;

/// Turns functions into tools a model can call.
#[derive(Debug, Parser)]
#[command(
    name = "a11-grpc",
    version,
    about = "Turns functions into tools a model can call, and runs the calls it makes",
    long_about = "Turns functions into tools a model can call, and runs the calls it makes.\n\n\
        Give `execute` a model's reply, and it runs the tool calls in it side by side and prints\n\
        the turn to go on with. Actions come from a configuration file, from the program itself,\n\
        or from a server that `serve` started; every command works the same with all of them.",
    after_long_help = AFTER_HELP,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
)]
pub struct Program {
    /// What to log of the program's own workings, to standard error: a level
    /// (error, warn, info, debug, trace) or a filter such as
    /// `warn,a11_grpc=debug` [default: info for serve, else warn]
    #[arg(long, value_name = "FILTER", env = "A11_LOG", global = true, hide_env_values = true)]
    #[arg(help_heading = "Messages")]
    log: Option<String>,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", global = true)]
    #[arg(help_heading = "Messages")]
    log_format: LogFormat,

    /// Say nothing on standard error but what went wrong
    #[arg(long, short, action = ArgAction::SetTrue, global = true, help_heading = "Messages")]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  Run the tool calls of a model's reply, and print what to send back:
    a11-grpc execute reply.json --config actions.toml --allow '.*' --print messages

  See which actions there are, and call one:
    a11-grpc actions --config actions.toml
    a11-grpc call word_count --config actions.toml --arg text='one two three'

  Serve them to other programs, and use that server:
    a11-grpc serve --config actions.toml
    a11-grpc actions --server 127.0.0.1:50051

Exit codes:
  0  all good
  1  the work was done, but a call in it failed
  2  wrong usage or bad input: nothing was run
  3  the server cannot be reached, or another failure
  130, 143  interrupted (SIGINT, SIGTERM)

Standard output carries the result and nothing else; all the rest is on standard error.";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    Execute(execute::Execute),
    Actions(actions::Actions),
    Call(call::Call),
    Interaction(interaction::InteractionArgs),
    Conversation(conversation::ConversationArgs),
    Completions(completions::Completions),
}

/// How much is said on standard error beside failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Talk {
    /// What goes on.
    Normal,
    /// Nothing.
    Quiet,
}

impl Program {
    /// Runs the command. SIGINT and SIGTERM end it, and cancel what it runs when
    /// the runtime is dropped.
    ///
    /// # Errors
    /// What kept the command from doing its work.
    pub async fn run(self) -> Result<Outcome, Failure> {
        let talk = if self.quiet { Talk::Quiet } else { Talk::Normal };
        let by_default = match (&self.command, talk) {
            (Command::Serve(_), Talk::Normal) => "info",
            (_, Talk::Normal) => "warn",
            (_, Talk::Quiet) => "error",
        };
        logging::start(self.log.as_deref().unwrap_or(by_default), self.log_format)?;
        let mut signals = Signals::watch().map_err(Failure::System)?;
        let work = match self.command {
            // It ends at a signal too, but in its own time.
            Command::Serve(command) => return command.run(signals, self.log_format).await,
            Command::Execute(command) => command.run(talk).boxed_local(),
            Command::Actions(command) => command.run().boxed_local(),
            Command::Call(command) => command.run(talk).boxed_local(),
            Command::Interaction(command) => command.run().boxed_local(),
            Command::Conversation(command) => command.run().boxed_local(),
            Command::Completions(command) => async { command.run() }.boxed_local(),
        };
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(Failure::Interrupted(signal)),
        }
    }
}
