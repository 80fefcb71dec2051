//! The key that signs checkpoints, and how signatures are checked.
//!
//! The key is a file of its own beside the store, made at the first start, readable by its owner only.
//! Never leaves the process in any other way.

use std::io::Write;
use std::path::Path;

use ring::rand::SecureRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::gate::audit::{Checkpoint, Head, hex, parse_hex};
use crate::gate::ids::UnixMillis;

/// Signs heads.
pub struct Signer {
    pair: Ed25519KeyPair,
    public_key: [u8; 32],
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key_id = Checkpoint::key_id_of(&self.public_key);
        out.debug_tuple("Signer").field(&key_id).finish()
    }
}

impl Signer {
    /// Reads the key, making it if it is not there.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds no key.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let seed = match std::fs::read_to_string(path) {
            Ok(text) => parse_hex::<32>(text.trim()).ok_or_else(|| {
                std::io::Error::other(format!("`{}` holds no key", path.display()))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path)?,
            Err(error) => return Err(error),
        };
        Self::of_seed(&seed).map_err(|()| std::io::Error::other("the key is refused"))
    }

    /// The public half of a key that is there. None: it is not.
    ///
    /// # Errors
    /// The file cannot be read, or holds no key.
    pub fn public_key_in(path: &Path) -> std::io::Result<Option<[u8; 32]>> {
        match path.try_exists()? {
            true => Ok(Some(Self::open(path)?.public_key())),
            false => Ok(None),
        }
    }

    fn of_seed(seed: &[u8; 32]) -> Result<Self, ()> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(drop)?;
        let public_key = pair.public_key().as_ref().try_into().map_err(drop)?;
        Ok(Self { pair, public_key })
    }

    /// The public half.
    pub fn public_key(&self) -> [u8; 32] {
        self.public_key
    }

    /// Signs a head.
    pub fn sign(&self, head: Head, signed_at: UnixMillis) -> Checkpoint {
        let signature = self.pair.sign(&Checkpoint::signed_text(&head, signed_at));
        let mut bytes = [0; 64];
        // Ed25519 signatures have just that length.
        for (to, from) in bytes.iter_mut().zip(signature.as_ref()) {
            *to = *from;
        }
        Checkpoint {
            head,
            signed_at,
            public_key: self.public_key,
            signature: bytes,
        }
    }
}

/// Whether the signature is that of the checkpoint's own key. Says nothing about whose key it is.
pub fn holds(checkpoint: &Checkpoint) -> bool {
    let text = Checkpoint::signed_text(&checkpoint.head, checkpoint.signed_at);
    UnparsedPublicKey::new(&ED25519, &checkpoint.public_key)
        .verify(&text, &checkpoint.signature)
        .is_ok()
}

fn make(path: &Path) -> std::io::Result<[u8; 32]> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut seed = [0; 32];
    ring::rand::SystemRandom::new()
        .fill(&mut seed)
        .map_err(|_| std::io::Error::other("the system gives no random bytes"))?;
    // Whole or not at all: half a key would stop every later start.
    let aside = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&aside)?;
    writeln!(file, "{}", hex(&seed))?;
    file.sync_all()?;
    std::fs::rename(&aside, path)?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::result::Digest;

    fn head() -> Head {
        Head {
            sequence: 3,
            hash: Digest([5; 32]),
        }
    }

    #[test]
    fn the_key_is_made_once_and_is_its_owners_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.key");
        let made = Signer::open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Signer::open(&path).unwrap();
        assert_eq!(made.public_key(), again.public_key());
        std::fs::write(&path, "half a key").unwrap();
        let refused = Signer::open(&path).unwrap_err().to_string();
        assert!(refused.contains("holds no key"), "{refused}");
    }

    #[test]
    fn a_signature_holds_for_what_was_signed_and_nothing_else() {
        let signer = Signer::of_seed(&[1; 32]).unwrap();
        let signed = signer.sign(head(), UnixMillis(7));
        assert!(holds(&signed));
        let mut forged = Vec::new();
        forged.push(Checkpoint {
            signed_at: UnixMillis(8),
            ..signed.clone()
        });
        let mut other = signed.clone();
        other.head.sequence = 4;
        forged.push(other);
        let mut other = signed.clone();
        other.head.hash = Digest([6; 32]);
        forged.push(other);
        let mut other = signed.clone();
        other.signature[63] ^= 1;
        forged.push(other);
        let mut other = signed;
        other.public_key = Signer::of_seed(&[2; 32]).unwrap().public_key();
        forged.push(other);
        for checkpoint in forged {
            assert!(!holds(&checkpoint), "{checkpoint:?}");
        }
    }
}
