//! What a schema may cost, and how strict the core dialect is.
//!
//! Never read from anywhere: the caller brings the values.

use crate::gate::json::JsonLimits;

/// Which rules a schema is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaDialect {
    /// Five keywords and seven types; the default where none is named.
    Core,
    /// JSON Schema 2020-12; draft-07 inside a document whose `$schema` says so.
    JsonSchema202012,
}

/// What the core dialect does with properties that the schema does not declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownProperties {
    /// They pass unchecked.
    #[default]
    Pass,
    /// They are refused with `tool_argument_unknown`.
    Refuse,
}

/// Limits and choices of compiling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaOptions {
    /// Undeclared properties in the core dialect. Default: they pass.
    pub core_unknown: UnknownProperties,
    /// Longest schema, in bytes. Default 64 KiB.
    pub bytes_max: usize,
    /// Deepest nesting of the schema's text, and most schemas in a row that apply to one and the
    /// same value. Default 32.
    pub depth_max: u16,
    /// Most property names in all `properties` together. Default 512.
    pub properties_max: usize,
}

impl Default for SchemaOptions {
    fn default() -> Self {
        SchemaOptions {
            core_unknown: UnknownProperties::Pass,
            bytes_max: 64 << 10,
            depth_max: 32,
            properties_max: 512,
        }
    }
}

impl SchemaOptions {
    pub(super) fn json_limits(&self) -> JsonLimits {
        JsonLimits {
            bytes_max: self.bytes_max,
            depth_max: self.depth_max,
            ..JsonLimits::default()
        }
    }
}

impl SchemaDialect {
    /// The word that people and digests see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SchemaDialect::Core => "core",
            SchemaDialect::JsonSchema202012 => "json-schema-2020-12",
        }
    }
}
