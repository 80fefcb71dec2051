//! Patterns of commands: exact text, token prefix, text prefix, and `*` between.
//!
//! Tried on one view of one segment at a time, so a `*` never reaches into another segment. Never
//! splits a command: views and segments come in.

use super::rule::Reach;
use super::subject::View;
use super::unordered_pattern::UnorderedPattern;
use super::wild::{Piece, Pieces, WORD_END, Wild};
use super::words::{Atom, raw_atoms, shell_atoms, widest_atoms, with_single_blanks};
use crate::gate::command::{Unordered, basename};

/// One pattern in the readings that its list gives it.
///
/// Narrow: words are compared as words, so `rm a b` is not `rm "a b"`, and `*` in quotes is a star.
/// Wide: also the text with its quotes, `*` in quotes is a gap, and flags stand in no order.
#[derive(Debug, Clone)]
pub(super) struct CommandPattern {
    /// On words with their bounds.
    words: Wild,
    /// On text in which blanks are the bounds. None: narrow.
    text: Option<Wild>,
    /// The words that every match begins with, with blanks between.
    pub(super) prefix: String,
    /// How many whole words that is.
    spelled: usize,
    /// The same of the text, where it differs.
    pub(super) text_prefix: Option<String>,
    /// On a command with flags, taken in no order. None: narrow, or they make no difference.
    pub(super) unordered: Option<UnorderedPattern>,
    /// What it says of the program's name, without its path.
    pub(super) program: Program,
    /// How the pattern ends.
    pub(super) form: Form,
    /// The text of a whole command that is exactly this. None: wide, or with gaps.
    exact: Option<Box<str>>,
    /// Whether it lets calls run.
    is_narrow: bool,
}

/// What a pattern says of the program's name, without its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    /// All of it.
    Named(String),
    /// How it begins. Empty: it may be any.
    Begins(String),
}

/// How a pattern ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// No `*` at all.
    Exact,
    /// `git *`, `git:*`, and where they stop a call also the bare `git`.
    WordPrefix,
    /// `rm -rf*`.
    TextPrefix,
    /// `*` elsewhere.
    Mixed,
}

/// One view in the forms that patterns are tried on.
#[derive(Debug)]
pub(super) struct PreparedView {
    /// Words with their bounds.
    words: String,
    /// Words with blanks between.
    pub(super) spaced: String,
    /// The text, if it is not the same.
    pub(super) text: Option<String>,
    /// As words.
    pub(super) list: Vec<String>,
    /// With its flags in no order. None: it has none, or it is only to be let through.
    pub(super) unordered: Option<Unordered>,
    is_sound: bool,
    /// How many of its words a narrow pattern must spell.
    spelled_min: usize,
}

impl PreparedView {
    /// A view that may be stopped.
    pub(super) fn to_stop(view: &View) -> Self {
        Self {
            unordered: Unordered::of(&view.words),
            ..Self::to_pass(view)
        }
    }

    /// A view that is to be let through.
    pub(super) fn to_pass(view: &View) -> Self {
        let bound = WORD_END.to_string();
        let spaced = with_single_blanks(&view.words.join(" "));
        let text = with_single_blanks(&view.text);
        Self {
            list: view.words.clone(),
            unordered: None,
            spelled_min: view.spelled_min,
            words: view.words.join(&bound),
            text: (text != spaced).then_some(text),
            spaced,
            is_sound: !view.words.is_empty()
                && !view.words.iter().any(|word| word.contains(WORD_END)),
        }
    }

    /// The texts whose beginnings find candidates.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.spaced.as_str()).chain(self.text.as_deref())
    }
}

impl CommandPattern {
    pub(super) fn new(text: &str, reach: Reach) -> Self {
        let strict = Outline::new(shell_atoms(text), reach);
        let wide = (reach == Reach::Wide).then(|| Outline::new(raw_atoms(text), reach));
        let unordered = (reach == Reach::Wide)
            .then(|| Outline::new(widest_atoms(text), reach))
            .and_then(|outline| {
                let is_open = outline.form == Form::WordPrefix;
                UnorderedPattern::new(&outline.atoms, is_open, outline.has_colon)
            });
        let prefix = strict.literal_words();
        let is_exact = reach == Reach::Narrow && strict.form == Form::Exact;
        let text_prefix = match &wide {
            Some(outline) => Some(outline.literal_words()),
            None => is_exact.then(|| with_single_blanks(text)),
        };
        Self {
            exact: is_exact.then(|| text.trim().into()),
            is_narrow: reach == Reach::Narrow,
            words: strict.wild(WORD_END),
            text: wide.map(|outline| outline.wild(' ')),
            text_prefix: text_prefix.filter(|other| *other != prefix),
            unordered,
            prefix,
            spelled: strict.spelled(),
            program: strict.program(),
            form: strict.form,
        }
    }

