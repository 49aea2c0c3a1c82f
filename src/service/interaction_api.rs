//! `InteractionService`: each RPC is read, handed to the store, and answered.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Streaming};

use super::{dialect::dialect, history, records};
use crate::interaction::store::{
    After, ConversationName, Existed, RecordId, Store, Watched, lines, watch,
};
use crate::wire::pb::{self, interaction_service_server::InteractionService};
use crate::wire::{Reason, Status};

/// Serves a store. Cheap to clone.
#[derive(Clone, Default)]
pub struct InteractionApi {
    store: Option<Arc<dyn Store>>,
}

impl InteractionApi {
    /// A service of the conversations in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store: Some(store) }
    }

    /// A service without a store: it validates, and has nothing else.
    pub fn without_store() -> Self {
        Self::default()
    }

    fn store(&self) -> Result<&Arc<dyn Store>, Status> {
        let none = || Status::of(Reason::Unsupported, "this server runs without a store");
        self.store.as_ref().ok_or_else(none)
    }
}

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, tonic::Status>> + Send>>;

#[tonic::async_trait]
impl InteractionService for InteractionApi {
    async fn append_interaction(
        &self,
        request: Request<pb::AppendInteractionRequest>,
    ) -> Result<Response<pb::AppendInteractionResponse>, tonic::Status> {
        let pb::AppendInteractionRequest { conversation, body } = request.into_inner();
        let conversation = name(conversation)?;
        let record = records::read(body)?;
        let appended = self.store()?.append(&conversation, record).await.map_err(Status::from)?;
        Ok(Response::new(pb::AppendInteractionResponse {
            position: appended.position,
            appended_at: Some(records::timestamp(appended.at_millis)),
            existed: appended.existed == Existed::Yes,
        }))
    }

    async fn get_interaction(
        &self,
        request: Request<pb::GetInteractionRequest>,
    ) -> Result<Response<pb::GetInteractionResponse>, tonic::Status> {
        let pb::GetInteractionRequest { conversation, id, form } = request.into_inner();
        let form = records::form(form)?;
        let conversation = name(conversation)?;
        let id = RecordId::new(id).map_err(Status::from)?;
        let stored = self.store()?.get(&conversation, &id).await.map_err(Status::from)?;
        let record = Some(records::message(conversation.as_str(), stored, form)?);
        Ok(Response::new(pb::GetInteractionResponse { record }))
    }

    async fn list_interactions(
        &self,
        request: Request<pb::ListInteractionsRequest>,
    ) -> Result<Response<pb::ListInteractionsResponse>, tonic::Status> {
        let pb::ListInteractionsRequest { conversation, after_position, page_size, form } =
            request.into_inner();
        let form = records::form(form)?;
        let conversation = name(conversation)?;
        let store = self.store()?;
        let after = After { count: page(page_size), ..After::position(after_position) };
        let page = store.list(&conversation, after).await.map_err(Status::from)?;
        let length = store.conversation(&conversation).await.map_err(Status::from)?.length;
        let records = records::page(conversation.as_str(), page, form)?;
        let last = records.last().map_or(after_position, |last| last.position);
        let next_after_position = if last < length { last } else { 0 };
        Ok(Response::new(pb::ListInteractionsResponse { records, next_after_position }))
    }

    type WatchInteractionsStream = ResponseStream<pb::WatchInteractionsResponse>;

