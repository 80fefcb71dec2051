//! What a call is about: its subject out of its arguments, or out of a text that stands in for them.
//!
//! Never reads a command: whoever did hands it in.

use super::subject::{CommandSubject, PathSubject, Subject};
use crate::gate::command::Opaque;
use crate::gate::json::Value;
use crate::gate::tool::{DeclaredSubject, SubjectKind};

impl Subject {
    /// The subject of a call. An argument of another type than declared counts as left out.
    ///
    /// `command`: the command cut up, if there is one and somebody did.
    #[must_use]
    pub fn of_call(
        declared: Option<&DeclaredSubject>,
        arguments: Option<Value<'_>>,
        command: Option<&CommandSubject>,
    ) -> Self {
        let Some(declared) = declared else {
            return Subject::Undeclared;
        };
        let value = arguments.and_then(|root| root.pointer(&declared.pointer));
        let Some(value) = value else {
            return Subject::Absent;
        };
        match (value.as_str(), declared.kind) {
            (Some(text), _) => Self::of_text(declared, text, command),
            (None, Some(SubjectKind::Path)) => paths_of(value),
            (None, _) => Subject::Absent,
        }
    }

    /// The subject of a call whose declared argument is that text.
    #[must_use]
    pub fn of_text(
        declared: &DeclaredSubject,
        text: &str,
        command: Option<&CommandSubject>,
    ) -> Self {
        match declared.kind {
            Some(SubjectKind::Command) => {
                Subject::Command(match (command, declared.is_readable_shell()) {
                    (Some(command), true) => command.clone(),
                    (None, true) => CommandSubject::unread(text, Opaque::TimedOut),
                    (_, false) => CommandSubject::unread(text, Opaque::Unsupported),
                })
            }
            Some(SubjectKind::Path) => Subject::Paths(vec![path(text)]),
            Some(SubjectKind::Url) => Subject::Url(text.to_owned()),
            Some(SubjectKind::Text) | None => Subject::Text(text.to_owned()),
        }
    }
}

impl DeclaredSubject {
    /// Whether it is a command of a shell that this gate can read.
    #[must_use]
    pub fn is_readable_command(&self) -> bool {
        self.kind == Some(SubjectKind::Command) && self.is_readable_shell()
    }

    fn is_readable_shell(&self) -> bool {
        matches!(self.dialect.as_str(), "" | "bash" | "sh")
    }
}

/// A list of paths. Anything else in it: nobody can tell what is touched.
fn paths_of(value: Value<'_>) -> Subject {
    let texts: Option<Vec<_>> = value.items().map(|item| item.as_str().map(path)).collect();
    match texts {
        Some(paths) if !paths.is_empty() => Subject::Paths(paths),
        Some(_) | None => Subject::Absent,
    }
}

fn path(text: &str) -> PathSubject {
    PathSubject {
        given: text.to_owned(),
        canonical: None,
    }
}

/// A call as a rule would write it: the tool, and what stands in brackets behind it, up to the last one.
#[must_use]
pub fn written_call(text: &str) -> (&str, Option<&str>) {
    match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').unwrap_or(rest))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_call_ends_with_its_last_bracket() {
        let cases = [
            ("run", ("run", None)),
            ("run()", ("run", Some(""))),
            ("run(ls (a))", ("run", Some("ls (a)"))),
            ("run(ls", ("run", Some("ls"))),
        ];
        for (text, expected) in cases {
            assert_eq!(written_call(text), expected, "{text}");
        }
    }

    #[test]
    fn only_commands_of_a_shell_that_is_read_are_cut_up() {
        let declared = |kind, dialect: &str| DeclaredSubject {
            pointer: String::new(),
            kind,
            dialect: dialect.to_owned(),
        };
        let command = CommandSubject::plain("ls");
        let read = declared(Some(SubjectKind::Command), "sh");
        let found = Subject::of_text(&read, "ls", Some(&command));
        assert_eq!(found, Subject::Command(command.clone()));
        let fish = declared(Some(SubjectKind::Command), "fish");
        let found = Subject::of_text(&fish, "ls", Some(&command));
        let unread = CommandSubject::unread("ls", Opaque::Unsupported);
        assert_eq!(found, Subject::Command(unread));
        let text = declared(Some(SubjectKind::Text), "");
        assert!(!text.is_readable_command() && !fish.is_readable_command());
        assert_eq!(
            Subject::of_text(&text, "ls", None),
            Subject::Text("ls".to_owned())
        );
    }
}
