//! How a schema or a call's arguments are refused.
//!
//! Never holds a value of the arguments: names, paths and what the schema says, nothing else.

use crate::gate::json::JsonError;

/// Why a schema cannot be registered. Every path starts at `$` and leads into the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The keyword is unknown to the dialect, or would be ignored where it stands.
    #[error("unsupported schema keyword `{keyword}` at {path}: {reason}")]
    UnsupportedKeyword {
        /// Where the keyword stands.
        path: String,
        /// The keyword.
        keyword: String,
        /// Why it is not accepted.
        reason: &'static str,
    },
    /// `required` is not a list of different names.
    #[error("{path} must be a list of different property names")]
    InvalidRequired {
        /// The `required`, or the entry in it.
        path: String,
    },
    /// A schema of the core dialect has no `type`.
    #[error("{path} has no `type`")]
    MissingType {
        /// The schema.
        path: String,
    },
    /// `type` is not one of the seven names.
    #[error("{path} must be one of string, number, integer, boolean, object, array, null")]
    UnknownType {
        /// The `type`.
        path: String,
    },
    /// `properties`, or an entry of it, is not an object.
    #[error("{path} must be an object")]
    InvalidProperties {
        /// The `properties`, or the entry in it.
        path: String,
    },
    /// `items` is not an object.
    #[error("{path} must be an object")]
    InvalidItems {
        /// The `items`.
        path: String,
    },
    /// The root admits no object, so no call could ever pass.
    #[error("the root schema must describe an object")]
    RootNotObject {
        /// What says otherwise.
        path: String,
    },
    /// The schema is nested, or refers in a row, deeper than the limit.
    #[error("schema is deeper than {depth_max} levels at {path}")]
    TooDeep {
        /// Where, as far as it is known.
        path: String,
        /// The limit, in levels.
        depth_max: usize,
    },
    /// The schema is larger than a limit.
    #[error("schema has more than {max} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// A reference leads nowhere, out of the document, or in a circle.
    #[error("reference `{reference}` at {path} {reason}")]
    UnresolvedRef {
        /// The keyword that holds the reference.
        path: String,
        /// The reference.
        reference: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The schema is not JSON, or not a schema.
    #[error("invalid schema at {path}: {reason}")]
    Invalid {
        /// Where.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

impl SchemaError {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            SchemaError::UnsupportedKeyword { .. } => "schema_unsupported_keyword",
            SchemaError::InvalidRequired { .. } => "schema_invalid_required",
            SchemaError::MissingType { .. } => "schema_missing_type",
            SchemaError::UnknownType { .. } => "schema_unknown_type",
            SchemaError::InvalidProperties { .. } => "schema_invalid_properties",
            SchemaError::InvalidItems { .. } => "schema_invalid_items",
            SchemaError::RootNotObject { .. } => "schema_root_not_object",
            SchemaError::TooDeep { .. } => "schema_too_deep",
            SchemaError::TooLarge { .. } => "schema_too_large",
            SchemaError::UnresolvedRef { .. } => "schema_unresolved_ref",
            SchemaError::Invalid { .. } => "schema_invalid",
        }
    }

    /// Where in the schema; starts at `$`.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            SchemaError::TooLarge { .. } => "$",
            SchemaError::UnsupportedKeyword { path, .. }
            | SchemaError::InvalidRequired { path }
            | SchemaError::MissingType { path }
            | SchemaError::UnknownType { path }
            | SchemaError::InvalidProperties { path }
            | SchemaError::InvalidItems { path }
            | SchemaError::RootNotObject { path }
            | SchemaError::TooDeep { path, .. }
            | SchemaError::UnresolvedRef { path, .. }
            | SchemaError::Invalid { path, .. } => path,
        }
    }
}

impl From<JsonError> for SchemaError {
    fn from(error: JsonError) -> Self {
        let path = String::from("$");
        match error {
            JsonError::TooLarge { bytes_max } => SchemaError::TooLarge {
                what: "bytes",
                max: bytes_max,
            },
            JsonError::TooManyNodes { nodes_max } => SchemaError::TooLarge {
                what: "values",
                max: nodes_max,
            },
            JsonError::TooDeep { depth_max, .. } => SchemaError::TooDeep {
                path,
                depth_max: usize::from(depth_max),
            },
            JsonError::NotObject => SchemaError::RootNotObject { path },
            JsonError::Invalid { .. }
            | JsonError::Truncated { .. }
            | JsonError::DuplicateKey { .. }
            | JsonError::InvalidUnicode { .. }
            | JsonError::NumberOutOfRange { .. } => SchemaError::Invalid {
                path,
                reason: error.to_string(),
            },
        }
    }
}

/// Why arguments do not fit a schema. Every path starts at `$` and leads into the arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A property that must be there is not.
    #[error("missing required argument `{name}` ({path})")]
    Required {
        /// Where it should be.
        path: String,
        /// Its name.
        name: String,
    },
    /// The value has another type.
    #[error("{path} must be {expected}")]
    TypeMismatch {
        /// The value.
        path: String,
        /// The types that it may have.
        expected: String,
    },
    /// `enum` or `const`: the value is none of those allowed.
    #[error("{path} must be {expected}")]
    Enum {
        /// The value.
        path: String,
        /// The allowed values, cut if they are many.
        expected: String,
    },
    /// A number or a size is out of its bounds: `minimum`, `maximum`, their exclusive forms and
    /// `multipleOf`; `minLength`, `maxLength`; `minItems`, `maxItems`, `uniqueItems`, items where
    /// none may stand; `minProperties`, `maxProperties`.
    #[error("{path} {rule}")]
    Range {
        /// The value.
        path: String,
        /// The bound.
        rule: String,
    },
    /// `pattern` or `format`.
    #[error("{path} {rule}")]
    Pattern {
        /// The value.
        path: String,
        /// What it does not match.
        rule: String,
    },
    /// A property that the schema does not know, where it allows no others.
    #[error("unknown argument `{name}` ({path})")]
    Unknown {
        /// The property.
        path: String,
        /// Its name.
        name: String,
    },
    /// Any other rule: `anyOf`, `oneOf`, `not`, `contains`, `propertyNames`, a `false` schema.
    #[error("{path} {rule}")]
    Invalid {
        /// The value.
        path: String,
        /// The rule.
        rule: String,
    },
}

impl ArgumentError {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ArgumentError::Required { .. } => "tool_argument_required",
            ArgumentError::TypeMismatch { .. } => "tool_argument_type_mismatch",
            ArgumentError::Enum { .. } => "tool_argument_enum",
            ArgumentError::Range { .. } => "tool_argument_range",
            ArgumentError::Pattern { .. } => "tool_argument_pattern",
            ArgumentError::Unknown { .. } => "tool_argument_unknown",
            ArgumentError::Invalid { .. } => "tool_argument_invalid",
        }
    }

    /// Where in the arguments; starts at `$`. For a missing property, where it should be.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            ArgumentError::Required { path, .. }
            | ArgumentError::TypeMismatch { path, .. }
            | ArgumentError::Enum { path, .. }
            | ArgumentError::Range { path, .. }
            | ArgumentError::Pattern { path, .. }
            | ArgumentError::Unknown { path, .. }
            | ArgumentError::Invalid { path, .. } => path,
        }
    }
}
