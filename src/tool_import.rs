//! Rewrites parameter schemas of other catalogues into JSON Schema.
//!
//! Never used by the gate: what is registered is what the registry was given.

use serde_json::{Map, Value};

/// Rewrites a function's `parameters` as catalogues of function calls write them.
///
/// Type names of other languages become those of JSON Schema, everywhere in the schema:
///
/// | written | becomes |
/// |---|---|
/// | `dict`, `HashMap`, `Hashtable`, `Map` | `object` |
/// | `float`, `double`, `Float`, `Double` | `number` |
/// | `int`, `long`, `short`, `byte`, `Integer`, `Long` | `integer` |
/// | `str`, `String`, `char`, `Char` | `string` |
/// | `bool`, `Boolean` | `boolean` |
/// | `list`, `tuple`, `set`, `Array`, `ArrayList`, `List`, `Set`, `Queue`, `Stack` | `array` |
/// | `any`, `Any` | no `type` at all |
///
/// A property of the name `type` is data and stays. Everything else stays too: a keyword that a
/// dialect does not know is for that dialect to refuse.
#[must_use]
pub fn normalise_parameters(parameters: &Value) -> Value {
    match parameters.as_object() {
        Some(schema) => Value::Object(normalise_schema(schema)),
        None => parameters.clone(),
    }
}

fn normalise_schema(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("type", Value::String(name)) => {
                if let Some(name) = type_name(name) {
                    out.insert(keyword.clone(), Value::from(name));
                }
            }
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                let schemas = schemas
                    .iter()
                    .map(|(name, schema)| (name.clone(), normalise_parameters(schema)))
                    .collect();
                out.insert(keyword.clone(), Value::Object(schemas));
            }
            ("items" | "additionalProperties", schema) => {
                out.insert(keyword.clone(), normalise_parameters(schema));
            }
            _ => {
                out.insert(keyword.clone(), value.clone());
            }
        }
    }
    out
}

/// The JSON Schema name of a type; none for a type that admits everything.
fn type_name(name: &str) -> Option<&str> {
    Some(match name {
        "dict" | "HashMap" | "Hashtable" | "Map" => "object",
        "float" | "double" | "Float" | "Double" => "number",
        "int" | "long" | "short" | "byte" | "Integer" | "Long" => "integer",
        "str" | "String" | "char" | "Char" => "string",
        "bool" | "Boolean" => "boolean",
        "list" | "tuple" | "set" | "Array" | "ArrayList" | "List" | "Set" | "Queue" | "Stack" => {
            "array"
        }
        "any" | "Any" => return None,
        other => other,
    })
}
