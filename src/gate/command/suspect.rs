//! What a program might run of its words.
//!
//! No list of programs that run others is whole. So every word of a program that is not known to take its
//! words for data counts as a command that might run, with what follows it and with what stands inside
//! it. A deny or ask rule that means one of these asks. Never a reason to deny, and never to allow.

use super::peel::{Lift, basename, is_lookup, peel};
use super::reading::{RedirectionKind, Simple};
use super::segment::Segment;
use super::subcommands::PLAIN_GIT;
use super::view::{Budget, Forms, View};
use super::word::decode_ansi_c;

/// Programs that take all of their words for data.
const DATA: &[&str] = &[
    ":",
    "[",
    "b2sum",
    "base32",
    "base64",
    "basename",
    "bzip2",
    "cal",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "clear",
    "cmp",
    "comm",
    "cp",
    "curl",
    "cut",
    "date",
    "df",
    "diff",
    "dig",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expand",
    "expr",
    "factor",
    "false",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "free",
    "grep",
    "groups",
    "gunzip",
    "gzip",
    "head",
    "host",
    "hostname",
    "id",
    "jobs",
    "join",
    "jq",
    "kill",
    "killall",
    "ln",
    "logger",
    "ls",
    "lsof",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nl",
    "nproc",
    "nslookup",
    "od",
    "paste",
    "pgrep",
    "ping",
    "pkill",
    "popd",
    "printenv",
    "printf",
    "ps",
    "pushd",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sleep",
    "sort",
    "stat",
    "strings",
    "sum",
    "sync",
    "tac",
    "tail",
    "tee",
    "test",
    "top",
    "touch",
    "tr",
    "tree",
    "true",
    "truncate",
    "tty",
    "type",
    "uname",
    "unexpand",
    "uniq",
    "unlink",
    "unzip",
    "uptime",
    "vmstat",
    "wc",
    "whatis",
    "whereis",
    "which",
    "who",
    "whoami",
    "xxd",
    "zcat",
    "zgrep",
];

/// Package managers.
const MANAGERS: &[&str] = &[
    "apk", "apt", "apt-get", "brew", "cargo", "conda", "dnf", "gem", "ohpm", "pacman", "pip",
    "pip3", "pnpm", "poetry", "uv", "yarn", "yum", "zypper",
];

/// What they do with names of packages.
const MANAGING: &[&str] = &[
    "add",
    "del",
    "info",
    "install",
    "remove",
    "search",
    "show",
    "uninstall",
    "update",
    "upgrade",
];

/// Words of a command that might run that are looked at.
const WORDS_MAX: usize = 16;

/// Whether a program takes its words, or what it reads, for data.
pub(super) fn takes_data(argv: &[String]) -> bool {
    let name = argv.first().map_or("", |name| basename(name));
    let mut words = argv.iter().skip(1);
    match name {
        "git" => is_plain_git(argv),
        "command" => is_lookup(argv),
        "man" => !words.any(|word| word.starts_with('-')),
        _ => DATA.contains(&name),
    }
}

/// Whether it is a sub-command of git that reads or changes files here, without options that run more.
fn is_plain_git(argv: &[String]) -> bool {
    let sub = argv.iter().skip(1).find(|word| !word.starts_with('-'));
    let is_local = |sub: &String| PLAIN_GIT.contains(&sub.as_str()) && sub != "push";
    let is_help = argv.get(1).is_some_and(|sub| sub == "help");
    is_help || sub.is_some_and(is_local) && peel(argv).lift == Lift::Plain
}

/// A text of which any word may begin a command that is run. Cut up once; the commands are made when a
/// rule asks for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspect {
    words: Vec<String>,
    /// The words are those of git: each may also be one of its sub-commands.
    is_of_git: bool,
}

impl Suspect {
    fn new(text: &str, is_of_git: bool) -> Self {
        let is_between = |letter: char| !letter.is_alphanumeric() && !"_./+~-".contains(letter);
        let words = text.split(is_between).filter(|word| !word.is_empty());
        Self {
            words: words.map(str::to_owned).collect(),
            is_of_git,
        }
    }

    /// The programs that might be run, each with the position of the word that names it.
    pub fn programs(&self) -> impl Iterator<Item = (usize, &str)> {
        let words = self.words.iter().enumerate();
        words.flat_map(move |(at, word)| {
            let whole = [Some(basename(word).trim_start_matches('+'))];
            // The value of a short option may be attached to it.
            let attached = [2, 3].map(|from| {
                let is_short = word.starts_with('-') && !word.starts_with("--");
                let value = word.get(from..).filter(|_| is_short);
                value.map(basename)
            });
            let path = [word.contains('/').then_some(word.as_str())];
            let git = [self.is_of_git.then_some("git")];
            let all = whole.into_iter().chain(path).chain(attached).chain(git);
            all.flatten().map(move |program| (at, program))
        })
    }

