//! Lines that are no message, or none that can be accepted, and what they are
//! answered with.

use std::collections::HashMap;

use bytes::Bytes;
use rmcp::model::{ErrorCode, RequestId};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use super::lines::MAX_LINE_BYTES;
use crate::wire::json_weight::{self, TooManyValues};

/// Why a line was not taken.
#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    /// It is no JSON.
    NotJson,
    /// It is JSON, but no request, notification or answer. The id, where it
    /// has one that can be answered.
    NotAMessage(Option<Value>),
    /// It is a request whose parameters have a shape that no request has.
    Parameters(Value),
    /// It is a list of messages.
    Batch,
    /// It is too long to be read.
    TooLong,
    /// It would take too much memory as values. The id, where it is a request's.
    TooManyValues(TooManyValues, Option<Value>),
    /// A request with its id is being worked on.
    IdInUse(RequestId),
    /// Too many requests are being worked on.
    TooMany(RequestId),
}

/// Refuses a line that would take too much memory as values: before it is read, for
/// the SDK makes some of them twice.
pub(super) fn check_weight(line: &[u8]) -> Result<(), Refusal> {
    json_weight::check(line).map_err(|error| Refusal::TooManyValues(error, asked_id(line)))
}

/// The id of a request, with nothing else made of it.
fn asked_id(line: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        method: Option<IgnoredAny>,
    }
    let head: Head<'_> = serde_json::from_slice(line).ok()?;
    let id = head.id.filter(|id| head.method.is_some() && !id.get().starts_with(['[', '{']))?;
    serde_json::from_str(id.get()).ok().filter(|id: &Value| id.is_string() || id.is_number())
}

/// Says what is wrong with a line that is no message; `None` where it needs no
/// answer: an answer or a notification of a shape that nobody knows.
pub(super) fn fault(line: &[u8]) -> Option<Refusal> {
    match serde_json::from_slice::<Value>(line) {
        Err(_) => Some(Refusal::NotJson),
        Ok(Value::Array(_)) => Some(Refusal::Batch),
        Ok(Value::Object(message)) => {
            let method = message.get("method").is_some_and(Value::is_string);
            let id = message.get("id");
            let answers = !message.contains_key("method")
                && (message.contains_key("result") || message.contains_key("error"));
            if answers || (method && id.is_none()) {
                return None;
            }
            let version = message.get("jsonrpc").is_some_and(|version| version == "2.0");
            match id.filter(|id| id.is_string() || id.is_number()) {
                Some(id) if method && version && (id.is_string() || id.is_i64()) => {
                    Some(Refusal::Parameters(id.clone()))
                }
                id => Some(Refusal::NotAMessage(id.cloned())),
            }
        }
        Ok(_) => Some(Refusal::NotAMessage(None)),
    }
}

/// Whether a line that passed for a notification has an id, which no answer
/// could go to.
pub(super) fn has_id(line: &[u8]) -> bool {
    serde_json::from_slice::<HashMap<String, &RawValue>>(line)
        .is_ok_and(|message| message.contains_key("id"))
}

impl Refusal {
    /// The answer, one line.
    pub(super) fn answer(self) -> Bytes {
        let (code, id, message) = match self {
            Self::NotJson => (ErrorCode::PARSE_ERROR, None, "it is not JSON".to_owned()),
            Self::NotAMessage(id) => {
                (ErrorCode::INVALID_REQUEST, id, "it is not a JSON-RPC message".to_owned())
            }
            Self::Parameters(id) => (
                ErrorCode::INVALID_PARAMS,
                Some(id),
                "the parameters have another shape".to_owned(),
            ),
            Self::Batch => {
                (ErrorCode::INVALID_REQUEST, None, "only one message is taken at a time".to_owned())
            }
            Self::TooLong => (
                ErrorCode::INVALID_REQUEST,
                None,
                format!("the line is longer than {MAX_LINE_BYTES} bytes"),
            ),
            Self::TooManyValues(error, id) => (ErrorCode::INVALID_REQUEST, id, error.to_string()),
            // The id is the other request's, which will be answered.
            Self::IdInUse(id) => (
                ErrorCode::INVALID_REQUEST,
                None,
                format!("another request with the id {} is being worked on", id.into_json_value()),
            ),
            Self::TooMany(id) => (
                ErrorCode::INTERNAL_ERROR,
                Some(id.into_json_value()),
                "too many requests are being worked on".to_owned(),
            ),
        };
        let error = json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": code.0, "message": message},
        });
        let mut line = error.to_string();
        line.push('\n');
        line.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_has_the_error_of_its_fault() {
        let check = |line: &[u8], expected: Option<(i64, Value)>| {
            let answer = fault(line).map(|refusal| {
                let answer: Value = serde_json::from_slice(&refusal.answer()).expect("JSON");
                (answer["error"]["code"].as_i64().expect("a code"), answer["id"].clone())
            });
            assert_eq!(answer, expected, "{}", String::from_utf8_lossy(line));
        };
        check(b"{", Some((-32700, Value::Null)));
        check(b"\xff\xfe", Some((-32700, Value::Null)));
        check(b"7", Some((-32600, Value::Null)));
        check(b"[]", Some((-32600, Value::Null)));
        check(br#"{"id":"a"}"#, Some((-32600, json!("a"))));
        check(br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Some((-32600, json!(1.5))));
        check(br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, Some((-32602, json!(1))));
        check(br#"{"id":{},"method":"ping"}"#, Some((-32600, Value::Null)));
        check(br#"{"id":1,"result":{}}"#, None);
        check(br#"{"method":"notifications/odd","params":7}"#, None);
    }
}
