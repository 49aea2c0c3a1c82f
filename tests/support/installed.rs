//! What `make test` installs and names in the environment; a test that needs
//! what is absent says so and passes, but fails in CI.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
};

/// The program or folder that a variable names, if it is there.
pub fn installed(variable: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
    if path.is_none() {
        skipped(&format!("{variable} names nothing that is there; run `make test`"));
    }
    path
}

/// Says why a test checks nothing.
///
/// # Panics
/// In CI, where everything is installed.
pub fn skipped(reason: &str) {
    assert!(env::var_os("CI").is_none(), "nothing is skipped in CI: {reason}");
    // Straight to the stream: the harness hides what a passing test prints.
    writeln!(io::stdout(), "skipped: {reason}").ok();
}
