//! Requests and answers of the main job, made and read briefly.

#![allow(missing_docs, dead_code, unreachable_pub)]

use a11_grpc::wire::pb::{
    self, Backend, CallResult, ExecuteActionsFromInteractionRequest, Interaction, NodeFragments,
    StreamActionsFromInteractionRequest, action_service_client::ActionServiceClient,
};
use a11_grpc::wire::{Chunk, NodeFragment, Reason, Status};
use prost::Message as _;
use tonic::{Code, transport::Channel};

/// A client of the service.
pub type Client = ActionServiceClient<Channel>;

/// What a server answered, as code and reason.
pub type Failure = (tonic::Code, Reason);

/// The code and reason of a gRPC failure.
pub fn failure(status: tonic::Status) -> Failure {
    let status = Status::from(status);
    (status.code, status.reason)
}

/// One call of a turn, its inputs given as text.
pub struct Asked {
    pub message: pb::ActionMessage,
    pub inputs: Vec<NodeFragment>,
}

pub fn asked(id: &str, name: &str, inputs: &[(&str, &str)]) -> Asked {
    Asked {
        message: pb::ActionMessage { id: id.into(), name: name.into(), ..Default::default() },
        inputs: inputs
            .iter()
            .map(|(port, text)| NodeFragment::last(*port, Chunk::text(*text)))
            .collect(),
    }
}

/// A model's turn with those calls.
pub fn turn(calls: impl IntoIterator<Item = Asked>) -> Interaction {
    let mut turn =
        Interaction { id: "turn".into(), role: pb::Role::Model as i32, ..Default::default() };
    for Asked { message, inputs } in calls {
        if !inputs.is_empty() {
            turn.action_inputs.insert(message.id.clone(), NodeFragments { fragments: inputs });
        }
        turn.action_calls.push(message);
    }
    turn
}

/// A request to run a turn, everything allowed.
pub fn execute(turn: Interaction) -> ExecuteActionsFromInteractionRequest {
    ExecuteActionsFromInteractionRequest {
        interaction: Some(turn.encode_to_vec().into()),
        allowed_actions: vec![".*".into()],
        ..Default::default()
    }
}

/// A request to run the calls of a provider's raw reply, everything allowed.
pub fn execute_reply(reply: impl Into<String>) -> ExecuteActionsFromInteractionRequest {
    ExecuteActionsFromInteractionRequest {
        interaction_json: reply.into(),
        allowed_actions: vec![".*".into()],
        ..Default::default()
    }
}

/// Every backend there is.
pub const BACKENDS: [Backend; 7] = [
    Backend::Claude,
    Backend::ClaudeCode,
    Backend::Codex,
    Backend::Gemini,
    Backend::Gpt,
    Backend::Ollama,
    Backend::Vllm,
];

/// Id, code and message of a result.
pub fn of_result(result: &CallResult) -> (&str, tonic::Code, &str) {
    let status = result.status.as_ref().expect("a status");
    (&result.id, tonic::Code::from_i32(status.code), &status.message)
}

/// A duration in milliseconds.
pub fn millis(millis: i64) -> pbjson_types::Duration {
    pbjson_types::Duration {
        seconds: millis / 1000,
        nanos: i32::try_from(millis % 1000).expect("fits") * 1_000_000,
    }
}

/// Both forms refuse the request, with the reason and naming `names`.
pub async fn check_refused(
    client: &mut Client,
    request: ExecuteActionsFromInteractionRequest,
    reason: Reason,
    names: &str,
) {
    let streamed = StreamActionsFromInteractionRequest { request: Some(request.clone()) };
    let streamed = client.stream_actions_from_interaction(streamed).await.map(|_| ());
    let whole = client.execute_actions_from_interaction(request).await.map(|_| ());
    for result in [whole, streamed] {
        let status = Status::from(result.expect_err(names));
        assert_eq!((status.code, status.reason), (Code::InvalidArgument, reason), "{status}");
        assert!(status.message.contains(names), "{names}: {status}");
    }
}

/// The statuses of the calls of a round that runs.
pub async fn endings(
    client: &mut Client,
    request: ExecuteActionsFromInteractionRequest,
) -> Vec<(Code, Reason, String)> {
    let response = client.execute_actions_from_interaction(request).await.expect("runs");
    let results = response.into_inner().results.into_iter();
    let status = |result: CallResult| {
        let status = Status::from(result.status.expect("a status"));
        (status.code, status.reason, status.message)
    };
    results.map(status).collect()
}
