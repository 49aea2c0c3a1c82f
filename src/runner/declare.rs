//! What a model is told of the actions that it may call.

use thiserror::Error;

use super::allow_list::AllowList;
use crate::action::{Registry, schema::Runnable, tool_name};
use crate::interaction::backend::{Dialect, declaration, tools};
use crate::wire::{Reason, Status};

/// How long all declarations may be together, in bytes: what calls of one turn may
/// put out, and more than any provider takes.
pub const MAX_DECLARED_BYTES: usize = 16 * 1024 * 1024;

/// The tools of a provider's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The elements of the request's `tools`, each one JSON text.
    pub tools: Vec<String>,
    /// What the model calls each action by, in the order of the declarations.
    pub names: Vec<ToolName>,
}

/// What a model calls an action by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// The action's [tool name](tool_name).
    pub tool: String,
    /// Its own.
    pub action: String,
}

/// Why tools were not declared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeclareError {
    /// They are longer together than [`MAX_DECLARED_BYTES`].
    #[error(
        "the declarations of the allowed actions are larger than {MAX_DECLARED_BYTES} bytes; \
         {action:?} is one too many: allow fewer"
    )]
    TooLarge {
        /// The first that was one too many.
        action: String,
    },
}

impl From<DeclareError> for Status {
    fn from(error: DeclareError) -> Self {
        match &error {
            DeclareError::TooLarge { .. } => Self::of(Reason::OutputTooLarge, error.to_string()),
        }
    }
}

/// Declares the actions of a registry that run and are allowed, by name: what a
/// request to the provider has as `tools`. The same list allows their calls.
///
/// # Errors
/// Where they are too large together.
pub fn declare(
    registry: &Registry,
    allow_list: &AllowList,
    dialect: Dialect,
) -> Result<Declared, DeclareError> {
    let mut declarations = vec![];
    let mut names = vec![];
    let mut room = MAX_DECLARED_BYTES;
    for entry in registry.entries(None) {
        let schema = entry.schema();
        let action = schema.name().as_str();
        if entry.runnable() == Runnable::No || !allow_list.allows(action) {
            continue;
        }
        let too_large = || DeclareError::TooLarge { action: action.to_owned() };
        let declaration = declaration(dialect, schema);
        let tool = tool_name(action).into_owned();
        let taken = declaration.len() + tool.len() + action.len();
        room = room.checked_sub(taken).ok_or_else(too_large)?;
        declarations.push(declaration);
        names.push(ToolName { tool, action: action.to_owned() });
    }
    Ok(Declared { tools: tools(dialect, declarations), names })
}
