//! A model's turn: the request as the runner understands it, and the round as a
//! response.

use bytes::Bytes;
use futures::Stream;
use prost::Message as _;
use tokio::sync::mpsc;

use super::{caller::Caller, start::invalid};
use crate::action::{Registry, Scope};
use crate::interaction::{
    backend::{Dialect, read_reply},
    document::{self, Document, PORTABLE_JSON, PROTOBUF, read_document},
    store::{ConversationName, Record},
};
use crate::runner::{
    CallEvent, DEFAULT_CALL_TIMEOUT, DEFAULT_MAX_MEDIA_BYTES, DEFAULT_MAX_OUTPUT_BYTES, Limits,
    Plan, Recorder, Recording, RejectedCall, Request, Round, execute,
};
use crate::wire::chunk::JSON;
use crate::wire::pb::{Backend, Interaction, stream_actions_from_interaction_response::Event};
use crate::wire::{Chunk, Reason, Status, headers, pb, time_limit};

/// How many events of a round wait for a caller that reads slowly.
const EVENTS_WAITING: usize = 64;

/// What is to be run, and where it is recorded.
pub(super) struct Work {
    plan: Plan,
    recorded: Option<(Recorder, Recording)>,
}

/// Reads a request, and settles what is to be run.
pub(super) async fn plan(
    registry: &Registry,
    recorder: Option<&Recorder>,
    caller: Caller,
    request: pb::ExecuteActionsFromInteractionRequest,
) -> Result<Work, Status> {
    let pb::ExecuteActionsFromInteractionRequest {
        interaction,
        interaction_json,
        allowed_actions,
        call_timeout,
        max_output_bytes,
        max_media_bytes,
        backend,
        rejected_calls,
        store,
        conversation,
        interaction_id,
    } = request;
    let mut given = match (interaction, interaction_json.is_empty()) {
        (Some(interaction), true) => Given::message(interaction)?,
        (None, false) => Given::json(interaction_json)?,
        (Some(_), false) => {
            return Err(invalid("interaction and interaction_json: only one can be given"));
        }
        (None, true) => return Err(invalid("interaction: required, or interaction_json")),
    };
    if given.turn.id.is_empty() && !interaction_id.is_empty() {
        given = given.with_id(interaction_id)?;
    }
    let recorded = match store {
        // Who names one counts on the record.
        false if !conversation.is_empty() => {
            return Err(invalid("conversation: names where a round is recorded; set store"));
        }
        false => None,
        true => {
            let recorder = recorder.cloned().ok_or_else(|| {
                Status::of(Reason::Unsupported, "store: this server runs without a store")
            })?;
            Some((recorder, given.recording(conversation)?))
        }
    };
    let interaction = given.turn;
    let allow_list = caller.allow_list(&allowed_actions)?;
    let mut headers = caller.headers.clone();
    if !allowed_actions.is_empty() {
        headers.set(headers::ALLOWED_LLM_ACTIONS, allowed_actions.join(","));
    }
    let call_timeout = match call_timeout {
        None => DEFAULT_CALL_TIMEOUT,
        Some(timeout) => time_limit::read("call_timeout", timeout)?,
    };
    let backend = Backend::try_from(backend)
        .map_err(|_| invalid(format!("backend: {backend} is no backend that is known here")))?;
    let rejected = rejected_calls.into_iter().map(|call| {
        let pb::RejectedCall { position, id, name, status } = call;
        let status = status.unwrap_or_default().into();
        RejectedCall { position: position as usize, id, name, status }
    });
    let request = Request {
        interaction,
        allow_list,
        limits: Limits {
            call_timeout,
            deadline: caller.end_of_work(),
            max_output_bytes: max_output_bytes.map_or(DEFAULT_MAX_OUTPUT_BYTES, |n| n as usize),
            max_media_bytes: max_media_bytes.map_or(DEFAULT_MAX_MEDIA_BYTES, |n| n as usize),
            ..Limits::default()
        },
        backend: Some(backend).filter(|backend| *backend != Backend::Unspecified),
        rejected: rejected.collect(),
        sender: headers.text(headers::SESSION).map(str::to_owned),
        headers,
    };
    Ok(Work { plan: Plan::dialling(registry, request).await?, recorded })
}

/// A turn as it was given.
struct Given {
    turn: Interaction,
    came: Came,
}

/// What a turn came as.
enum Came {
    /// Bytes of a media type, which can be kept.
    Bytes(Bytes, &'static str),
    /// A provider's reply.
    Reply,
    /// Something else, or it was changed here.
    Other,
}

impl Given {
    fn message(bytes: Bytes) -> Result<Self, Status> {
        let turn = document::decode_turn(bytes.clone(), PROTOBUF)?;
        Ok(Self { turn, came: Came::Bytes(bytes, PROTOBUF) })
    }

    /// An interaction as JSON text in either form, or a provider's reply.
    fn json(json: String) -> Result<Self, Status> {
        Ok(match read_document(json.as_bytes())? {
            Document::Portable(turn) => {
                Self { turn, came: Came::Bytes(json.into(), PORTABLE_JSON) }
            }
            Document::ProtoJson(turn) => Self { turn, came: Came::Other },
            Document::Other(_) => {
                let role = pb::Role::Model as i32;
                let content = vec![Chunk::new(JSON, json)];
                let turn = Interaction { role, content, ..Interaction::default() };
                Self { turn, came: Came::Reply }
            }
        })
    }

