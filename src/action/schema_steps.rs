//! Schemas come from peers, and one of two kilobytes whose references double at
//! each level takes hours to check. So references are counted, and checking ends
//! where a value takes too many.
//!
//! The validator has no such bound. Each `$ref` is therefore put behind an `if`
//! on a keyword of our own, whose check fails once the count is used up: nothing
//! behind it is looked at any more, and all that is under way comes to its end.

use std::cell::Cell;

use jsonschema::{Draft, Keyword, ValidationError, Validator};
use serde_json::{Map, Value, json};

/// A validator whose work is bounded.
pub(super) struct BoundedValidator(Validator);

/// Checking took more references than a value of its size may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManySteps;

/// The references that any value may take, and those more for each byte of it.
/// A list of references takes one an element.
const STEPS: usize = 100_000;
const STEPS_PER_BYTE: usize = 16;

/// The keyword; a name that no vocabulary has.
const STEP: &str = "a11:step";

thread_local! {
    /// What the check that runs on this thread has left.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

impl BoundedValidator {
    /// Compiles a schema. References are looked up nowhere but in the schema
    /// itself.
    pub(super) fn new(mut schema: Value) -> Result<Self, String> {
        let draft = Draft::default().detect(&schema);
        let counted = count_references(&mut schema);
        if counted && matches!(draft, Draft::Draft4 | Draft::Draft6) {
            return Err("references of JSON Schema before draft 7 are not supported".to_owned());
        }
        jsonschema::options()
            .with_keyword(STEP, |_, _, _| Ok(Box::new(Step)))
            .build(&schema)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Whether a value fits; `bytes` is about its size as text.
    pub(super) fn is_valid(&self, value: &Value, bytes: usize) -> Result<bool, TooManySteps> {
        counted(bytes, || self.0.is_valid(value))
    }

    /// What of a value does not fit first; `None` where it does.
    pub(super) fn fault_of(
        &self,
        value: &Value,
        bytes: usize,
    ) -> Result<Option<String>, TooManySteps> {
        counted(bytes, || {
            let error = self.0.validate(value).err()?;
            let place = error.instance_path().to_string();
            Some(if place.is_empty() { error.to_string() } else { format!("{place}: {error}") })
        })
    }
}

fn counted<T>(bytes: usize, check: impl FnOnce() -> T) -> Result<T, TooManySteps> {
    LEFT.set(STEPS.saturating_add(bytes.saturating_mul(STEPS_PER_BYTE)));
    let checked = check();
    // Zero is left only where a step was refused: the last one leaves one.
    if LEFT.get() == 0 { Err(TooManySteps) } else { Ok(checked) }
}

/// Takes a step.
struct Step;

impl Keyword<'_> for Step {
    fn validate(&self, value: &Value) -> Result<(), ValidationError<'static>> {
        match self.is_valid(value) {
            true => Ok(()),
            false => Err(ValidationError::custom("too many references")),
        }
    }

    fn is_valid(&self, _: &Value) -> bool {
        let left = LEFT.get().saturating_sub(1);
        LEFT.set(left);
        left > 0
    }
}

/// Puts each reference of a schema behind a step. Whether there was one.
fn count_references(schema: &mut Value) -> bool {
    match schema {
        Value::Object(schema) => {
            let mut counted = false;
            for (keyword, value) in schema.iter_mut() {
                counted |= match keyword.as_str() {
                    // Values, not schemas.
                    "const" | "enum" | "default" | "examples" => false,
                    "properties" | "patternProperties" | "$defs" | "definitions"
                    | "dependentSchemas" | "dependencies" => match value {
                        Value::Object(named) => named
                            .values_mut()
                            .fold(false, |any, inner| any | count_references(inner)),
                        _ => false,
                    },
                    _ => count_references(value),
                };
            }
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                counted |= count_reference(schema, keyword);
            }
            counted
        }
        Value::Array(schemas) => {
            schemas.iter_mut().fold(false, |any, inner| any | count_references(inner))
        }
        _ => false,
    }
}

/// Moves a reference into the `allOf` beside it, where it stands behind a step;
/// all that can be referred to stays where it is.
fn count_reference(schema: &mut Map<String, Value>, keyword: &str) -> bool {
    if !schema.get(keyword).is_some_and(Value::is_string) {
        return false;
    }
    let Some(reference) = schema.shift_remove(keyword) else { return false };
    let behind = json!({ "if": { STEP: true }, "then": { keyword: reference }, "else": false });
    // Where it is no list the validator says so.
    if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(behind);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two references at each level.
    fn doubling(levels: usize, applicator: &str) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
            definitions.insert(format!("a{level}"), json!({ applicator: [next, next] }));
        }
        definitions.insert(format!("a{levels}"), json!({ "type": "string" }));
        json!({ "$ref": "#/$defs/a0", "$defs": definitions })
    }

    #[test]
    fn references_that_double_are_given_up() {
        // Values that no branch is done with early.
        for (applicator, value) in [("allOf", json!("x")), ("anyOf", json!(1)), ("oneOf", json!(1))]
        {
            let validator = BoundedValidator::new(doubling(40, applicator)).unwrap();
            assert_eq!(validator.is_valid(&value, 3), Err(TooManySteps), "{applicator}");
            assert_eq!(validator.fault_of(&value, 3), Err(TooManySteps), "{applicator}");
        }
    }

    #[test]
    fn a_schema_with_references_checks_as_before() {
        let check = |schema: Value, value: Value, expected: Option<&str>| {
            let validator = BoundedValidator::new(schema.clone()).unwrap();
            let fault = validator.fault_of(&value, value.to_string().len()).unwrap();
            match (fault, expected) {
                (None, None) => {}
                (Some(fault), Some(said)) => assert!(fault.contains(said), "{schema}: {fault}"),
                (fault, expected) => panic!("{schema} {value}: {fault:?}, not {expected:?}"),
            }
        };
        let tree = json!({
            "$ref": "#/$defs/tree",
            "$defs": { "tree": {
                "type": "object",
                "properties": {
                    "$ref": { "type": "string" },
                    "enum": { "$ref": "#/$defs/tree" },
                    "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
                },
                "unevaluatedProperties": false,
            } },
        });
        check(tree.clone(), json!({ "children": [{ "children": [] }, {}] }), None);
        check(
            tree.clone(),
            json!({ "children": [{ "children": [1] }] }),
            Some("/children/0/children/0"),
        );
        check(tree.clone(), json!({ "enum": { "$ref": 1 } }), Some("/enum/$ref"));
        check(tree, json!({ "other": 1 }), Some("other"));
        let beside =
            json!({ "$ref": "#/$defs/a", "minLength": 3, "$defs": { "a": { "type": "string" } } });
        check(beside.clone(), json!("abc"), None);
        check(beside.clone(), json!("ab"), Some("3"));
        check(beside, json!(1), Some("string"));
        let constant = json!({ "const": { "$ref": "#/nowhere" } });
        check(constant.clone(), json!({ "$ref": "#/nowhere" }), None);
        check(constant, json!({}), Some("nowhere"));
        let many =
            json!({ "items": { "$ref": "#/$defs/a" }, "$defs": { "a": { "type": "integer" } } });
        check(many, json!(vec![1; 500_000]), None);
        assert!(BoundedValidator::new(json!({ "$ref": "#/nowhere" })).is_err());
        assert!(BoundedValidator::new(json!({ "$ref": "http://a.example/b" })).is_err());
    }
}
