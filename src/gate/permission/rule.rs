//! What a permission rule is once it is read.
//!
//! A rule's specifier keeps every reading it can have: which one counts is the tool's declared
//! subject, and tools come and go while rules stay. Never decides: that is `order`.

use std::sync::Arc;

use super::command_pattern::CommandPattern;
use super::host_pattern::HostPattern;
use super::mode::{Mode, Modes};
use super::param_pattern::ParamPattern;
use super::path_pattern::PathPattern;
use super::source::Origin;
use super::wild::Wild;
use crate::gate::ids::UnixMillis;

/// Longest rule, in bytes.
pub const RULE_BYTES_MAX: usize = 4096;

/// What a rule says, and what a decision says. The later is the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// May run.
    Allow,
    /// An approver must be asked.
    Ask,
    /// Must not run.
    Deny,
}

impl Verdict {
    /// The word in files and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        }
    }

    /// How widely a rule of this list matches.
    pub(super) fn reach(self) -> Reach {
        match self {
            Verdict::Allow => Reach::Narrow,
            Verdict::Ask | Verdict::Deny => Reach::Wide,
        }
    }
}

/// How a pattern is read where two readings are possible.
///
/// What lets a call run is read as narrowly as it can be, what stops it as widely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// For allow rules.
    Narrow,
    /// For deny and ask rules.
    Wide,
}

/// One rule, ready to be tried.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// The list it stands in.
    pub(super) list: Verdict,
    /// As written.
    pub(super) text: Arc<str>,
    /// Which tools.
    pub(super) tool: ToolPattern,
    /// Which of their calls.
    pub(super) spec: Spec,
    /// What its author tells whoever meets it.
    pub(super) message: Option<Arc<str>>,
    /// From when on it no longer holds.
    pub(super) expires: Option<UnixMillis>,
    /// In which modes it holds.
    pub(super) modes: Modes,
    /// Where it stands.
    pub(super) origin: Origin,
}

impl Rule {
    /// Whether the rule holds at that moment in that mode.
    pub(super) fn holds(&self, now: UnixMillis, mode: Mode) -> bool {
        self.modes.contains(mode) && self.expires.is_none_or(|expires| now < expires)
    }
}

/// The part before `(`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolPattern {
    /// Exactly this name, or what it is an alias of.
    Name(Box<str>),
    /// Any name of this form.
    Glob(ToolGlob),
}

/// A tool name with `*` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolGlob {
    /// As written.
    pub(super) text: Box<str>,
    pub(super) wild: Wild,
}

impl ToolGlob {
    /// Whether the name has this form.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.wild.matches(name)
    }

    /// What every such name begins with.
    pub(super) fn literal_prefix(&self) -> &str {
        self.text.split('*').next().unwrap_or_default()
    }
}

/// The part inside `(…)`.
#[derive(Debug, Clone)]
pub(super) enum Spec {
    /// None, or `*`: every call.
    Any,
    /// `domain:…`.
    Host(HostPattern),
    /// `param:…`.
    Param(ParamPattern),
    /// Anything else: read by the tool's subject.
    Plain(Box<Plain>),
}

/// A specifier in every reading that it can have.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    /// For tools whose subject is a command.
    pub(super) command: CommandPattern,
    /// For tools whose subject is a path.
    pub(super) path: PathPattern,
    /// For tools whose subject is text, and for deny and ask also a URL.
    pub(super) text: Wild,
}
