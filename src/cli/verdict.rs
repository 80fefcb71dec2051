//! `callgate explain 'TOOL(TEXT)'`: how a call would be decided, with the code that decides.
//!
//! Reads the rules as the sidecar does. Never asks, records or runs anything.

use std::path::PathBuf;

use super::ConfigArguments;
use super::output::{Outcome, data};
use crate::base::clock::Clock;
use crate::config::rule_files::RuleFiles;
use crate::engine::load_rules;
use crate::gate::command::Opaque;
use crate::gate::ids::{OwnerName, ToolName, UnixMillis};
use crate::gate::permission::{
    self, Answer, Approver, Because, Check, CommandSubject, GrantedTool, Grants, Hook, Mode,
    ModeBounds, PathSubject, Permissions, Place, Situation, Step, Subject,
};
use crate::gate::result::Digest;
use crate::gate::tool::{Kind, Risk};

/// What is asked about, besides the rules.
#[derive(Debug, clap::Args)]
pub(super) struct Question {
    #[command(flatten)]
    config: ConfigArguments,
    /// A file of rules besides those of the configuration.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// The mode. Default: that of the configuration.
    #[arg(long)]
    mode: Option<String>,
    /// What the tool does.
    #[arg(long, default_value = "execute")]
    kind: String,
    /// How much harm it can do.
    #[arg(long, default_value = "sensitive")]
    risk: String,
    /// How the text is read: command, path, url or text.
    #[arg(long, default_value = "command")]
    subject: String,
}

impl Question {
    /// Says how the call would be decided.
    pub(super) fn answer(&self, call: &str, json: bool) -> Result<(), Outcome> {
        let mut config = self.config.load()?;
        if let Some(file) = &self.settings {
            config.permissions.settings_file.clone_from(file);
        }
        let mode = match &self.mode {
            None => config
                .mode()
                .map_err(|error| Outcome::usage(error.to_string()))?,
            Some(name) => Mode::parse(name).ok_or_else(|| unknown("mode", name))?,
        };
        let files = RuleFiles::of(&config);
        let loaded = load_rules(&files, 1).map_err(|error| Outcome::failed(error.to_string()))?;
        let (name, text) = parts(call);
        let tool = GrantedTool {
            name: ToolName::trusted(name),
            owner: OwnerName::trusted(""),
            digest: Digest::of(b""),
        };
        let place = Place::default();
        let subject = self.subject_of(text)?;
        let asked = permission::Call {
            tool: &tool,
            kind: self.kind()?,
            risk: self.risk()?,
            skip_permission: false,
            arguments: None,
            subject: &subject,
            place: &place,
        };
        let situation = Situation {
            now: UnixMillis(Clock::system().now_ms()),
            mode: ModeBounds::of(mode),
            policies: &[&loaded.policy],
            grants: &Grants::default(),
            hook: Hook::default(),
            check: Check::default(),
            approver: Approver::Expected,
            settings: Permissions::default().settings,
        };
        print(&permission::decide_call(&asked, &situation), json);
        Ok(())
    }

    fn subject_of(&self, text: Option<&str>) -> Result<Subject, Outcome> {
        let Some(text) = text else {
            return Ok(Subject::Undeclared);
        };
        Ok(match self.subject.as_str() {
            "command" => Subject::Command(read_alone(text)?),
            "path" => Subject::Paths(vec![PathSubject {
                given: text.to_owned(),
                canonical: None,
            }]),
            "url" => Subject::Url(text.to_owned()),
            "text" => Subject::Text(text.to_owned()),
            other => return Err(unknown("subject", other)),
        })
    }

    fn kind(&self) -> Result<Kind, Outcome> {
        let all = [
            Kind::Read,
            Kind::Fetch,
            Kind::Edit,
            Kind::Delete,
            Kind::Execute,
            Kind::Interact,
            Kind::Other,
        ];
        let found = all.into_iter().find(|kind| kind.as_str() == self.kind);
        found.ok_or_else(|| unknown("kind", &self.kind))
    }

    fn risk(&self) -> Result<Risk, Outcome> {
        let all = [Risk::Safe, Risk::Sensitive, Risk::Dangerous];
        let found = all.into_iter().find(|risk| risk.as_str() == self.risk);
        found.ok_or_else(|| unknown("risk", &self.risk))
    }
}

/// Reads the command where a parser may use as much stack as it needs.
fn read_alone(text: &str) -> Result<CommandSubject, Outcome> {
    let owned = text.to_owned();
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    let reading = thread.spawn(move || CommandSubject::read(&owned));
    let reading = reading.map_err(|error| Outcome::failed(format!("no thread: {error}")))?;
    Ok(reading
        .join()
        .unwrap_or_else(|_| CommandSubject::unread(text, Opaque::ParserCrashed)))
}

/// The tool, and what stands in brackets behind it, up to the last one.
fn parts(call: &str) -> (&str, Option<&str>) {
    match call.split_once('(') {
        None => (call, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').unwrap_or(rest))),
    }
}

fn unknown(what: &str, word: &str) -> Outcome {
    Outcome::usage(format!("no {what} `{word}`"))
}

fn print(answer: &Answer, json: bool) {
    if json {
        let steps: Vec<_> = answer.steps.iter().map(step_json).collect();
        let object = serde_json::json!({
            "verdict": answer.verdict.as_str(),
            "mode": answer.mode.as_str(),
            "decided_by": step_json(&answer.decided_by),
            "steps": steps,
        });
        data(&object.to_string());
        return;
    }
    data(&format!(
        "{}, by {}",
        answer.verdict.as_str(),
        words(&answer.decided_by)
    ));
    for step in &answer.steps {
        data(&format!(
            "  {} says {}: {}",
            step.stage.as_str(),
            step.verdict.as_str(),
            words(step)
        ));
    }
}

fn step_json(step: &Step) -> serde_json::Value {
    serde_json::json!({
        "stage": step.stage.as_str(),
        "verdict": step.verdict.as_str(),
        "because": because(&step.because),
        "segment": step.segment,
    })
}

fn words(step: &Step) -> String {
    let because = because(&step.because);
    match &step.segment {
        None => because,
        Some(segment) => format!("{because}, met by `{segment}`"),
    }
}

fn because(because: &Because) -> String {
    match because {
        Because::Rule(rule) => format!(
            "{} rule `{}` of {}",
            rule.list.as_str(),
            rule.text,
            rule.origin
        ),
        Because::Untried(rule) => format!(
            "{} rule `{}` of {}, which cannot be tried on this",
            rule.list.as_str(),
            rule.text,
            rule.origin
        ),
        Because::Grant { text, .. } => format!("the grant `{text}`"),
        Because::Hook => "the hooks".to_owned(),
        Because::Unclear(why) => format!("what it would do is unclear: {why}"),
        Because::Mode(mode) => format!("mode `{}`", mode.as_str()),
        Because::ToolCheck => "the tool's own check".to_owned(),
        Because::SkipPermission => "the tool's author".to_owned(),
        Because::NoApprover => "nobody can be asked".to_owned(),
    }
}
