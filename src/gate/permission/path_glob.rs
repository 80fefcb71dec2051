//! One component of a path pattern: `*`, `?`, `[a-z]` and plain text.
//!
//! Never sees a `/`, and never matches `..`.

/// One component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Component {
    /// `**`: any components, also none.
    Deep,
    /// `..` at the beginning: out of the place it is relative to.
    Parent,
    /// Exactly this name.
    Name(Box<str>),
    /// Names of this form.
    Glob(Box<[Part]>),
}

/// One part of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// This character.
    Char(char),
    /// Any one character.
    One,
    /// Any characters, also none.
    Any,
    /// One character that is, or is not, in these ranges.
    Class {
        negated: bool,
        ranges: Box<[(char, char)]>,
    },
}

impl Component {
    /// Reads a component that is neither empty nor `.` nor `..`.
    pub(super) fn parse(text: &str) -> Self {
        if text == "**" {
            return Component::Deep;
        }
        let characters: Vec<char> = text.chars().collect();
        let mut rest = characters.as_slice();
        let mut parts = Vec::new();
        while let [first, tail @ ..] = rest {
            rest = tail;
            parts.push(match (first, tail) {
                ('\\', [escaped, beyond @ ..]) => {
                    rest = beyond;
                    Part::Char(*escaped)
                }
                ('*', _) if parts.last() == Some(&Part::Any) => continue,
                ('*', _) => Part::Any,
                ('?', _) => Part::One,
                ('[', _) => match class(tail) {
                    Some((part, beyond)) => {
                        rest = beyond;
                        part
                    }
                    None => Part::Char('['),
                },
                (other, _) => Part::Char(*other),
            });
        }
        match parts.iter().map(Part::literal).collect::<Option<String>>() {
            Some(name) => Component::Name(name.into()),
            None => Component::Glob(parts.into()),
        }
    }

    /// Whether a name, not `..`, has this form. `fold`: case does not count.
    pub(super) fn matches(&self, name: &str, fold: bool) -> bool {
        match self {
            Component::Deep => true,
            Component::Parent => name == "..",
            Component::Name(own) => match fold {
                true => folded(own).eq(folded(name)),
                false => **own == *name,
            },
            Component::Glob(parts) => glob(parts, name, fold),
        }
    }

    /// The text from the last `.` on that every match ends with.
    pub(super) fn extension(&self) -> Option<String> {
        let Component::Glob(parts) = self else {
            return None;
        };
        let literal = parts.iter().rev().map_while(Part::literal);
        let end: String = literal.collect::<Vec<_>>().iter().rev().copied().collect();
        end.rfind('.')
            .and_then(|at| end.get(at..))
            .map(str::to_owned)
    }
}

impl Part {
    fn literal(&self) -> Option<char> {
        match self {
            Part::Char(character) => Some(*character),
            Part::One | Part::Any | Part::Class { .. } => None,
        }
    }

    fn takes(&self, character: char, fold: bool) -> bool {
        match self {
            Part::Any | Part::One => true,
            Part::Char(own) if fold => own.to_lowercase().eq(character.to_lowercase()),
            Part::Char(own) => *own == character,
            Part::Class { negated, ranges } => {
                let holds =
                    |one: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&one));
                let found = holds(character)
                    || (fold
                        && (character.to_lowercase().any(holds)
                            || character.to_uppercase().any(holds)));
                found != *negated
            }
        }
    }
}

/// The characters of a name with their case taken away, each by itself.
pub(super) fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_lowercase)
}

/// Reads what follows `[` up to its `]`, if there is one.
fn class(text: &[char]) -> Option<(Part, &[char])> {
    let (negated, mut rest) = match text {
        ['!' | '^', tail @ ..] => (true, tail),
        tail => (false, tail),
    };
    let mut ranges = Vec::new();
    loop {
        let (range, beyond) = match rest {
            [']', beyond @ ..] if !ranges.is_empty() => {
                let ranges = ranges.into();
                return Some((Part::Class { negated, ranges }, beyond));
            }
            ['\\', one, beyond @ ..] => ((*one, *one), beyond),
            [from, '-', to, beyond @ ..] if *to != ']' => ((*from, *to), beyond),
            [one, beyond @ ..] => ((*one, *one), beyond),
            [] => return None,
        };
        ranges.push(range);
        rest = beyond;
    }
}

/// Matches with one place to fall back to: the last `*`.
fn glob(parts: &[Part], name: &str, fold: bool) -> bool {
    let (mut parts, mut rest) = (parts, name.chars());
    let mut last_star = None;
    loop {
        match parts {
            [Part::Any, tail @ ..] => {
                parts = tail;
                last_star = Some((tail, rest.clone()));
                continue;
            }
            [part, tail @ ..] => {
                let mut ahead = rest.clone();
                if ahead.next().is_some_and(|next| part.takes(next, fold)) {
                    (parts, rest) = (tail, ahead);
                    continue;
                }
            }
            [] if rest.as_str().is_empty() => return true,
            [] => {}
        }
        // One character more for the last star, and again from there.
        let Some((after_star, mut from)) = last_star else {
            return false;
        };
        if from.next().is_none() {
            return false;
        }
        (parts, rest) = (after_star, from.clone());
        last_star = Some((after_star, from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_by_their_form() {
        let cases = [
            ("*.rs", "a.rs", true),
            ("*.rs", "a.rsx", false),
            ("a*b*c", "aXbYbc", true),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[x", "[x", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            (".env*", ".env.local", true),
        ];
        for (pattern, name, expected) in cases {
            let found = Component::parse(pattern).matches(name, false);
            assert_eq!(found, expected, "`{pattern}` on `{name}`");
        }
    }

    #[test]
    fn case_counts_only_where_it_does() {
        assert!(Component::parse("Ab*").matches("aBc", true));
        assert!(!Component::parse("Ab*").matches("aBc", false));
        assert!(Component::parse("[A-C]").matches("b", true));
        assert!(Component::parse("ÄB").matches("äb", true));
    }

    #[test]
    fn the_extension_is_what_follows_the_last_dot() {
        let extension = |text| Component::parse(text).extension();
        assert_eq!(extension("*.tar.gz"), Some(".gz".to_owned()));
        assert_eq!(extension("*.env"), Some(".env".to_owned()));
        assert_eq!(extension("*rc"), None);
        assert_eq!(extension("*.*"), None);
    }
}
