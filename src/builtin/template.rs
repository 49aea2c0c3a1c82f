//! Templates: texts with `{name}` in them, filled with a call's arguments. Pure.
//!
//! `{{` and `}}` are literal braces. A filled item stays one item, whatever the
//! argument holds: nothing is split, quoted or expanded.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use crate::wire::name::is_name;

/// A call's arguments by name. What is absent, or null, is not in it.
pub(super) type Arguments = BTreeMap<String, Value>;

/// A text with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Argument(String),
}

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// `{` with no name and `}` after it.
    #[error("{0:?}: `{{` must begin an `{{argument}}`; a literal brace is written `{{{{`")]
    Opening(String),
    /// `}` alone.
    #[error("{0:?}: a literal `}}` is written `}}}}`")]
    Closing(String),
}

impl Template {
    /// # Errors
    /// A brace that is neither doubled nor part of `{name}`.
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = vec![];
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let tail = &rest[at..];
            if tail.starts_with("{{") || tail.starts_with("}}") {
                literal.push_str(&tail[..1]);
                rest = &tail[2..];
                continue;
            }
            if tail.starts_with('}') {
                return Err(TemplateError::Closing(text.to_owned()));
            }
            let name = tail[1..].split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, after)) = name else {
                return Err(TemplateError::Opening(text.to_owned()));
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::Argument(name.to_owned()));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self(parts))
    }

    /// A text without arguments, braces and all.
    pub(super) fn literal(text: &str) -> Self {
        Self(vec![Part::Text(text.to_owned())])
    }

    /// The arguments it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with its arguments; `None` where it names one that is absent.
    pub(super) fn fill(&self, arguments: &Arguments) -> Option<String> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Argument(name) => filled.push_str(&text_of(arguments.get(name)?)),
            }
        }
        Some(filled)
    }

    /// The items it makes: one, or one for each element where it is exactly
    /// `{name}` and that argument is a list. `None` where it names an argument
    /// that is absent, or is exactly one that is an empty list.
    fn items(&self, arguments: &Arguments) -> Option<Vec<String>> {
        if let [Part::Argument(name)] = self.0.as_slice()
            && let Value::Array(elements) = arguments.get(name)?
        {
            return (!elements.is_empty()).then(|| elements.iter().map(text_of).collect());
        }
        self.fill(arguments).map(|item| vec![item])
    }
}

/// The items that templates which belong together make: all of them, or none
/// where one of them names an absent argument.
pub(super) fn group_items(group: &[Template], arguments: &Arguments) -> Vec<String> {
    let items: Option<Vec<_>> = group.iter().map(|template| template.items(arguments)).collect();
    items.unwrap_or_default().concat()
}

/// An argument as a text: a string as it is, anything else as compact JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments() -> Arguments {
        let all = json!({
            "path": "a b; rm -rf $(x)", "count": 3, "list": ["x", 1, {"k": null}], "none": [],
        });
        all.as_object().expect("an object").clone().into_iter().collect()
    }

    #[test]
    fn an_item_is_filled_and_stays_one() {
        let check = |text: &str, expected: Option<&str>| {
            let filled = Template::parse(text).expect(text).fill(&arguments());
            assert_eq!(filled.as_deref(), expected, "{text}");
        };
        check("plain", Some("plain"));
        check("", Some(""));
        check("{path}", Some("a b; rm -rf $(x)"));
        check("--n={count}!", Some("--n=3!"));
        check("{{path}} }}{{", Some("{path} }{"));
        check("{{{count}}}", Some("{3}"));
        check("l={list}", Some(r#"l=["x",1,{"k":null}]"#));
        check("{absent}", None);
        check("--x={absent}", None);
    }

    #[test]
    fn a_group_is_whole_or_left_out_and_a_list_becomes_items() {
        let check = |group: &[&str], expected: &[&str]| {
            let group: Vec<_> = group.iter().map(|t| Template::parse(t).expect("valid")).collect();
            assert_eq!(group_items(&group, &arguments()), expected);
        };
        check(&["--limit", "{count}"], &["--limit", "3"]);
        check(&["--limit", "{absent}"], &[]);
        check(&["--in", "{list}"], &["--in", "x", "1", r#"{"k":null}"#]);
        check(&["--in", "{none}"], &[]);
        check(&[], &[]);
    }

    #[test]
    fn stray_braces_are_refused_with_the_way_to_write_them() {
        let check = |text: &str, expected: &str| {
            let error = Template::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("{print $1}", "written `{{`");
        check("{", "written `{{`");
        check("{}", "written `{{`");
        check("a } b", "written `}}`");
    }
}
