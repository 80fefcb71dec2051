//! Renders `$` paths: `$.items[0].name`, `$["odd name"]`.
//!
//! Never holds a value, only names and positions.

use std::fmt::Write;

/// Longest name shown in a path or message, in characters; the rest is cut and marked with `…`.
const NAME_CHARS_MAX: usize = 64;

/// One step from a container to what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Into the property of that name.
    Name(&'a str),
    /// Into the item at that position.
    Index(usize),
}

/// Renders steps, outermost first, as a `$` path.
pub(crate) fn render<'a>(steps: impl IntoIterator<Item = Step<'a>>) -> String {
    let mut path = String::from("$");
    for step in steps {
        push(&mut path, step);
    }
    path
}

/// Appends one step to a path that is already rendered.
pub(crate) fn push(path: &mut String, step: Step<'_>) {
    // Writing to a `String` cannot fail.
    let _ = match step {
        Step::Index(index) => write!(path, "[{index}]"),
        Step::Name(name) if is_plain(name) => write!(path, ".{name}"),
        Step::Name(name) => write!(path, "[\"{}\"]", shown(name).escape_debug()),
    };
}

/// A name as messages show it: bounded in length.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", name.get(..cut).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// Whether a name needs no quotes: letters, digits, `_`, `$` and `-`, not starting with a digit.
///
/// `$` and `-` are let through because schema keywords and real argument names carry them.
fn is_plain(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX
        && name
            .bytes()
            .next()
            .is_some_and(|first| !first.is_ascii_digit() && first != b'-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-'))
}
