//! Other ways to write the same flags, so that a deny rule finds the one it names.
//!
//! For deny and ask rules only: it moves flags before operands, and takes the value of a flag for
//! an operand.

use super::peel::basename;

/// Most different short flags of one command that are put together in every order of two.
const COMBINED_MAX: usize = 6;

/// Long names of short flags. The first words are the program and its sub-command.
const LONG_NAMES: &[(&str, &[(&str, char)])] = &[
    (
        "rm",
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("dir", 'd'),
            ("verbose", 'v'),
            ("interactive", 'i'),
        ],
    ),
    (
        "chmod",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        "chown",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        "chgrp",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        "cp",
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("archive", 'a'),
            ("verbose", 'v'),
            ("no-clobber", 'n'),
        ],
    ),
    (
        "mv",
        &[("force", 'f'), ("verbose", 'v'), ("no-clobber", 'n')],
    ),
    ("ln", &[("symbolic", 's'), ("force", 'f'), ("verbose", 'v')]),
    ("shred", &[("force", 'f'), ("remove", 'u'), ("zero", 'z')]),
    (
        "sed",
        &[
            ("in-place", 'i'),
            ("quiet", 'n'),
            ("expression", 'e'),
            ("regexp-extended", 'E'),
        ],
    ),
    (
        "git push",
        &[
            ("force", 'f'),
            ("delete", 'd'),
            ("set-upstream", 'u'),
            ("verbose", 'v'),
        ],
    ),
    (
        "git clean",
        &[("force", 'f'), ("quiet", 'q'), ("dry-run", 'n')],
    ),
    (
        "git add",
        &[
            ("all", 'A'),
            ("update", 'u'),
            ("force", 'f'),
            ("patch", 'p'),
        ],
    ),
    (
        "git commit",
        &[
            ("all", 'a'),
            ("message", 'm'),
            ("no-verify", 'n'),
            ("signoff", 's'),
        ],
    ),
    (
        "git branch",
        &[("delete", 'd'), ("force", 'f'), ("move", 'm'), ("all", 'a')],
    ),
    ("git checkout", &[("force", 'f'), ("quiet", 'q')]),
    (
        "git switch",
        &[("force", 'f'), ("create", 'c'), ("discard-changes", 'f')],
    ),
    (
        "git tag",
        &[("delete", 'd'), ("force", 'f'), ("annotate", 'a')],
    ),
    ("git rm", &[("force", 'f'), ("dry-run", 'n')]),
    ("git stash", &[]),
    (
        "docker rm",
        &[("force", 'f'), ("volumes", 'v'), ("link", 'l')],
    ),
    ("docker rmi", &[("force", 'f')]),
    (
        "docker run",
        &[
            ("detach", 'd'),
            ("interactive", 'i'),
            ("tty", 't'),
            ("volume", 'v'),
        ],
    ),
    (
        "curl",
        &[
            ("output", 'o'),
            ("request", 'X'),
            ("data", 'd'),
            ("upload-file", 'T'),
        ],
    ),
    ("kill", &[("signal", 's')]),
];

/// The same command with its flags written otherwise.
pub(super) fn rewritten(argv: &[String]) -> Vec<Vec<String>> {
    let Some(parts) = Parts::of(argv) else {
        return Vec::new();
    };
    let mut forms = vec![parts.with(&[])];
    if parts.names.is_none() {
        return forms;
    }
    let mut shorts = parts.shorts();
    shorts.truncate(COMBINED_MAX);
    for first in &shorts {
        forms.push(parts.with(&[format!("-{first}")]));
        if let Some(long) = parts.long(*first) {
            forms.push(parts.with(&[format!("--{long}")]));
        }
        for second in shorts.iter().filter(|second| *second != first) {
            forms.push(parts.only(&format!("-{first}{second}")));
        }
    }
    forms
}

type Names = &'static [(&'static str, char)];

struct Parts<'a> {
    head: &'a [String],
    /// Each alone: `-rf` is `-r` and `-f`.
    flags: Vec<String>,
    operands: Vec<String>,
    names: Option<Names>,
}

impl<'a> Parts<'a> {
    fn of(argv: &'a [String]) -> Option<Parts<'a>> {
        let name = basename(argv.first()?);
        let sub = argv.get(1).map(String::as_str).unwrap_or_default();
        let both = format!("{name} {sub}");
        let find = |wanted: &str| LONG_NAMES.iter().find(|(known, _)| *known == wanted);
        let (length, names) = match find(&both) {
            Some((_, names)) => (2, Some(*names)),
            None => (1, find(name).map(|(_, names)| *names)),
        };
        let mut flags = Vec::new();
        let mut operands = Vec::new();
        let mut words = argv.iter().skip(length);
        for word in words.by_ref() {
            match word.as_str() {
                "--" => break,
                flag if flag.starts_with("--") => flags.push(short_of(flag, names)),
                flag if flag.starts_with('-') && flag.len() > 1 => {
                    let letters = flag.chars().skip(1);
                    flags.extend(letters.map(|letter| format!("-{letter}")));
                }
                operand => operands.push(operand.to_owned()),
            }
        }
        operands.extend(words.cloned());
        (!flags.is_empty()).then_some(Parts {
            head: argv.get(..length)?,
            flags,
            operands,
            names,
        })
    }

    /// The command with these flags first, then its others, then the operands.
    fn with(&self, first: &[String]) -> Vec<String> {
        let short = first.first().map(|flag| short_of(flag, self.names));
        let others = self
            .flags
            .iter()
            .filter(|flag| Some(*flag) != short.as_ref());
        let others: Vec<String> = others.cloned().collect();
        [self.head, first, &others, &self.operands].concat()
    }

    /// The command with no other flags than these.
    fn only(&self, flags: &str) -> Vec<String> {
        [self.head, &[flags.to_owned()], &self.operands].concat()
    }

    /// Its different short flags, `-R` as `-r` where both mean the same.
    fn shorts(&self) -> Vec<char> {
        let mut letters = Vec::new();
        for flag in &self.flags {
            let mut characters = flag.chars().skip(1);
            if let (Some(letter), None) = (characters.next(), characters.next())
                && !letters.contains(&letter)
            {
                letters.push(letter);
            }
        }
        let removes = self.head.first().is_some_and(|name| basename(name) == "rm");
        if removes && letters.contains(&'R') && !letters.contains(&'r') {
            letters.insert(0, 'r');
        }
        letters
    }

    fn long(&self, letter: char) -> Option<&'static str> {
        let mut names = self.names?.iter();
        names
            .find(|(_, short)| *short == letter)
            .map(|(long, _)| *long)
    }
}

/// The short flag of a long one, which may be cut off as long as it is clear.
fn short_of(flag: &str, names: Option<Names>) -> String {
    let name = flag.strip_prefix("--").filter(|name| !name.is_empty());
    let Some((name, names)) = name.zip(names) else {
        return flag.to_owned();
    };
    let name = name.split('=').next().unwrap_or(name);
    let mut meant = names.iter().filter(|(long, _)| long.starts_with(name));
    match (meant.next(), meant.next()) {
        (Some((_, letter)), None) => format!("-{letter}"),
        _ => flag.to_owned(),
    }
}
