//! Patterns of commands in which flags stand in no order.
//!
//! For deny and ask rules: `git reset --hard *` is about every `git reset` that has `--hard`, wherever
//! it stands and whatever other flags there are. Never lets a call run.

use super::index::{Key, beginnings};
use super::wild::{Piece, Pieces, Wild};
use super::words::Atom;
use crate::gate::command::{Operand, Unordered, is_flag};

/// How many words of a beginning are filed. Behind them a word may be the value of a flag.
pub(super) const FILED_WORDS: usize = 2;

/// Most flags of a pattern that are tried with and without the next word as their value.
const VALUED_MAX: usize = 6;

/// One pattern, its flags taken out.
#[derive(Debug, Clone)]
pub(super) struct UnorderedPattern {
    /// A word behind a flag may be its value or not: both are tried.
    readings: Vec<Reading>,
}

/// One way to read a pattern.
#[derive(Debug, Clone, Default)]
struct Reading {
    /// All of which a command must have.
    flags: Vec<WantedFlag>,
    /// What its other words must be.
    operands: Vec<Element>,
    /// The words that every match begins with.
    beginning: Vec<String>,
}

#[derive(Debug, Clone)]
enum WantedFlag {
    /// This one, or all letters of this group.
    Exactly(String),
    /// This one with that value.
    Valued(String, String),
    /// One that fits, or all letters that stand before the gap.
    Like { wild: Wild, letters: String },
}

#[derive(Debug, Clone)]
enum Element {
    /// One word.
    Word(Wild),
    /// Any words, also none.
    Gap,
}

impl UnorderedPattern {
    /// A pattern of these atoms, without its ending. None: flags make no difference to it.
    ///
    /// `is_open`: any words may follow. `last_is_script`: the last word may go on behind a colon.
    pub(super) fn new(atoms: &[Atom], is_open: bool, last_is_script: bool) -> Option<Self> {
        let words: Vec<&[Atom]> = atoms.split(|atom| *atom == Atom::Blank).collect();
        if words.len() < 2 {
            return None;
        }
        let is_plain_flag = |word: &[Atom]| begins_as_flag(word) && !word.contains(&Atom::Star);
        let pairs = words.windows(2).enumerate().skip(1);
        let pairs = pairs.filter(|(_, pair)| match pair {
            [flag, value] => {
                is_plain_flag(flag) && !flag.contains(&Atom::Char('=')) && is_fixed(value)
            }
            _ => false,
        });
        let valued: Vec<usize> = pairs.map(|(at, _)| at).take(VALUED_MAX).collect();
        let readings = (0..1_usize << valued.len()).map(|choice| {
            let chosen = valued.iter().enumerate();
            let chosen = chosen.filter(|(bit, _)| choice & (1 << bit) != 0);
            let chosen: Vec<usize> = chosen.map(|(_, at)| *at).collect();
            Reading::of(&words, &chosen, is_open, last_is_script)
        });
        Some(Self {
            readings: readings.collect(),
        })
    }

    /// By reading: the beginnings that every match has.
    pub(super) fn beginnings(&self) -> impl Iterator<Item = impl Iterator<Item = Key>> {
        let readings = self.readings.iter();
        readings.map(|reading| beginnings(reading.beginning.iter().map(String::as_str)))
    }

    /// The keys under which patterns are filed that may match the command.
    pub(super) fn keys_of(command: &Unordered) -> Vec<Key> {
        let Some((program, rest)) = command.operands.split_first() else {
            return Vec::new();
        };
        let program = Key::EMPTY.then(&program.text);
        // The first word that is no value ends what may be the second of the pattern.
        let certain = rest.iter().position(|word| !word.is_optional);
        let second = rest.get(..=certain.unwrap_or(rest.len())).unwrap_or(rest);
        let second = second.iter().map(|word| program.then(&word.text));
        std::iter::once(program).chain(second).collect()
    }

    /// Whether it is about the command.
    pub(super) fn matches(&self, command: &Unordered) -> bool {
        let mut readings = self.readings.iter();
        readings.any(|reading| reading.matches(command))
    }
}

