//! `interaction`: checks and converts interactions, without any service.

use std::path::PathBuf;

use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::{
    exit::{Failure, Outcome},
    input::Source,
    json,
    output::{Output, tell},
    report::clean,
};
use crate::interaction::{
    Interaction, InteractionError,
    backend::{Dialect, Note, convert, parse_backend},
    document::{self, Document, PROTOBUF, read_document},
    portable, proto_json, validate,
};

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

/// Change the form of an interaction
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc interaction convert turn.json --to proto-json
  a11-grpc interaction convert turn.json --to protobuf --output turn.binpb
  a11-grpc interaction convert turn.binpb --to portable
  a11-grpc interaction convert first.json second.json --to claude")]
struct Convert {
    /// The interaction, in any form; `-` reads standard input. For a provider
    /// several, in their order, are one conversation
    #[arg(value_name = "FILE", required = true)]
    files: Vec<Source>,

    /// The form to write: portable, proto-json, protobuf; or the messages of a
    /// provider: claude, claude_code, codex, gemini, gpt, ollama, vllm
    #[arg(long, value_name = "FORM", value_parser = to)]
    to: To,

    /// Write to this file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What to write.
#[derive(Debug, Clone, Copy)]
enum To {
    Form(Form),
    Messages(Dialect),
}

fn to(name: &str) -> Result<To, String> {
    if let Ok(form) = Form::from_str(name, true) {
        return Ok(To::Form(form));
    }
    let backend = parse_backend(name)
        .map_err(|error| format!("{error}; and the forms are portable, proto-json, protobuf"))?;
    Dialect::default_of(backend).map(To::Messages).ok_or_else(|| name.to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The portable A11 JSON.
    Portable,
    /// proto3 JSON.
    ProtoJson,
    /// The protobuf message a11.v1.Interaction.
    Protobuf,
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

impl Convert {
    async fn run(self) -> Result<Outcome, Failure> {
        let mut history = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let failed = |source| Failure::Interaction { name: file.to_string(), source };
            let (interaction, _) = read(&file.read().await?)
                .map_err(failed)?
                .ok_or_else(|| Failure::NotAnInteraction(file.to_string()))?;
            history.push(interaction);
        }
        let form = match self.to {
            To::Form(form) => form,
            To::Messages(dialect) => {
                let converted = convert(&history, dialect);
                let notes = [("dropped", &converted.dropped), ("added", &converted.added)];
                for (verb, notes) in notes {
                    for Note { interaction_id, what, why } in notes {
                        tell(&clean(&format!("{verb}: {what} ({interaction_id}): {why}")));
                    }
                }
                if let Some(system) = &converted.system {
                    tell(&clean(&format!("beside the messages, the system prompt: {system}")));
                }
                let text = format!("[{}]", converted.messages.join(","));
                Output::to(self.output).line(&json::pretty(&text))?;
                return Ok(Outcome::Done);
            }
        };
        let [interaction] = history.as_slice() else {
            return Err(Failure::SeveralFiles);
        };
        let name = self.files.iter().map(ToString::to_string).collect::<String>();
        let failed = |source| Failure::Interaction { name: name.clone(), source };
        let mut output = Output::to(self.output);
        match form {
            Form::Portable => {
                output.line(&json::pretty(&portable::to_json(interaction).map_err(failed)?))?;
            }
            Form::ProtoJson => {
                output.line(&json::pretty(&proto_json::to_json(interaction).map_err(failed)?))?;
            }
            Form::Protobuf => {
                if output.is_terminal() {
                    return Err(Failure::BinaryToTerminal);
                }
                let bytes = document::encode(interaction, document::Form::Protobuf);
                output.write(&bytes.map_err(failed)?)?;
            }
        }
        Ok(Outcome::Done)
    }
}

fn name_of(form: Form) -> &'static str {
    match form {
        Form::Portable => "portable",
        Form::ProtoJson => "proto-json",
        Form::Protobuf => "protobuf",
    }
}

/// The interaction that bytes hold, and in which form; `None` for JSON of
/// another kind.
fn read(bytes: &Bytes) -> Result<Option<(Interaction, Form)>, InteractionError> {
    if !begins_as_json(bytes) && !bytes.is_empty() {
        match document::decode_turn(bytes.clone(), PROTOBUF) {
            // Text that is neither is rather bad JSON than bad protobuf.
            Err(InteractionError::NotProtobuf(_)) if std::str::from_utf8(bytes).is_ok() => {}
            decoded => return decoded.map(|interaction| Some((interaction, Form::Protobuf))),
        }
    }
    Ok(match read_document(bytes)? {
        Document::Portable(interaction) => Some((interaction, Form::Portable)),
        Document::ProtoJson(interaction) => Some((interaction, Form::ProtoJson)),
        Document::Other(_) => None,
    })
}

fn begins_as_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().starts_with(b"{")
}
