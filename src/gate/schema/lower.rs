//! Turns a schema into the tree that the schema compiler reads.
//!
//! Never used for arguments: it rounds numbers, and the walk has made sure that a schema's do not
//! lose digits.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value as Tree};

use crate::gate::json::{Kind, Value};

/// Lowers a value and all that it contains.
pub(super) fn lower(value: Value<'_>) -> Tree {
    lower_with(value, &BTreeMap::new())
}

/// Lowers a value; a string whose node is in `rewritten` becomes that text.
pub(super) fn lower_with(value: Value<'_>, rewritten: &BTreeMap<u32, String>) -> Tree {
    match value.kind() {
        Kind::Null => Tree::Null,
        Kind::Boolean => Tree::Bool(value.as_bool().unwrap_or_default()),
        Kind::Number => value
            .as_number()
            .map_or(Tree::Null, |it| Tree::from(number(it))),
        Kind::String => {
            let text = rewritten.get(&value.identity().1).map(String::as_str);
            Tree::String(text.or(value.as_str()).unwrap_or_default().to_owned())
        }
        Kind::Array => Tree::Array(value.items().map(|it| lower_with(it, rewritten)).collect()),
        Kind::Object => {
            let entry = |it: crate::gate::json::Entry<'_>| {
                (it.key().to_owned(), lower_with(it.value(), rewritten))
            };
            Tree::Object(value.entries().map(entry).collect::<Map<_, _>>())
        }
    }
}

/// The closest number that the compiler knows.
pub(super) fn number(number: crate::gate::json::Number<'_>) -> Number {
    if let Some(unsigned) = number.as_u64() {
        return Number::from(unsigned);
    }
    if let Some(signed) = number.as_i64() {
        return Number::from(signed);
    }
    // The reader has refused what is not finite.
    Number::from_f64(number.as_f64()).unwrap_or_else(|| Number::from(0))
}
