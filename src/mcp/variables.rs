//! `${NAME}` in what a list of servers says, as hosts write it to keep secrets
//! out of their files. Pure: the environment is the caller's.

use thiserror::Error;

/// Why a text could not be completed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VariableError {
    /// The variable is not set.
    #[error("the environment has no variable {0:?}")]
    Unset(String),
    /// Something else than a variable, such as VS Code's `${input:NAME}`.
    #[error("`${{{0}}}` is not a variable of the environment: write `${{NAME}}`")]
    Unknown(String),
}

/// What a variable holds; `None` where it is not set.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text with `${NAME}`, `${env:NAME}` and `${NAME:-OTHERWISE}` replaced by
/// what the variables hold.
///
/// # Errors
/// Where a variable is not set and has no other value, or is none.
pub fn completed(text: &str, lookup: Lookup<'_>) -> Result<String, VariableError> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, after)) = after.split_once('}') else { break };
        whole.push_str(before);
        whole.push_str(&value(variable, lookup)?);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

fn value(variable: &str, lookup: Lookup<'_>) -> Result<String, VariableError> {
    let name = variable.strip_prefix("env:").unwrap_or(variable);
    let (name, otherwise) = match name.split_once(":-") {
        Some((name, otherwise)) => (name, Some(otherwise)),
        None => (name, None),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(VariableError::Unknown(variable.to_owned()));
    }
    lookup(name)
        .filter(|value| otherwise.is_none() || !value.is_empty())
        .or_else(|| otherwise.map(str::to_owned))
        .ok_or_else(|| VariableError::Unset(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_by_what_they_hold() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let lookup = |name: &str| match name {
                "TOKEN" => Some("t0".to_owned()),
                "EMPTY" => Some(String::new()),
                _ => None,
            };
            let completed = completed(text, &lookup).map_err(|error| error.to_string());
            assert_eq!(completed, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        };
        check("plain $TOKEN {x} $", Ok("plain $TOKEN {x} $"));
        check("Bearer ${TOKEN}", Ok("Bearer t0"));
        check("${env:TOKEN}${TOKEN}", Ok("t0t0"));
        check("${EMPTY}|${EMPTY:-e}|${NONE:-a:-b}", Ok("|e|a:-b"));
        check("${NONE}", Err("the environment has no variable \"NONE\""));
        check(
            "${input:key}",
            Err("`${input:key}` is not a variable of the environment: write `${NAME}`"),
        );
        check("${TOKEN", Ok("${TOKEN"));
    }
}
