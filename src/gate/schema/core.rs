//! The core dialect: five keywords, seven types, anything else is refused.
//!
//! Never accepts a schema that says more than will be checked.

use crate::gate::json::path::{self, Step};
use crate::gate::json::{Kind, Value};

use super::error::SchemaError;
use super::options::{SchemaOptions, UnknownProperties};

/// A compiled schema of the core dialect.
#[derive(Debug)]
pub(super) struct CoreSchema {
    pub(super) root: Node,
    pub(super) unknown: UnknownProperties,
}

/// The seven types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoreType {
    String,
    Number,
    Integer,
    Boolean,
    Object,
    Array,
    Null,
}

/// One sub-schema.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: CoreType,
    /// What `properties` declares, then what only `required` names.
    pub(super) fields: Vec<Field>,
    /// Positions in `fields`, as `required` lists them.
    pub(super) required: Vec<usize>,
    pub(super) items: Option<Box<Node>>,
}

/// A property that the schema knows.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    /// None if only `required` names it.
    pub(super) schema: Option<Node>,
    pub(super) required: bool,
}

impl CoreType {
    fn named(name: &str) -> Option<CoreType> {
        Some(match name {
            "string" => CoreType::String,
            "number" => CoreType::Number,
            "integer" => CoreType::Integer,
            "boolean" => CoreType::Boolean,
            "object" => CoreType::Object,
            "array" => CoreType::Array,
            "null" => CoreType::Null,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            CoreType::String => "string",
            CoreType::Number => "number",
            CoreType::Integer => "integer",
            CoreType::Boolean => "boolean",
            CoreType::Object => "object",
            CoreType::Array => "array",
            CoreType::Null => "null",
        }
    }
}

/// Compiles a schema whose root may have any of the types.
pub(super) fn compile(
    document: &crate::gate::json::Document,
    options: &SchemaOptions,
) -> Result<CoreSchema, SchemaError> {
    let root = document.root();
    if root.kind() != Kind::Object {
        return Err(SchemaError::RootNotObject {
            path: String::from("$"),
        });
    }
    let mut compiler = Compiler {
        properties_max: options.properties_max,
        properties: 0,
        steps: Vec::new(),
    };
    Ok(CoreSchema {
        root: compiler.node(root)?,
        unknown: options.core_unknown,
    })
}

/// Refuses a root that describes anything but an object.
pub(super) fn root_is_object(schema: &CoreSchema) -> Result<(), SchemaError> {
    if schema.root.kind == CoreType::Object {
        return Ok(());
    }
    Err(SchemaError::RootNotObject {
        path: String::from("$.type"),
    })
}

struct Compiler<'a> {
    properties_max: usize,
    properties: usize,
    /// The way to the schema at hand. As deep as the text, which the reader bounds.
    steps: Vec<Step<'a>>,
}

impl<'a> Compiler<'a> {
    fn node(&mut self, schema: Value<'a>) -> Result<Node, SchemaError> {
        self.keywords(schema)?;
        let mut node = Node {
            kind: self.kind(schema)?,
            fields: Vec::new(),
            required: Vec::new(),
            items: None,
        };
        let required = self.required(schema)?;
        if let Some(properties) = schema.get("properties") {
            node.fields = self.within(Step::Name("properties"), |it| it.fields(properties))?;
        }
        for name in required {
            node.require(name);
        }
        if let Some(items) = schema.get("items") {
            let items = self.within(Step::Name("items"), |it| it.items(items))?;
            node.items = Some(Box::new(items));
        }
        Ok(node)
    }

    fn keywords(&self, schema: Value<'a>) -> Result<(), SchemaError> {
        for entry in schema.entries() {
            let keyword = entry.key();
            match keyword {
                "type" | "properties" | "required" | "items" => {}
                "description" if entry.value().kind() == Kind::String => {}
                "description" => {
                    return Err(SchemaError::Invalid {
                        path: self.path_to(keyword),
                        reason: String::from("must be string"),
                    });
                }
                _ => {
                    return Err(SchemaError::UnsupportedKeyword {
                        path: self.path_to(keyword),
                        keyword: path::shown(keyword),
                        reason: "the core dialect does not check it",
                    });
                }
            }
        }
        Ok(())
    }

