//! A command action that was found valid: its schema, and how a call's arguments
//! become a process to start.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    declaration::{Declaration, Item, OutputForm, Stdin, StdinArgument, StdinWord},
    environment::InheritEnv,
    input::{Input, InputFault},
    process::{Launch, Stderr},
    template::{Arguments, Template, TemplateError, group_items, text_of},
};
use crate::action::{ActionSchema, Port, SchemaError};
use crate::wire::chunk::Kind;
use crate::wire::status::code_of_name;
use crate::wire::{Code, base64};

/// The port of text and lines.
pub(super) const OUTPUT: &str = "output";
/// The port of JSON.
pub(super) const RESULT: &str = "result";
const SHELL: &str = "/bin/sh";

/// A valid command action.
#[derive(Debug)]
pub struct Command {
    schema: ActionSchema,
    pub(super) plan: Plan,
}

/// What a call of it does.
#[derive(Debug)]
pub(super) struct Plan {
    program: PathBuf,
    items: Vec<Vec<Template>>,
    stdin: Feed,
    env: Vec<(String, Template)>,
    arguments_as_env: bool,
    inherit_env: InheritEnv,
    directory: PathBuf,
    pub(super) inputs: Vec<Input>,
    pub(super) timeout: Duration,
    pub(super) max_output_bytes: usize,
    pub(super) output: OutputForm,
    pub(super) output_schema: Option<jsonschema::Validator>,
    exit_codes: BTreeMap<i32, Code>,
}

#[derive(Debug)]
enum Feed {
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

/// Why a declaration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Neither, or both.
    #[error("one of `command` and `shell` says what it runs")]
    WhatToRun,
    /// A program that a caller could choose.
    #[error("the first item of `command` is the program: a text without arguments in it")]
    Program,
    /// Braces.
    #[error("{key}: {error}")]
    Template {
        /// Where.
        key: String,
        /// What.
        error: TemplateError,
    },
    /// A placeholder or `stdin` that names nothing.
    #[error("{key}: there is no input {name:?}")]
    UnknownInput {
        /// Where.
        key: String,
        /// The name.
        name: String,
    },
    /// Bytes where only text can stand.
    #[error("{key}: input {name:?} is bytes, which only `stdin` can carry")]
    BytesAsText {
        /// Where.
        key: String,
        /// The name.
        name: String,
    },
    /// An input that the program never gets.
    #[error(
        "input {0:?} goes nowhere: put {{{0}}} into `command` or `env`, or set `stdin` or \
         `arguments_as_env`"
    )]
    UnusedInput(String),
    /// A placeholder where the shell reads a variable.
    #[error("shell: `{{{0}}}` is not filled in; the input is the variable \"${0}\"")]
    PlaceholderInShell(String),
    /// A variable that cannot be.
    #[error("env: {0:?} is not the name of an environment variable")]
    Variable(String),
    /// An input that would become a variable of the system's own.
    #[error(
        "input {0:?} becomes an environment variable, so its name must be of [a-z0-9_] and begin \
         with a letter: names in capitals belong to the system"
    )]
    InputAsVariable(String),
    /// An input that contradicts itself.
    #[error("input {input:?}: {fault}")]
    Input {
        /// The input.
        input: String,
        /// What is wrong.
        fault: InputFault,
    },
    /// A schema for what has none.
    #[error("output_schema is for output = \"json\"")]
    SchemaWithoutJson,
    /// The schema is not one.
    #[error("output_schema: not a JSON Schema: {0}")]
    OutputSchema(String),
    /// An exit status or code that is none.
    #[error("exit_codes: {0} is not an exit status from 1 to 255 with the name of a status code")]
    ExitCode(String),
    /// The schema it makes is broken.
    #[error("{}", .0.fault)]
    Schema(#[from] SchemaError),
}

impl Command {
    /// Checks a declaration. Paths in it are relative to `directory`.
    pub(crate) fn new(
        name: &str,
        declaration: Declaration,
        directory: &Path,
    ) -> Result<Self, CommandError> {
        let Declaration {
            description,
            command,
            shell,
            stdin,
            env,
            arguments_as_env,
            inherit_env,
            working_directory,
            timeout,
            max_output_bytes,
            output,
            output_schema,
            exit_codes,
            idempotent,
            inputs,
        } = declaration;

        let mut builder = ActionSchema::builder(name).describe(description);
        let mut in_order: Vec<_> = inputs.into_iter().collect();
        in_order.sort_by_key(|(_, input)| input.span().start);
        let mut known = vec![];
        for (name, declared) in in_order {
            let (port, input) = Input::declared(&name, declared.into_inner())
                .map_err(|fault| CommandError::Input { input: name, fault })?;
            builder = builder.input(port);
            known.push(input);
        }

        let arguments_as_env = arguments_as_env || shell.is_some();
        if arguments_as_env
            && let Some(input) = known.iter().find(|input| !is_variable_of_ours(&input.name))
        {
            return Err(CommandError::InputAsVariable(input.name.clone()));
        }
        let (program, items) = match (command, shell) {
            (Some(command), None) => parse_command(command, directory, &known)?,
            (None, Some(text)) => {
                if let Some(input) = known.iter().find(|input| has_placeholder(&text, &input.name))
                {
                    return Err(CommandError::PlaceholderInShell(input.name.clone()));
                }
                (PathBuf::from(SHELL), literal_items(&["-c", &text, name]))
            }
            _ => return Err(CommandError::WhatToRun),
        };
        let env: Vec<(String, Template)> = env
            .into_iter()
            .map(|(name, value)| {
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err(CommandError::Variable(name));
                }
                let template = parse_template(&format!("env.{name}"), &value, &known)?;
                Ok((name, template))
            })
            .collect::<Result<_, _>>()?;
        let stdin = match stdin {
            Stdin::Nothing | Stdin::Word(StdinWord::None) => Feed::Nothing,
            Stdin::Word(StdinWord::Json) => Feed::Json,
            Stdin::Argument(StdinArgument { argument }) => {
                if !known.iter().any(|input| input.name == argument) {
                    let key = "stdin".to_owned();
                    return Err(CommandError::UnknownInput { key, name: argument });
                }
                Feed::Argument(argument)
            }
        };

