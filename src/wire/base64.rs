//! Base64 as the wire has it: read leniently, written one way.

use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const READ_STANDARD: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const READ_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Writes bytes as standard base64, padded.
pub fn encode(bytes: &[u8]) -> String {
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

/// Writes bytes as base64url, padded: how a result document shows bytes.
pub fn encode_url_safe(bytes: &[u8]) -> String {
    base64::prelude::BASE64_URL_SAFE.encode(bytes)
}

/// Reads base64 of either alphabet, padded or not.
///
/// # Errors
/// Where the text is neither, or mixes the two.
pub fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    READ_STANDARD.decode(text).or_else(|error| READ_URL_SAFE.decode(text).map_err(|_| error))
}

/// Reads base64 of the standard alphabet, padded or not.
///
/// # Errors
/// Where the text is not.
pub fn decode_standard(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    READ_STANDARD.decode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_read_padded_or_not_and_junk_is_refused() {
        let check = |text: &str, expected: Option<&[u8]>| {
            assert_eq!(decode(text).ok().as_deref(), expected, "{text:?}");
        };
        check("//4A", Some(&[0xff, 0xfe, 0]));
        check("_-8=", Some(&[0xff, 0xef]));
        check("_-8", Some(&[0xff, 0xef]));
        check("aGk", Some(b"hi"));
        check("aGk=", Some(b"hi"));
        check("", Some(b""));
        check("a", None);
        check("aG k=", None);
        check("_/8=", None);
        check("héllo", None);
    }
}
