//! The rules that hold now, and what a change of them does to what waits.
//!
//! Files are watched. A change that cannot be taken leaves the last good rules in place. Never reads a
//! rule: the gate does.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::rule_book::RuleStanding;
use crate::config::rule_files::{RuleFileError, RuleFiles};
use crate::gate::permission::{
    Aliases, CommandSubject, LoadError, LoadOptions, Loaded, Permissions, Policy, Trust,
};
use crate::gate::tool::{SubjectKind, Tool};
use crate::gate::turn::Input;

/// How often files of rules are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Why rules are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A file gives none.
    #[error(transparent)]
    File(#[from] RuleFileError),
    /// A deny or ask rule is invalid.
    #[error("{}", every_problem(.0))]
    Rule(LoadError),
}

fn every_problem(error: &LoadError) -> String {
    let problems = error.problems.iter().map(|problem| {
        format!(
            "{} rule `{}` of {}: {}",
            problem.list.as_str(),
            problem.text,
            problem.origin,
            problem.error
        )
    });
    problems.collect::<Vec<_>>().join("; ")
}

/// Reads the rules of all files.
///
/// # Errors
/// [`RulesError`]; whatever held before should go on holding.
pub fn load_rules(files: &RuleFiles, revision: u64) -> Result<Loaded, RulesError> {
    let options = options(&files.aliases, files.trust());
    Policy::load(files.read()?, &options, revision).map_err(RulesError::Rule)
}

/// How rules are loaded here, wherever they come from.
pub(super) fn options(aliases: &Aliases, trust: Trust) -> LoadOptions<'_> {
    LoadOptions {
        aliases,
        trust,
        subject_of: &|_| None::<SubjectKind>,
        read_command: &CommandSubject::plain,
    }
}

impl Engine {
    /// Puts rules and mode in place. Everything that waits is decided again.
    pub fn set_permissions(&self, permissions: Permissions) {
        let revision = permissions.policy.revision();
        self.note_policy(&permissions);
        self.permissions.store(Arc::new(permissions));
        self.events.policy_changed(revision);
        for turn in self.turns.running_turns(None) {
            turn.inbox.push(Input::ToolsChanged, None);
        }
    }

    /// The rules and the mode that hold now.
    pub fn permissions(&self) -> Arc<Permissions> {
        self.permissions.load_full()
    }

    /// Whether a model may see the tool: not if the rules deny every call of it.
    pub(super) fn shows(&self, permissions: &Permissions, tool: &Tool) -> bool {
        let name = tool.definition.name.as_str();
        permissions.policy.hides(name, self.now()).is_none()
    }

    /// Follows the files.
    pub fn watch_rules(self: &Arc<Self>) {
        let engine = self.clone();
        self.tasks.spawn("rules", async move {
            loop {
                tokio::select! {
                    () = engine.tasks.stopped() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
                let (own, now) = (engine.clone(), engine.now());
                let follow = move || own.rules.follow(now, |standing| own.install(standing));
                match engine.tasks.block("rules", follow).await.flatten() {
                    Some(Ok(standing)) => tell(&standing),
                    Some(Err(error)) => {
                        tracing::error!(%error, "rules are not taken; the last good ones hold");
                    }
                    None => {}
                }
            }
        });
    }

    /// Puts rules in place that were read from the files.
    pub(super) fn install(&self, standing: &RuleStanding) {
        self.set_permissions(Permissions {
            policy: standing.policy.clone(),
            ..Permissions::clone(&self.permissions())
        });
    }
}

/// Says in the log what became of rules.
pub fn tell(standing: &RuleStanding) {
    for problem in standing.skipped.iter() {
        tracing::warn!(rule = problem.text, origin = %problem.origin, error = %problem.error, "allow rule left out");
    }
    let waiting = standing.inert().len();
    if waiting > 0 {
        tracing::warn!(
            rules = waiting,
            "allow rules of the workspace do not hold until it is trusted: `callgate rules trust`"
        );
    }
    let rules = standing.policy.rules().count();
    tracing::info!(rules, revision = standing.policy.revision(), "rules loaded");
}
