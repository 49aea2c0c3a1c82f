//! The providers' own SDKs take what is written, from every backend to every
//! other. Needs the Python of `make test`; where it is absent, says so and passes.

use std::{env, fs, path::PathBuf, process::Command};

use a11_grpc::interaction::backend::{Dialect, convert};

use super::conversations::whole;

const MODULES: &str = "import anthropic, google.genai, ollama, openai";

#[test]
fn the_providers_own_sdks_take_every_pair_of_dialects() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python =
        env::var_os("A11_PYTHON").map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    let has_sdks = Command::new(&python).args(["-c", MODULES]).output();
    if !has_sdks.is_ok_and(|output| output.status.success()) {
        println!("interop: skipped, {} has no SDKs (A11_PYTHON)", python.display());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for from in Dialect::ALL {
        for to in Dialect::ALL {
            let messages = convert(&whole(from), to).messages.join(",");
            let path = folder.path().join(format!("{from:?}__{to:?}.json"));
            fs::write(path, format!("[{messages}]")).expect("written");
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
    let count = Dialect::ALL.len().pow(2);
    assert_eq!(said.trim(), format!("interop: {count} conversations taken"));
}
