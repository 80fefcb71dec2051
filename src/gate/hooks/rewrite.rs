//! Puts an argument in where the model left it out.
//!
//! Never touches a value that is there, and never reads a number as anything but its text.

use bytes::Bytes;

use crate::gate::json::{Document, Kind, Value, pointer_name};

/// The arguments with `value` at the pointer.
///
/// None: something stands there already, or nothing that could hold it does.
pub(super) fn with_default(arguments: &Document, pointer: &str, value: &[u8]) -> Option<Bytes> {
    if arguments.root().pointer(pointer).is_some() {
        return None;
    }
    let tokens: Vec<&str> = pointer.strip_prefix('/')?.split('/').collect();
    let mut out = Vec::with_capacity(arguments.text().len() + pointer.len() + value.len());
    write(arguments.root(), &tokens, value, &mut out)?;
    Some(Bytes::from(out))
}

fn write(holder: Value<'_>, tokens: &[&str], value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (token, rest) = tokens.split_first()?;
    if holder.kind() != Kind::Object {
        return None;
    }
    let name = pointer_name(token)?;
    let mut is_there = false;
    out.push(b'{');
    for entry in holder.entries() {
        write_key(entry.key(), out);
        match entry.key() == name {
            true => {
                is_there = true;
                write(entry.value(), rest, value, out)?;
            }
            false => out.extend_from_slice(&entry.value().dispatch_form()),
        }
        out.push(b',');
    }
    if !is_there {
        // Only the last step may be missing: what would hold it is not made up.
        if !rest.is_empty() {
            return None;
        }
        write_key(&name, out);
        out.extend_from_slice(value);
        out.push(b',');
    }
    out.pop();
    out.push(b'}');
    Some(())
}

fn write_key(name: &str, out: &mut Vec<u8>) {
    crate::gate::json::write_string(name, out);
    out.push(b':');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::json::JsonLimits;

    #[test]
    fn only_what_is_left_out_is_put_in() {
        let rewritten = |text: &'static str, pointer: &str| {
            let limits = JsonLimits::default();
            let document = Document::parse_object(&Bytes::from_static(text.as_bytes()), &limits);
            let document = document.unwrap();
            let text = with_default(&document, pointer, b"30000")?;
            let again = Document::parse_object(&text, &limits).unwrap();
            Some(String::from_utf8(again.dispatch_form().to_vec()).unwrap())
        };
        let cases = [
            ("{}", "/timeout", Some("{\"timeout\":30000}")),
            (
                "{\"command\":\"ls\"}",
                "/timeout",
                Some("{\"command\":\"ls\",\"timeout\":30000}"),
            ),
            ("{\"timeout\":1e0}", "/timeout", None),
            ("{\"timeout\":null}", "/timeout", None),
            (
                "{\"n\":9007199254740993,\"o\":{}}",
                "/o/t",
                Some("{\"n\":9007199254740993,\"o\":{\"t\":30000}}"),
            ),
            ("{}", "/o/t", None),
            ("{\"o\":[]}", "/o/0", None),
            ("{\"o\":1}", "/o/t", None),
            ("{}", "/a~1b", Some("{\"a/b\":30000}")),
            ("{}", "/a~2", None),
        ];
        for (text, pointer, expected) in cases {
            let found = rewritten(text, pointer);
            assert_eq!(found.as_deref(), expected, "{text} {pointer}");
        }
    }
}
