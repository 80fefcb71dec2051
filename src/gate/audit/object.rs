//! Writes canonical JSON objects: members in the order of their names, no blanks, one escape form.
//!
//! Never buffers: whoever writes gives the members in order, which debug builds check.

use crate::gate::json::write_string;

/// An object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    last: &'static str,
}

impl<'o> Object<'o> {
    /// Writes an object to the end of `out`.
    pub(super) fn write(out: &'o mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        let mut object = Object { out, last: "" };
        members(&mut object);
        object.out.push(b'}');
    }

    /// Begins the member of that name; its value is appended to what this returns.
    pub(super) fn member(&mut self, name: &'static str) -> &mut Vec<u8> {
        debug_assert!(self.last < name, "`{name}` does not follow `{}`", self.last);
        if !self.last.is_empty() {
            self.out.push(b',');
        }
        self.last = name;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A text.
    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        write_string(value, self.member(name));
    }

    /// A text, unless it is empty.
    pub(super) fn text_if(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        write_number(value, self.member(name));
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, name: &'static str, value: bool) {
        let word: &[u8] = if value { b"true" } else { b"false" };
        self.member(name).extend_from_slice(word);
    }

    /// Bytes as lower-case hexadecimal text.
    pub(super) fn hex(&mut self, name: &'static str, value: &[u8]) {
        let out = self.member(name);
        out.push(b'"');
        write_hex(value, out);
        out.push(b'"');
    }

    /// An object.
    pub(super) fn object(&mut self, name: &'static str, members: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.member(name), members);
    }

    /// Texts, in their order; nothing if there are none.
    pub(super) fn texts_if<T: AsRef<str>>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        let out = self.member(name);
        for (number, value) in (0_usize..).zip(values) {
            out.push(if number == 0 { b'[' } else { b',' });
            write_string(value.as_ref(), out);
        }
        out.push(b']');
    }
}

/// Appends a whole number.
pub(super) fn write_number(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut rest = value;
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len() - count..).unwrap_or_default());
}

/// Appends bytes as lower-case hexadecimal digits.
pub(super) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |value: u8| match value {
        0..=9 => b'0' + value,
        _ => b'a' + value - 10,
    };
    for byte in bytes {
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
    }
}

/// Bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    write_hex(bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Reads hexadecimal text of exactly `N` bytes. None: it is no such text.
pub fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0_u8; N];
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_canonical() {
        let mut out = Vec::new();
        Object::write(&mut out, |object| {
            object.flag("a", true);
            object.hex("b", &[0, 0xaf]);
            object.number("c", u64::MAX);
            object.number("d", 0);
            object.text_if("e", "");
            object.texts_if("f", ["x", "\"\n"]);
            object.object("g", |_| {});
        });
        let expected =
            r#"{"a":true,"b":"00af","c":18446744073709551615,"d":0,"f":["x","\"\n"],"g":{}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn hexadecimal_text_is_read_back_and_nothing_else_is() {
        assert_eq!(parse_hex::<2>("00af"), Some([0, 0xaf]));
        for wrong in ["", "00a", "00aff", "00ag", "+0af", "äf"] {
            assert_eq!(parse_hex::<2>(wrong), None, "{wrong}");
        }
    }
}
