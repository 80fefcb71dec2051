//! The record of what retention dropped: how it is written, and how it is read back.
//!
//! It stands behind what it is about, in the same chain: whoever signs that chain says where it may begin.
//! Never decides what is dropped.

use bytes::Bytes;

use super::chain::Head;
use super::checkpoint::number;
use super::draft::Entry;
use super::filter::RECORD_LIMITS;
use super::object::parse_hex;
use crate::gate::json::Document;
use crate::gate::result::Digest;

/// The kind of the record.
pub const SEGMENT_DROPPED: &str = "audit.segment_dropped";

/// Appends the draft of the record that says that records `first` to `last` are gone.
pub fn segment_dropped(first: u64, last: &Head, out: &mut Vec<u8>) {
    Entry {
        detail: Some(&|object| {
            object.number("first", first);
            object.number("last", last.sequence);
            object.hex("last_hash", &last.hash.0);
        }),
        ..Entry::new(SEGMENT_DROPPED, "")
    }
    .push(out);
}

/// The last record that is gone, as a record of this kind says. None: it says something else.
pub fn dropped_in(record_json: &Bytes) -> Option<Head> {
    let document = Document::parse_object(record_json, &RECORD_LIMITS).ok()?;
    let root = document.root();
    if root.get("kind")?.as_str()? != SEGMENT_DROPPED {
        return None;
    }
    let detail = root.get("detail")?;
    Some(Head {
        sequence: number(detail, "last")?,
        hash: Digest(parse_hex(detail.get("last_hash")?.as_str()?)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::audit::drafts;
    use crate::gate::ids::UnixMillis;

    #[test]
    fn what_is_written_is_read_back_and_no_other_record_says_it() {
        let last = Head {
            sequence: 6,
            hash: Digest([7; 32]),
        };
        let mut bytes = Vec::new();
        segment_dropped(3, &last, &mut bytes);
        let mut json = Vec::new();
        for draft in drafts(&bytes) {
            Head::default().extend(&draft, UnixMillis(1), &mut json);
        }
        assert_eq!(dropped_in(&Bytes::from(json.clone())), Some(last));
        let text = String::from_utf8(json).unwrap();
        for other in [
            text.replace(SEGMENT_DROPPED, "audit.segment_kept"),
            text.replace("last_hash", "lost_hash"),
            text.replace("\"last\":6", "\"last\":\"6\""),
            "{}".to_owned(),
            String::new(),
        ] {
            assert_eq!(dropped_in(&Bytes::from(other.clone())), None, "{other}");
        }
    }
}
