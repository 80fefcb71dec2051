//! Writes arguments with the values at a tool's secret pointers replaced by one fixed marker.
//!
//! What is masked, if anything is: the whole value that a pointer names, whatever its kind. A pointer
//! to a place that is not there masks nothing. Never shows how long a secret is.

use bytes::Bytes;

use crate::gate::json::{Document, JsonLimits, Kind, Value, write_string};

/// Stands where a secret stood.
pub const MASK: &str = "[secret]";

/// What is masked was admitted before; the depth bounds the stack for what was not.
const UNBOUNDED: JsonLimits = JsonLimits {
    bytes_max: usize::MAX,
    depth_max: 100,
    nodes_max: usize::MAX,
};

/// Appends arguments as canonical JSON without secrets; what is no JSON object becomes a text.
pub(super) fn write_arguments(text: &Bytes, secrets: &[String], out: &mut Vec<u8>) {
    match Document::parse_object(text, &UNBOUNDED) {
        Ok(document) => write_canonical(&document.dispatch_form(), secrets, out),
        // Where its secrets are, nobody can say.
        Err(_) if !secrets.is_empty() => write_string(MASK, out),
        Err(_) => write_string(&String::from_utf8_lossy(text), out),
    }
}

/// The same for arguments that are in dispatch form.
pub(super) fn write_canonical(text: &Bytes, secrets: &[String], out: &mut Vec<u8>) {
    if secrets.is_empty() {
        out.extend_from_slice(text);
        return;
    }
    let Ok(document) = Document::parse_object(text, &UNBOUNDED) else {
        write_string(MASK, out);
        return;
    };
    let root = document.root();
    let masked: Vec<_> = secrets
        .iter()
        .filter_map(|pointer| root.pointer(pointer))
        .map(|value| value.identity())
        .collect();
    write_value(root, &masked, out);
}

/// The text is canonical, so that entries stand in order. Its depth was bounded when it was admitted.
fn write_value(value: Value<'_>, masked: &[(usize, u32)], out: &mut Vec<u8>) {
    if masked.contains(&value.identity()) {
        write_string(MASK, out);
        return;
    }
    match value.kind() {
        Kind::Object => {
            out.push(b'{');
            for (number, entry) in (0_usize..).zip(value.entries()) {
                if number > 0 {
                    out.push(b',');
                }
                write_string(entry.key(), out);
                out.push(b':');
                write_value(entry.value(), masked, out);
            }
            out.push(b'}');
        }
        Kind::Array => {
            out.push(b'[');
            for (number, item) in (0_usize..).zip(value.items()) {
                if number > 0 {
                    out.push(b',');
                }
                write_value(item, masked, out);
            }
            out.push(b']');
        }
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => {
            out.extend_from_slice(&value.dispatch_form());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, secrets: &[&str]) -> String {
        let secrets: Vec<String> = secrets.iter().map(|one| (*one).to_owned()).collect();
        let mut out = Vec::new();
        write_arguments(&Bytes::from(text.to_owned()), &secrets, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_at_secret_pointers_are_masked_whole() {
        let text = r#"{ "b": {"token": "s3cret", "n": 1.0}, "a": [ {"x": 1}, "y" ], "~/": 7 }"#;
        let secrets = ["/b/token", "/a/0", "/~0~1"];
        let expected = r#"{"a":["[secret]","y"],"b":{"n":1.0,"token":"[secret]"},"~/":"[secret]"}"#;
        assert_eq!(written(text, &secrets), expected);
    }

    #[test]
    fn pointers_to_missing_places_mask_nothing() {
        let text = r#"{"a":[1],"b":"text"}"#;
        let missing = [
            "/c", "/a/1", "/a/-", "/a/x", "/b/0", "/b/c", "/", "a", "/~2",
        ];
        assert_eq!(written(text, &missing), text);
        assert_eq!(written(text, &[]), text);
    }

    #[test]
    fn the_empty_pointer_masks_everything() {
        assert_eq!(written(r#"{"a":1}"#, &[""]), r#""[secret]""#);
    }

    #[test]
    fn what_is_no_json_shows_nothing_of_a_tool_with_secrets() {
        assert_eq!(
            written(r#"{"token":"s3cret""#, &["/token"]),
            r#""[secret]""#
        );
        assert_eq!(written(r#"{"a""#, &[]), r#""{\"a\"""#);
    }
}
