//! What a shell command would run, as far as that can be known before it runs.
//!
//! Never matches a rule and never runs anything. Two parsers read the text; what they find is brought
//! to one form, and every command becomes a [`Segment`].
//!
//! The answer is lopsided on purpose. For deny and ask it holds every form in which anybody found a
//! command, and one match is enough. For allow it holds one form for each segment, only of what both
//! parsers read alike and only if nothing about it is left open.
//!
//! The order of reading: `precheck`, `reading`, `brush`, `tree`, `both`, `peel`, `view`, `segment`.

mod acting;
mod allow;
mod always;
mod both;
mod brush;
mod builtins;
mod clarity;
mod doubt;
mod flag_names;
mod flags;
pub mod limits;
mod peel;
mod precheck;
mod programs;
mod raw;
mod reading;
mod reason;
mod sed;
mod segment;
mod spelling_names;
mod spellings;
mod subcommands;
mod suspect;
mod targets;
#[cfg(test)]
mod tests;
mod told;
mod told_options;
#[cfg(feature = "tree-sitter")]
mod tree;
mod view;
mod word;
mod wrappers;

pub use allow::AllowView;
pub use always::{Candidate, Reach, candidates};
pub use clarity::{Clarity, OpenProgram};
pub(in crate::gate) use flags::{Operand, Unordered, is_flag};
pub(in crate::gate) use peel::basename;
pub use precheck::precheck;
pub use reading::{Assignment, Redirection, RedirectionKind};
pub use reason::{AskReason, Opaque};
pub use segment::Segment;
pub use suspect::Suspect;
pub use view::View;
pub use word::{Word, WordKind};

use std::collections::BTreeSet;

use view::Budget;

/// What is known of one command text.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Whether allow rules may be tried at all, and if not why. Even then each segment has reasons
    /// of its own: see [`Segment::allow_view`].
    pub understood: Result<(), Opaque>,
    /// The commands that run, in the order of the text as far as there is one; those in
    /// substitutions, here-documents and groups too. Never empty if `understood` is fine.
    pub segments: Vec<Segment>,
    /// Commands that only the second parser found. Nothing is understood if there are any.
    pub others: Vec<Segment>,
    /// Commands that programs might run of their words and input, as far as anyone can guess.
    pub suspects: Vec<Suspect>,
    /// Forms that belong to no segment: the whole text, and its pieces if a parser gave up.
    views: Vec<View>,
}

impl Analysis {
    /// What is known of a text that no parser may see again: it crashed one, or took too long.
    #[must_use]
    pub fn raw_only(text: &str, why: Opaque) -> Analysis {
        let mut budget = Budget::default();
        Analysis {
            understood: Err(why),
            segments: Vec::new(),
            others: Vec::new(),
            suspects: Vec::new(),
            views: with_whole(text, raw::views(text, &mut budget)),
        }
    }

    /// Every form for deny and ask rules, each with the index of its segment if it has one.
    pub fn views(&self) -> impl Iterator<Item = (Option<usize>, &View)> {
        let whole = self.views.iter().map(|view| (None, view));
        let segments = self.segments.iter().enumerate();
        let own = segments
            .flat_map(|(at, segment)| segment.views().iter().map(move |view| (Some(at), view)));
        let others = self.others.iter().flat_map(Segment::views);
        whole.chain(own).chain(others.map(|view| (None, view)))
    }
}

/// Reads a command text with both parsers.
///
/// Run this on a thread with a stack of 16 MiB that lives on, under `catch_unwind`, and give it up
/// after a time of your choosing: brush-parser recurses as deep as the text nests, panics on some
/// texts, and may be slow. Take [`Analysis::raw_only`] in its place when that happens. An overflow
/// of the stack would end the process; [`precheck`], which comes first in here, rules it out.
#[must_use]
pub fn analyse(text: &str) -> Analysis {
    let mut budget = Budget::default();
    let found = look(text, 0, &mut budget);
    let suspects = suspects(&found);
    let understood = match found.understood {
        Ok(()) if budget.exhausted => Err(Opaque::TooMuch),
        Ok(()) if runs_what_it_makes(&found.segments) => Err(Opaque::RunsWhatItMakes),
        other => other,
    };
    Analysis {
        understood,
        segments: found.segments,
        others: found.others,
        suspects,
        views: match understood {
            Ok(()) => with_view(View::text_only(text), found.views),
            Err(_) => with_whole(text, found.views),
        },
    }
}

/// Whether a program is named by its path and one of the files that the command makes has its name.
fn runs_what_it_makes(segments: &[Segment]) -> bool {
    let made: BTreeSet<String> = segments.iter().flat_map(suspect::made_by).collect();
    let mut programs = segments.iter().filter_map(|segment| {
        let (words, at) = segment.known_words();
        words.get(at).cloned()
    });
    programs.any(|program| program.contains('/') && made.contains(peel::basename(&program)))
}

