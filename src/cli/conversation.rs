//! `conversation`: what a store keeps, on a server or opened here.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use futures::StreamExt as _;

use super::{
    exit::{Failure, Outcome},
    input::{InputError, Source},
    output::{Output, tell},
    place::{Client, Place},
    report::clean,
};
use crate::interaction::{Interaction, portable, store::lines, transcript};
use crate::wire::pb::{
    self, RecordForm, interaction_record::Body, watch_interactions_response::Event,
};

/// Read, follow, move and delete conversations
///
/// A conversation is a named sequence of interactions that a store keeps: the store of a server
/// that was started with `serve --store`, or one opened by this command.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(after_long_help = "\
Examples:
  a11-grpc conversation list --store conversations.db
  a11-grpc conversation show support/17 --server 127.0.0.1:50051
  a11-grpc conversation show support/17 --store conversations.db --html support-17.html
  a11-grpc conversation export support/17 --store conversations.db > support-17.jsonl
  a11-grpc conversation import copy support-17.jsonl --store postgres://me@db/conversations
  a11-grpc conversation delete copy --store postgres://me@db/conversations --yes")]
pub(super) struct ConversationArgs {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the conversations, by name
    List {
        /// Only those whose name begins so
        #[arg(value_name = "PREFIX", default_value = "")]
        prefix: String,
    },
    /// Print a conversation for people to read
    Show {
        /// The conversation
        name: String,
        /// Write one self-contained page to this file instead
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Print portable JSON, an interaction a line
        #[arg(long, conflicts_with = "html")]
        json: bool,
    },
    /// Print what a conversation has, and then what comes
    Watch {
        /// The conversation
        name: String,
        /// Only what comes after this position
        #[arg(long, value_name = "POSITION", default_value_t = 0)]
        after: u64,
        /// Print portable JSON, an interaction a line
        #[arg(long)]
        json: bool,
    },
    /// Write a conversation as JSON lines
    Export {
        /// The conversation
        name: String,
        /// Write to this file [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Append JSON lines to a conversation
    Import {
        /// The conversation
        name: String,
        /// The lines; `-` reads standard input
        #[arg(value_name = "FILE", default_value = "-")]
        file: Source,
    },
    /// Delete a conversation, with the record of the calls run for it
    ///
    /// Asks first. What was deleted cannot be brought back, but by importing an export.
    Delete {
        /// The conversation
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

impl ConversationArgs {
    pub(super) async fn run(self) -> Result<Outcome, Failure> {
        let mut client = match self.command {
            Command::Import { .. } => self.place.any().await?,
            _ => self.place.existing().await?,
        };
        match self.command {
            Command::List { prefix } => list(client, prefix).await?,
            Command::Show { name, html, json } => {
                let form = match (&html, json) {
                    (Some(_), _) => Form::Page,
                    (None, true) => Form::Json,
                    (None, false) => Form::Text,
                };
                show(client, name, html, form).await?;
            }
            Command::Watch { name, after, json } => {
                let form = if json { Form::Json } else { Form::Text };
                watch(client, name, after, form).await?;
            }
            Command::Export { name, output } => export(client, name, output).await?,
            Command::Import { name, file } => import(client, name, &file).await?,
            Command::Delete { name, yes } => {
                if !yes && !agreed(&mut client, &name).await? {
                    tell("nothing was deleted");
                    return Ok(Outcome::NotStarted);
                }
                delete(client, name).await?;
            }
        }
        Ok(Outcome::Done)
    }
}

async fn list(mut client: Client, name_prefix: String) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let mut page_token = String::new();
    loop {
        let request = pb::ListConversationsRequest {
            name_prefix: name_prefix.clone(),
            page_size: 1000,
            page_token,
        };
        let page = client.list_conversations(request).await?.into_inner();
        for conversation in page.conversations {
            output.line(&format!("{:>7}  {}", conversation.length, clean(&conversation.name)))?;
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(());
        }
    }
}

async fn show(
    mut client: Client,
    name: String,
    html: Option<PathBuf>,
    form: Form,
) -> Result<(), Failure> {
    let as_page = form == Form::Page;
    let mut written = Written::new(form);
    let mut output = Output::to(html);
    let mut after_position = 0;
    let mut start = Some(transcript::page_start(&name)).filter(|_| as_page);
    loop {
        let request = pb::ListInteractionsRequest {
            conversation: name.clone(),
            after_position,
            page_size: 0,
            form: RecordForm::Decoded as i32,
        };
        let page = client.list_interactions(request).await?.into_inner();
        if let Some(start) = start.take() {
            output.write(start.as_bytes())?;
        }
        for record in page.records {
            output.write(written.of(record)?.as_bytes())?;
        }
        after_position = page.next_after_position;
        if after_position == 0 {
            break;
        }
    }
    if as_page {
        output.write(transcript::page_end().as_bytes())?;
    }
    Ok(())
}

fn interaction(record: pb::InteractionRecord) -> Result<Interaction, Failure> {
    match record.body {
        Some(Body::Interaction(interaction)) => Ok(interaction),
        Some(Body::Encoded(_)) | None => Err(Failure::Answer("a record without its interaction")),
    }
}

/// How the interactions of a conversation are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Page,
    Json,
}

/// Writes interactions one after the other.
struct Written {
    form: Form,
    /// The actions of the calls so far, by call id.
    names: BTreeMap<String, String>,
}

impl Written {
    fn new(form: Form) -> Self {
        Self { form, names: BTreeMap::new() }
    }

