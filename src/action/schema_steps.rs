//! Schemas come from peers, and one of two kilobytes whose references double at
//! each level takes hours to check, as does one of a long `anyOf` over a long list.
//! So checks are counted, and checking ends where a value takes too many.
//!
//! The validator has no such bound. What is outside references checks each part of a
//! value at most once with each part of the schema: that product is held against the
//! bound beforehand. Each `$ref` is put behind an `if` on a keyword of our own, which
//! takes the same product of what it leads to, and fails once the count is used up:
//! nothing behind it is looked at any more, and all that is under way comes to its end.

use std::cell::Cell;

use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

/// A validator whose work is bounded.
pub(super) struct BoundedValidator {
    validator: Validator,
    /// The weight of the schema but for its definitions.
    weight: usize,
}

/// Checking took more steps than a value of its size may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManySteps;

/// The steps that any value may take, and those more for each byte of it; past a size
/// no more. A step takes some ten nanoseconds.
const STEPS: usize = 20_000_000;
const STEPS_PER_BYTE: usize = 200;
const MOST_BYTES: usize = 1 << 20;

/// The steps that a reference takes beside what it leads to.
const REFERENCE_STEPS: usize = 64;

/// How many bytes of a text weigh as much as one value.
const TEXT_BYTES: usize = 32;

/// What a pattern weighs, and one that is no plain regular expression: it backtracks,
/// as often as this.
const PATTERN_WEIGHT: usize = 8;
const BACKTRACKING_WEIGHT: usize = 1000;
const BACKTRACK_LIMIT: usize = 10_000;

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
        let weight = weight_of_schema(&schema);
        let weights = Weights(schema.clone());
        let counted = count_references(&mut schema, &weights);
        if counted && matches!(draft, Draft::Draft4 | Draft::Draft6) {
            return Err("references of JSON Schema before draft 7 are not supported".to_owned());
        }
        jsonschema::options()
            .with_keyword(STEP, |_, weight: &Value, _| {
                let weight = weight.as_u64().and_then(|weight| usize::try_from(weight).ok());
                Ok(Box::new(Step { weight: weight.unwrap_or(usize::MAX) }))
            })
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT))
            .build(&schema)
            .map(|validator| Self { validator, weight })
            .map_err(|error| error.to_string())
    }

    /// Whether a value fits; `bytes` is about its size as text.
    pub(super) fn is_valid(&self, value: &Value, bytes: usize) -> Result<bool, TooManySteps> {
        self.counted(value, bytes, || self.validator.is_valid(value))
    }

    /// What of a value does not fit first; `None` where it does.
    pub(super) fn fault_of(
        &self,
        value: &Value,
        bytes: usize,
    ) -> Result<Option<String>, TooManySteps> {
        self.counted(value, bytes, || {
            let error = self.validator.validate(value).err()?;
            let place = error.instance_path().to_string();
            Some(if place.is_empty() { error.to_string() } else { format!("{place}: {error}") })
        })
    }

    fn counted<T>(
        &self,
        value: &Value,
        bytes: usize,
        check: impl FnOnce() -> T,
    ) -> Result<T, TooManySteps> {
        LEFT.set(STEPS.saturating_add(bytes.min(MOST_BYTES) * STEPS_PER_BYTE));
        if !take(self.weight, value) {
            return Err(TooManySteps);
        }
        let checked = check();
        // Zero is left only where a step was refused: the last one leaves one.
        if LEFT.get() == 0 { Err(TooManySteps) } else { Ok(checked) }
    }
}

/// Takes the steps of a value and a part of a schema; false, and none are left, where
/// there were too few.
fn take(weight: usize, value: &Value) -> bool {
    let left = LEFT.get();
    // More than is left is not counted.
    let values = weight_of_value(value, left / weight.max(1));
    let left = left.saturating_sub(values.saturating_mul(weight));
    LEFT.set(left);
    left > 0
}

/// What a value weighs, or something past `most`.
fn weight_of_value(value: &Value, most: usize) -> usize {
    let text = |text: &str| 1 + text.len() / TEXT_BYTES;
    let mut weight = 0_usize;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        weight += match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 1,
            Value::String(string) => text(string),
            Value::Array(items) => {
                waiting.extend(items);
                1
            }
            Value::Object(members) => {
                waiting.extend(members.values());
                1 + members.keys().map(|name| text(name)).sum::<usize>()
            }
        };
        if weight > most {
            break;
        }
    }
    weight
}

