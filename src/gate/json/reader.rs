//! Reads a text into an arena, in one pass and without recursion.
//!
//! Never changes a value: what cannot be kept exactly is refused. The same pass refuses duplicate
//! keys, counts depth and values, and notes whether the text already is its dispatch form.

use bytes::Bytes;

use super::arena::{Arena, Node, Tag, key_prefix};
use super::error::{Fault, JsonError};
use super::escape::{string_error, unescape};
use super::limits::{BYTES_HARD_MAX, DEPTH_HARD_MAX, JsonLimits};
use super::path::{self, Step};
use super::scan;

/// No node: the root has no parent, the first key no predecessor.
const NONE: u32 = u32::MAX;

/// Reads `text`. The flag tells whether it already is in dispatch form.
pub(super) fn read(text: &Bytes, limits: &JsonLimits) -> Result<(Arena, bool), Fault> {
    let bytes_max = limits.bytes_max.min(BYTES_HARD_MAX);
    if text.len() > bytes_max {
        return Err(Box::new(JsonError::TooLarge { bytes_max }));
    }
    let utf8 = str::from_utf8(text).map_err(|error| match error.error_len() {
        None => Box::new(JsonError::Truncated { offset: text.len() }),
        Some(_) => Box::new(JsonError::InvalidUnicode {
            offset: error.valid_up_to(),
        }),
    })?;
    let mut reader = Reader {
        text: utf8,
        bytes: utf8.as_bytes(),
        at: 0,
        open: Open::NOTHING,
        depth: 0,
        depth_max: limits.depth_max.min(DEPTH_HARD_MAX),
        values: 0,
        nodes_max: limits.nodes_max,
        canonical: true,
        arena: Arena {
            text: text.clone(),
            nodes: Vec::with_capacity(text.len() / 6 + 8),
            order: Vec::new(),
            unescaped: String::new(),
            spans: Vec::new(),
        },
    };
    reader.document()?;
    Ok((reader.arena, reader.canonical))
}

/// The innermost container that is not closed yet.
///
/// Outer ones wait in their own node: `a` is the parent, `b` and `c` are `count` and `last_key`.
#[derive(Clone, Copy)]
struct Open {
    index: u32,
    count: u32,
    last_key: u32,
    tag: Tag,
}

