//! Counts cases, and keeps each difference.

use std::{fs, io::Write as _, path::Path};

use serde_json::Value;

/// How many cases agreed, and where the others differ.
#[derive(Default)]
pub struct Tally {
    pub passed: usize,
    pub total: usize,
    pub differences: Vec<String>,
}

impl Tally {
    /// Counts one case.
    pub fn check(&mut self, name: &str, result: Result<(), String>) {
        self.total += 1;
        match result {
            Ok(()) => self.passed += 1,
            Err(difference) => self.differences.push(format!("{name}: {difference}")),
        }
    }

    /// Prints each difference and the count.
    ///
    /// # Panics
    /// Where anything differs, or nothing was found to compare.
    pub fn report(&self) {
        // Straight to the stream: the harness hides what a passing test prints.
        let mut out = std::io::stdout();
        for difference in &self.differences {
            writeln!(out, "{difference}").ok();
        }
        writeln!(out, "conformance: {} of {}", self.passed, self.total).ok();
        assert!(self.total > 0, "no case was found");
        assert!(self.differences.is_empty(), "{} cases differ", self.differences.len());
    }
}

/// The cases of one file.
///
/// # Panics
/// Where it is no list of cases.
pub fn cases(dir: &Path, file: &str) -> Vec<Value> {
    let path = dir.join(file);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Whether two JSON values are the same; key order is free.
pub fn same(actual: &Value, expected: &Value) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("\n  expected {expected}\n  actual   {actual}"))
}
