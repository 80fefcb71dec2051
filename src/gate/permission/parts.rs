//! The parts of a command, each as it is shown and as it would be decided for itself.
//!
//! For those who ask why. A decision never looks at them: it has the whole command.

use super::subject::{CommandSubject, Uncovered, View, open_program, segment_for_allow};
use crate::gate::command::{self, Analysis, Segment};

/// One part of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPart {
    /// As written.
    pub text: String,
    /// The words after quotes, escapes and wrappers. Empty: not understood.
    pub words: Vec<String>,
    /// Wrappers that were looked through, by name.
    pub wrappers: Vec<String>,
    /// Why no pattern may allow it. None: one may.
    pub uncovered: Option<String>,
    /// The part as a command of its own.
    pub alone: CommandSubject,
}

impl CommandPart {
    /// The parts of a command, in the order of the text as far as there is one.
    ///
    /// Of a text that cannot be cut up: the whole as one.
    #[must_use]
    pub fn all(text: &str, analysis: &Analysis) -> Vec<Self> {
        let whole = analysis.understood.err().map(|why| why.to_string());
        let segments = analysis.segments.iter().chain(&analysis.others);
        let parts: Vec<Self> = segments
            .map(|segment| Self::of(segment, whole.as_ref()))
            .collect();
        match parts.is_empty() {
            false => parts,
            true => vec![Self {
                text: text.to_owned(),
                words: Vec::new(),
                wrappers: Vec::new(),
                uncovered: whole,
                alone: CommandSubject::of(text, analysis),
            }],
        }
    }

    /// `whole`: why nothing of the text is understood.
    fn of(segment: &Segment, whole: Option<&String>) -> Self {
        let own = segment_for_allow(segment);
        let allowed = match whole {
            Some(why) => Err(Uncovered::unclear(why.clone())),
            None => own,
        };
        let seen = segment.allow_view().ok().filter(|_| whole.is_none());
        let mut alone = CommandSubject::plain(&segment.source);
        alone.views_for_deny = segment.views().iter().map(view).collect();
        alone.open_programs = open_program(segment).into_iter().collect();
        let uncovered = allowed.as_ref().err().map(|one| one.why.clone());
        alone.segments_for_allow = allowed.map(|view| vec![view]);
        Self {
            text: segment.source.clone(),
            words: seen.map_or_else(Vec::new, |seen| seen.view.words.clone()),
            wrappers: seen.map_or_else(Vec::new, |seen| seen.wrappers.clone()),
            uncovered,
            alone,
        }
    }
}

fn view(view: &command::View) -> View {
    View {
        words: view.words.clone(),
        text: view.text.clone(),
        spelled_min: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::command::{Opaque, analyse};

    fn shown(text: &str) -> Vec<(String, String, String, bool)> {
        let parts = CommandPart::all(text, &analyse(text));
        let each = parts.into_iter().map(|part| {
            let is_clear = part.uncovered.is_none();
            let (words, wrappers) = (part.words.join("|"), part.wrappers.join("|"));
            (part.text, words, wrappers, is_clear)
        });
        each.collect()
    }

    fn row(
        text: &str,
        words: &str,
        wrappers: &str,
        is_clear: bool,
    ) -> (String, String, String, bool) {
        (
            text.to_owned(),
            words.to_owned(),
            wrappers.to_owned(),
            is_clear,
        )
    }

    #[cfg(feature = "tree-sitter")]
    #[test]
    fn wrappers_are_named_and_words_stand_without_them() {
        assert_eq!(
            shown("nice timeout 5 git log && ls 'a b'"),
            [
                row("nice timeout 5 git log", "git|log", "nice|timeout", true),
                row("ls 'a b'", "ls|a b", "", true),
            ]
        );
    }

    #[test]
    fn a_part_that_is_not_known_says_why_and_has_no_words() {
        assert_eq!(shown("$x a"), [row("$x a", "", "", false)]);
        let whole = CommandPart::all("a", &Analysis::raw_only("a", Opaque::TimedOut));
        let why: Vec<_> = whole.into_iter().map(|part| part.uncovered).collect();
        assert_eq!(why, [Some(Opaque::TimedOut.to_string())]);
    }
}