impl Reading {
    /// `valued`: the flags whose next word is their value.
    fn of(words: &[&[Atom]], valued: &[usize], is_open: bool, last_is_script: bool) -> Self {
        let mut reading = Self::default();
        let last = words.len().saturating_sub(1);
        for (at, word) in words.iter().enumerate() {
            let is_value = at.checked_sub(1).is_some_and(|flag| valued.contains(&flag));
            match words.get(at + 1).filter(|_| valued.contains(&at)) {
                _ if is_value => {}
                Some(value) => {
                    let wanted = WantedFlag::Valued(text_of(word), text_of(value));
                    reading.flags.push(wanted);
                }
                None if at > 0 && begins_as_flag(word) => reading.flag(word),
                None => reading.operand(word, last_is_script && at == last),
            }
        }
        if is_open {
            reading.operands.push(Element::Gap);
        }
        reading
    }

    fn matches(&self, command: &Unordered) -> bool {
        self.flags.iter().all(|flag| flag.is_of(command)) && self.fits(&command.operands)
    }

    /// Follows all possibilities at once: at most elements times words looks.
    fn fits(&self, words: &[Operand]) -> bool {
        let mut reached = vec![false; self.operands.len() + 1];
        if let Some(start) = reached.first_mut() {
            *start = true;
        }
        self.skip_gaps(&mut reached);
        for word in words {
            let mut next = match word.is_optional {
                true => reached.clone(),
                false => vec![false; reached.len()],
            };
            let open = self.operands.iter().enumerate().zip(&reached);
            for ((at, element), _) in open.filter(|(_, is_reached)| **is_reached) {
                let to = match element {
                    Element::Gap => at,
                    Element::Word(wild) if wild.matches(&word.text) => at + 1,
                    Element::Word(_) => continue,
                };
                if let Some(place) = next.get_mut(to) {
                    *place = true;
                }
            }
            self.skip_gaps(&mut next);
            reached = next;
        }
        reached.last() == Some(&true)
    }

    /// A gap may stand for nothing.
    fn skip_gaps(&self, reached: &mut [bool]) {
        for (at, element) in self.operands.iter().enumerate() {
            let skips = matches!(element, Element::Gap) && reached.get(at) == Some(&true);
            if let (true, Some(next)) = (skips, reached.get_mut(at + 1)) {
                *next = true;
            }
        }
    }

    fn flag(&mut self, word: &[Atom]) {
        if !word.contains(&Atom::Star) {
            self.flags.push(WantedFlag::Exactly(text_of(word)));
            return;
        }
        let begins = word.split(|atom| *atom == Atom::Star);
        let begins = begins.map(text_of).find(|text| !text.is_empty());
        self.flags.push(WantedFlag::Like {
            wild: wild_of(word),
            letters: begins.filter(|text| is_flag(text)).unwrap_or_default(),
        });
        // The gap may hold whole words.
        self.operands.push(Element::Gap);
    }

    fn operand(&mut self, word: &[Atom], is_script: bool) {
        let is_gap = |atom: Option<&Atom>| atom == Some(&Atom::Star);
        if is_gap(word.first()) {
            self.operands.push(Element::Gap);
        }
        if !word.iter().all(|atom| *atom == Atom::Star) {
            let is_plain = !word.contains(&Atom::Star) && !is_script;
            if is_plain && self.beginning.len() == self.operands.len() {
                self.beginning.push(text_of(word));
            }
            let mut wild = wild_of(word);
            if is_script {
                wild = Wild::new(vec![Piece::Text(text_of(word).into()), Piece::Rest(&[':'])]);
            }
            self.operands.push(Element::Word(wild));
        }
        if is_gap(word.last()) && word.len() > 1 {
            self.operands.push(Element::Gap);
        }
    }
}

impl WantedFlag {
    fn is_of(&self, command: &Unordered) -> bool {
        match self {
            WantedFlag::Exactly(flag) => command.has_flag(flag),
            WantedFlag::Valued(flag, value) => command.has_pair(flag, value),
            WantedFlag::Like { wild, letters } => {
                command.has_letters(letters) || command.flags.iter().any(|flag| wild.matches(flag))
            }
        }
    }
}

/// Whether it is one certain word that is no flag.
fn is_fixed(word: &[Atom]) -> bool {
    !word.is_empty() && !word.contains(&Atom::Star) && word.first() != Some(&Atom::Char('-'))
}

