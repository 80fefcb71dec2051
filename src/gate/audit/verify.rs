//! Verifies a chain, record by record.
//!
//! Says which record is wrong first, and how. Never checks a signature: heads that are compared with
//! must have been checked before.

use std::collections::{BTreeMap, BTreeSet};

use super::chain::{GENESIS, Head, link};
use crate::gate::result::Digest;

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Its hash does not fit its text.
    Altered,
    /// It is missing, or out of order.
    Gap,
    /// Its previous hash is not the hash of the record before.
    Unlinked,
    /// The chain ends before a checkpoint.
    Truncated,
    /// A checkpoint has another hash for it, or a wrong signature.
    CheckpointMismatch,
}

impl Problem {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Problem::Altered => "altered",
            Problem::Gap => "gap",
            Problem::Unlinked => "unlinked",
            Problem::Truncated => "truncated",
            Problem::CheckpointMismatch => "checkpoint_mismatch",
        }
    }

    /// What that means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Problem::Altered => "its hash does not fit its text",
            Problem::Gap => "it is missing, or out of order",
            Problem::Unlinked => "its previous hash is not the hash of the record before",
            Problem::Truncated => "the chain ends before a checkpoint",
            Problem::CheckpointMismatch => {
                "a checkpoint has another hash for it, or a signature that does not hold"
            }
        }
    }
}

/// The first record that is wrong or missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record {sequence}: {}", problem.meaning())]
pub struct Broken {
    /// Its position.
    pub sequence: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// One record as it was found.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// As its text says.
    pub sequence: u64,
    /// Its text.
    pub record_json: &'a [u8],
    /// The hash of the record before as it is kept with this one. None: it is kept with that one only.
    pub previous: Option<Digest>,
    /// Its hash as it is kept.
    pub hash: Digest,
}

/// How a chain begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begin {
    /// With the first record, or with the one that a part was asked from.
    #[default]
    Plain,
    /// Behind what retention dropped, as a signed head says.
    Dropped,
    /// Behind what retention dropped, as a record says that nothing signed covers.
    Unsigned,
}

/// A verification that is going on.
#[derive(Debug, Clone, Default)]
pub struct Verifier {
    /// What must come next follows this. None: whatever comes first.
    head: Option<Head>,
    first: u64,
    /// What the first one follows.
    before: Head,
    /// The record that says that retention dropped everything up to `before`. None: none did yet.
    dropped_by: Option<u64>,
    /// The last record before `before` that one says to be dropped. Zero: none.
    dropped_to: u64,
    /// It may begin with any record. Else with the first one, or behind what retention dropped.
    anywhere: bool,
    /// It may end before the record that says what retention dropped.
    is_cut: bool,
    checked: u64,
    /// Heads that were signed.
    signed: BTreeMap<u64, Digest>,
    /// Records of which somebody signed a head who is not known here.
    heard: BTreeSet<u64>,
}

impl Verifier {
    /// A verification of what is kept, from its first record on.
    pub fn new() -> Self {
        Self::default()
    }

    /// What comes is a part and may begin with any record.
    pub fn begin_anywhere(&mut self) {
        self.anywhere = true;
    }

    /// What comes may end before the last record: where it begins, a signed head alone may say.
    pub fn end_anywhere(&mut self) {
        self.is_cut = true;
    }

    /// A verification of what must begin with record `first`.
    pub fn from(first: u64) -> Self {
        Self {
            first,
            anywhere: true,
            ..Self::default()
        }
    }

    /// A head that the chain must have. Its signature was checked.
    ///
    /// # Errors
    /// [`Broken`]: another head was signed for the same record.
    pub fn expect(&mut self, head: Head) -> Result<(), Broken> {
        let known = *self.signed.entry(head.sequence).or_insert(head.hash);
        match known == head.hash {
            true => Ok(()),
            false => Err(Broken {
                sequence: head.sequence,
                problem: Problem::CheckpointMismatch,
            }),
        }
    }

