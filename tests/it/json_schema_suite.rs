//! The public JSON-Schema-Test-Suite, draft 2020-12, with its optional part.
//!
//! Never half-passes a group: every test of a schema agrees, or the schema is refused with a code,
//! and the refusals are those of the committed list.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use callgate::gate::json::{Document, JsonLimits, Kind};
use callgate::gate::schema::{
    Compiled, Schema, SchemaDialect, SchemaError, SchemaNote, SchemaOptions,
};

use crate::inputs;

/// What the suite says about a schema, kept as text: a tree would round its numbers.
struct Text {
    file: String,
    group: String,
    schema: Bytes,
    cases: Vec<(String, Bytes, bool)>,
}

/// Reads the suite with our own reader, so that numbers of any length survive.
fn groups() -> Vec<Text> {
    let folder = inputs::folder("jsonschema-4.26.0").join("json/tests/draft2020-12");
    let mut groups = Vec::new();
    for path in inputs::json_files(&folder) {
        groups.extend(read(&folder, &path));
    }
    groups
}

fn read(folder: &Path, path: &Path) -> Vec<Text> {
    let limits = JsonLimits::default();
    let text = Bytes::from(std::fs::read(path).unwrap());
    let document = Document::parse(&text, &limits)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.strip_prefix(folder).unwrap().display().to_string();
    let words = |value: callgate::gate::json::Value<'_>, key: &str| {
        value.get(key).unwrap().as_str().unwrap().to_owned()
    };
    let of = |value: callgate::gate::json::Value<'_>, key: &str| {
        Bytes::from(value.get(key).unwrap().dispatch_form())
    };
    let root = document.root();
    root.items()
        .map(|group| Text {
            file: file.clone(),
            group: words(group, "description"),
            schema: of(group, "schema"),
            cases: group
                .get("tests")
                .unwrap()
                .items()
                .map(|case| {
                    let valid = case.get("valid").unwrap().as_bool().unwrap();
                    (words(case, "description"), of(case, "data"), valid)
                })
                .collect(),
        })
        .collect()
}

/// Where we mean to differ from the suite, both times about `format`: one that the validator knows
/// is asserted although the draft makes it an annotation, and one that it does not know is noted.
fn differs(text: &Text, case: &str, notes: &[SchemaNote], valid: bool) -> bool {
    match valid {
        true => text.file == "format.json" && case.ends_with("is only an annotation by default"),
        false => text.file.starts_with("optional/format/") && !notes.is_empty(),
    }
}

/// What stands in the list for a refusal: the keyword or reference, and the reason.
fn reason(error: &SchemaError) -> String {
    match error {
        SchemaError::UnsupportedKeyword {
            keyword, reason, ..
        } => {
            format!("{} `{keyword}`: {reason}", error.code())
        }
        SchemaError::UnresolvedRef { reason, .. } => format!("{}: {reason}", error.code()),
        SchemaError::Invalid { path, reason } => format!("{}: {path} {reason}", error.code()),
        SchemaError::InvalidRequired { .. }
        | SchemaError::MissingType { .. }
        | SchemaError::UnknownType { .. }
        | SchemaError::InvalidProperties { .. }
        | SchemaError::InvalidItems { .. }
        | SchemaError::RootNotObject { .. }
        | SchemaError::TooDeep { .. }
        | SchemaError::TooLarge { .. } => format!("{}: {error}", error.code()),
    }
}

/// The schema without its `$schema`, which the core dialect refuses like any other keyword.
fn without_dialect(schema: &Bytes) -> Bytes {
    let document = Document::parse(schema, &JsonLimits::default()).unwrap();
    if document.root().kind() != Kind::Object {
        return schema.clone();
    }
    let entries = document
        .root()
        .entries()
        .filter(|entry| entry.key() != "$schema");
    let entries = entries.map(|entry| {
        let key = serde_json::to_string(entry.key()).unwrap();
        let value = String::from_utf8(entry.value().dispatch_form()).unwrap();
        format!("{key}:{value}")
    });
    Bytes::from(format!("{{{}}}", entries.collect::<Vec<_>>().join(",")))
}

fn failures(compiled: &Compiled, text: &Text) -> Vec<String> {
    let limits = JsonLimits::default();
    let mut failures = Vec::new();
    for (case, data, valid) in &text.cases {
        let document = Document::parse(data, &limits).unwrap();
        let checked = compiled.schema.check_value(document.root());
        if checked.is_ok() != *valid && !differs(text, case, &compiled.notes, *valid) {
            failures.push(format!(
                "{} / {} / {case}: {checked:?}",
                text.file, text.group
            ));
        }
    }
    failures
}

#[test]
fn every_2020_12_schema_of_the_suite_is_checked_as_it_says_or_refused_as_listed() {
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    let dialect = SchemaDialect::JsonSchema202012;
    for text in groups() {
        match Schema::compile_any_root(&text.schema, dialect, &SchemaOptions::default()) {
            Ok(compiled) => failed.extend(failures(&compiled, &text)),
            Err(error) => *refused.entry(reason(&error)).or_default() += 1,
        }
    }
    assert_eq!(failed, Vec::<String>::new(), "{failed:#?}");
    let path = "tests/vectors/refused_2020_12.json";
    let listed: BTreeMap<String, usize> =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(refused, listed, "{path} must say exactly what is refused");
}

#[test]
fn every_schema_of_the_suite_that_core_accepts_is_checked_in_full() {
    let mut failed = Vec::new();
    let mut accepted = 0;
    for text in groups() {
        let schema = without_dialect(&text.schema);
        let compiled =
            Schema::compile_any_root(&schema, SchemaDialect::Core, &SchemaOptions::default());
        if let Ok(compiled) = compiled {
            accepted += 1;
            failed.extend(failures(&compiled, &text));
        }
    }
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(accepted, 12);
}
