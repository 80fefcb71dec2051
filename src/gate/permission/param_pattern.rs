//! `param:/pointer=value`: one scalar argument by its value.
//!
//! Numbers are equal by their exact value, everything else by its text. Never looks into arrays and
//! objects, and never guesses a pointer.

use bytes::Bytes;

use super::error::RuleError;
use crate::gate::json::{Document, JsonLimits, Kind, Value, pointer_name};

/// One argument and the value that it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParamPattern {
    pub(super) pointer: String,
    value: String,
}

impl ParamPattern {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        let refused = || RuleError::ParamInvalid {
            text: text.to_owned(),
        };
        let (pointer, value) = text.split_once('=').ok_or_else(refused)?;
        let names = pointer.strip_prefix('/').ok_or_else(refused)?;
        if names.split('/').any(|name| pointer_name(name).is_none()) {
            return Err(refused());
        }
        Ok(Self {
            pointer: pointer.to_owned(),
            value: value.to_owned(),
        })
    }

    /// The value in the form in which equal ones are the same text.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys = vec![self.value.clone()];
        keys.extend(number_key(&self.value));
        keys.dedup();
        keys
    }

    pub(super) fn matches(&self, arguments: Value<'_>) -> bool {
        let found = arguments.pointer(&self.pointer).and_then(scalar_key);
        found.is_some_and(|found| self.keys().contains(&found))
    }
}

/// The text by which a scalar is compared; nothing for arrays and objects.
pub(super) fn scalar_key(value: Value<'_>) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    if value.as_number().is_some() {
        return Some(numeric(&value));
    }
    let text = match (value.as_bool(), value.kind()) {
        (Some(true), _) => "true",
        (Some(false), _) => "false",
        (None, Kind::Null) => "null",
        (None, Kind::Boolean | Kind::Number | Kind::String | Kind::Array | Kind::Object) => {
            return None;
        }
    };
    Some(text.to_owned())
}

/// The key of text that writes a number.
fn number_key(text: &str) -> Option<String> {
    let document = Document::parse(&Bytes::from(text.to_owned()), &JsonLimits::default()).ok()?;
    document.root().as_number()?;
    Some(numeric(&document.root()))
}

/// Marked, so that no string has the key of a number.
fn numeric(value: &Value<'_>) -> String {
    format!("\0{}", String::from_utf8_lossy(&value.signature_form()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, arguments: &str) -> bool {
        let text = Bytes::from(arguments.to_owned());
        let arguments = Document::parse(&text, &JsonLimits::default()).unwrap();
        ParamPattern::parse(pattern)
            .unwrap()
            .matches(arguments.root())
    }

    #[test]
    fn scalars_are_compared_by_their_value() {
        let cases = [
            ("/a=x", r#"{"a":"x"}"#, true),
            ("/a=x", r#"{"a":"\u0078"}"#, true),
            ("/a=x", r#"{"a":["x"]}"#, false),
            ("/a=x", r#"{"b":"x"}"#, false),
            ("/a/b=x=y", r#"{"a":{"b":"x=y"}}"#, true),
            ("/a=1", r#"{"a":1.0}"#, true),
            ("/a=9007199254740993", r#"{"a":9007199254740992}"#, false),
            ("/a=1.0", r#"{"a":"1"}"#, false),
            ("/a=true", r#"{"a":true}"#, true),
            ("/a=null", r#"{"a":null}"#, true),
            ("/a=", r#"{"a":""}"#, true),
            ("/a~1b=x", r#"{"a/b":"x"}"#, true),
        ];
        for (pattern, arguments, expected) in cases {
            assert_eq!(
                matches(pattern, arguments),
                expected,
                "`{pattern}` on {arguments}"
            );
        }
    }

    #[test]
    fn what_is_no_pointer_and_value_is_refused() {
        for text in ["", "a=b", "/a", "=x", "/a~2=x"] {
            let error = ParamPattern::parse(text).unwrap_err();
            assert_eq!(error.code(), "rule_param_invalid", "`{text}`");
        }
    }
}
