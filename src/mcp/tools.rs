//! One client's view of a server: it lists the tools, runs them, and is told
//! when the list changes.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
        Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::{
    call::{self, Finished, Told},
    catalog::Page,
    request_headers,
    result::for_version,
    server::{McpServer, Shared},
};
use crate::action::{Call, Entry, Inputs, Run, Scope};
use crate::listen::Line;
use crate::wire::name::is_name;
use crate::wire::{Code, Headers, Reason, Status, headers, time_limit::deadline_after};

/// The requests of the protocol. One of these that was not recognised has
/// parameters of another shape.
const METHODS: [&str; 6] =
    ["initialize", "server/discover", "tools/list", "tools/call", "ping", "subscriptions/listen"];

/// The handler of one session, or of one request where there are no sessions.
pub(super) struct Tools {
    shared: Arc<Shared>,
    /// Ends, with this, whatever was begun for the session.
    session: CancellationToken,
    _ends: DropGuard,
}

impl Tools {
    pub(super) fn new(server: &McpServer) -> Self {
        let session = CancellationToken::new();
        Self { shared: server.0.clone(), _ends: session.clone().drop_guard(), session }
    }

    /// Starts a call.
    fn start(
        &self,
        entry: Entry,
        arguments: Option<JsonObject>,
        meta: &JsonObject,
    ) -> Result<Run, Status> {
        let options = &self.shared.options;
        let raw = |value: &serde_json::Value| {
            to_raw_value(value).map_err(|e| Status::of(Reason::InvalidInput, e.to_string()))
        };
        let arguments: Vec<(String, Box<RawValue>)> = arguments
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| Ok((name, raw(&value)?)))
            .collect::<Result<_, Status>>()?;
        let arguments = arguments.iter().map(|(name, value)| (name.as_str(), &**value));
        let inputs = Inputs::from_arguments(entry.schema(), arguments)?;
        let asked = request_headers::asked(meta);
        let headers = options.accept_headers.applied(entry.schema(), &asked);
        let end = deadline_after(options.deadline);
        let deadline = match (end, asked_deadline(&headers)?) {
            (Some(end), Some(asked)) => Some(end.min(asked)),
            (end, asked) => end.or(asked),
        };
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(Status::of(Reason::Deadline, "the deadline has passed"));
        }
        let scope = Scope::limited(
            options.registry.clone(),
            options.concurrent_calls,
            options.handlers.clone(),
        );
        let id = Uuid::new_v4().simple().to_string();
        scope.start(Call { id, entry, inputs, headers, deadline })
    }

    /// Runs a call; `None` where it was cancelled.
    async fn run(
        &self,
        entry: Entry,
        arguments: Option<JsonObject>,
        context: RequestContext<RoleServer>,
    ) -> Option<Finished> {
        let _running = self.shared.calls.token();
        if self.shared.closing.is_cancelled() {
            let status = Status::of(Reason::ShuttingDown, "the server is shutting down");
            return Some(Finished::failed(&status, ""));
        }
        let Ok(_slot) = self.shared.slots.try_acquire() else {
            let status = Status::handler(Code::ResourceExhausted, "too many calls run here");
            return Some(Finished::failed(&status, ""));
        };
        let run = match self.start(entry, arguments, &context.meta) {
            Ok(run) => run,
            Err(status) => return Some(Finished::failed(&status, "")),
        };
        let mut told = 0.0;
        let peer = &context.peer;
        let tell = context.meta.get_progress_token().map(|token| {
            move |text: String| -> Told {
                told += 1.0;
                let progress = ProgressNotificationParam::new(token.clone(), told);
                let progress = progress.with_message(text);
                let peer = peer.clone();
                Box::pin(async move {
                    // A client that has left needs no narration.
                    let _ = peer.notify_progress(progress).await;
                })
            }
        });
        call::follow(run, self.shared.options.result_limits, &context.ct, tell).await
    }
}

/// Who a client says that it is.
fn client_of(context: &RequestContext<RoleServer>) -> Option<String> {
    let said = context.meta.client_info();
    let said = said.or_else(|| Some(context.peer.peer_info()?.client_info.clone()))?;
    Some(format!("{}/{}", said.name, said.version))
}

/// The deadline in headers that were accepted.
fn asked_deadline(headers: &Headers) -> Result<Option<Instant>, Status> {
    let Some(text) = headers.text(headers::DEADLINE) else { return Ok(None) };
    headers::deadline(text).ok_or_else(|| {
        Status::of(
            Reason::InvalidRequest,
            "x-a11-deadline is not a number of milliseconds since the Unix epoch",
        )
    })
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let server = Implementation::new(
            self.shared.options.name.clone(),
            env!("CARGO_PKG_VERSION").to_owned(),
        );
        ServerConfig::new(capabilities).with_server_info(server)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        if cursor.as_deref().is_some_and(|cursor| !is_name(cursor)) {
            return Err(ErrorData::invalid_params("the cursor is none of this list", None));
        }
        let Page { tools, next } = self.shared.catalog.page(cursor.as_deref());
        let mut page = ListToolsResult::with_all_items(tools);
        page.next_cursor = next;
        Ok(page)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.catalog.tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Dropped with this where the client leaves.
        let mut line = Line::begin("mcp/tools/call");
        let client = client_of(&context);
        let Some(entry) = self.shared.catalog.entry(&request.name) else {
            line.of_action(&request.name, client.as_deref());
            line.end(Code::NotFound);
            let shown: String = request.name.chars().take(255).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool {shown:?}"), None));
        };
        line.of_action(entry.schema().name().as_str(), client.as_deref());
        let version = context.protocol_version().unwrap_or_default();
        match self.run(entry, request.arguments, context).await {
            Some(Finished { result, code }) => {
                line.end(code);
                Ok(for_version(result, &version).into())
            }
            // Its client does not wait for an answer; none is sent.
            None => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (shared, session) = (self.shared.clone(), self.session.clone());
        tokio::spawn(session.run_until_cancelled_owned(async move {
            let mut changes = shared.catalog.changes();
            let mut tools = shared.catalog.tools();
            while changes.changed().await.is_ok() {
                let now = shared.catalog.tools();
                if !Arc::ptr_eq(&tools, &now)
                    && context.peer.notify_tool_list_changed().await.is_err()
                {
                    return;
                }
                tools = now;
            }
        }));
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.catalog.changes();
        let mut tools = self.shared.catalog.tools();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = self.shared.closing.cancelled() => return Ok(()),
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
            }
            let now = self.shared.catalog.tools();
            if !Arc::ptr_eq(&tools, &now)
                && subscription.sink().notify_tool_list_changed().await.is_err()
            {
                return Ok(());
            }
            tools = now;
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, .. } = request;
        if METHODS.contains(&method.as_str()) {
            let fault = format!("the parameters of {method} have another shape");
            return Err(ErrorData::invalid_params(fault, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}
