//! A record as a line of an export: everything that verifying it elsewhere needs.
//!
//! A line is exactly what was written or it is refused: reading it and writing it again must give the
//! same bytes. Never verifies: that is `verify`.

use bytes::Bytes;

use super::checkpoint::number;
use super::object::{parse_hex, write_hex, write_number};
use crate::gate::json::{Document, JsonLimits};
use crate::gate::result::Digest;

/// One record with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its position.
    pub sequence: u64,
    /// As it was hashed.
    pub record_json: Bytes,
    /// The hash of the record before.
    pub previous: Digest,
    /// Its hash.
    pub hash: Digest,
}

/// A text is no line of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no line of an export")]
pub struct LineError;

impl Line {
    /// Appends the line with its end.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"sequence\":");
        write_number(self.sequence, out);
        out.extend_from_slice(b",\"record\":");
        out.extend_from_slice(&self.record_json);
        out.extend_from_slice(b",\"previous_hash\":\"");
        write_hex(&self.previous.0, out);
        out.extend_from_slice(b"\",\"hash\":\"");
        write_hex(&self.hash.0, out);
        out.extend_from_slice(b"\"}\n");
    }

    /// Reads a line without its end.
    ///
    /// # Errors
    /// [`LineError`]: it is not just what [`write`](Self::write) writes.
    pub fn read(text: &Bytes) -> Result<Self, LineError> {
        let limits = JsonLimits {
            bytes_max: usize::MAX,
            depth_max: 120,
            nodes_max: usize::MAX,
        };
        let document = Document::parse_object(text, &limits).map_err(|_| LineError)?;
        let root = document.root();
        let digest = |name| {
            let text = root.get(name)?.as_str()?;
            Some(Digest(parse_hex(text)?))
        };
        let read = || {
            Some(Self {
                sequence: number(root, "sequence")?,
                record_json: Bytes::from(root.get("record")?.dispatch_form()),
                previous: digest("previous_hash")?,
                hash: digest("hash")?,
            })
        };
        let line = read().ok_or(LineError)?;
        let mut again = Vec::with_capacity(text.len() + 1);
        line.write(&mut again);
        match again.strip_suffix(b"\n") == Some(text.as_ref()) {
            true => Ok(line),
            false => Err(LineError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_one_of_another_form_is_refused() {
        let line = Line {
            sequence: 12,
            record_json: Bytes::from_static(br#"{"a":[1.0,"x"],"b":{}}"#),
            previous: Digest([1; 32]),
            hash: Digest([2; 32]),
        };
        let mut out = Vec::new();
        line.write(&mut out);
        let text = String::from_utf8(out).unwrap();
        let text = text.trim_end().to_owned();
        assert_eq!(Line::read(&Bytes::from(text.clone())), Ok(line));
        let others = [
            text.replace(",\"record\"", ", \"record\""),
            text.replace("[1.0,", "[1.0, "),
            text.replace(r#""a":[1.0,"x"],"b":{}"#, r#""b":{},"a":[1.0,"x"]"#),
            text.replace("02", "0g"),
            text.replace(r#""x""#, r#""\u0078""#),
            format!("{text} "),
            String::new(),
        ];
        for other in others {
            assert_eq!(
                Line::read(&Bytes::from(other.clone())),
                Err(LineError),
                "{other}"
            );
        }
    }
}
