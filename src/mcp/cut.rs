//! Cutting a result that is over the limit: what is left keeps its shape.

use serde_json::Value;

/// Cuts a text at a character, with a notice of how long it was.
pub(super) fn text(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… [cut, {} bytes in all]", &text[..end], text.len())
}

/// Cuts a document so that its JSON has about `most` bytes: strings end early
/// with a notice, lists lose their tail, and objects keep every field, so that
/// it still fits the schema it had.
pub(super) fn document(value: Value, most: usize) -> Value {
    let mut room = most;
    shrink(value, &mut room)
}

/// What a value takes beside its text: quotes, a comma, a colon.
const AROUND: usize = 3;

fn shrink(value: Value, room: &mut usize) -> Value {
    match value {
        Value::String(whole) => {
            let written = escaped_len(&whole);
            if written <= *room {
                *room -= written;
                return whole.into();
            }
            // Escapes count, so a string of controls is cut shorter.
            let most = *room * whole.len() / written;
            *room = 0;
            text(&whole, most).into()
        }
        Value::Array(items) => {
            let mut kept = vec![];
            for item in items {
                if *room <= AROUND {
                    break;
                }
                *room -= AROUND;
                kept.push(shrink(item, room));
            }
            kept.into()
        }
        Value::Object(fields) => {
            let shrunk = fields.into_iter().map(|(name, value)| {
                *room = room.saturating_sub(escaped_len(&name) + AROUND);
                let value = shrink(value, room);
                (name, value)
            });
            Value::Object(shrunk.collect())
        }
        value => {
            *room = room.saturating_sub(value.to_string().len());
            value
        }
    }
}

/// How many bytes a string takes in JSON, without its quotes.
pub(super) fn escaped_len(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            0..0x20 => 6,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cut_document_keeps_its_shape() {
        let check = |value: Value, most: usize, expected: Value| {
            assert_eq!(document(value, most), expected);
        };
        check(json!({"a": "short"}), 100, json!({"a": "short"}));
        check(
            json!({"a": "éééééééé", "n": 7, "b": "later"}),
            13,
            json!({"a": "éééé… [cut, 16 bytes in all]", "n": 7, "b": "… [cut, 5 bytes in all]"}),
        );
        check(json!([1, 2, 3, 4, 5, 6]), 13, json!([1, 2, 3]));
        check(json!("\u{1}\u{1}\u{1}\u{1}"), 12, json!("\u{1}\u{1}… [cut, 4 bytes in all]"));
    }
}
