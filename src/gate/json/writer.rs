//! Writes the two exact forms of a document.
//!
//! Never rounds and never re-reads: a token that already has its form is copied. Recursion is
//! bounded by the depth that the reader admits.

use super::arena::{Arena, Node, Tag};
use super::number::Number;

/// Short tokens are copied as one block of this many bytes and then cut: cheaper than a call.
const BLOCK: usize = 16;

/// What to do with numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As the model wrote them.
    Dispatch,
    /// By exact decimal value.
    Signature,
}

/// Writes the whole arena.
pub(super) fn write(arena: &Arena, form: Form) -> Vec<u8> {
    let writer = Writer {
        arena,
        text: &arena.text,
        form,
    };
    // No form of a token in dispatch form is longer than what was read.
    let mut out = Vec::with_capacity(arena.text.len() + BLOCK);
    writer.value(0, &mut out);
    out
}

/// Writes one value and all it contains.
pub(super) fn write_value(arena: &Arena, index: u32, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    let writer = Writer {
        arena,
        text: &arena.text,
        form,
    };
    writer.value(index, &mut out);
    out
}

struct Writer<'a> {
    arena: &'a Arena,
    text: &'a [u8],
    form: Form,
}

impl Writer<'_> {
    /// Writes the value at `index`; returns the index after it.
    fn value(&self, index: u32, out: &mut Vec<u8>) -> u32 {
        let node = self.arena.node(index);
        match node.tag {
            Tag::Null => out.extend_from_slice(b"null"),
            Tag::True => out.extend_from_slice(b"true"),
            Tag::False => out.extend_from_slice(b"false"),
            Tag::Number => self.number(node, out),
            Tag::Plain | Tag::Canonical | Tag::Rewritten => self.string(node, out),
            Tag::Array => {
                self.array(index, node, out);
                return node.a;
            }
            Tag::Object => {
                self.object(index, node, out);
                return node.a;
            }
            Tag::Shuffled => {
                self.shuffled(node, out);
                return node.a;
            }
        }
        index + 1
    }

    fn array(&self, index: u32, node: Node, out: &mut Vec<u8>) {
        out.push(b'[');
        let mut item = index + 1;
        for position in 0..node.b {
            if position > 0 {
                out.push(b',');
            }
            item = self.value(item, out);
        }
        out.push(b']');
    }

    fn object(&self, index: u32, node: Node, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut key = index + 1;
        for position in 0..node.b {
            if position > 0 {
                out.push(b',');
            }
            key = self.entry(key, out);
        }
        out.push(b'}');
    }

    fn shuffled(&self, node: Node, out: &mut Vec<u8>) {
        let start = node.c as usize;
        let keys = self
            .arena
            .order
            .get(start..start + node.b as usize)
            .unwrap_or_default();
        out.push(b'{');
        for (position, key) in keys.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            self.entry(*key, out);
        }
        out.push(b'}');
    }

    #[inline]
    fn entry(&self, key: u32, out: &mut Vec<u8>) -> u32 {
        self.string(self.arena.node(key), out);
        out.push(b':');
        self.value(key + 1, out)
    }

    #[inline]
    fn string(&self, node: Node, out: &mut Vec<u8>) {
        if node.tag == Tag::Rewritten {
            write_string(self.arena.string(node), out);
        } else {
            // With both quotes, as it stands in the text.
            copy(self.text, node.a as usize - 1, node.b as usize + 2, out);
        }
    }

    #[inline]
    fn number(&self, node: Node, out: &mut Vec<u8>) {
        match self.form {
            Form::Dispatch => copy(self.text, node.a as usize, node.b as usize, out),
            Form::Signature => {
                let token = self.arena.raw(node.a, node.b);
                Number::new(str::from_utf8(token).unwrap_or_default()).write_signature(out);
            }
        }
    }
}

#[inline]
fn copy(text: &[u8], start: usize, length: usize, out: &mut Vec<u8>) {
    if length <= BLOCK
        && let Some(block) = text
            .get(start..)
            .and_then(|rest| rest.first_chunk::<BLOCK>())
    {
        let end = out.len() + length;
        out.extend_from_slice(block);
        out.truncate(end);
        return;
    }
    out.extend_from_slice(text.get(start..start + length).unwrap_or_default());
}

/// Writes a string with the one escape form.
pub(crate) fn write_string(value: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = value.as_bytes();
    let mut run = 0;
    loop {
        let end = super::scan::plain_run(bytes, run);
        out.extend_from_slice(bytes.get(run..end).unwrap_or_default());
        match bytes.get(end) {
            Some(byte) => write_escape(*byte, out),
            None => break,
        }
        run = end + 1;
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x8 => b'b',
        0x9 => b't',
        0xA => b'n',
        0xC => b'f',
        0xD => b'r',
        control => {
            out.extend_from_slice(format!("\\u{control:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
