//! The head of a chain at one moment, as it is signed and as it is kept outside.
//!
//! Names what is signed and how it is written; signing and checking signatures need a key and are the
//! store's. Never trusts a key by itself.

use bytes::Bytes;

use super::chain::Head;
use super::object::{Object, hex, parse_hex};
use crate::gate::ids::UnixMillis;
use crate::gate::json::{Document, JsonLimits, Value};
use crate::gate::result::Digest;

/// What every signed text begins with.
const DOMAIN: &[u8] = b"callgate-checkpoint-1\0";

/// Longest line of a checkpoint, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;

/// One signed head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The head.
    pub head: Head,
    /// When it was signed.
    pub signed_at: UnixMillis,
    /// The signer's key.
    pub public_key: [u8; 32],
    /// Ed25519.
    pub signature: [u8; 64],
}

/// Why a text is no checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It is no JSON object of the right members.
    #[error("it is no checkpoint")]
    Shape,
    /// The key's name is another one's.
    #[error("its key id does not fit its key")]
    KeyId,
}

impl Checkpoint {
    /// The bytes that are signed.
    pub fn signed_text(head: &Head, signed_at: UnixMillis) -> Vec<u8> {
        let mut text = DOMAIN.to_vec();
        text.extend_from_slice(&head.sequence.to_be_bytes());
        text.extend_from_slice(&signed_at.0.to_be_bytes());
        text.extend_from_slice(&head.hash.0);
        text
    }

    /// What names a key: the first half of its digest.
    pub fn key_id_of(public_key: &[u8; 32]) -> String {
        let digest = Digest::of(public_key);
        let (half, _) = digest.0.split_at(16);
        format!("ed25519:{}", hex(half))
    }

    /// Names the signer's key.
    pub fn key_id(&self) -> String {
        Self::key_id_of(&self.public_key)
    }

    /// The checkpoint as one line of JSON, without its end of line.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        Object::write(&mut out, |object| {
            object.text("key_id", &self.key_id());
            object.hex("public_key", &self.public_key);
            object.hex("record_hash", &self.head.hash.0);
            object.number("sequence", self.head.sequence);
            object.hex("signature", &self.signature);
            object.number("signed_at_ms", self.signed_at.0);
        });
        out
    }

    /// Reads what [`to_json`](Self::to_json) wrote. Its signature is not checked.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn from_json(text: &[u8]) -> Result<Self, CheckpointError> {
        let limits = JsonLimits {
            bytes_max: LINE_BYTES_MAX,
            ..JsonLimits::default()
        };
        let document = Document::parse_object(&Bytes::copy_from_slice(text), &limits)
            .map_err(|_| CheckpointError::Shape)?;
        let found = Self::read(document.root()).ok_or(CheckpointError::Shape)?;
        let key_id = document.root().get("key_id").and_then(|id| id.as_str());
        match key_id == Some(found.key_id().as_str()) {
            true => Ok(found),
            false => Err(CheckpointError::KeyId),
        }
    }

    fn read(root: Value<'_>) -> Option<Self> {
        let text = |name| root.get(name)?.as_str();
        Some(Self {
            head: Head {
                sequence: number(root, "sequence")?,
                hash: Digest(parse_hex(text("record_hash")?)?),
            },
            signed_at: UnixMillis(number(root, "signed_at_ms")?),
            public_key: parse_hex(text("public_key")?)?,
            signature: parse_hex(text("signature")?)?,
        })
    }
}

/// A whole number of an object.
pub(super) fn number(root: Value<'_>, name: &str) -> Option<u64> {
    let value = root.get(name)?;
    value.as_number()?;
    str::from_utf8(&value.dispatch_form()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Checkpoint {
        Checkpoint {
            head: Head {
                sequence: 0x0102,
                hash: Digest([7; 32]),
            },
            signed_at: UnixMillis(3),
            public_key: [9; 32],
            signature: [8; 64],
        }
    }

    #[test]
    fn the_signed_text_never_changes() {
        let sample = sample();
        let mut expected = b"callgate-checkpoint-1\0".to_vec();
        expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        expected.extend_from_slice(&[7; 32]);
        assert_eq!(
            Checkpoint::signed_text(&sample.head, sample.signed_at),
            expected
        );
    }

    #[test]
    fn a_line_is_read_back_and_a_broken_one_is_refused() {
        let sample = sample();
        let line = String::from_utf8(sample.to_json()).unwrap();
        assert_eq!(Checkpoint::from_json(line.as_bytes()), Ok(sample));
        let other_key = line.replace(&"09".repeat(32), &"0a".repeat(32));
        let refused = Checkpoint::from_json(other_key.as_bytes());
        assert_eq!(refused, Err(CheckpointError::KeyId));
        for broken in [
            "",
            "{}",
            "[]",
            &line[..line.len() - 1],
            &line.replace("258", "-1"),
        ] {
            let refused = Checkpoint::from_json(broken.as_bytes());
            assert_eq!(refused, Err(CheckpointError::Shape), "{broken}");
        }
    }
}
