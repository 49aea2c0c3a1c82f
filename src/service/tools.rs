//! What a model is told of the actions that it may call.

use super::{caller::Caller, dialect::dialect};
use crate::action::Registry;
use crate::runner::{Declared, ToolName, declare};
use crate::wire::{Status, pb};

pub(super) fn declared(
    registry: &Registry,
    caller: &Caller,
    request: pb::DeclareToolsRequest,
) -> Result<pb::DeclareToolsResponse, Status> {
    let pb::DeclareToolsRequest { allowed_actions, backend, dialect: name } = request;
    let dialect = dialect("backend", backend, &name)?;
    let allow_list = caller.allow_list(&allowed_actions)?;
    let Declared { tools, names } = declare(registry, &allow_list, dialect)?;
    let names = names.into_iter().map(|ToolName { tool, action }| pb::ToolName { tool, action });
    Ok(pb::DeclareToolsResponse { tools, names: names.collect() })
}
