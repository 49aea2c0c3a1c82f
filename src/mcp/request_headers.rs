//! The headers of a call out of a request's `_meta`: which it asks for, and
//! which of them are applied.

use std::io;

use serde::Serialize as _;
use serde_json::{Map, Serializer, Value, ser::Formatter};

use crate::action::ActionSchema;
use crate::runner::{AllowList, PatternError};
use crate::wire::{Headers, headers};

/// The key of `_meta` whose object holds headers by name.
pub const HEADERS_KEY: &str = "to.a11/headers";
/// The header that carries the whole `_meta`.
pub const META_HEADER: &str = "x-a11-mcp-meta";

/// Keys that concern the request itself and no header.
const PROTOCOL_PREFIXES: [&str; 2] = ["io.modelcontextprotocol/", "to.a11/"];
const PROTOCOL_KEYS: [&str; 2] = ["progressToken", "progress_token"];

/// Headers that decide what a call may do: they are never taken because an
/// action declares them.
const GUARDED: [&str; 2] = [headers::DEADLINE, headers::ALLOWED_LLM_ACTIONS];

/// The headers a request asks for: those in `to.a11/headers`, each key that
/// begins with `x-a11-` or `x-otel-`, and what is left of the object, whole, as
/// `x-a11-mcp-meta`. A value that is no string is written as JSON; `null` asks
/// for nothing.
pub fn asked(meta: &Map<String, Value>) -> Headers {
    let mut asked = Headers::default();
    let rest: Map<String, Value> = meta
        .iter()
        .filter(|(key, _)| {
            !PROTOCOL_KEYS.contains(&key.as_str())
                && !PROTOCOL_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        })
        .map(|(key, value)| (key.clone(), sorted(value)))
        .collect();
    if !rest.is_empty() {
        asked.set(META_HEADER, text(&sorted(&Value::Object(rest.clone()))));
    }
    let flowing = rest.iter().filter(|(key, _)| headers::flows(&key.to_ascii_lowercase()));
    let named = meta.get(HEADERS_KEY).and_then(Value::as_object).into_iter().flatten();
    for (name, value) in flowing.chain(named) {
        if !value.is_null() && http::HeaderName::from_bytes(name.as_bytes()).is_ok() {
            asked.set(name, text(value));
        }
    }
    asked
}

/// Which headers a client may set beside those that an action declares.
#[derive(Debug, Clone, Default)]
pub struct Accepted {
    patterns: AllowList,
    /// The guarded headers that a pattern names.
    guarded: Vec<&'static str>,
}

impl Accepted {
    /// Accepts what the patterns match whole, in lower case. A pattern admits
    /// `x-a11-deadline` or `x-a11-allowed-llm-actions` only where it is that
    /// name, letter for letter.
    ///
    /// # Errors
    /// Names the first pattern that is no regular expression, or too large.
    pub fn new<P: AsRef<str>>(patterns: &[P]) -> Result<Self, PatternError> {
        let names =
            |name: &str| patterns.iter().any(|pattern| pattern.as_ref().eq_ignore_ascii_case(name));
        Ok(Self {
            guarded: GUARDED.into_iter().filter(|name| names(name)).collect(),
            patterns: AllowList::new(patterns)?,
        })
    }

    /// What of the headers asked for is applied to a call of an action.
    pub fn applied(&self, schema: &ActionSchema, asked: &Headers) -> Headers {
        let declared = |name: &str| schema.headers().iter().any(|header| header.name == name);
        let applies = |name: &str| match GUARDED.contains(&name) {
            true => self.guarded.contains(&name),
            false => declared(name) || self.patterns.allows(name),
        };
        asked
            .iter()
            .filter(|(name, _)| applies(name))
            .map(|(name, value)| (name, value.clone()))
            .collect()
    }
}

/// A value as a header has it: a string as it is, all else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => {
            let mut json = Vec::new();
            // Values have a JSON form, and a vector takes it.
            let _ = sorted(value).serialize(&mut Serializer::with_formatter(&mut json, Spaced));
            String::from_utf8(json).unwrap_or_default()
        }
    }
}

/// The value with its keys in order, so that equal objects are equal headers.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<(String, Value)> =
                object.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        value => value.clone(),
    }
}

/// JSON with a space after each comma and colon, as other A11 runtimes write
/// this header.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_are_asked_for_three_ways() {
        let check = |meta: Value, expected: &[(&str, &str)]| {
            let asked = asked(meta.as_object().expect("an object"));
            let expected = expected.iter().map(|(name, value)| (name, value.to_string())).collect();
            assert_eq!(asked, expected, "{meta}");
        };
        check(json!({"progressToken": 1}), &[]);
        check(
            json!({"to.a11/headers": {"X-Tenant": "t1", "n": 3, "no": null, "a b": "x"}}),
            &[("x-tenant", "t1"), ("n", "3")],
        );
        check(
            json!({"k": {"z": 1, "deep": [1, 2]}, "x-a11-a": "v"}),
            &[
                ("x-a11-a", "v"),
                ("x-a11-mcp-meta", r#"{"k": {"deep": [1, 2], "z": 1}, "x-a11-a": "v"}"#),
            ],
        );
        check(
            json!({"x-a11-a": "outer", "to.a11/headers": {"X-A11-A": "inner"}}),
            &[("x-a11-a", "inner"), ("x-a11-mcp-meta", r#"{"x-a11-a": "outer"}"#)],
        );
    }

    #[test]
    fn only_declared_and_accepted_headers_are_applied() {
        let schema = ActionSchema::builder("a")
            .header("x-tenant", "", None)
            .header("x-a11-deadline", "", None)
            .build()
            .expect("valid");
        let asked = Headers::from_iter(
            ["x-tenant", "x-a11-mcp-meta", "x-a11-deadline", "x-a11-allowed-llm-actions"]
                .map(|name| (name, "v")),
        );
        let check = |patterns: &[&str], expected: &[&str]| {
            let applied = Accepted::new(patterns).expect("patterns").applied(&schema, &asked);
            let names: Vec<&str> = applied.iter().map(|(name, _)| name).collect();
            assert_eq!(names, expected, "{patterns:?}");
        };
        check(&[], &["x-tenant"]);
        check(&["x-a11-mcp-.*"], &["x-a11-mcp-meta", "x-tenant"]);
        check(&[".*"], &["x-a11-mcp-meta", "x-tenant"]);
        check(&["X-A11-Deadline"], &["x-a11-deadline", "x-tenant"]);
    }
}
