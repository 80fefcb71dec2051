//! A call's subject in the forms that rules are tried on, made once per decision.
//!
//! One list to be stopped by, one to be let through by: a match with any of the first is enough to
//! stop, and each of the second must be matched to pass. Never tries a rule.

use super::command_pattern::PreparedView;
use super::host_pattern::PreparedUrl;
use super::path_pattern::{PreparedPath, is_absolute};
use super::subject::{Case, CommandSubject, PathSubject, Place, Subject, View};
use crate::gate::command::{self, OpenProgram, Suspect};
use crate::gate::tool::SubjectKind;

/// One thing that a rule may match.
#[derive(Debug)]
pub(super) enum Item {
    Command(PreparedView),
    Path(PreparedPath),
    Url(PreparedUrl),
    Text(String),
}

impl Item {
    /// A command that might be run, and how people are told of it.
    pub(super) fn suspected(command: &command::View) -> Part {
        let view = View {
            words: command.words.clone(),
            text: command.text.clone(),
            spelled_min: 1,
        };
        Part {
            item: Item::Command(PreparedView::to_stop(&view)),
            shown: Some(view.text),
        }
    }
}

/// One item, and how people are told of it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) item: Item,
    /// The segment or path, where there can be several.
    pub(super) shown: Option<String>,
}

/// A subject, ready for rules.
#[derive(Debug)]
pub(super) struct Prepared {
    /// One match of these is enough for deny and ask.
    pub(super) stoppers: Vec<Part>,
    /// All of these must be covered by allow rules or grants. None: they cannot.
    pub(super) needed: Option<Vec<Part>>,
    /// Why nobody can tell what the call is about.
    pub(super) unclear: Option<String>,
    /// Programs of a command that get words which are not known, so that rules about them may match.
    pub(super) open_programs: Vec<OpenProgram>,
    /// What may be run besides: a match of these is enough to ask.
    pub(super) suspects: Vec<Suspect>,
    /// The whole command, for those who allowed exactly it.
    pub(super) whole_command: Option<String>,
    /// What the tool declares. None: nothing, or the call leaves it out.
    pub(super) kind: Option<SubjectKind>,
    /// The tool declares nothing.
    pub(super) is_undeclared: bool,
}

impl Prepared {
    pub(super) fn new(subject: &Subject, place: &Place) -> Self {
        match subject {
            Subject::Undeclared => Self {
                is_undeclared: true,
                ..Self::nothing()
            },
            Subject::Absent => Self::nothing(),
            Subject::Command(command) => Self::command(command),
            Subject::Paths(paths) => Self::paths(paths, place),
            Subject::Url(url) => Self::url(url),
            Subject::Text(text) => Self::text(text),
        }
    }

    fn nothing() -> Self {
        Self {
            stoppers: Vec::new(),
            needed: None,
            unclear: None,
            open_programs: Vec::new(),
            suspects: Vec::new(),
            whole_command: None,
            kind: None,
            is_undeclared: false,
        }
    }

    fn command(command: &CommandSubject) -> Self {
        let part = |view: &View, prepare: fn(&View) -> PreparedView| Part {
            item: Item::Command(prepare(view)),
            shown: Some(view.text.clone()),
        };
        let to_stop = |view| part(view, PreparedView::to_stop);
        let to_pass = |view| part(view, PreparedView::to_pass);
        let segments = command.segments_for_allow.as_ref();
        let needed = segments.ok().filter(|segments| !segments.is_empty());
        // Whatever the analysis made of it, the text as it stands may still be stopped.
        let views = &command.views_for_deny;
        let raw = View {
            words: Vec::new(),
            text: command.text.clone(),
            spelled_min: 1,
        };
        let is_viewed = views.iter().any(|view| view.text == raw.text);
        let raw = (!is_viewed).then_some(&raw);
        let unclear = match &command.segments_for_allow {
            Ok(segments) if segments.is_empty() => Some(String::from("nothing would be executed")),
            Ok(_) => None,
            Err(uncovered) => uncovered.is_unclear.then(|| uncovered.why.clone()),
        };
        Self {
            stoppers: views.iter().chain(raw).map(to_stop).collect(),
            needed: needed.map(|segments| segments.iter().map(to_pass).collect()),
            unclear,
            open_programs: command.open_programs.clone(),
            suspects: command.suspects.clone(),
            whole_command: Some(command.text.clone()),
            kind: Some(SubjectKind::Command),
            is_undeclared: false,
        }
    }