    /// A head was signed with a key that nobody here knows. It shows nothing, and refutes nothing.
    pub fn hear(&mut self, sequence: u64) {
        self.heard.insert(sequence);
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// [`Broken`]; nothing more can be said then.
    pub fn take(&mut self, known: &Known<'_>) -> Result<(), Broken> {
        let expected = match self.head {
            Some(head) => head.sequence + 1,
            None if self.first > 0 => self.first,
            None => known.sequence,
        };
        let broken = |problem| Broken {
            sequence: expected,
            problem,
        };
        if known.sequence != expected {
            return Err(broken(Problem::Gap));
        }
        let previous = match (self.head, known.previous) {
            (Some(head), _) => head.hash,
            (None, _) if expected == 1 => GENESIS,
            (None, Some(previous)) => previous,
            (None, None) => return Err(broken(Problem::Unlinked)),
        };
        if known.previous.is_some_and(|kept| kept != previous) {
            return Err(broken(Problem::Unlinked));
        }
        if link(&previous, known.record_json) != known.hash {
            return Err(broken(Problem::Altered));
        }
        if self.head.is_none() {
            self.begin(expected, &previous)?;
        }
        let head = Head {
            sequence: expected,
            hash: known.hash,
        };
        self.compare(&head)?;
        self.head = Some(head);
        self.checked += 1;
        Ok(())
    }

    fn begin(&mut self, first: u64, previous: &Digest) -> Result<(), Broken> {
        self.first = first;
        self.before = Head {
            sequence: first.saturating_sub(1),
            hash: *previous,
        };
        self.compare(&self.before)
    }

    /// The record that was taken last says that retention dropped everything up to `last`.
    pub fn dropped(&mut self, last: Head) {
        if last == self.before {
            self.dropped_by = self.dropped_by.or(self.head.map(|head| head.sequence));
        } else if last.sequence < self.before.sequence {
            self.dropped_to = self.dropped_to.max(last.sequence);
        }
    }

    /// How the chain begins, by what came so far.
    pub fn begins(&self) -> Begin {
        let is_signed = self.signed.contains_key(&self.before.sequence);
        match self.dropped_by {
            Some(by) if is_signed || self.signed.range(by..).next().is_some() => Begin::Dropped,
            Some(_) => Begin::Unsigned,
            None if is_signed && self.is_cut => Begin::Dropped,
            None if self.is_cut && self.heard.contains(&self.before.sequence) => Begin::Unsigned,
            None => Begin::Plain,
        }
    }

    fn compare(&self, head: &Head) -> Result<(), Broken> {
        let signed = self.signed.get(&head.sequence);
        match signed.is_none_or(|signed| *signed == head.hash) {
            true => Ok(()),
            false => Err(Broken {
                sequence: head.sequence,
                problem: Problem::CheckpointMismatch,
            }),
        }
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// [`Broken`]: a checkpoint says that there was more, or it begins behind records that nothing says to
    /// be dropped. A signed head alone does not: whoever has one could cut off everything before it.
    pub fn end(&self) -> Result<(), Broken> {
        let head = self.head().sequence;
        let signed = self.signed.last_key_value();
        if signed.is_some_and(|(signed, _)| *signed > head) {
            return Err(Broken {
                sequence: head + 1,
                problem: Problem::Truncated,
            });
        }
        match self.begins() {
            Begin::Plain if self.first > 1 && !self.anywhere => Err(Broken {
                sequence: self.dropped_to + 1,
                problem: Problem::Gap,
            }),
            Begin::Plain | Begin::Dropped | Begin::Unsigned => Ok(()),
        }
    }

    /// Where the chain began. Zero: nothing came.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The last good record.
    pub fn head(&self) -> Head {
        self.head.unwrap_or_default()
    }

    /// Records that were good.
    pub fn checked(&self) -> u64 {
        self.checked
    }
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]
mod tests {
    use super::*;

    /// Records 1 to `count` with the hash before each and its own.
    fn chain(count: u64) -> Vec<(u64, Vec<u8>, Digest, Digest)> {
        let mut previous = GENESIS;
        let records = (1..=count).map(|sequence| {
            let json = format!("{{\"sequence\":{sequence}}}").into_bytes();
            let hash = link(&previous, &json);
            let before = std::mem::replace(&mut previous, hash);
            (sequence, json, before, hash)
        });
        records.collect()
    }

    fn run(
        verifier: &mut Verifier,
        chain: &[(u64, Vec<u8>, Digest, Digest)],
    ) -> Result<(), Broken> {
        for (sequence, json, previous, hash) in chain {
            verifier.take(&Known {
                sequence: *sequence,
                record_json: json,
                previous: Some(*previous),
                hash: *hash,
            })?;
        }
        verifier.end()
    }

    fn found(chain: &[(u64, Vec<u8>, Digest, Digest)]) -> (u64, Problem) {
        let broken = run(&mut Verifier::new(), chain).unwrap_err();
        (broken.sequence, broken.problem)
    }

    #[test]
    fn a_whole_chain_is_good_from_any_record_on() {
        let chain = chain(5);
        for first in 0..4 {
            let mut verifier = Verifier::new();
            verifier.begin_anywhere();
            assert_eq!(run(&mut verifier, &chain[first..]), Ok(()));
            assert_eq!(verifier.first(), first as u64 + 1);
            assert_eq!(verifier.checked(), 5 - first as u64);
            assert_eq!(verifier.head().hash, chain[4].3);
        }
    }

    #[test]
    fn the_first_wrong_record_is_named() {
        let good = chain(5);
        let mut altered = good.clone();
        altered[2].1[1] = b'S';
        assert_eq!(found(&altered), (3, Problem::Altered));
        let mut rehashed = altered.clone();
        rehashed[2].3 = link(&rehashed[2].2, &rehashed[2].1);
        assert_eq!(found(&rehashed), (4, Problem::Unlinked));
        let mut deleted = good.clone();
        deleted.remove(2);
        assert_eq!(found(&deleted), (3, Problem::Gap));
        let mut swapped = good.clone();
        swapped.swap(1, 2);
        assert_eq!(found(&swapped), (2, Problem::Gap));
        let mut twice = good.clone();
        twice.insert(2, good[1].clone());
        assert_eq!(found(&twice), (3, Problem::Gap));
        let mut other_begin = good;
        other_begin[0].2 = Digest([1; 32]);
        assert_eq!(found(&other_begin), (1, Problem::Unlinked));
    }

    #[test]
    fn checkpoints_show_what_a_chain_alone_does_not() {
        let good = chain(5);
        let head = |at: usize| Head {
            sequence: good[at].0,
            hash: good[at].3,
        };
        let with = |heads: &[Head], chain: &[_]| {
            let mut verifier = Verifier::new();
            for head in heads {
                verifier.expect(*head)?;
            }
            run(&mut verifier, chain)
        };
        let broken = |sequence, problem| Err(Broken { sequence, problem });
        assert_eq!(with(&[head(1), head(4)], &good), Ok(()));
        let cut = &good[..3];
        assert_eq!(with(&[head(4)], cut), broken(4, Problem::Truncated));
        let none: &[(u64, Vec<u8>, Digest, Digest)] = &[];
        assert_eq!(with(&[head(4)], none), broken(1, Problem::Truncated));
        // Somebody wrote the whole chain anew.
        let other = Head {
            sequence: 3,
            hash: Digest([9; 32]),
        };
        let mismatch = broken(3, Problem::CheckpointMismatch);
        assert_eq!(with(&[other], &good), mismatch);
        assert_eq!(with(&[head(2), other], &good), mismatch);
        // Or from a dropped begin on.
        assert_eq!(with(&[other], &good[3..]), mismatch);
        // That something was signed does not say that it may begin there.
        assert_eq!(with(&[head(2)], &good[3..]), broken(1, Problem::Gap));
        assert_eq!(with(&[head(4)], &good[3..]), broken(1, Problem::Gap));
    }

    /// Takes records 4 and 5 of five; the last of them says that what was up to record `dropped` is gone.
    fn retained(
        dropped: usize,
        signed: &[usize],
        set: fn(&mut Verifier),
    ) -> (Begin, Result<(), Broken>) {
        let good = chain(5);
        let head = |at: usize| Head {
            sequence: good[at - 1].0,
            hash: good[at - 1].3,
        };
        let mut verifier = Verifier::new();
        set(&mut verifier);
        for at in signed {
            verifier.expect(head(*at)).unwrap();
        }
        let _ = run(&mut verifier, &good[3..]);
        if dropped > 0 {
            verifier.dropped(head(dropped));
        }
        (verifier.begins(), verifier.end())
    }

    #[test]
    fn a_chain_begins_behind_what_a_signed_record_says_to_be_dropped() {
        let missing_from = |sequence| {
            Err(Broken {
                sequence,
                problem: Problem::Gap,
            })
        };
        let whole: fn(&mut Verifier) = |_| {};
        assert_eq!(retained(3, &[5], whole), (Begin::Dropped, Ok(())));
        assert_eq!(retained(3, &[3], whole), (Begin::Dropped, Ok(())));
        assert_eq!(retained(3, &[], whole), (Begin::Unsigned, Ok(())));
        assert_eq!(retained(3, &[4], whole), (Begin::Unsigned, Ok(())));
        // Less was dropped than is missing.
        assert_eq!(retained(2, &[5], whole), (Begin::Plain, missing_from(3)));
        assert_eq!(retained(0, &[5], whole), (Begin::Plain, missing_from(1)));
        assert_eq!(retained(0, &[3, 5], whole), (Begin::Plain, missing_from(1)));
        // The record may stand behind the end that was asked for.
        let cut = Verifier::end_anywhere;
        assert_eq!(retained(0, &[3], cut), (Begin::Dropped, Ok(())));
        assert_eq!(retained(0, &[5], cut), (Begin::Plain, missing_from(1)));
        let heard: fn(&mut Verifier) = |verifier| {
            verifier.end_anywhere();
            verifier.hear(3);
        };
        assert_eq!(retained(0, &[5], heard), (Begin::Unsigned, Ok(())));
        let part = Verifier::begin_anywhere;
        assert_eq!(retained(0, &[], part), (Begin::Plain, Ok(())));
        assert_eq!(retained(3, &[5], part), (Begin::Dropped, Ok(())));
    }

    #[test]
    fn a_range_begins_where_it_must() {
        let good = chain(3);
        let refused = run(&mut Verifier::from(2), &good[2..]);
        let gap = Broken {
            sequence: 2,
            problem: Problem::Gap,
        };
        assert_eq!(refused, Err(gap));
    }
}
