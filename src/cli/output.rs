//! How commands end and print.
//!
//! The only file that writes to stdout and stderr, but for the panel, which has the terminal to itself. Never
//! colours: output reads the same everywhere.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use super::visible::visible_lines;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Fine.
    Fine,
    /// The answer is "no".
    No(String),
    /// It could not be told.
    Failed(String),
    /// Wrong usage or configuration.
    Usage(String),
}

impl Outcome {
    pub(super) fn no(message: impl Into<String>) -> Self {
        Outcome::No(message.into())
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Outcome::Failed(message.into())
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Outcome::Usage(message.into())
    }

    pub(super) fn exit(self) -> ExitCode {
        let (code, message) = match self {
            Outcome::Fine => return ExitCode::SUCCESS,
            Outcome::No(message) => (1, message),
            Outcome::Failed(message) => (2, message),
            Outcome::Usage(message) => (64, message),
        };
        if !message.is_empty() {
            note(&format!("callgate: {message}"));
        }
        ExitCode::from(code)
    }
}

/// From a command's result to its outcome.
pub(super) fn outcome(result: Result<(), Outcome>) -> Outcome {
    result.err().unwrap_or(Outcome::Fine)
}

/// Prints a line that holds text of others: as it is into a file or a pipe, and on a terminal with what the
/// terminal would obey made visible.
pub(super) fn foreign(line: &str) {
    match std::io::stdout().is_terminal() {
        true => visible_lines(line).for_each(|line| data(&line)),
        false => data(line),
    }
}

/// Prints one line of data. A closed pipe ends the data, not the program.
pub(super) fn data(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Prints one line for people.
pub(super) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints what clap has to say; help and version are data, everything else is wrong usage.
pub(super) fn clap_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    match error.use_stderr() {
        true => ExitCode::from(64),
        false => ExitCode::SUCCESS,
    }
}

/// A table with columns as wide as their widest cell.
pub(super) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
