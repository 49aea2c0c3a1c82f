//! The documentation against the code: its config examples load, and its table
//! of errors has every reason with its code.

use std::{collections::BTreeMap, fs, path::Path};

use a11_grpc::action::Registry;
use a11_grpc::config::{Config, register};
use a11_grpc::wire::{Reason, Status, status::code_name};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a TOML block of a document must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Load, with nothing refused.
    Loads,
    /// Be refused, in whole or in part.
    IsRefused,
}

/// A TOML block, and the line on which it begins.
struct Block {
    line: usize,
    text: String,
    expected: Expected,
}

/// The blocks that begin with ` ```toml `; those with ` ```toml error ` show a
/// mistake. Any other word after `toml` panics.
fn toml_blocks(document: &str) -> Vec<Block> {
    let mut blocks = vec![];
    let mut lines = (1..).zip(document.lines());
    while let Some((line, text)) = lines.next() {
        let Some(info) = text.strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, text)| text).take_while(|text| *text != "```").collect();
        let expected = match info.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["toml"] => Expected::Loads,
            ["toml", "error"] => Expected::IsRefused,
            ["toml", ..] => panic!("line {line}: {info}"),
            _ => continue,
        };
        blocks.push(Block { line, text: body.join("\n"), expected });
    }
    blocks
}

/// What is wrong with a config, if anything is.
fn fault_of(config: &str) -> Option<String> {
    match Config::parse(config, Path::new("actions.toml"), root()) {
        Err(error) => Some(error.to_string()),
        Ok(config) => register(&Registry::new(), config).first().map(ToString::to_string),
    }
}

#[test]
fn every_config_in_the_documentation_loads_or_is_refused_as_it_says() {
    let check = |path: &str, expected: Expected| {
        let blocks = toml_blocks(&read(path));
        assert!(blocks.iter().any(|block| block.expected == expected), "{path}: none to check");
        for Block { line, text, expected } in blocks {
            let fault = fault_of(&text);
            let found = fault.as_ref().map_or(Expected::Loads, |_| Expected::IsRefused);
            assert_eq!(found, expected, "{path}:{line}: {fault:?}");
        }
    };
    check("README.md", Expected::Loads);
    check("docs/config.md", Expected::Loads);
    check("docs/config.md", Expected::IsRefused);
}

/// The targets of a document's links that are relative: no scheme, no anchor.
fn relative_links(document: &str) -> Vec<&str> {
    let targets = document.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with(['#', '/']))
        .filter_map(|target| target.split('#').next())
        .collect()
}

#[test]
fn every_relative_link_of_the_documentation_leads_somewhere() {
    let documents = fs::read_dir(root().join("docs")).expect("docs");
    let documents = documents.map(|entry| entry.expect("an entry").path());
    let documents = documents.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut links = 0;
    for path in documents.chain([root().join("README.md")]) {
        let text = fs::read_to_string(&path).expect("a document");
        for link in relative_links(&text) {
            links += 1;
            let target = path.parent().expect("a folder").join(link);
            assert!(target.exists(), "{}: {link}", path.display());
        }
    }
    assert!(links > 0, "no link was found");
}

#[test]
fn every_reason_is_documented_with_its_code() {
    let document = read("docs/errors.md");
    let cell = |text: &str| Some(text.split('`').nth(1)?.to_owned());
    let documented: BTreeMap<String, String> = document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| {
            let mut cells = line.split('|').skip(1);
            Some((cell(cells.next()?)?, cell(cells.next()?)?))
        })
        .collect();
    // The numbers have gaps.
    let known: BTreeMap<String, String> = (0..1000)
        .filter_map(|number| Reason::try_from(number).ok())
        .map(|reason| {
            let name = reason.as_str_name().trim_start_matches("REASON_").to_owned();
            (name, code_name(Status::of(reason, "").code).to_owned())
        })
        .collect();
    assert_eq!(documented, known);
}

#[test]
fn blocks_are_found_with_what_they_are_to_do() {
    let document = "a\n```toml\nx = 1\ny = 2\n```\n```sh\n```\n```toml error\n```\n";
    let found: Vec<_> = toml_blocks(document)
        .into_iter()
        .map(|Block { line, text, expected }| (line, text, expected))
        .collect();
    let expected =
        [(2, "x = 1\ny = 2".to_owned(), Expected::Loads), (8, String::new(), Expected::IsRefused)];
    assert_eq!(found, expected);
}
