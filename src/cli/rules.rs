//! `callgate rules`: which rules hold here, what is wrong with them, whom the workspace's may bind.
//!
//! Reads the same files with the same code as the sidecar. Never changes a rule.

use std::path::PathBuf;

use clap::Subcommand;

use super::ConfigArguments;
use super::output::{Outcome, data, note, outcome, table};
use crate::config::Config;
use crate::config::rule_files::{self, RuleFiles};
use crate::engine::{RulesError, load_rules};
use crate::gate::permission::{Loaded, RuleProblem, RuleRef};

/// Check, list or trust rules.
#[derive(Debug, Subcommand)]
pub(super) enum Rules {
    /// Say what is wrong or dubious. Exits 1 if a rule does not load.
    Check(Check),
    /// List the rules that hold, in the order in which they are asked.
    List(List),
    /// Let the allow rules of a workspace hold, or take that back.
    Trust(Trust),
}

/// Say what is wrong or dubious.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    #[command(flatten)]
    config: ConfigArguments,
    /// A file of rules to check besides those that the configuration names.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// List the rules that hold.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    config: ConfigArguments,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Let the allow rules of a workspace hold.
#[derive(Debug, clap::Args)]
pub(super) struct Trust {
    #[command(flatten)]
    config: ConfigArguments,
    /// The workspace. Default: the one that the configuration names.
    #[arg(value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Take the trust back.
    #[arg(long)]
    remove: bool,
}

impl Rules {
    pub(super) fn run(self) -> Outcome {
        outcome(match self {
            Rules::Check(command) => command.check(),
            Rules::List(command) => command.list(),
            Rules::Trust(command) => command.trust(),
        })
    }
}

impl Check {
    fn check(&self) -> Result<(), Outcome> {
        let mut config = self.config.load()?;
        if let Some(file) = &self.file {
            config.permissions.settings_file.clone_from(file);
        }
        let files = RuleFiles::of(&config);
        let loaded = match load_rules(&files, 1) {
            Ok(loaded) => loaded,
            Err(RulesError::Rule(error)) => {
                for problem in &error.problems {
                    self.tell_problem(problem);
                }
                return Err(Outcome::no("nothing of this is loaded"));
            }
            Err(error @ RulesError::File(_)) => return Err(Outcome::no(error.to_string())),
        };
        for problem in &loaded.skipped {
            self.tell_problem(problem);
        }
        // Without a sidecar nobody knows the tools, so nothing is said of rules that mean none.
        let lints = loaded.policy.lint(&[], &files.aliases);
        let lints = lints.into_iter().filter(|lint| !lint.kind.is_about_tools());
        for lint in lints {
            let warning = format!("{}: {}", lint.kind.code(), lint.kind);
            self.tell("warning", &lint.rule, &warning);
        }
        for rule in &loaded.inert {
            self.tell("inert", rule, "holds once the workspace is trusted");
        }
        match loaded.skipped.len() {
            0 => Ok(()),
            skipped => Err(Outcome::no(format!("{skipped} allow rules are left out"))),
        }
    }

    fn tell_problem(&self, problem: &RuleProblem) {
        let words = [
            ("state", "invalid".to_owned()),
            ("list", problem.list.as_str().to_owned()),
            ("rule", problem.text.clone()),
            ("origin", problem.origin.to_string()),
            (
                "problem",
                format!("{}: {}", problem.error.code(), problem.error),
            ),
        ];
        self.print(words);
    }

    fn tell(&self, state: &str, rule: &RuleRef, problem: &str) {
        let words = [
            ("state", state.to_owned()),
            ("list", rule.list.as_str().to_owned()),
            ("rule", rule.text.to_string()),
            ("origin", rule.origin.to_string()),
            ("problem", problem.to_owned()),
        ];
        self.print(words);
    }

    fn print(&self, words: [(&str, String); 5]) {
        if self.json {
            let object: serde_json::Map<_, _> = words
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.into()))
                .collect();
            data(&serde_json::Value::from(object).to_string());
            return;
        }
        let [state, list, rule, origin, problem] = words.map(|(_, value)| value);
        data(&format!("{state}: {list} `{rule}` of {origin}: {problem}"));
    }
}

impl List {
    fn list(&self) -> Result<(), Outcome> {
        let config = self.config.load()?;
        let loaded = loaded(&config)?;
        let holding = loaded.policy.rules().map(|rule| ("holds", rule));
        let inert = loaded.inert.iter().map(|rule| ("inert", rule.clone()));
        let rules: Vec<_> = holding.chain(inert).collect();
        if self.json {
            for (state, rule) in &rules {
                let object = serde_json::json!({
                    "state": state, "list": rule.list.as_str(), "rule": rule.text.as_ref(),
                    "origin": rule.origin.to_string(), "message": rule.message.as_deref(),
                });
                data(&object.to_string());
            }
            return Ok(());
        }
        let header = ["state", "list", "rule", "origin"]
            .map(str::to_owned)
            .to_vec();
        let rows = rules.iter().map(|(state, rule)| {
            vec![
                (*state).to_owned(),
                rule.list.as_str().to_owned(),
                rule.text.to_string(),
                rule.origin.to_string(),
            ]
        });
        let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
        for line in table(&rows) {
            data(&line);
        }
        Ok(())
    }
}

impl Trust {
    fn trust(&self) -> Result<(), Outcome> {
        let config = self.config.load()?;
        let named = config.permissions.workspace.clone();
        let named = Some(named).filter(|dir| !dir.as_os_str().is_empty());
        let workspace =
            self.workspace.clone().or(named).ok_or_else(|| {
                Outcome::usage("name the workspace, or set `permissions.workspace`")
            })?;
        let changed = rule_files::set_trust(&config.data_dir, &workspace, !self.remove);
        let workspace = changed
            .map_err(|error| Outcome::failed(format!("`{}`: {error}", workspace.display())))?;
        note(&match self.remove {
            false => format!("`{}` is trusted", workspace.display()),
            true => format!("`{}` is not trusted any more", workspace.display()),
        });
        Ok(())
    }
}

fn loaded(config: &Config) -> Result<Loaded, Outcome> {
    load_rules(&RuleFiles::of(config), 1).map_err(|error| Outcome::no(error.to_string()))
}
