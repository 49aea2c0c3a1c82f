//! `completions`: scripts that complete the command line in a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{
    exit::{Failure, Outcome},
    output::Output,
    program::Program,
};

/// Print a script that completes this command line in a shell
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc completions bash > ~/.local/share/bash-completion/completions/a11-grpc
  a11-grpc completions zsh > ~/.zfunc/_a11-grpc
  a11-grpc completions fish > ~/.config/fish/completions/a11-grpc.fish")]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Program::command(), "a11-grpc", &mut script);
        if self.shell == Shell::Bash {
            // The names that the script gives commands, and those it looks for, differ where
            // the program's name has a hyphen (clap_complete 4.6.12).
            let text = String::from_utf8_lossy(&script);
            script = text.replace("a11__subcmd__grpc", "a11__grpc").into_bytes();
        }
        Output::stdout().write(&script)?;
        Ok(Outcome::Done)
    }
}
