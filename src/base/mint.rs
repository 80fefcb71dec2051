//! Mints ids and secrets.
//!
//! Ids are cheap and unique over restarts; secrets cannot be guessed. Never
//! reads an id.

use std::sync::atomic::{AtomicU64, Ordering};

/// Mints ids of one process.
#[derive(Debug)]
pub struct Mint {
    boot: String,
    next: AtomicU64,
}

impl Mint {
    /// A mint whose ids no other process makes.
    pub fn new() -> Self {
        // The random half of a UUID: 62 bits that no other process shares.
        let boot = uuid::Uuid::new_v4().simple().to_string().split_off(16);
        Self {
            boot,
            next: AtomicU64::new(1),
        }
    }

    /// Names this process.
    pub fn process_id(&self) -> &str {
        &self.boot
    }

    /// A new id.
    pub fn id(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number:x}", self.boot)
    }

    /// Text that nobody can guess.
    pub fn secret() -> String {
        let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        format!("{}{}", a.simple(), b.simple())
    }
}

impl Default for Mint {
    fn default() -> Self {
        Self::new()
    }
}
