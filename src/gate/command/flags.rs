//! A command whose flags stand in no order, so that a deny rule finds the ones it names.
//!
//! For deny and ask rules only: `rm -r x --force` is `rm` of `x` with `-r`, `-f`, `--recursive` and
//! `--force`. Which flags take the next word is not known, so that word may or may not be an operand.

use super::flag_names::{LONG_NAMES, SAME_LETTERS};
use super::peel::{basename, has_options_first};

/// A command, its flags taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gate) struct Unordered {
    /// The program, sub-commands and all else that is no flag.
    pub(in crate::gate) operands: Vec<Operand>,
    /// Every way to write its flags, each a word: as written, letter by letter, by their other
    /// names, without and with their values.
    pub(in crate::gate) flags: Vec<String>,
}

/// One word that is no flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gate) struct Operand {
    /// The word.
    pub(in crate::gate) text: String,
    /// Whether it may be the value of a flag in place of an operand.
    pub(in crate::gate) is_optional: bool,
}

impl Unordered {
    /// None: the command has no flags, or they stand where only a form of it without them can be read.
    pub(in crate::gate) fn of(argv: &[String]) -> Option<Unordered> {
        let has_flags = argv
            .iter()
            .skip(1)
            .any(|word| is_flag(word) || word == "--");
        if !has_flags || has_options_first(argv) {
            return None;
        }
        let mut reader = Reader::of(argv);
        for word in argv {
            reader.take(word);
        }
        Some(Unordered {
            operands: reader.operands,
            flags: reader.flags,
        })
    }

    /// Whether one of its flags is this one, written in whatever way, or in a group with others.
    pub(in crate::gate) fn has_flag(&self, flag: &str) -> bool {
        let mut flags = self.flags.iter();
        match flag.strip_prefix("--").filter(|name| !name.is_empty()) {
            Some(_) => flags.any(|known| is_cut_off(known, flag)),
            None => self.flags.iter().any(|known| known == flag) || self.has_letters(flag),
        }
    }

    /// Whether all letters of a group such as `-rf` are there.
    pub(in crate::gate) fn has_letters(&self, group: &str) -> bool {
        let letters = group.trim_start_matches('-');
        let has = |letter: char| self.flags.iter().any(|flag| is_letter(flag, letter));
        !letters.is_empty() && !group.starts_with("--") && letters.chars().all(has)
    }
}

/// Whether `known` is the flag, or a beginning of it that its program may take for it. One that ends
/// with a whole word is a flag of its own: `--force` of `--force-with-lease`.
fn is_cut_off(known: &str, flag: &str) -> bool {
    let Some(rest) = flag.strip_prefix(known).filter(|_| known.len() > 2) else {
        return false;
    };
    known.starts_with("--") && !rest.starts_with(['-', '='])
}

fn is_letter(flag: &str, letter: char) -> bool {
    let mut characters = flag.chars();
    characters.next() == Some('-')
        && characters.next() == Some(letter)
        && characters.next().is_none()
}

pub(in crate::gate) fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word != "--"
}

type Names = &'static [(&'static str, char)];

struct Reader<'a> {
    program: &'a str,
    names: Names,
    operands: Vec<Operand>,
    flags: Vec<String>,
    /// The flag that the word before was, if it may take the next one as its value.
    valued: Option<&'a str>,
    /// Whether all that follows is operands.
    is_over: bool,
}

