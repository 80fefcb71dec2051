//! What each keyword of JSON Schema means to us: the one table behind the honesty rule.
//!
//! Never guesses: a keyword that is not in the table is refused.

/// The drafts that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draft {
    Draft07,
    Draft202012,
}

/// How a keyword is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Says something to people, checks nothing, and promises nothing. Its value is not looked at.
    Annotation,
    /// Checked by the validator; its value holds no schema.
    Assertion,
    /// One schema, for parts of the value.
    Schema,
    /// One schema, for the value itself.
    SchemaInPlace,
    /// A list of schemas, for parts of the value.
    Schemas,
    /// A list of schemas, for the value itself.
    SchemasInPlace,
    /// Schemas by name, for parts of the value.
    Map,
    /// Schemas by name, for the value itself.
    MapInPlace,
    /// Schemas by name that apply only where they are referred to.
    Definitions,
    /// Draft-07 `items`: a schema or a list of them.
    SchemaOrSchemas,
    /// Draft-07 `dependencies`: by name, a schema for the value itself or a list of names.
    MapOrNames,
    /// `format`: asserted where the validator knows the value.
    Format,
    /// `$ref`.
    Reference,
    /// `$dynamicRef`.
    DynamicReference,
    /// `$anchor` and `$dynamicAnchor`.
    Anchor,
    /// `$id`.
    Id,
    /// `$schema`.
    Dialect,
    /// Not accepted, for that reason.
    Refused(&'static str),
}

impl Draft {
    /// The draft that a `$schema` names.
    pub(super) fn named(uri: &str) -> Option<Draft> {
        match uri.strip_suffix('#').unwrap_or(uri) {
            "https://json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
            "http://json-schema.org/draft-07/schema"
            | "https://json-schema.org/draft-07/schema" => Some(Draft::Draft07),
            _ => None,
        }
    }

    /// How this draft treats a keyword.
    pub(super) fn shape(self, keyword: &str) -> Shape {
        if let Some(shape) = shared(keyword) {
            return shape;
        }
        match self {
            Draft::Draft07 => draft_07(keyword),
            Draft::Draft202012 => draft_2020_12(keyword),
        }
    }
}

const UNKNOWN: Shape = Shape::Refused("the draft does not know it");
const CONTENT: Shape = Shape::Refused("content is not decoded, so it would not be checked");
const NOT_IN_DRAFT: Shape = Shape::Refused("this draft ignores it");

/// Keywords that both drafts treat alike.
fn shared(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        // Words for people and hints for tools. `default` is never filled in, and no schema
        // author expects the value to be checked against `examples`.
        "title" | "description" | "default" | "examples" | "$comment" => Shape::Annotation,
        // Whether a value may be sent is the tool's to say; draft-07 lacks `deprecated`, but the
        // word promises no check there either.
        "readOnly" | "writeOnly" | "deprecated" => Shape::Annotation,
        "type" | "enum" | "const" | "required" => Shape::Assertion,
        "multipleOf" | "maximum" | "exclusiveMaximum" | "minimum" | "exclusiveMinimum" => {
            Shape::Assertion
        }
        "maxLength" | "minLength" | "pattern" => Shape::Assertion,
        "maxItems" | "minItems" | "uniqueItems" => Shape::Assertion,
        "maxProperties" | "minProperties" => Shape::Assertion,
        "allOf" | "anyOf" | "oneOf" => Shape::SchemasInPlace,
        // `if`, `then` and `else` have a further rule: see `walk`.
        "not" | "if" | "then" | "else" => Shape::SchemaInPlace,
        "properties" | "patternProperties" => Shape::Map,
        "additionalProperties" | "propertyNames" | "contains" => Shape::Schema,
        // Both names are in use under both drafts; they hold targets of references, no more.
        "$defs" | "definitions" => Shape::Definitions,
        "format" => Shape::Format,
        "$ref" => Shape::Reference,
        "$id" => Shape::Id,
        "$schema" => Shape::Dialect,
        // Draft 2020-12 makes them annotations; a draft-07 validator knows two of their values.
        "contentEncoding" | "contentMediaType" | "contentSchema" => CONTENT,
        _ => return None,
    })
}

fn draft_2020_12(keyword: &str) -> Shape {
    match keyword {
        "prefixItems" => Shape::Schemas,
        "items" | "unevaluatedItems" | "unevaluatedProperties" => Shape::Schema,
        // `minContains` and `maxContains` have a further rule: see `walk`.
        "minContains" | "maxContains" | "dependentRequired" => Shape::Assertion,
        "dependentSchemas" => Shape::MapInPlace,
        "$anchor" | "$dynamicAnchor" => Shape::Anchor,
        "$dynamicRef" => Shape::DynamicReference,
        "dependencies" | "additionalItems" | "$recursiveRef" | "$recursiveAnchor" => NOT_IN_DRAFT,
        "$vocabulary" => Shape::Refused("it belongs to meta-schemas"),
        _ => UNKNOWN,
    }
}

fn draft_07(keyword: &str) -> Shape {
    match keyword {
        "items" => Shape::SchemaOrSchemas,
        // `additionalItems` has a further rule: see `walk`.
        "additionalItems" => Shape::Schema,
        "dependencies" => Shape::MapOrNames,
        "prefixItems"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "minContains"
        | "maxContains"
        | "dependentRequired"
        | "dependentSchemas"
        | "$anchor"
        | "$dynamicAnchor"
        | "$dynamicRef"
        | "$recursiveRef"
        | "$recursiveAnchor" => NOT_IN_DRAFT,
        "$vocabulary" => Shape::Refused("it belongs to meta-schemas"),
        _ => UNKNOWN,
    }
}
