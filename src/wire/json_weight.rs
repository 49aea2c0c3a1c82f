//! How much memory a JSON text will take as values, told before they are made: two
//! characters are a list of a hundred bytes in memory, so a limit on the text bounds
//! nothing.

use serde::Deserialize;
use thiserror::Error;

use super::status::{Code, Status};

/// The most that one text weighs. What weighs one takes up to 130 bytes as values,
/// measured, while they are read; at the most that is 140 MB beside their texts.
/// [`super::weight`] says the same of a message.
const MAX_WEIGHT: usize = 1 << 20;
/// What an object weighs, and a list; what stands in them weighs one each.
const OBJECT_WEIGHT: usize = 3;
const LIST_WEIGHT: usize = 2;

/// A text with too many values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the JSON holds too many values: it may have about {MAX_WEIGHT}, of which an object counts \
     as {OBJECT_WEIGHT} and a list as {LIST_WEIGHT}"
)]
pub struct TooManyValues;

impl From<TooManyValues> for Status {
    /// As a message that is too heavy is refused: RESOURCE_EXHAUSTED.
    fn from(error: TooManyValues) -> Self {
        Self::without_reason(Code::ResourceExhausted, error.to_string())
    }
}

/// Refuses a JSON text that would take too much memory as values. One that is
/// malformed is for its reader to refuse.
///
/// # Errors
/// Where it holds more than it may.
pub fn check(json: &[u8]) -> Result<(), TooManyValues> {
    // One that is so short cannot be too heavy.
    if json.len() <= MAX_WEIGHT / OBJECT_WEIGHT {
        return Ok(());
    }
    add(0, json).map(drop)
}

/// What several texts weigh whose values are held together.
#[derive(Debug, Default)]
pub struct Weight(usize);

impl Weight {
    /// Adds one more of them.
    ///
    /// # Errors
    /// Where all of them together hold more than one text may.
    pub fn add(&mut self, json: &[u8]) -> Result<(), TooManyValues> {
        // The value itself weighs one, whatever it is.
        self.0 = add(self.0 + 1, json)?;
        Ok(())
    }
}

/// A weight with what a text adds to it.
fn add(mut weight: usize, json: &[u8]) -> Result<usize, TooManyValues> {
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        weight += match byte {
            b'{' => OBJECT_WEIGHT,
            b'[' => LIST_WEIGHT,
            b',' => 1,
            b'"' => {
                // To the end of the text, which weighs nothing more.
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
                0
            }
            _ => 0,
        };
        if weight > MAX_WEIGHT {
            return Err(TooManyValues);
        }
    }
    Ok(weight)
}

/// Reads a JSON text into values, unless it would take too much memory.
///
/// # Errors
/// Where it holds more than it may, which is said as any other fault, or is no
/// JSON of that type.
pub fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    check(json).map_err(serde::de::Error::custom)?;
    serde_json::from_slice(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(item: &str, count: usize) -> String {
        format!("[{}]", vec![item; count].join(","))
    }

    #[test]
    fn what_would_take_too_much_memory_is_refused() {
        let check_items = |item: &str, most: usize| {
            assert_eq!(check(list_of(item, most).as_bytes()), Ok(()), "{item}");
            let one_more = list_of(item, most + 1);
            assert_eq!(check(one_more.as_bytes()), Err(TooManyValues), "{item}");
            assert!(read::<serde_json::Value>(one_more.as_bytes()).is_err(), "{item}");
        };
        check_items("1", MAX_WEIGHT - 1);
        check_items("[]", (MAX_WEIGHT - 1) / 3);
        check_items("{}", (MAX_WEIGHT - 1) / 4);
        check_items(r#"{"a":0,"b":[]}"#, (MAX_WEIGHT - 1) / 7);
    }

    #[test]
    fn what_stands_in_a_text_weighs_nothing() {
        let text = r#"{[,\"\\"#.repeat(1_000_000);
        assert_eq!(check(format!(r#"["{text}", 1]"#).as_bytes()), Ok(()));
        // Unfinished, which is for its reader to say.
        assert_eq!(check(format!(r#"["{text}"#).as_bytes()), Ok(()));
        let after = format!(r#"["{text}",{}"#, list_of("[]", MAX_WEIGHT));
        assert_eq!(check(after.as_bytes()), Err(TooManyValues));
    }
}
