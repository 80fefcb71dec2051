//! `callgate explain 'TOOL(TEXT)'`: how a call would be decided, with the code that decides.
//!
//! A running sidecar is asked, since it knows the tool; without one the rules are read as it would read
//! them. Either way the same message is shown. Never asks an approver, records or runs anything.

use std::path::PathBuf;
use std::sync::Arc;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::explain_decision_request::Question as Asking;
use callgate_client::pb::v1::policy_service_client::PolicyServiceClient;
use serde_json::Value;

use super::ConfigArguments;
use super::client::{ClientArguments, block_on, failed, word};
use super::live::{Live, Socket};
use super::output::{Outcome, data, note};
use super::sidecar::desk;
use crate::base::clock::Clock;
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::config::Config;
use crate::config::rule_files::RuleFiles;
use crate::engine::{Explained, HookDesk, load_rules};
use crate::executor::read_definition;
use crate::gate::command::{Analysis, Opaque, analyse};
use crate::gate::hooks::{Foresight, Matched, arguments_of};
use crate::gate::ids::{OwnerName, ToolName, UnixMillis};
use crate::gate::json::JsonLimits;
use crate::gate::permission::{
    self, Answer, Approver, Check, CommandSubject, GrantedTool, Grants, Mode, ModeBounds,
    Permissions, Place, Situation, Subject, written_call,
};
use crate::gate::result::Digest;
use crate::gate::tool::{DeclaredSubject, Kind, Risk, SubjectKind, check_definition};
use crate::server::{Sight, explanation, source_word};
use crate::store::{MemoryStore, SharedStore};

/// Where the text stands in the arguments of a tool that only the options describe.
const POINTER: &str = "/text";

/// What is asked about, besides the rules.
#[derive(Debug, clap::Args)]
pub(super) struct Question {
    #[command(flatten)]
    client: ClientArguments,
    #[command(flatten)]
    config: ConfigArguments,
    /// Decide with the files here, whether a sidecar runs or not. So do options that name files.
    #[arg(long)]
    offline: bool,
    /// A file of rules besides those of the configuration.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// With the mode of this session of the sidecar.
    #[arg(long, value_name = "ID", default_value = "")]
    session: String,
    /// The mode. Default: that of the session or the configuration.
    #[arg(long)]
    mode: Option<String>,
    /// What the tool does, if no sidecar knows it.
    #[arg(long, default_value = "execute")]
    kind: String,
    /// How much harm it can do, if no sidecar knows it.
    #[arg(long, default_value = "sensitive")]
    risk: String,
    /// How the text is read, if no sidecar knows it: command, path, url or text.
    #[arg(long, default_value = "command")]
    subject: String,
}

impl Question {
    /// Says how the call would be decided.
    pub(super) fn answer(&self, call: &str, json: bool) -> Result<(), Outcome> {
        block_on(async {
            let offline = self.offline || self.settings.is_some();
            let live = Live::find(&self.client, &self.config, offline, Socket::Local).await?;
            let answer = match &live {
                Live::Sidecar { channel, .. } => self.ask(channel.clone(), call).await?,
                Live::Files if !self.session.is_empty() => {
                    return Err(Outcome::usage("`--session` needs a running sidecar"));
                }
                Live::Files => self.decide(call)?,
            };
            let mut shown = shown(&answer);
            if let (true, Some(object)) = (json, shown.as_object_mut()) {
                let asked = match &live {
                    Live::Sidecar { endpoint, .. } => endpoint.as_str(),
                    Live::Files => "files",
                };
                object.insert("asked".to_owned(), asked.into());
                data(&shown.to_string());
                return Ok(());
            }
            live.tell();
            print(&answer);
            Ok(())
        })
    }

