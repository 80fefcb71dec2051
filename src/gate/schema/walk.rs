//! Walks a JSON Schema before it is compiled, and refuses what would not be checked.
//!
//! Never interprets a keyword beyond its shape: the meta-schema and the compiler do that after.

use std::collections::{BTreeMap, BTreeSet};

use crate::gate::json::path::{self, Step};
use crate::gate::json::{Entry, Kind, Number, Value};

use super::SchemaNote;
use super::draft::crate_draft;
use super::error::SchemaError;
use super::keywords::{Draft, Shape};

/// Numbers of this size and above are refused: a validator without big numbers rounds them.
const NUMBER_LIMIT: f64 = 18_446_744_073_709_551_616.0;

/// What the walk has found. Schemas are known by the number of their node.
pub(super) struct Survey {
    pub(super) draft: Draft,
    /// Every schema, with the schemas that apply to the same value as it does.
    pub(super) schemas: BTreeMap<u32, Vec<u32>>,
    pub(super) anchors: BTreeMap<String, u32>,
    pub(super) dynamic_anchors: BTreeSet<String>,
    pub(super) references: Vec<Reference>,
    pub(super) notes: Vec<SchemaNote>,
    /// The `$id` of the root, without fragment.
    pub(super) base: Option<String>,
}

/// A `$ref` or `$dynamicRef`.
pub(super) struct Reference {
    /// The schema that refers.
    pub(super) from: u32,
    /// The node of the reference's text.
    pub(super) at: u32,
    pub(super) path: String,
    pub(super) text: String,
    pub(super) dynamic: bool,
}

/// Walks the whole schema.
pub(super) fn survey(root: Value<'_>, properties_max: usize) -> Result<Survey, SchemaError> {
    let mut walker = Walker {
        survey: Survey {
            draft: draft_of(root)?,
            schemas: BTreeMap::new(),
            anchors: BTreeMap::new(),
            dynamic_anchors: BTreeSet::new(),
            references: Vec::new(),
            notes: Vec::new(),
            base: None,
        },
        steps: Vec::new(),
        properties: 0,
        properties_max,
    };
    walker.schema(root)?;
    Ok(walker.survey)
}

/// The draft that the root's `$schema` names; 2020-12 if there is none.
fn draft_of(root: Value<'_>) -> Result<Draft, SchemaError> {
    let Some(uri) = root.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    uri.as_str()
        .and_then(Draft::named)
        .ok_or_else(|| SchemaError::UnsupportedKeyword {
            path: String::from("$.$schema"),
            keyword: String::from("$schema"),
            reason: "only draft 2020-12 and draft-07 are understood",
        })
}

struct Walker<'a> {
    survey: Survey,
    steps: Vec<Step<'a>>,
    properties: usize,
    properties_max: usize,
}

impl<'a> Walker<'a> {
    /// Walks one schema. What is neither an object nor a boolean is left to the meta-schema.
    fn schema(&mut self, schema: Value<'a>) -> Result<(), SchemaError> {
        let id = schema.identity().1;
        self.survey.schemas.insert(id, Vec::new());
        for entry in schema.entries() {
            self.steps.push(Step::Name(entry.key()));
            self.keyword(schema, entry)?;
            self.steps.pop();
        }
        Ok(())
    }

    fn keyword(&mut self, schema: Value<'a>, entry: Entry<'a>) -> Result<(), SchemaError> {
        let keyword = entry.key();
        let shape = self.survey.draft.shape(keyword);
        if let Some(reason) = self.ignored(schema, keyword, shape) {
            return Err(self.unsupported(keyword, reason));
        }
        let value = entry.value();
        let from = schema.identity().1;
        match shape {
            Shape::Refused(reason) => Err(self.unsupported(keyword, reason)),
            Shape::Annotation | Shape::Dialect => Ok(()),
            Shape::Assertion => self.numbers(value),
            Shape::Schema => self.schema(value),
            Shape::SchemaInPlace => self.in_place(from, value),
            Shape::Schemas => self.list(None, value),
            Shape::SchemasInPlace => self.list(Some(from), value),
            Shape::SchemaOrSchemas if value.kind() == Kind::Array => self.list(None, value),
            Shape::SchemaOrSchemas => self.schema(value),
            Shape::Map => self.properties(keyword, value),
            Shape::Definitions => self.map(None, value),
            Shape::MapInPlace | Shape::MapOrNames => self.map(Some(from), value),
            Shape::Format => self.format(value),
            Shape::Reference => self.reference(from, value, false),
            Shape::DynamicReference => self.reference(from, value, true),
            Shape::Anchor => self.anchor(keyword, from, value),
            Shape::Id => self.id(value),
        }
    }

