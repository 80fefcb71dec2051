//! A place in a document, and the ways to go on from it.
//!
//! Never copies: a value is two words, and what it returns borrows from the document.

use std::borrow::Cow;

use super::arena::Tag;
use super::document::Document;
use super::number::Number;
use super::writer::{self, Form};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// Any number, with or without a fraction.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One value of a document.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    pub(super) document: &'a Document,
    pub(super) index: u32,
}

impl<'a> Value<'a> {
    /// What the value is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.node().tag {
            Tag::Null => Kind::Null,
            Tag::False | Tag::True => Kind::Boolean,
            Tag::Number => Kind::Number,
            Tag::Plain | Tag::Canonical | Tag::Rewritten => Kind::String,
            Tag::Array => Kind::Array,
            Tag::Object | Tag::Shuffled => Kind::Object,
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        let tag = self.node().tag;
        matches!(tag, Tag::True | Tag::False).then_some(tag == Tag::True)
    }

    /// The string with its escapes resolved, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        let document = self.document;
        (self.kind() == Kind::String).then(|| document.arena.string(self.node()))
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<Number<'a>> {
        let node = self.node();
        if node.tag != Tag::Number {
            return None;
        }
        let token = self.document.arena.raw(node.a, node.b);
        Some(Number::new(str::from_utf8(token).unwrap_or_default()))
    }

    /// How many items or entries the value holds; zero for scalars.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.kind() {
            Kind::Array | Kind::Object => self.node().b as usize,
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => 0,
        }
    }

    /// Whether the value holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items of an array in the order of the text; nothing for other kinds.
    #[must_use]
    pub fn items(&self) -> Items<'a> {
        Items {
            document: self.document,
            next: self.index + 1,
            left: if self.kind() == Kind::Array {
                self.node().b
            } else {
                0
            },
        }
    }

    /// The entries of an object in the order of the text; nothing for other kinds.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            document: self.document,
            next: self.index + 1,
            left: if self.kind() == Kind::Object {
                self.node().b
            } else {
                0
            },
        }
    }

    /// The value of that property, if this is an object that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let node = self.node();
        if node.tag == Tag::Shuffled && node.b as usize > SCAN_MAX {
            return self.find_sorted(name);
        }
        self.entries()
            .find(|entry| entry.key_bytes() == name.as_bytes())
            .map(|entry| entry.value())
    }

    /// The value that an RFC 6901 pointer names; the empty pointer names this value.
    ///
    /// Nothing for a pointer that does not start with `/`, or whose `~` escapes are wrong.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<Value<'a>> {
        if pointer.is_empty() {
            return Some(*self);
        }
        let mut value = *self;
        for token in pointer.strip_prefix('/')?.split('/') {
            value = value.step(token)?;
        }
        Some(value)
    }

    /// How many values and keys this value holds, itself included.
    pub(crate) fn nodes(&self) -> usize {
        (self.document.arena.after(self.index) - self.index) as usize
    }

    /// What tells this value from all others alive: where its document is, and its number there.
    pub(crate) fn identity(&self) -> (usize, u32) {
        (std::ptr::from_ref(self.document).addr(), self.index)
    }

    /// The dispatch form of this value alone.
    #[must_use]
    pub fn dispatch_form(&self) -> Vec<u8> {
        writer::write_value(&self.document.arena, self.index, Form::Dispatch)
    }

    /// The signature form of this value alone.
    #[must_use]
    pub fn signature_form(&self) -> Vec<u8> {
        writer::write_value(&self.document.arena, self.index, Form::Signature)
    }

    fn step(&self, token: &str) -> Option<Value<'a>> {
        match self.kind() {
            Kind::Object => self.get(&pointer_name(token)?),
            Kind::Array => {
                let plain = token == "0" || !token.starts_with(['0', '+']);
                let position: usize = token.parse().ok().filter(|_| plain)?;
                self.items().nth(position)
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => None,
        }
    }

    /// Looks a name up in the sorted keys of a large object.
    fn find_sorted(&self, name: &str) -> Option<Value<'a>> {
        let arena = &self.document.arena;
        let node = self.node();
        let start = node.c as usize;
        let keys = arena.order.get(start..start + node.b as usize)?;
        let found = keys
            .binary_search_by(|key| arena.string_bytes(arena.node(*key)).cmp(name.as_bytes()))
            .ok()?;
        keys.get(found).map(|key| Value {
            document: self.document,
            index: key + 1,
        })
    }

    #[inline]
    fn node(&self) -> super::arena::Node {
        self.document.arena.node(self.index)
    }
}

/// Up to this many entries, looking through them is as fast as searching.
const SCAN_MAX: usize = 12;

/// The name that one token of an RFC 6901 pointer stands for.
pub(crate) fn pointer_name(token: &str) -> Option<Cow<'_, str>> {
    if !token.contains('~') {
        return Some(Cow::Borrowed(token));
    }
    let mut name = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(c) = rest.next() {
        name.push(match c {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(Cow::Owned(name))
}

/// Iterates over the items of an array.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    document: &'a Document,
    next: u32,
    left: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let value = Value {
            document: self.document,
            index: self.next,
        };
        self.next = self.document.arena.after(self.next);
        Some(value)
    }
}

/// One property of an object.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    document: &'a Document,
    key: u32,
}

impl<'a> Entry<'a> {
    /// The name with its escapes resolved.
    #[must_use]
    pub fn key(&self) -> &'a str {
        self.document
            .arena
            .string(self.document.arena.node(self.key))
    }

    /// The name as UTF-8; cheaper than [`Entry::key`] for comparing.
    #[must_use]
    #[inline]
    pub fn key_bytes(&self) -> &'a [u8] {
        let document = self.document;
        document.arena.string_bytes(document.arena.node(self.key))
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Value<'a> {
        Value {
            document: self.document,
            index: self.key + 1,
        }
    }
}

/// Iterates over the entries of an object.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    document: &'a Document,
    next: u32,
    left: u32,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let entry = Entry {
            document: self.document,
            key: self.next,
        };
        self.next = self.document.arena.after(self.next + 1);
        Some(entry)
    }
}
