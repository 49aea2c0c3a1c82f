//! `actions`: which actions there are.

use std::{collections::BTreeMap, fmt::Write as _};

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use tonic::transport::Channel;

use super::{
    backend::Backend,
    exit::{Failure, Outcome},
    json, mcp,
    output::Output,
    report::clean,
    target::Target,
};
use crate::action::document::FORMAT;
use crate::wire::pb::{action_host::Host, action_service_client::ActionServiceClient};
use crate::wire::{chunk::Kind, pb};

/// List the actions there are: what each takes, gives and does
///
/// Inputs in brackets are optional, a name that ends in `…` is a stream of values.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc actions --config actions.toml
  a11-grpc actions --server 127.0.0.1:50051 'order_.*'
  a11-grpc actions --long word_count
  a11-grpc actions --json | jq '.actions[].name'
  a11-grpc actions --mcp --config actions.toml     (what MCP hosts are told)
  a11-grpc actions --tools claude 'order_.*'       (what the model is told)
  a11-grpc actions --tools openai --dialect responses")]
pub(super) struct Actions {
    /// Only actions whose whole name matches one of these regular expressions
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,

    #[command(flatten)]
    target: Target,

    /// Also those that nothing here runs, and inputs that only the runtime fills
    #[arg(long)]
    all: bool,

    /// Every port on its own line, with type and description
    #[arg(long, short, conflicts_with = "json")]
    long: bool,

    /// Print the `a11.actions/v1` document
    #[arg(long)]
    json: bool,

    /// Print the tools that `serve --mcp` would declare
    #[arg(long, conflicts_with_all = ["json", "long", "all"])]
    mcp: bool,

    /// As `serve` has it: only actions whose whole name matches
    #[arg(long, value_name = "PATTERN", requires = "mcp")]
    mcp_allow: Vec<String>,

    /// As `serve` has it: without the actions' own documents
    #[arg(long, requires = "mcp")]
    mcp_no_describe: bool,

    /// Print what goes into this provider's request as `tools`; Claude Code's are
    /// MCP's
    #[arg(long, value_name = "BACKEND", value_enum)]
    #[arg(conflicts_with_all = ["json", "long", "all", "mcp"])]
    tools: Option<Backend>,

    /// Which of its shapes: of openai chat, responses or functions, of gemini
    /// interactions or generate_content [default: chat, interactions]
    #[arg(long, value_name = "NAME", requires = "tools")]
    dialect: Option<String>,
}

impl Actions {
    pub(super) async fn run(self) -> Result<Outcome, Failure> {
        let mut client = self.target.client().await?;
        if let Some(backend) = self.tools {
            return self.declare(&mut client, backend).await;
        }
        let mut actions = Vec::new();
        let mut hosts = BTreeMap::new();
        let mut documents = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = pb::ListActionsRequest {
                patterns: self.patterns.clone(),
                runnable_only: !self.all,
                all_ports: self.all,
                include_document: self.json,
                page_size: 0,
                page_token,
            };
            let page = client.list_actions(request).await?.into_inner();
            actions.extend(page.actions);
            hosts.extend(page.hosts);
            documents.push(page.document);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if actions.is_empty() && !self.patterns.is_empty() {
            return Err(Failure::NoAction(self.patterns.join(", ")));
        }
        let mut output = Output::stdout();
        if self.json {
            output.line(&json::pretty(&one_document(&documents)?))?;
        } else if self.mcp {
            let declared = mcp::declarations(actions, &self.mcp_allow, self.mcp_no_describe)?;
            output.line(&json::pretty(&declared))?;
        } else if self.long {
            for action in &actions {
                output.line(&described(action, hosts.get(&action.name)))?;
            }
        } else {
            for line in table(&actions, &hosts) {
                output.line(&line)?;
            }
        }
        Ok(Outcome::Done)
    }

