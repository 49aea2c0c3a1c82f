//! `conversation`: what a store keeps, on a server or opened here.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use futures::StreamExt as _;
use tonic::transport::Channel;

use super::{
    exit::{Failure, Outcome},
    input::Source,
    output::{Output, tell},
    report::clean,
    target::registry,
};
use crate::client::{self, connect};
use crate::interaction::{Interaction, portable, store, transcript};
use crate::serve::in_process;
use crate::wire::pb::{
    self, RecordForm, interaction_record::Body,
    interaction_service_client::InteractionServiceClient, watch_interactions_response::Event,
};

/// Read, follow and move conversations
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
  a11-grpc conversation import copy support-17.jsonl --store postgres://me@db/conversations")]
pub(super) struct ConversationArgs {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    place: Place,
}

/// Where conversations are kept. A server goes before a store, a flag before the
/// environment.
#[derive(Debug, Args)]
struct Place {
    /// Use the store of the server at this address [env: A11_SERVER]
    #[arg(long, value_name = "URL", global = true, conflicts_with = "store")]
    server: Option<String>,

    /// Open this store: a SQLite file, or postgres://USER@HOST/DATABASE
    /// [env: A11_STORE]
    #[arg(long, value_name = "PLACE", global = true)]
    store: Option<String>,
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
}

impl Place {
    async fn client(&self) -> Result<InteractionServiceClient<Channel>, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let store = match (&self.server, &self.store) {
            (Some(url), _) => return Ok(client::interactions(connect(url).await?)),
            (None, Some(store)) => Some(store.clone()),
            (None, None) => match variable("A11_SERVER") {
                Some(url) => return Ok(client::interactions(connect(&url).await?)),
                None => variable("A11_STORE"),
            },
        };
        let store = store::open(&store.ok_or(Failure::NoPlace)?).await?;
        Ok(client::interactions(
            in_process(registry(None, &[], &tell)?.registry, Some(store)).await?,
        ))
    }
}

impl ConversationArgs {
    pub(super) async fn run(self) -> Result<Outcome, Failure> {
        let client = self.place.client().await?;
        match self.command {
            Command::List { prefix } => list(client, prefix).await?,
            Command::Show { name, html } => show(client, name, html).await?,
            Command::Watch { name, after, json } => {
                let write = if json { json_line } else { text };
                watch(client, name, after, write).await?;
            }
            Command::Export { name, output } => export(client, name, output).await?,
            Command::Import { name, file } => import(client, name, &file).await?,
        }
        Ok(Outcome::Done)
    }
}

type Client = InteractionServiceClient<Channel>;

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

async fn show(mut client: Client, name: String, html: Option<PathBuf>) -> Result<(), Failure> {
    let as_page = html.is_some();
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
            let step = transcript::Step::new(&interaction(record)?);
            let shown = if as_page { transcript::html(&step) } else { transcript::text(&step) };
            output.write(shown.as_bytes())?;
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

fn text(interaction: &Interaction) -> Result<String, Failure> {
    Ok(transcript::text(&transcript::Step::new(interaction)))
}

fn json_line(interaction: &Interaction) -> Result<String, Failure> {
    let json = portable::to_json(interaction);
    let json = json.map_err(|source| Failure::Interaction { name: interaction.id.clone(), source });
    Ok(json? + "\n")
}

async fn watch(
    mut client: Client,
    conversation: String,
    after_position: u64,
    write: fn(&Interaction) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let form = RecordForm::Decoded as i32;
    let request = pb::WatchInteractionsRequest { conversation, after_position, form };
    let mut watched = client.watch_interactions(request).await?.into_inner();
    let mut output = Output::stdout();
    while let Some(response) = watched.message().await? {
        if let Some(Event::Record(record)) = response.event {
            output.write(write(&interaction(record)?)?.as_bytes())?;
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
    let json_lines = file.read().await?;
    let request = pb::ImportConversationRequest { conversation, json_lines };
    let requests = futures::stream::iter([request]).boxed();
    let imported = client.import_conversation(requests).await?.into_inner();
    let pb::ImportConversationResponse { appended, existed } = imported;
    Output::stdout().line(&format!("{appended} appended, {existed} there already"))
}
