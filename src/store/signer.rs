//! The key that signs checkpoints, and how signatures are checked.
//!
//! The key is a file of its own beside the store, made at the first start, readable by its owner only.
//! Never leaves the process in any other way.

use std::io::{Read, Write};
use std::path::Path;

use ring::rand::SecureRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::gate::audit::{Checkpoint, Head, hex, parse_hex};
use crate::gate::ids::UnixMillis;

/// Signs heads.
pub struct Signer {
    pair: Ed25519KeyPair,
    public_key: [u8; 32],
    is_new: bool,
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
    /// The file cannot be read or written, holds no key, or others than its owner may read or change it.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        match read(path, check_mode)? {
            Some(signer) => Ok(signer),
            None => Ok(Self {
                is_new: true,
                ..Self::of_seed(&make(path)?)?
            }),
        }
    }

    /// The public half of a key that is there. None: it is not. Who else may read the file does not matter:
    /// nothing is signed.
    ///
    /// # Errors
    /// The file cannot be read, or holds no key.
    pub fn public_key_in(path: &Path) -> std::io::Result<Option<[u8; 32]>> {
        Ok(read(path, |_, _| Ok(()))?.map(|signer| signer.public_key))
    }

    /// Whether [`open`](Self::open) made the key.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    fn of_seed(seed: &[u8; 32]) -> std::io::Result<Self> {
        let refused = |_| std::io::Error::other("the key is refused");
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(refused)?;
        let public_key = pair.public_key().as_ref().try_into();
        Ok(Self {
            public_key: public_key.map_err(|_| std::io::Error::other("the key is refused"))?,
            pair,
            is_new: false,
        })
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

/// The key that is there, if the file passes. None: there is no file.
fn read(
    path: &Path,
    check: impl FnOnce(&Path, u32) -> std::io::Result<()>,
) -> std::io::Result<Option<Signer>> {
    use std::os::unix::fs::PermissionsExt;
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    check(path, file.metadata()?.permissions().mode())?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let seed = parse_hex::<32>(text.trim())
        .ok_or_else(|| std::io::Error::other(format!("`{}` holds no key", path.display())))?;
    Signer::of_seed(&seed).map(Some)
}

/// Whoever else can read the key can sign, and whoever can change it decides who signs.
fn check_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(std::io::Error::other(format!(
            "`{path}` has mode {mode:04o}, so others than its owner may read or change it; \
             `chmod 600 {path}` mends that",
            path = path.display(),
            mode = mode & 0o7777
        ))),
    }
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
    fn a_key_that_others_may_read_is_refused_and_says_how_to_mend_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.key");
        let made = Signer::open(&path).unwrap();
        assert!(made.is_new());
        for mode in [0o600, 0o400, 0o700] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(!Signer::open(&path).unwrap().is_new(), "{mode:o}");
        }
        for mode in [0o640, 0o644, 0o604, 0o620, 0o601] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let refused = Signer::open(&path).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("has mode {mode:04o}")),
                "{refused}"
            );
            assert!(refused.contains("`chmod 600 "), "{refused}");
            // Who verifies needs its public half only.
            let public_key = Signer::public_key_in(&path).unwrap();
            assert_eq!(public_key, Some(made.public_key()));
        }
        let missing = dir.path().join("missing.key");
        assert_eq!(Signer::public_key_in(&missing).unwrap(), None);
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
