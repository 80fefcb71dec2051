//! Turns the validator's errors into ours.
//!
//! Never quotes the value that failed, only what the schema asks for.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value as Tree;

use crate::gate::json::path::{self, Step};
use crate::gate::json::{Kind, Value, pointer_name};

use super::error::{ArgumentError, SchemaError};

/// Longest text taken from a schema or from the compiler, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// What the compiler, or the meta-schema, has against a schema.
pub(super) fn schema_error(error: &ValidationError<'_>) -> SchemaError {
    let at = error.instance_path();
    let at = if at.is_empty() {
        error.schema_path()
    } else {
        at
    };
    let names = at.as_str().split('/').skip(1);
    let names: Vec<_> = names.filter_map(pointer_name).collect();
    let path = path::render(names.iter().map(|name| match name.parse() {
        Ok(index) => Step::Index(index),
        Err(_) => Step::Name(name),
    }));
    SchemaError::Invalid {
        path,
        reason: cut(&error.to_string()),
    }
}

/// A failure without a place.
pub(super) fn whole_value(rule: &str) -> ArgumentError {
    ArgumentError::Invalid {
        path: String::from("$"),
        rule: rule.to_owned(),
    }
}

/// What the validator has against a value.
pub(super) fn argument_error(error: &ValidationError<'_>, root: Value<'_>) -> ArgumentError {
    use ValidationErrorKind as K;
    let path = instance_path(error.instance_path().as_str(), root);
    match error.kind() {
        K::Required { property } => required(path, property.as_str().unwrap_or_default()),
        K::Type { kind } => ArgumentError::TypeMismatch {
            path,
            expected: expected_types(kind),
        },
        K::Constant { expected_value } => ArgumentError::Enum {
            path,
            expected: cut(&expected_value.to_string()),
        },
        K::Enum { options } => ArgumentError::Enum {
            path,
            expected: one_of(options),
        },
        K::AdditionalProperties { unexpected } | K::UnevaluatedProperties { unexpected } => {
            unknown(path, unexpected.first().map_or("", String::as_str))
        }
        kind @ (K::Pattern { .. }
        | K::Format { .. }
        | K::BacktrackLimitExceeded { .. }
        | K::RegexEngineFailure { .. }) => ArgumentError::Pattern {
            path,
            rule: rule(kind),
        },
        kind @ (K::Maximum { .. }
        | K::Minimum { .. }
        | K::ExclusiveMaximum { .. }
        | K::ExclusiveMinimum { .. }
        | K::MultipleOf { .. }
        | K::MaxLength { .. }
        | K::MinLength { .. }
        | K::MaxItems { .. }
        | K::MinItems { .. }
        | K::UniqueItems
        | K::MaxProperties { .. }
        | K::MinProperties { .. }
        | K::AdditionalItems { .. }
        | K::UnevaluatedItems { .. }) => ArgumentError::Range {
            path,
            rule: rule(kind),
        },
        kind @ (K::AnyOf { .. }
        | K::OneOfNotValid { .. }
        | K::OneOfMultipleValid { .. }
        | K::Not { .. }
        | K::Contains
        | K::PropertyNames { .. }
        | K::FalseSchema
        | K::ContentEncoding { .. }
        | K::ContentMediaType { .. }
        | K::Custom { .. }
        | K::FromUtf8 { .. }
        | K::Referencing(_)) => ArgumentError::Invalid {
            path,
            rule: rule(kind),
        },
    }
}

/// Renders a pointer by what it passes: `0` is a position in an array and a name in an object.
fn instance_path(pointer: &str, root: Value<'_>) -> String {
    let mut path = String::from("$");
    let mut value = Some(root);
    for token in pointer.split('/').skip(1) {
        let name = pointer_name(token).unwrap_or_default();
        let in_array = value.is_some_and(|value| value.kind() == Kind::Array);
        let step = match name.parse() {
            Ok(index) if in_array => Step::Index(index),
            _ => Step::Name(&name),
        };
        path::push(&mut path, step);
        value = value.and_then(|value| value.pointer(&format!("/{token}")));
    }
    path
}

fn required(parent: String, name: &str) -> ArgumentError {
    ArgumentError::Required {
        path: below(parent, name),
        name: path::shown(name),
    }
}

fn unknown(parent: String, name: &str) -> ArgumentError {
    ArgumentError::Unknown {
        path: below(parent, name),
        name: path::shown(name),
    }
}

fn below(mut path: String, name: &str) -> String {
    path::push(&mut path, Step::Name(name));
    path
}

fn expected_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(many) => {
            let names: Vec<_> = many.iter().map(|one| one.to_string()).collect();
            names.join(" or ")
        }
    }
}

fn one_of(options: &Tree) -> String {
    let options: Vec<_> = options
        .as_array()
        .into_iter()
        .flatten()
        .map(Tree::to_string)
        .collect();
    cut(&format!("one of {}", options.join(", ")))
}

/// The rule in words.
fn rule(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as K;
    match kind {
        K::Maximum { limit } => format!("must be at most {limit}"),
        K::Minimum { limit } => format!("must be at least {limit}"),
        K::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        K::ExclusiveMinimum { limit } => format!("must be greater than {limit}"),
        K::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        K::MaxLength { limit } => format!("must have at most {limit} characters"),
        K::MinLength { limit } => format!("must have at least {limit} characters"),
        K::MaxItems { limit } => format!("must have at most {limit} items"),
        K::MinItems { limit } => format!("must have at least {limit} items"),
        K::MaxProperties { limit } => format!("must have at most {limit} properties"),
        K::MinProperties { limit } => format!("must have at least {limit} properties"),
        K::UniqueItems => String::from("must not hold an item twice"),
        K::AdditionalItems { limit } => format!("must have at most {limit} items"),
        K::UnevaluatedItems { .. } => String::from("must not have further items"),
        K::Pattern { pattern } => cut(&format!("must match the pattern `{pattern}`")),
        K::Format { format } => cut(&format!("must be a valid `{format}`")),
        K::AnyOf { .. } => String::from("must match one of the schemas in `anyOf`"),
        K::OneOfNotValid { .. } => String::from("must match one of the schemas in `oneOf`"),
        K::OneOfMultipleValid { .. } => {
            String::from("must match exactly one of the schemas in `oneOf`, and matches several")
        }
        K::Not { .. } => String::from("must not match the schema in `not`"),
        K::Contains => String::from("must hold as many matching items as `contains` asks for"),
        K::PropertyNames { .. } => String::from("has a property name that is not allowed"),
        K::FalseSchema => String::from("must not be there"),
        K::AdditionalProperties { .. }
        | K::UnevaluatedProperties { .. }
        | K::BacktrackLimitExceeded { .. }
        | K::RegexEngineFailure { .. }
        | K::Constant { .. }
        | K::ContentEncoding { .. }
        | K::ContentMediaType { .. }
        | K::Custom { .. }
        | K::Enum { .. }
        | K::FromUtf8 { .. }
        | K::Required { .. }
        | K::Type { .. }
        | K::Referencing(_) => format!("must satisfy `{}`", kind.keyword()),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
