//! A call's arguments as the model wrote them.

use serde_json::value::RawValue;

use super::{
    raw::{self, Entries, Kind, start_of},
    reply::MAX_DEPTH,
};
use crate::wire::json_weight;

/// The named arguments of a call, in order, each the JSON text the model wrote.
/// A name given twice has its last value.
#[derive(Debug, Clone, Default)]
pub struct Arguments(Vec<(String, Box<RawValue>)>);

impl Arguments {
    /// Reads the arguments of one call. Providers write an object, or text that
    /// holds one; nothing, blank text, null and an empty list mean no arguments.
    ///
    /// # Errors
    /// Text for the model: what is wrong, and the start of what it wrote.
    pub fn read(raw: Option<&RawValue>) -> Result<Self, String> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        if Kind::of(raw) != Kind::Text {
            return Self::of_json(raw);
        }
        let text: String =
            serde_json::from_str(raw.get()).map_err(|error| malformed(&error, raw.get()))?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        // Checked before anything of unknown depth is parsed by others.
        if raw::is_deeper_than(MAX_DEPTH, text.as_bytes()) {
            return Err(format!(
                "the arguments are nested more than {MAX_DEPTH} deep: {}",
                start_of(&text)
            ));
        }
        let inner: &RawValue =
            serde_json::from_str(&text).map_err(|error| malformed(&error, &text))?;
        Self::of_json(inner)
    }

    fn of_json(raw: &RawValue) -> Result<Self, String> {
        json_weight::check(raw.get().as_bytes()).map_err(|error| error.to_string())?;
        match Kind::of(raw) {
            Kind::Null => Ok(Self::default()),
            Kind::List if raw::list(raw).is_some_and(|items| items.is_empty()) => {
                Ok(Self::default())
            }
            Kind::Object => {
                let Entries(fields) = serde_json::from_str::<Entries<Box<RawValue>>>(raw.get())
                    .map_err(|error| malformed(&error, raw.get()))?;
                for (_, value) in &fields {
                    // Half of a surrogate pair passes as raw JSON, but is no text.
                    if value.get().contains("\\u") {
                        serde_json::from_str::<serde_json::Value>(value.get())
                            .map_err(|error| malformed(&error, value.get()))?;
                    }
                }
                Ok(Self(fields))
            }
            kind => Err(format!(
                "the arguments should be a JSON object, but are {kind}: {}",
                start_of(raw.get())
            )),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in the order the model wrote them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }
}

impl IntoIterator for Arguments {
    type Item = (String, Box<RawValue>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn malformed(error: &serde_json::Error, text: &str) -> String {
    format!("the arguments are not valid JSON: {error}: {}", start_of(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: Option<&str>) -> Result<String, String> {
        let raw = json.map(|json| RawValue::from_string(json.to_owned()).unwrap());
        let arguments = Arguments::read(raw.as_deref())?;
        let fields: Vec<String> =
            arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(fields.join(" "))
    }

    #[test]
    fn nothing_in_any_form_means_no_arguments() {
        let check = |json: Option<&str>| assert_eq!(read(json), Ok(String::new()), "{json:?}");
        check(None);
        for json in
            ["null", "{}", "[]", "[ ]", r#""""#, r#"" \n ""#, r#""null""#, r#""{}""#, r#""[]""#]
        {
            check(Some(json));
        }
    }

    #[test]
    fn values_keep_the_text_the_model_wrote() {
        let check = |json: &str, expected: &str| {
            assert_eq!(read(Some(json)), Ok(expected.to_owned()), "{json}");
        };
        check(
            r#"{"n":1.50,"s":"12","o":{"b":1,"a":[ 2 ]}}"#,
            r#"n=1.50 s="12" o={"b":1,"a":[ 2 ]}"#,
        );
        check(
            r#""{\"s\": \"{\\\"x\\\":1}\", \"big\": 9007199254740993}""#,
            r#"s="{\"x\":1}" big=9007199254740993"#,
        );
        check(r#"{"a":1,"b":2,"a":"last"}"#, r#"a="last" b=2"#);
        check(r#""  {\"a\":true}  ""#, "a=true");
    }

    #[test]
    fn what_is_wrong_is_said_with_the_start_of_the_text() {
        let check = |json: &str, problem: &str, quoted: &str| {
            let error = read(Some(json)).expect_err(json);
            assert!(error.contains(problem) && error.contains(quoted), "{error}");
            assert!(error.len() < 1000, "{} bytes", error.len());
        };
        check(r#""{\"word\": \"hel""#, "EOF while parsing", r#"{"word": "hel"#);
        check(r#""word=hello""#, "not valid JSON", "word=hello");
        check(r#""{\"a\":1} {\"b\":2}""#, "trailing characters", r#"{"a":1} {"b":2}"#);
        check("[1,2]", "are a list", "[1,2]");
        check("42", "are a number", "42");
        check(r#""\"text\"""#, "are text", r#""text""#);
        check("true", "are true or false", "true");
        check(r#"{"a":"\ud800"}"#, "hex escape", r"\ud800");
        check(&format!("\"{}\"", "[".repeat(100_000)), "nested more than", "[[[");
        check(&format!("\"{}\"", "é".repeat(100_000)), "not valid JSON", "ééé");
    }
}
