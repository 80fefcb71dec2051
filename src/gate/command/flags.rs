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

    /// Whether one of its flags is this one with that value, attached or behind it.
    pub(in crate::gate) fn has_pair(&self, flag: &str, value: &str) -> bool {
        let has = |pair: String| self.flags.contains(&pair);
        if flag.starts_with("--") {
            return has(format!("{flag}={value}"));
        }
        let mut letters = flag.trim_start_matches('-').chars();
        let Some(last) = letters.next_back() else {
            return false;
        };
        let others = letters.as_str();
        has(format!("-{last}{value}")) && (others.is_empty() || self.has_letters(others))
            || has(format!("{flag}={value}"))
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

type Names = Vec<(&'static str, char)>;

struct Reader<'a> {
    program: &'a str,
    names: Names,
    operands: Vec<Operand>,
    flags: Vec<String>,
    /// All names of the flag that the word before was, if it may take the next one as its value.
    valued: Vec<String>,
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
            valued: Vec::new(),
            is_over: false,
        }
    }

    fn take(&mut self, word: &str) {
        let is_first = self.operands.is_empty();
        if self.is_over || is_first || !(is_flag(word) || word == "--") {
            return self.operand(word);
        }
        self.valued.clear();
        self.flag(word.to_owned());
        if word == "--" {
            self.is_over = true;
            return;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        // It says that the flag is not set.
        if value == Some("false") {
            return;
        }
        let names = self.names_of_flag(name);
        for name in &names {
            self.flag(name.clone());
            if let Some(value) = value {
                self.flag(pair(name, value));
            }
        }
        match value {
            Some(value) => self.value(value),
            None if name.starts_with("--") => self.valued = names,
            None => self.group(name, names),
        }
    }

    fn operand(&mut self, word: &str) {
        let names = std::mem::take(&mut self.valued);
        for name in &names {
            self.flag(pair(name, word));
        }
        self.operands.push(Operand {
            text: word.to_owned(),
            is_optional: !names.is_empty(),
        });
    }

    /// Every name of one flag, with one dash and with two.
    fn names_of_flag(&self, flag: &str) -> Vec<String> {
        let name = flag.trim_start_matches('-');
        let mut letters = name.chars();
        if let (Some(letter), None) = (letters.next(), letters.next()) {
            return self.names_of_letter(letter);
        }
        let mut names = vec![format!("--{name}"), format!("-{name}")];
        let is_long = flag.starts_with("--");
        for (full, letter) in self.names.iter().filter(|_| is_long) {
            if full.starts_with(name) {
                names.push(format!("--{full}"));
                names.push(format!("-{letter}"));
            }
        }
        names
    }

    fn names_of_letter(&self, letter: char) -> Vec<String> {
        let same =
            |(program, from, _): &&(&str, char, char)| *program == self.program && *from == letter;
        let meant = SAME_LETTERS.iter().find(same);
        let meant = meant.map_or(letter, |(_, _, to)| *to);
        let mut names = vec![format!("-{letter}"), format!("-{meant}")];
        let known = self.names.iter().filter(|(_, short)| *short == meant);
        names.extend(known.map(|(full, _)| format!("--{full}")));
        names
    }

    /// `-rf`, or `-n5`, or `-sXPOST`, or `-name`: each letter may be a flag, and what follows it its value.
    /// A flag that takes a value takes all that follows its first letter, so that the same letter further
    /// on says nothing new; that bounds what a long group costs without leaving any of it out.
    fn group(&mut self, word: &str, mut names: Vec<String>) {
        let letters = word.get(1..).unwrap_or_default();
        // `-19` is a number, not two flags.
        let is_number = letters.len() > 1 && letters.chars().all(|letter| letter.is_ascii_digit());
        let mut rest = letters.chars();
        let mut seen = [false; 128];
        while let Some(letter) = rest.next().filter(|_| !is_number) {
            let value = rest.as_str();
            // No program has another letter than these for an option.
            let place = u32::from(letter) as usize;
            let is_new = seen
                .get_mut(place)
                .is_some_and(|seen| !std::mem::replace(seen, true));
            if !is_new && !value.is_empty() {
                continue;
            }
            let spelled = self.names_of_letter(letter);
            for name in &spelled {
                self.flag(name.clone());
                if !value.is_empty() {
                    self.flag(pair(name, value));
                }
            }
            if value.is_empty() {
                names.extend(spelled);
            }
        }
        let mut rest = letters.chars();
        rest.next();
        let value = rest.as_str();
        // One more letter is nearly always one more flag.
        if value.len() > 1 || value.starts_with(|first: char| !first.is_alphabetic()) {
            self.value(value);
        }
        self.valued = names;
    }

    /// What is attached to a flag, and may be its value.
    fn value(&mut self, value: &str) {
        if !value.is_empty() {
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

/// A flag with its value in one word.
fn pair(name: &str, value: &str) -> String {
    match name.chars().nth(2) {
        None => format!("{name}{value}"),
        Some(_) => format!("{name}={value}"),
    }
}

/// The names of the flags of the program, and of its sub-command.
fn names_of(program: &str, argv: &[String]) -> Names {
    let mut subs = argv.iter().skip(1).filter(|word| !is_flag(word));
    let first = subs.next().map_or("", String::as_str);
    let second = subs.next().map_or("", String::as_str);
    let known = [
        program.to_owned(),
        format!("{program} {first}"),
        format!("{program} {first} {second}"),
    ];
    let rows = LONG_NAMES
        .iter()
        .filter(|(row, _)| known.iter().any(|known| row.contains(&known.as_str())));
    rows.flat_map(|(_, names)| names.iter().copied()).collect()
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
            ("terraform apply --auto-approve", "-auto-approve", true),
            ("terraform apply -auto-approve=true", "--auto-approve", true),
            ("docker run --privileged=false x", "--privileged", false),
            ("curl -sXDELETE u", "-XDELETE", true),
            ("kill -19 1", "-9", false),
            ("rm -vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvrf x", "-rf", true),
            (
                "curl -ssssssssssssssssssssssssssssXDELETE u",
                "-XDELETE",
                true,
            ),
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
    fn a_flag_is_found_with_its_value() {
        let cases = [
            ("curl u -X DELETE", "-X", "DELETE", true),
            ("curl u -XDELETE", "-X", "DELETE", true),
            ("curl u -sXDELETE", "-X", "DELETE", true),
            ("curl u -sX DELETE", "-sX", "DELETE", true),
            ("curl u --request=DELETE", "-X", "DELETE", true),
            ("curl u -X DELETE", "--request", "DELETE", true),
            ("curl u -X POST -d DELETE", "-X", "DELETE", false),
            ("terraform apply -var-file x", "-var-file", "x", true),
            ("terraform apply --var-file=x", "-var-file", "x", true),
        ];
        for (command, flag, value, expected) in cases {
            let found = unordered(command).has_pair(flag, value);
            assert_eq!(found, expected, "{command}: {flag} {value}");
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
