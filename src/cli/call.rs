//! `call`: runs one action and prints what it gives.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use futures::stream;
use serde_json::json;
use tonic::transport::Channel;

use super::{
    arguments::{Assignment, arguments},
    duration::{duration, to_message},
    exit::{Failure, Outcome, is_before_start},
    input::Source,
    json,
    output::{Output, tell},
    program::Talk,
    report::clean,
    target::Target,
    values::{Document, Values},
};
use crate::wire::{
    Reason, Status,
    pb::{
        self, action_service_client::ActionServiceClient, call_action_request::Message,
        call_action_response::Event,
    },
};

/// Call one action
///
/// Prints what the action gives: a text as it is, JSON laid out, bytes to --output or a pipe; the
/// values of a stream as they come. An action with several outputs prints one JSON document, or, if
/// one of them is a stream, a JSON line a value. Its narration is on standard error.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc call word_count --config actions.toml --arg text='one two three'
  a11-grpc call word_count --config actions.toml --arg text=@letter.txt
  cat letter.txt | a11-grpc call word_count --config actions.toml --arg text=-
  a11-grpc call add --server 127.0.0.1:50051 --args '{\"a\": 1, \"b\": 2}' --json

Values of --arg PORT=VALUE:
  a port of text takes VALUE as it is; one of JSON what VALUE says, or else the string VALUE; one of
  bytes or pictures its bytes. @FILE reads a file, - standard input, @@ is a text that begins
  with @. Repeat --arg for a stream port to give it more values.

Exit codes: 0 it succeeded; 1 it ran and failed; 2 no such action, or wrong arguments; 3 no server,
or another failure.")]
pub(super) struct Call {
    /// The action
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    target: Target,

    /// Give an input port a value: PORT=VALUE, PORT=@FILE, PORT=-
    #[arg(long, value_name = "PORT=VALUE")]
    arg: Vec<Assignment>,

    /// Give arguments as one JSON object; a stream port takes an array. `@FILE`
    /// and `-` are read
    #[arg(long, value_name = "JSON")]
    args: Option<String>,

    /// End the call after this long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "300s")]
    timeout: Duration,

    /// Write the result to this file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print one JSON document: status, result, and log; bytes as base64
    #[arg(long)]
    json: bool,
}

/// How much longer than the call the whole request may take.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

impl Call {
    pub(super) async fn run(mut self, talk: Talk) -> Result<Outcome, Failure> {
        let mut client = self.target.client().await?;
        let schema = self.schema(&mut client).await?;
        // Asked for by its tool name, it is called, and told of, by its own.
        self.name.clone_from(&schema.name);

        let document = if self.json { Document::Json } else { Document::Readable };
        let mut values = Values::new(&schema, document);
        let mut output = Output::to(self.output.clone());
        if values.are_binary() && output.is_terminal() {
            return Err(Failure::BinaryToTerminal);
        }

        let request = self.request(&schema).await?;
        let mut events = client.call_action(request).await?.into_inner();
        let mut narration = Narration { talk, unended: String::new(), all: String::new() };
        let mut status = None;
        while let Some(message) = events.message().await? {
            match message.event {
                Some(Event::Outputs(outputs)) => {
                    for fragment in outputs.fragments {
                        values.take(fragment, &mut output)?;
                    }
                }
                Some(Event::Log(entry)) if !entry.internal => narration.take(&entry.text),
                Some(Event::Status(ended)) => status = Some(Status::from(ended)),
                Some(Event::Log(_)) | None => {}
            }
        }
        narration.end();
        let status = status.ok_or(Failure::Answer("it has no status"))?;
        let outcome = match status.reason {
            _ if status.is_ok() => Outcome::Done,
            reason if is_before_start(reason) => Outcome::NotStarted,
            _ => Outcome::SomeFailed,
        };
        if self.json {
            let text = self.document(&status, &mut values, &narration.all);
            output.line(&json::pretty(&text))?;
            return Ok(outcome);
        }
        if status.is_ok() {
            values.finish(&mut output)?;
        } else {
            tell(&clean(&format!("✗ {} {}", self.name, status.summary())));
        }
        Ok(outcome)
    }

