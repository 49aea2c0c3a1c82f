//! `execute`: runs the tool calls of a model's turn and prints the next turn.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tonic::{Request, transport::Channel};

use super::{
    backend::Backend,
    duration::{duration, to_message},
    exit::{Among, Failure, ONLY_BUILT_IN, Outcome},
    input::{InputError, Source},
    json,
    output::{Output, tell},
    program::Talk,
    report::{Report, clean, status_line},
    target::Target,
};
use crate::interaction::{
    backend::read_reply,
    document::{Document, read_document},
    portable, proto_json,
};
use crate::wire::{
    Name, Reason, Status,
    pb::{
        self, action_service_client::ActionServiceClient,
        stream_actions_from_interaction_response::Event,
    },
};

/// Run the tool calls of a model's reply, and print the turn to go on with
///
/// FILE holds a provider's raw reply (Claude, OpenAI chat or Responses, Gemini, Ollama), or an
/// Interaction in either JSON form; which one is seen from its shape. The calls run side by side;
/// one that fails becomes a failed result for the model and disturbs no other.
///
/// Nothing runs unless --allow says so: a model may ask for anything.
///
/// Of several files each is a turn of its own: they run one after the other, and each prints its own
/// JSON document.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  Print the messages to append to the conversation, in the provider's own shape:
    a11-grpc execute reply.json --config actions.toml --allow 'word_count|order_.*' \\
        --print messages

  Read the reply from a pipe, and give all calls ten seconds:
    curl … | a11-grpc execute - --server 127.0.0.1:50051 --allow '.*' --deadline 10s

  See only how each call ended:
    a11-grpc execute reply.json --config actions.toml --allow '.*' --print results

Exit codes: 0 every call succeeded; 1 some call failed (its result says why, and is printed with
the others); 2 the file or the arguments are unusable; 3 no server, or another failure.")]
pub(super) struct Execute {
    /// The reply or interaction, JSON; `-` reads standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<Source>,

    #[command(flatten)]
    target: Target,

    /// Let the model call actions whose whole name this regular expression
    /// matches. Can be given more than once; none at all lets it call nothing
    #[arg(long, value_name = "PATTERN")]
    allow: Vec<String>,

    /// Shape the messages for this provider. An interaction takes any; a raw reply
    /// has its own, and is refused for another [default: the one the reply is from]
    #[arg(long, value_name = "NAME", value_enum)]
    backend: Option<Backend>,

    /// End all calls after this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    deadline: Option<Duration>,

    /// End each call after this long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "300s")]
    call_timeout: Duration,

    /// Fail a call that puts out more bytes than this, pictures and sound apart
    /// [default: 131072]
    #[arg(long, value_name = "N")]
    max_output_bytes: Option<u32>,

    /// What to print
    #[arg(long, value_name = "WHAT", value_enum, default_value = "interaction")]
    print: Print,

    /// The JSON form of a printed interaction
    #[arg(long, value_name = "FORM", value_enum, default_value = "portable")]
    form: Form,

    /// Print results as JSON too (the rest always is)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    /// The tool-result interaction.
    Interaction,
    /// The JSON list of what to append for the provider.
    Messages,
    /// One line a call.
    Results,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The portable A11 JSON.
    Portable,
    /// proto3 JSON.
    Proto,
}

/// How much longer than its calls the whole request may take.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

