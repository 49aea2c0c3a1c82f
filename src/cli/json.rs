//! JSON text laid out for people or on one line, with every number and string as
//! it was written; and what several commands print.

use serde_json::{Value, json};

use crate::wire::{Status, status::code_name};

/// A status as every command prints it: its code by name and, of a failure,
/// message and reason.
pub(super) fn status(status: &Status) -> Value {
    let mut shown = json!({ "code": code_name(status.code) });
    if !status.is_ok() {
        shown["message"] = status.message.as_str().into();
        shown["reason"] = status.reason.as_str_name().trim_start_matches("REASON_").into();
    }
    shown
}

/// The text indented by two spaces. Text that is not JSON comes out as some
/// layout of itself.
pub(super) fn pretty(json: &str) -> String {
    lay_out(json, Layout::Indented)
}

/// The text on one line, without spaces outside of strings.
pub(super) fn compact(json: &str) -> String {
    lay_out(json, Layout::OneLine)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Indented,
    OneLine,
}

fn lay_out(json: &str, layout: Layout) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut source = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        if layout == Layout::Indented {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    while let Some(c) = source.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while source.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = source.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' if layout == Layout::Indented => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_and_nothing_in_it_changes() {
        let check = |json: &str, indented: &str, one_line: &str| {
            assert_eq!(pretty(json), indented);
            assert_eq!(compact(json), one_line);
        };
        check("{ }", "{}", "{}");
        check(
            "[1.10, 12345678901234567890]",
            "[\n  1.10,\n  12345678901234567890\n]",
            "[1.10,12345678901234567890]",
        );
        check(
            r#"{"a":{"b": ["x, y", "q\"{ \\"]}}"#,
            "{\n  \"a\": {\n    \"b\": [\n      \"x, y\",\n      \"q\\\"{ \\\\\"\n    ]\n  }\n}",
            r#"{"a":{"b":["x, y","q\"{ \\"]}}"#,
        );
        check("\"a b\"", "\"a b\"", "\"a b\"");
    }
}
