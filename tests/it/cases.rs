//! Faults that other products of this kind had in public, and scenarios of dying processes: which test
//! or vector would fail if they came back here.
//!
//! Never holds a case itself, and never runs one.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::tidy::{read, rust_files};

/// One fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: String,
    /// What went wrong, in a few words.
    fault: String,
    /// Tests of Rust and Python, and names of vectors.
    #[serde(default)]
    tests: Vec<String>,
    /// Why there is nothing here that could go wrong so.
    #[serde(default)]
    not_applicable: String,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(&read("tests/vectors/cases.json")).unwrap()
}

/// Every row that there must be: approvals and hooks of frameworks; saved approvals and races, hooks,
/// loops of agents; scenarios of turns and approvals.
fn expected() -> Vec<String> {
    let hooks = "1 2 4 5 7 8 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46 \
        47 49 50 52 53 55 56 58";
    let bugs = "121 122 124 125 127 128 130 131 133 134 136 137 139 140 142 143 145 146 148 149 151 152 \
        154 155 157 158 160 161 163 164 166 167 169 170 172 173 175 176 178 179 181 182 184 185 187 188 \
        190 191";
    let hooks = hooks
        .split_whitespace()
        .map(|number| format!("hooks {number}"));
    let bugs = bugs.split_whitespace().map(|number| format!("B{number}"));
    let scenarios = (1..=20).map(|number| format!("S-{number:02}"));
    hooks.chain(bugs).chain(scenarios).collect()
}

#[test]
fn every_row_is_there_once_in_its_order_and_says_what_holds_it_or_why_nothing_does() {
    let rows = rows();
    let names: Vec<&str> = rows.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(names, expected());
    for row in &rows {
        assert!(!row.fault.is_empty(), "{} says no fault", row.row);
        assert!(
            row.tests.is_empty() != row.not_applicable.is_empty(),
            "{} has tests or a reason, and not both",
            row.row
        );
    }
}

/// Functions of Rust that stand below `#[test]` or its like, or are made by the macro for deaths.
fn rust_tests(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap();
            if std::mem::take(&mut is_test) {
                names.insert(name.to_owned());
            }
        } else if let Some((name, _)) = line.split_once(" at \"") {
            let name = name.split(':').next().unwrap();
            names.insert(name.to_owned());
        }
    }
    names
}

/// Functions of Python that its test runner runs.
fn python_tests(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let rest = line.strip_prefix("async ").unwrap_or(line);
        let rest = rest
            .strip_prefix("def ")
            .filter(|rest| rest.starts_with("test_"))?;
        rest.split_once('(').map(|(name, _)| name.to_owned())
    })
}

/// The names of every vector of a file, however deep.
fn vectors(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    let name = value.get("name").and_then(serde_json::Value::as_str);
    names.extend(name.map(str::to_owned));
    let members = value
        .as_object()
        .into_iter()
        .flat_map(|members| members.values());
    let entries = value.as_array().into_iter().flatten();
    members.chain(entries).for_each(|one| vectors(one, names));
}

#[test]
fn every_test_that_a_row_names_exists() {
    let mut known = BTreeSet::new();
    for path in rust_files() {
        known.extend(rust_tests(&read(&path)));
    }
    for path in crate::tidy::files("clients/python/tests", ".py") {
        known.extend(python_tests(&read(&path)));
    }
    for path in crate::tidy::files("tests/vectors", ".json") {
        vectors(&serde_json::from_str(&read(&path)).unwrap(), &mut known);
    }
    let mut missing = Vec::new();
    for row in rows() {
        let gone = row.tests.iter().filter(|test| !known.contains(*test));
        missing.extend(gone.map(|test| format!("{}: {test}", row.row)));
    }
    assert_eq!(missing, Vec::<String>::new());
}