    /// Why a keyword that the draft knows would be ignored beside its neighbours.
    fn ignored(&self, schema: Value<'_>, keyword: &str, shape: Shape) -> Option<&'static str> {
        let lacks = |other: &str| schema.get(other).is_none();
        let below_root = self.steps.len() > 1;
        match keyword {
            "then" | "else" if lacks("if") => Some("it is ignored without `if`"),
            "if" if lacks("then") && lacks("else") => {
                Some("it is ignored without `then` or `else`")
            }
            "minContains" | "maxContains" if lacks("contains") => {
                Some("it is ignored without `contains`")
            }
            "additionalItems" if !is_list(schema.get("items")) => {
                Some("it is ignored unless `items` is a list")
            }
            "$schema" if below_root => Some("only the root may name the draft"),
            "$id" if below_root => Some("below the root it changes what references mean"),
            _ if self.survey.draft == Draft::Draft07 && !lacks("$ref") => beside_reference(shape),
            _ => None,
        }
    }

    fn in_place(&mut self, from: u32, schema: Value<'a>) -> Result<(), SchemaError> {
        self.survey.edge(from, schema.identity().1);
        self.schema(schema)
    }

    fn list(&mut self, from: Option<u32>, list: Value<'a>) -> Result<(), SchemaError> {
        for (position, schema) in list.items().enumerate() {
            self.steps.push(Step::Index(position));
            match from {
                Some(from) => self.in_place(from, schema)?,
                None => self.schema(schema)?,
            }
            self.steps.pop();
        }
        Ok(())
    }

    fn map(&mut self, from: Option<u32>, map: Value<'a>) -> Result<(), SchemaError> {
        for entry in map.entries() {
            self.steps.push(Step::Name(entry.key()));
            match from {
                // A list of names, which draft-07 allows in `dependencies`.
                _ if entry.value().kind() == Kind::Array => {}
                Some(from) => self.in_place(from, entry.value())?,
                None => self.schema(entry.value())?,
            }
            self.steps.pop();
        }
        Ok(())
    }

    fn properties(&mut self, keyword: &str, map: Value<'a>) -> Result<(), SchemaError> {
        if keyword == "properties" {
            self.properties += map.len();
        }
        if self.properties > self.properties_max {
            return Err(SchemaError::TooLarge {
                what: "properties",
                max: self.properties_max,
            });
        }
        self.map(None, map)
    }

    fn format(&mut self, value: Value<'_>) -> Result<(), SchemaError> {
        if let Some(format) = value.as_str()
            && !jsonschema::options().is_known_format(crate_draft(self.survey.draft), format)
        {
            self.survey.notes.push(SchemaNote::FormatNotAsserted {
                path: self.path(),
                format: path::shown(format),
            });
        }
        Ok(())
    }

    fn reference(&mut self, from: u32, value: Value<'_>, dynamic: bool) -> Result<(), SchemaError> {
        if let Some(text) = value.as_str() {
            self.survey.references.push(Reference {
                from,
                at: value.identity().1,
                path: self.path(),
                text: text.to_owned(),
                dynamic,
            });
        }
        Ok(())
    }

    fn anchor(&mut self, keyword: &str, from: u32, value: Value<'_>) -> Result<(), SchemaError> {
        let Some(name) = value.as_str() else {
            return Ok(());
        };
        if keyword == "$dynamicAnchor" {
            self.survey.dynamic_anchors.insert(name.to_owned());
        }
        let earlier = self.survey.anchors.insert(name.to_owned(), from);
        if earlier.is_some_and(|earlier| earlier != from) {
            return Err(SchemaError::Invalid {
                path: self.path(),
                reason: format!("the anchor `{}` is taken", path::shown(name)),
            });
        }
        Ok(())
    }

    fn id(&mut self, value: Value<'_>) -> Result<(), SchemaError> {
        let Some(id) = value.as_str() else {
            return Ok(());
        };
        let (base, fragment) = id.split_once('#').unwrap_or((id, ""));
        if !fragment.is_empty() {
            return Err(self.unsupported("$id", "it must not have a fragment"));
        }
        self.survey.base = Some(base.to_owned());
        Ok(())
    }

    /// Refuses numbers that a double would not hold digit by digit.
    fn numbers(&self, value: Value<'_>) -> Result<(), SchemaError> {
        if value.as_number().is_some_and(|number| !is_exact(number)) {
            return Err(SchemaError::Invalid {
                path: self.path(),
                reason: String::from("the number has more digits than are compared exactly"),
            });
        }
        value.items().try_for_each(|item| self.numbers(item))?;
        value
            .entries()
            .try_for_each(|entry| self.numbers(entry.value()))
    }

    fn unsupported(&self, keyword: &str, reason: &'static str) -> SchemaError {
        SchemaError::UnsupportedKeyword {
            path: self.path(),
            keyword: path::shown(keyword),
            reason,
        }
    }

    fn path(&self) -> String {
        path::render(self.steps.iter().copied())
    }
}

impl Survey {
    /// Notes that `to` applies to the same value as `from`.
    pub(super) fn edge(&mut self, from: u32, to: u32) {
        self.schemas.entry(from).or_default().push(to);
    }
}

fn is_list(value: Option<Value<'_>>) -> bool {
    value.is_some_and(|value| value.kind() == Kind::Array)
}

/// Draft-07 ignores all neighbours of `$ref`; those that check nothing do no harm.
fn beside_reference(shape: Shape) -> Option<&'static str> {
    match shape {
        Shape::Annotation
        | Shape::Definitions
        | Shape::Reference
        | Shape::Dialect
        | Shape::Id
        | Shape::Refused(_) => None,
        Shape::Assertion
        | Shape::Schema
        | Shape::SchemaInPlace
        | Shape::Schemas
        | Shape::SchemasInPlace
        | Shape::Map
        | Shape::MapInPlace
        | Shape::SchemaOrSchemas
        | Shape::MapOrNames
        | Shape::Format
        | Shape::DynamicReference
        | Shape::Anchor => Some("draft-07 ignores it beside `$ref`"),
    }
}

fn is_exact(number: Number<'_>) -> bool {
    if number.as_i64().is_some() || number.as_u64().is_some() {
        return true;
    }
    let nearest = number.as_f64();
    nearest.abs() < NUMBER_LIMIT && Number::new(&format!("{nearest:e}")) == number
}