    /// Whether the pattern is that whole command, whatever a shell would make of it.
    pub(super) fn is_exactly(&self, command: &str) -> bool {
        self.exact.as_deref() == Some(command.trim())
    }

    pub(super) fn matches(&self, view: &PreparedView) -> bool {
        if self.is_narrow && view.spelled_min > 1 && self.spelled < view.spelled_min {
            return false;
        }
        if view.is_sound && self.words.matches(&view.words) {
            return true;
        }
        if let (Some(pattern), Some(command)) = (&self.unordered, &view.unordered)
            && pattern.matches(command)
        {
            return true;
        }
        let Some(wild) = &self.text else { return false };
        wild.matches(&view.spaced) || view.text.as_ref().is_some_and(|text| wild.matches(text))
    }
}

/// A pattern's atoms without its ending, and the ending.
struct Outline {
    /// The ending was `:*` where it stops calls: a colon prolongs the last word too, as in `run a:b`.
    has_colon: bool,
    atoms: Vec<Atom>,
    form: Form,
    reach: Reach,
}

impl Outline {
    fn new(mut atoms: Vec<Atom>, reach: Reach) -> Self {
        let has_words = atoms.contains(&Atom::Blank);
        let ends_in_colon = atoms.ends_with(&[Atom::Char(':'), Atom::Star]);
        let has_colon = reach == Reach::Wide && has_words && ends_in_colon;
        let form = match atoms.as_slice() {
            [_, .., Atom::Blank | Atom::Char(':'), Atom::Star] => {
                atoms.truncate(atoms.len() - 2);
                Form::WordPrefix
            }
            // A program's bare name stops whatever arguments it is given.
            atoms if reach == Reach::Wide && is_one_word(atoms) => Form::WordPrefix,
            [rest @ .., Atom::Star] if !rest.contains(&Atom::Star) => Form::TextPrefix,
            atoms if atoms.contains(&Atom::Star) => Form::Mixed,
            _ => Form::Exact,
        };
        Self {
            has_colon,
            atoms,
            form,
            reach,
        }
    }

    fn wild(&self, bound: char) -> Wild {
        let mut pieces = Pieces::default();
        let mut rest = self.atoms.as_slice();
        while let [atom, tail @ ..] = rest {
            rest = tail;
            match (atom, tail) {
                (Atom::Blank, [Atom::Star, Atom::Blank, beyond @ ..])
                    if self.reach == Reach::Wide =>
                {
                    pieces.text(bound);
                    pieces.piece(Piece::Gap(bound));
                    rest = beyond;
                }
                (Atom::Blank, _) => pieces.text(bound),
                (Atom::Star, _) => pieces.piece(Piece::Any),
                (Atom::Char(character), _) => pieces.text(*character),
            }
        }
        if self.form == Form::WordPrefix {
            pieces.piece(Piece::Rest(match (bound, self.has_colon) {
                (WORD_END, false) => &[WORD_END],
                (WORD_END, true) => &[WORD_END, ':'],
                (_, false) => &[' '],
                (_, true) => &[' ', ':'],
            }));
        }
        Wild::new(pieces.finish())
    }

    fn program(&self) -> Program {
        let is_letter = |atom: &&Atom| matches!(atom, Atom::Char(_));
        let letters = self
            .atoms
            .iter()
            .take_while(is_letter)
            .map(|atom| match atom {
                Atom::Char(letter) => *letter,
                Atom::Blank | Atom::Star => ' ',
            });
        let opening: String = letters.collect();
        let name = basename(&opening).to_owned();
        match self.atoms.get(opening.chars().count()) {
            Some(Atom::Star) => Program::Begins(name),
            None if self.form == Form::TextPrefix => Program::Begins(name),
            Some(Atom::Blank | Atom::Char(_)) | None => Program::Named(name),
        }
    }

    /// The whole words before the first gap, with blanks between.
    fn literal_words(&self) -> String {
        with_single_blanks(&self.literals().join(" "))
    }

    /// How many whole words stand before the first gap.
    fn spelled(&self) -> usize {
        let words = self.literals();
        words.iter().filter(|word| !word.is_empty()).count()
    }

    fn literals(&self) -> Vec<String> {
        let mut words = vec![String::new()];
        for atom in &self.atoms {
            match atom {
                Atom::Star => {
                    words.pop();
                    break;
                }
                Atom::Blank => words.push(String::new()),
                Atom::Char(character) => {
                    if let Some(word) = words.last_mut() {
                        word.push(*character);
                    }
                }
            }
        }
        if self.has_colon {
            words.pop();
        }
        words
    }
}

fn is_one_word(atoms: &[Atom]) -> bool {
    !atoms.is_empty() && atoms.iter().all(|atom| matches!(atom, Atom::Char(_)))
}
