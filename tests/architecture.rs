//! Holds what ARCHITECTURE.md says about the shape of the source: rooms in
//! dependency order, files small and introduced, nothing tied to one machine.

#[path = "architecture/words.rs"]
mod words;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use words::words;

/// The rooms, each row above the rows that may use it. Rooms of one row are
/// siblings and do not use each other.
const ROOMS: &[&[&str]] = &[
    &["wire"],
    &["node"],
    &["action"],
    &["interaction"],
    &["runner"],
    &["listen"],
    &["session", "mcp", "builtin"],
    &["config"],
    &["client"],
    &["service"],
    &["serve"],
    &["cli"],
];

/// Past this a file holds more than one concept.
const MAX_LINES: usize = 600;

/// Larger files are data, not text that someone wrote.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// Folders that tools make.
const MADE_BY_TOOLS: &[&str] = &[".git", "target", ".venv", "node_modules", "__pycache__"];

#[test]
fn rooms_stand_in_dependency_order() {
    assert_none(&order_faults(&mods(&read("src/lib.rs"))));
}

#[test]
fn a_room_uses_only_the_rooms_above_it() {
    let faults: Vec<_> = sources()
        .iter()
        .flat_map(|path| {
            let inside = path.strip_prefix("src").expect("sources are under src");
            let inside = inside.to_string_lossy().replace('\\', "/");
            use_faults(&inside, &read(path))
        })
        .collect();
    assert_none(&faults);
}

#[test]
fn every_source_file_says_first_what_it_is() {
    let faults: Vec<_> = sources()
        .into_iter()
        .filter(|path| !is_introduced(&read(path)))
        .map(|path| format!("{}: the first line is not a //! line", path.display()))
        .collect();
    assert_none(&faults);
}

#[test]
fn no_source_file_is_longer_than_one_concept() {
    let faults: Vec<_> = sources()
        .into_iter()
        .filter_map(|path| length_fault(&path.display().to_string(), &read(&path)))
        .collect();
    assert_none(&faults);
}

#[test]
fn the_architecture_names_every_room_and_only_tests_that_exist() {
    if !root().join("ARCHITECTURE.md").exists() {
        println!("no ARCHITECTURE.md: nothing to compare");
        return;
    }
    let text = read("ARCHITECTURE.md");
    let rooms: Vec<_> = names_in("src", |path| path.is_dir());
    let tests: Vec<_> = names_in("tests", |path| path.is_file());
    assert_none(&architecture_faults(&text, &rooms, &tests));
}

#[test]
fn no_text_file_names_a_folder_of_one_machine() {
    let mut files = Vec::new();
    walk(root(), &mut files);
    let faults: Vec<_> = files
        .iter()
        .filter(|path| fs::metadata(path).is_ok_and(|data| data.len() <= MAX_TEXT_BYTES))
        .filter_map(|path| Some((path, String::from_utf8(fs::read(path).ok()?).ok()?)))
        .flat_map(|(path, text)| {
            let path = path.strip_prefix(root()).unwrap_or(path).display().to_string();
            machine_paths(&text).into_iter().map(move |line| format!("{path}:{line}"))
        })
        .collect();
    assert_none(&faults);
}

// ── The rules, on text ──────────────────────────────────────────────────────

/// The line of ROOMS that a room stands on.
fn rank(room: &str) -> Option<usize> {
    ROOMS.iter().position(|row| row.contains(&room))
}

/// The modules that a file declares, in the order of their declarations.
fn mods(source: &str) -> Vec<String> {
    let words = words(source);
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "mod" if depth == 0 => found.extend(words.get(at + 1).cloned()),
            _ => {}
        }
    }
    found
}

fn order_faults(mods: &[String]) -> Vec<String> {
    let mut faults: Vec<_> = mods
        .iter()
        .filter(|name| rank(name).is_none())
        .map(|name| format!("src/lib.rs: `{name}` is not a room of tests/architecture.rs"))
        .collect();
    for pair in mods.windows(2) {
        if rank(&pair[0]) > rank(&pair[1]) {
            faults.push(format!("src/lib.rs: `{}` stands above `{}`", pair[0], pair[1]));
        }
    }
    faults
}

/// What a file, named by its path inside `src/`, uses and may not.
fn use_faults(path: &str, source: &str) -> Vec<String> {
    let Some((room, _)) = path.split_once('/') else {
        // lib.rs and main.rs see everything.
        return Vec::new();
    };
    let Some(own) = rank(room) else {
        return vec![format!("src/{path}: `{room}` is not a room of tests/architecture.rs")];
    };
    let used = root_names(source, module_depth(path));
    used.into_iter()
        .filter(|name| name != room)
        .filter_map(|name| match rank(&name) {
            Some(other) if other < own => None,
            Some(_) => Some(format!("src/{path}: `{room}` uses `{name}`, which is not above it")),
            None => Some(format!("src/{path}: `crate::{name}` hides which room it is from")),
        })
        .collect()
}

