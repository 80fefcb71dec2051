//! Rules that only say which calls are meant.
//!
//! Read and tried as deny rules are, without their verdict: what cannot be told counts as meant. Never
//! decides a call.

use super::error::LoadError;
use super::index::Cost;
use super::mode::Mode;
use super::order::Call;
use super::policy::{LoadOptions, Policy, SourceText, Trust};
use super::prepared::Prepared;
use super::rule::Verdict;
use super::rule_set::{Aliases, Moment, Trial};
use super::settings::{RuleEntry, SourceRules};
use super::source::Source;
use super::subject::CommandSubject;
use crate::gate::ids::UnixMillis;

/// Calls, in the form of rules.
#[derive(Debug, Clone, Default)]
pub struct CallPattern {
    texts: Vec<String>,
    policy: Policy,
}

impl PartialEq for CallPattern {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl CallPattern {
    /// Reads rules, each `Tool` or `Tool(spec)`.
    ///
    /// # Errors
    /// [`LoadError`]: one of them is broken.
    pub fn parse(texts: &[String], aliases: &Aliases) -> Result<Self, LoadError> {
        let entries = texts
            .iter()
            .map(|text| (Verdict::Deny, RuleEntry::of_text(text.as_str())));
        let source = SourceText {
            source: Source::Policy,
            file: None,
            root: None,
            rules: SourceRules {
                entries: entries.collect(),
                max_mode: None,
            },
        };
        let options = LoadOptions {
            aliases,
            trust: Trust::Trusted,
            subject_of: &|_| None,
            read_command: &CommandSubject::plain,
        };
        Ok(Self {
            policy: Policy::load(vec![source], &options, 0)?.policy,
            texts: texts.to_vec(),
        })
    }

    /// As written.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether a rule means every call of the tool.
    #[must_use]
    pub fn means_tool(&self, tool: &str) -> bool {
        let cost = &mut Cost::default();
        let found = self
            .policy
            .find(Verdict::Deny, tool, Trial::Call(None), moment(), cost);
        found.is_some()
    }

    /// Whether a rule is about the tool, whatever it says of its arguments.
    #[must_use]
    pub fn is_about(&self, tool: &str) -> bool {
        self.policy.is_about_tool(Verdict::Deny, tool)
    }

    /// Whether a rule means the call, or nobody can tell.
    #[must_use]
    pub fn may_mean(&self, call: &Call<'_>) -> bool {
        let tool = call.tool.name.as_str();
        if !self.is_about(tool) {
            return false;
        }
        let prepared = Prepared::new(call.subject, call.place);
        let may_be_more = prepared.unclear.is_some() || !prepared.suspects.is_empty();
        let cost = &mut Cost::default();
        let policy = &self.policy;
        let mut means = |trial: Trial<'_>| {
            let found = policy.find(Verdict::Deny, tool, trial, moment(), cost);
            found.is_some()
        };
        may_be_more
            || means(Trial::Call(call.arguments))
            || prepared
                .stoppers
                .iter()
                .any(|part| means(Trial::Part(&part.item)))
            || policy
                .untried(Verdict::Deny, tool, &prepared, moment(), cost)
                .is_some()
    }
}

/// These rules name neither a mode nor an end.
fn moment() -> Moment {
    Moment {
        now: UnixMillis(0),
        mode: Mode::Default,
    }
}
