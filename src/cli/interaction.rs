//! `interaction`: checks interactions, without any service, and converts them.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    convert::Convert,
    exit::{Failure, Outcome},
    form::{name_of, read},
    input::Source,
    json,
    output::Output,
};
use crate::interaction::validate;

/// Check an interaction, or change its form
///
/// An Interaction is one durable step of a conversation. It has three forms that say the same: the
/// portable A11 JSON, proto3 JSON, and the protobuf message a11.v1.Interaction.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(super) struct InteractionArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(Validate),
    Convert(Convert),
}

/// Say what is wrong with an interaction
///
/// Prints every problem with the field it is in. A `note` is no fault: what it says may have no
/// effect, or fail when it is used.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc interaction validate turn.json
  a11-grpc interaction validate - --json < turn.json

Exit codes: 0 it is valid; 2 it is not, or cannot be read.")]
struct Validate {
    /// The interaction, in any form; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: Source,

    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

impl InteractionArgs {
    pub(super) async fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Command::Validate(command) => command.run().await,
            Command::Convert(command) => command.run().await,
        }
    }
}

/// What `validate` found.
#[derive(Debug, Serialize)]
struct Findings {
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'static str>,
    problems: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Finding {
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
    message: String,
    note: bool,
}

impl Validate {
    async fn run(self) -> Result<Outcome, Failure> {
        let bytes = self.file.read().await?;
        let findings = match read(&bytes) {
            Ok(Some((interaction, form))) => {
                let problems: Vec<Finding> = validate(&interaction)
                    .into_iter()
                    .map(|problem| Finding {
                        message: problem.fault.to_string(),
                        note: !problem.is_refused(),
                        field: problem.field,
                    })
                    .collect();
                let valid = problems.iter().all(|problem| problem.note);
                Findings { valid, form: Some(name_of(form)), problems }
            }
            Ok(None) => {
                let failure = Failure::NotAnInteraction(self.file.to_string());
                if self.json {
                    let message = failure.to_string();
                    let problems = vec![Finding { field: String::new(), message, note: false }];
                    print_json(&Findings { valid: false, form: None, problems })?;
                }
                return Err(failure);
            }
            Err(error) => {
                let field = error.field().to_owned();
                let text = error.to_string();
                let message = text.strip_prefix(&format!("{field}: ")).unwrap_or(&text).to_owned();
                Findings {
                    valid: false,
                    form: None,
                    problems: vec![Finding { field, message, note: false }],
                }
            }
        };
        let mut output = Output::stdout();
        if self.json {
            print_json(&findings)?;
        } else {
            for Finding { field, message, note } in &findings.problems {
                let note = if *note { "note: " } else { "" };
                let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
                output.line(&format!("{note}{field}{message}"))?;
            }
            if let (true, Some(form)) = (findings.valid, findings.form) {
                output.line(&format!("valid ({form})"))?;
            }
        }
        match findings.valid {
            true => Ok(Outcome::Done),
            false => Err(Failure::Invalid(self.file.to_string())),
        }
    }
}

fn print_json(findings: &Findings) -> Result<(), Failure> {
    let text = serde_json::to_string(findings).unwrap_or_default();
    Output::stdout().line(&json::pretty(&text))
}
