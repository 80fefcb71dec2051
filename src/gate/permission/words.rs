//! Text cut into words, as a shell would without doing anything else.
//!
//! For patterns, and for commands of one plain word list. Never splits commands at operators: that is
//! the analysis of commands, which hands its findings in.

use super::wild::is_escapable;

/// One atom of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atom {
    /// Exactly this character.
    Char(char),
    /// A gap.
    Star,
    /// Where one word ends and the next begins.
    Blank,
}

/// Reads a pattern's words: quotes and backslashes taken away, a star in quotes is a star.
pub(super) fn shell_atoms(text: &str) -> Vec<Atom> {
    Reader::new(text, quotes_close(text)).atoms(Star::OutsideQuotes)
}

/// Reads a pattern as text: quotes stand for themselves, every star that is not escaped is a gap.
pub(super) fn raw_atoms(text: &str) -> Vec<Atom> {
    Reader::new(text, false).atoms(Star::Everywhere)
}

/// Reads a pattern's words: quotes and backslashes taken away, every star that is not escaped is a gap.
pub(super) fn widest_atoms(text: &str) -> Vec<Atom> {
    Reader::new(text, quotes_close(text)).atoms(Star::Everywhere)
}

/// The words of a command that is nothing but words, or why it is more than that.
pub(super) fn plain_words(text: &str) -> Result<Vec<String>, &'static str> {
    if !quotes_close(text) {
        return Err("a quote is not closed");
    }
    if let Some(problem) = beyond_words(text) {
        return Err(problem);
    }
    let mut words = vec![String::new()];
    for atom in shell_atoms(text) {
        match (atom, words.last_mut()) {
            (Atom::Char(character), Some(word)) => word.push(character),
            (Atom::Star, Some(word)) => word.push('*'),
            (Atom::Blank, _) | (_, None) => words.push(String::new()),
        }
    }
    if text.trim().is_empty() {
        return Err("the command is empty");
    }
    Ok(words)
}

/// Text with every run of blanks as one, and none at the ends.
pub(super) fn with_single_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// What a shell would do beyond making words of the text, if anything.
fn beyond_words(text: &str) -> Option<&'static str> {
    let mut quote = None;
    let mut rest = text.trim().chars();
    while let Some(character) = rest.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('\''), _) => {}
            (_, '$' | '`') => return Some("the shell would put something in"),
            (_, '\\') => {
                rest.next()?;
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '\n') => {
                return Some("it is more than one simple command");
            }
            (None, '*' | '?' | '[' | '{' | '~' | '#' | '!' | '=') => {
                return Some("the shell would read a character specially");
            }
            (None, _) => {}
        }
    }
    None
}

/// Whether every quote has its partner.
pub(super) fn quotes_close(text: &str) -> bool {
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match (quote, character) {
            (Some('\''), '\\') => {}
            (_, '\\') => {
                rest.next();
            }
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (Some(_) | None, _) => {}
        }
    }
    quote.is_none()
}

/// Which stars are gaps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Star {
    OutsideQuotes,
    Everywhere,
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// Quotes and backslashes are the shell's.
    shell: bool,
    quote: Option<char>,
    atoms: Vec<Atom>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, shell: bool) -> Self {
        Self {
            rest: text.trim().chars().peekable(),
            shell,
            quote: None,
            atoms: Vec::new(),
        }
    }

    fn atoms(mut self, star: Star) -> Vec<Atom> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape(),
                '\'' | '"' if self.shell && self.toggles(character) => {}
                '*' if self.quote.is_none() || star == Star::Everywhere => {
                    self.atoms.push(Atom::Star);
                }
                blank if blank.is_whitespace() && self.quote.is_none() => self.blank(),
                other => self.atoms.push(Atom::Char(other)),
            }
        }
        self.atoms
    }

    /// Whether the quote opens or closes, rather than standing for itself.
    fn toggles(&mut self, quote: char) -> bool {
        match self.quote {
            None => self.quote = Some(quote),
            Some(open) if open == quote => self.quote = None,
            Some(_) => return false,
        }
        true
    }

    fn escape(&mut self) {
        let is_text = self.shell && self.quote == Some('\'');
        let taken = match self.rest.peek() {
            Some(next) if is_escapable(next) && !is_text => self.rest.next(),
            Some('"' | '$' | '`' | '\n') if self.quote == Some('"') => self.rest.next(),
            Some(_) if self.shell && self.quote.is_none() => self.rest.next(),
            Some(_) | None => None,
        };
        match taken {
            Some('\n') if self.shell => {}
            taken => self.atoms.push(Atom::Char(taken.unwrap_or('\\'))),
        }
    }

    fn blank(&mut self) {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
        if self.rest.peek().is_some() {
            self.atoms.push(Atom::Blank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_where_a_shell_cuts_them() {
        let words = |text| plain_words(text).unwrap();
        assert_eq!(
            words("git  commit\t-m 'a b'"),
            ["git", "commit", "-m", "a b"]
        );
        assert_eq!(words(r#"a "b \" c" d\ e"#), ["a", r#"b " c"#, "d e"]);
        assert_eq!(words("a '' b"), ["a", "", "b"]);
        assert_eq!(words(r"r\m 'a'b"), ["rm", "ab"]);
    }

    #[test]
    fn what_is_more_than_words_is_said() {
        let texts = [
            "a; b",
            "a && b",
            "a | b",
            "a > f",
            "a $b",
            "a `b`",
            "a \"$(b)\"",
            "a\nb",
            "ls *",
            "(a)",
            "a 'b",
            "A=b c",
            "",
            " ",
        ];
        for text in texts {
            assert!(plain_words(text).is_err(), "`{text}`");
        }
    }

    #[test]
    fn a_star_in_quotes_is_a_star_where_words_count() {
        assert!(!shell_atoms("find -name '*.rs'").contains(&Atom::Star));
        assert!(raw_atoms("find -name '*.rs'").contains(&Atom::Star));
        assert!(!raw_atoms(r"echo \*").contains(&Atom::Star));
    }
}