    fn of(&mut self, record: pb::InteractionRecord) -> Result<String, Failure> {
        let appended_at = record.appended_at;
        let interaction = interaction(record)?;
        if self.form == Form::Json {
            return json_line(&interaction);
        }
        let mut step = transcript::Step::new(&interaction);
        step.appended_at(appended_at);
        step.name_results(&mut self.names);
        Ok(match self.form {
            Form::Page => transcript::html(&step),
            Form::Text | Form::Json => transcript::text(&step),
        })
    }
}

fn json_line(interaction: &Interaction) -> Result<String, Failure> {
    let json = portable::turn_to_json(interaction);
    let json = json.map_err(|source| Failure::Interaction { name: interaction.id.clone(), source });
    Ok(json? + "\n")
}

async fn watch(
    mut client: Client,
    conversation: String,
    after_position: u64,
    form: Form,
) -> Result<(), Failure> {
    let mut written = Written::new(form);
    let form = RecordForm::Decoded as i32;
    let request = pb::WatchInteractionsRequest { conversation, after_position, form };
    let mut watched = client.watch_interactions(request).await?.into_inner();
    let mut output = Output::stdout();
    while let Some(response) = watched.message().await? {
        if let Some(Event::Record(record)) = response.event {
            output.write(written.of(record)?.as_bytes())?;
        }
    }
    Ok(())
}

async fn export(
    mut client: Client,
    conversation: String,
    output: Option<PathBuf>,
) -> Result<(), Failure> {
    let request = pb::ExportConversationRequest { conversation, after_position: 0 };
    let mut exported = client.export_conversation(request).await?.into_inner();
    let mut output = Output::to(output);
    while let Some(response) = exported.message().await? {
        output.write(&response.json_lines)?;
    }
    Ok(())
}

async fn import(mut client: Client, conversation: String, file: &Source) -> Result<(), Failure> {
    let requests = lines::pieces(file.read().await?).map(move |json_lines| {
        pb::ImportConversationRequest { conversation: conversation.clone(), json_lines }
    });
    let requests = futures::stream::iter(requests).boxed();
    let imported = client.import_conversation(requests).await?.into_inner();
    let pb::ImportConversationResponse { appended, existed } = imported;
    Output::stdout().line(&format!("{appended} appended, {existed} there already"))
}

/// Asks whoever sits at the terminal whether a conversation is to be deleted.
async fn agreed(client: &mut Client, name: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::NotAsked);
    }
    // Of those that begin so, the name itself is the first.
    let request = pb::ListConversationsRequest {
        name_prefix: name.to_owned(),
        page_size: 1,
        ..Default::default()
    };
    let found = client.list_conversations(request).await?.into_inner().conversations;
    let shown = clean(name);
    let Some(conversation) = found.into_iter().find(|found| found.name == name) else {
        // Nothing to ask about: it says itself that it is not there.
        return Ok(true);
    };
    let _ = write!(io::stderr(), "delete {shown} and its {}? [y/N] ", count(conversation.length));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    let read = read.map_err(|source| InputError::Read { name: "standard input".into(), source });
    read?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

async fn delete(mut client: Client, conversation: String) -> Result<(), Failure> {
    let request = pb::DeleteConversationRequest { conversation };
    let deleted = client.delete_conversation(request).await?.into_inner().deleted;
    Output::stdout().line(&format!("{} deleted", count(deleted)))
}

fn count(interactions: u64) -> String {
    let plural = if interactions == 1 { "" } else { "s" };
    format!("{interactions} interaction{plural}")
}