impl Open {
    const NOTHING: Open = Open {
        index: NONE,
        count: 0,
        last_key: NONE,
        tag: Tag::Null,
    };
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    open: Open,
    depth: u16,
    depth_max: u16,
    values: usize,
    nodes_max: usize,
    canonical: bool,
    arena: Arena,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        self.skip_blanks();
        loop {
            if self.begin_value()? {
                continue;
            }
            if self.end_values()? {
                break;
            }
        }
        self.skip_blanks();
        if self.at < self.bytes.len() {
            return Err(self.expected("unexpected text after the value"));
        }
        Ok(())
    }

    /// Reads a scalar or opens a container. True if the next thing is a value inside it.
    #[inline]
    fn begin_value(&mut self) -> Result<bool, Fault> {
        if self.values == self.nodes_max {
            return Err(Box::new(JsonError::TooManyNodes {
                nodes_max: self.nodes_max,
            }));
        }
        self.values += 1;
        self.open.count += 1;
        match self.bytes.get(self.at) {
            Some(b'"') => {
                let node = self.string()?;
                self.arena.nodes.push(node);
            }
            Some(b'{') => return self.open_container(Tag::Object),
            Some(b'[') => return self.open_container(Tag::Array),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true", Tag::True)?,
            Some(b'f') => self.literal(b"false", Tag::False)?,
            Some(b'n') => self.literal(b"null", Tag::Null)?,
            Some(b'N') => return Err(scan::literal_error(self.bytes, self.at, b"NaN", self.at)),
            Some(b'I') => {
                return Err(scan::literal_error(
                    self.bytes,
                    self.at,
                    b"Infinity",
                    self.at,
                ));
            }
            _ => return Err(self.expected("expected a value")),
        }
        Ok(false)
    }

    /// Goes on after a value: to the next one, or out of containers. True at the end of the root.
    #[inline]
    fn end_values(&mut self) -> Result<bool, Fault> {
        loop {
            if self.open.index == NONE {
                return Ok(true);
            }
            self.skip_blanks();
            let array = self.open.tag == Tag::Array;
            match self.bytes.get(self.at) {
                Some(b',') => {
                    self.at += 1;
                    self.skip_blanks();
                    if !array {
                        self.key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if !array => self.close_object()?,
                Some(b']') if array => self.close(),
                _ if array => return Err(self.expected("expected `,` or `]`")),
                _ => return Err(self.expected("expected `,` or `}`")),
            }
        }
    }

    fn open_container(&mut self, tag: Tag) -> Result<bool, Fault> {
        if self.depth == self.depth_max {
            return Err(Box::new(JsonError::TooDeep {
                depth_max: self.depth_max,
                offset: self.at,
            }));
        }
        self.depth += 1;
        let parent = self.open;
        if let Some(node) = self.arena.nodes.get_mut(parent.index as usize) {
            node.tag = parent.tag;
            node.b = parent.count;
            node.c = parent.last_key;
        }
        self.open = Open {
            index: self.arena.nodes.len() as u32,
            tag,
            ..Open::NOTHING
        };
        self.arena.nodes.push(Node {
            tag,
            a: parent.index,
            b: 0,
            c: NONE,
        });
        self.at += 1;
        self.skip_blanks();
        let empty = if tag == Tag::Array { b']' } else { b'}' };
        if self.bytes.get(self.at) == Some(&empty) {
            self.close();
            return Ok(false);
        }
        if tag == Tag::Object {
            self.key()?;
        }
        Ok(true)
    }

    /// Closes the innermost container at its bracket and goes back to its parent.
    #[inline]
    fn close(&mut self) {
        self.close_with(0);
    }

    fn close_object(&mut self) -> Result<(), Fault> {
        let mut order = 0;
        if self.open.tag == Tag::Shuffled {
            self.canonical = false;
            order = self.sort_keys()?;
        }
        self.close_with(order);
        Ok(())
    }

    #[inline]
    fn close_with(&mut self, order: u32) {
        self.at += 1;
        self.depth -= 1;
        let end = self.arena.nodes.len() as u32;
        let mut parent = NONE;
        if let Some(node) = self.arena.nodes.get_mut(self.open.index as usize) {
            parent = node.a;
            *node = Node {
                tag: self.open.tag,
                a: end,
                b: self.open.count,
                c: order,
            };
        }
        self.open = match self.arena.nodes.get(parent as usize) {
            Some(node) => Open {
                index: parent,
                count: node.b,
                last_key: node.c,
                tag: node.tag,
            },
            None => Open::NOTHING,
        };
    }

    /// Reads a key and its colon, and sees whether it comes after the one before.
    #[inline]
    fn key(&mut self) -> Result<(), Fault> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.expected("expected a key"));
        }
        let mut node = self.string()?;
        if node.tag == Tag::Plain {
            node.c = key_prefix(self.bytes, node.a as usize, node.b as usize);
        }
        let index = self.arena.nodes.len() as u32;
        self.arena.nodes.push(node);
        if self.open.last_key != NONE && self.open.tag == Tag::Object {
            let last = self.arena.node(self.open.last_key);
            if self.arena.compare_keys(last, node).is_ge() {
                self.open.tag = Tag::Shuffled;
            }
        }
        self.open.last_key = index;
        self.skip_blanks();
        if self.bytes.get(self.at) != Some(&b':') {
            return Err(self.expected("expected `:`"));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Result<Node, Fault> {
        let start = self.at + 1;
        let end = scan::plain_run(self.bytes, start);
        match self.bytes.get(end) {
            Some(b'"') => {
                self.at = end + 1;
                Ok(Node {
                    tag: Tag::Plain,
                    a: start as u32,
                    b: (end - start) as u32,
                    c: 0,
                })
            }
            Some(b'\\') => self.escaped_string(start, end),
            other => Err(string_error(end, other)),
        }
    }

    fn escaped_string(&mut self, start: usize, first: usize) -> Result<Node, Fault> {
        let arena = &mut self.arena;
        if arena.unescaped.capacity() == 0 {
            // The values of all strings together are never longer than the rest of the text; a
            // quarter of it is a guess that spares most texts a second allocation.
            arena.unescaped.reserve((self.bytes.len() - start) / 4 + 32);
        }
        let from = arena.unescaped.len();
        let escaped = unescape(self.text, start, first, &mut arena.unescaped)?;
        let length = arena.unescaped.len() - from;
        let span = arena.spans.len() as u32;
        arena.spans.push((from as u32, length as u32));
        self.at = escaped.end + 1;
        self.canonical &= escaped.canonical;
        let tag = if escaped.canonical {
            Tag::Canonical
        } else {
            Tag::Rewritten
        };
        Ok(Node {
            tag,
            a: start as u32,
            b: (escaped.end - start) as u32,
            c: span,
        })
    }

    #[inline]
    fn number(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at = scan::number(self.bytes, start)?;
        self.arena.nodes.push(Node {
            tag: Tag::Number,
            a: start as u32,
            b: (self.at - start) as u32,
            c: 0,
        });
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8], tag: Tag) -> Result<(), Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(scan::literal_error(self.bytes, self.at, word, self.at));
        }
        self.at += word.len();
        self.arena.nodes.push(Node {
            tag,
            a: 0,
            b: 0,
            c: 0,
        });
        Ok(())
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
            self.canonical = false;
        }
    }

    /// Sorts the keys of the object that is about to close, and refuses equal ones.
    ///
    /// Returns where the sorted keys start in `order`.
    fn sort_keys(&mut self) -> Result<u32, Fault> {
        let arena = &mut self.arena;
        let mut order = std::mem::take(&mut arena.order);
        let start = order.len();
        order.reserve(self.open.count as usize);
        let mut key = self.open.index + 1;
        for _ in 0..self.open.count {
            order.push(key);
            key = arena.after(key + 1);
        }
        let sorted = order.get_mut(start..).unwrap_or_default();
        let twin = sort(arena, sorted);
        arena.order = order;
        match twin {
            Some(key) => Err(self.duplicate(key)),
            None => Ok(start as u32),
        }
    }

    #[cold]
    fn duplicate(&self, key: u32) -> Fault {
        let name = self.arena.string(self.arena.node(key));
        let mut steps = vec![Step::Name(name)];
        let mut parent = self.arena.node(self.open.index).a;
        while parent != NONE {
            let node = self.arena.node(parent);
            steps.push(if node.tag == Tag::Array {
                Step::Index(node.b.saturating_sub(1) as usize)
            } else {
                Step::Name(self.arena.string(self.arena.node(node.c)))
            });
            parent = node.a;
        }
        Box::new(JsonError::DuplicateKey {
            key: path::shown(name),
            path: path::render(steps.into_iter().rev()),
        })
    }

    /// The error for a byte that cannot stand here, or for the end of the text.
    #[cold]
    fn expected(&self, reason: &'static str) -> Fault {
        let offset = self.at;
        if offset >= self.bytes.len() {
            Box::new(JsonError::Truncated { offset })
        } else {
            Box::new(JsonError::Invalid { offset, reason })
        }
    }
}

/// Sorts key nodes by their bytes. Returns a key that occurs twice, if one does.
fn sort(arena: &Arena, keys: &mut [u32]) -> Option<u32> {
    let compare =
        |left: &u32, right: &u32| arena.compare_keys(arena.node(*left), arena.node(*right));
    keys.sort_unstable_by(compare);
    keys.windows(2).find_map(|pair| match pair {
        [left, right] if compare(left, right).is_eq() => Some(*right),
        _ => None,
    })
}
