//! Arguments and schemas whose answers all languages share.
//!
//! Never holds a case itself: those are in `tests/vectors/arguments.json` and `schema.json`.

use std::collections::BTreeSet;

use bytes::Bytes;
use callgate::gate::json::{Document, JsonError, JsonLimits};
use callgate::gate::schema::{
    Compiled, Schema, SchemaDialect, SchemaError, SchemaNote, SchemaOptions, UnknownProperties,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// One text and what the reader makes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    name: String,
    /// The text itself, or
    text: Option<String>,
    /// its bytes in hexadecimal, where it is not UTF-8, or
    text_hex: Option<String>,
    /// parts that are repeated and put in a row.
    text_parts: Option<Vec<Part>>,
    #[serde(default)]
    limits: Limits,
    expect: ExpectRead,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    text: String,
    times: usize,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Limits {
    bytes_max: Option<usize>,
    depth_max: Option<u16>,
    nodes_max: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ExpectRead {
    Refused(Refused),
    Forms(Forms),
    Accepted(Accepted),
}

/// A code, and for errors that have one, the `$` path or the offset in bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    code: String,
    path: Option<String>,
    offset: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forms {
    dispatch: String,
    signature: String,
}

/// For texts too long to be written out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    accepted: bool,
}

/// One schema, and what registering and checking answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaCase {
    name: String,
    dialect: Dialect,
    /// The schema, or
    schema: Option<serde_json::Value>,
    /// its text, where the spelling matters, or
    schema_text: Option<String>,
    /// parts that are repeated and put in a row.
    schema_parts: Option<Vec<Part>>,
    #[serde(default)]
    options: Options,
    expect: ExpectSchema,
}

