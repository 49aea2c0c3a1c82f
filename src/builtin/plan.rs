//! What a call of a command does: its arguments become a process to start.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    declaration::OutputForm,
    environment::InheritEnv,
    input::Input,
    process::{Launch, Stderr},
    template::{Arguments, Template, group_items, text_of},
};
use crate::wire::{Code, base64};

/// What a call of it does.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: PathBuf,
    pub(super) items: Vec<Vec<Template>>,
    pub(super) stdin: Feed,
    pub(super) env: Vec<(String, Template)>,
    pub(super) arguments_as_env: bool,
    pub(super) inherit_env: InheritEnv,
    pub(super) directory: PathBuf,
    pub(super) inputs: Vec<Input>,
    pub(super) timeout: Duration,
    pub(super) max_output_bytes: usize,
    pub(super) output: OutputForm,
    pub(super) output_schema: Option<jsonschema::Validator>,
    pub(super) exit_codes: BTreeMap<i32, Code>,
}

#[derive(Debug)]
pub(super) enum Feed {
    Nothing,
    Json,
    Argument(String),
}

/// The values of a call, defaults among them.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Text and JSON; bytes as base64, so that they can stand in JSON.
    pub(super) values: Arguments,
    /// What is neither text nor JSON, as it came.
    pub(super) bytes: BTreeMap<String, Bytes>,
}

impl Plan {
    /// The process that a call starts.
    pub(super) fn launch(&self, given: &Given) -> Launch {
        let Given { values, bytes } = given;
        let mut environment = self.inherit_env.variables();
        let mut set = |name: &str, value: String| {
            environment.push((OsString::from(name), OsString::from(value)));
        };
        if self.arguments_as_env {
            // Bytes as variables would be base64 that nobody asked for.
            let texts = values.iter().filter(|(name, _)| !bytes.contains_key(*name));
            texts.for_each(|(name, value)| set(name, text_of(value)));
        }
        for (name, template) in &self.env {
            if let Some(value) = template.fill(values) {
                set(name, value);
            }
        }
        Launch {
            program: self.program.clone(),
            arguments: self.items.iter().flat_map(|group| group_items(group, values)).collect(),
            environment,
            directory: self.directory.clone(),
            stdin: self.stdin_of(given),
            stderr: Stderr::Apart,
        }
    }

    fn stdin_of(&self, Given { values, bytes }: &Given) -> Bytes {
        match &self.stdin {
            Feed::Nothing => Bytes::new(),
            Feed::Json => {
                let named = |input: &Input| Some((input.name.clone(), values.get(&input.name)?));
                let object: Map<String, Value> = self
                    .inputs
                    .iter()
                    .filter_map(named)
                    .map(|(name, value)| (name, value.clone()))
                    .collect();
                Value::Object(object).to_string().into()
            }
            Feed::Argument(name) => match (bytes.get(name), values.get(name)) {
                (Some(bytes), _) => bytes.clone(),
                (None, Some(value)) => text_of(value).into(),
                (None, None) => Bytes::new(),
            },
        }
    }

    /// The program's name, for people.
    pub(super) fn program(&self) -> &str {
        self.program.file_name().and_then(|name| name.to_str()).unwrap_or("the program")
    }

    /// The code of an exit status other than 0.
    pub(super) fn code_of_exit(&self, status: i32) -> Code {
        self.exit_codes.get(&status).copied().unwrap_or(Code::Unknown)
    }
}

/// Bytes as they stand in JSON.
pub(super) fn bytes_in_json(bytes: &[u8]) -> Value {
    Value::String(base64::encode(bytes))
}
