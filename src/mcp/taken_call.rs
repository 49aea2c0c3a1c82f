//! One call of an action that is another server's tool.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use parking_lot::RwLock;
use rmcp::{
    RoleClient,
    handler::client::progress::ProgressDispatcher,
    model::{
        CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
        JsonObject, MetaObject, Request, RequestId, RequestMetaObject, ServerResult,
    },
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use super::{
    call::MAX_LOG_BYTES,
    request_headers::{HEADERS_KEY, META_HEADER},
    result::LOG_KEY,
    taken_result,
    taken_tool::{ARGUMENTS, Arguments, Results, TakenTool},
};
use crate::action::{Context, Port, port::Cardinality};
use crate::wire::chunk::Kind;
use crate::wire::json_weight::{self, Weight};
use crate::wire::{Chunk, Code, Reason, Status, base64, headers};

/// How many bytes the arguments of a call have at most: they are all held until the
/// call is sent.
const MAX_ARGUMENT_BYTES: usize = 16 << 20;

/// The server as it is reached at the moment.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) peer: Peer<RoleClient>,
    pub(super) progress: ProgressDispatcher,
}

/// Where calls go: nowhere while the server is away.
#[derive(Clone, Default)]
pub(super) struct Line(pub(super) Arc<RwLock<Option<Connected>>>);

/// Runs one call to its end.
///
/// # Errors
/// UNAVAILABLE while the server is away; else what the tool failed with.
pub(super) async fn run(
    context: Context,
    taken: Arc<TakenTool>,
    server: Arc<str>,
    line: Line,
) -> Result<(), Status> {
    let connected = line.0.read().clone();
    let Some(Connected { peer, progress }) = connected else {
        return Err(away(&server));
    };
    let mut params = CallToolRequestParams::new(taken.tool.clone());
    params.arguments = arguments(&context, &taken).await?;
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let options = PeerRequestOptions::no_options().with_meta(meta(&context, &taken)?);
    let request = peer
        .send_cancellable_request(request, options)
        .await
        .map_err(|error| refused(&server, error))?;
    let mut narration = progress.subscribe(request.progress_token.clone()).await;
    let mut cancel = Cancel { peer, id: Some(request.id.clone()) };
    let answer = request.await_response();
    tokio::pin!(answer);
    let mut told = String::new();
    let answered = loop {
        // Cancel safe: the answer is polled where it stands.
        tokio::select! {
            biased;
            Some(progress) = narration.next() => {
                tell(&context, &taken, progress.message.as_deref(), &mut told);
            }
            answered = &mut answer => break answered,
        }
    };
    cancel.id = None;
    let result = match answered.map_err(|error| refused(&server, error))? {
        ServerResult::CallToolResult(result) => result,
        _ => {
            let fault = format!("the MCP server {server:?} did not answer with a tool result");
            return Err(Status::handler(Code::Unknown, fault));
        }
    };
    tell_rest(&context, &result, &told);
    for (port, chunk) in taken_result::outputs(&taken, result)? {
        context.write_chunk(&port, chunk).await?;
    }
    Ok(())
}

/// What another server narrates becomes this action's log.
fn tell(context: &Context, taken: &TakenTool, message: Option<&str>, told: &mut String) {
    let Some(message) = message else { return };
    // As much as an A11 server sends of its log with a result.
    if told.len() + message.len() <= MAX_LOG_BYTES {
        told.push_str(message);
    }
    match taken.results {
        // An A11 server's own log: its entries are what they were.
        Results::Ports => context.log(message),
        Results::Blocks => context.log(format!("{message}\n")),
    }
}

/// The log that came with the result, as far as it was not told before.
fn tell_rest(context: &Context, result: &CallToolResult, told: &str) {
    let log = result.meta.as_ref().and_then(|meta| meta.get(LOG_KEY)).and_then(Value::as_str);
    if let Some(rest) = log.and_then(|log| log.strip_prefix(told)).filter(|rest| !rest.is_empty()) {
        context.log(rest);
    }
}

fn away(server: &str) -> Status {
    Status::of(Reason::UnknownSession, format!("the MCP server {server:?} cannot be reached"))
}

