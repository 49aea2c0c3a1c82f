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
use crate::wire::Name;

/// The tools of a registry, made anew when it changes.
pub(super) struct Catalog {
    registry: Arc<Registry>,
    allow: Option<AllowList>,
    describe: Describe,
    changes: watch::Receiver<u64>,
    made: Mutex<Option<Made>>,
}

/// The list at one moment.
#[derive(Clone)]
struct Made {
    generation: u64,
    /// By their actions' names.
    tools: Arc<[Tool]>,
    /// Of each tool: its action's name, and its length as JSON.
    places: Arc<[(Name, usize)]>,
}

/// A part of the list.
pub(super) struct Page {
    pub(super) tools: Vec<Tool>,
    /// Where the next one begins; `None` where this is the last.
    pub(super) next: Option<String>,
}

/// How many tools a page has at most, and how many bytes of JSON, of which a client
/// may take no more than 1 MiB at once. One tool has them all where it is larger.
const PAGE_TOOLS: usize = 1000;
const PAGE_BYTES: usize = 512 * 1024;

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
        self.now().tools
    }

    /// The part of the list after an action, whether that is still there or not.
    pub(super) fn page(&self, after: Option<&str>) -> Page {
        let Made { generation: _, tools, places } = self.now();
        let first = match after {
            Some(after) => places.partition_point(|(name, _)| name.as_str() <= after),
            None => 0,
        };
        let (mut bytes, mut end) = (0, first);
        for (_, length) in places[first..].iter().take(PAGE_TOOLS) {
            bytes += length;
            if bytes > PAGE_BYTES && end > first {
                break;
            }
            end += 1;
        }
        let next = (end < places.len()).then(|| places[end - 1].0.to_string());
        Page { tools: tools[first..end].to_vec(), next }
    }

    fn now(&self) -> Made {
        // Read before the entries: a change in between is seen the next time.
        let generation = *self.changes.borrow();
        let mut made = self.made.lock();
        if let Some(made) = &*made
            && made.generation == generation
        {
            return made.clone();
        }
        let entries = self.registry.entries(None);
        let served = || entries.iter().filter(|entry| self.serves(entry));
        let tools: Vec<Tool> =
            served().map(|entry| declaration::tool(entry, self.describe)).collect();
        let now = match made.take() {
            Some(before) if *before.tools == *tools => Made { generation, ..before },
            _ => {
                let lengths =
                    tools.iter().map(|it| serde_json::to_vec(it).map_or(0, |it| it.len()));
                let names = served().map(|entry| entry.schema().name().clone());
                let places = names.zip(lengths).collect();
                Made { generation, tools: tools.into(), places }
            }
        };
        *made = Some(now.clone());
        now
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
