//! Lines on standard output and notes on standard error.
//!
//! Standard output is data: the table, or one JSON line. Never buffers.

use std::io::Write;

/// One line of data. Nothing can be done about a reader that is gone.
pub(crate) fn data(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// One line for the person who waits.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