/// How many modules deep a file is: `wire/mod.rs` 1, `wire/chunk.rs` 2.
fn module_depth(path: &str) -> usize {
    let parts = path.split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The names that a file takes from the root of the crate, through `crate::`,
/// `a11_grpc::` or enough `super::`s, alone or in a group. Macros do not count.
fn root_names(source: &str, depth: usize) -> BTreeSet<String> {
    let words = words(source);
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let mut names = BTreeSet::new();
    let mut at = 0;
    while at < words.len() {
        let mut after = at + 1;
        let from_root = match word(at) {
            "crate" | "a11_grpc" => true,
            "super" => {
                let mut supers = 1;
                while word(after) == "::" && word(after + 1) == "super" {
                    supers += 1;
                    after += 2;
                }
                supers >= depth
            }
            _ => false,
        };
        let by_super = word(at) == "super";
        at = after;
        if !from_root || word(after) != "::" {
            continue;
        }
        // Inside an inline module one `super` more stays in the room, so that
        // only the name of a room tells that the chain reached the root.
        let counts = |name: &str| !by_super || rank(name).is_some();
        for first in firsts(&words, after + 1) {
            if word(first + 1) != "!" && counts(word(first)) {
                names.insert(word(first).to_owned());
            }
        }
    }
    names
}

/// Where the first names of a path or a group of paths stand.
fn firsts(words: &[String], at: usize) -> Vec<usize> {
    if words.get(at).map(String::as_str) != Some("{") {
        return vec![at];
    }
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate().skip(at) {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {
                let before = words[index - 1].as_str();
                if depth == 1 && word != "," && (before == "{" || before == ",") {
                    found.push(index);
                }
            }
        }
        if depth == 0 {
            break;
        }
    }
    found
}

fn is_introduced(source: &str) -> bool {
    source.lines().next().is_some_and(|line| line.starts_with("//! "))
}

fn length_fault(path: &str, source: &str) -> Option<String> {
    let lines = source.lines().count();
    (lines > MAX_LINES).then(|| format!("{path}: {lines} lines, {MAX_LINES} at most"))
}

fn architecture_faults(text: &str, rooms: &[String], tests: &[String]) -> Vec<String> {
    let unnamed = rooms
        .iter()
        .filter(|room| !text.contains(&format!("`src/{room}/`")))
        .map(|room| format!("ARCHITECTURE.md does not name `src/{room}/`"));
    let absent = text
        .split('`')
        .filter_map(|span| span.strip_prefix("tests/"))
        .filter(|name| name.ends_with(".rs") && !name.contains('<'))
        .filter(|name| !tests.iter().any(|test| test == name))
        .map(|name| format!("ARCHITECTURE.md names tests/{name}, which does not exist"));
    unnamed.chain(absent).collect()
}

/// The lines that name a home or work folder by its absolute path.
fn machine_paths(text: &str) -> Vec<String> {
    let folders = ["home", "root", "work", "Users"].map(|name| format!("/{name}/"));
    let named = |line: &str| {
        folders.iter().any(|folder| {
            line.match_indices(folder.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "._-}>)*~".contains(c))
            })
        })
    };
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| named(line))
        .map(|(number, line)| format!("{number}: {}", line.trim()))
        .collect()
}

// ── The repository ──────────────────────────────────────────────────────────

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file under `src/`, by its path in the repository.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(&root().join("src"), &mut files);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    assert!(!files.is_empty(), "no source found");
    files
        .iter()
        .map(|path| path.strip_prefix(root()).expect("found under the root").to_owned())
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of the repository can be listed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let made =
            path.file_name().is_some_and(|name| MADE_BY_TOOLS.iter().any(|folder| name == *folder));
        if made || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn names_in(folder: &str, wanted: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of the repository");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| wanted(path))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect()
}

#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The rules can be broken: each of them on text that breaks it.
mod rules {
    use super::*;

    #[test]
    fn a_room_out_of_order_or_unknown_is_found() {
        let check = |source: &str, faults: usize| {
            assert_eq!(order_faults(&mods(source)).len(), faults, "{source}");
        };
        check("pub mod wire;\npub mod node;\nmod cli;", 0);
        check("pub mod mcp;\npub mod session;\npub mod service;", 0);
        check("pub mod node;\npub mod wire;", 1);
        check("pub mod wire;\nmod utils;", 2);
        check("// mod utils;\npub mod wire { mod inner; }", 0);
    }