/// What programs might run of their words, and of the texts that the command gives somebody to read.
fn suspects(found: &Found) -> Vec<Suspect> {
    // What is not understood is asked about anyway.
    if found.understood.is_err() {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut reads = found.segments.iter().any(suspect::writes_for_git);
    for segment in &found.segments {
        let (words, program_at) = segment.known_words();
        let argv = words.get(program_at..).unwrap_or_default();
        reads |= !argv.is_empty() && !suspect::takes_data(argv);
        all.extend(suspect::in_words(&words, program_at));
    }
    if reads {
        all.extend(found.fed.iter().flat_map(|text| suspect::in_text(text)));
    }
    all
}

fn with_whole(text: &str, views: BTreeSet<View>) -> Vec<View> {
    with_view(View::raw(text), views)
}

fn with_view(view: View, mut views: BTreeSet<View>) -> Vec<View> {
    views.insert(view);
    views.into_iter().collect()
}

/// What was found in a text, or in a script inside one.
struct Found {
    understood: Result<(), Opaque>,
    segments: Vec<Segment>,
    others: Vec<Segment>,
    /// Texts that programs may read.
    fed: BTreeSet<String>,
    views: BTreeSet<View>,
}

impl Found {
    /// All views in one, for the command that runs this script.
    fn into_views(self) -> BTreeSet<View> {
        let segments = self.segments.into_iter().chain(self.others);
        let mut views = self.views;
        views.extend(segments.flat_map(|segment| segment.views().to_vec()));
        views
    }
}

/// Looks at a text; `depth` is how many scripts it stands in.
fn look(text: &str, depth: u16, budget: &mut Budget) -> Found {
    let both = both::read(text);
    let mut views = match both.incomplete {
        true => raw::views(text, budget),
        false => BTreeSet::new(),
    };
    let fed = Fed::from(&both);
    let mut reads_script = false;
    let mut extended = Vec::new();
    let mut after_cd = false;
    let mut segments = Vec::new();
    let mut others = Vec::new();
    for (simple, list) in both
        .first
        .into_iter()
        .map(|simple| (simple, true))
        .chain(both.second.into_iter().map(|simple| (simple, false)))
    {
        let mut forms = segment::forms_of(&simple, budget);
        reads_script |= forms.reads_script;
        extended.extend(std::mem::take(&mut forms.extended));
        for script in std::mem::take(&mut forms.scripts) {
            forms.views.extend(script_views(&script, depth, budget));
        }
        for code in std::mem::take(&mut forms.foreign) {
            forms.views.extend(raw::views(&code, budget));
        }
        let segment = Segment::new(simple, after_cd, forms.views.into_iter().collect());
        // Behind a wrapper as well.
        let mut programs = segment.views().iter().filter_map(|view| view.words.first());
        after_cd |= programs.any(|program| changes_directory(program));
        match list {
            true => segments.push(segment),
            false => others.push(segment),
        }
    }
    if reads_script {
        for script in &fed.scripts {
            views.extend(script_views(script, depth, budget));
        }
    }
    for command in &extended {
        views.extend(fed.views_behind(command, budget));
    }
    Found {
        understood: both.understood,
        segments,
        others,
        fed: fed.scripts,
        views,
    }
}

fn changes_directory(program: &str) -> bool {
    matches!(program, "cd" | "pushd" | "popd" | "chdir")
}

/// The views of a script that a command runs.
fn script_views(script: &str, depth: u16, budget: &mut Budget) -> BTreeSet<View> {
    if depth >= limits::SCRIPT_DEPTH_MAX || budget.scripts == 0 {
        budget.exhausted = true;
        return raw::views(script, budget);
    }
    budget.scripts -= 1;
    look(script, depth + 1, budget).into_views()
}

/// What a shell may read from its input: texts in here-documents, and what other commands print.
struct Fed {
    scripts: BTreeSet<String>,
}

impl Fed {
    fn from(both: &both::Both) -> Fed {
        let commands = both.first.iter().chain(&both.second);
        Fed {
            scripts: commands.flat_map(suspect::texts_of).collect(),
        }
    }

    /// What becomes of a command to which `xargs` adds these texts.
    fn views_behind(&self, command: &[String], budget: &mut Budget) -> BTreeSet<View> {
        let mut forms = view::Forms::default();
        for text in &self.scripts {
            let more = text.split_whitespace().map(str::to_owned);
            forms.add(command.iter().cloned().chain(more).collect(), budget);
        }
        forms.views
    }
}
