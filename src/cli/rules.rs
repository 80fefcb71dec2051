//! `callgate rules`: which rules hold here, what is wrong with them, whom the workspace's may bind.
//!
//! Asks a running sidecar where there is one; otherwise reads the same files with the same code. Never
//! changes a rule.

use std::path::{Path, PathBuf};

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::policy_service_client::PolicyServiceClient;
use clap::Subcommand;
use tonic::Status;

use super::ConfigArguments;
use super::client::{ClientArguments, block_on, failed, word};
use super::live::{Live, Socket, connect_control};
use super::output::{Outcome, data, note, outcome, table};
use crate::base::clock::Clock;
use crate::config::rule_files::{self, RuleFiles};
use crate::engine::{RuleStanding, RulesError, load_rules};
use crate::gate::ids::UnixMillis;
use crate::gate::permission::{RuleProblem, RuleRef};
use crate::server::{Sight, rule_message, source_word};

/// Check, list, reload or trust rules.
#[derive(Debug, Subcommand)]
pub(super) enum Rules {
    /// Say what is wrong or dubious in the files. Exits 1 if a rule does not load.
    Check(Check),
    /// List the rules, in the order in which they are asked: of a running sidecar, else of the files.
    List(List),
    /// Have a running sidecar read its files now. Exits 1 if they are not taken.
    Reload(Reload),
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

/// List the rules.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    client: ClientArguments,
    #[command(flatten)]
    config: ConfigArguments,
    /// Read the files here, whether a sidecar runs or not. So do options that name files.
    #[arg(long)]
    offline: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Have a running sidecar read its files now.
#[derive(Debug, clap::Args)]
pub(super) struct Reload {
    #[command(flatten)]
    client: ClientArguments,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Let the allow rules of a workspace hold.
#[derive(Debug, clap::Args)]
pub(super) struct Trust {
    #[command(flatten)]
    client: ClientArguments,
    #[command(flatten)]
    config: ConfigArguments,
    /// Write the list of trusted workspaces here, whether a sidecar runs or not. So do options that name
    /// files.
    #[arg(long)]
    offline: bool,
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
            Rules::List(command) => block_on(command.list()),
            Rules::Reload(command) => block_on(command.reload()),
            Rules::Trust(command) => block_on(command.trust()),
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
    async fn list(&self) -> Result<(), Outcome> {
        let live = Live::find(&self.client, &self.config, self.offline, Socket::Local).await?;
        let rules = match &live {
            Live::Sidecar { channel, .. } => listed(channel.clone()).await?,
            Live::Files => self.read()?,
        };
        live.tell();
        if self.json {
            for rule in &rules {
                data(&rule_json(rule).to_string());
            }
            return Ok(());
        }
        let header = ["state", "list", "rule", "source", "origin"];
        let header = header.map(str::to_owned).to_vec();
        let rows = rules.iter().map(|rule| {
            let spec = rule.spec.clone().unwrap_or_default();
            vec![
                state_word(rule.state()).to_owned(),
                list_word(&spec),
                spec.rule,
                source_word(rule.source).to_owned(),
                rule.origin.clone(),
            ]
        });
        let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
        for line in table(&rows) {
            data(&line);
        }
        Ok(())
    }