impl Execute {
    pub(super) async fn run(self, talk: Talk) -> Result<Outcome, Failure> {
        // All are read first, so that what is unusable is found before anything
        // runs.
        let mut turns = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let turn = file.read_text().await?;
            self.recognise(file, &turn)?;
            turns.push((file, turn));
        }
        let several = turns.len() > 1;
        let mut client = self.target.client().await?;
        let mut outcome = Outcome::Done;
        for (file, turn) in turns {
            if several && talk == Talk::Normal {
                tell(&format!("{file}:"));
            }
            outcome = outcome.and(self.run_turn(&mut client, turn, talk).await?);
        }
        Ok(outcome)
    }

    /// Whether a file holds an interaction or a reply.
    fn recognise(&self, file: &Source, turn: &str) -> Result<(), Failure> {
        if turn.trim().is_empty() {
            return Err(InputError::Empty { name: file.to_string() }.into());
        }
        let document = read_document(turn.as_bytes())
            .map_err(|source| Failure::Interaction { name: file.to_string(), source })?;
        if let Document::Other(raw) = document {
            let backend = self.backend.map(Into::into);
            read_reply(raw.get().as_bytes(), backend)
                .and_then(|reply| reply.fits(backend))
                .map_err(|source| Failure::Reply { name: file.to_string(), source })?;
        }
        Ok(())
    }

    async fn run_turn(
        &self,
        client: &mut ActionServiceClient<Channel>,
        interaction_json: String,
        talk: Talk,
    ) -> Result<Outcome, Failure> {
        let request = self.request(interaction_json);
        let mut events = client.stream_actions_from_interaction(request).await?.into_inner();

        let mut report = Report::new(talk);
        let mut summary = None;
        while let Some(message) = events.message().await? {
            match message.event {
                Some(Event::Started(call)) => report.started(&call.id, &call.name),
                Some(Event::Log(log)) => {
                    let entry = log.entry.unwrap_or_default();
                    if !entry.internal {
                        report.log(&log.id, &entry.text);
                    }
                }
                Some(Event::Finished(result)) => report.finished(&result),
                Some(Event::Summary(response)) => summary = Some(response),
                Some(Event::Output(_)) | None => {}
            }
        }
        drop(report);
        let summary = summary.ok_or(Failure::Answer("it has no summary"))?;
        if talk == Talk::Normal {
            self.hint(client, &summary).await;
        }
        self.print(&summary)?;
        let failed = summary.results.iter().any(|result| status_of(result).code != tonic::Code::Ok);
        Ok(if failed { Outcome::SomeFailed } else { Outcome::Done })
    }

    fn request(
        &self,
        interaction_json: String,
    ) -> Request<pb::StreamActionsFromInteractionRequest> {
        let mut request = Request::new(pb::StreamActionsFromInteractionRequest {
            request: Some(pb::ExecuteActionsFromInteractionRequest {
                interaction_json,
                allowed_actions: self.allow.clone(),
                call_timeout: Some(to_message(self.call_timeout)),
                max_output_bytes: self.max_output_bytes,
                backend: self.backend.map_or(pb::Backend::Unspecified, Into::into).into(),
                ..Default::default()
            }),
        });
        if let Some(deadline) = self.deadline {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let millis = (now + deadline).as_millis().to_string();
            if let Ok(value) = millis.parse() {
                request.metadata_mut().insert("x-a11-deadline", value);
            }
            // The calls end by the header; this is for a server that does not answer.
            request.set_timeout(deadline + ANSWER_GRACE);
        }
        request
    }

    /// Says where to look for what was not found, and how to allow what was refused
    /// for want of any `--allow`.
    async fn hint(
        &self,
        client: &mut ActionServiceClient<Channel>,
        summary: &pb::ExecuteActionsFromInteractionResponse,
    ) {
        let is_unknown =
            |result: &pb::CallResult| status_of(result).reason == Reason::UnknownAction;
        if self.target.among() == Among::BuiltIn && summary.results.iter().any(is_unknown) {
            tell(&format!("hint: {ONLY_BUILT_IN}"));
        }
        if !self.allow.is_empty() {
            return;
        }
        let denied: BTreeSet<&str> = summary
            .results
            .iter()
            .filter(|result| status_of(result).reason == Reason::NotAllowed)
            .map(|result| result.name.as_str())
            // Only names need no quoting in a pattern.
            .filter(|name| name.parse::<Name>().is_ok())
            .collect();
        if !denied.is_empty() {
            let mut names = Vec::with_capacity(denied.len());
            for name in denied {
                names.push(own_name(client, name).await);
            }
            let pattern = names.join("|");
            tell(&format!("hint: nothing is allowed without --allow; try --allow '{pattern}'"));
        }
    }

    fn print(&self, summary: &pb::ExecuteActionsFromInteractionResponse) -> Result<(), Failure> {
        let mut output = Output::stdout();
        match self.print {
            Print::Interaction => {
                let interaction =
                    summary.interaction.as_ref().ok_or(Failure::Answer("it has no interaction"))?;
                let written = match self.form {
                    Form::Portable => portable::to_json(interaction),
                    Form::Proto => proto_json::to_json(interaction),
                };
                let text = written.map_err(|source| Failure::Interaction {
                    name: "the server's answer".to_owned(),
                    source,
                })?;
                output.line(&json::pretty(&text))
            }
            Print::Messages => {
                if pb::Backend::try_from(summary.backend).unwrap_or_default()
                    == pb::Backend::Unspecified
                {
                    tell("hint: an interaction belongs to no provider; name one with --backend");
                }
                output.line(&json::pretty(&format!("[{}]", summary.messages.join(","))))
            }
            Print::Results if self.json => {
                let results: Vec<_> = summary.results.iter().map(result_json).collect();
                output.line(&json::pretty(&json!(results).to_string()))
            }
            Print::Results => {
                for result in &summary.results {
                    output.line(&clean(&status_line(result, None)))?;
                }
                Ok(())
            }
        }
    }
}

fn result_json(result: &pb::CallResult) -> Value {
    let pb::CallResult { id, name, status: _, log } = result;
    json!({ "id": id, "name": name, "status": json::status(&status_of(result)), "log": log })
}

/// The name of the action that a model called by its tool name: what allow-lists
/// match. Any other name is its own.
async fn own_name(client: &mut ActionServiceClient<Channel>, name: &str) -> String {
    /// How many hexadecimal digits a name ends in that was made of another.
    const DIGITS: usize = 12;
    let end = name.rsplit_once('_').map_or("", |(_, end)| end);
    if end.len() == DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let request = pb::GetActionRequest { name: name.to_owned(), ..Default::default() };
        // Only a hint: without an answer the name stands as the model said it.
        if let Ok(answer) = client.get_action(request).await
            && let Some(action) = answer.into_inner().action
        {
            return action.name;
        }
    }
    name.to_owned()
}

fn status_of(result: &pb::CallResult) -> Status {
    result.status.clone().unwrap_or_default().into()
}
