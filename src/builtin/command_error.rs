//! Why the declaration of a command is refused.

use thiserror::Error;

use super::{input::InputFault, template::TemplateError};
use crate::action::SchemaError;

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
