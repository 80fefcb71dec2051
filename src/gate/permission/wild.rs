//! Text with gaps: the one matcher below commands, texts and tool names.
//!
//! Follows all possibilities at once, so a pattern of `n` pieces on a text of `m` bytes costs at most
//! `n × m` looks, whatever either holds. Never looks at a second text.

/// Stands between the words of a command where their bounds count. No word can hold it.
pub(super) const WORD_END: char = '\0';

/// One piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Exactly this text.
    Text(Box<str>),
    /// Any text, also none.
    Any,
    /// None, or any text that ends with this character.
    Gap(char),
    /// The end, or one of these characters and any text after it.
    Rest(&'static [char]),
}

/// A text with gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wild {
    pieces: Box<[Piece]>,
}

/// Where in the text the pieces so far can have led.
enum Spots {
    /// Exactly there, ascending.
    At(Vec<usize>),
    /// Anywhere from there on.
    From(usize),
}

impl Wild {
    /// A pattern of these pieces.
    pub(super) fn new(pieces: Vec<Piece>) -> Self {
        Self {
            pieces: pieces.into(),
        }
    }

    /// Reads text in which `*` is a gap and `\*` a star.
    #[must_use]
    pub(super) fn of_text(text: &str) -> Self {
        let mut pieces = Pieces::default();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\\' => pieces.text(rest.next_if(is_escapable).unwrap_or('\\')),
                '*' => pieces.piece(Piece::Any),
                other => pieces.text(other),
            }
        }
        Self::new(pieces.finish())
    }

    /// The words before the first gap that no gap can prolong.
    pub(super) fn literal_words(&self) -> Vec<&str> {
        let (text, is_whole) = match &*self.pieces {
            [Piece::Text(text)] => (&**text, true),
            [Piece::Text(text), ..] => (&**text, false),
            _ => return Vec::new(),
        };
        let mut words: Vec<&str> = text.split(' ').collect();
        if !is_whole {
            words.pop();
        }
        words
    }

    /// Whether the whole text fits.
    #[must_use]
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut spots = Spots::At(vec![0]);
        for piece in &self.pieces {
            spots = match piece {
                Piece::Text(part) => after_text(spots, part, text),
                Piece::Any => Spots::From(spots.first()),
                Piece::Gap(end) => after_gap(spots, *end, text),
                Piece::Rest(start) => return has_rest(spots, start, text),
            };
            if spots.is_nowhere() {
                return false;
            }
        }
        match spots {
            Spots::At(places) => places.last() == Some(&text.len()),
            Spots::From(_) => true,
        }
    }
}

/// What a backslash makes ordinary in a rule.
pub(super) fn is_escapable(character: &char) -> bool {
    matches!(character, '*' | '\\' | '(' | ')')
}

impl Spots {
    fn first(&self) -> usize {
        match self {
            Spots::At(places) => places.first().copied().unwrap_or_default(),
            Spots::From(place) => *place,
        }
    }

    fn is_nowhere(&self) -> bool {
        matches!(self, Spots::At(places) if places.is_empty())
    }
}

fn tail(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or_default()
}

fn after_text(spots: Spots, part: &str, text: &str) -> Spots {
    Spots::At(match spots {
        Spots::At(mut places) => {
            places.retain(|place| tail(text, *place).starts_with(part));
            places.iter().map(|place| place + part.len()).collect()
        }
        Spots::From(place) => ends_of(part, text, place),
    })
}

/// Every place behind an occurrence of `part`, also of those that overlap.
fn ends_of(part: &str, text: &str, mut from: usize) -> Vec<usize> {
    let step = part.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    while let Some(at) = tail(text, from).find(part) {
        found.push(from + at + part.len());
        from += at + step;
    }
    found
}

fn after_gap(spots: Spots, end: char, text: &str) -> Spots {
    let first = spots.first();
    let Spots::At(mut places) = spots else {
        return Spots::From(first);
    };
    let jumps = tail(text, first).match_indices(end);
    places.extend(jumps.map(|(at, found)| first + at + found.len()));
    places.sort_unstable();
    places.dedup();
    Spots::At(places)
}

fn has_rest(spots: Spots, start: &[char], text: &str) -> bool {
    match spots {
        Spots::At(places) => places.iter().any(|place| {
            let rest = tail(text, *place);
            rest.is_empty() || rest.starts_with(start)
        }),
        Spots::From(_) => true,
    }
}

/// Collects pieces, joining neighbours.
#[derive(Default)]
pub(super) struct Pieces {
    done: Vec<Piece>,
    text: String,
}

impl Pieces {
    pub(super) fn text(&mut self, character: char) {
        self.text.push(character);
    }

    pub(super) fn piece(&mut self, piece: Piece) {
        self.flush();
        let repeated = piece == Piece::Any && self.done.last() == Some(&Piece::Any);
        if !repeated {
            self.done.push(piece);
        }
    }

    pub(super) fn finish(mut self) -> Vec<Piece> {
        self.flush();
        self.done
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.done.push(Piece::Text(text.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        let cases = [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("*aab", "aaab", true),
            ("a*", "a", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a**b*", "aXb", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\b", r"a\b", true),
            ("é*é", "éxé", true),
        ];
        for (pattern, text, expected) in cases {
            let found = Wild::of_text(pattern).matches(text);
            assert_eq!(found, expected, "`{pattern}` on `{text}`");
        }
    }

    #[test]
    fn a_gap_is_nothing_or_whole_words() {
        let text = |part: &str| Piece::Text(part.into());
        let wild = Wild::new(vec![text("a "), Piece::Gap(' '), text("b")]);
        assert!(wild.matches("a b") && wild.matches("a x b") && wild.matches("a x y b"));
        assert!(!wild.matches("a xb") && !wild.matches("ab"));
        let rest = Wild::new(vec![text("a"), Piece::Rest(&[' '])]);
        assert!(rest.matches("a") && rest.matches("a b") && !rest.matches("ab"));
    }

    #[test]
    fn many_stars_on_a_long_text_end() {
        let pattern = Wild::of_text(&"a*".repeat(500));
        assert!(!pattern.matches(&format!("{}b", "ab".repeat(100))));
        assert!(pattern.matches(&"a".repeat(2_000)));
    }
}