fn begins_as_flag(word: &[Atom]) -> bool {
    let mut letters = word.iter().skip_while(|atom| **atom == Atom::Star);
    letters.next() == Some(&Atom::Char('-')) && letters.next().is_some()
}

fn text_of(word: &[Atom]) -> String {
    let letters = word.iter().filter_map(|atom| match atom {
        Atom::Char(letter) => Some(*letter),
        Atom::Star | Atom::Blank => None,
    });
    letters.collect()
}

fn wild_of(word: &[Atom]) -> Wild {
    let mut pieces = Pieces::default();
    for atom in word {
        match atom {
            Atom::Char(letter) => pieces.text(*letter),
            Atom::Star => pieces.piece(Piece::Any),
            Atom::Blank => {}
        }
    }
    Wild::new(pieces.finish())
}

#[cfg(test)]
mod tests {
    use super::super::words::widest_atoms;
    use super::*;

    fn is_about(pattern: &str, command: &str) -> bool {
        let (text, is_open) = match pattern.strip_suffix(" *") {
            Some(text) => (text, true),
            None => (pattern, false),
        };
        let pattern = UnorderedPattern::new(&widest_atoms(text), is_open, false).unwrap();
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let command = Unordered::of(&argv).unwrap();
        let found = pattern.matches(&command);
        let keys = UnorderedPattern::keys_of(&command);
        let mut filed = pattern.beginnings().map(|one| one.take(FILED_WORDS).last());
        assert!(
            !found || filed.any(|key| key.is_none_or(|key| keys.contains(&key))),
            "not found by its key"
        );
        found
    }

    #[test]
    fn flags_are_met_in_any_order_among_any_others() {
        let cases = [
            ("git reset --hard *", "git reset -q --hard x", true),
            ("git reset --hard *", "git reset x --hard", true),
            ("git reset --hard *", "git reset -q x", false),
            ("git push origin *", "git push -q origin main", true),
            ("git push origin *", "git push -o x origin main", true),
            ("git push origin *", "git push -o x -f origin main", true),
            (
                "git push origin *",
                "git push -f -o x --force -o y origin main",
                true,
            ),
            ("git push origin *", "git push -q upstream main", false),
            (
                "docker run --privileged --rm *",
                "docker run --rm -v a:b --privileged x",
                true,
            ),
            (
                "docker run --privileged --rm *",
                "docker run -v a:b --privileged x",
                false,
            ),
            ("rm -rf*", "rm -f -r x", true),
            ("rm -rf *", "rm -r x --force", true),
            ("rm *-rf*", "rm -v -f -r x", true),
            ("rm -*r*", "rm -v --recursive x", true),
            ("rm -rf /", "rm -r -f -v /", true),
            ("rm -rf /", "rm -r -f -v /tmp", false),
            (
                "git push *--force*",
                "git push -q origin --force-with-lease",
                true,
            ),
            ("git * --force", "git push --force -q", true),
            ("git checkout -- *", "git checkout -q x", false),
            ("git checkout -- *", "git checkout -q -- x", true),
            ("psql -c 'DROP *", "psql -q -c DROP", false),
            ("curl -X DELETE *", "curl -s -XDELETE u", true),
            ("curl -X DELETE *", "curl -s -X POST u", false),
            ("npm run build*", "npm run -s build:all", true),
            ("curl -X DELETE *", "curl u -X DELETE", true),
            ("curl -X DELETE *", "curl u -sXDELETE", true),
            (
                "kubectl delete -n prod *",
                "kubectl delete pod x -n prod",
                true,
            ),
            (
                "kubectl delete -n prod *",
                "kubectl delete pod x -n test",
                false,
            ),
            ("make -C dir deploy", "make deploy -C dir", true),
        ];
        for (pattern, command, expected) in cases {
            assert_eq!(is_about(pattern, command), expected, "{pattern}: {command}");
        }
    }

    #[test]
    fn a_pattern_of_one_word_needs_no_order() {
        assert!(UnorderedPattern::new(&widest_atoms("rm"), true, false).is_none());
    }

    #[test]
    fn many_gaps_and_many_words_cost_their_product() {
        let pattern = format!("x -f {}y", "* ".repeat(200));
        let command = format!("x -f {}z", "a ".repeat(5_000));
        assert!(!is_about(&pattern, &command));
    }
}
