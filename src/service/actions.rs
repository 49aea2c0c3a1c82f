//! Listing and describing actions.

use crate::action::{
    Entry, Host, Hosts, Registry, document,
    schema::{MAX_SCHEMA_TEXT, Ports, Runnable},
};
use crate::runner::AllowList;
use crate::wire::name::{is_name, shown};
use crate::wire::{Reason, Status, pb};

/// How many actions a page has unless the caller says.
const DEFAULT_PAGE: usize = 500;
/// How many actions a page has at the most.
const LARGEST_PAGE: usize = 5_000;
/// From how much text on a page takes no more actions, in bytes; each has at most
/// a quarter of it, and stands in a page once more where its document is asked for.
const PAGE_BYTES: usize = 4 * MAX_SCHEMA_TEXT;

pub(super) fn list(
    registry: &Registry,
    request: pb::ListActionsRequest,
) -> Result<pb::ListActionsResponse, Status> {
    let pb::ListActionsRequest {
        patterns,
        runnable_only,
        all_ports,
        include_document,
        page_size,
        page_token,
    } = request;
    if !page_token.is_empty() && !is_name(&page_token) {
        return Err(Status::of(
            Reason::InvalidRequest,
            "page_token was not handed out by this service",
        ));
    }
    let wanted = AllowList::new(&patterns)?;
    let page_size = match page_size as usize {
        0 => DEFAULT_PAGE,
        size => size.min(LARGEST_PAGE),
    };
    let ports = ports(all_ports);
    let after = Some(page_token.as_str()).filter(|token| !token.is_empty());
    let matching = registry.entries(after).into_iter().filter(|entry| {
        (patterns.is_empty() || wanted.allows(entry.schema().name().as_str()))
            && !(runnable_only && entry.runnable() == Runnable::No)
    });
    let mut room = PAGE_BYTES;
    let mut fits = |entry: &Entry| {
        let had_room = room > 0;
        let text = entry.schema().text_bytes() + entry.hosts().text_bytes();
        room = room.saturating_sub(text);
        had_room
    };
    let mut matching = matching.peekable();
    let mut page: Vec<Entry> = Vec::new();
    while page.len() < page_size
        && let Some(entry) = matching.next_if(&mut fits)
    {
        page.push(entry);
    }
    let next_page_token = match (matching.next(), page.last()) {
        (Some(_), Some(last)) => last.schema().name().to_string(),
        _ => String::new(),
    };
    Ok(pb::ListActionsResponse {
        document: if include_document { document::write(&page, ports) } else { String::new() },
        actions: page.iter().map(|entry| message(entry, ports)).collect(),
        next_page_token,
        hosts: page.iter().filter_map(named_hosts).collect(),
    })
}

pub(super) fn describe(
    registry: &Registry,
    request: pb::GetActionRequest,
) -> Result<pb::GetActionResponse, Status> {
    let pb::GetActionRequest { name, all_ports, include_document } = request;
    let entry = registry.entry(&name).or_else(|| registry.entry_of_tool(&name));
    let entry = entry.ok_or_else(|| {
        Status::of(Reason::UnknownAction, format!("there is no action {:?}", shown(&name)))
    })?;
    let ports = ports(all_ports);
    Ok(pb::GetActionResponse {
        action: Some(message(&entry, ports)),
        hosts: named_hosts(&entry).map(|(_, hosts)| hosts),
        document: if include_document { document::write([&entry], ports) } else { String::new() },
    })
}

fn ports(all: bool) -> Ports {
    if all { Ports::All } else { Ports::Callable }
}

fn message(entry: &Entry, ports: Ports) -> pb::ActionSchema {
    entry.schema().to_message(entry.runnable(), ports)
}

/// An action's name and its hosts; `None` where it has none.
fn named_hosts(entry: &Entry) -> Option<(String, pb::ActionHosts)> {
    let Hosts { listed, others } = entry.hosts();
    let host = |host| match host {
        Host::Peer { name, session } => pb::action_host::Host::Peer(pb::PeerHost { name, session }),
        Host::McpServer(name) => pb::action_host::Host::McpServer(name),
    };
    let hosts = listed.into_iter().map(|it| pb::ActionHost { host: Some(host(it)) });
    let hosts: Vec<_> = hosts.collect();
    let others = u32::try_from(others).unwrap_or(u32::MAX);
    let name = entry.schema().name().to_string();
    (!hosts.is_empty()).then_some((name, pb::ActionHosts { hosts, others }))
}