    fn read(&self) -> Result<Vec<pb::Rule>, Outcome> {
        let config = self.config.load()?;
        let now = UnixMillis(Clock::system().now_ms());
        let standing = RuleStanding::read(&RuleFiles::of(&config), now);
        let standing = standing.map_err(|error| Outcome::no(error.to_string()))?;
        let rules = standing.rules(now);
        Ok(rules
            .iter()
            .map(|rule| rule_message(rule, &[], Sight::Path))
            .collect())
    }
}

/// Every rule of the sidecar, page by page.
async fn listed(channel: AuthorizedChannel) -> Result<Vec<pb::Rule>, Outcome> {
    let mut policy = PolicyServiceClient::new(channel);
    let mut request = pb::ListRulesRequest::default();
    let mut rules = Vec::new();
    loop {
        let answered = policy.list_rules(request.clone()).await;
        let page = answered.map_err(|status| failed(&status))?.into_inner();
        rules.extend(page.rules);
        if page.next_page_token.is_empty() {
            return Ok(rules);
        }
        request.page_token = page.next_page_token;
    }
}

fn rule_json(rule: &pb::Rule) -> serde_json::Value {
    let spec = rule.spec.clone().unwrap_or_default();
    let problems = rule.problems.iter().map(problem_json);
    serde_json::json!({
        "rule_id": rule.rule_id, "state": state_word(rule.state()), "list": list_word(&spec),
        "rule": spec.rule, "source": source_word(rule.source), "origin": rule.origin,
        "message": spec.message, "problems": problems.collect::<Vec<_>>(),
    })
}

fn problem_json(problem: &pb::RuleProblem) -> serde_json::Value {
    serde_json::json!({
        "code": problem.code, "message": problem.message, "warning": problem.warning,
        "rule": problem.rule, "origin": problem.origin,
    })
}

fn state_word(state: pb::RuleState) -> &'static str {
    match state {
        pb::RuleState::Unspecified => "unknown",
        pb::RuleState::Active => "holds",
        pb::RuleState::Untrusted => "inert",
        pb::RuleState::Invalid => "invalid",
        pb::RuleState::Expired => "expired",
    }
}

fn list_word(spec: &pb::RuleSpec) -> String {
    word(spec.effect().as_str_name(), "PERMISSION_EFFECT_")
}

impl Reload {
    async fn reload(&self) -> Result<(), Outcome> {
        let mut policy = PolicyServiceClient::new(connect_control(&self.client).await?);
        let answered = policy.reload_policy(pb::ReloadPolicyRequest {}).await;
        let answer = answered.map_err(|status| refused(&status))?.into_inner();
        if self.json {
            let problems = answer.problems.iter().map(problem_json);
            let object = serde_json::json!({
                "policy_revision": answer.policy_revision,
                "problems": problems.collect::<Vec<_>>(),
            });
            data(&object.to_string());
            return Ok(());
        }
        for problem in &answer.problems {
            let kind = match problem.warning {
                true => "warning",
                false => "invalid",
            };
            let (rule, origin, text) = (&problem.rule, &problem.origin, &problem.message);
            data(&format!(
                "{kind}: `{rule}` of {origin}: {}: {text}",
                problem.code
            ));
        }
        note(&format!("loaded; revision {}", answer.policy_revision));
        Ok(())
    }
}

/// Rules that are not taken are an answer; anything else is none.
fn refused(status: &Status) -> Outcome {
    match status.code() == tonic::Code::InvalidArgument {
        true => Outcome::no(status.message()),
        false => failed(status),
    }
}

impl Trust {
    async fn trust(&self) -> Result<(), Outcome> {
        let config = self.config.load()?;
        let named = config.permissions.workspace.clone();
        let named = Some(named).filter(|dir| !dir.as_os_str().is_empty());
        let workspace =
            self.workspace.clone().or(named).ok_or_else(|| {
                Outcome::usage("name the workspace, or set `permissions.workspace`")
            })?;
        let at =
            |error: std::io::Error| Outcome::failed(format!("`{}`: {error}", workspace.display()));
        let live = Live::find(&self.client, &self.config, self.offline, Socket::Control).await?;
        let workspace = match live {
            Live::Sidecar { channel, endpoint } => {
                let workspace = match workspace.canonicalize() {
                    Err(_) if self.remove => std::path::absolute(&workspace).map_err(at)?,
                    found => found.map_err(at)?,
                };
                self.ask(channel, &workspace).await?;
                note(&format!("told the sidecar at {endpoint}"));
                workspace
            }
            Live::Files => {
                rule_files::set_trust(&config.data_dir, &workspace, !self.remove).map_err(at)?
            }
        };
        note(&match self.remove {
            false => format!("`{}` is trusted", workspace.display()),
            true => format!("`{}` is not trusted any more", workspace.display()),
        });
        Ok(())
    }

    async fn ask(&self, channel: AuthorizedChannel, workspace: &Path) -> Result<(), Outcome> {
        let request = pb::SetWorkspaceTrustRequest {
            workspace: workspace.display().to_string(),
            trusted: !self.remove,
        };
        let mut policy = PolicyServiceClient::new(channel);
        let answered = policy.set_workspace_trust(request).await;
        answered.map(|_| ()).map_err(|status| refused(&status))
    }
}