    /// With an id, where it came without one.
    fn with_id(self, id: String) -> Result<Self, Status> {
        let Self { turn, came } = self;
        match came {
            Came::Bytes(bytes, PROTOBUF) => {
                // Two messages after one another are both in one.
                let id = Interaction { id, ..Interaction::default() }.encode_to_vec();
                Self::message([bytes.as_ref(), &id].concat().into())
            }
            Came::Bytes(..) | Came::Other => {
                Ok(Self { turn: Interaction { id, ..turn }, came: Came::Other })
            }
            Came::Reply => Ok(Self { turn: Interaction { id, ..turn }, came: Came::Reply }),
        }
    }

    /// As it is recorded: as the bytes that came, where those can be kept; a
    /// provider's reply with the tokens that it says were spent.
    fn recording(&self, conversation: String) -> Result<Recording, Status> {
        if self.turn.id.is_empty() {
            return Err(invalid(
                "interaction.id, or interaction_id: required with store, a turn is known again by it",
            ));
        }
        let conversation = ConversationName::new(conversation)?;
        let kept = match &self.came {
            Came::Bytes(bytes, media_type) => Record::from_bytes(bytes.clone(), media_type).ok(),
            Came::Reply | Came::Other => None,
        };
        let turn = match (kept, &self.came) {
            (Some(turn), _) => turn,
            (None, Came::Reply) => {
                // By its shape alone, so that it is the same turn whoever sends it again.
                let reply = self.turn.content.first().map(|chunk| read_reply(chunk.data(), None));
                // What is no reply after all is refused before it is recorded.
                let usage_metadata = reply.and_then(Result::ok).and_then(|reply| reply.usage);
                Record::from_interaction(&Interaction { usage_metadata, ..self.turn.clone() })?
            }
            (None, Came::Bytes(..) | Came::Other) => Record::from_interaction(&self.turn)?,
        };
        Ok(Recording { conversation, turn })
    }
}

/// Runs a round for its result.
pub(super) async fn run(
    scope: &Scope,
    work: Work,
) -> Result<pb::ExecuteActionsFromInteractionResponse, Status> {
    Ok(summary(work.execute(scope, None).await?))
}

impl Work {
    async fn execute(
        self,
        scope: &Scope,
        events: Option<mpsc::Sender<CallEvent>>,
    ) -> Result<Round, Status> {
        match self.recorded {
            None => Ok(execute(scope, self.plan, events).await),
            Some((recorder, recording)) => {
                recorder.execute(scope, self.plan, recording, events).await
            }
        }
    }
}

/// Runs a round for its events, the result last. Whoever drops the stream
/// cancels the calls.
pub(super) fn events(
    scope: Scope,
    work: Work,
) -> impl Stream<Item = Result<pb::StreamActionsFromInteractionResponse, tonic::Status>> + Send {
    let calls: Vec<(String, String)> =
        work.plan.calls().map(|(id, name)| (id.to_owned(), name.to_owned())).collect();
    let event = move |event| match event {
        CallEvent::Started { call } => {
            let (id, name) = calls[call].clone();
            Event::Started(pb::CallStarted { id, name })
        }
        CallEvent::Log { call, entry } => {
            Event::Log(pb::CallLog { id: calls[call].0.clone(), entry: Some(entry) })
        }
        CallEvent::Output { call, fragments } => {
            Event::Output(pb::CallOutput { id: calls[call].0.clone(), fragments })
        }
        CallEvent::Finished { call, status, log } => {
            let (id, name) = calls[call].clone();
            Event::Finished(pb::CallResult { id, name, status: Some(status.into()), log })
        }
    };
    let (tell, mut told) = mpsc::channel(EVENTS_WAITING);
    async_stream::stream! {
        let response = |event| Ok(pb::StreamActionsFromInteractionResponse { event: Some(event) });
        let round = work.execute(&scope, Some(tell));
        tokio::pin!(round);
        let round = loop {
            // Both are cancel safe: the round is polled where it stands, and
            // `recv` loses nothing.
            tokio::select! {
                biased;
                Some(told) = told.recv() => yield response(event(told)),
                round = &mut round => break round,
            }
        };
        while let Ok(told) = told.try_recv() {
            yield response(event(told));
        }
        match round {
            Ok(round) => yield response(Event::Summary(summary(round))),
            Err(status) => yield Err(status.into()),
        }
    }
}

fn summary(round: Round) -> pb::ExecuteActionsFromInteractionResponse {
    let Round { results, interaction, messages, dialect } = round;
    let results = results.into_iter().map(|result| pb::CallResult {
        id: result.id,
        name: result.name,
        status: Some(result.status.into()),
        log: result.log,
    });
    pb::ExecuteActionsFromInteractionResponse {
        results: results.collect(),
        interaction: Some(interaction),
        messages,
        backend: dialect.map_or(Backend::Unspecified, Dialect::backend) as i32,
    }
}
