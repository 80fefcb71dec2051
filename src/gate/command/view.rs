//! The forms of one command that deny and ask rules are tried against.
//!
//! Never leaves one out in silence: what does not fit the limits is told.

use std::collections::BTreeSet;

use super::limits;
use super::peel::{Inner, basename, is_assignment, peel, program};
use super::programs::Role;
use super::spellings::spelled_otherwise;

/// One form of a command, or of a whole text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// Its words, without quotes where they are known.
    pub words: Vec<String>,
    /// Its words with one blank between them; for raw text as it was written.
    pub text: String,
}

impl View {
    /// A view of these words.
    #[must_use]
    pub fn of(words: Vec<String>) -> View {
        View {
            text: words.join(" "),
            words,
        }
    }

    /// A view of a text whose words others have: in it, quotes are not read.
    #[must_use]
    pub fn text_only(text: &str) -> View {
        View {
            words: Vec::new(),
            text: text.trim().to_owned(),
        }
    }

    /// A view of a text as it stands, cut at blanks.
    #[must_use]
    pub fn raw(text: &str) -> View {
        View {
            words: text.split_whitespace().map(str::to_owned).collect(),
            text: text.trim().to_owned(),
        }
    }
}

/// What all views of one text may cost together.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) views: usize,
    pub(super) bytes: usize,
    pub(super) words: usize,
    pub(super) scripts: usize,
    /// Whether something was left out.
    pub(super) exhausted: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            views: limits::VIEWS_MAX,
            bytes: limits::VIEW_BYTES_MAX,
            words: limits::UNWRAPPED_WORDS_MAX,
            scripts: limits::SCRIPTS_MAX,
            exhausted: false,
        }
    }
}

impl Budget {
    fn takes(&mut self, bytes: usize) -> bool {
        // A view holds its words twice.
        let bytes = 2 * bytes;
        let fits = self.views > 0 && self.bytes >= bytes;
        if fits {
            self.views -= 1;
            self.bytes -= bytes;
        } else {
            self.exhausted = true;
        }
        fits
    }

    /// Whether so many words may still be looked at.
    fn looks_at(&mut self, words: usize) -> bool {
        let fits = self.words >= words;
        self.exhausted |= !fits;
        self.words = self.words.saturating_sub(words);
        fits
    }
}

/// The forms of one command.
#[derive(Debug, Default)]
pub(super) struct Forms {
    pub(super) views: BTreeSet<View>,
    /// Scripts that it runs.
    pub(super) scripts: BTreeSet<String>,
    /// Code of other languages that it runs.
    pub(super) foreign: BTreeSet<String>,
    /// Whether a shell in it reads its script from its input.
    pub(super) reads_script: bool,
    /// Commands to which words of the input are added.
    pub(super) extended: Vec<Vec<String>>,
}

impl Forms {
    pub(super) fn push(&mut self, view: View, budget: &mut Budget) {
        if !self.views.contains(&view) && budget.takes(view.text.len()) {
            self.views.insert(view);
        }
    }

    /// Adds all forms of a command: with and without its path, with other names of its sub-command,
    /// and the same of every command inside it.
    ///
    /// A command inside others also stands behind each of these without its options, as rules name it:
    /// `sudo rm x` for `sudo -u root -- env rm x`.
    pub(super) fn add(&mut self, argv: Vec<String>, budget: &mut Budget) {
        let mut open = vec![(Vec::new(), argv)];
        let mut seen: BTreeSet<(Vec<String>, Vec<String>)> = BTreeSet::new();
        while let Some((around, argv)) = open.pop() {
            if argv.is_empty() || seen.contains(&(around.clone(), argv.clone())) {
                continue;
            }
            if seen.len() >= limits::UNWRAPPED_MAX {
                budget.exhausted = true;
                return;
            }
            self.push(View::of(argv.clone()), budget);
            for wrapper in &around {
                let behind = std::iter::once(wrapper).chain(&argv).cloned();
                self.push(View::of(behind.collect()), budget);
            }
            if !budget.looks_at(argv.len()) {
                return;
            }
            let others = spelled_otherwise(&argv).into_iter();
            let others = others.chain(with_basename(&argv));
            let others = others.chain(with_short_path(&argv));
            let others = others.chain(without_assignments(&argv));
            open.extend(others.map(|other| (around.clone(), other)));
            let peeled = peel(&argv);
            self.reads_script |= reads_script(&argv, &peeled.lift);
            budget.exhausted |= peeled.cut;
            for inner in peeled.inner {
                match inner {
                    Inner::Argv(inner) => {
                        if adds_words(&argv) {
                            self.extended.push(inner.clone());
                        }
                        open.push((around_inner(&around, &argv), inner));
                    }
                    Inner::Script(script) => {
                        self.scripts.insert(script);
                    }
                    Inner::Foreign(code) => {
                        // Lists of words are commands as well, in many a language.
                        self.foreign.insert(code.replace([',', '[', ']'], " "));
                        self.foreign.insert(code);
                    }
                }
            }
            seen.insert((around, argv));
        }
    }
}

/// What stands around a command inside `argv`: one more, if that runs it as another program.
fn around_inner(around: &[String], argv: &[String]) -> Vec<String> {
    let mut around = around.to_vec();
    let is_wrapper = program(argv).is_some_and(|(program, words)| {
        words == 1 && matches!(program.role, Role::Transparent | Role::Exec)
    });
    if let Some(name) = argv.first().filter(|_| is_wrapper) {
        let name = basename(name).to_owned();
        if !around.contains(&name) {
            around.push(name);
        }
    }
    around
}

/// Whether the command gets words from its input.
pub(super) fn adds_words(argv: &[String]) -> bool {
    let name = argv.first().map(|name| basename(name));
    name.is_some_and(|name| name == "xargs" || name == "gxargs")
}

fn reads_script(argv: &[String], lift: &super::peel::Lift) -> bool {
    let sources = argv
        .first()
        .is_some_and(|name| name == "source" || name == ".");
    let reads = super::peel::Lift::Never(super::reason::AskReason::ReadsScript);
    sources || *lift == reads
}

/// With the path of the program in its shortest form: `/bin/rm` for `//bin/./x/../rm`.
fn with_short_path(argv: &[String]) -> Option<Vec<String>> {
    let (name, rest) = argv.split_first()?;
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let short = format!("/{}", parts.join("/"));
    let is_other = name.starts_with('/') && short != *name;
    is_other.then(|| [&[short], rest].concat())
}

fn with_basename(argv: &[String]) -> Option<Vec<String>> {
    let (name, rest) = argv.split_first()?;
    let base = basename(name);
    (base != name && !base.is_empty()).then(|| [&[base.to_owned()], rest].concat())
}

fn without_assignments(argv: &[String]) -> Option<Vec<String>> {
    let skipped = argv.iter().take_while(|word| is_assignment(word)).count();
    (skipped > 0).then(|| argv.iter().skip(skipped).cloned().collect())
}
