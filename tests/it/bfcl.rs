//! Function definitions of the Berkeley function-calling leaderboard: real schemas by many hands.
//!
//! Never checks calls, only which definitions each dialect admits.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use callgate::gate::schema::{Schema, SchemaDialect, SchemaOptions};
use callgate::tool_import::normalise_parameters;
use serde_json::Value;

use crate::inputs;

/// All distinct function definitions, by their text.
fn definitions() -> BTreeSet<String> {
    let mut definitions = BTreeSet::new();
    for path in inputs::json_files(&inputs::folder("bfcl_eval").join("data")) {
        let text = std::fs::read_to_string(path).unwrap();
        // One JSON value per line; files of other shapes hold no definitions.
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap_or_default();
            let functions = match value.get("function") {
                Some(Value::Array(functions)) => functions.clone(),
                Some(function) => vec![function.clone()],
                None => vec![value],
            };
            let functions = functions.iter().filter(|it| it.get("parameters").is_some());
            definitions.extend(functions.map(Value::to_string));
        }
    }
    definitions
}

/// How many definitions are accepted, and how many refused by each code.
fn counts(dialect: SchemaDialect, prepare: fn(&Value) -> Value) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for definition in definitions() {
        let definition: Value = serde_json::from_str(&definition).unwrap();
        let text = Bytes::from(prepare(&definition["parameters"]).to_string());
        let code = match Schema::compile(&text, dialect, &SchemaOptions::default()) {
            Ok(_) => "accepted",
            Err(error) => error.code(),
        };
        *counts.entry(code).or_default() += 1;
    }
    counts
}

#[test]
fn there_are_as_many_definitions_as_when_they_were_counted() {
    assert_eq!(definitions().len(), 3526);
}

#[test]
fn core_admits_no_definition_as_it_is_written() {
    let counts = counts(SchemaDialect::Core, Value::clone);
    assert_eq!(
        counts,
        BTreeMap::from([
            ("schema_unknown_type", 3520),
            ("schema_unsupported_keyword", 6)
        ])
    );
}

#[test]
fn core_admits_normalised_definitions_without_further_keywords() {
    let counts = counts(SchemaDialect::Core, normalise_parameters);
    assert_eq!(
        counts,
        BTreeMap::from([
            ("accepted", 1623),
            ("schema_missing_type", 103),
            ("schema_unknown_type", 1),
            ("schema_unsupported_keyword", 1799)
        ])
    );
}

#[test]
fn json_schema_admits_no_foreign_type_names() {
    let counts = counts(SchemaDialect::JsonSchema202012, Value::clone);
    assert_eq!(
        counts,
        BTreeMap::from([("schema_invalid", 3482), ("schema_unsupported_keyword", 44)])
    );
}

#[test]
fn json_schema_admits_nearly_all_normalised_definitions() {
    let counts = counts(SchemaDialect::JsonSchema202012, normalise_parameters);
    assert_eq!(
        counts,
        BTreeMap::from([
            ("accepted", 3481),
            ("schema_invalid", 1),
            ("schema_unsupported_keyword", 44)
        ])
    );
}
