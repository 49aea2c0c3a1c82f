//! `a11-grpc conversation` over a store of its own, and over a server's.

#![allow(missing_docs)]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a11-grpc"));
    for variable in ["A11_SERVER", "A11_STORE", "A11_CONFIG", "A11_LOG"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// Standard output, and the exit code.
fn run(arguments: &[&str], folder: &Path) -> (String, Option<i32>) {
    let output = program().current_dir(folder).args(arguments).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (if text.is_empty() { error } else { text }, output.status.code())
}

const LINES: &str = "{\"id\":\"a\",\"role\":\"user\",\"content\":[{\"data\":\"aGVsbG8=\",\
    \"metadata\":{\"mimetype\":\"text/plain\"}}]}\n\
    {\"id\":\"b\",\"role\":\"model\",\"model\":\"m-1\",\"previous_interaction_id\":\"a\",\
    \"content\":[{\"data\":\"PGI+aGk8L2I+\",\"metadata\":{\"mimetype\":\"text/plain\"}}]}\n";

#[test]
fn a_conversation_is_imported_listed_shown_and_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |arguments: &[&str], expected: &str| {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--store", "store.db"]);
        let (output, code) = run(&arguments, folder.path());
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains(expected), "{arguments:?}: {output}");
        output
    };
    std::fs::write(folder.path().join("in.jsonl"), LINES).expect("written");
    check(&["conversation", "import", "c", "in.jsonl"], "2 appended, 0 there already");
    check(&["conversation", "import", "c", "in.jsonl"], "0 appended, 2 there already");
    check(&["conversation", "list"], "2  c\n");
    check(&["conversation", "show", "c"], "── user · a\nhello\n\n── model · m-1 · b\n<b>hi</b>\n");
    check(&["conversation", "show", "c", "--html", "c.html"], "");
    let page = std::fs::read_to_string(folder.path().join("c.html")).expect("written");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("&lt;b&gt;hi&lt;/b&gt;"), "{page}");
    let exported = check(&["conversation", "export", "c"], "a11_record");
    std::fs::write(folder.path().join("out.jsonl"), &exported).expect("written");
    check(&["conversation", "import", "d", "out.jsonl"], "2 appended");
    let (error, code) = run(&["conversation", "show", "z", "--store", "store.db"], folder.path());
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no conversation"), "{error}");
    let (error, code) = run(&["conversation", "list"], folder.path());
    assert_eq!(code, Some(2), "{error}");
    let (error, code) = run(&["conversation", "list", "--store", "redis://x"], folder.path());
    assert_eq!(code, Some(2), "{error}");
}

#[cfg(unix)]
#[test]
fn a_conversation_is_deleted_by_who_means_it() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.jsonl"), LINES).expect("written");
    let check = |arguments: &[&str], expected: &str, expected_code: i32| {
        let mut arguments = [&["conversation"], arguments].concat();
        arguments.extend(["--store", "store.db"]);
        let (output, code) = run(&arguments, folder.path());
        assert_eq!((output.as_str(), code), (expected, Some(expected_code)), "{arguments:?}");
    };
    check(&["import", "c", "in.jsonl"], "2 appended, 0 there already\n", 0);
    check(&["import", "cc", "in.jsonl"], "2 appended, 0 there already\n", 0);
    let no_terminal = "error: nothing was deleted: give --yes, there is no terminal to ask on\n";
    check(&["delete", "c"], no_terminal, 2);
    let (answered, code) = delete_on_a_terminal(folder.path(), "n\n");
    assert!(answered.contains("delete c and its 2 interactions? [y/N] "), "{answered}");
    assert!(answered.contains("nothing was deleted") && code == Some(2), "{answered} {code:?}");
    check(&["list"], "      2  c\n      2  cc\n", 0);
    let (answered, code) = delete_on_a_terminal(folder.path(), "Yes\n");
    assert!(answered.contains("2 interactions deleted") && code == Some(0), "{answered} {code:?}");
    check(&["list"], "      2  cc\n", 0);
    check(&["delete", "cc", "--yes"], "2 interactions deleted\n", 0);
    check(&["list"], "", 0);
    let unknown = "error: NOT_FOUND: there is no conversation \"cc\"\n";
    check(&["delete", "cc", "--yes"], unknown, 2);
}

/// What a terminal shows that gives this answer, and the exit code.
#[cfg(unix)]
fn delete_on_a_terminal(folder: &Path, answer: &str) -> (String, Option<i32>) {
    use std::io::Write as _;

    use rustix::pty;
    let terminal = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).expect("opens");
    pty::grantpt(&terminal).expect("granted");
    pty::unlockpt(&terminal).expect("unlocked");
    let name = pty::ptsname(&terminal, vec![]).expect("named").into_string().expect("UTF-8");
    let open = || std::fs::File::options().read(true).write(true).open(&name).expect("opens");
    let mut deleting = program()
        .current_dir(folder)
        .args(["conversation", "delete", "c", "--store", "store.db"])
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .expect("starts");
    let mut terminal = std::fs::File::from(terminal);
    terminal.write_all(answer.as_bytes()).expect("typed");
    let code = deleting.wait().expect("ended").code();
    // All that was shown is there; what would come after it is an error.
    let mut shown = vec![];
    terminal.read_to_end(&mut shown).ok();
    (String::from_utf8_lossy(&shown).into_owned(), code)
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_server_with_a_store_is_watched() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = program()
        .current_dir(folder.path())
        .args(["serve", "--listen", "127.0.0.1:0", "--store", "store.db"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(server.stderr.take().expect("piped")).lines();
    let server = Server(server);
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
        .expect("it says where");
    let mut watching = program()
        .args(["conversation", "watch", "c", "--json", "--server", &address])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut watched = BufReader::new(watching.stdout.take().expect("piped"));
    std::fs::write(folder.path().join("in.jsonl"), LINES).expect("written");
    let import = ["conversation", "import", "c", "in.jsonl", "--server", &address];
    let (output, code) = run(&import, folder.path());
    assert_eq!((output.as_str(), code), ("2 appended, 0 there already\n", Some(0)));
    let mut line = String::new();
    for id in ["\"a\"", "\"b\""] {
        line.clear();
        watched.read_line(&mut line).expect("a line");
        assert!(line.contains(id), "{line}");
    }
    // The server is gone, and with it the watch.
    drop(server);
    let mut rest = String::new();
    watched.read_to_string(&mut rest).expect("ends");
    assert_eq!((rest.as_str(), watching.wait().expect("ended").code()), ("", Some(3)));
}
