//! A step as text for a terminal. Control characters of what was said are left
//! out, so that nothing can take over the terminal.

use super::step::{Block, Outcome, Step, says};

/// Writes a step, and ends with an empty line.
pub fn step(step: &Step) -> String {
    let Step { id, speaker, model, at, failure, instructions, blocks, usage } = step;
    let mut out = format!("── {speaker}");
    for said in [model, at, id].into_iter().filter(|said| !said.is_empty()) {
        out.push_str(" · ");
        out.push_str(&clean(said).replace('\n', " "));
    }
    out.push('\n');
    for text in instructions {
        indented("system: ", text, &mut out);
    }
    for block in blocks {
        write(block, &mut out);
    }
    if let Some(failure) = failure {
        indented("✗ ", failure, &mut out);
    }
    if !usage.is_empty() {
        indented("  ", &format!("tokens: {usage}"), &mut out);
    }
    out.push('\n');
    out
}

fn write(block: &Block, out: &mut String) {
    match block {
        Block::Text(text) => indented("", text, out),
        Block::Image { media_type, data } => {
            indented("", &format!("[picture: {media_type}, {} bytes]", data.len()), out);
        }
        Block::ImageAt(url) => indented("", &format!("[picture: {url}]"), out),
        Block::Call { id, name, arguments } => {
            indented("→ ", &format!("{name} {id}\n{arguments}"), out);
        }
        Block::Result { id, name, status, outcome, log, content } => {
            let mark = match outcome {
                Outcome::Done => "✓ ",
                Outcome::Failed => "✗ ",
            };
            let name = if name.is_empty() { String::new() } else { format!("{name} ") };
            indented(mark, &format!("{name}{id} {status}"), out);
            for line in log.lines() {
                indented("  │ ", line, out);
            }
            if !says(status, content) {
                indented("  ", content, out);
            }
        }
    }
}

/// The text with a mark before its first line, and as much room before the others.
fn indented(mark: &str, text: &str, out: &mut String) {
    let room: String = mark.chars().map(|c| if c == '│' { c } else { ' ' }).collect();
    for (at, line) in clean(text).lines().enumerate() {
        out.push_str(if at == 0 { mark } else { &room });
        out.push_str(line);
        out.push('\n');
    }
}

fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}
