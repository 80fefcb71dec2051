//! One word of a command, as the shell would see it after quotes are removed.
//!
//! Never expands anything but braces: what an expansion would give is not known here.

use super::limits;

/// How much of a word is known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WordKind {
    /// Exactly its text.
    Literal,
    /// A pattern of file names: its text, if no file matches.
    Pattern,
    /// Holds an expansion, braces, or a tilde other than the own home directory.
    Dynamic,
}

/// One word of a command.
#[derive(Debug, Clone)]
pub struct Word {
    /// As written, quotes included. What the other parser read may differ here.
    pub source: String,
    /// Quotes and escapes removed, expansions as written.
    pub text: String,
    /// How much of `text` is known.
    pub kind: WordKind,
    /// `text` without the expansions.
    known: String,
    /// Where in `text` unquoted braces and commas are, in bytes.
    braces: Vec<usize>,
}

impl Word {
    /// A word without anything that the shell would change.
    #[must_use]
    pub fn literal(text: &str) -> Word {
        Word {
            source: text.to_owned(),
            text: text.to_owned(),
            kind: WordKind::Literal,
            known: text.to_owned(),
            braces: Vec::new(),
        }
    }

    /// A word of which nothing is known, shown as `text`.
    #[must_use]
    pub(super) fn dynamic(text: &str) -> Word {
        Word {
            kind: WordKind::Dynamic,
            known: String::new(),
            ..Word::literal(text)
        }
    }

    /// What is left of the word if its expansions are empty.
    pub(super) fn known(&self) -> &str {
        &self.known
    }

    /// What two readings of one word have in common, if they are the same.
    pub(super) fn key(&self) -> (&str, WordKind) {
        (&self.text, self.kind)
    }

    /// The words that its braces make of it, at most [`limits::BRACE_WORDS_MAX`]; itself if none.
    pub(super) fn braced(&self) -> Vec<String> {
        let mut done = Vec::new();
        let mut open: Vec<Marked> = vec![self.marked()];
        while let Some(next) = open.pop() {
            let room = limits::BRACE_WORDS_MAX.saturating_sub(done.len() + open.len());
            match first_group(&next) {
                Some(group) if group.members.len() <= room => {
                    // The last one is looked at first, so they go in backwards.
                    let members = group.members.iter().rev();
                    open.extend(members.map(|member| group.with(member)));
                }
                _ => done.push(next.iter().map(|(character, _)| character).collect()),
            }
        }
        done
    }

    fn marked(&self) -> Marked {
        let characters = self.text.char_indices();
        characters
            .map(|(at, character)| (character, self.braces.binary_search(&at).is_ok()))
            .collect()
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Word {}

/// Characters with whether each is an unquoted brace or comma.
type Marked = Vec<(char, bool)>;

struct Group {
    before: Marked,
    members: Vec<Marked>,
    after: Marked,
}

impl Group {
    fn with(&self, member: &[(char, bool)]) -> Marked {
        [&self.before, member, &self.after].concat()
    }
}

/// The first braces with a comma in them.
fn first_group(word: &[(char, bool)]) -> Option<Group> {
    let starts = word.iter().enumerate();
    for (start, _) in starts.filter(|(_, mark)| **mark == ('{', true)) {
        let mut depth = 0_usize;
        let mut cuts = vec![start];
        for (at, mark) in word.iter().enumerate().skip(start) {
            match mark {
                ('{', true) => depth += 1,
                ('}', true) => depth -= 1,
                (',', true) if depth == 1 => cuts.push(at),
                _ => {}
            }
            if depth == 0 {
                cuts.push(at);
                break;
            }
        }
        if depth == 0 && cuts.len() > 2 {
            return group_at(word, &cuts);
        }
    }
    None
}

fn group_at(word: &[(char, bool)], cuts: &[usize]) -> Option<Group> {
    let pairs = cuts.iter().zip(cuts.iter().skip(1));
    let members = pairs.map(|(from, to)| word.get(from + 1..*to).map(<[_]>::to_vec));
    Some(Group {
        before: word.get(..*cuts.first()?)?.to_vec(),
        members: members.collect::<Option<_>>()?,
        after: word.get(cuts.last()? + 1..)?.to_vec(),
    })
}

/// Puts a word together from its pieces, in their order.
#[derive(Debug, Default)]
pub(super) struct WordBuilder {
    text: String,
    known: String,
    pattern: bool,
    bracket: bool,
    dynamic: bool,
    braces: Vec<usize>,
    /// The last character, if it was not quoted.
    last_plain: Option<char>,
    tilde_start: bool,
}

impl WordBuilder {
    /// Text outside of quotes, without escapes.
    pub(super) fn plain(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '*' | '?' => self.pattern = true,
                '[' => self.bracket = true,
                ']' => self.pattern |= self.bracket,
                '{' | '}' | ',' => self.braces.push(self.text.len()),
                '~' if self.text.is_empty() => self.tilde_start = true,
                // Of a user, or in what may be taken for an assignment.
                '~' if matches!(self.last_plain, Some('=' | ':')) => self.dynamic = true,
                _ => {}
            }
            self.text.push(character);
            self.known.push(character);
            self.last_plain = Some(character);
        }
    }

    /// Text in quotes or behind a backslash.
    pub(super) fn quoted(&mut self, text: &str) {
        self.text.push_str(text);
        self.known.push_str(text);
        self.last_plain = None;
    }