    async fn schema(
        &self,
        client: &mut ActionServiceClient<Channel>,
    ) -> Result<pb::ActionSchema, Failure> {
        let request = pb::GetActionRequest { name: self.name.clone(), ..Default::default() };
        let status = match client.get_action(request).await {
            Ok(answer) => {
                return answer.into_inner().action.ok_or(Failure::Answer("it has no action"));
            }
            Err(status) => status,
        };
        if Status::from(status.clone()).reason != Reason::UnknownAction {
            return Err(status.into());
        }
        let request = pb::ListActionsRequest { runnable_only: true, ..Default::default() };
        let listed = client.list_actions(request).await?.into_inner().actions;
        let nearest = nearest(&self.name, listed.into_iter().map(|action| action.name));
        let among = self.target.among();
        Err(Failure::UnknownAction { name: self.name.clone(), nearest, among })
    }

    /// The opening message, and the fragments that cannot be said in JSON.
    async fn request(
        &self,
        schema: &pb::ActionSchema,
    ) -> Result<tonic::Request<impl futures::Stream<Item = pb::CallActionRequest> + use<>>, Failure>
    {
        let object = match &self.args {
            Some(text) if text == "-" => Some(Source::Stdin.read_text().await?),
            Some(text) => match text.strip_prefix('@') {
                Some(path) => Some(Source::File(path.into()).read_text().await?),
                None => Some(text.clone()),
            },
            None => None,
        };
        let given = arguments(schema, &self.arg, object.as_deref()).await?;
        let start = pb::CallStart {
            action: self.name.clone(),
            arguments_json: given.json,
            timeout: Some(to_message(self.timeout)),
            ..Default::default()
        };
        let fragments = given
            .fragments
            .into_iter()
            .map(|fragment| Message::Inputs(pb::NodeFragments { fragments: vec![fragment] }));
        let messages = std::iter::once(Message::Start(start)).chain(fragments);
        let messages: Vec<pb::CallActionRequest> =
            messages.map(|message| pb::CallActionRequest { message: Some(message) }).collect();
        let mut request = tonic::Request::new(stream::iter(messages));
        request.set_timeout(self.timeout + ANSWER_GRACE);
        Ok(request)
    }

    fn document(&self, status: &Status, values: &mut Values, log: &str) -> String {
        let shown = json::status(status);
        let (action, log) = (json!(self.name), json!(log));
        let mut text = format!(r#"{{"action":{action},"status":{shown}"#);
        if status.is_ok() {
            text.push_str(&format!(r#","result":{}"#, values.document()));
        }
        text.push_str(&format!(r#","log":{log}}}"#));
        text
    }
}

/// The name most like `name`, where one is like it enough to be a slip.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|candidate| (strsim::jaro_winkler(name, &candidate), candidate))
        .filter(|(likeness, _)| *likeness > LIKE_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// From where on names are taken for each other, of 1; what clap uses.
const LIKE_ENOUGH: f64 = 0.7;

/// What the action narrates: shown line by line, and kept for the document.
struct Narration {
    talk: Talk,
    unended: String,
    all: String,
}

/// How much narration is kept for the document, in bytes.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

impl Narration {
    fn take(&mut self, text: &str) {
        if self.all.len() + text.len() <= MAX_KEPT_BYTES {
            self.all.push_str(text);
        }
        self.unended.push_str(text);
        if let Some(end) = self.unended.rfind('\n') {
            let ended: String = self.unended.drain(..=end).collect();
            self.show(&ended);
        }
    }

    fn end(&mut self) {
        let rest = std::mem::take(&mut self.unended);
        self.show(&rest);
    }

    fn show(&self, text: &str) {
        if self.talk == Talk::Normal {
            text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| tell(&clean(line)));
        }
    }
}