    async fn watch_interactions(
        &self,
        request: Request<pb::WatchInteractionsRequest>,
    ) -> Result<Response<Self::WatchInteractionsStream>, tonic::Status> {
        let pb::WatchInteractionsRequest { conversation, after_position, form } =
            request.into_inner();
        let form = records::form(form)?;
        let conversation = name(conversation)?;
        let watched = watch(self.store()?.clone(), conversation.clone(), after_position);
        let responses = watched.map(move |watched| {
            use pb::watch_interactions_response::Event;
            let event = match watched.map_err(Status::from)? {
                Watched::Record(stored) => {
                    Event::Record(records::message(conversation.as_str(), stored, form)?)
                }
                Watched::CaughtUp(position) => Event::CaughtUp(pb::WatchCaughtUp { position }),
            };
            Ok(pb::WatchInteractionsResponse { event: Some(event) })
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn list_forks(
        &self,
        request: Request<pb::ListForksRequest>,
    ) -> Result<Response<pb::ListForksResponse>, tonic::Status> {
        let pb::ListForksRequest { conversation, after_position, page_size } = request.into_inner();
        let conversation = name(conversation)?;
        let size = page(page_size);
        let forks = self.store()?.forks(&conversation, after_position, size + 1).await;
        let mut forks = forks.map_err(Status::from)?;
        let more = forks.len() > size;
        forks.truncate(size);
        let last = forks.last().filter(|_| more).map_or(0, |last| last.position);
        let forks = forks.into_iter().map(records::fork).collect();
        Ok(Response::new(pb::ListForksResponse { forks, next_after_position: last }))
    }

    async fn list_conversations(
        &self,
        request: Request<pb::ListConversationsRequest>,
    ) -> Result<Response<pb::ListConversationsResponse>, tonic::Status> {
        let pb::ListConversationsRequest { name_prefix, page_size, page_token } =
            request.into_inner();
        let after = match page_token.is_empty() {
            true => None,
            false => {
                Some(ConversationName::of_field("page_token", page_token).map_err(Status::from)?)
            }
        };
        let size = page(page_size);
        let found = self.store()?.conversations(&name_prefix, after.as_ref(), size + 1).await;
        let mut found = found.map_err(Status::from)?;
        let more = found.len() > size;
        found.truncate(size);
        let next_page_token =
            found.last().filter(|_| more).map_or_else(String::new, |last| last.name.clone());
        let conversations = found.into_iter().map(records::conversation).collect();
        Ok(Response::new(pb::ListConversationsResponse { conversations, next_page_token }))
    }

    async fn delete_conversation(
        &self,
        request: Request<pb::DeleteConversationRequest>,
    ) -> Result<Response<pb::DeleteConversationResponse>, tonic::Status> {
        let conversation = name(request.into_inner().conversation)?;
        let deleted = self.store()?.delete(&conversation).await.map_err(Status::from)?;
        Ok(Response::new(pb::DeleteConversationResponse { deleted }))
    }

    type ExportConversationStream = ResponseStream<pb::ExportConversationResponse>;

    async fn export_conversation(
        &self,
        request: Request<pb::ExportConversationRequest>,
    ) -> Result<Response<Self::ExportConversationStream>, tonic::Status> {
        let pb::ExportConversationRequest { conversation, after_position } = request.into_inner();
        let conversation = name(conversation)?;
        let store = self.store()?.clone();
        let responses = lines::export(store, conversation, after_position).map(|lines| {
            let json_lines = lines.map_err(Status::from)?;
            Ok(pb::ExportConversationResponse { json_lines })
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn import_conversation(
        &self,
        request: Request<Streaming<pb::ImportConversationRequest>>,
    ) -> Result<Response<pb::ImportConversationResponse>, tonic::Status> {
        let store = self.store()?;
        let mut requests = request.into_inner();
        let mut conversation = None;
        let mut import = lines::Import::default();
        while let Some(pb::ImportConversationRequest { conversation: named, json_lines }) =
            requests.message().await?
        {
            let conversation = match &mut conversation {
                Some(conversation) => conversation,
                none => none.insert(name(named)?),
            };
            import.append(store.as_ref(), conversation, json_lines).await?;
        }
        if let Some(conversation) = &conversation {
            import.finish(store.as_ref(), conversation).await?;
        }
        let lines::Import { appended, existed, .. } = import;
        Ok(Response::new(pb::ImportConversationResponse { appended, existed }))
    }

    async fn validate_interaction(
        &self,
        request: Request<pb::ValidateInteractionRequest>,
    ) -> Result<Response<pb::ValidateInteractionResponse>, tonic::Status> {
        Ok(Response::new(records::validate(request.into_inner())?))
    }

    async fn normalize_interaction(
        &self,
        request: Request<pb::NormalizeInteractionRequest>,
    ) -> Result<Response<pb::NormalizeInteractionResponse>, tonic::Status> {
        Ok(Response::new(history::normalized(request.into_inner())?))
    }

    async fn convert_interactions(
        &self,
        request: Request<pb::ConvertInteractionsRequest>,
    ) -> Result<Response<pb::ConvertInteractionsResponse>, tonic::Status> {
        let request = request.into_inner();
        let turns = match (request.conversation.as_str(), request.interactions.is_empty()) {
            ("", _) => history::checked(request.interactions)?,
            (conversation, true) => {
                let conversation = name(conversation.to_owned())?;
                history::kept(self.store()?.as_ref(), &conversation, request.up_to_position).await?
            }
            (_, false) => {
                let both = "conversation and interactions: only one can be given";
                return Err(Status::of(Reason::InvalidRequest, both).into());
            }
        };
        let dialect = dialect("to", request.to, &request.dialect)?;
        Ok(Response::new(history::converted(&turns, dialect)))
    }
}

fn name(text: String) -> Result<ConversationName, Status> {
    ConversationName::new(text).map_err(Status::from)
}

/// How many a page has: what was asked for, within limits.
fn page(size: u32) -> usize {
    const DEFAULT: usize = 100;
    const MOST: usize = 1000;
    match size as usize {
        0 => DEFAULT,
        size => size.min(MOST),
    }
}
