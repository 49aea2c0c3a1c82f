//! What is to be run, settled before anything starts: each call's action, inputs
//! and headers, or why it is refused.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use bytes::Bytes;

use super::{
    allow_list::AllowList,
    answer::Answer,
    limits::Limits,
    route::{self, Dialled, Names},
};
use crate::action::{ActionSchema, Entry, Inputs, Registry};
use crate::interaction::backend::{Arguments, Dialect, ReplyCall, parse_backend, read_reply};
use crate::wire::chunk::Kind;
use crate::wire::name::{is_name, shown};
use crate::wire::pb::{Backend, Interaction};
use crate::wire::{Headers, Name, NodeFragment, Reason, Status, headers, pb};

/// What a caller asks the runner for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The model's turn: with calls, or with the provider's raw reply as content.
    pub interaction: Interaction,
    /// Which actions the model may call. Empty: none.
    pub allow_list: AllowList,
    /// The limits of each call.
    pub limits: Limits,
    /// Whose message shape is wanted. `None`: that of the raw reply, if there is
    /// one. A raw reply of another backend is refused.
    pub backend: Option<Backend>,
    /// Calls that were refused before they came here.
    pub rejected: Vec<RejectedCall>,
    /// Headers for all calls. Only what flows or is declared arrives.
    pub headers: Headers,
    /// The caller's own session.
    pub sender: Option<String>,
}

/// The most calls of one turn, those that were refused before included.
const MAX_CALLS: usize = 16_384;

/// A call that was refused before it came here.
#[derive(Debug, Clone)]
pub struct RejectedCall {
    /// Its place among all the calls the model made, from 0.
    pub position: usize,
    /// The model's id for it, empty where there is none.
    pub id: String,
    /// The action it named.
    pub name: String,
    /// Why.
    pub status: Status,
}

/// A round of calls, settled.
pub struct Plan {
    pub(super) calls: Vec<PlannedCall>,
    pub(super) dialect: Option<Dialect>,
    pub(super) limits: Limits,
    pub(super) answer: Answer,
    pub(super) previous: String,
}

/// What a call is known by to those who made it.
#[derive(Debug)]
pub(super) struct Known {
    /// The id that the results have: the model's own, or one made here.
    pub(super) id: String,
    /// Whether the model gave that id.
    pub(super) id_is_own: bool,
    /// What the model called, by which its provider pairs the result.
    pub(super) name: String,
}

/// One call of a round.
pub(super) struct PlannedCall {
    pub(super) known: Known,
    /// The id that the call runs under: its own where that is a name, else one made
    /// here.
    pub(super) run_id: String,
    /// What to start, or why not.
    pub(super) start: Result<Prepared, Status>,
}

pub(super) struct Prepared {
    pub(super) entry: Entry,
    pub(super) inputs: Inputs,
    pub(super) headers: Headers,
}

impl Prepared {
    /// With the key by which the handler knows the call again; none where the turn
    /// has no id.
    fn known_as(mut self, turn: &str, call: &str) -> Self {
        self.headers.remove(headers::IDEMPOTENCY_KEY);
        if !turn.is_empty() {
            self.headers.set(headers::IDEMPOTENCY_KEY, format!("{turn}/{call}"));
        }
        self
    }
}

/// A call as it was asked for, whichever way.
struct Asked {
    /// The model's own id; empty where it gave none.
    id: String,
    /// What it called: an action's name or tool name.
    name: String,
    arguments: Asking,
    headers: BTreeMap<String, Bytes>,
}

impl Asked {
    /// Whether it may run at all.
    fn is_called(&self) -> bool {
        !matches!(self.arguments, Asking::Rejected(_) | Asking::Reply(Err(_)))
    }
}

enum Asking {
    Fragments { bindings: Vec<pb::PortBinding>, fragments: Vec<NodeFragment> },
    Reply(Result<Arguments, String>),
    Rejected(Status),
}

impl Plan {
    /// Settles a round.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for what is wrong with the whole: content that is no
    /// provider's reply, two calls of one id, a rejected call out of place. What
    /// is wrong with one call is that call's result.
    pub fn new(registry: &Registry, request: Request) -> Result<Self, Status> {
        Draft::read(request)?.settle(registry, &Dialled::new())
    }

