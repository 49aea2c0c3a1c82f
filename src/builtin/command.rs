//! A command action that was found valid: what its declaration comes to.

use std::path::{Path, PathBuf};

pub use super::command_error::CommandError;
use super::{
    declaration::{Declaration, Item, Items, OutputForm, Stdin, StdinArgument, StdinWord},
    input::Input,
    plan::{Feed, Plan},
    template::{Arguments, Template},
};
use crate::action::{ActionSchema, Port};
use crate::wire::Code;
use crate::wire::chunk::Kind;
use crate::wire::status::code_of_name;

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
            (Some(Items(command)), None) => parse_command(command, directory, &known)?,
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

/// Whether a shell text has `{name}`; `${name}` is the shell's own.
fn has_placeholder(shell: &str, name: &str) -> bool {
    let placeholder = format!("{{{name}}}");
    shell.match_indices(&placeholder).any(|(at, _)| !shell[..at].ends_with('$'))
}