    fn kind(&self, schema: Value<'a>) -> Result<CoreType, SchemaError> {
        let Some(kind) = schema.get("type") else {
            return Err(SchemaError::MissingType { path: self.path() });
        };
        kind.as_str()
            .and_then(CoreType::named)
            .ok_or_else(|| SchemaError::UnknownType {
                path: self.path_to("type"),
            })
    }

    fn required(&mut self, schema: Value<'a>) -> Result<Vec<&'a str>, SchemaError> {
        let Some(required) = schema.get("required") else {
            return Ok(Vec::new());
        };
        self.within(Step::Name("required"), |it| it.names(required))
    }

    fn names(&mut self, required: Value<'a>) -> Result<Vec<&'a str>, SchemaError> {
        if required.kind() != Kind::Array {
            return Err(SchemaError::InvalidRequired { path: self.path() });
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut names = Vec::with_capacity(required.len());
        for (position, item) in required.items().enumerate() {
            let name = item.as_str().filter(|name| seen.insert(*name));
            let Some(name) = name else {
                self.steps.push(Step::Index(position));
                return Err(SchemaError::InvalidRequired { path: self.path() });
            };
            names.push(name);
        }
        Ok(names)
    }

    fn fields(&mut self, properties: Value<'a>) -> Result<Vec<Field>, SchemaError> {
        if properties.kind() != Kind::Object {
            return Err(SchemaError::InvalidProperties { path: self.path() });
        }
        self.properties += properties.len();
        if self.properties > self.properties_max {
            return Err(SchemaError::TooLarge {
                what: "properties",
                max: self.properties_max,
            });
        }
        let mut fields = Vec::with_capacity(properties.len());
        for entry in properties.entries() {
            let schema = self.within(Step::Name(entry.key()), |it| it.field(entry.value()))?;
            fields.push(Field {
                name: entry.key().into(),
                schema: Some(schema),
                required: false,
            });
        }
        Ok(fields)
    }

    fn field(&mut self, schema: Value<'a>) -> Result<Node, SchemaError> {
        if schema.kind() != Kind::Object {
            return Err(SchemaError::InvalidProperties { path: self.path() });
        }
        self.node(schema)
    }

    fn items(&mut self, items: Value<'a>) -> Result<Node, SchemaError> {
        if items.kind() != Kind::Object {
            return Err(SchemaError::InvalidItems { path: self.path() });
        }
        self.node(items)
    }

    fn within<T>(
        &mut self,
        step: Step<'a>,
        work: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        self.steps.push(step);
        let done = work(self);
        self.steps.pop();
        done
    }

    fn path(&self) -> String {
        path::render(self.steps.iter().copied())
    }

    fn path_to(&self, keyword: &str) -> String {
        let mut path = self.path();
        path::push(&mut path, Step::Name(keyword));
        path
    }
}

impl Node {
    fn require(&mut self, name: &str) {
        let known = self.fields.iter().position(|field| *field.name == *name);
        let position = known.unwrap_or(self.fields.len());
        match self.fields.get_mut(position) {
            Some(field) => field.required = true,
            None => self.fields.push(Field {
                name: name.into(),
                schema: None,
                required: true,
            }),
        }
        self.required.push(position);
    }

    /// The field of that name. Looks at `hint` first: arguments mostly come in schema order.
    #[inline]
    pub(super) fn field(&self, name: &[u8], hint: usize) -> Option<(usize, &Field)> {
        let is = |field: &Field| field.name.as_bytes() == name;
        match self.fields.get(hint) {
            Some(field) if is(field) => Some((hint, field)),
            _ => self.fields.iter().enumerate().find(|(_, field)| is(field)),
        }
    }
}
