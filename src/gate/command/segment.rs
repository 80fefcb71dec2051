//! One simple command with all that rules are tried against.
//!
//! Built once on the analysis thread; whoever reads it parses nothing.

use super::allow::{AllowView, allow_view};
use super::clarity::{Clarity, clarity};
use super::reading::{Assignment, Redirection, Simple};
use super::reason::AskReason;
use super::view::{Budget, Forms, View};
use super::word::{Word, WordKind};

/// One simple command of a text.
#[derive(Debug, Clone)]
pub struct Segment {
    /// As it would be written, from its words; blanks and comments are not kept.
    pub source: String,
    /// The program and its arguments. Empty for bare assignments and redirections.
    pub words: Vec<Word>,
    /// Assignments before the command.
    pub assignments: Vec<Assignment>,
    /// Its own redirections. Those around a group are a segment without words, unless they are
    /// harmless.
    pub redirections: Vec<Redirection>,
    /// How many groups, loops and substitutions it stands in.
    pub nesting: u16,
    /// Whether the directory may have changed since the text began, so that relative paths are
    /// not known.
    pub after_cd: bool,
    views: Vec<View>,
    allow: Result<AllowView, AskReason>,
    clarity: Clarity,
    /// Where its program stands behind wrappers.
    program_at: usize,
}

impl Segment {
    /// Every form of it for deny and ask rules: one match is enough.
    #[must_use]
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// The one form of it for allow rules.
    ///
    /// # Errors
    /// Why no allow rule covers it.
    pub fn allow_view(&self) -> Result<&AllowView, AskReason> {
        self.allow.as_ref().map_err(|why| *why)
    }

    /// Whether it is known what it runs, also where no rule can cover it.
    #[must_use]
    pub fn clarity(&self) -> &Clarity {
        &self.clarity
    }

    /// Its words as far as they are known, and where its program stands behind wrappers.
    pub(super) fn known_words(&self) -> (Vec<String>, usize) {
        let words = self.words.iter().map(|word| word.text.clone());
        (words.collect(), self.program_at)
    }

    /// The program, if its name is known.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?;
        (name.kind == WordKind::Literal).then_some(name.text.as_str())
    }

    /// The argument vector, if all of it is known; a pattern counts as its text.
    #[must_use]
    pub fn argv(&self) -> Option<Vec<&str>> {
        let words = self.words.iter();
        words
            .map(|word| (word.kind != WordKind::Dynamic).then_some(word.text.as_str()))
            .collect()
    }

    /// Makes a segment of what a parser found, with the forms that were made of it.
    pub(super) fn new(simple: Simple, after_cd: bool, views: Vec<View>) -> Segment {
        let (clarity, program_at) = clarity(&simple);
        Segment {
            source: source_of(&simple),
            allow: allow_view(&simple),
            clarity,
            program_at,
            words: simple.words,
            assignments: simple.assignments,
            redirections: simple.redirections,
            nesting: simple.nesting,
            after_cd,
            views,
        }
    }
}

/// A command from its parts.
fn source_of(simple: &Simple) -> String {
    let assignments = simple.assignments.iter();
    let assignments = assignments.map(|set| format!("{}={}", set.name, set.value.source));
    let words = simple.words.iter().map(|word| word.source.clone());
    assignments.chain(words).collect::<Vec<_>>().join(" ")
}

/// All forms of a command, scripts in it left for later.
pub(super) fn forms_of(simple: &Simple, budget: &mut Budget) -> Forms {
    let mut forms = Forms::default();
    let source = source_of(simple);
    if !source.is_empty() {
        forms.push(View::text_only(&source), budget);
    }
    for argv in argvs(&simple.words) {
        forms.add(argv, budget);
    }
    forms
}

/// The argument vectors that the words may become: with expansions as written, with expansions
/// empty, with braces taken apart.
fn argvs(words: &[Word]) -> Vec<Vec<String>> {
    let written = words.iter().map(|word| word.text.clone()).collect();
    let mut all = vec![written];
    if words.iter().any(|word| word.kind == WordKind::Dynamic) {
        let known = words.iter().map(|word| match word.kind {
            WordKind::Dynamic => word.known(),
            WordKind::Literal | WordKind::Pattern => &word.text,
        });
        let known = known.filter(|text| !text.is_empty());
        all.push(known.map(str::to_owned).collect());
        all.push(words.iter().flat_map(Word::braced).collect());
    }
    all
}