/// What a call that came to no result means.
fn refused(server: &str, error: ServiceError) -> Status {
    /// JSON-RPC and MCP error codes.
    const INVALID: [i32; 3] = [-32700, -32600, -32602];
    match error {
        ServiceError::McpError(error) => {
            let code = match error.code.0 {
                code if INVALID.contains(&code) => Code::InvalidArgument,
                -32601 => Code::NotFound,
                _ => Code::Unknown,
            };
            let text = format!("the MCP server {server:?} refused the call: {}", error.message);
            Status::handler(code, text)
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => away(server),
        ServiceError::Timeout { .. } => {
            Status::of(Reason::Deadline, format!("the MCP server {server:?} did not answer"))
        }
        error => Status::handler(Code::Unknown, format!("the MCP server {server:?}: {error}")),
    }
}

/// The inputs as the tool's arguments; one that was not given is left out.
async fn arguments(context: &Context, taken: &TakenTool) -> Result<Option<JsonObject>, Status> {
    let names = match &taken.arguments {
        Arguments::Whole => {
            let given = context.read_chunk_within(ARGUMENTS, MAX_ARGUMENT_BYTES).await?;
            let object = given.map(|chunk| json_weight::read(chunk.data())).transpose();
            return object.map_err(|error| {
                Status::of(Reason::InvalidInput, format!("input {ARGUMENTS:?}: {error}"))
            });
        }
        Arguments::Named(names) => names,
    };
    let mut arguments = JsonObject::new();
    let mut room = Room { bytes: MAX_ARGUMENT_BYTES, weight: Weight::default() };
    for (port, name) in taken.schema.inputs().iter().zip(names) {
        let value = match port.cardinality() {
            Cardinality::Unary => match context.read_chunk_within(port.name(), room.bytes).await? {
                Some(chunk) => Some(room.value(port, &chunk)?),
                None => None,
            },
            Cardinality::Stream => {
                let mut chunks = context.read_chunks(port.name())?;
                let mut values = vec![];
                while let Some(chunk) = chunks.try_next().await? {
                    values.push(room.value(port, &chunk)?);
                }
                let given = !values.is_empty() || port.is_required();
                given.then(|| Value::from(values))
            }
        };
        if let Some(value) = value {
            arguments.insert(name.clone(), value);
        }
    }
    Ok(Some(arguments))
}

/// What the arguments of a call may still take.
struct Room {
    bytes: usize,
    weight: Weight,
}

impl Room {
    fn value(&mut self, port: &Port, chunk: &Chunk) -> Result<Value, Status> {
        // Each value takes more than its bytes.
        const FIXED_BYTES: usize = 64;
        let bytes = self.bytes.checked_sub(FIXED_BYTES + chunk.data().len());
        self.bytes = bytes.ok_or_else(|| {
            Status::handler(
                Code::ResourceExhausted,
                format!("the arguments of a tool are {MAX_ARGUMENT_BYTES} bytes at most"),
            )
        })?;
        let value = value(port, chunk)?;
        if Kind::of(chunk.media_type()) == Kind::Json {
            self.weight.add(chunk.data())?;
        }
        Ok(value)
    }
}

fn value(port: &Port, chunk: &Chunk) -> Result<Value, Status> {
    let unfit = |error: &dyn std::fmt::Display| {
        Status::of(Reason::InvalidInput, format!("input {:?}: {error}", port.name()))
    };
    match Kind::of(chunk.media_type()) {
        Kind::Text => {
            let text = std::str::from_utf8(chunk.data()).map_err(|error| unfit(&error))?;
            Ok(text.into())
        }
        Kind::Json => json_weight::read(chunk.data()).map_err(|error| unfit(&error)),
        Kind::Image | Kind::Audio | Kind::Bytes => Ok(base64::encode(chunk.data()).into()),
    }
}

/// The request's `_meta`: what the `x-a11-mcp-meta` header holds, and for an
/// A11 server the headers that flow and those its action declares. Deadline and
/// allow-list are this side's own.
fn meta(context: &Context, taken: &TakenTool) -> Result<RequestMetaObject, Status> {
    let mut meta = match context.headers().text(META_HEADER) {
        None => JsonObject::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Status::of(Reason::InvalidRequest, format!("{META_HEADER} is no JSON object: {error}"))
        })?,
    };
    if taken.results == Results::Ports {
        let own = [headers::DEADLINE, headers::ALLOWED_LLM_ACTIONS, META_HEADER];
        let sent: JsonObject = context
            .headers()
            .iter()
            .filter(|(name, _)| !own.contains(name))
            .filter_map(|(name, value)| {
                Some((name.to_owned(), std::str::from_utf8(value).ok()?.into()))
            })
            .collect();
        if !sent.is_empty() {
            meta.insert(HEADERS_KEY.to_owned(), sent.into());
        }
    }
    Ok(RequestMetaObject::from(MetaObject::from(meta)))
}

/// Cancels the request at the server when the call here is over before it.
struct Cancel {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("the call is over".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(id), reason);
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}