    /// Asks the sidecar; about a tool that it does not know as the options describe it.
    async fn ask(
        &self,
        channel: AuthorizedChannel,
        call: &str,
    ) -> Result<pb::ExplainDecisionResponse, Outcome> {
        let mut policy = PolicyServiceClient::new(channel);
        let mut request = pb::ExplainDecisionRequest {
            question: Some(Asking::Text(call.to_owned())),
            session_id: self.session.clone(),
            mode: self.mode_number()?,
            ..pb::ExplainDecisionRequest::default()
        };
        let asked = policy.explain_decision(request.clone()).await;
        let answer = asked.map_err(|status| failed(&status))?.into_inner();
        let is_unknown = answer
            .error
            .as_ref()
            .is_some_and(|error| error.code == "tool_not_found");
        if !is_unknown {
            return Ok(answer);
        }
        let name = written_call(call).0.trim();
        note(&format!(
            "the sidecar knows no tool `{name}`; taken as kind {}, risk {}, subject {}",
            self.kind, self.risk, self.subject
        ));
        request.definition = Some(self.definition(name)?);
        let asked = policy.explain_decision(request).await;
        Ok(asked.map_err(|status| failed(&status))?.into_inner())
    }

    /// The tool as the options describe it.
    fn definition(&self, name: &str) -> Result<pb::ToolDefinition, Outcome> {
        let risk = match self.risk()? {
            Risk::Safe => pb::RiskLevel::Safe,
            Risk::Sensitive => pb::RiskLevel::Sensitive,
            Risk::Dangerous => pb::RiskLevel::Dangerous,
        };
        let kind = match self.kind()? {
            Kind::Read => pb::ToolKind::Read,
            Kind::Fetch => pb::ToolKind::Fetch,
            Kind::Edit => pb::ToolKind::Edit,
            Kind::Delete => pb::ToolKind::Delete,
            Kind::Execute => pb::ToolKind::Execute,
            Kind::Interact => pb::ToolKind::Interact,
            Kind::Other => pb::ToolKind::Other,
        };
        let subject = match self.subject_kind()? {
            SubjectKind::Command => pb::SubjectType::Command,
            SubjectKind::Path => pb::SubjectType::Path,
            SubjectKind::Url => pb::SubjectType::Url,
            SubjectKind::Text => pb::SubjectType::Text,
        };
        let parameters = serde_json::json!({
            "type": "object", "properties": {"text": {"type": "string"}},
        });
        Ok(pb::ToolDefinition {
            name: name.to_owned(),
            description: "as asked".to_owned(),
            parameters_json: parameters.to_string().into(),
            risk_level: risk as i32,
            kind: kind as i32,
            subject: Some(pb::Subject {
                pointer: POINTER.to_owned(),
                subject_type: subject as i32,
                dialect: String::new(),
            }),
            ..pb::ToolDefinition::default()
        })
    }

    /// Decides with the files.
    fn decide(&self, call: &str) -> Result<pb::ExplainDecisionResponse, Outcome> {
        let mut config = self.config.load()?;
        if let Some(file) = &self.settings {
            config.permissions.settings_file.clone_from(file);
        }
        let mode = match self.mode()? {
            Some(mode) => mode,
            None => config
                .mode()
                .map_err(|error| Outcome::usage(error.to_string()))?,
        };
        let files = RuleFiles::of(&config);
        let loaded = load_rules(&files, 1).map_err(|error| Outcome::failed(error.to_string()))?;
        let (name, text) = written_call(call);
        let tool = GrantedTool {
            name: ToolName::trusted(name),
            owner: OwnerName::trusted(""),
            digest: Digest::of(b""),
        };
        let declared = DeclaredSubject {
            pointer: String::new(),
            kind: Some(self.subject_kind()?),
            dialect: String::new(),
        };
        let analysis = match text {
            Some(text) if declared.is_readable_command() => Some(read_alone(text)?),
            Some(_) | None => None,
        };
        let cut_up = text.zip(analysis.as_ref());
        let command = cut_up.map(|(text, analysis)| CommandSubject::of(text, analysis));
        let subject = text.map_or(Subject::Undeclared, |text| {
            Subject::of_text(&declared, text, command.as_ref())
        });
        let place = Place::default();
        let asked = permission::Call {
            tool: &tool,
            kind: self.kind()?,
            risk: self.risk()?,
            skip_permission: false,
            arguments: None,
            subject: &subject,
            place: &place,
        };
        let hooks = self.foresee(&config, name, text, command.as_ref())?;
        let situation = Situation {
            now: UnixMillis(Clock::system().now_ms()),
            mode: ModeBounds::of(mode),
            policies: &[&loaded.policy],
            grants: &Grants::default(),
            hook: hooks.voice(),
            check: Check::default(),
            approver: Approver::Expected,
            settings: Permissions::default().settings,
        };
        let mut explained = Explained::of(&asked, &situation, cut_up);
        // There is no session to grant anything.
        explained.candidates = Vec::new();
        explained.hooks = hooks;
        Ok(explanation(&explained, 1, Sight::Path))
    }

