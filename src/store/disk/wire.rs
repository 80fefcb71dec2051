//! Writes the wire format of protocol buffers straight from borrowed values.
//!
//! The turn's two records are written for every turn, and building messages first would double their
//! price. Fields at their default are left out, as the format says. Never reads.

/// Bytes that hold the length of a nested message: four always, so that it can be set afterwards.
const LENGTH_BYTES: usize = 4;

/// A message that is being written.
pub(super) struct Wire<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Wire<'a> {
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// A number; zero is left out.
    #[inline]
    pub(super) fn uint(&mut self, tag: u32, value: u64) {
        if value != 0 {
            self.some_uint(tag, value);
        }
    }

    /// A number whose absence means something else than zero.
    #[inline]
    pub(super) fn opt_uint(&mut self, tag: u32, value: Option<u64>) {
        if let Some(value) = value {
            self.some_uint(tag, value);
        }
    }

    #[inline]
    pub(super) fn flag(&mut self, tag: u32, value: bool) {
        self.uint(tag, u64::from(value));
    }

    #[inline]
    pub(super) fn text(&mut self, tag: u32, value: &str) {
        self.bytes(tag, value.as_bytes());
    }

    #[inline]
    pub(super) fn opt_text(&mut self, tag: u32, value: Option<&str>) {
        self.opt_bytes(tag, value.map(str::as_bytes));
    }

    /// Each text, the empty ones too.
    #[inline]
    pub(super) fn texts(&mut self, tag: u32, values: &[String]) {
        for value in values {
            self.opt_text(tag, Some(value));
        }
    }

    /// Bytes; none are left out.
    #[inline]
    pub(super) fn bytes(&mut self, tag: u32, value: &[u8]) {
        if !value.is_empty() {
            self.opt_bytes(tag, Some(value));
        }
    }

    #[inline]
    pub(super) fn opt_bytes(&mut self, tag: u32, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.key(tag, 2);
            varint(self.out, value.len() as u64);
            self.out.extend_from_slice(value);
        }
    }

    /// A nested message.
    #[inline]
    pub(super) fn message(&mut self, tag: u32, write: impl FnOnce(&mut Wire<'_>)) {
        self.key(tag, 2);
        let length_at = self.out.len();
        self.out.extend_from_slice(&[0; LENGTH_BYTES]);
        write(self);
        let start = length_at + LENGTH_BYTES;
        let length = self.out.len() - start;
        if let Some(place) = self.out.get_mut(length_at..start) {
            place.copy_from_slice(&wide_varint(length));
        }
    }

    #[inline]
    fn some_uint(&mut self, tag: u32, value: u64) {
        self.key(tag, 0);
        varint(self.out, value);
    }

    #[inline]
    fn key(&mut self, tag: u32, wire_type: u32) {
        varint(self.out, u64::from(tag << 3 | wire_type));
    }
}

/// A number in as few bytes as it needs.
#[inline]
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A length below 2^28 in four bytes. Longer ones are refused before they come here.
fn wide_varint(value: usize) -> [u8; LENGTH_BYTES] {
    let byte = |shift: usize| (value >> shift & 0x7f) as u8;
    [byte(0) | 0x80, byte(7) | 0x80, byte(14) | 0x80, byte(21)]
}
