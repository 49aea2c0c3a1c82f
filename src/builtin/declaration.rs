//! A command action as the config file writes it, key by key. What it means is
//! checked in [`command`](super::command).

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::environment::InheritEnv;

/// How long a command may run, unless the file says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long any command may run.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// How much a command may print, unless the file says otherwise.
const DEFAULT_OUTPUT_BYTES: u64 = 1024 * 1024;

/// `[actions.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declaration {
    /// What it does, for a model to read.
    #[serde(default)]
    pub(super) description: String,
    /// The program and its arguments, each a template. This or `shell`.
    #[serde(default)]
    pub(super) command: Option<Items>,
    /// A text for `/bin/sh -c`. Arguments reach it as variables, never as text.
    pub(super) shell: Option<String>,
    #[serde(default)]
    pub(super) stdin: Stdin,
    /// Variables to set, each value a template.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Every argument as a variable of its name. Always so with `shell`.
    #[serde(default)]
    pub(super) arguments_as_env: bool,
    #[serde(default)]
    pub(super) inherit_env: InheritEnv,
    /// Relative to the config file's directory, which is the default.
    pub(super) working_directory: Option<PathBuf>,
    #[serde(default)]
    pub(super) timeout: TimeLimit,
    #[serde(default)]
    pub(super) max_output_bytes: ByteLimit,
    #[serde(default)]
    pub(super) output: OutputForm,
    /// The JSON Schema of the result, with `output = "json"`.
    pub(super) output_schema: Option<Value>,
    /// Exit status → code, such as `1 = "NOT_FOUND"`; UNKNOWN for all others.
    #[serde(default)]
    pub(super) exit_codes: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) idempotent: bool,
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, Spanned<InputDeclaration>>,
}

/// `command`.
#[derive(Debug)]
pub(super) struct Items(pub(super) Vec<Item>);

// By hand, to say what else there is for a command line.
impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Items;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a list of the program and its arguments, such as [\"ls\", \"-l\"]; \
                     `shell` takes a command line",
                )
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<Items, A::Error> {
                let items = serde::de::value::SeqAccessDeserializer::new(seq);
                Vec::deserialize(items).map(Items)
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// One item of `command`, or several that are left out together.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a text, or a list of texts that are left out together")]
pub(super) enum Item {
    One(String),
    Group(Vec<String>),
}

/// What the program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged, expecting = "\"none\", \"json\", or { argument = \"NAME\" }")]
pub(super) enum Stdin {
    #[default]
    #[serde(skip)]
    Nothing,
    Word(StdinWord),
    /// One argument as it is: text raw, bytes raw, other values as JSON.
    Argument(StdinArgument),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StdinWord {
    None,
    /// All arguments as one JSON object.
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StdinArgument {
    pub(super) argument: String,
}

/// What stdout is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputForm {
    /// One text, on port `output`, without its last line end.
    #[default]
    Text,
    /// A stream of lines as they come, on port `output`.
    Lines,
    /// One JSON value, which is the whole result.
    Json,
}

/// `[actions.NAME.inputs.INPUT]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputDeclaration {
    /// A JSON Schema type; `string` where nothing is said.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(rename = "enum")]
    pub(super) choices: Option<Vec<Value>>,
    /// The schema of the elements of an array.
    pub(super) items: Option<Value>,
    /// A whole JSON Schema instead of `type`, `enum` and `items`.
    pub(super) schema: Option<Value>,
    /// For input that is neither text nor JSON.
    pub(super) media_type: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) required: bool,
    #[serde(default)]
    pub(super) stream: bool,
    /// The value where the caller gives none.
    pub(super) default: Option<Value>,
}

/// A time such as `500ms`, `30s`, `5m` or `2h`; more than none, a day at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeLimit(pub(crate) Duration);

// By hand, to say how a number is written.
impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = TimeLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in quotes with its unit, such as \"10s\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TimeLimit, E> {
                TimeLimit::try_from(text.to_owned()).map_err(E::custom)
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl Default for TimeLimit {
    fn default() -> Self {
        Self(DEFAULT_TIMEOUT)
    }
}

impl TryFrom<String> for TimeLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let millis = match unit {
            "ms" => Some(1),
            "s" => Some(1000),
            "m" => Some(60 * 1000),
            "h" => Some(60 * 60 * 1000),
            _ => None,
        };
        let time = number
            .parse::<u64>()
            .ok()
            .zip(millis)
            .and_then(|(number, millis)| number.checked_mul(millis))
            .map(Duration::from_millis);
        match time {
            Some(time) if !time.is_zero() && time <= MAX_TIMEOUT => Ok(Self(time)),
            Some(_) => Err(format!("{text:?} is not between 1ms and 24h")),
            None => Err(format!("{text:?} is not a time such as 500ms, 30s or 5m")),
        }
    }
}

/// A number of bytes, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct ByteLimit(pub(crate) usize);

impl Default for ByteLimit {
    fn default() -> Self {
        Self(DEFAULT_OUTPUT_BYTES as usize)
    }
}

impl TryFrom<u64> for ByteLimit {
    type Error = String;

    fn try_from(bytes: u64) -> Result<Self, String> {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes > 0 => Ok(Self(bytes)),
            _ => Err(format!("{bytes} is not a limit in bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let check = |text: &str, expected: Option<u64>| {
            let time = TimeLimit::try_from(text.to_owned()).ok();
            assert_eq!(time, expected.map(|ms| TimeLimit(Duration::from_millis(ms))), "{text}");
        };
        check("500ms", Some(500));
        check("30s", Some(30_000));
        check("5m", Some(300_000));
        check("24h", Some(86_400_000));
        check("25h", None);
        check("0s", None);
        check("30", None);
        check("-1s", None);
        check("1 s", None);
        check("99999999999999999999s", None);
    }
}
