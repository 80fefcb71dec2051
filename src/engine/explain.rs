//! How a call would be decided, by the code that decides.
//!
//! Asks nobody, no hook process either, records nothing and runs nothing. Never caches an answer.

use std::sync::Arc;

use bytes::Bytes;

use super::Engine;
use crate::gate::call::ToolCall;
use crate::gate::command::{Analysis, Opaque, analyse};
use crate::gate::hooks::{Foresight, Heard, Matched, arguments_of};
use crate::gate::ids::{HookId, SessionId, ToolName};
use crate::gate::json::Document;
use crate::gate::permission::{
    self, Answer, Approver, Call, Check, CommandPart, CommandSubject, GrantCandidate, GrantedTool,
    Grants, Mode, ModeBounds, PathSubject, Permissions, Place, Policy, Situation, Subject, Verdict,
    written_call,
};
use crate::gate::refusal::{CallError, ErrorLayer, Refusal};
use crate::gate::tool::{
    DefinitionError, SharedTool, SubjectKind, Tool, ToolDefinition, check_definition,
    check_name_present,
};

/// A call that somebody asks about.
#[derive(Debug)]
pub struct Question {
    /// The call.
    pub asked: Asked,
    /// With what this session has. None: a new one.
    pub session: Option<SessionId>,
    /// In this mode. None: the session's.
    pub mode: Option<Mode>,
    /// Rules besides those that hold.
    pub extra: Option<Policy>,
    /// What the tool would be if nobody has registered it.
    pub definition: Option<ToolDefinition>,
}

/// How a call is written down.
#[derive(Debug)]
pub enum Asked {
    /// As a rule would: `Tool` or `Tool(text)`.
    Text(String),
    /// As a model would.
    Call(ToolCall),
}

/// What would become of it.
#[derive(Debug)]
pub struct Explanation {
    /// The state of the rules that it was decided with.
    pub revision: u64,
    /// The decision, or why the call would end before one.
    pub outcome: Result<Explained, CallError>,
}

/// One decision and what it is made of.
#[derive(Debug)]
pub struct Explained {
    /// The decision.
    pub answer: Answer,
    /// The parts of a command. Empty: no command.
    pub parts: Vec<ExplainedPart>,
    /// What an approver would be offered for the session. Empty: nothing, or nobody is asked.
    pub candidates: Vec<GrantCandidate>,
    /// What hooks would say before it, as far as nobody needs to be asked.
    pub hooks: Foresight,
    /// What would allow the call if its paths are what they look like, which only an executor can say.
    pub if_plain: Option<Answer>,
}

/// A part of a command, and what would be decided for it alone.
#[derive(Debug)]
pub struct ExplainedPart {
    /// The part.
    pub part: CommandPart,
    /// Its own verdict.
    pub verdict: Verdict,
}

impl Explained {
    /// Decides a call, and each part of its command for itself.
    #[must_use]
    pub fn of(
        call: &Call<'_>,
        situation: &Situation<'_>,
        command: Option<(&str, &Analysis)>,
    ) -> Self {
        let parts = command.map_or_else(Vec::new, |(text, analysis)| {
            CommandPart::all(text, analysis)
        });
        let parts = parts.into_iter().map(|part| {
            let subject = &Subject::Command(part.alone.clone());
            let alone = Call { subject, ..*call };
            ExplainedPart {
                verdict: permission::decide_call(&alone, situation).verdict,
                part,
            }
        });
        let parts = parts.collect();
        let answer = permission::decide_call(call, situation);
        Self {
            candidates: permission::candidates(call, situation, &answer),
            if_plain: if_plain(call, situation).filter(|_| answer.verdict == Verdict::Ask),
            hooks: Foresight::default(),
            parts,
            answer,
        }
    }
}

/// The answer if the paths of the call are no links, where it would allow the call.
fn if_plain(call: &Call<'_>, situation: &Situation<'_>) -> Option<Answer> {
    let Subject::Paths(paths) = call.subject else {
        return None;
    };
    let plain = paths.iter().map(|path| PathSubject {
        canonical: path.canonical.clone().or_else(|| Some(path.given.clone())),
        ..path.clone()
    });
    let subject = &Subject::Paths(plain.collect());
    let answer = permission::decide_call(&Call { subject, ..*call }, situation);
    (answer.verdict == Verdict::Allow).then_some(answer)
}