    /// What the hooks that the configuration declares would say of the tool as the options describe it.
    fn foresee(
        &self,
        config: &Config,
        name: &str,
        text: Option<&str>,
        command: Option<&CommandSubject>,
    ) -> Result<Foresight, Outcome> {
        let wrong = |error: String| Outcome::usage(error);
        // Nothing is registered here, so nothing is kept.
        let store: SharedStore = Arc::new(MemoryStore::new());
        let (mint, tasks) = (Arc::new(Mint::new()), Tasks::new());
        let desk = desk(config, &mint, &tasks, &store, Vec::new()).map_err(wrong)?;
        let rules = config.tool_rules();
        let rules = rules.map_err(|error| Outcome::usage(error.to_string()))?;
        // A name that no tool may have is one of a tool that nobody knows.
        let described = read_definition(self.definition(name)?);
        let tool = check_definition(described, &rules, &config.limits).ok();
        let tool = tool.map(|checked| checked.of_nobody(UnixMillis(0)));
        let arguments = text.and_then(|text| arguments_of(POINTER, text));
        let matched = Matched {
            name,
            tool: tool.as_ref(),
            arguments: arguments.as_ref(),
            command,
            cwd: None,
        };
        let limits = JsonLimits::default();
        Ok(Foresight::of(&desk.list(), &matched, &limits))
    }

    fn mode(&self) -> Result<Option<Mode>, Outcome> {
        let named = self.mode.as_ref();
        named
            .map(|name| Mode::parse(name).ok_or_else(|| unknown("mode", name)))
            .transpose()
    }

    fn mode_number(&self) -> Result<i32, Outcome> {
        let mode = match self.mode()? {
            None => pb::Mode::Unspecified,
            Some(Mode::Plan) => pb::Mode::Plan,
            Some(Mode::Default) => pb::Mode::Default,
            Some(Mode::AcceptEdits) => pb::Mode::AcceptEdits,
            Some(Mode::Auto) => pb::Mode::Auto,
        };
        Ok(mode as i32)
    }

