//! What servers ask about rules: what is wrong with them, to load them, to trust a workspace.
//!
//! Files are read on threads that may block. Never changes a rule.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::Engine;
use super::rule_book::{RuleBook, RuleStanding, lints_of};
use super::rules::{RulesError, options, tell};
use crate::gate::admission::TurnRule;
use crate::gate::permission::{
    Lint, Origin, Policy, RuleEntry, RuleProblem, Source, SourceRules, SourceText, Verdict,
};
use crate::gate::record::TurnSpec;

/// Why rules were not loaded, or a workspace not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// What stands in the files is not taken.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// There is no such directory.
    #[error("no workspace `{workspace}`")]
    NoWorkspace {
        /// As asked.
        workspace: String,
    },
    /// The list of trusted workspaces cannot be written.
    #[error("the list of trusted workspaces: {problem}")]
    TrustNotKept {
        /// What happened.
        problem: String,
    },
    /// Reading broke off.
    #[error("the rules could not be read")]
    Interrupted,
}

/// Something wrong or dubious in rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Stable code.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// The rule counts all the same.
    pub is_warning: bool,
    /// The rule as written. Empty: the whole file.
    pub rule: String,
    /// The list that the rule stands in. None: the whole file.
    pub list: Option<Verdict>,
    /// Whose rules.
    pub source: Source,
    /// Where the rule stands. None: the whole file.
    pub origin: Option<Origin>,
}

impl Problem {
    fn of_rule(problem: &RuleProblem) -> Self {
        Self {
            code: problem.error.code(),
            message: problem.error.to_string(),
            is_warning: false,
            rule: problem.text.clone(),
            list: Some(problem.list),
            source: problem.origin.source,
            origin: Some(problem.origin.clone()),
        }
    }

    fn of_lint(lint: &Lint) -> Self {
        Self {
            code: lint.kind.code(),
            message: lint.kind.to_string(),
            is_warning: true,
            rule: lint.rule.text.to_string(),
            list: Some(lint.rule.list),
            source: lint.rule.origin.source,
            origin: Some(lint.rule.origin.clone()),
        }
    }

    fn of_file(source: Source, code: &'static str, message: String) -> Self {
        Self {
            code,
            message,
            is_warning: false,
            rule: String::new(),
            list: None,
            source,
            origin: None,
        }
    }
}

impl RulesError {
    /// Everything that is wrong, rule by rule where it is about rules.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            RulesError::Rule(error) => error.problems.iter().map(Problem::of_rule).collect(),
            RulesError::File(error) => {
                vec![Problem::of_file(
                    error.from,
                    error.code,
                    error.problem.clone(),
                )]
            }
        }
    }
}

/// What rules would do that nobody has loaded.
#[derive(Debug, Clone)]
pub struct CheckedRules {
    /// They would be loaded, without those that `problems` tells.
    pub is_ok: bool,
    /// What is wrong or dubious.
    pub problems: Vec<Problem>,
    /// How many would count.
    pub count: usize,
}

/// What is wrong or dubious in what was loaded last, and in what was not taken since.
fn problems_of(standing: &RuleStanding, lints: &[Lint]) -> Vec<Problem> {
    let failed = standing.failure.as_ref();
    let mut problems = failed.map_or_else(Vec::new, RulesError::problems);
    // Those of a load that failed tell the allow rules as well.
    if !matches!(failed, Some(RulesError::Rule(_))) {
        problems.extend(standing.skipped.iter().map(Problem::of_rule));
    }
    problems.extend(lints.iter().map(Problem::of_lint));
    problems
}

impl Engine {
    /// The rules of the files.
    pub fn rule_book(&self) -> &RuleBook {
        &self.rules
    }

    /// What stands in the files, with everything that is wrong or dubious in it.
    ///
    /// # Errors
    /// [`PolicyError::Interrupted`].
    pub async fn rules_with_problems(
        self: &Arc<Self>,
    ) -> Result<(Arc<RuleStanding>, Vec<Problem>), PolicyError> {
        let engine = self.clone();
        self.blocking(move || {
            let standing = engine.rules.standing();
            let registry = engine.directory.registry();
            let lints = engine.rules.advice(&standing.policy, &registry);
            let problems = problems_of(&standing, &lints);
            Ok((standing, problems))
        })
        .await
    }

    /// Reads all files now.
    ///
    /// # Errors
    /// [`PolicyError`]; the last good rules hold on then.
    pub async fn reload_rules(self: &Arc<Self>) -> Result<(), PolicyError> {
        let engine = self.clone();
        self.blocking(move || engine.reload_blocking()).await
    }