    /// The forms of the command that begins with this program in the place of that word, and of its
    /// beginnings: nobody knows where it ends.
    #[must_use]
    pub fn commands(&self, at: usize, program: &str) -> Vec<View> {
        let from = match self.is_of_git && program == "git" {
            true => at,
            false => at + 1,
        };
        let behind = self.words.iter().skip(from).take(WORDS_MAX - 1).cloned();
        let argv: Vec<String> = std::iter::once(program.to_owned()).chain(behind).collect();
        let beginnings = (1..argv.len()).filter_map(|end| argv.get(..end));
        let beginnings: Vec<View> = beginnings.map(|argv| View::of(argv.to_vec())).collect();
        let mut forms = Forms::default();
        forms.add(argv, &mut Budget::default());
        forms.views.into_iter().chain(beginnings).collect()
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// What wrappers and the program behind them, at `program_at`, might run of their words.
pub(super) fn in_words(all: &[String], program_at: usize) -> Vec<Suspect> {
    let of_wrappers = all.get(1..=program_at).unwrap_or_default();
    let mut found = vec![Suspect::new(&of_wrappers.join(" "), false)];
    let argv = all.get(program_at..).unwrap_or_default();
    if !takes_data(argv) {
        let names_packages = names_packages(argv);
        let is_name = |word: &&String| {
            word.chars()
                .all(|letter| letter.is_alphanumeric() || letter == '-')
        };
        let words = argv.iter().skip(1);
        let words = words.filter(|word| !(names_packages && is_name(word)));
        let text: Vec<&str> = words.map(String::as_str).collect();
        let is_of_git = argv.first().is_some_and(|name| basename(name) == "git");
        let text = text.join(" ");
        found.extend(spellings(&text).map(|text| Suspect::new(&text, is_of_git)));
    }
    found.retain(|suspect| !suspect.is_empty());
    found
}

/// What some program might run of a text that it reads.
pub(super) fn in_text(text: &str) -> impl Iterator<Item = Suspect> {
    spellings(text).map(|text| Suspect::new(&text, false))
}

/// A text as it stands, and as another shell or language may read it: without quotes, with escapes that
/// are letters.
fn spellings(text: &str) -> impl Iterator<Item = String> {
    let bare = text.replace(['\\', '"', '\''], "");
    let decoded = decode_ansi_c(text).filter(|decoded| *decoded != text);
    let others = (bare != text).then_some(bare).into_iter().chain(decoded);
    std::iter::once(text.to_owned()).chain(others)
}

/// Programs that make a file of any name, or give one another name.
const MAKING: &[&str] = &[
    "cp", "curl", "dd", "install", "ln", "mv", "rsync", "tee", "wget",
];

/// Files that the command makes, by their last names.
pub(super) fn made_by(simple: &Segment) -> Vec<String> {
    let writes = simple.redirections.iter().filter(|one| !one.is_harmless());
    let mut made: Vec<String> = writes
        .map(|one| basename(&one.target.text).to_owned())
        .collect();
    let (words, at) = simple.known_words();
    let argv = words.get(at..).unwrap_or_default();
    if argv
        .first()
        .is_some_and(|name| MAKING.contains(&basename(name)))
    {
        made.extend(argv.iter().skip(1).map(|word| basename(word).to_owned()));
    }
    made
}

/// Whether it writes what git may run later: hooks and settings.
pub(super) fn writes_for_git(segment: &Segment) -> bool {
    let (words, _) = segment.known_words();
    let targets = segment.redirections.iter().map(|one| &one.target.text);
    let mut paths = words.iter().chain(targets);
    paths.any(|path| path.starts_with(".git/") || path.contains("/.git/"))
}

/// Texts that the command puts where a program may read them.
pub(super) fn texts_of(simple: &Simple) -> Vec<String> {
    let texts = simple.redirections.iter().filter(|one| {
        matches!(
            one.kind,
            RedirectionKind::HereDocument | RedirectionKind::HereString
        )
    });
    let mut texts: Vec<String> = texts.map(|one| one.target.text.clone()).collect();
    let mut words = simple.words.iter().map(|word| word.text.as_str());
    if matches!(words.next(), Some("echo" | "printf")) {
        let words = words.skip_while(|word| word.starts_with('-'));
        texts.push(words.collect::<Vec<_>>().join(" "));
    }
    texts
}

/// Whether its words are the names of packages.
fn names_packages(argv: &[String]) -> bool {
    let name = argv.first().map_or("", |name| basename(name));
    let mut words = argv.iter().skip(1).filter(|word| !word.starts_with('-'));
    let verb = words.next().map_or("", String::as_str);
    MANAGERS.contains(&name) && MANAGING.contains(&verb)
}
