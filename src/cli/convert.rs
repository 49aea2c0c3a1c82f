//! `interaction convert`: an interaction in another form, or a conversation as the
//! messages of a provider.

use std::path::PathBuf;

use clap::Args;

use super::{
    exit::{Failure, Outcome},
    form::{Form, read, read_lines},
    input::Source,
    json,
    output::{Output, tell},
    place::Place,
    report::clean,
};
use crate::interaction::{
    Interaction,
    backend::{Converted, Dialect, Note, convert, parse_backend},
    document, portable, proto_json,
};
use crate::wire::pb;

/// Change the form of an interaction, or write a conversation for a provider
///
/// For a provider: the exact messages to send it, as a JSON list, whoever produced each turn. What
/// it cannot be sent is said on standard error, and so is what had to be added.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc interaction convert turn.json --to proto-json
  a11-grpc interaction convert turn.json --to protobuf --output turn.binpb
  a11-grpc interaction convert turn.binpb --to portable
  a11-grpc interaction convert first.json second.json --to claude
  a11-grpc interaction convert support-17.jsonl --to openai
  a11-grpc interaction convert --conversation support/17 --store conversations.db --to google")]
pub(super) struct Convert {
    /// The interaction, in any form; `-` reads standard input. For a provider
    /// several, in their order, are one conversation, and so are the JSON lines of
    /// an export
    #[arg(value_name = "FILE", required_unless_present = "conversation")]
    files: Vec<Source>,

    /// The form to write: portable, proto-json, protobuf; or the messages of a
    /// provider: claude (anthropic), claude_code, codex, gemini (google), gpt
    /// (openai), ollama, vllm
    #[arg(long, value_name = "FORM", value_parser = to)]
    to: To,

    /// Convert this conversation of the store, for a provider
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    conversation: Option<String>,

    #[command(flatten)]
    place: Place,

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
    if let Ok(form) = <Form as clap::ValueEnum>::from_str(name, true) {
        return Ok(To::Form(form));
    }
    let backend = parse_backend(name)
        .map_err(|error| format!("{error}; and the forms are portable, proto-json, protobuf"))?;
    Dialect::default_of(backend).map(To::Messages).ok_or_else(|| name.to_owned())
}

impl Convert {
    pub(super) async fn run(self) -> Result<Outcome, Failure> {
        let Self { files, to, conversation, place, output } = self;
        let output = Output::to(output);
        match (to, conversation) {
            (To::Messages(dialect), Some(name)) => {
                print(kept(&place, name, dialect).await?, output)?
            }
            (To::Messages(dialect), None) => {
                print(convert(&history(&files).await?, dialect), output)?
            }
            (To::Form(_), Some(_)) => return Err(Failure::NoProvider),
            (To::Form(form), None) => write(&files, form, output).await?,
        }
        Ok(Outcome::Done)
    }
}

/// The turns of files, in their order.
async fn history(files: &[Source]) -> Result<Vec<Interaction>, Failure> {
    let mut history = Vec::with_capacity(files.len());
    for file in files {
        let bytes = file.read().await?;
        match read_lines(&bytes) {
            Some(turns) => {
                let failed = |source| Failure::Lines { name: file.to_string(), source };
                history.extend(turns.map_err(failed)?);
            }
            None => {
                let failed = |source| Failure::Interaction { name: file.to_string(), source };
                let read = read(&bytes).map_err(failed)?;
                let none = || Failure::NotAnInteraction(file.to_string());
                history.push(read.ok_or_else(none)?.0);
            }
        }
    }
    Ok(history)
}

/// A conversation of a store, as its service converts it.
async fn kept(place: &Place, conversation: String, to: Dialect) -> Result<Converted, Failure> {
    let request = pb::ConvertInteractionsRequest {
        conversation,
        to: to.backend() as i32,
        ..Default::default()
    };
    let converted = place.client().await?.convert_interactions(request).await?.into_inner();
    let pb::ConvertInteractionsResponse { messages, system, dropped, added } = converted;
    let notes = |notes: Vec<pb::ConversionNote>| {
        let note =
            |pb::ConversionNote { interaction_id, what, why }| Note { interaction_id, what, why };
        notes.into_iter().map(note).collect()
    };
    Ok(Converted { system, messages, dropped: notes(dropped), added: notes(added) })
}

fn print(converted: Converted, mut output: Output) -> Result<(), Failure> {
    let Converted { system, messages, dropped, added } = converted;
    for (verb, notes) in [("dropped", dropped), ("added", added)] {
        for Note { interaction_id, what, why } in notes {
            tell(&clean(&format!("{verb}: {what} ({interaction_id}): {why}")));
        }
    }
    if let Some(system) = system {
        tell(&clean(&format!("beside the messages, the system prompt: {system}")));
    }
    output.line(&json::pretty(&format!("[{}]", messages.join(","))))
}

/// One interaction in another form.
async fn write(files: &[Source], form: Form, mut output: Output) -> Result<(), Failure> {
    let history = history(files).await?;
    let [interaction] = history.as_slice() else {
        return Err(Failure::SeveralFiles);
    };
    let name = files.iter().map(ToString::to_string).collect::<String>();
    let failed = |source| Failure::Interaction { name: name.clone(), source };
    match form {
        Form::Portable => {
            output.line(&json::pretty(&portable::to_json(interaction).map_err(failed)?))
        }
        Form::ProtoJson => {
            output.line(&json::pretty(&proto_json::to_json(interaction).map_err(failed)?))
        }
        Form::Protobuf if output.is_terminal() => Err(Failure::BinaryToTerminal),
        Form::Protobuf => {
            let bytes = document::encode(interaction, document::Form::Protobuf);
            output.write(&bytes.map_err(failed)?)
        }
    }
}
