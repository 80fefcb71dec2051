//! What a call is about, as rules see it.
//!
//! Made by others: commands by their analysis, paths from arguments and the executor's facts. Never
//! asks the machine anything; what nobody said is unknown, and the unknown never helps an allow rule.

use super::words::plain_words;
use crate::gate::command::{
    self, Analysis, AskReason, Candidate, Clarity, Opaque, OpenProgram, Redirection, Segment,
    Suspect, analyse, candidates,
};

/// One view of one segment of a command: as written, unwrapped, by its base name and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The words that would be executed, quotes taken away.
    pub words: Vec<String>,
    /// The text of the segment, or of the whole command, as it stands.
    pub text: String,
    /// How many of its first words a rule that allows must spell; one for most commands.
    pub spelled_min: usize,
}

/// Why no allow rule or grant can cover a command by its segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncovered {
    /// For people. Holds text of the model.
    pub why: String,
    /// Nobody can tell what it would run, so that it is asked about in every mode.
    pub is_unclear: bool,
}

impl Uncovered {
    pub(super) fn unclear(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_unclear: true,
        }
    }
}

/// A command, cut up twice: to be stopped, and to be let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSubject {
    /// The whole command as it was given.
    pub text: String,
    /// Every view of every segment; one match is enough for deny and ask.
    pub views_for_deny: Vec<View>,
    /// One view per segment, all of which an allow rule or grant must cover.
    ///
    /// Or why none can.
    pub segments_for_allow: Result<Vec<View>, Uncovered>,
    /// Programs that get words which are not known before they run.
    pub open_programs: Vec<OpenProgram>,
    /// Commands that programs might run of their words: a deny or ask rule that means one asks.
    pub suspects: Vec<Suspect>,
    /// What a lasting approval of its segments could be about. Empty: none may be offered.
    pub lasting: Vec<Candidate>,
}

impl CommandSubject {
    /// Reads a command that is nothing but words; anything more is not understood.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        let words = plain_words(text);
        let view = View {
            words: words.clone().unwrap_or_default(),
            text: text.to_owned(),
            spelled_min: 1,
        };
        Self {
            text: text.to_owned(),
            views_for_deny: vec![view.clone()],
            segments_for_allow: match words {
                Ok(_) => Ok(vec![view]),
                Err(why) => Err(Uncovered::unclear(why)),
            },
            open_programs: Vec::new(),
            suspects: Vec::new(),
            lasting: Vec::new(),
        }
    }
}

impl CommandSubject {
    /// What a shell would run of the text.
    ///
    /// As [`analyse`]: on a thread with a stack of 16 MiB, where a panic ends nothing.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self::of(text, &analyse(text))
    }

    /// A command that no parser may see: deny and ask rules have its pieces, allow rules nothing.
    #[must_use]
    pub fn unread(text: &str, why: Opaque) -> Self {
        Self::of(text, &Analysis::raw_only(text, why))
    }

    /// What a shell would run of a text that was read.
    #[must_use]
    pub fn of(text: &str, analysis: &Analysis) -> Self {
        let view = |view: &command::View| View {
            words: view.words.clone(),
            text: view.text.clone(),
            spelled_min: 1,
        };
        Self {
            text: text.to_owned(),
            views_for_deny: analysis.views().map(|(_, found)| view(found)).collect(),
            segments_for_allow: segments_of(analysis),
            open_programs: analysis.segments.iter().filter_map(open_program).collect(),
            suspects: analysis.suspects.clone(),
            lasting: candidates(analysis),
        }
    }
}

/// The program of a segment that gets words which are not known.
pub(super) fn open_program(segment: &Segment) -> Option<OpenProgram> {
    match segment.clarity() {
        Clarity::OpenWords(program) => Some(program.clone()),
        Clarity::Known | Clarity::Unclear => None,
    }
}

/// The form of every segment for allow rules, or why they must not be tried.
fn segments_of(analysis: &Analysis) -> Result<Vec<View>, Uncovered> {
    if let Err(opaque) = analysis.understood {
        return Err(Uncovered::unclear(opaque.to_string()));
    }
    let (mut covered, mut uncovered) = (Vec::new(), Vec::new());
    for segment in &analysis.segments {
        match segment_for_allow(segment) {
            Ok(view) => covered.push(view),
            Err(why) => uncovered.push(why),
        }
    }
    // One that is unclear says more than one that no rule happens to cover.
    let worst = uncovered.iter().position(|one| one.is_unclear).unwrap_or(0);
    match uncovered.into_iter().nth(worst) {
        Some(why) => Err(why),
        None => Ok(covered),
    }
}

/// The form of one segment for allow rules, or why they must not be tried.
pub(super) fn segment_for_allow(segment: &Segment) -> Result<View, Uncovered> {
    let uncovered = |reason: &dyn std::fmt::Display| Uncovered {
        why: format!("`{}`: {reason}", segment.source),
        is_unclear: *segment.clarity() == Clarity::Unclear,
    };
    let allowed = segment.allow_view().map_err(|reason| uncovered(&reason))?;
    match allowed.because {
        None | Some(AskReason::OtherSubCommand) => {}
        // A pattern could leave out what matters here; only the whole text as a rule says it all.
        Some(reason) => return Err(uncovered(&reason)),
    }
    if *segment.clarity() == Clarity::Unclear {
        return Err(uncovered(&"what it would run is not known"));
    }
    if segment.after_cd {
        return Err(uncovered(&"the directory may have changed"));
    }
    // No rule can name what is written to yet.
    if !segment.redirections.iter().all(Redirection::is_harmless) {
        return Err(uncovered(&"it writes to a file"));
    }
    Ok(View {
        words: allowed.view.words.clone(),
        text: allowed.view.text.clone(),
        spelled_min: allowed.spelled_min,
    })
}

/// One path, as the model wrote it and as the executor knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSubject {
    /// As the model wrote it.
    pub given: String,
    /// Absolute, links followed. None: the executor did not say.
    pub canonical: Option<String>,
}

/// Whether paths that differ in case only are the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// They are not.
    Sensitive,
    /// They are.
    Insensitive,
    /// Nobody said: deny and ask rules see them as the same, allow rules as different.
    #[default]
    Unknown,
}

/// What parts a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Separator {
    /// `/` only.
    #[default]
    Slash,
    /// `/` and `\`, with drive letters.
    SlashAndBackslash,
}

/// Where a call runs, as its executor says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The working directory, absolute.
    pub cwd: Option<String>,
    /// The same with links followed.
    pub cwd_canonical: Option<String>,
    /// The home directory, absolute.
    pub home: Option<String>,
    /// How names are compared.
    pub case: Case,
    /// How names are parted.
    pub separator: Separator,
}

/// The argument that a tool declares for its rules, with its value in this call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The tool declares none.
    Undeclared,
    /// The call leaves the argument out.
    Absent,
    /// A command.
    Command(CommandSubject),
    /// One path or several.
    Paths(Vec<PathSubject>),
    /// An address.
    Url(String),
    /// Any other text.
    Text(String),
}
