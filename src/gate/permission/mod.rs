//! Decides whether a checked call may run, must be asked, or must not.
//!
//! The only maker of [`Permit`]: nothing is dispatched without one. Never looks at arguments that did
//! not pass their schema. In the order in which one reads them: `source`, `rule` and `parse` for what
//! is written, `settings` and `policy` for how it is loaded, `subject` for what a call is about, the
//! patterns for how both meet, `order` for who is heard when.

mod about;
mod broad;
mod call_pattern;
mod candidates;
mod command_pattern;
mod coverage;
mod error;
mod examples;
mod expiry;
mod grants;
mod ground;
mod hearsay;
mod host_pattern;
mod index;
mod lint;
mod meeting;
mod mode;
mod order;
mod param_pattern;
mod parse;
mod parts;
mod path_glob;
mod path_pattern;
mod policy;
mod prepared;
mod rule;
mod rule_set;
mod settings;
mod source;
mod subject;
mod table;
mod unordered_pattern;
mod wild;
mod words;

pub use about::written_call;
pub use broad::too_wide;
pub use call_pattern::CallPattern;
pub use candidates::{GrantCandidate, candidates};
pub use error::{LoadError, RuleError, RuleProblem, SettingsError};
pub use grants::{
    Given, Grant, GrantError, GrantId, GrantedTool, Grants, NewGrant, Revoked, Scope,
};
pub use ground::{Ground, GroundKind};
pub use hearsay::{Facts, PathFact, ToolWord};
pub use lint::{Lint, LintKind, ToolInfo};
pub use mode::{Mode, ModeBounds, Modes, verdict as mode_verdict};
pub use order::{
    Answer, Approver, Because, Call, Check, Hook, Settings, Situation, Stage, Step,
    decide as decide_call,
};
pub use parts::CommandPart;
pub use policy::{LoadOptions, Loaded, Policy, RuleRef, SourceText, Trust};
pub use rule::{RULE_BYTES_MAX, Verdict};
pub use rule_set::Aliases;
pub use settings::{Extras, RuleEntry, SourceRules};
pub use source::{Origin, Source};
pub use subject::{Case, CommandSubject, PathSubject, Place, Separator, Subject, View};

use std::sync::Arc;

use super::approval::Consent;
use super::ids::OwnerName;

/// What decides besides the call itself, as it is at one step.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// The rules.
    pub policy: Arc<Policy>,
    /// The mode of every session.
    pub mode: Mode,
    /// What the configuration says about lifting.
    pub settings: Settings,
    /// Executors whose own `allow` counts.
    pub trusted_executors: Arc<[OwnerName]>,
}

impl Permissions {
    /// Whether what this executor's tools allow counts.
    #[must_use]
    pub fn trusts(&self, executor: &OwnerName) -> bool {
        self.trusted_executors.contains(executor)
    }
}

impl Default for Permissions {
    /// No rules, in the default mode: safe tools run, everything else must be asked.
    fn default() -> Self {
        Self {
            policy: Arc::default(),
            mode: Mode::Default,
            settings: Settings::default(),
            trusted_executors: Arc::default(),
        }
    }
}

/// Leave to dispatch one call. Only a final decision makes one, and a dispatch uses it up.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    grants: Vec<GrantId>,
}

impl Permit {
    /// The grants without which the call would have been asked.
    #[must_use]
    pub fn grants(&self) -> &[GrantId] {
        &self.grants
    }
}

/// The permit of a call whose decision lets it run: rules, mode and grants do, or it must be asked and
/// an approver consented to exactly this.
///
/// # Errors
/// The answer, if it does not.
pub fn permit(answer: Answer, consent: Option<Consent>) -> Result<Permit, Box<Answer>> {
    match (answer.verdict, consent) {
        (Verdict::Allow, _) | (Verdict::Ask, Some(_)) => Ok(Permit {
            grants: answer.grants_used,
        }),
        (Verdict::Ask, None) | (Verdict::Deny, _) => Err(Box::new(answer)),
    }
}
