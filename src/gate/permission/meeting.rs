//! Whether a pattern of file names and a word of a rule can mean the same name.
//!
//! For deny and ask rules: what is too much to look at may. Never looks at a file.

/// Most looks at both together.
const LOOKS_MAX: usize = 1 << 20;

/// Whether some name fits both: a shell's `*`, `?` and `[…]` on one side, `*` as a gap on the other.
pub(super) fn may_meet(pattern: &str, word: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let word: Vec<char> = word.chars().collect();
    // Braces and extended patterns may be anything.
    let is_plain = !pattern.iter().any(|one| "{}()".contains(*one));
    if !is_plain || pattern.len() * word.len() > LOOKS_MAX {
        return true;
    }
    let mut places = Places::at_the_start(&word);
    let mut rest = pattern.iter();
    while let Some(character) = rest.next() {
        if *character == '[' {
            rest.by_ref().find(|one| **one == ']');
        }
        places = places.behind(*character, &word);
    }
    places.reached.last() == Some(&true)
}

/// Which places of the word the pattern so far can have led to; a gap may always stand for nothing.
struct Places {
    reached: Vec<bool>,
}

impl Places {
    fn at_the_start(word: &[char]) -> Self {
        let start = std::iter::once(true);
        let places = Self {
            reached: start.chain(word.iter().map(|_| false)).collect(),
        };
        places.over_gaps(word)
    }

    fn behind(&self, character: char, word: &[char]) -> Self {
        if character == '*' {
            // Any text, also none: every place from the first on.
            let mut is_reached = false;
            let reached = self.reached.iter().map(|here| {
                is_reached |= *here;
                is_reached
            });
            return Self {
                reached: reached.collect(),
            };
        }
        let any = matches!(character, '?' | '[');
        // A gap takes the character and goes on; a letter is passed if it fits.
        let stays = |at: usize| self.is_at(at) && word.get(at) == Some(&'*');
        let passes = |at: usize| {
            let other = word.get(at).filter(|other| **other != '*');
            self.is_at(at) && other.is_some_and(|other| any || *other == character)
        };
        let places = 0..self.reached.len();
        let reached = places.map(|at| stays(at) || at.checked_sub(1).is_some_and(passes));
        let next = Self {
            reached: reached.collect(),
        };
        next.over_gaps(word)
    }

    fn over_gaps(mut self, word: &[char]) -> Self {
        for (at, _) in word.iter().enumerate().filter(|(_, one)| **one == '*') {
            let is_here = self.is_at(at);
            if let Some(next) = self.reached.get_mut(at + 1) {
                *next |= is_here;
            }
        }
        self
    }

    fn is_at(&self, at: usize) -> bool {
        self.reached.get(at) == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_names_meets_a_word_if_some_name_fits_both() {
        let cases = [
            (".en?", "*.env*", true),
            (".e*", "*.env", true),
            (".en[v]", "*.env*", true),
            ("src/*.rs", "*.env*", true),
            ("*.rs", "*.env", false),
            ("src/?.rs", "*.env*", false),
            ("s?cret", "*secret*", true),
            ("a/.en?", "*/.env", true),
            (".gi?", "*.env*", false),
            ("{a,b}", "*x", true),
        ];
        for (pattern, word, expected) in cases {
            assert_eq!(may_meet(pattern, word), expected, "{pattern} and {word}");
        }
    }
}
