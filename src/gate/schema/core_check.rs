//! Checks values against a compiled schema of the core dialect.
//!
//! Never goes deeper than the schema does, and allocates only to report a failure.

use crate::gate::json::path::{self, Step};
use crate::gate::json::{Kind, Value};

use super::core::{CoreSchema, CoreType, Node};
use super::error::ArgumentError;
use super::options::UnknownProperties;

/// Checks a value. At each object: its type, missing names as `required` lists them, then the
/// entries in the order of the text.
pub(super) fn check(schema: &CoreSchema, value: Value<'_>) -> Result<(), ArgumentError> {
    let checker = Checker {
        unknown: schema.unknown,
    };
    checker.value(&schema.root, value, &Trail::Root)
}

/// The way to a value, kept on the stack.
enum Trail<'t> {
    Root,
    Below(&'t Trail<'t>, Step<'t>),
}

impl Trail<'_> {
    #[cold]
    fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut trail = self;
        while let Trail::Below(parent, step) = trail {
            steps.push(*step);
            trail = parent;
        }
        path::render(steps.into_iter().rev())
    }

    #[cold]
    fn path_to(&self, name: &str) -> String {
        let mut path = self.path();
        path::push(&mut path, Step::Name(name));
        path
    }
}

struct Checker {
    unknown: UnknownProperties,
}

impl Checker {
    fn value(&self, node: &Node, value: Value<'_>, trail: &Trail<'_>) -> Result<(), ArgumentError> {
        if !has_type(value, node.kind) {
            return Err(ArgumentError::TypeMismatch {
                path: trail.path(),
                expected: node.kind.name().to_owned(),
            });
        }
        match node.kind {
            CoreType::Object => self.object(node, value, trail),
            CoreType::Array => self.array(node, value, trail),
            CoreType::String
            | CoreType::Number
            | CoreType::Integer
            | CoreType::Boolean
            | CoreType::Null => Ok(()),
        }
    }

    /// One pass over the entries; the first failure waits until it is known that nothing is missing.
    fn object(
        &self,
        node: &Node,
        value: Value<'_>,
        trail: &Trail<'_>,
    ) -> Result<(), ArgumentError> {
        let mut found = 0;
        let mut hint = 0;
        let mut first = Ok(());
        for entry in value.entries() {
            let Some((position, field)) = node.field(entry.key_bytes(), hint) else {
                if first.is_ok() && self.unknown == UnknownProperties::Refuse {
                    first = Err(unknown(entry.key(), trail));
                }
                continue;
            };
            hint = position + 1;
            found += usize::from(field.required);
            if let (Ok(()), Some(schema)) = (&first, &field.schema) {
                first = self.value(
                    schema,
                    entry.value(),
                    &Trail::Below(trail, Step::Name(&field.name)),
                );
            }
        }
        if found < node.required.len() {
            return Err(missing(node, value, trail));
        }
        first
    }

    fn array(&self, node: &Node, value: Value<'_>, trail: &Trail<'_>) -> Result<(), ArgumentError> {
        let Some(items) = &node.items else {
            return Ok(());
        };
        for (position, item) in value.items().enumerate() {
            self.value(items, item, &Trail::Below(trail, Step::Index(position)))?;
        }
        Ok(())
    }
}

#[inline]
fn has_type(value: Value<'_>, expected: CoreType) -> bool {
    match expected {
        CoreType::String => value.kind() == Kind::String,
        CoreType::Number => value.kind() == Kind::Number,
        CoreType::Integer => value.as_number().is_some_and(|number| number.is_integral()),
        CoreType::Boolean => value.kind() == Kind::Boolean,
        CoreType::Object => value.kind() == Kind::Object,
        CoreType::Array => value.kind() == Kind::Array,
        CoreType::Null => value.kind() == Kind::Null,
    }
}

#[cold]
fn unknown(name: &str, trail: &Trail<'_>) -> ArgumentError {
    ArgumentError::Unknown {
        path: trail.path_to(name),
        name: path::shown(name),
    }
}

#[cold]
fn missing(node: &Node, value: Value<'_>, trail: &Trail<'_>) -> ArgumentError {
    let names = node
        .required
        .iter()
        .filter_map(|position| node.fields.get(*position));
    let name = names
        .map(|field| &*field.name)
        .find(|name| value.get(name).is_none())
        .unwrap_or_default();
    ArgumentError::Required {
        path: trail.path_to(name),
        name: path::shown(name),
    }
}