    /// The same, with the actions of MCP servers that `action_configs` names: those
    /// that are called, and may be, are asked for first.
    ///
    /// # Errors
    /// As [`new`](Self::new). A server that is not reached is its calls' result.
    pub async fn dialling(registry: &Registry, request: Request) -> Result<Self, Status> {
        let draft = Draft::read(request)?;
        let end = draft.limits.deadline;
        let dialled = route::dial(registry, draft.to_dial(registry), end).await;
        draft.settle(registry, &dialled)
    }

    /// The ids of the calls and the names that the model called, in the order it made
    /// them.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.calls.iter().map(|call| (call.known.id.as_str(), call.known.name.as_str()))
    }

    /// Holds the turn of results to a size, for a record of it.
    pub(super) fn bound_turn(&self, most_bytes: usize) {
        self.answer.bound_turn(most_bytes, self.calls.iter().map(|call| &call.known));
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

/// A round as it was asked for: read, and no call decided yet.
struct Draft {
    asked: Vec<Asked>,
    ids: Vec<CallIds>,
    dialect: Option<Dialect>,
    turn: String,
    configs: BTreeMap<String, pb::ActionConfig>,
    allow_list: AllowList,
    headers: Headers,
    sender: Option<String>,
    limits: Limits,
}

impl Draft {
    fn read(request: Request) -> Result<Self, Status> {
        let Request { mut interaction, allow_list, limits, backend, rejected, headers, sender } =
            request;
        let (asked, dialect) = if interaction.action_calls.is_empty() {
            calls_of_reply(&interaction, backend)?
        } else {
            let dialect = backend.and_then(Dialect::default_of);
            let calls = mem::take(&mut interaction.action_calls);
            (calls_of_messages(calls, mem::take(&mut interaction.action_inputs)), dialect)
        };
        let calls = asked.len() + rejected.len();
        if calls > MAX_CALLS {
            return Err(Status::of(
                Reason::InvalidRequest,
                format!("the turn has {calls} calls; at most {MAX_CALLS} are run"),
            ));
        }
        let asked = place_rejected(asked, rejected)?;
        let ids = ids_of(&asked)?;
        let (turn, configs) = (interaction.id, interaction.action_configs);
        Ok(Self { asked, ids, dialect, turn, configs, allow_list, headers, sender, limits })
    }

    /// The actions that servers have to be asked for: what is not called, or not
    /// allowed, reaches nobody.
    fn to_dial(&self, registry: &Registry) -> BTreeMap<String, pb::Peer> {
        if self.configs.is_empty() {
            return BTreeMap::new();
        }
        let names = Names::new(registry, &self.configs);
        let called = self.asked.iter().filter(|call| call.is_called());
        called
            .map(|call| names.action(&call.name))
            .filter(|action| self.allow_list.allows(action))
            .filter_map(|action| {
                let server = route::server_of(self.configs.get(&action)?)?;
                Some((action, server))
            })
            .collect()
    }

    fn settle(self, registry: &Registry, dialled: &Dialled) -> Result<Plan, Status> {
        let Self { asked, ids, dialect, turn, configs, allow_list, headers, sender, limits } = self;
        let flowing = headers.iter().filter(|(name, _)| headers::flows(name));
        let flowing = flowing.map(|(name, value)| (name, value.clone()));
        let rules = Rules {
            registry,
            names: Names::new(registry, &configs),
            allow_list: &allow_list,
            headers: &headers,
            flowing: Arc::new(flowing.collect()),
            shared: RefCell::default(),
            configs: &configs,
            sender: sender.as_deref(),
            dialled,
        };
        let calls = asked.into_iter().zip(ids).map(|(asked, CallIds { id, run_id })| {
            let (id_is_own, name) = (!asked.id.is_empty(), asked.name.clone());
            let start = rules.settle(asked).map(|prepared| prepared.known_as(&turn, &id));
            PlannedCall { known: Known { id, id_is_own, name }, run_id, start }
        });
        let calls: Vec<PlannedCall> = calls.collect();
        let known = calls.iter().map(|call| &call.known);
        let answer = Answer::new(limits.max_answer_bytes, dialect, known)?;
        Ok(Plan { calls, dialect, limits, answer, previous: turn })
    }
}

/// The calls of a turn that has them as records.
fn calls_of_messages(
    calls: Vec<pb::ActionMessage>,
    mut inputs: BTreeMap<String, pb::NodeFragments>,
) -> Vec<Asked> {
    let asked = calls.into_iter().map(|call| {
        let pb::ActionMessage { id, name, inputs: bindings, outputs: _, headers } = call;
        let fragments = inputs.remove(&id).unwrap_or_default().fragments;
        Asked { id, name, arguments: Asking::Fragments { bindings, fragments }, headers }
    });
    asked.collect()
}

/// The calls of a turn whose content is the provider's raw reply. Content that
/// is text or pictures makes no calls.
fn calls_of_reply(
    interaction: &Interaction,
    backend: Option<Backend>,
) -> Result<(Vec<Asked>, Option<Dialect>), Status> {
    let producer = interaction.backend_specific_metadata.get("backend");
    let producer = producer.and_then(|name| std::str::from_utf8(name).ok());
    let hint = backend.or_else(|| producer.and_then(|name| parse_backend(name).ok()));
    let mut asked = vec![];
    let mut dialect = None;
    let mut media_type = "";
    for chunk in &interaction.content {
        if !chunk.media_type().is_empty() {
            media_type = chunk.media_type();
        }
        if Kind::of(media_type) != Kind::Json || chunk.data().is_empty() {
            continue;
        }
        let reply = read_reply(chunk.data(), hint).map_err(Status::from)?;
        reply.fits(backend).map_err(Status::from)?;
        if dialect.is_none() || (asked.is_empty() && !reply.calls.is_empty()) {
            dialect = Some(reply.dialect);
        }
        asked.extend(reply.calls.into_iter().map(|call| {
            let ReplyCall { id, name, arguments } = call;
            let id = id.unwrap_or_default();
            Asked { id, name, arguments: Asking::Reply(arguments), headers: BTreeMap::new() }
        }));
    }
    Ok((asked, dialect.or_else(|| backend.and_then(Dialect::default_of))))
}

/// Puts the calls that the caller refused where the model made them.
fn place_rejected(
    asked: Vec<Asked>,
    mut rejected: Vec<RejectedCall>,
) -> Result<Vec<Asked>, Status> {
    let invalid = |message: String| Err(Status::of(Reason::InvalidRequest, message));
    let all = asked.len() + rejected.len();
    rejected.sort_by_key(|call| call.position);
    let mut placed: Vec<Asked> = Vec::with_capacity(all);
    let mut asked = asked.into_iter();
    for RejectedCall { position, id, name, status } in rejected {
        if status.is_ok() {
            return invalid(format!(
                "rejected_calls: the call at position {position} has status OK"
            ));
        }
        if position < placed.len() || position >= all {
            return invalid(format!(
                "rejected_calls: position {position} is taken, or past the {all} calls there are"
            ));
        }
        placed.extend(asked.by_ref().take(position - placed.len()));
        let arguments = Asking::Rejected(status);
        placed.push(Asked { id, name, arguments, headers: BTreeMap::new() });
    }
    placed.extend(asked);
    Ok(placed)
}

/// The ids of one call.
struct CallIds {
    /// The one that is handed back.
    id: String,
    /// The one that it runs under, a name.
    run_id: String,
}

/// The ids of each call: the model's own, or one made of the call's place where it
/// gave none. A call whose own id is no name runs under a made one. The same turn
/// always gives the same ids.
fn ids_of(asked: &[Asked]) -> Result<Vec<CallIds>, Status> {
    let mut own = HashSet::new();
    for call in asked.iter().filter(|call| !call.id.is_empty()) {
        if !own.insert(call.id.as_str()) {
            return Err(Status::of(
                Reason::DuplicateCall,
                format!(
                    "two calls have the id {:?}; their results could not be told apart",
                    shown(&call.id)
                ),
            ));
        }
    }
    let ids = asked.iter().enumerate().map(|(place, call)| {
        if is_name(&call.id) {
            return CallIds { id: call.id.clone(), run_id: call.id.clone() };
        }
        let mut made = format!("call_{place}");
        while own.contains(made.as_str()) {
            made.push('_');
        }
        let id = if call.id.is_empty() { made.clone() } else { call.id.clone() };
        CallIds { id, run_id: made }
    });
    Ok(ids.collect())
}

/// What decides over each call of a round.
struct Rules<'a> {
    registry: &'a Registry,
    names: Names<'a>,
    allow_list: &'a AllowList,
    headers: &'a Headers,
    /// Those of them that reach any action.
    flowing: Arc<Headers>,
    /// What the calls of an action have in common.
    shared: RefCell<HashMap<Name, Arc<Headers>>>,
    configs: &'a BTreeMap<String, pb::ActionConfig>,
    sender: Option<&'a str>,
    dialled: &'a Dialled,
}

