//! The canonical form of an interaction, which equal interactions share.

use std::borrow::Cow;

use super::{
    error::InteractionError,
    validity::{check, check_turn, detail_fault},
};
use crate::wire::pb::{self, Interaction, Role};

/// Brings an interaction to the one form that equal interactions share:
///
/// - the role is said: unspecified becomes user;
/// - in `content`, a media type that repeats its predecessor's is dropped, and
///   metadata that held nothing else with it;
/// - the details of the status have no white space between their tokens.
pub fn canonicalize(interaction: &mut Interaction) {
    if interaction.role == Role::Unspecified as i32 {
        interaction.role = Role::User as i32;
    }
    let mut current = String::new();
    for chunk in &mut interaction.content {
        let Some(metadata) = &mut chunk.metadata else { continue };
        if metadata.media_type.is_empty() {
            continue;
        }
        if metadata.media_type != current {
            current.clone_from(&metadata.media_type);
            continue;
        }
        metadata.media_type.clear();
        if *metadata == pb::ChunkMetadata::default() {
            chunk.metadata = None;
        }
    }
    for detail in interaction.status.iter_mut().flat_map(|status| &mut status.details) {
        if has_space(detail) && detail_fault(detail).is_none() {
            *detail = without_space(detail);
        }
    }
}

/// Whether [`canonicalize`] would change nothing.
pub fn is_canonical(interaction: &Interaction) -> bool {
    let mut current = "";
    let repeated = interaction.content.iter().any(|chunk| {
        let media_type = chunk.media_type();
        let repeated = !media_type.is_empty() && media_type == current;
        if !media_type.is_empty() {
            current = media_type;
        }
        repeated
    });
    let mut details = interaction.status.iter().flat_map(|status| &status.details);
    interaction.role != Role::Unspecified as i32
        && !repeated
        && !details.any(|detail| has_space(detail) && detail_fault(detail).is_none())
}

/// The canonical form of what is to be written, or why it could not be read back.
///
/// # Errors
/// As [`check`].
pub fn checked(interaction: &Interaction) -> Result<Cow<'_, Interaction>, InteractionError> {
    let canonical = canonical(interaction);
    check(&canonical)?;
    Ok(canonical)
}

/// The same for a turn that is run or kept.
///
/// # Errors
/// As [`check_turn`].
pub fn checked_turn(interaction: &Interaction) -> Result<Cow<'_, Interaction>, InteractionError> {
    let canonical = canonical(interaction);
    check_turn(&canonical)?;
    Ok(canonical)
}

fn canonical(interaction: &Interaction) -> Cow<'_, Interaction> {
    let mut canonical = Cow::Borrowed(interaction);
    if !is_canonical(interaction) {
        canonicalize(canonical.to_mut());
    }
    canonical
}

/// Brings what was read to its canonical form, or refuses it.
///
/// # Errors
/// As [`check`].
pub fn accept(mut interaction: Interaction) -> Result<Interaction, InteractionError> {
    canonicalize(&mut interaction);
    check(&interaction)?;
    Ok(interaction)
}

/// Brings a turn that is run or kept to its canonical form, or refuses it.
///
/// # Errors
/// As [`check_turn`].
pub fn accept_turn(mut interaction: Interaction) -> Result<Interaction, InteractionError> {
    canonicalize(&mut interaction);
    check_turn(&interaction)?;
    Ok(interaction)
}

/// Whether valid JSON has white space between its tokens.
fn has_space(json: &str) -> bool {
    let mut outside = Outside::default();
    json.bytes().any(|byte| outside.holds(byte) && byte.is_ascii_whitespace())
}

/// Valid JSON without white space between its tokens.
fn without_space(json: &str) -> String {
    let mut outside = Outside::default();
    // In UTF-8, white space is never part of another character.
    json.chars()
        .filter(|&character| match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => !(outside.holds(byte) && byte.is_ascii_whitespace()),
            _ => true,
        })
        .collect()
}

/// Follows valid JSON byte by byte, and knows what is outside strings.
#[derive(Default)]
struct Outside {
    in_string: bool,
    escaped: bool,
}

impl Outside {
    fn holds(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ => {}
        }
        !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Chunk;

    #[test]
    fn a_repeated_media_type_is_dropped_with_metadata_that_held_nothing_else() {
        let mut dated = Chunk::text("c");
        dated.metadata.get_or_insert_default().attributes.insert("k".into(), "v".into());
        let mut interaction = Interaction {
            content: vec![
                Chunk::text("a"),
                Chunk::text("b"),
                Chunk { metadata: None, ..Chunk::text("-") },
                dated,
                Chunk::new("application/json", "1"),
                Chunk::text("d"),
            ],
            system_instructions: vec![Chunk::text("a"), Chunk::text("b")],
            ..Default::default()
        };
        assert!(!is_canonical(&interaction));
        canonicalize(&mut interaction);
        assert!(is_canonical(&interaction));
        let types: Vec<_> = interaction.content.iter().map(Chunk::media_type).collect();
        assert_eq!(types, ["text/plain", "", "", "", "application/json", "text/plain"]);
        let has: Vec<_> = interaction.content.iter().map(|c| c.metadata.is_some()).collect();
        assert_eq!(has, [true, false, false, true, true, true]);
        assert_eq!(interaction.system_instructions[1].media_type(), "text/plain");
        assert_eq!(interaction.role(), Role::User);
    }

    #[test]
    fn details_lose_only_white_space_between_tokens() {
        let check = |detail: &str, expected: &str| {
            let mut interaction = Interaction {
                role: Role::User as i32,
                status: Some(pb::Status { details: vec![detail.into()], ..Default::default() }),
                ..Default::default()
            };
            assert_eq!(is_canonical(&interaction), detail == expected, "{detail}");
            canonicalize(&mut interaction);
            assert_eq!(interaction.status.expect("kept").details, [expected]);
        };
        check(" {\n \"a b\" : [ 1.0 , \"\\\" ü \" ] }", r#"{"a b":[1.0,"\" ü "]}"#);
        check("12345678901234567890123", "12345678901234567890123");
        check("1 2", "1 2");
    }
}
