//! Which programs run an action, where it is not this one.

/// How many [`Hosts`] names.
pub const MAX_HOSTS: usize = 16;

/// A program that runs an action for this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A program attached to this one.
    Peer {
        /// What it calls itself; may be empty.
        name: String,
        /// The beginning of its session's id, by which people tell sessions apart.
        session: String,
    },
    /// An MCP server, by what it is called here.
    McpServer(String),
}

/// The programs that run an action in turn; none where this one does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// At most [`MAX_HOSTS`] of them, those first that have hosted it longest.
    pub listed: Vec<Host>,
    /// How many more there are.
    pub others: usize,
}

impl From<Host> for Hosts {
    fn from(host: Host) -> Self {
        Self { listed: vec![host], others: 0 }
    }
}

impl Hosts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// How much text they have, in bytes.
    pub fn text_bytes(&self) -> usize {
        let text = |host: &Host| match host {
            Host::Peer { name, session } => name.len() + session.len(),
            Host::McpServer(name) => name.len(),
        };
        self.listed.iter().map(text).sum()
    }
}
