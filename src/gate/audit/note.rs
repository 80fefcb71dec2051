//! Facts that nothing but the audit keeps.
//!
//! Never about what a turn goes on from after a restart.

use crate::gate::ids::{ExecutionId, OwnerName};
use crate::gate::result::Digest;

/// Longest text of a note that a peer chose, in bytes; the rest is cut.
pub const TEXT_BYTES_MAX: usize = 256;

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An executor answered a call whose result stands already.
    LateResult(Box<LateResult>),
    /// A request without a valid credential or without the role for its method.
    Refused(Box<Refused>),
    /// Other rules hold.
    PolicyChanged(Box<PolicyChange>),
}

/// An answer that came too late. It changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateResult {
    /// What the executor was told to run: the batch's id, a dot, and the call's position.
    pub execution: ExecutionId,
    /// Which attempt it answers.
    pub attempt: u32,
    /// The executor's name.
    pub executor: OwnerName,
    /// Digest of the answer. None: it holds no result.
    pub answer: Option<Digest>,
}

/// A refused request; floods are counted, not written one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Who asked, as far as its credential says. Empty: nobody known.
    pub principal: String,
    /// Which way it came: `local`, `control`, `tcp`.
    pub door: &'static str,
    /// Address or user of the peer, as far as the door knows it.
    pub peer: String,
    /// What was asked for, cut.
    pub method: String,
    /// `unauthenticated` or `role_missing`.
    pub reason: &'static str,
    /// Further refusals since the last record of them that were not written.
    pub unwritten: u64,
}

/// Which rules hold now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// Counts the policies of this process.
    pub revision: u64,
    /// How many rules hold.
    pub rules: u64,
    /// Digest of their texts and places, in order.
    pub digest: Digest,
}

/// Text of a peer, cut on a character boundary.
pub fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_peer_is_cut_on_a_character() {
        let at_limit = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(cut(&at_limit), at_limit);
        assert_eq!(cut(&format!("{at_limit}x")), at_limit);
        let split = format!("{}ä", "x".repeat(TEXT_BYTES_MAX - 1));
        assert_eq!(cut(&split).len(), TEXT_BYTES_MAX - 1);
    }
}