    #[test]
    fn every_way_to_reach_a_lower_room_is_found() {
        let check = |path: &str, source: &str, found: &[&str]| {
            let faults = use_faults(path, source);
            assert_eq!(faults.len(), found.len(), "{path}: {source}: {faults:?}");
            for (fault, name) in faults.iter().zip(found) {
                assert!(fault.contains(&format!("{name}`")), "{fault} should name {name}");
            }
        };
        check("runner/mod.rs", "use crate::{action, node::Node, wire::{Chunk, Name}};", &[]);
        check("runner/mod.rs", "use crate::runner::Runner;", &[]);
        check("lib.rs", "use crate::cli;", &[]);
        check("node/stream.rs", "use crate::runner::Runner;", &["runner"]);
        check("node/stream.rs", "use crate::{wire::{self, Name}, action};", &["action"]);
        check("node/stream.rs", "use crate::{\n    wire::a,\n    cli::{b, c},\n};", &["cli"]);
        check("node/stream.rs", "use {crate::wire, crate::serve};", &["serve"]);
        check("node/stream.rs", "fn f() -> crate::action::Action { todo!() }", &["action"]);
        check("node/stream.rs", "use a11_grpc::action::Action;", &["action"]);
        check("node/stream.rs", "use super::super::action::Action;", &["action"]);
        check("node/mod.rs", "use super::action::Action;", &["action"]);
        check("node/stream.rs", "use super::order;", &[]);
        check("node/a/b.rs", "use super::super::action;", &[]);
        check("mcp/mod.rs", "use crate::session::Session;", &["session"]);
        check("builtin/mod.rs", "use crate::{client, mcp};", &["client", "mcp"]);
        check("client/mod.rs", "use crate::{session, service};", &["service"]);
        check("node/stream.rs", "use crate::Everything;", &["Everything"]);
        check("node/stream.rs", "use crate::*;", &["*"]);
        check("node/stream.rs", "crate::check!(1)", &[]);
        check("utils/mod.rs", "", &["utils"]);
    }

    #[test]
    fn comments_strings_and_characters_use_nothing() {
        let check = |source: &str| {
            assert_eq!(use_faults("node/stream.rs", source), Vec::<String>::new(), "{source}");
        };
        check("/// See [`crate::runner`].\nfn f() {}");
        check("/* crate::runner /* nested */ crate::cli */");
        check(r#"const A: &str = "a \" crate::runner";"#);
        check("const A: &str = r#\"a \" crate::runner\"#;");
        check("const A: &[u8] = br\"crate::runner\";");
        check("const A: &[u8] = b\"crate::runner\";");
        // What follows a quote in a character or a lifetime is source again.
        let after = |source: &str| {
            assert_eq!(use_faults("node/stream.rs", source).len(), 1, "{source}");
        };
        after("const A: char = '\"'; use crate::runner;");
        after("const A: char = '\\''; use crate::runner;");
        after("const A: u8 = b'\"'; use crate::runner;");
        after("const A: &str = r\"\\\"; use crate::runner;");
        after("const A: &str = r##\"a\"# \"##; use crate::runner;");
        after("fn f<'a>(a: &'a str) {} use crate::runner;");
        after("let r#type = 1; use crate::runner;");
    }

    #[test]
    fn a_file_without_a_first_sentence_is_found() {
        assert!(is_introduced("//! What it is.\nuse a;"));
        assert!(!is_introduced("use a;\n//! Too late."));
        assert!(!is_introduced("// Not for readers of the documentation."));
        assert!(!is_introduced(""));
    }

    #[test]
    fn a_file_too_long_is_found() {
        assert_eq!(length_fault("a.rs", &"a\n".repeat(MAX_LINES)), None);
        assert!(length_fault("a.rs", &"a\n".repeat(MAX_LINES + 1)).is_some());
    }

    #[test]
    fn a_room_unnamed_or_a_test_absent_is_found() {
        let check = |text: &str, faults: usize| {
            let found = architecture_faults(text, &["wire".to_owned()], &["a.rs".to_owned()]);
            assert_eq!(found.len(), faults, "{text}: {found:?}");
        };
        check("`src/wire/` is held by `tests/a.rs` and `tests/<file>.rs`.", 0);
        check("Nothing.", 1);
        check("`src/wire/` is held by `tests/b.rs`.", 1);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let check = |text: String, faults: usize| {
            assert_eq!(machine_paths(&text).len(), faults, "{text}");
        };
        for folder in ["home", "root", "work", "Users"] {
            check(format!("a\ncd /{folder}/me"), 1);
            check(format!("\"/{folder}/me\""), 1);
            check(format!("file:///{folder}/me"), 1);
            check(format!("src/{folder}/mod.rs"), 0);
        }
    }
}