impl<'a> Reader<'a> {
    fn of(argv: &'a [String]) -> Reader<'a> {
        let program = argv.first().map_or("", |name| basename(name));
        Reader {
            program,
            names: names_of(program, argv),
            operands: Vec::new(),
            flags: Vec::new(),
            valued: None,
            is_over: false,
        }
    }

    fn take(&mut self, word: &'a str) {
        let is_first = self.operands.is_empty();
        if self.is_over || is_first || !(is_flag(word) || word == "--") {
            self.operand(word);
        } else if word == "--" {
            self.is_over = true;
            self.valued = None;
            self.flag("--".to_owned());
        } else if let Some(long) = word.strip_prefix("--") {
            self.long(word, long);
        } else {
            self.group(word);
        }
    }

    fn operand(&mut self, word: &str) {
        let flag = self.valued.take();
        if let Some(flag) = flag {
            self.flag(match flag.starts_with("--") {
                true => format!("{flag}={word}"),
                false => format!("{flag}{word}"),
            });
        }
        self.operands.push(Operand {
            text: word.to_owned(),
            is_optional: flag.is_some(),
        });
    }

    fn long(&mut self, word: &'a str, long: &str) {
        self.flag(word.to_owned());
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        self.flag(format!("--{name}"));
        for (full, letter) in self.names {
            if full.starts_with(name) {
                self.flag(format!("--{full}"));
                self.flag(format!("-{letter}"));
            }
        }
        self.value(value);
        self.valued = value.is_none().then_some(word);
    }

    /// `-rf`, or `-n5`, or `-name`.
    fn group(&mut self, word: &'a str) {
        self.flag(word.to_owned());
        let letters = word.get(1..).unwrap_or_default();
        for letter in letters.chars() {
            self.letter(letter);
        }
        let mut rest = letters.chars();
        rest.next();
        let value = rest.as_str();
        // One more letter is nearly always one more flag.
        let is_value = value.len() > 1 || value.starts_with(|first: char| !first.is_alphabetic());
        self.value(Some(value).filter(|_| is_value));
        self.valued = Some(word);
    }

    fn letter(&mut self, letter: char) {
        self.flag(format!("-{letter}"));
        let same =
            |(program, from, _): &&(&str, char, char)| *program == self.program && *from == letter;
        let meant = SAME_LETTERS
            .iter()
            .find(same)
            .map_or(letter, |(_, _, to)| *to);
        self.flag(format!("-{meant}"));
        for (full, short) in self.names {
            if *short == meant {
                self.flag(format!("--{full}"));
            }
        }
    }

    /// What is attached to a flag, and may be its value.
    fn value(&mut self, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let value = value.strip_prefix('=').unwrap_or(value);
            self.operands.push(Operand {
                text: value.to_owned(),
                is_optional: true,
            });
        }
    }

    fn flag(&mut self, flag: String) {
        if !self.flags.contains(&flag) {
            self.flags.push(flag);
        }
    }
}

/// The names of the flags of the program, or of its sub-command.
fn names_of(program: &str, argv: &[String]) -> Names {
    let sub = argv.iter().skip(1).find(|word| !is_flag(word));
    let both = format!("{program} {}", sub.map_or("", String::as_str));
    let find = |wanted: &str| LONG_NAMES.iter().find(|(known, _)| *known == wanted);
    find(&both)
        .or_else(|| find(program))
        .map_or(&[], |(_, names)| *names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unordered(command: &str) -> Unordered {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        Unordered::of(&argv).unwrap()
    }

    #[test]
    fn a_flag_is_found_however_it_is_written() {
        let cases = [
            ("rm -fr x", "-r", true),
            ("rm -fr x", "-rf", true),
            ("rm --recursive x", "-r", true),
            ("rm --recurs x", "-r", true),
            ("rm -R x", "--recursive", true),
            ("rm -f x", "-rf", false),
            ("git reset -q --hard x", "--hard", true),
            ("git reset --har x", "--hard", true),
            ("git push --force x", "--force-with-lease", false),
            ("git push -f x", "--force", true),
            ("curl --output=x u", "--output", true),
            ("curl --output x u", "--output=x", true),
            ("curl -X DELETE u", "-XDELETE", true),
            ("rm -- -rf", "-rf", false),
            ("rm -- x", "--", true),
            ("ls --h x", "--", false),
        ];
        for (command, flag, expected) in cases {
            assert_eq!(
                unordered(command).has_flag(flag),
                expected,
                "{command}: {flag}"
            );
        }
    }

    #[test]
    fn what_may_be_a_value_is_no_certain_operand() {
        let found = unordered("curl -XPOST -o f --data=x u -v");
        let operands: Vec<_> = found
            .operands
            .iter()
            .map(|one| (one.text.as_str(), one.is_optional))
            .collect();
        let expected = [
            ("curl", false),
            ("POST", true),
            ("f", true),
            ("x", true),
            ("u", false),
        ];
        assert_eq!(operands, expected);
        assert_eq!(Unordered::of(&["rm".to_owned(), "x".to_owned()]), None);
    }
}