    fn subject_kind(&self) -> Result<SubjectKind, Outcome> {
        let all = [
            SubjectKind::Command,
            SubjectKind::Path,
            SubjectKind::Url,
            SubjectKind::Text,
        ];
        let found = all.into_iter().find(|kind| kind.as_str() == self.subject);
        found.ok_or_else(|| unknown("subject", &self.subject))
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
fn read_alone(text: &str) -> Result<Analysis, Outcome> {
    let owned = text.to_owned();
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    let reading = thread.spawn(move || analyse(&owned));
    let reading = reading.map_err(|error| Outcome::failed(format!("no thread: {error}")))?;
    Ok(reading
        .join()
        .unwrap_or_else(|_| Analysis::raw_only(text, Opaque::ParserCrashed)))
}

fn unknown(what: &str, word: &str) -> Outcome {
    Outcome::usage(format!("no {what} `{word}`"))
}

/// A decision as `--json` prints it.
pub(super) fn shown_answer(answer: &Answer) -> Value {
    let explained = Explained {
        answer: answer.clone(),
        parts: Vec::new(),
        candidates: Vec::new(),
        hooks: Foresight::default(),
        if_plain: None,
    };
    shown(&explanation(&explained, 1, Sight::Path))
}

fn shown(answer: &pb::ExplainDecisionResponse) -> Value {
    let verdict = answer.verdict.clone().unwrap_or_default();
    let segments = answer.segments.iter().map(|segment| {
        serde_json::json!({
            "text": segment.text,
            "words": segment.words,
            "wrappers": segment.wrappers,
            "opaque_reason": segment.opaque_reason,
            "verdict": effect_word(segment.effect),
        })
    });
    serde_json::json!({
        "verdict": effect_word(verdict.effect),
        "decided_by": {
            "stage": stage_word(verdict.stage),
            "rule": verdict.rule,
            "source": source_word(verdict.source),
            "origin": verdict.origin,
            "segment": verdict.segment,
            "segment_index": verdict.segment_index,
            "hook": verdict.hook_id,
            "because": because(answer),
            "message": verdict.message,
        },
        "steps": answer.steps.iter().map(step_json).collect::<Vec<_>>(),
        "segments": segments.collect::<Vec<_>>(),
        "hooks": answer.hooks.iter().map(hook_json).collect::<Vec<_>>(),
        "hooks_not_asked": answer.hooks_not_asked,
        "error": answer.error.as_ref().map(|error| serde_json::json!({
            "code": error.code, "message": error.message_for_model, "path": error.path,
        })),
        "policy_revision": verdict.policy_revision,
    })
}

fn step_json(step: &pb::DecisionStep) -> Value {
    serde_json::json!({
        "stage": stage_word(step.stage),
        "verdict": effect_word(step.effect),
        "rule": step.rule,
        "source": source_word(step.source),
        "origin": step.origin,
        "note": step.note,
    })
}

fn hook_json(hook: &pb::ExplainedHook) -> Value {
    serde_json::json!({
        "hook": hook.hook_id,
        "action": action_word(hook),
        "reason": hook.reason_for_user,
        "modified_args_json": String::from_utf8_lossy(&hook.modified_args_json),
        "additional_context": hook.additional_context,
        "suppress_output": hook.suppress_output,
    })
}

fn action_word(hook: &pb::ExplainedHook) -> String {
    word(hook.action().as_str_name(), "BEFORE_ACTION_")
}

/// What a built-in hook would say, on one line.
fn hook_line(hook: &pb::ExplainedHook) -> String {
    let mut line = format!("  hook `{}` says {}", hook.hook_id, action_word(hook));
    if !hook.reason_for_user.is_empty() {
        line.push_str(": ");
        line.push_str(&hook.reason_for_user);
    }
    if !hook.modified_args_json.is_empty() {
        let arguments = String::from_utf8_lossy(&hook.modified_args_json);
        line.push_str(&format!(", with the arguments {arguments}"));
    }
    if !hook.additional_context.is_empty() {
        line.push_str(&format!(
            ", and tells the model `{}`",
            hook.additional_context
        ));
    }
    if hook.suppress_output {
        line.push_str(", and keeps the result from the model");
    }
    line
}

fn print(answer: &pb::ExplainDecisionResponse) {
    let verdict = answer.verdict.clone().unwrap_or_default();
    data(&format!(
        "{}, by {}",
        effect_word(verdict.effect),
        because(answer)
    ));
    for step in answer.steps.iter().filter(|step| !step.note.is_empty()) {
        let stage = stage_word(step.stage);
        let says = match step.effect == pb::PermissionEffect::Unspecified as i32 {
            true => String::new(),
            false => format!(" says {}", effect_word(step.effect)),
        };
        data(&format!("  {stage}{says}: {}", step.note));
    }
    for hook in &answer.hooks {
        data(&hook_line(hook));
    }
    for id in &answer.hooks_not_asked {
        data(&format!(
            "  hook `{id}` is a process: it would be asked, and was not"
        ));
    }
    // One part is the whole.
    if answer.segments.len() > 1 {
        for segment in &answer.segments {
            let effect = effect_word(segment.effect);
            let why = match segment.opaque_reason.as_str() {
                "" => String::new(),
                why => format!(": {why}"),
            };
            data(&format!("  part `{}` alone: {effect}{why}", segment.text));
        }
    }
}

/// Why it was decided so, in the words of the step that decided.
fn because(answer: &pb::ExplainDecisionResponse) -> String {
    let verdict = answer.verdict.clone().unwrap_or_default();
    let mut steps = answer.steps.iter();
    let decided = steps.find(|step| {
        (step.effect, step.stage, &step.rule) == (verdict.effect, verdict.stage, &verdict.rule)
    });
    decided.map_or(verdict.message, |step| step.note.clone())
}

fn effect_word(number: i32) -> String {
    let effect = pb::PermissionEffect::try_from(number);
    let effect = effect.unwrap_or(pb::PermissionEffect::Deny);
    word(effect.as_str_name(), "PERMISSION_EFFECT_")
}

/// An unknown stage shows its number.
fn stage_word(number: i32) -> String {
    match pb::DecisionStage::try_from(number) {
        Ok(stage) => word(stage.as_str_name(), "DECISION_STAGE_"),
        Err(_) => number.to_string(),
    }
}
