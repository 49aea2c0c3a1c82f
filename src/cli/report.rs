//! What a user sees while calls run, on standard error: a line for each that
//! ends, its narration, and on a terminal what is running now.

use std::{
    collections::HashMap,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{duration::shown, output::tell, program::Talk};
use crate::wire::{Status, pb};

/// How many running calls are shown at once.
const SHOWN_AT_ONCE: usize = 16;
/// How often what is shown moves.
const TICK: Duration = Duration::from_millis(120);
/// How long a narration without a line break is held back, in bytes.
const LINE_BYTES: usize = 8 * 1024;

/// The report of the calls of one command.
pub(super) struct Report {
    talk: Talk,
    screen: Option<MultiProgress>,
    running: HashMap<String, Running>,
}

struct Running {
    name: String,
    since: Instant,
    bar: Option<ProgressBar>,
    /// Narration that has not ended its line yet.
    unended: String,
}

impl Report {
    pub(super) fn new(talk: Talk) -> Self {
        let on_terminal = talk == Talk::Normal && std::io::stderr().is_terminal();
        Self { talk, screen: on_terminal.then(MultiProgress::new), running: HashMap::new() }
    }

    /// A call began.
    pub(super) fn started(&mut self, id: &str, name: &str) {
        let shown_now = self.running.values().filter(|running| running.bar.is_some()).count();
        let bar = match &self.screen {
            Some(screen) if shown_now < SHOWN_AT_ONCE => {
                let bar = screen.add(ProgressBar::new_spinner().with_style(style()));
                bar.set_message(clean(&format!("{name} {id}")));
                bar.enable_steady_tick(TICK);
                Some(bar)
            }
            _ => None,
        };
        let running =
            Running { name: name.to_owned(), since: Instant::now(), bar, unended: String::new() };
        self.running.insert(id.to_owned(), running);
    }

    /// A call narrated. Entries are one text, so lines are put together first.
    pub(super) fn log(&mut self, id: &str, text: &str) {
        let Some(running) = self.running.get_mut(id) else { return };
        running.unended.push_str(text);
        let name = running.name.clone();
        let ended = match running.unended.rfind('\n') {
            Some(end) => running.unended.drain(..=end).collect(),
            None if running.unended.len() > LINE_BYTES => std::mem::take(&mut running.unended),
            None => return,
        };
        self.narrate(&name, &ended);
    }

    fn narrate(&self, name: &str, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.say(&format!("  {name}: {line}"));
        }
    }

    /// A call ended.
    pub(super) fn finished(&mut self, result: &pb::CallResult) {
        let running = self.running.remove(&result.id);
        if let Some(running) = &running {
            self.narrate(&running.name, &running.unended);
            if let Some(bar) = &running.bar {
                bar.finish_and_clear();
            }
        }
        let took = running.map(|running| running.since.elapsed());
        self.say(&status_line(result, took));
    }

    /// Says a line above what is running, with what could control a terminal
    /// taken out.
    pub(super) fn say(&self, line: &str) {
        if self.talk == Talk::Quiet {
            return;
        }
        let line = clean(line);
        match &self.screen {
            Some(screen) => {
                let _ = screen.println(line);
            }
            None => tell(&line),
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// `✓ echo call-1 12 ms`, `✗ order_status toolu_2 NOT_FOUND: no such order`.
pub(super) fn status_line(result: &pb::CallResult, took: Option<Duration>) -> String {
    let status = Status::from(result.status.clone().unwrap_or_default());
    let pb::CallResult { id, name, .. } = result;
    match (status.is_ok(), took) {
        (true, Some(took)) => format!("✓ {name} {id} {}", shown(took)),
        (true, None) => format!("✓ {name} {id}"),
        (false, _) => format!("✗ {name} {id} {}", status.summary()),
    }
}

/// A text without control characters, on one line.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;

    #[test]
    fn a_status_line_names_call_and_outcome() {
        let check = |status: Status, took, expected: &str| {
            let result = pb::CallResult {
                id: "call-1".to_owned(),
                name: "echo".to_owned(),
                status: Some(status.into()),
                log: String::new(),
            };
            assert_eq!(status_line(&result, took), expected);
        };
        check(Status::ok(), Some(Duration::from_millis(12)), "✓ echo call-1 12 ms");
        check(Status::ok(), None, "✓ echo call-1");
        check(
            Status::handler(Code::NotFound, "no such order"),
            Some(Duration::from_secs(2)),
            "✗ echo call-1 NOT_FOUND: no such order",
        );
    }

    #[test]
    fn what_could_control_a_terminal_is_taken_out() {
        assert_eq!(clean("a\x1b[31mb\nc"), "a\u{fffd}[31mb c");
    }
}
