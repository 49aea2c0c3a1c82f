//! Rust source as a row of words: just enough of a lexer to find paths in it.

/// Names and signs of Rust source, without comments, strings and characters.
pub(crate) fn words(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let char = |at: usize| chars.get(at).copied().unwrap_or('\0');
    let mut words = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        match char(at) {
            '/' if char(at + 1) == '/' => at = find(&chars, at, "\n"),
            '/' if char(at + 1) == '*' => at = after_block_comment(&chars, at),
            '"' => at = after_string(&chars, at),
            'r' if raw_string(&chars, at).is_some() => {
                at = find(&chars, at, &raw_string(&chars, at).unwrap_or_default());
            }
            '\'' if char(at + 1) == '\\' => at = find(&chars, at + 3, "'"),
            '\'' if char(at + 2) == '\'' => at += 3,
            ':' if char(at + 1) == ':' => {
                words.push("::".to_owned());
                at += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = (at..).find(|&i| !(char(i).is_alphanumeric() || char(i) == '_'));
                let end = end.unwrap_or(chars.len());
                let word: String = chars[at..end].iter().collect();
                // A prefix of a string is no name: b"…", br#"…"#, c"…".
                match word.as_str() {
                    "br" | "cr" if raw_string(&chars, end - 1).is_some() => at = end - 1,
                    "b" | "c" if matches!(char(end), '"' | '\'') => at = end,
                    _ => {
                        words.push(word);
                        at = end;
                    }
                }
            }
            c => {
                if !c.is_whitespace() {
                    words.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    words
}

/// The end of a raw string that begins here with its `r`.
fn raw_string(chars: &[char], at: usize) -> Option<String> {
    let hashes = chars.get(at + 1..)?.iter().take_while(|c| **c == '#').count();
    (chars.get(at + 1 + hashes) == Some(&'"')).then(|| format!("\"{}", "#".repeat(hashes)))
}

/// The place after the next `end`, past the opening sign of what it ends.
fn find(chars: &[char], from: usize, end: &str) -> usize {
    let end: Vec<char> = end.chars().collect();
    // The opening quote of a raw string stands after its hashes.
    let open = if end[0] == '"' { end.len() + 1 } else { 0 };
    (from + open..chars.len())
        .find(|&i| chars[i..].starts_with(&end))
        .map_or(chars.len(), |i| i + end.len())
}

fn after_string(chars: &[char], at: usize) -> usize {
    let mut at = at + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn after_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = at;
    while at < chars.len() {
        if chars[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if chars[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}
