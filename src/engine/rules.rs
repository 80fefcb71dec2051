//! The rules that hold now, and what a change of them does to what waits.
//!
//! Files are watched. A change that cannot be taken leaves the last good rules in place. Never reads a
//! rule: the gate does.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::config::rule_files::{Look, RuleFileError, RuleFiles};
use crate::gate::permission::{
    CommandSubject, LoadError, LoadOptions, Loaded, Mode, Permissions, Policy, Settings,
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
    let options = LoadOptions {
        aliases: &files.aliases,
        trust: files.trust(),
        subject_of: &|_| None::<SubjectKind>,
        read_command: &CommandSubject::plain,
    };
    Policy::load(files.read()?, &options, revision).map_err(RulesError::Rule)
}

impl Engine {
    /// Puts rules and mode in place. Everything that waits is decided again.
    pub fn set_permissions(&self, permissions: Permissions) {
        self.permissions.store(Arc::new(permissions));
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

    /// Follows the files. `seen`: how they were before what holds now was read from them.
    pub fn watch_rules(self: &Arc<Self>, files: RuleFiles, seen: Look, mode: Mode) {
        let engine = self.clone();
        self.tasks.spawn("rules", async move {
            let mut last = seen;
            let mut revision = engine.permissions().policy.revision();
            loop {
                tokio::select! {
                    () = engine.tasks.stopped() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
                let look = files.look();
                if look == last {
                    continue;
                }
                last = look;
                revision += 1;
                engine.reload(&files, mode, revision);
            }
        });
    }

    fn reload(&self, files: &RuleFiles, mode: Mode, revision: u64) {
        match load_rules(files, revision) {
            Ok(loaded) => {
                tell(&loaded);
                self.set_permissions(Permissions {
                    policy: Arc::new(loaded.policy),
                    mode,
                    settings: Settings::default(),
                });
            }
            Err(error) => tracing::error!(%error, "rules are not taken; the last good ones hold"),
        }
    }
}

/// Says in the log what became of rules.
pub fn tell(loaded: &Loaded) {
    for problem in &loaded.skipped {
        tracing::warn!(rule = problem.text, origin = %problem.origin, error = %problem.error, "allow rule left out");
    }
    if !loaded.inert.is_empty() {
        tracing::warn!(
            rules = loaded.inert.len(),
            "allow rules of the workspace do not hold until it is trusted: `callgate rules trust`"
        );
    }
    let rules = loaded.policy.rules().count();
    tracing::info!(rules, revision = loaded.policy.revision(), "rules loaded");
}
