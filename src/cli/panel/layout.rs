//! How text fits a screen: breaking, cutting, packing.
//!
//! Counts columns as terminals do. Never drops a character except where it says so.

use ratatui::text::Span;

use crate::cli::approval_text::Line;

/// Fewest columns that a decision can be shown on.
pub(super) const COLUMNS_MIN: u16 = 40;
/// Fewest rows.
pub(super) const ROWS_MIN: u16 = 10;
/// Rows above the body of a review: what it is, and how it stands.
pub(super) const HEAD_ROWS: usize = 2;
/// Rows of what the panel has to say, above the keys.
pub(super) const NOTICE_ROWS: usize = 2;

/// Size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: u16,
    pub(super) rows: u16,
}

impl Size {
    /// Whether nothing can be decided here because it could not be read.
    pub(super) fn is_too_small(self) -> bool {
        self.columns < COLUMNS_MIN || self.rows < ROWS_MIN
    }

    pub(super) fn width(self) -> usize {
        usize::from(self.columns)
    }

    pub(super) fn height(self) -> usize {
        usize::from(self.rows)
    }
}

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => Span::raw(text).width(),
    }
}

fn width_of(character: char) -> usize {
    match character.is_ascii() {
        true => 1,
        false => Span::raw(character.encode_utf8(&mut [0; 4]) as &str).width(),
    }
}

/// The line on as many rows as it needs.
pub(super) fn wrap(line: &Line, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = line.first.to_owned();
    let mut used = width(line.first);
    // Of a row that is all indent nothing would ever be shown.
    let columns = columns.max(width(line.rest) + 2);
    for character in line.text.chars() {
        let wide = width_of(character);
        if used + wide > columns {
            rows.push(std::mem::replace(&mut row, line.rest.to_owned()));
            used = width(line.rest);
        }
        row.push(character);
        used += wide;
    }
    rows.push(row);
    rows
}

/// Plain text on as many rows as it needs.
pub(super) fn wrap_text(text: &str, columns: usize) -> Vec<String> {
    let line = Line {
        first: "",
        rest: "",
        text: text.to_owned(),
    };
    wrap(&line, columns)
}

/// The text in at most so many columns. What is left out is shown by dots.
pub(super) fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = width_of(character);
        if used + wide + 2 > columns {
            break;
        }
        out.push(character);
        used += wide;
    }
    out.push_str("..");
    out.truncate(out.len().min(out.len() - 2 + columns.min(2)));
    out
}

/// The text in exactly so many columns.
pub(super) fn column(text: &str, columns: usize) -> String {
    let mut text = fit(text, columns);
    let missing = columns.saturating_sub(width(&text));
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

/// Labels side by side, on as few rows as they fit on.
pub(super) fn pack(labels: &[&str], columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for label in labels {
        match rows.last_mut() {
            Some(row) if width(row) + 2 + width(label) <= columns => {
                row.push_str("  ");
                row.push_str(label);
            }
            Some(_) | None => rows.push((*label).to_owned()),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(first: &'static str, rest: &'static str, text: &str) -> Line {
        Line {
            first,
            rest,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_long_line_is_broken_and_nothing_of_it_is_lost() {
        let rows = wrap(&line("| ", "|> ", "abcdefghijkl"), 8);
        assert_eq!(rows, ["| abcdef", "|> ghijk", "|> l"]);
        assert_eq!(wrap(&line("", "  ", ""), 8), [""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(wrap(&line("", "", "世界世界x"), 4), ["世界", "世界", "x"]);
        assert_eq!(fit("世界世界", 7), "世界..");
        assert_eq!(column("世", 4), "世  ");
    }

    #[test]
    fn a_row_narrower_than_its_indent_still_shows_the_text() {
        let rows = wrap(&line("", "          ", "abcdef"), 1);
        assert!(rows.concat().replace(' ', "").contains("abcdef"));
    }

    #[test]
    fn what_does_not_fit_is_cut_with_dots() {
        let cases = [
            ("abc", 3, "abc"),
            ("abcd", 3, "a.."),
            ("abcd", 1, "."),
            ("abcd", 0, ""),
        ];
        for (text, columns, expected) in cases {
            assert_eq!(fit(text, columns), expected);
        }
    }

    #[test]
    fn labels_are_packed() {
        assert_eq!(
            pack(&["a one", "b two", "c three"], 14),
            ["a one  b two", "c three"]
        );
    }
}