/// What a session brings to a decision.
struct SessionTerms {
    mode: ModeBounds,
    grants: Grants,
    toolset: Option<String>,
    approver: Approver,
    cwd: Option<String>,
}

impl Engine {
    /// Says how a call would be decided.
    pub async fn explain(&self, question: Question) -> Explanation {
        let permissions = self.permissions();
        Explanation {
            revision: permissions.policy.revision(),
            outcome: self.explain_with(&question, &permissions).await,
        }
    }

    /// What the session brings; one that nobody knows has what a new one has.
    async fn session_terms(
        &self,
        session: Option<&SessionId>,
        permissions: &Permissions,
    ) -> SessionTerms {
        let fresh = SessionTerms {
            mode: ModeBounds::of(permissions.mode),
            grants: Grants::default(),
            toolset: None,
            approver: Approver::Expected,
            cwd: None,
        };
        let Some(session) = session else {
            return fresh;
        };
        // A store that cannot be read says nothing of a session either.
        let Ok(session) = self.find_session(session).await else {
            return fresh;
        };
        let state = session.state();
        let max = permissions.policy.max_mode();
        let inherited = session.inherited(&state);
        SessionTerms {
            mode: session.bounds(permissions.mode, max, self.now()),
            grants: inherited.unwrap_or_else(|| state.grants.clone()),
            toolset: state.record.settings.toolset.clone(),
            approver: self.approver_of(&state),
            cwd: state.record.settings.cwd.clone(),
        }
    }

    async fn explain_with(
        &self,
        question: &Question,
        permissions: &Permissions,
    ) -> Result<Explained, CallError> {
        let terms = self
            .session_terms(question.session.as_ref(), permissions)
            .await;
        let tool = self.tool_of(question, &terms)?;
        let declared = tool.definition.subject.as_ref();
        let mut document = match &question.asked {
            Asked::Text(_) => None,
            Asked::Call(call) => Some(self.read_arguments(call, &tool)?),
        };
        let text = match &question.asked {
            Asked::Text(text) => written_call(text).1.map(str::to_owned),
            Asked::Call(_) => document.as_ref().and_then(|document| {
                let value = document.root().pointer(&declared?.pointer)?;
                value.as_str().map(str::to_owned)
            }),
        };
        let is_command = declared.is_some_and(|own| own.kind == Some(SubjectKind::Command));
        let analysis = match &text {
            Some(text) if is_command => Some(self.analysis_of(text, &tool).await),
            Some(_) | None => None,
        };
        let cut_up = text.as_deref().zip(analysis.as_ref());
        let command = cut_up.map(|(text, analysis)| CommandSubject::of(text, analysis));
        let by_text = || arguments_of(&declared?.pointer, text.as_deref()?);
        let seen = document.clone().or_else(by_text);
        let matched = Matched {
            name: tool.definition.name.as_str(),
            tool: Some(&tool),
            arguments: seen.as_ref(),
            command: command.as_ref(),
            cwd: terms.cwd.as_deref(),
        };
        let hooks = Foresight::of(&self.hooks.list(), &matched, &self.json_limits);
        if let (Some(_), Some(rewritten)) = (&document, &hooks.heard.arguments) {
            document = Some(self.read_rewritten(rewritten, &hooks.heard, &tool)?);
        }
        let arguments = document.as_ref().map(Document::root);
        let subject = match (&question.asked, declared, &text) {
            (Asked::Text(_), Some(declared), Some(text)) => {
                Subject::of_text(declared, text, command.as_ref())
            }
            (Asked::Text(_) | Asked::Call(_), _, _) => {
                Subject::of_call(declared, arguments, command.as_ref())
            }
        };
        let granted = GrantedTool {
            name: tool.definition.name.clone(),
            owner: tool.owner.clone(),
            digest: tool.digest,
        };
        let place = Place {
            cwd: terms.cwd,
            ..Place::default()
        };
        let policies: Vec<&Policy> = std::iter::once(&*permissions.policy)
            .chain(&question.extra)
            .collect();
        let situation = Situation {
            now: self.now(),
            mode: ModeBounds {
                session: question.mode.unwrap_or(terms.mode.session),
                ..terms.mode
            },
            policies: &policies,
            grants: &terms.grants,
            hook: hooks.voice(),
            check: Check::default(),
            approver: terms.approver,
            settings: permissions.settings,
        };
        let call = Call {
            tool: &granted,
            kind: tool.definition.kind,
            risk: tool.risk,
            skip_permission: tool.definition.skip_permission,
            arguments,
            subject: &subject,
            place: &place,
        };
        Ok(Explained {
            hooks,
            ..Explained::of(&call, &situation, cut_up)
        })
    }