    fn paths(paths: &[PathSubject], place: &Place) -> Self {
        let mut stoppers = Vec::new();
        let mut needed = Some(Vec::new());
        for path in paths {
            stoppers.extend(
                to_stop(path, place)
                    .into_iter()
                    .map(|item| part(path, item)),
            );
            match (&mut needed, to_pass(path, place)) {
                (Some(needed), Some(readings)) => {
                    needed.extend(readings.into_iter().map(|item| part(path, item)));
                }
                (None, _) | (_, None) => needed = None,
            }
        }
        Self {
            stoppers,
            needed: needed.filter(|needed| !needed.is_empty()),
            unclear: None,
            open_programs: Vec::new(),
            suspects: Vec::new(),
            whole_command: None,
            kind: Some(SubjectKind::Path),
            is_undeclared: false,
        }
    }

    fn url(url: &str) -> Self {
        let prepared = PreparedUrl::new(url);
        let part = |prepared: &PreparedUrl| Part {
            item: Item::Url(prepared.clone()),
            shown: None,
        };
        Self {
            stoppers: vec![part(&prepared)],
            needed: Some(vec![part(&prepared)]),
            unclear: prepared.unclear.map(str::to_owned),
            open_programs: Vec::new(),
            suspects: Vec::new(),
            whole_command: None,
            kind: Some(SubjectKind::Url),
            is_undeclared: false,
        }
    }

    fn text(text: &str) -> Self {
        let part = || Part {
            item: Item::Text(text.to_owned()),
            shown: None,
        };
        Self {
            stoppers: vec![part()],
            needed: Some(vec![part()]),
            unclear: None,
            open_programs: Vec::new(),
            suspects: Vec::new(),
            whole_command: None,
            kind: Some(SubjectKind::Text),
            is_undeclared: false,
        }
    }
}

fn part(path: &PathSubject, prepared: PreparedPath) -> Part {
    Part {
        item: Item::Path(prepared),
        shown: Some(path.given.clone()),
    }
}

/// The path in every reading that may be meant.
fn to_stop(path: &PathSubject, place: &Place) -> Vec<PreparedPath> {
    let fold = place.case != Case::Sensitive;
    let cwd = place.cwd.as_deref();
    let real_cwd = place.cwd_canonical.as_deref();
    let from = |text: &str, cwd| PreparedPath::new(text, place, cwd, fold);
    let mut readings = vec![from(&path.given, cwd)];
    if let (Some(rest), Some(home)) = (path.given.strip_prefix("~/"), &place.home) {
        readings.push(from(&format!("{home}/{rest}"), cwd));
    }
    if let Some(canonical) = &path.canonical {
        readings.push(from(canonical, cwd));
    }
    if let (Some(canonical), Some(_)) = (&path.canonical, real_cwd) {
        readings.push(from(canonical, real_cwd));
    }
    readings.dedup();
    readings
}

/// The path as given and as it really is, if anyone knows.
fn to_pass(path: &PathSubject, place: &Place) -> Option<Vec<PreparedPath>> {
    let fold = place.case == Case::Insensitive;
    let cwd = place.cwd.as_deref();
    let real_cwd = place.cwd_canonical.as_deref().or(cwd);
    let canonical = path.canonical.as_deref();
    let canonical = canonical.filter(|path| is_absolute(path, place.separator))?;
    let mut readings = vec![
        PreparedPath::new(&path.given, place, cwd, fold),
        PreparedPath::new(canonical, place, real_cwd, fold),
    ];
    readings.dedup();
    Some(readings)
}