/// What a schema weighs but for what only references lead to: all that stands in it,
/// since any of it may be looked at for each value.
fn weight_of_schema(schema: &Value) -> usize {
    match schema {
        Value::Object(schema) => {
            let mut weight = 1_usize;
            for (keyword, value) in schema {
                weight = weight.saturating_add(match (keyword.as_str(), value) {
                    ("$defs" | "definitions", Value::Object(_))
                    | ("title" | "description" | "$comment" | "default" | "examples", _) => 0,
                    ("pattern", Value::String(pattern)) => weight_of_pattern(pattern),
                    ("patternProperties", Value::Object(patterns)) => {
                        let weights = patterns.iter().map(|(pattern, schema)| {
                            weight_of_pattern(pattern).saturating_add(weight_of_schema(schema))
                        });
                        weights.fold(0, usize::saturating_add)
                    }
                    _ => weight_of_schema(value),
                });
            }
            // Those look at all that stands beside them once more.
            let twice = ["unevaluatedProperties", "unevaluatedItems"];
            let twice = twice.iter().any(|keyword| schema.contains_key(*keyword));
            weight.saturating_mul(if twice { 2 } else { 1 })
        }
        Value::Array(schemas) => {
            schemas.iter().map(weight_of_schema).fold(1, usize::saturating_add)
        }
        Value::String(text) => 1 + text.len() / TEXT_BYTES,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

fn weight_of_pattern(pattern: &str) -> usize {
    let plain = regex_syntax::Parser::new().parse(pattern).is_ok();
    let weight = if plain { PATTERN_WEIGHT } else { BACKTRACKING_WEIGHT };
    weight + pattern.len() / TEXT_BYTES
}

/// A whole schema, for the weights of what its references lead to.
struct Weights(Value);

impl Weights {
    /// Of what a reference leads to; of the whole schema where that is not plain.
    fn of(&self, reference: &Value) -> usize {
        let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
        match pointer.and_then(|pointer| self.0.pointer(pointer)) {
            Some(target) => weight_of_schema(target),
            None => weight_of_all(&self.0),
        }
    }
}

/// What a schema weighs with its definitions.
fn weight_of_all(schema: &Value) -> usize {
    let inner: usize = match schema {
        Value::Object(schema) => ["$defs", "definitions"]
            .iter()
            .filter_map(|keyword| schema.get(*keyword)?.as_object())
            .flat_map(Map::values)
            .map(weight_of_all)
            .fold(0, usize::saturating_add),
        _ => 0,
    };
    inner.saturating_add(weight_of_schema(schema))
}

/// Takes the steps of what a reference leads to.
struct Step {
    weight: usize,
}

impl Keyword<'_> for Step {
    fn validate(&self, value: &Value) -> Result<(), ValidationError<'static>> {
        match self.is_valid(value) {
            true => Ok(()),
            false => Err(ValidationError::custom("too many checks")),
        }
    }

    fn is_valid(&self, value: &Value) -> bool {
        LEFT.set(LEFT.get().saturating_sub(REFERENCE_STEPS));
        take(self.weight, value)
    }
}

/// Puts each reference of a schema behind a step. Whether there was one.
fn count_references(schema: &mut Value, weights: &Weights) -> bool {
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
                            .fold(false, |any, inner| any | count_references(inner, weights)),
                        _ => false,
                    },
                    _ => count_references(value, weights),
                };
            }
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                counted |= count_reference(schema, keyword, weights);
            }
            counted
        }
        Value::Array(schemas) => {
            schemas.iter_mut().fold(false, |any, inner| any | count_references(inner, weights))
        }
        _ => false,
    }
}

/// Moves a reference into the `allOf` beside it, where it stands behind a step;
/// all that can be referred to stays where it is.
fn count_reference(schema: &mut Map<String, Value>, keyword: &str, weights: &Weights) -> bool {
    if !schema.get(keyword).is_some_and(Value::is_string) {
        return false;
    }
    let Some(reference) = schema.shift_remove(keyword) else { return false };
    let weight = weights.of(&reference);
    let behind = json!({ "if": { STEP: weight }, "then": { keyword: reference }, "else": false });
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

    /// Whether checking a value is given up, before it takes long.
    fn is_given_up(schema: Value, value: &Value) -> bool {
        let bytes = value.to_string().len();
        let started = std::time::Instant::now();
        let fault = BoundedValidator::new(schema).unwrap().fault_of(value, bytes);
        assert!(started.elapsed().as_secs() < 60, "{fault:?}");
        fault.is_err()
    }

    #[test]
    fn a_schema_and_a_value_that_are_too_large_together_are_given_up() {
        let numbers = json!(vec![1; 1_000_000]);
        let none_of = json!(vec![json!({ "maximum": -1 }); 16_000]);
        for keyword in ["anyOf", "oneOf"] {
            assert!(is_given_up(json!({ "items": { keyword: none_of } }), &numbers), "{keyword}");
        }
        assert!(is_given_up(json!({ "items": { "anyOf": vec![false; 40_000] } }), &numbers));
        assert!(is_given_up(json!({ "contains": { "enum": vec!["a"; 40_000] } }), &numbers));
        assert!(!is_given_up(json!({ "anyOf": none_of }), &json!(1)));
        assert!(!is_given_up(json!({ "items": { "anyOf": [{ "maximum": 2 }] } }), &numbers));
        // Behind references that double, each leads through the whole value.
        let mut doubling = doubling(20, "allOf");
        doubling["$defs"]["a20"] = json!({ "items": { "type": "integer" } });
        assert!(is_given_up(doubling, &numbers));
        // Each level looks at the next twice.
        let mut nested = json!({ "type": "object" });
        for _ in 0..60 {
            nested = json!({ "allOf": [nested], "unevaluatedProperties": false });
        }
        assert!(is_given_up(nested, &json!({ "a": 1 })));
    }

    #[test]
    fn patterns_that_backtrack_are_counted_as_such() {
        let texts = |text: &str, count: usize| json!(vec![text; count]);
        let slow = json!({ "items": { "pattern": "^(?=x)(x+x+)+y$" } });
        assert!(is_given_up(slow.clone(), &texts(&"x".repeat(30), 300_000)));
        let validator = BoundedValidator::new(slow).unwrap();
        assert!(matches!(validator.fault_of(&texts(&"x".repeat(30), 1), 30), Ok(Some(_))));
        // As zod has it for addresses.
        let address = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@a\.example$";
        let schema = json!({ "items": { "pattern": address } });
        assert!(!is_given_up(schema, &texts("somebody@a.example", 10_000)));
        let plain = json!({ "items": { "pattern": "^[a-z]+$" } });
        assert!(!is_given_up(plain, &texts("abc", 300_000)));
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
