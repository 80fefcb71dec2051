//! What either parser makes of a text, in one form.
//!
//! Never says what a command means: names and options are looked at in `peel` and `options`.

use super::limits;
use super::reason::Opaque;
use super::word::{Word, WordKind};

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RedirectionKind {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`, and `>&` with a file.
    Write,
    /// `>>`, `&>>`
    Append,
    /// `<>`
    ReadWrite,
    /// `<&` and `>&` with a descriptor, or `-` to close one.
    Duplicate,
    /// `<<`, `<<-`
    HereDocument,
    /// `<<<`
    HereString,
}

/// One redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// What it does.
    pub kind: RedirectionKind,
    /// The file or descriptor; for a here-document or here-string the text itself.
    pub target: Word,
}

/// Files that take everything and keep nothing.
const NULL_DEVICES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

impl Redirection {
    /// Whether it can change nothing outside of the command: it reads, copies a descriptor, or
    /// writes to the null device. A path that the shell takes for a connection is not among them.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        let target = self.target.text.as_str();
        match self.kind {
            RedirectionKind::Read => !is_connection(target),
            RedirectionKind::Write | RedirectionKind::Append | RedirectionKind::ReadWrite => {
                self.target.kind == WordKind::Literal && NULL_DEVICES.contains(&target)
            }
            RedirectionKind::Duplicate => self.target.kind == WordKind::Literal,
            RedirectionKind::HereDocument | RedirectionKind::HereString => true,
        }
    }

    /// The file that it writes, if that is known and not the null device.
    #[must_use]
    pub fn written(&self) -> Option<&str> {
        let writes = match self.kind {
            RedirectionKind::Write | RedirectionKind::Append | RedirectionKind::ReadWrite => true,
            RedirectionKind::Read => is_connection(&self.target.text),
            RedirectionKind::Duplicate
            | RedirectionKind::HereDocument
            | RedirectionKind::HereString => false,
        };
        let known = self.target.kind == WordKind::Literal;
        (writes && known && !self.is_harmless()).then_some(self.target.text.as_str())
    }

    /// Whether the command reads from it.
    pub(super) fn reads(&self) -> bool {
        match self.kind {
            RedirectionKind::Read
            | RedirectionKind::ReadWrite
            | RedirectionKind::HereDocument
            | RedirectionKind::HereString => true,
            // What is duplicated was opened by another redirection.
            RedirectionKind::Write | RedirectionKind::Append | RedirectionKind::Duplicate => false,
        }
    }

    /// A redirection by `<&` or `>&`, which takes a descriptor or a file.
    pub(super) fn duplicate(is_output: bool, target: Word) -> Redirection {
        let text = target.text.trim_end_matches('-');
        let descriptor = text.bytes().all(|byte| byte.is_ascii_digit());
        let kind = if descriptor || target.kind == WordKind::Dynamic {
            RedirectionKind::Duplicate
        } else if is_output {
            RedirectionKind::Write
        } else {
            RedirectionKind::Read
        };
        Redirection { kind, target }
    }

    /// What two readings of one redirection have in common.
    pub(super) fn key(&self) -> (RedirectionKind, &str) {
        // Both take the same text between the same marks; blanks differ.
        let compares = self.kind != RedirectionKind::HereDocument;
        let text = if compares { &self.target.text } else { "" };
        (self.kind, text)
    }
}

/// A path that the shell opens as a connection.
fn is_connection(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}

/// A variable that is set for one command, or for all later ones if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable; with brackets if it is an element of an array.
    pub name: String,
    /// What it is set to.
    pub value: Word,
}

/// One simple command as a parser found it.
#[derive(Debug, Clone, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) assignments: Vec<Assignment>,
    pub(super) redirections: Vec<Redirection>,
    pub(super) nesting: u16,
    /// Its input comes from the text: through a pipe or a redirection, its own or one around it.
    pub(super) is_fed: bool,
}

impl Simple {
    /// Words and assignments, to compare two readings. Redirections are compared per text.
    pub(super) fn key(&self) -> SimpleKey<'_> {
        let assignments = self.assignments.iter();
        let words = self.words.iter();
        (
            assignments
                .map(|set| (set.name.as_str(), set.value.key()))
                .collect(),
            words.map(Word::key).collect(),
        )
    }

    pub(super) fn is_bare(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty()
    }
}

pub(super) type SimpleKey<'a> = (
    Vec<(&'a str, (&'a str, WordKind))>,
    Vec<(&'a str, WordKind)>,
);

/// Everything that one parser found in one text.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// In the order of the text; what is inside a command's words comes behind it.
    pub(super) commands: Vec<Simple>,
    /// All redirections, wherever they stand.
    pub(super) redirections: Vec<Redirection>,
    /// Why it cannot be trusted, although it was read.
    pub(super) opaque: Option<Opaque>,
    /// Whether something was left out, so that the text itself must be searched.
    pub(super) incomplete: bool,
}

impl Reading {
    /// Notes the first reason why the text is not understood.
    pub(super) fn distrust(&mut self, why: Opaque) {
        self.opaque.get_or_insert(why);
    }

    /// Notes that a part was not read at all.
    pub(super) fn fail(&mut self, why: Opaque) {
        self.incomplete = true;
        self.distrust(why);
    }

    pub(super) fn push(&mut self, command: Simple) {
        self.insert(self.commands.len(), command);
    }

    /// Puts a command before those that were found inside it.
    pub(super) fn insert(&mut self, at: usize, command: Simple) {
        if self.commands.len() >= limits::SEGMENTS_MAX {
            self.fail(Opaque::TooManySegments);
        } else {
            self.commands.insert(at, command);
        }
    }
}

/// Whether a loop may use this variable without changing what the shell does. Capitals may name
/// one that programs or the shell itself look at; the small names below are such ones in zsh.
pub(super) fn is_plain_variable(name: &str) -> bool {
    let shell = ["path", "cdpath", "fpath", "argv", "status", "prompt", "_"];
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    // Programs look at these in small letters.
    let programs = name.ends_with("_proxy") || name.starts_with("npm_");
    name.bytes().all(plain) && !shell.contains(&name) && !programs
}

/// What a substitution in backquotes runs: a backslash before these three is taken away, in
/// double quotes before a double quote as well.
pub(super) fn unescape_backquoted(inner: &str, in_double_quotes: bool) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars().peekable();
    while let Some(character) = rest.next() {
        let next = rest.peek().copied();
        let escapes =
            matches!(next, Some('$' | '`' | '\\')) || (in_double_quotes && next == Some('"'));
        if character == '\\' && escapes {
            text.extend(rest.next());
        } else {
            text.push(character);
        }
    }
    text
}
