//! The `a11.actions/v1` JSON document of schemas, written and read.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use thiserror::Error;

use super::{
    host::{Host, Hosts},
    registry::Entry,
    schema::{ActionSchema, Ports, Runnable, SchemaError},
};
use crate::wire::pb;

/// The `format` of the document.
pub const FORMAT: &str = "a11.actions/v1";

#[derive(Serialize)]
struct Document {
    actions: Vec<Action>,
    format: &'static str,
}

/// One entry, keys in alphabetical order, everything left out that is default.
#[derive(Serialize, Deserialize)]
struct Action {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<Header>,
    /// Not read: of the other side's own.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<HostedBy>,
    #[serde(default, skip_serializing_if = "is_false")]
    idempotent: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<Port>,
    name: String,
    /// How many hosts there are beside `hosts`. Not read either.
    #[serde(skip_deserializing, skip_serializing_if = "is_zero")]
    other_hosts: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    output_to_json_field: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<Port>,
    #[serde(default)]
    runnable: bool,
}

#[derive(Serialize, Deserialize)]
struct Port {
    #[serde(default, skip_serializing_if = "is_false")]
    autofilled: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json_schema: Option<Box<RawValue>>,
    name: String,
    #[serde(default, skip_serializing_if = "is_false")]
    required: bool,
    #[serde(rename = "type")]
    media_type: String,
    #[serde(default, skip_serializing_if = "is_false")]
    unary: bool,
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    name: String,
}

/// Who runs an action: a peer with a session, or an MCP server.
#[derive(Serialize)]
#[serde(untagged)]
enum HostedBy {
    Peer { peer: String, session: String },
    McpServer { mcp_server: String },
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// Writes the document of some actions, ports by name.
pub fn write<'a>(entries: impl IntoIterator<Item = &'a Entry>, ports: Ports) -> String {
    let actions = entries
        .into_iter()
        .map(|entry| action(entry.schema().to_message(entry.runnable(), ports), entry.hosts()))
        .collect();
    to_json(&Document { actions, format: FORMAT })
}

/// Writes one entry of the document, without its hosts.
pub fn write_entry(schema: &ActionSchema, runnable: Runnable, ports: Ports) -> String {
    to_json(&action(schema.to_message(runnable, ports), Hosts::default()))
}

fn to_json(value: &impl Serialize) -> String {
    // Strings, flags and JSON that was checked: there is nothing to fail on.
    serde_json::to_string(value).unwrap_or_default()
}

fn action(message: pb::ActionSchema, hosts: Hosts) -> Action {
    let pb::ActionSchema {
        name,
        description,
        inputs,
        outputs,
        headers,
        output_to_json_field,
        idempotent,
        runnable,
    } = message;
    let ports = |mut ports: Vec<pb::PortSchema>| {
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        ports.into_iter().map(port).collect()
    };
    let hosted_by = |host| match host {
        Host::Peer { name, session } => HostedBy::Peer { peer: name, session },
        Host::McpServer(mcp_server) => HostedBy::McpServer { mcp_server },
    };
    Action {
        description,
        headers: headers
            .into_iter()
            .map(|header| Header { description: header.description, name: header.name })
            .collect(),
        hosts: hosts.listed.into_iter().map(hosted_by).collect(),
        idempotent,
        inputs: ports(inputs),
        name,
        other_hosts: hosts.others,
        output_to_json_field,
        outputs: ports(outputs),
        runnable,
    }
}

fn port(message: pb::PortSchema) -> Port {
    let pb::PortSchema { name, media_type, description, required, unary, json_schema, autofilled } =
        message;
    let json_schema = RawValue::from_string(json_schema).ok();
    Port { autofilled, description, json_schema, name, required, media_type, unary }
}

/// Why a document was not read.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// It is no JSON of that shape.
    #[error("not an {FORMAT} document: {0}")]
    Shape(#[from] serde_json::Error),
    /// One of its actions is broken.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Reads a document, or a bare list of its entries. Autofilled inputs are the
/// other side's own and are left out.
///
/// # Errors
/// Where the JSON has another shape, or a schema is broken.
pub fn read(json: &str) -> Result<Vec<ActionSchema>, DocumentError> {
    #[derive(Deserialize)]
    struct Envelope {
        actions: Vec<Action>,
    }
    let actions = if json.trim_start().starts_with('[') {
        serde_json::from_str::<Vec<Action>>(json)?
    } else {
        serde_json::from_str::<Envelope>(json)?.actions
    };
    actions
        .into_iter()
        .map(|action| ActionSchema::try_from(message(action)).map_err(DocumentError::from))
        .collect()
}

fn message(action: Action) -> pb::ActionSchema {
    let ports = |ports: Vec<Port>| {
        let message = |port: Port| pb::PortSchema {
            name: port.name,
            media_type: port.media_type,
            description: port.description,
            required: port.required,
            unary: port.unary,
            json_schema: port.json_schema.map_or(String::new(), |raw| raw.get().to_owned()),
            autofilled: port.autofilled,
        };
        ports.into_iter().map(message).collect()
    };
    pb::ActionSchema {
        name: action.name,
        description: action.description,
        inputs: ports(action.inputs),
        outputs: ports(action.outputs),
        headers: action
            .headers
            .into_iter()
            .map(|header| pb::HeaderSchema {
                name: header.name,
                description: header.description,
                default_value: None,
            })
            .collect(),
        output_to_json_field: action.output_to_json_field,
        idempotent: action.idempotent,
        runnable: action.runnable,
    }
}