#[derive(Deserialize, Clone, Copy)]
enum Dialect {
    #[serde(rename = "core")]
    Core,
    #[serde(rename = "json-schema-2020-12")]
    JsonSchema202012,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Options {
    core_unknown: Option<Unknown>,
    bytes_max: Option<usize>,
    depth_max: Option<u16>,
    properties_max: Option<usize>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Unknown {
    Pass,
    Refuse,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ExpectSchema {
    Refused(Refused),
    Checks(Checks),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Checks {
    checks: Vec<Check>,
    #[serde(default)]
    notes: Vec<Note>,
}

/// Arguments as text; without a code they fit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    args: String,
    code: Option<String>,
    path: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Note {
    code: String,
    path: String,
}

fn cases<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let text = std::fs::read(format!("tests/vectors/{file}")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn joined(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| part.text.repeat(part.times))
        .collect()
}

impl Arguments {
    fn bytes(&self) -> Bytes {
        match (&self.text, &self.text_hex, &self.text_parts) {
            (Some(text), None, None) => Bytes::from(text.clone()),
            (None, Some(hex), None) => (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect(),
            (None, None, Some(parts)) => Bytes::from(joined(parts)),
            _ => panic!("{}: exactly one of text, text_hex, text_parts", self.name),
        }
    }

    fn limits(&self) -> JsonLimits {
        let default = JsonLimits::default();
        JsonLimits {
            bytes_max: self.limits.bytes_max.unwrap_or(default.bytes_max),
            depth_max: self.limits.depth_max.unwrap_or(default.depth_max),
            nodes_max: self.limits.nodes_max.unwrap_or(default.nodes_max),
        }
    }
}

impl SchemaCase {
    fn text(&self) -> Bytes {
        match (&self.schema, &self.schema_text, &self.schema_parts) {
            (Some(schema), None, None) => Bytes::from(schema.to_string()),
            (None, Some(text), None) => Bytes::from(text.clone()),
            (None, None, Some(parts)) => Bytes::from(joined(parts)),
            _ => panic!(
                "{}: exactly one of schema, schema_text, schema_parts",
                self.name
            ),
        }
    }

    fn compile(&self) -> Result<Compiled, SchemaError> {
        let dialect = match self.dialect {
            Dialect::Core => SchemaDialect::Core,
            Dialect::JsonSchema202012 => SchemaDialect::JsonSchema202012,
        };
        let default = SchemaOptions::default();
        let options = SchemaOptions {
            core_unknown: match self.options.core_unknown {
                Some(Unknown::Refuse) => UnknownProperties::Refuse,
                Some(Unknown::Pass) | None => UnknownProperties::Pass,
            },
            bytes_max: self.options.bytes_max.unwrap_or(default.bytes_max),
            depth_max: self.options.depth_max.unwrap_or(default.depth_max),
            properties_max: self
                .options
                .properties_max
                .unwrap_or(default.properties_max),
        };
        Schema::compile(&self.text(), dialect, &options)
    }
}

fn offset(error: &JsonError) -> Option<usize> {
    match error {
        JsonError::Invalid { offset, .. }
        | JsonError::Truncated { offset }
        | JsonError::InvalidUnicode { offset }
        | JsonError::NumberOutOfRange { offset }
        | JsonError::TooDeep { offset, .. } => Some(*offset),
        JsonError::NotObject
        | JsonError::DuplicateKey { .. }
        | JsonError::TooLarge { .. }
        | JsonError::TooManyNodes { .. } => None,
    }
}

fn path(error: &JsonError) -> Option<&str> {
    match error {
        JsonError::DuplicateKey { path, .. } => Some(path),
        JsonError::Invalid { .. }
        | JsonError::Truncated { .. }
        | JsonError::InvalidUnicode { .. }
        | JsonError::NumberOutOfRange { .. }
        | JsonError::TooDeep { .. }
        | JsonError::NotObject
        | JsonError::TooLarge { .. }
        | JsonError::TooManyNodes { .. } => None,
    }
}

#[test]
fn arguments_are_read_and_written_as_the_vectors_say() {
    for case in cases::<Arguments>("arguments.json") {
        let name = &case.name;
        let read = Document::parse_object(&case.bytes(), &case.limits());
        match (&case.expect, read) {
            (ExpectRead::Refused(expect), Err(error)) => {
                assert_eq!(error.code(), expect.code, "{name}: {error}");
                if let Some(expect) = &expect.path {
                    assert_eq!(path(&error), Some(expect.as_str()), "{name}");
                }
                if let Some(expect) = expect.offset {
                    assert_eq!(offset(&error), Some(expect), "{name}");
                }
            }
            (ExpectRead::Forms(expect), Ok(document)) => {
                let dispatch = document.dispatch_form();
                assert_eq!(dispatch, expect.dispatch, "{name}");
                let signature = String::from_utf8(document.signature_form()).unwrap();
                assert_eq!(signature, expect.signature, "{name}");
            }
            (ExpectRead::Accepted(expect), read) => {
                assert_eq!(read.is_ok(), expect.accepted, "{name}");
            }
            (ExpectRead::Refused(expect), Ok(_)) => panic!("{name}: expected {}", expect.code),
            (ExpectRead::Forms(_), Err(error)) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn schemas_are_compiled_and_checked_as_the_vectors_say() {
    for case in cases::<SchemaCase>("schema.json") {
        let name = &case.name;
        match (&case.expect, case.compile()) {
            (ExpectSchema::Refused(expect), Err(error)) => {
                assert_eq!(error.code(), expect.code, "{name}: {error}");
                if let Some(path) = &expect.path {
                    assert_eq!(error.path(), path, "{name}: {error}");
                }
            }
            (ExpectSchema::Checks(expect), Ok(compiled)) => {
                for check in &expect.checks {
                    check_one(name, &compiled.schema, check);
                }
                let notes = compiled.notes.iter().map(note).collect::<Vec<_>>();
                assert_eq!(notes, expect.notes, "{name}");
            }
            (ExpectSchema::Refused(expect), Ok(_)) => panic!("{name}: expected {}", expect.code),
            (ExpectSchema::Checks(_), Err(error)) => panic!("{name}: {error}"),
        }
    }
}

fn note(note: &SchemaNote) -> Note {
    Note {
        code: note.code().to_owned(),
        path: note.path().to_owned(),
    }
}

fn check_one(name: &str, schema: &Schema, check: &Check) {
    let text = Bytes::from(check.args.clone());
    let arguments = Document::parse_object(&text, &JsonLimits::default()).unwrap();
    let error = schema.check(&arguments).err();
    let code = error.as_ref().map(|error| error.code());
    assert_eq!(code, check.code.as_deref(), "{name}: {}", check.args);
    if let Some(path) = &check.path {
        let found = error.as_ref().map(|error| error.path());
        assert_eq!(found, Some(path.as_str()), "{name}: {}", check.args);
    }
    if let Some(message) = &check.message {
        let found = error.map(|error| error.to_string());
        assert_eq!(found.as_ref(), Some(message), "{name}: {}", check.args);
    }
}

/// Every code of the reader and of both dialects.
const CODES: [&str; 26] = [
    "json_invalid",
    "json_not_object",
    "json_truncated",
    "json_duplicate_key",
    "json_invalid_unicode",
    "json_number_out_of_range",
    "json_too_large",
    "json_too_deep",
    "schema_unsupported_keyword",
    "schema_invalid_required",
    "schema_missing_type",
    "schema_unknown_type",
    "schema_invalid_properties",
    "schema_invalid_items",
    "schema_root_not_object",
    "schema_too_deep",
    "schema_too_large",
    "schema_unresolved_ref",
    "schema_invalid",
    "tool_argument_required",
    "tool_argument_type_mismatch",
    "tool_argument_enum",
    "tool_argument_range",
    "tool_argument_pattern",
    "tool_argument_unknown",
    "tool_argument_invalid",
];

#[test]
fn every_code_has_a_vector() {
    let mut seen = BTreeSet::new();
    for case in cases::<Arguments>("arguments.json") {
        if let ExpectRead::Refused(expect) = case.expect {
            seen.insert(expect.code);
        }
    }
    for case in cases::<SchemaCase>("schema.json") {
        match case.expect {
            ExpectSchema::Refused(expect) => {
                seen.insert(expect.code);
            }
            ExpectSchema::Checks(expect) => {
                seen.extend(expect.checks.into_iter().filter_map(|check| check.code));
            }
        }
    }
    assert_eq!(
        seen.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(CODES)
    );
}
