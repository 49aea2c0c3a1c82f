//! A look into JSON one level at a time, values kept as the text they came in:
//! nothing is built that is not wanted, and numbers keep their digits.

use std::{collections::HashMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The most characters of someone's text that an error quotes.
const QUOTED_CHARS: usize = 120;

/// An object's fields in order. A repeated key keeps its first place and has its
/// last value.
pub(super) struct Entries<V>(pub(super) Vec<(String, V)>);

/// An object whose values are still text.
pub(super) type Object<'a> = Entries<&'a RawValue>;

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Fields<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(String, V)> = vec![];
                let mut places = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, V>()? {
                    match places.get(&key) {
                        Some(place) => fields[*place] = (key, value),
                        None => {
                            places.insert(key.clone(), fields.len());
                            fields.push((key, value));
                        }
                    }
                }
                Ok(Entries(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

impl<'a> Object<'a> {
    /// The fields of an object; None for anything else.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// A field's value; null is the same as absent, since SDKs dump every field.
    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().find(|(name, _)| name == key)?;
        (value.get() != "null").then_some(*value)
    }

    /// The first of several spellings of a field.
    pub(super) fn either(&self, keys: [&str; 2]) -> Option<&'a RawValue> {
        keys.into_iter().find_map(|key| self.get(key))
    }

    /// A field that is text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// A field that is an id: text, or a number as some servers count them.
    /// Empty text is no id.
    pub(super) fn id(&self, key: &str) -> Option<String> {
        let raw = self.get(key)?;
        let id = match Kind::of(raw) {
            Kind::Text => self.text(key)?,
            Kind::Number => raw.get().to_owned(),
            _ => return None,
        };
        (!id.is_empty()).then_some(id)
    }

    /// A field that is an object.
    pub(super) fn object(&self, key: &str) -> Option<Object<'a>> {
        Object::of(self.get(key)?)
    }

    /// A field that is a list.
    pub(super) fn list(&self, key: &str) -> Option<Vec<&'a RawValue>> {
        list(self.get(key)?)
    }
}

/// The items of a list; None for anything else.
pub(super) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// What a JSON value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    List,
    Text,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// Told by the first character, since a raw value has no space around it.
    pub(super) fn of(raw: &RawValue) -> Kind {
        match raw.get().as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b'"') => Kind::Text,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Object => "an object",
            Kind::List => "a list",
            Kind::Text => "text",
            Kind::Number => "a number",
            Kind::Bool => "true or false",
            Kind::Null => "null",
        })
    }
}

/// Whether lists and objects are nested more than `limit` deep. JSON that is
/// not well formed gets an answer too, of no meaning.
pub(super) fn is_deeper_than(limit: usize, json: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => {
                bytes.next();
            }
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The start of a text, with a mark where it was cut.
pub(super) fn start_of(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_text_alone() {
        let check = |limit: usize, json: &str, expected: bool| {
            assert_eq!(is_deeper_than(limit, json.as_bytes()), expected, "{json}");
        };
        check(2, r#"{"a":[1]}"#, false);
        check(1, r#"{"a":[1]}"#, true);
        check(1, r#"["[[[", "\"[[", "\\"]"#, false);
        check(1, r#"[[], []]"#, true);
        check(2, r#"[[], []]"#, false);
        check(1, "]]]][", false);
        check(0, "\"unfinished \\", false);
    }

    #[test]
    fn a_repeated_key_keeps_its_place_and_has_its_last_value() {
        let raw = RawValue::from_string(r#"{"a":1,"b":null,"a":2.50}"#.to_owned()).unwrap();
        let object = Object::of(&raw).unwrap();
        let fields: Vec<_> = object.0.iter().map(|(k, v)| (k.as_str(), v.get())).collect();
        assert_eq!(fields, [("a", "2.50"), ("b", "null")]);
        assert!(object.get("b").is_none(), "null is absent");
    }

    #[test]
    fn a_quote_is_cut_between_characters() {
        assert_eq!(start_of("héllo"), "héllo");
        let long = "é".repeat(QUOTED_CHARS + 1);
        assert_eq!(start_of(&long).chars().count(), QUOTED_CHARS + 1);
        assert!(start_of(&long).ends_with('…'));
    }
}