    /// Text in double quotes: a backslash before a line break joins the lines.
    pub(super) fn double_quoted(&mut self, text: &str) {
        self.quoted(&text.replace("\\\n", ""));
    }

    /// What stands between `$'` and `'`.
    pub(super) fn ansi_c(&mut self, inner: &str) {
        match decode_ansi_c(inner) {
            Some(text) => {
                self.quoted(&text);
                // Shells differ in these.
                self.dynamic |= inner.contains("\\x{") || inner.contains("\\c");
            }
            None => self.expansion(inner),
        }
    }

    /// An expansion, as written.
    pub(super) fn expansion(&mut self, source: &str) {
        self.text.push_str(source);
        self.dynamic = true;
        self.last_plain = None;
    }

    /// Marks the word as not known, for what leaves no text of its own.
    pub(super) fn unknown(&mut self) {
        self.dynamic = true;
    }

    /// Ends the word that was written as `source`.
    pub(super) fn finish(mut self, source: &str) -> Word {
        if self.tilde_start && !self.text.get(1..).is_some_and(is_own_home) {
            self.dynamic = true;
        }
        let kind = if self.dynamic || self.has_braces() {
            WordKind::Dynamic
        } else if self.pattern {
            WordKind::Pattern
        } else {
            WordKind::Literal
        };
        self.braces.sort_unstable();
        Word {
            source: source.to_owned(),
            text: self.text,
            kind,
            known: self.known,
            braces: self.braces,
        }
    }

    /// Whether the shell would take unquoted braces apart: a comma or two dots between them.
    fn has_braces(&self) -> bool {
        let bytes = self.text.as_bytes();
        let find = |wanted: u8| {
            let mut found = self.braces.iter().copied();
            found.find(move |at| bytes.get(*at) == Some(&wanted))
        };
        let Some(start) = find(b'{') else {
            return false;
        };
        let commas = self.braces.iter().copied();
        let mut later = commas.filter(|at| *at > start);
        let comma = later.any(|at| bytes.get(at) == Some(&b','));
        let dots = self
            .text
            .get(start..)
            .is_some_and(|rest| rest.contains(".."));
        comma || dots
    }
}

fn is_own_home(behind_tilde: &str) -> bool {
    behind_tilde.is_empty() || behind_tilde.starts_with('/')
}

/// Decodes the escapes of `$'…'`; nothing if the bytes are no text.
pub(super) fn decode_ansi_c(inner: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars().peekable();
    while let Some(character) = rest.next() {
        let mut pushed = [0_u8; 4];
        if character != '\\' {
            bytes.extend_from_slice(character.encode_utf8(&mut pushed).as_bytes());
            continue;
        }
        let Some(escape) = rest.next() else {
            bytes.push(b'\\');
            break;
        };
        let decoded = match escape {
            'a' => Some(7),
            'b' => Some(8),
            'e' | 'E' => Some(27),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            '\\' | '\'' | '"' | '?' => Some(escape as u32),
            'x' if rest.peek() == Some(&'{') => {
                rest.next();
                let value = number(&mut rest, 16, usize::MAX).unwrap_or(0);
                rest.next_if_eq(&'}');
                Some(value & 0xff)
            }
            'x' => number(&mut rest, 16, 2).map(|value| value & 0xff),
            'u' => {
                push_scalar(&mut bytes, number(&mut rest, 16, 4)?)?;
                continue;
            }
            'U' => {
                push_scalar(&mut bytes, number(&mut rest, 16, 8)?)?;
                continue;
            }
            'c' => rest.next().map(|control| (control as u32) & 0x1f),
            '0'..='7' => {
                let first = escape.to_digit(8)?;
                let more = octal_rest(&mut rest, first);
                Some(more & 0xff)
            }
            _ => None,
        };
        match decoded {
            // The shell ends the string there.
            Some(0) => break,
            Some(value) => bytes.push(u8::try_from(value).ok()?),
            None => {
                bytes.push(b'\\');
                bytes.extend_from_slice(escape.encode_utf8(&mut pushed).as_bytes());
            }
        }
    }
    String::from_utf8(bytes).ok()
}

type Characters<'text> = std::iter::Peekable<std::str::Chars<'text>>;

/// Reads up to `digits_max` digits; nothing if there is none.
fn number(rest: &mut Characters<'_>, radix: u32, digits_max: usize) -> Option<u32> {
    let mut value = None;
    for _ in 0..digits_max {
        let Some(digit) = rest.peek().and_then(|next| next.to_digit(radix)) else {
            break;
        };
        rest.next();
        value = Some(
            value
                .unwrap_or(0_u32)
                .wrapping_mul(radix)
                .wrapping_add(digit),
        );
    }
    value
}

fn octal_rest(rest: &mut Characters<'_>, first: u32) -> u32 {
    let mut value = first;
    for _ in 0..2 {
        let Some(digit) = rest.peek().and_then(|next| next.to_digit(8)) else {
            break;
        };
        rest.next();
        value = value * 8 + digit;
    }
    value
}

fn push_scalar(bytes: &mut Vec<u8>, value: u32) -> Option<()> {
    let mut room = [0_u8; 4];
    // What a shell makes of others depends on its locale.
    let character = char::from_u32(value).filter(|one| one.is_ascii() && *one != '\0')?;
    bytes.extend_from_slice(character.encode_utf8(&mut room).as_bytes());
    Some(())
}
