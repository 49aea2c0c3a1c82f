//! What of this program's environment a child sees: little, unless more is asked
//! for, since keys and tokens live there.

use std::ffi::OsString;

use serde::Deserialize;

/// Which variables a child inherits.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(untagged, expecting = "true, false, or a list of variable names")]
pub(super) enum InheritEnv {
    /// PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*, TERM, TMPDIR, TZ.
    #[default]
    #[serde(skip)]
    Basics,
    /// All of them, or none at all.
    All(bool),
    /// These.
    Named(Vec<String>),
}

const BASICS: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ"];

impl InheritEnv {
    /// The variables that are inherited, with their values.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let inherits = |name: &str| match self {
            Self::Basics => BASICS.contains(&name) || name.starts_with("LC_"),
            Self::All(all) => *all,
            Self::Named(names) => names.iter().any(|candidate| candidate == name),
        };
        std::env::vars_os()
            .filter(|(name, _)| match name.to_str() {
                Some(name) => inherits(name),
                None => matches!(self, Self::All(true)),
            })
            .collect()
    }
}
