//! The name an action has as a tool: one that the strictest hosts accept.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

/// The longest tool name that every host accepts.
pub const MAX_TOOL_NAME_LEN: usize = 64;
/// How much of a name is kept before its hash: with `_` and the digits it makes
/// [`MAX_TOOL_NAME_LEN`].
const KEPT: usize = 51;
/// How many hexadecimal digits of the hash stand behind it.
const DIGITS: usize = 12;

/// The tool name of an action: its own where that is 1–64 characters of
/// `[a-zA-Z0-9_-]`. Else every other character becomes `_`, the name is cut to
/// 51, and `_` and the first 12 hexadecimal digits of its SHA-256 follow.
pub fn tool_name(action: &str) -> Cow<'_, str> {
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if (1..=MAX_TOOL_NAME_LEN).contains(&action.len()) && action.chars().all(fits) {
        return action.into();
    }
    let mut name: String = action
        .chars()
        .map(|character| if fits(character) { character } else { '_' })
        .take(KEPT)
        .collect();
    name.push('_');
    for byte in &Sha256::digest(action.as_bytes())[..DIGITS / 2] {
        name.push_str(&format!("{byte:02x}"));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_is_kept_and_another_ends_in_its_hash() {
        let check = |action: &str, expected: &str| assert_eq!(tool_name(action), expected);
        check("echo", "echo");
        check("a-b_C9", "a-b_C9");
        check("a#b", "a_b_8187fc8f7f00");
        let longest = "x".repeat(64);
        check(&longest, &longest);
        let longer = "x".repeat(65);
        check(&longer, &format!("{}_{}", "x".repeat(51), "9537c5fdf120"));
        assert_eq!(tool_name(&longer).len(), 64);
    }
}