    /// Prints the actions as a provider's tools.
    async fn declare(
        &self,
        client: &mut ActionServiceClient<Channel>,
        backend: Backend,
    ) -> Result<Outcome, Failure> {
        // Here no pattern is all there is; there it would be nothing.
        let allowed_actions = match self.patterns.as_slice() {
            [] => vec![".*".to_owned()],
            patterns => patterns.to_vec(),
        };
        let dialect = self.dialect.clone().unwrap_or_default();
        let backend = pb::Backend::from(backend) as i32;
        let request = pb::DeclareToolsRequest { allowed_actions, backend, dialect };
        let tools = client.declare_tools(request).await?.into_inner().tools;
        if tools.is_empty() && !self.patterns.is_empty() {
            return Err(Failure::NoAction(self.patterns.join(", ")));
        }
        Output::stdout().line(&json::pretty(&format!("[{}]", tools.join(","))))?;
        Ok(Outcome::Done)
    }
}

/// The pages' documents as one.
fn one_document(pages: &[String]) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(borrow)]
        actions: Vec<&'a RawValue>,
    }
    let mut actions = Vec::new();
    for page in pages {
        let page: Page<'_> = serde_json::from_str(page)
            .map_err(|_| Failure::Answer("its document is not an a11.actions/v1 document"))?;
        actions.extend(page.actions.into_iter().map(RawValue::get));
    }
    Ok(format!(r#"{{"actions":[{}],"format":"{FORMAT}"}}"#, actions.join(",")))
}

/// Lines of a table: name, ports, who runs it where anything runs elsewhere, and the
/// description's first line.
fn table(actions: &[pb::ActionSchema], hosts: &BTreeMap<String, pb::ActionHosts>) -> Vec<String> {
    let mut rows = vec![["NAME", "PORTS", "RUN BY", "DESCRIPTION"].map(str::to_owned)];
    rows.extend(actions.iter().map(|action| {
        let mut description = first_line(&action.description).to_owned();
        if !action.runnable {
            description = format!("(not run here) {description}");
        }
        let run_by = hosts.get(&action.name).map(run_by).unwrap_or_default();
        [action.name.clone(), signature(action), run_by, description].map(|cell| clean(&cell))
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (name, ports) = (width(0).unwrap_or(0), width(1).unwrap_or(0).min(MAX_PORTS_WIDTH));
    let run_by = width(2).unwrap_or(0).min(MAX_RUN_BY_WIDTH);
    rows.iter()
        .map(|[a, b, c, d]| match hosts.is_empty() {
            true => format!("{a:name$}  {b:ports$}  {d}"),
            false => format!("{a:name$}  {b:ports$}  {c:run_by$}  {d}"),
        })
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Past this many columns a row's ports push its description aside alone.
const MAX_PORTS_WIDTH: usize = 48;
/// The same of who runs it.
const MAX_RUN_BY_WIDTH: usize = 24;

/// `worker +2`.
fn run_by(hosts: &pb::ActionHosts) -> String {
    let Some(first) = hosts.hosts.first() else { return String::new() };
    match hosts.hosts.len() - 1 + hosts.others as usize {
        0 => host_name(first),
        more => format!("{} +{more}", host_name(first)),
    }
}

/// What a host calls itself, and where that is nothing, its session.
fn host_name(host: &pb::ActionHost) -> String {
    match &host.host {
        Some(Host::Peer(peer)) if peer.name.is_empty() => format!("session {}", peer.session),
        Some(Host::Peer(peer)) => peer.name.clone(),
        Some(Host::McpServer(name)) => name.clone(),
        None => String::new(),
    }
}

/// `peer worker, session 0f3c9a1e`.
fn host_line(host: &pb::ActionHost) -> String {
    match &host.host {
        Some(Host::Peer(peer)) if peer.name.is_empty() => {
            format!("a peer without a name, session {}", peer.session)
        }
        Some(Host::Peer(peer)) => format!("peer {}, session {}", peer.name, peer.session),
        Some(Host::McpServer(name)) => format!("MCP server {name}"),
        None => "a host of a kind that is not known here".to_owned(),
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// `text [limit] → words…`.
fn signature(action: &pb::ActionSchema) -> String {
    let port = |port: &pb::PortSchema| {
        let stream = if port.unary { "" } else { "…" };
        format!("{}{stream}", port.name)
    };
    let inputs = action.inputs.iter().map(|input| match input.required {
        true => port(input),
        false => format!("[{}]", port(input)),
    });
    let inputs: Vec<String> = inputs.collect();
    let outputs: Vec<String> = action.outputs.iter().map(port).collect();
    match (inputs.is_empty(), outputs.is_empty()) {
        (_, true) => inputs.join(" "),
        (true, false) => format!("→ {}", outputs.join(" ")),
        (false, false) => format!("{} → {}", inputs.join(" "), outputs.join(" ")),
    }
}

/// An action in full.
fn described(action: &pb::ActionSchema, hosts: Option<&pb::ActionHosts>) -> String {
    let mut text = clean(&action.name);
    if !action.runnable {
        text.push_str(" (not run here)");
    }
    for line in action.description.trim().lines() {
        let _ = write!(text, "\n  {}", clean(line));
    }
    if let Some(hosts) = hosts {
        for host in &hosts.hosts {
            let _ = write!(text, "\n  run by {}", clean(&host_line(host)));
        }
        if hosts.others > 0 {
            let _ = write!(text, "\n  run by {} more", hosts.others);
        }
    }
    let ports = [("takes", &action.inputs), ("gives", &action.outputs)];
    for (verb, ports) in ports {
        for port in ports {
            let _ = write!(text, "\n  {verb} {}", clean(&port_line(port)));
        }
    }
    text.push('\n');
    text
}

fn port_line(port: &pb::PortSchema) -> String {
    let kind = match Kind::of(&port.media_type) {
        Kind::Text => "text",
        Kind::Json => "json",
        Kind::Image | Kind::Audio | Kind::Bytes => &port.media_type,
    };
    let mut traits = vec![kind];
    if !port.unary {
        traits.push("stream");
    }
    if port.required {
        traits.push("required");
    }
    if port.autofilled {
        traits.push("filled by the runtime");
    }
    let mut line = format!("{} ({})", port.name, traits.join(", "));
    if !port.description.is_empty() {
        let _ = write!(line, ": {}", port.description);
    }
    if Kind::of(&port.media_type) == Kind::Json && !port.json_schema.is_empty() {
        let _ = write!(line, " {}", json::compact(&port.json_schema));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, required: bool, unary: bool) -> pb::PortSchema {
        pb::PortSchema { name: name.to_owned(), required, unary, ..Default::default() }
    }

    #[test]
    fn a_signature_shows_what_is_optional_and_what_streams() {
        let check = |inputs: Vec<pb::PortSchema>, outputs: Vec<pb::PortSchema>, expected: &str| {
            let action = pb::ActionSchema { inputs, outputs, ..Default::default() };
            assert_eq!(signature(&action), expected);
        };
        check(vec![], vec![], "");
        check(vec![], vec![port("now", true, true)], "→ now");
        check(vec![port("text", true, true)], vec![], "text");
        check(
            vec![port("text", true, true), port("tags", false, false)],
            vec![port("words", false, false)],
            "text [tags…] → words…",
        );
    }

    #[test]
    fn pages_become_one_document() {
        let pages = [r#"{"actions":[{"n":1.10}],"format":"a11.actions/v1"}"#; 2];
        assert_eq!(
            one_document(&pages.map(str::to_owned)).unwrap(),
            r#"{"actions":[{"n":1.10},{"n":1.10}],"format":"a11.actions/v1"}"#
        );
        assert!(one_document(&["".to_owned()]).is_err());
    }
}
