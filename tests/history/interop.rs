//! The providers' own SDKs take what is written, from every backend to every
//! other. Needs the Python of `make test`; where it is absent, says so and passes.

use std::{fs, path::PathBuf, process::Command};

use a11_grpc::interaction::backend::{Dialect, convert};

use super::{
    conversations::{odd_ids, whole, whole_with_ids},
    cut_off::{Cut, cut_off, parallel},
    installed::{installed, skipped},
};

const MODULES: &str = "import anthropic, google.genai, ollama, openai";

#[test]
fn the_providers_own_sdks_take_every_pair_of_dialects() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let Some(python) = installed("A11_PYTHON") else { return };
    let has_sdks = Command::new(&python).args(["-c", MODULES]).output();
    if !has_sdks.is_ok_and(|output| output.status.success()) {
        skipped("the SDKs are not installed; run `make test`");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut count = 0;
    for from in Dialect::ALL {
        let mut histories = vec![("whole", whole(from)), ("odd", whole_with_ids(from, odd_ids()))];
        if parallel().any(|dialect| dialect == from) {
            histories.push(("left", runtime.block_on(cut_off(from, Cut::Left))));
            histories.push(("late", runtime.block_on(cut_off(from, Cut::OutOfTime))));
        }
        for ((what, history), to) in
            histories.iter().flat_map(|one| Dialect::ALL.map(|to| (one, to)))
        {
            let messages = convert(history, to).messages.join(",");
            let path = folder.path().join(format!("{from:?}-{what}__{to:?}.json"));
            fs::write(path, format!("[{messages}]")).expect("written");
            count += 1;
        }
    }
    let output = Command::new(&python)
        .arg(root.join("tests/interop/check_messages.py"))
        .arg(folder.path())
        .output()
        .expect("Python runs");
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    assert_eq!(said.trim(), format!("interop: {count} conversations taken"));
}
