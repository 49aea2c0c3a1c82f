//! `allow_list.json`: which action names a header lets pass.

use std::path::Path;

use a11_grpc::runner::AllowList;

use crate::tally::{Tally, cases, same};

pub fn run(dir: &Path, tally: &mut Tally) {
    for case in cases(dir, "allow_list.json") {
        let header = case["header"].as_str().unwrap_or_default();
        let name = case["name"].as_str().unwrap_or_default();
        let actual = match AllowList::new([header]) {
            Ok(list) => list.allows(name).into(),
            Err(_) => "INVALID_ARGUMENT".into(),
        };
        tally.check(&format!("allow_list {header:?} {name:?}"), same(&actual, &case["allowed"]));
    }
}