impl Rules<'_> {
    fn settle(&self, asked: Asked) -> Result<Prepared, Status> {
        let Asked { id: _, name, arguments, headers: own } = asked;
        let given = match arguments {
            Asking::Rejected(status) => return Err(status),
            given => given,
        };
        if let Asking::Reply(Err(fault)) = &given
            && name.is_empty()
        {
            return Err(Status::of(Reason::InvalidInput, fault.clone()));
        }
        let action = self.names.action(&name);
        // First of all: what is not allowed learns nothing, not even whether
        // the action exists.
        if !self.allow_list.allows(&action) {
            let name = shown(&name);
            return Err(Status::of(
                Reason::NotAllowed,
                format!("action {name:?} is not in the list of allowed actions"),
            ));
        }
        let config = self.configs.get(&action);
        let entry = route::entry(self.registry, &action, config, self.sender, self.dialled)?;
        let inputs = match given {
            Asking::Fragments { bindings, fragments } => {
                Inputs::from_fragments(entry.schema(), &bindings, fragments)?
            }
            Asking::Reply(Ok(arguments)) => {
                Inputs::from_arguments(entry.schema(), arguments.iter())?
            }
            Asking::Reply(Err(fault)) => return Err(Status::of(Reason::InvalidInput, fault)),
            Asking::Rejected(status) => return Err(status),
        };
        let headers = self.headers(entry.schema(), own, config);
        headers::check_size(headers.iter())?;
        Ok(Prepared { entry, inputs, headers })
    }

    /// The headers of a call, as far as they reach its action: the request's, the
    /// call's own and those that its config adds. Calls of one action share what they
    /// have in common: there may be many of either.
    fn headers(
        &self,
        schema: &ActionSchema,
        own: BTreeMap<String, Bytes>,
        config: Option<&pb::ActionConfig>,
    ) -> Headers {
        let taken = |name: &str| {
            // A turn is data from elsewhere: neither its calls nor its configs can
            // widen its limits.
            !is_limit(name) && schema.takes_header(&name.to_ascii_lowercase())
        };
        let mut shared = self.shared.borrow_mut();
        let shared = shared.entry(schema.name().clone()).or_insert_with(|| {
            let mut headers = Headers::over(self.flowing.clone());
            for header in schema.headers() {
                if let Some(value) = self.headers.value(&header.name) {
                    headers.set(&header.name, value.clone());
                }
            }
            let mut filled = Headers::over(Arc::new(headers));
            for (name, value) in route::autofills(config).filter(|(name, _)| taken(name)) {
                filled.set(name, value.clone());
            }
            Arc::new(filled)
        });
        let mut headers = Headers::over(shared.clone());
        // What a config adds goes before what the call says.
        let filled =
            |name: &str| route::autofills(config).any(|(set, _)| set.eq_ignore_ascii_case(name));
        for (name, value) in own.into_iter().filter(|(name, _)| taken(name) && !filled(name)) {
            headers.set(&name, value);
        }
        headers
    }
}

fn is_limit(header: &str) -> bool {
    [headers::DEADLINE, headers::ALLOWED_LLM_ACTIONS, headers::SESSION]
        .iter()
        .any(|limit| limit.eq_ignore_ascii_case(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_id_is_no_name_runs_under_a_made_one() {
        let asked = |id: &str| Asked {
            id: id.to_owned(),
            name: "echo".to_owned(),
            arguments: Asking::Rejected(Status::of(Reason::NotAllowed, "")),
            headers: BTreeMap::new(),
        };
        let calls = ["toolu_1", "functions.x:0", "", "call_1", "c d"].map(asked);
        let ids = ids_of(&calls).expect("distinct");
        let ids: Vec<_> = ids.iter().map(|ids| (ids.id.as_str(), ids.run_id.as_str())).collect();
        let expected = [
            ("toolu_1", "toolu_1"),
            ("functions.x:0", "call_1_"),
            ("call_2", "call_2"),
            ("call_1", "call_1"),
            ("c d", "call_4"),
        ];
        assert_eq!(ids, expected);
    }
}
