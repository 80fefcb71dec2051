//! A hook as it is registered, and all of them in the order in which they are asked.
//!
//! Never knows the process behind a remote hook.

use std::sync::Arc;

use super::builtin::Builtin;
use super::matcher::Matcher;
use crate::gate::ids::HookId;

/// Most hooks of one process, and most built-in ones.
pub const HOOKS_MAX: usize = 64;
/// How long an answer may take, in milliseconds, where the hook names no span.
pub const TIMEOUT_DEFAULT_MS: u32 = 5_000;
/// The longest span that a hook may name, in milliseconds.
pub const TIMEOUT_MAX_MS: u32 = 600_000;

/// When a hook is asked or told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Before a call is decided.
    BeforeToolCall,
    /// After an executor answered with success.
    AfterToolCall,
    /// After an executor answered with an error.
    AfterToolFailure,
    /// When an approval begins to wait.
    ApprovalRequested,
    /// When a turn begins. Only told.
    TurnStarted,
    /// When a turn ended. Only told.
    TurnFinished,
    /// When a run is found to be in a loop. Only told.
    LoopSuspected,
    /// When a diagnosis of a run is due. One of them is asked.
    LoopDiagnose,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 8] = [
        Point::BeforeToolCall,
        Point::AfterToolCall,
        Point::AfterToolFailure,
        Point::ApprovalRequested,
        Point::TurnStarted,
        Point::TurnFinished,
        Point::LoopSuspected,
        Point::LoopDiagnose,
    ];

    /// The point of that word. None: there is none.
    #[must_use]
    pub fn parse(word: &str) -> Option<Point> {
        Point::ALL.into_iter().find(|point| point.as_str() == word)
    }

    /// Whether an answer is never awaited.
    #[must_use]
    pub fn is_only_told(self) -> bool {
        matches!(
            self,
            Point::TurnStarted | Point::TurnFinished | Point::LoopSuspected
        )
    }

    /// The word that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Point::BeforeToolCall => "before_tool_call",
            Point::AfterToolCall => "after_tool_call",
            Point::AfterToolFailure => "after_tool_failure",
            Point::ApprovalRequested => "approval_requested",
            Point::TurnStarted => "turn_started",
            Point::TurnFinished => "turn_finished",
            Point::LoopSuspected => "loop_suspected",
            Point::LoopDiagnose => "loop_diagnose",
        }
    }
}

/// What a failure before a call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The call does not run.
    #[default]
    Deny,
    /// An approver must be asked.
    Ask,
    /// As if it had no opinion.
    Ignore,
}

/// A hook that must be there: while it is absent, it fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredHook {
    /// What names it.
    pub id: HookId,
    /// Where it must be asked or told. Empty: wherever it wants to.
    pub points: Vec<Point>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The gate itself.
    BuiltIn(Builtin),
    /// A process, wherever it is.
    Remote,
}

/// Where a hook stands among the others: its order, then when it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct HookPlace {
    /// Lower ones are asked first.
    pub order: u32,
    /// Counts registrations.
    pub number: u64,
}

/// One hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// What names it.
    pub id: HookId,
    /// Where it stands.
    pub place: HookPlace,
    /// When it is asked.
    pub points: Vec<Point>,
    /// For which calls.
    pub matcher: Matcher,
    /// How long an answer may take, from its own question, in milliseconds.
    pub timeout_ms: u32,
    /// What a failure before a call means.
    pub on_failure: OnFailure,
    /// Only told; an answer is not awaited.
    pub observes: bool,
    /// After a call, a failure keeps the result back.
    pub withholds: bool,
    /// For people. Empty: none.
    pub description: String,
    /// Who answers.
    pub body: Body,
}

impl Hook {
    /// Whether it is asked or told then.
    #[must_use]
    pub fn is_at(&self, point: Point) -> bool {
        self.points.contains(&point)
    }

    /// Whether its answer at that point is awaited.
    #[must_use]
    pub fn is_awaited(&self, point: Point) -> bool {
        !self.observes && !point.is_only_told()
    }
}

/// All hooks, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub struct HookList {
    hooks: Vec<Arc<Hook>>,
}

impl HookList {
    /// These hooks, put in order.
    #[must_use]
    pub fn new(mut hooks: Vec<Arc<Hook>>) -> Self {
        hooks.sort_by_key(|hook| hook.place);
        Self { hooks }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Hook>> {
        self.hooks.iter()
    }

    /// Those of one point, in order.
    pub fn at(&self, point: Point) -> impl Iterator<Item = &Arc<Hook>> {
        self.hooks.iter().filter(move |hook| hook.is_at(point))
    }

    /// Whether anybody is asked or told then.
    #[must_use]
    pub fn has(&self, point: Point) -> bool {
        self.at(point).next().is_some()
    }

    /// The next one of that point behind a place. Hooks that came meanwhile are heard in their place.
    #[must_use]
    pub fn next(&self, point: Point, behind: Option<HookPlace>) -> Option<&Arc<Hook>> {
        self.at(point)
            .find(|hook| behind.is_none_or(|behind| hook.place > behind))
    }
}
