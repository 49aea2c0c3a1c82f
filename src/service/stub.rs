//! Stands in for the action service: lists actions, runs none.

use std::sync::Arc;

use futures::stream::BoxStream;
use tonic::{Request, Response, Status as GrpcStatus, Streaming};

use crate::action::{Registry, document, schema::Ports};
use crate::wire::pb::{self, action_service_server::ActionService};
use crate::wire::{Reason, Status};

/// The action service over a registry.
pub struct ActionApi {
    registry: Arc<Registry>,
}

impl ActionApi {
    /// The service of a registry's actions.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }
}

fn ports(all: bool) -> Ports {
    if all { Ports::All } else { Ports::Callable }
}

type Events<T> = BoxStream<'static, Result<T, GrpcStatus>>;

#[tonic::async_trait]
impl ActionService for ActionApi {
    async fn list_actions(
        &self,
        request: Request<pb::ListActionsRequest>,
    ) -> Result<Response<pb::ListActionsResponse>, GrpcStatus> {
        let request = request.into_inner();
        let ports = ports(request.all_ports);
        let entries = self.registry.entries(None);
        Ok(Response::new(pb::ListActionsResponse {
            actions: entries
                .iter()
                .map(|entry| entry.schema().to_message(entry.runnable(), ports))
                .collect(),
            document: match request.include_document {
                true => document::write(entries.iter(), ports),
                false => String::new(),
            },
            next_page_token: String::new(),
        }))
    }

    async fn get_action(
        &self,
        request: Request<pb::GetActionRequest>,
    ) -> Result<Response<pb::GetActionResponse>, GrpcStatus> {
        let request = request.into_inner();
        let entry = self.registry.entry(&request.name).ok_or_else(|| {
            Status::of(Reason::UnknownAction, format!("there is no action {:?}", request.name))
        })?;
        let action = entry.schema().to_message(entry.runnable(), ports(request.all_ports));
        Ok(Response::new(pb::GetActionResponse { action: Some(action), document: String::new() }))
    }

    async fn run_action(
        &self,
        _: Request<pb::RunActionRequest>,
    ) -> Result<Response<pb::RunActionResponse>, GrpcStatus> {
        Err(GrpcStatus::unimplemented("not yet"))
    }

    type StreamActionStream = Events<pb::StreamActionResponse>;

    async fn stream_action(
        &self,
        _: Request<pb::StreamActionRequest>,
    ) -> Result<Response<Self::StreamActionStream>, GrpcStatus> {
        Err(GrpcStatus::unimplemented("not yet"))
    }

    type CallActionStream = Events<pb::CallActionResponse>;

    async fn call_action(
        &self,
        _: Request<Streaming<pb::CallActionRequest>>,
    ) -> Result<Response<Self::CallActionStream>, GrpcStatus> {
        Err(GrpcStatus::unimplemented("not yet"))
    }

    async fn execute_actions_from_interaction(
        &self,
        _: Request<pb::ExecuteActionsFromInteractionRequest>,
    ) -> Result<Response<pb::ExecuteActionsFromInteractionResponse>, GrpcStatus> {
        Err(GrpcStatus::unimplemented("not yet"))
    }

    type StreamActionsFromInteractionStream = Events<pb::StreamActionsFromInteractionResponse>;

    async fn stream_actions_from_interaction(
        &self,
        _: Request<pb::StreamActionsFromInteractionRequest>,
    ) -> Result<Response<Self::StreamActionsFromInteractionStream>, GrpcStatus> {
        Err(GrpcStatus::unimplemented("not yet"))
    }
}
