//! Arguments with the values at a tool's secret pointers replaced by one fixed marker, and back.
//!
//! What is masked, if anything is: the whole value that a pointer names, whatever its kind. A pointer
//! to a place that is not there masks nothing. Never shows how long a secret is.

use bytes::Bytes;

use super::json::{Document, JsonLimits, Kind, Value, write_string};

/// Stands where a secret stood.
pub const MASK: &str = "[secret]";

/// What is masked was admitted before; the depth bounds the stack for what was not.
const UNBOUNDED: JsonLimits = JsonLimits {
    bytes_max: usize::MAX,
    depth_max: 100,
    nodes_max: usize::MAX,
};

/// Arguments for people: as they are if the tool has no secrets, else in dispatch form and masked.
pub fn masked(text: &Bytes, secrets: &[String]) -> Bytes {
    if secrets.is_empty() || text.is_empty() {
        return text.clone();
    }
    let mut out = Vec::with_capacity(text.len());
    write_arguments(text, secrets, &mut out);
    Bytes::from(out)
}

/// Arguments that somebody wrote over masked ones, in dispatch form: each marker that still stands at
/// a secret pointer gives way to the value that it hid in `original`.
pub fn unmasked(written: &Document, original: &Bytes, secrets: &[String]) -> Bytes {
    let text = written.dispatch_form();
    let read = |text: &Bytes| Document::parse_object(text, &UNBOUNDED).ok();
    let (Some(written), Some(original)) = (read(&text), read(original)) else {
        return text;
    };
    let hidden = secrets.iter().filter_map(|pointer| {
        let marker = written.root().pointer(pointer)?;
        let value = original.root().pointer(pointer)?;
        (marker.as_str() == Some(MASK)).then(|| (marker.identity(), value.dispatch_form()))
    });
    let hidden: Vec<_> = hidden.collect();
    if hidden.is_empty() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    write_value(written.root(), &hidden, &mut out);
    Bytes::from(out)
}

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
    let mut marker = Vec::new();
    write_string(MASK, &mut marker);
    let root = document.root();
    let hidden: Vec<_> = secrets
        .iter()
        .filter_map(|pointer| root.pointer(pointer))
        .map(|value| (value.identity(), marker.clone()))
        .collect();
    write_value(root, &hidden, out);
}

/// The text is canonical, so that entries stand in order. Its depth was bounded when it was admitted.
fn write_value(value: Value<'_>, instead: &[((usize, u32), Vec<u8>)], out: &mut Vec<u8>) {
    let mut replaced = instead.iter();
    if let Some((_, text)) = replaced.find(|(place, _)| *place == value.identity()) {
        out.extend_from_slice(text);
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
                write_value(entry.value(), instead, out);
            }
            out.push(b'}');
        }
        Kind::Array => {
            out.push(b'[');
            for (number, item) in (0_usize..).zip(value.items()) {
                if number > 0 {
                    out.push(b',');
                }
                write_value(item, instead, out);
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

    #[test]
    fn a_marker_that_still_stands_gives_way_to_what_it_hid() {
        let original = Bytes::from_static(br#"{"a":[1.0,{"k":"x"}],"n":9007199254740993,"t":"s"}"#);
        let secrets = ["/t", "/a/1", "/n", "/none"].map(str::to_owned);
        let back = |written: &'static str| {
            let written = Bytes::from_static(written.as_bytes());
            let written = Document::parse_object(&written, &UNBOUNDED).unwrap();
            let back = unmasked(&written, &original, &secrets);
            String::from_utf8(back.into()).unwrap()
        };
        assert_eq!(
            back(r#"{"t":"[secret]", "n":"[secret]", "a":[2,"[secret]"], "none":"[secret]"}"#),
            r#"{"a":[2,{"k":"x"}],"n":9007199254740993,"none":"[secret]","t":"s"}"#
        );
        // What was written anew holds, and so does what was left out.
        assert_eq!(
            back(r#"{"t":"new","a":["[secret]"]}"#),
            r#"{"a":["[secret]"],"t":"new"}"#
        );
        let masked = masked(&original, &secrets);
        let written = Document::parse_object(&masked, &UNBOUNDED).unwrap();
        assert_eq!(unmasked(&written, &original, &secrets), original);
    }
}
