//! Known bugs of others about saved approvals, races and stuck states: which test holds each.
//!
//! Never holds a case itself.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::vectors::{NoCounterpart, read};
use crate::tidy::rust_files;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    tests: Vec<Held>,
    no_counterpart: Vec<NoCounterpart>,
}

/// One bug, and the tests that would fail if it came back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    row: String,
    tests: Vec<String>,
}

#[test]
fn every_row_that_is_no_vector_names_tests_that_there_are() {
    let rows: Rows = read("elsewhere.json");
    assert!(rows.no_counterpart.iter().all(NoCounterpart::is_told));
    let texts = rust_files().into_iter();
    let texts: Vec<String> = texts
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let names = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            let rest = line
                .trim()
                .trim_start_matches("async ")
                .strip_prefix("fn ")?;
            rest.split_once('(').map(|(name, _)| name)
        });
    let names: BTreeSet<&str> = names.collect();
    for Held { row, tests } in &rows.tests {
        assert!(!tests.is_empty(), "{row} names none");
        for test in tests {
            assert!(names.contains(test.as_str()), "{row}: no test `{test}`");
        }
    }
}