        let takes_all = arguments_as_env || matches!(stdin, Feed::Json);
        let is_used = |input: &Input| {
            let mut templates = items.iter().flatten().chain(env.iter().map(|(_, value)| value));
            matches!(&stdin, Feed::Argument(fed) if *fed == input.name)
                || templates.any(|template| template.names().any(|name| name == input.name))
        };
        if let Some(input) = known.iter().find(|input| !takes_all && !is_used(input)) {
            return Err(CommandError::UnusedInput(input.name.clone()));
        }

        let validator = match (&output_schema, output) {
            (Some(_), OutputForm::Text | OutputForm::Lines) => {
                return Err(CommandError::SchemaWithoutJson);
            }
            (Some(schema), OutputForm::Json) => Some(
                jsonschema::validator_for(schema)
                    .map_err(|error| CommandError::OutputSchema(error.to_string()))?,
            ),
            (None, _) => None,
        };
        builder = match output {
            OutputForm::Text => {
                builder.output(Port::text(OUTPUT).required().describe("What it printed."))
            }
            OutputForm::Lines => {
                builder.output(Port::text(OUTPUT).stream().describe("What it printed, by line."))
            }
            OutputForm::Json => {
                let mut port = Port::json(RESULT).required();
                if let Some(schema) = &output_schema {
                    port = port.schema(schema.to_string());
                }
                builder.output(port).map(RESULT, "$")
            }
        };
        if idempotent {
            builder = builder.idempotent();
        }
        let exit_codes = exit_codes
            .into_iter()
            .map(|(status, code)| {
                let number = status.parse().ok().filter(|number| (1..=255).contains(number));
                let named = code_of_name(&code).filter(|code| *code != Code::Ok);
                number.zip(named).ok_or(CommandError::ExitCode(format!("{status} = {code:?}")))
            })
            .collect::<Result<_, _>>()?;
        let plan = Plan {
            program,
            items,
            stdin,
            env,
            arguments_as_env,
            inherit_env,
            directory: working_directory.map_or(directory.to_owned(), |path| directory.join(path)),
            inputs: known,
            timeout: timeout.0,
            max_output_bytes: max_output_bytes.0,
            output,
            output_schema: validator,
            exit_codes,
        };
        Ok(Self { schema: builder.build()?, plan })
    }

    /// Its schema.
    pub fn schema(&self) -> &ActionSchema {
        &self.schema
    }
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

fn parse_command(
    command: Vec<Item>,
    directory: &Path,
    known: &[Input],
) -> Result<(PathBuf, Vec<Vec<Template>>), CommandError> {
    let mut command = command.into_iter().enumerate();
    let Some((_, Item::One(program))) = command.next() else { return Err(CommandError::Program) };
    let program = Template::parse(&program)
        .ok()
        .filter(|template| template.names().next().is_none())
        .and_then(|template| template.fill(&Arguments::new()))
        .filter(|program| !program.is_empty() && !program.contains('\0'))
        .ok_or(CommandError::Program)?;
    // A bare name is looked up in PATH; a path is relative to the config file.
    let program = match program.contains('/') {
        true => directory.join(program),
        false => PathBuf::from(program),
    };
    let items = command
        .map(|(place, item)| {
            let texts = match item {
                Item::One(text) => vec![text],
                Item::Group(texts) => texts,
            };
            let key = format!("command[{place}]");
            texts.iter().map(|text| parse_template(&key, text, known)).collect()
        })
        .collect::<Result<_, _>>()?;
    Ok((program, items))
}

fn parse_template(key: &str, text: &str, known: &[Input]) -> Result<Template, CommandError> {
    let key = || key.to_owned();
    let template =
        Template::parse(text).map_err(|error| CommandError::Template { key: key(), error })?;
    for name in template.names() {
        let name = name.to_owned();
        match known.iter().find(|input| input.name == name).map(|input| input.kind) {
            None => return Err(CommandError::UnknownInput { key: key(), name }),
            Some(Kind::Text | Kind::Json) => {}
            Some(Kind::Image | Kind::Audio | Kind::Bytes) => {
                return Err(CommandError::BytesAsText { key: key(), name });
            }
        }
    }
    Ok(template)
}

fn literal_items(texts: &[&str]) -> Vec<Vec<Template>> {
    texts.iter().map(|text| vec![Template::literal(text)]).collect()
}

/// Environment names in lower case are left to applications (POSIX, 8.1).
fn is_variable_of_ours(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Bytes as they stand in JSON.
pub(super) fn bytes_in_json(bytes: &[u8]) -> Value {
    Value::String(base64::encode(bytes))
}

/// Whether a shell text has `{name}`; `${name}` is the shell's own.
fn has_placeholder(shell: &str, name: &str) -> bool {
    let placeholder = format!("{{{name}}}");
    shell.match_indices(&placeholder).any(|(at, _)| !shell[..at].ends_with('$'))
}
