//! The flat tree behind a document: nodes in the order of the text, and where their text is.
//!
//! Never interprets a number and never decides what is valid: the reader has done that.

use std::cmp::Ordering;

use bytes::Bytes;

/// What a node is. The numbers have no meaning outside this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    False,
    True,
    Number,
    /// A string without escapes: its text is its value.
    Plain,
    /// A string with escapes that are all in dispatch form: its raw text can be copied.
    Canonical,
    /// A string whose escapes must be written anew.
    Rewritten,
    Array,
    /// An object whose keys arrived in order.
    Object,
    /// An object that has its order in `Arena::order`.
    Shuffled,
}

/// One value or key; 16 bytes, so that a node is one store.
///
/// | tag | `a` | `b` | `c` |
/// |---|---|---|---|
/// | number | start in the text | length | |
/// | string | start in the text, after the quote | length between the quotes | escaped: index in `spans`; key without escapes: its prefix |
/// | array, object | index of the node after its last descendant | number of items or entries | shuffled: start in `order` |
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) tag: Tag,
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) c: u32,
}

/// Stands in where an index cannot miss; keeps every access free of panics.
pub(super) const NOTHING: Node = Node {
    tag: Tag::Null,
    a: 0,
    b: 0,
    c: 0,
};

/// All nodes of one text. An object's entries are key, value, key, value.
#[derive(Debug, Clone)]
pub(super) struct Arena {
    pub(super) text: Bytes,
    pub(super) nodes: Vec<Node>,
    /// Key nodes of shuffled objects, sorted by key, one run per object.
    pub(super) order: Vec<u32>,
    /// Values of all escaped strings, one after the other.
    pub(super) unescaped: String,
    /// Where each of them is in `unescaped`: start, length.
    pub(super) spans: Vec<(u32, u32)>,
}

impl Arena {
    pub(super) fn node(&self, index: u32) -> Node {
        self.nodes.get(index as usize).copied().unwrap_or(NOTHING)
    }

    /// The index of the node that follows `index` and all that it contains.
    #[inline]
    pub(super) fn after(&self, index: u32) -> u32 {
        let node = self.node(index);
        match node.tag {
            Tag::Array | Tag::Object | Tag::Shuffled => node.a,
            Tag::Null
            | Tag::False
            | Tag::True
            | Tag::Number
            | Tag::Plain
            | Tag::Canonical
            | Tag::Rewritten => index + 1,
        }
    }

    /// The bytes of the text from `start`, `length` long.
    #[inline]
    pub(super) fn raw(&self, start: u32, length: u32) -> &[u8] {
        let start = start as usize;
        self.text
            .get(start..start + length as usize)
            .unwrap_or_default()
    }

    /// The value of a string or key node as UTF-8.
    #[inline]
    pub(super) fn string_bytes(&self, node: Node) -> &[u8] {
        if node.tag == Tag::Plain {
            self.raw(node.a, node.b)
        } else {
            self.unescaped_at(node.c).as_bytes()
        }
    }

    /// Orders two key nodes by their bytes. Most keys differ in their prefix already.
    #[inline]
    pub(super) fn compare_keys(&self, left: Node, right: Node) -> Ordering {
        if left.tag == Tag::Plain && right.tag == Tag::Plain && left.c != right.c {
            return left.c.cmp(&right.c);
        }
        self.string_bytes(left).cmp(self.string_bytes(right))
    }

    /// The value of a string or key node.
    pub(super) fn string(&self, node: Node) -> &str {
        if node.tag == Tag::Plain {
            // The reader has checked the whole text, so this never falls back.
            str::from_utf8(self.raw(node.a, node.b)).unwrap_or_default()
        } else {
            self.unescaped_at(node.c)
        }
    }

    fn unescaped_at(&self, index: u32) -> &str {
        let (start, length) = self.spans.get(index as usize).copied().unwrap_or_default();
        let start = start as usize;
        self.unescaped
            .get(start..start + length as usize)
            .unwrap_or_default()
    }
}

/// The first four bytes of a key as a number that sorts like them; shorter keys end in zeros.
#[inline]
pub(super) fn key_prefix(text: &[u8], start: usize, length: usize) -> u32 {
    let word = match text.get(start..).and_then(|rest| rest.first_chunk::<4>()) {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => 0,
    };
    if length >= 4 {
        return word;
    }
    word & !(u32::MAX >> (8 * length))
}
