//! Which tools there are at the moment: the registry through the allow-list.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::Tool;
use tokio::sync::watch;

use super::{
    declaration::{self, Describe},
    options::McpOptions,
};
use crate::action::{Entry, Registry, schema::Runnable};
use crate::runner::AllowList;

/// The tools of a registry, made anew when it changes.
pub(super) struct Catalog {
    registry: Arc<Registry>,
    allow: Option<AllowList>,
    describe: Describe,
    changes: watch::Receiver<u64>,
    made: Mutex<Option<(u64, Arc<[Tool]>)>>,
}

impl Catalog {
    pub(super) fn new(options: &McpOptions) -> Self {
        Self {
            registry: options.registry.clone(),
            allow: options.allow.clone(),
            describe: options.describe,
            changes: options.registry.changes(),
            made: Mutex::default(),
        }
    }

    /// All tools by their actions' names. The same list as before where none of
    /// them changed.
    pub(super) fn tools(&self) -> Arc<[Tool]> {
        // Read before the entries: a change in between is seen the next time.
        let generation = *self.changes.borrow();
        let mut made = self.made.lock();
        if let Some((made_at, tools)) = &*made
            && *made_at == generation
        {
            return tools.clone();
        }
        let entries = self.registry.entries(None);
        let tools: Vec<Tool> = entries
            .iter()
            .filter(|entry| self.serves(entry))
            .map(|entry| declaration::tool(entry, self.describe))
            .collect();
        let tools = match &*made {
            Some((_, before)) if **before == *tools => before.clone(),
            _ => tools.into(),
        };
        *made = Some((generation, tools.clone()));
        tools
    }

    /// The action that a tool runs, if it is served.
    pub(super) fn entry(&self, tool: &str) -> Option<Entry> {
        self.registry.entry_of_tool(tool).filter(|entry| self.serves(entry))
    }

    /// The declaration of one tool, if it is served.
    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        self.entry(name).map(|entry| declaration::tool(&entry, self.describe))
    }

    /// Changes with the registry.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    fn serves(&self, entry: &Entry) -> bool {
        let name = entry.schema().name().as_str();
        entry.runnable() == Runnable::Yes
            && self.allow.as_ref().is_none_or(|allow| allow.allows(name))
    }
}
