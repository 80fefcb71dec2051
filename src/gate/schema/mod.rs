//! Schemas of tool arguments: two dialects, compiled once, checked many times.
//!
//! Never ignores a keyword in silence: what a dialect would not check refuses the schema, and what
//! it only notes is returned as a note.

mod core;
mod core_check;
mod draft;
mod error;
mod instance;
mod keywords;
mod lower;
mod options;
mod references;
mod report;
mod walk;

pub use error::{ArgumentError, SchemaError};
pub use options::{SchemaDialect, SchemaOptions, UnknownProperties};

use bytes::Bytes;

use crate::gate::json::{Document, Kind, Value};

/// A schema that is ready to check arguments. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Schema {
    checker: Checker,
}

#[derive(Debug)]
enum Checker {
    Core(core::CoreSchema),
    Draft(draft::DraftSchema),
}

/// A schema with what its author should know about it.
#[derive(Debug)]
pub struct Compiled {
    /// The schema.
    pub schema: Schema,
    /// In the order of the text.
    pub notes: Vec<SchemaNote>,
}

/// Something the schema says that is not checked, although it is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaNote {
    /// A `format` that the validator does not know; it is an annotation only.
    FormatNotAsserted {
        /// The `$` path of the keyword.
        path: String,
        /// Its value.
        format: String,
    },
}

impl SchemaNote {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            SchemaNote::FormatNotAsserted { .. } => "format_not_asserted",
        }
    }

    /// Where in the schema; starts at `$`.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            SchemaNote::FormatNotAsserted { path, .. } => path,
        }
    }
}

impl std::fmt::Display for SchemaNote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SchemaNote::FormatNotAsserted { format, .. } => {
                write!(
                    out,
                    "format `{format}` is a note only; values are not checked for it"
                )
            }
        }
    }
}

impl Schema {
    /// Compiles the schema of a tool. A text that is empty or blank means `{"type":"object"}`.
    ///
    /// The root must describe an object. In the core dialect its `type` is `object`; in the other
    /// it is an object whose `type` names `object` or is absent, followed through `$ref`.
    ///
    /// # Errors
    /// Any [`SchemaError`]; the earliest in the text, one stage after the other: JSON and limits,
    /// keywords, references, meta-schema.
    pub fn compile(
        text: &Bytes,
        dialect: SchemaDialect,
        options: &SchemaOptions,
    ) -> Result<Compiled, SchemaError> {
        let document = read(text, options)?;
        if document.root().kind() != Kind::Object {
            return Err(SchemaError::RootNotObject {
                path: String::from("$"),
            });
        }
        match dialect {
            SchemaDialect::Core => {
                let compiled = core::compile(&document, options)?;
                core::root_is_object(&compiled)?;
                Ok(Compiled::core(compiled))
            }
            SchemaDialect::JsonSchema202012 => {
                draft::compile(&document, options, draft::Root::Object)
            }
        }
    }

    /// Compiles like [`Schema::compile`], but lets the root describe any value.
    ///
    /// For test suites of JSON Schema; a tool's schema goes through `compile`.
    ///
    /// # Errors
    /// As [`Schema::compile`], without `schema_root_not_object` for what the root describes.
    pub fn compile_any_root(
        text: &Bytes,
        dialect: SchemaDialect,
        options: &SchemaOptions,
    ) -> Result<Compiled, SchemaError> {
        let document = read(text, options)?;
        match dialect {
            SchemaDialect::Core => Ok(Compiled::core(core::compile(&document, options)?)),
            SchemaDialect::JsonSchema202012 => draft::compile(&document, options, draft::Root::Any),
        }
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// One [`ArgumentError`]; the same arguments always give the same one.
    pub fn check(&self, arguments: &Document) -> Result<(), ArgumentError> {
        self.check_value(arguments.root())
    }

    /// Checks any value.
    ///
    /// # Errors
    /// As [`Schema::check`].
    pub fn check_value(&self, value: Value<'_>) -> Result<(), ArgumentError> {
        match &self.checker {
            Checker::Core(schema) => core_check::check(schema, value),
            Checker::Draft(schema) => schema.check(value),
        }
    }
}

impl Compiled {
    fn core(schema: core::CoreSchema) -> Self {
        Compiled {
            schema: Schema {
                checker: Checker::Core(schema),
            },
            notes: Vec::new(),
        }
    }
}

fn read(text: &Bytes, options: &SchemaOptions) -> Result<Document, SchemaError> {
    let blank = text.iter().all(u8::is_ascii_whitespace);
    if blank && text.len() <= options.bytes_max {
        let any_object = Bytes::from_static(br#"{"type":"object"}"#);
        return Ok(Document::parse(&any_object, &Default::default())?);
    }
    Ok(Document::parse(text, &options.json_limits())?)
}