    /// The arguments as built-in hooks leave them.
    fn read_rewritten(
        &self,
        text: &Bytes,
        heard: &Heard,
        tool: &Tool,
    ) -> Result<Document, CallError> {
        let refused = |problem: String| {
            let hook = heard.rewritten_by.as_ref().map(HookId::to_string);
            Refusal::HookModifiedArgsInvalid {
                hook: hook.unwrap_or_default(),
                problem,
            }
            .into_error()
        };
        let document = Document::parse_object(text, &self.json_limits)
            .map_err(|error| refused(error.to_string()))?;
        let fits = tool.schema.check(&document);
        fits.map_err(|error| refused(error.to_string()))?;
        Ok(document)
    }

    async fn analysis_of(&self, text: &str, tool: &Tool) -> Analysis {
        let declared = tool.definition.subject.as_ref();
        if !declared.is_some_and(|own| own.is_readable_command()) {
            return Analysis::raw_only(text, Opaque::Unsupported);
        }
        let analyser = self.analyser.clone();
        analyser
            .read_as(text.to_owned(), analyse, Analysis::raw_only)
            .await
    }

    /// The tool that is meant: registered, by its own name or one that rules use for it; or as described.
    fn tool_of(&self, question: &Question, terms: &SessionTerms) -> Result<SharedTool, CallError> {
        let toolset = terms.toolset.as_deref();
        let registry = self.directory.registry();
        let name = match &question.asked {
            Asked::Text(text) => ToolName::trusted(written_call(text).0.trim()),
            Asked::Call(call) => call.name.clone(),
        };
        if let Some(tool) = registry.look_up(&name, toolset) {
            return Ok(tool.clone());
        }
        let stands_for = match &question.asked {
            Asked::Text(_) => self.rules.aliases().get(name.as_str()),
            Asked::Call(_) => None,
        };
        if let Some([only]) = stands_for.map(Vec::as_slice)
            && let Some(tool) = registry.look_up(&ToolName::trusted(only.as_str()), toolset)
        {
            return Ok(tool.clone());
        }
        match &question.definition {
            Some(definition) => self.as_if_registered(definition.clone()),
            None => Err(Refusal::ToolNotFound {
                name: name.to_string(),
            }
            .into_error()),
        }
    }

    fn as_if_registered(&self, definition: ToolDefinition) -> Result<SharedTool, CallError> {
        let limits = &self.settings.limits;
        check_name_present(&definition.name).map_err(refused)?;
        let checked = check_definition(definition, self.directory.rules(), limits);
        let checked = checked.map_err(refused)?;
        Ok(Arc::new(checked.of_nobody(self.now())))
    }

    /// The same checks in the same order as for a turn's call.
    fn read_arguments(&self, call: &ToolCall, tool: &Tool) -> Result<Document, CallError> {
        if call.truncated {
            return Err(Refusal::CutOff.into_error());
        }
        let document = Document::parse_object(&call.arguments, &self.json_limits)
            .map_err(|error| Refusal::from(error).into_error())?;
        let fits = tool.schema.check(&document);
        fits.map_err(|error| Refusal::from(error).into_error())?;
        Ok(document)
    }
}

fn refused(error: DefinitionError) -> CallError {
    CallError {
        code: error.code().into(),
        layer: ErrorLayer::Config,
        message_for_model: error.to_string(),
        detail: String::new(),
        path: error.path().to_owned(),
        retryable: false,
        retry_after_ms: None,
    }
}
