//! Finds the few rules worth trying among thousands.
//!
//! Rules are filed under the beginning that every match of theirs has, cut into pieces (words, names
//! of a path, labels of a host). A look-up asks for the beginnings of one text, so it costs as many
//! probes as the text has pieces, however many rules there are. Never decides whether a rule matches:
//! a hash that happens to be equal only costs a look.

use super::path_glob::folded;

/// Pieces of a beginning that are filed; what follows does not narrow the search further.
pub(super) const PIECES_MAX: usize = 12;

/// The beginnings of a floating path that are filed: they are asked for at every depth.
pub(super) const FLOATING_PIECES_MAX: usize = 3;

/// Counts what a decision costs: every probe, and every rule that is looked at.
#[derive(Debug, Default)]
pub(super) struct Cost(pub(super) u32);

impl Cost {
    pub(super) fn add(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.0 = self.0.saturating_add(count);
    }
}

/// A fixed hash: the same rules give the same index on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    pub(super) const EMPTY: Key = Key(0xcbf2_9ce4_8422_2325);

    pub(super) fn then(self, piece: &str) -> Key {
        piece.bytes().fold(self, Key::with).with(0xff)
    }

    pub(super) fn then_folded(self, piece: &str) -> Key {
        let mut buffer = [0; 4];
        folded(piece)
            .fold(self, |key, character| {
                character
                    .encode_utf8(&mut buffer)
                    .bytes()
                    .fold(key, Key::with)
            })
            .with(0xff)
    }

    fn with(self, byte: u8) -> Key {
        Key((self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn mixed(self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// Numbers filed under keys. Never changes once made.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// By bucket, then key, then number.
    entries: Vec<(Key, u32)>,
    /// Where each bucket begins, and the end of the last.
    starts: Vec<u32>,
}

impl Index {
    pub(super) fn new(mut entries: Vec<(Key, u32)>) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        let size = (entries.len() * 2).next_power_of_two();
        let bucket = |key: Key| key.mixed() as usize & (size - 1);
        entries.sort_unstable_by_key(|(key, number)| (bucket(*key), key.0, *number));
        entries.dedup();
        let mut starts = Vec::with_capacity(size + 1);
        let mut at = 0;
        for number in 0..=size {
            let rest = entries.get(at..).unwrap_or_default();
            at += rest
                .iter()
                .take_while(|(key, _)| bucket(*key) < number)
                .count();
            starts.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        Self { entries, starts }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The numbers under that key, ascending.
    pub(super) fn probe<'s>(
        &'s self,
        key: Key,
        cost: &mut Cost,
    ) -> impl Iterator<Item = u32> + use<'s> {
        cost.add(1);
        let bucket = self.bucket(key);
        cost.add(bucket.len());
        let same = bucket.iter().filter(move |(other, _)| *other == key);
        same.map(|(_, number)| *number)
    }

    fn bucket(&self, key: Key) -> &[(Key, u32)] {
        let Some(buckets) = self.starts.len().checked_sub(1) else {
            return &[];
        };
        let bucket = key.mixed() as usize & (buckets - 1);
        match self.starts.get(bucket..bucket + 2) {
            Some([from, to]) => self
                .entries
                .get(*from as usize..*to as usize)
                .unwrap_or_default(),
            Some(_) | None => &[],
        }
    }
}

/// Rules filed under their beginnings, and those that have none.
#[derive(Debug, Clone, Default)]
pub(super) struct Filed {
    index: Index,
    /// Tried every time.
    always: Vec<u32>,
}

/// What a [`Filed`] is made of.
#[derive(Debug, Default)]
pub(super) struct Filing {
    entries: Vec<(Key, u32)>,
    always: Vec<u32>,
}

impl Filing {
    /// Files a rule under at most `max` pieces of its beginning.
    pub(super) fn file(&mut self, pieces: impl Iterator<Item = Key>, max: usize, rule: u32) {
        match pieces.take(max).last() {
            Some(key) => self.entries.push((key, rule)),
            None if self.always.last() != Some(&rule) => self.always.push(rule),
            None => {}
        }
    }

    pub(super) fn finish(self) -> Filed {
        Filed {
            index: Index::new(self.entries),
            always: self.always,
        }
    }
}

impl Filed {
    /// Tells `found` every rule that may match a text with these beginnings.
    pub(super) fn candidates(
        &self,
        beginnings: impl Iterator<Item = Key>,
        cost: &mut Cost,
        found: &mut impl FnMut(u32, &mut Cost),
    ) {
        self.filed(beginnings, cost, found);
        for rule in &self.always {
            found(*rule, cost);
        }
    }

    /// The same without the rules that have no beginning.
    pub(super) fn filed(
        &self,
        beginnings: impl Iterator<Item = Key>,
        cost: &mut Cost,
        found: &mut impl FnMut(u32, &mut Cost),
    ) {
        if self.index.is_empty() {
            return;
        }
        for key in beginnings {
            for rule in self.index.probe(key, cost) {
                found(rule, cost);
            }
        }
    }
}

/// The keys of the beginnings of a text that is cut into pieces.
pub(super) fn beginnings<'a>(pieces: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Key> {
    pieces
        .scan(Key::EMPTY, |key, piece| {
            *key = key.then(piece);
            Some(*key)
        })
        .take(PIECES_MAX)
}

/// The same without case, at most `max` pieces.
pub(super) fn folded_beginnings<'a>(
    pieces: impl Iterator<Item = &'a str>,
    max: usize,
) -> impl Iterator<Item = Key> {
    pieces
        .scan(Key::EMPTY, |key, piece| {
            *key = key.then_folded(piece);
            Some(*key)
        })
        .take(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filed_is_found_under_its_key_only() {
        let key = |number: u32| Key::EMPTY.then(&number.to_string());
        let entries = (0..1000).map(|number| (key(number / 2), number)).collect();
        let index = Index::new(entries);
        for number in 0..500 {
            let found: Vec<u32> = index.probe(key(number), &mut Cost::default()).collect();
            assert_eq!(found, [number * 2, number * 2 + 1]);
        }
        assert_eq!(index.probe(key(1000), &mut Cost::default()).count(), 0);
        assert_eq!(
            Index::default().probe(key(1), &mut Cost::default()).count(),
            0
        );
    }

    #[test]
    fn pieces_are_not_run_together() {
        assert_ne!(
            Key::EMPTY.then("ab").then("c"),
            Key::EMPTY.then("a").then("bc")
        );
        assert_eq!(Key::EMPTY.then("ab"), Key::EMPTY.then_folded("AB"));
    }
}