    /// Trusts a workspace or takes that back, and reads all files.
    ///
    /// # Errors
    /// [`PolicyError`]. With [`PolicyError::Rules`] the trust is kept, and counts from the next load on.
    pub async fn set_workspace_trust(
        self: &Arc<Self>,
        workspace: PathBuf,
        trusted: bool,
    ) -> Result<(), PolicyError> {
        let engine = self.clone();
        self.blocking(move || {
            // Trust can be taken back from what is gone.
            if trusted && !workspace.is_dir() {
                let workspace = workspace.display().to_string();
                return Err(PolicyError::NoWorkspace { workspace });
            }
            let kept = engine.rules.files.set_trust(&workspace, trusted);
            kept.map_err(|error| PolicyError::TrustNotKept {
                problem: error.to_string(),
            })?;
            engine.reload_blocking()
        })
        .await
    }

    fn reload_blocking(&self) -> Result<(), PolicyError> {
        let now = self.now();
        let reloaded = self.rules.reload(now, |standing| self.install(standing));
        let standing = reloaded?;
        tell(&standing);
        Ok(())
    }

    /// Checks the text of a file as if it were of that source. Loads nothing.
    ///
    /// # Errors
    /// [`PolicyError::Interrupted`].
    pub async fn check_rule_file(
        self: &Arc<Self>,
        source: Source,
        text: Bytes,
    ) -> Result<CheckedRules, PolicyError> {
        let engine = self.clone();
        self.blocking(move || {
            Ok(match SourceRules::parse(&text, source) {
                Ok(rules) => engine.checked(source, rules),
                Err(error) => CheckedRules {
                    is_ok: false,
                    problems: vec![Problem::of_file(source, error.code(), error.to_string())],
                    count: 0,
                },
            })
        })
        .await
    }

    /// Checks rules as if they were of that source. Loads nothing.
    ///
    /// # Errors
    /// [`PolicyError::Interrupted`].
    pub async fn check_rule_entries(
        self: &Arc<Self>,
        source: Source,
        entries: Vec<(Verdict, RuleEntry)>,
    ) -> Result<CheckedRules, PolicyError> {
        let engine = self.clone();
        self.blocking(move || Ok(engine.checked(source, rules_of(entries))))
            .await
    }

    fn checked(&self, source: Source, rules: SourceRules) -> CheckedRules {
        let trust = self.rules.standing().trust;
        let options = options(self.rules.aliases(), trust);
        match Policy::load(vec![text_of(source, rules)], &options, 0) {
            Err(error) => CheckedRules {
                is_ok: false,
                problems: error.problems.iter().map(Problem::of_rule).collect(),
                count: 0,
            },
            Ok(loaded) => {
                let registry = self.directory.registry();
                let lints = lints_of(&loaded.policy, &registry, self.rules.aliases());
                let skipped = loaded.skipped.iter().map(Problem::of_rule);
                CheckedRules {
                    is_ok: true,
                    problems: skipped.chain(lints.iter().map(Problem::of_lint)).collect(),
                    count: loaded.policy.rules().count(),
                }
            }
        }
    }

    /// The policy of rules that came with a request.
    ///
    /// # Errors
    /// Every rule that cannot be read, allow rules too: whoever sends a rule wants it to count.
    pub fn command_rules(
        &self,
        entries: Vec<(Verdict, RuleEntry)>,
    ) -> Result<Policy, Vec<RuleProblem>> {
        let options = options(self.rules.aliases(), self.rules.standing().trust);
        let text = text_of(Source::Command, rules_of(entries));
        let revision = self.permissions().policy.revision();
        match Policy::load(vec![text], &options, revision) {
            Ok(loaded) if loaded.skipped.is_empty() => Ok(loaded.policy),
            Ok(loaded) => Err(loaded.skipped),
            Err(error) => Err(error.problems),
        }
    }

    /// The rules that came with a turn. They were read before it was taken; should they no longer be
    /// readable, nothing of the turn runs.
    pub(super) fn rules_of_turn(&self, spec: &TurnSpec) -> Option<Arc<Policy>> {
        let rules = &spec.request.command_rules;
        if rules.is_empty() {
            return None;
        }
        let read = self.command_rules(rules.iter().map(TurnRule::entry).collect());
        let policy = read.or_else(|problems| {
            tracing::error!(turn = %spec.request.turn, ?problems, "the rules of a turn are unreadable");
            self.command_rules(vec![(Verdict::Deny, RuleEntry::of_text("*"))])
        });
        policy.ok().map(Arc::new)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PolicyError> + Send + 'static,
    ) -> Result<T, PolicyError> {
        let done = self.tasks.block("policy", work).await;
        done.unwrap_or(Err(PolicyError::Interrupted))
    }
}

fn rules_of(entries: Vec<(Verdict, RuleEntry)>) -> SourceRules {
    SourceRules {
        entries,
        max_mode: None,
    }
}

fn text_of(source: Source, rules: SourceRules) -> SourceText {
    SourceText {
        source,
        file: None,
        root: None,
        rules,
    }
}
