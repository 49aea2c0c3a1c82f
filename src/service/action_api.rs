//! `ActionService`: each RPC is read, handed on, and answered.

use std::{pin::Pin, sync::Arc};

use futures::Stream;
use tonic::{Request, Response, Streaming};

use super::{actions, caller::Caller, one_call, round, start, tools};
use crate::action::{Handlers, Registry, Scope, scope::DEFAULT_CONCURRENT_CALLS};
use crate::listen::Notes;
use crate::runner::Recorder;
use crate::session::RunNodes;
use crate::wire::pb::{self, action_service_server::ActionService};

/// How the service runs calls.
#[derive(Debug, Clone)]
pub struct Config {
    /// How many calls of one request, nested ones included, run at once.
    pub concurrent_calls: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { concurrent_calls: DEFAULT_CONCURRENT_CALLS }
    }
}

/// Serves the actions of a registry. Cheap to clone.
#[derive(Clone)]
pub struct ActionApi {
    registry: Arc<Registry>,
    handlers: Arc<Handlers>,
    config: Config,
    recorder: Option<Recorder>,
    runs: Option<RunNodes>,
}

impl ActionApi {
    /// A service of the actions in `registry`, those that are added later
    /// included.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self::with_config(registry, Config::default())
    }

    /// The same, with its own way to run calls.
    pub fn with_config(registry: Arc<Registry>, config: Config) -> Self {
        Self { registry, handlers: Arc::default(), config, recorder: None, runs: None }
    }

    /// The same, recording rounds that ask for it.
    pub fn recording(self, recorder: Recorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// The same, its calls reachable in `runs` where their callers want it.
    pub fn reachable_in(self, runs: RunNodes) -> Self {
        Self { runs: Some(runs), ..self }
    }

    /// How many handlers run.
    pub fn handlers(&self) -> &Arc<Handlers> {
        &self.handlers
    }

    fn place(&self) -> start::Place {
        start::Place { scope: self.scope(), runs: self.runs.clone() }
    }

    fn scope(&self) -> Scope {
        Scope::limited(self.registry.clone(), self.config.concurrent_calls, self.handlers.clone())
    }
}

type EventStream<T> = Pin<Box<dyn Stream<Item = Result<T, tonic::Status>> + Send>>;

#[tonic::async_trait]
impl ActionService for ActionApi {
    async fn list_actions(
        &self,
        request: Request<pb::ListActionsRequest>,
    ) -> Result<Response<pb::ListActionsResponse>, tonic::Status> {
        Ok(Response::new(actions::list(&self.registry, request.into_inner())?))
    }

    async fn get_action(
        &self,
        request: Request<pb::GetActionRequest>,
    ) -> Result<Response<pb::GetActionResponse>, tonic::Status> {
        Ok(Response::new(actions::describe(&self.registry, request.into_inner())?))
    }

    async fn declare_tools(
        &self,
        request: Request<pb::DeclareToolsRequest>,
    ) -> Result<Response<pb::DeclareToolsResponse>, tonic::Status> {
        let caller = Caller::new(request.metadata())?;
        Ok(Response::new(tools::declared(&self.registry, &caller, request.into_inner())?))
    }

    async fn run_action(
        &self,
        request: Request<pb::RunActionRequest>,
    ) -> Result<Response<pb::RunActionResponse>, tonic::Status> {
        Notes::of(request.extensions()).action(&request.get_ref().action);
        let caller = Caller::new(request.metadata())?;
        let started = start::start(&self.place(), caller, request.into_inner().into())?;
        Ok(Response::new(one_call::run_to_end(started).await?))
    }

    type StreamActionStream = EventStream<pb::StreamActionResponse>;

    async fn stream_action(
        &self,
        request: Request<pb::StreamActionRequest>,
    ) -> Result<Response<Self::StreamActionStream>, tonic::Status> {
        let notes = Notes::of(request.extensions());
        notes.action(&request.get_ref().action);
        let caller = Caller::new(request.metadata())?;
        let started = start::start(&self.place(), caller, request.into_inner().into())?;
        Ok(Response::new(Box::pin(one_call::events(started, notes))))
    }

    type CallActionStream = EventStream<pb::CallActionResponse>;

    async fn call_action(
        &self,
        request: Request<Streaming<pb::CallActionRequest>>,
    ) -> Result<Response<Self::CallActionStream>, tonic::Status> {
        let notes = Notes::of(request.extensions());
        let caller = Caller::new(request.metadata())?;
        // Answered at once, so that a caller that waits for the response headers
        // before it writes is not kept waiting.
        let stream = one_call::stream_both_ways(self.place(), caller, request.into_inner(), notes);
        Ok(Response::new(Box::pin(stream)))
    }

    async fn execute_actions_from_interaction(
        &self,
        request: Request<pb::ExecuteActionsFromInteractionRequest>,
    ) -> Result<Response<pb::ExecuteActionsFromInteractionResponse>, tonic::Status> {
        let notes = Notes::of(request.extensions());
        let caller = Caller::new(request.metadata())?;
        let scope = self.scope().at(caller.depth);
        let work =
            round::plan(&self.registry, self.recorder.as_ref(), caller, request.into_inner())
                .await?;
        Ok(Response::new(round::run(&scope, work, &notes).await?))
    }

    type StreamActionsFromInteractionStream = EventStream<pb::StreamActionsFromInteractionResponse>;

    async fn stream_actions_from_interaction(
        &self,
        request: Request<pb::StreamActionsFromInteractionRequest>,
    ) -> Result<Response<Self::StreamActionsFromInteractionStream>, tonic::Status> {
        let notes = Notes::of(request.extensions());
        let caller = Caller::new(request.metadata())?;
        let scope = self.scope().at(caller.depth);
        let request = request.into_inner().request.unwrap_or_default();
        let work = round::plan(&self.registry, self.recorder.as_ref(), caller, request).await?;
        Ok(Response::new(Box::pin(round::events(scope, work, notes))))
    }
}
