//! Hooks, questions and answers between the gate and the wire.
//!
//! An answer that does not fit its question is nonsense here already. Never judges what is said.

use bytes::Bytes;
use prost::Message;

use crate::engine::HookQuestion;
use crate::executor::tool_result;
use crate::gate::hooks::{
    AfterAction, AfterVerdict, ApprovalAction, ApprovalVerdict, BeforeAction, BeforeVerdict, Body,
    Earlier, FailureKind, Hook, HookAnswer, HookFailure, HookPlace, Matcher, MatcherError,
    MatcherParts, MessageRole, OnFailure, Point, RunStatus, TIMEOUT_DEFAULT_MS, TIMEOUT_MAX_MS,
};
use crate::gate::ids::{CallIndex, HookId};
use crate::gate::loop_detector::Diagnosis;
use crate::gate::permission::Aliases;
use crate::gate::record::TurnSpec;
use crate::gate::result::{CallResult, Digest, cut_text};
use crate::gate::tool::{Kind, Risk, Tool};
use crate::gate::turn::{HookAbout, HookRun};
use crate::pb::v1 as pb;
use crate::server::convert;
use crate::server::convert_approval::{self, Shown};
use crate::server::convert_permission::mode_number;
use crate::server::status::Failure;
use pb::hook_invocation::Payload;
use pb::hook_verdict::Verdict;

/// Longest description of a hook, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1 << 10;
/// Longest words of a hook about its own failure, in bytes; the rest is cut.
const FAILURE_BYTES_MAX: u64 = 4 << 10;

/// Reads a hook that a process wants to register.
pub(super) fn hook(wanted: pb::HookRegistration, aliases: &Aliases) -> Result<Hook, Failure> {
    let id = HookId::parse(&wanted.hook_id).map_err(|error| Failure::id("hook_id", error))?;
    if wanted.points.is_empty() {
        return Err(Failure::field("points", "must not be empty"));
    }
    let points = wanted.points.iter().map(|number| point(*number));
    let points = points.collect::<Result<Vec<_>, _>>()?;
    let timeout_ms = wanted.timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS);
    if !(1..=TIMEOUT_MAX_MS).contains(&timeout_ms) {
        let problem = format!("must be 1 to {TIMEOUT_MAX_MS}");
        return Err(Failure::field("timeout_ms", problem));
    }
    if wanted.description.len() > DESCRIPTION_BYTES_MAX {
        let problem = format!("must have at most {DESCRIPTION_BYTES_MAX} bytes");
        return Err(Failure::field("description", problem));
    }
    let on_failure = match pb::HookFailureMode::try_from(wanted.on_failure) {
        Ok(pb::HookFailureMode::Ask) => OnFailure::Ask,
        Ok(pb::HookFailureMode::Ignore) => OnFailure::Ignore,
        Ok(pb::HookFailureMode::Deny | pb::HookFailureMode::Unspecified) | Err(_) => {
            OnFailure::Deny
        }
    };
    Ok(Hook {
        id,
        place: HookPlace {
            order: wanted.order,
            number: 0,
        },
        points,
        matcher: matcher(wanted.matcher.unwrap_or_default(), aliases)?,
        timeout_ms,
        on_failure,
        observes: wanted.observe,
        withholds: wanted.withhold_on_failure,
        description: wanted.description,
        body: Body::Remote,
    })
}

/// Reads a hook as the store has it.
pub(super) fn restored(registration: &Bytes, aliases: &Aliases) -> Result<Hook, String> {
    let read = pb::HookRegistration::decode(registration.clone());
    let wanted = read.map_err(|error| error.to_string())?;
    hook(wanted, aliases).map_err(|failure| failure.into_rpc_error().message)
}

fn point(number: i32) -> Result<Point, Failure> {
    Ok(match pb::HookPoint::try_from(number) {
        Ok(pb::HookPoint::BeforeToolCall) => Point::BeforeToolCall,
        Ok(pb::HookPoint::AfterToolCall) => Point::AfterToolCall,
        Ok(pb::HookPoint::AfterToolFailure) => Point::AfterToolFailure,
        Ok(pb::HookPoint::ApprovalRequested) => Point::ApprovalRequested,
        Ok(pb::HookPoint::TurnStarted) => Point::TurnStarted,
        Ok(pb::HookPoint::TurnFinished) => Point::TurnFinished,
        Ok(pb::HookPoint::LoopSuspected) => Point::LoopSuspected,
        Ok(pb::HookPoint::LoopDiagnose) => Point::LoopDiagnose,
        Ok(pb::HookPoint::Unspecified) | Err(_) => {
            let problem = format!("holds {number}, which is no point known here");
            return Err(Failure::field("points", problem));
        }
    })
}

fn point_number(point: Point) -> i32 {
    let point = match point {
        Point::BeforeToolCall => pb::HookPoint::BeforeToolCall,
        Point::AfterToolCall => pb::HookPoint::AfterToolCall,
        Point::AfterToolFailure => pb::HookPoint::AfterToolFailure,
        Point::ApprovalRequested => pb::HookPoint::ApprovalRequested,
        Point::TurnStarted => pb::HookPoint::TurnStarted,
        Point::TurnFinished => pb::HookPoint::TurnFinished,
        Point::LoopSuspected => pb::HookPoint::LoopSuspected,
        Point::LoopDiagnose => pb::HookPoint::LoopDiagnose,
    };
    point as i32
}

fn matcher(wanted: pb::HookMatcher, aliases: &Aliases) -> Result<Matcher, Failure> {
    // A number that nobody knows means nothing that could be left out: the hook is refused.
    let risks = wanted.risk_levels.iter().map(|number| risk(*number));
    let kinds = wanted.kinds.iter().map(|number| kind(*number));
    let parts = MatcherParts {
        risks: risks.collect::<Result<_, _>>()?,
        kinds: kinds.collect::<Result<_, _>>()?,
        tools: wanted.tools,
        rules: wanted.rules,
        pointers: wanted.argument_pointers,
    };
    Matcher::new(parts, aliases).map_err(|error| match &error {
        MatcherError::Tools(_) | MatcherError::Rules(_) => {
            let field = match error {
                MatcherError::Tools(_) => "matcher.tools",
                MatcherError::Rules(_)
                | MatcherError::Pointer(_)
                | MatcherError::TooMany { .. } => "matcher.rules",
            };
            Failure::rules(vec![(field.to_owned(), "rule_invalid", error.to_string())])
        }
        MatcherError::Pointer(_) | MatcherError::TooMany { .. } => {
            Failure::field("matcher", error.to_string())
        }
    })
}

fn risk(number: i32) -> Result<Risk, Failure> {
    match pb::RiskLevel::try_from(number) {
        Ok(pb::RiskLevel::Safe) => Ok(Risk::Safe),
        Ok(pb::RiskLevel::Sensitive) => Ok(Risk::Sensitive),
        Ok(pb::RiskLevel::Dangerous) => Ok(Risk::Dangerous),
        Ok(pb::RiskLevel::Unspecified) | Err(_) => {
            Err(Failure::field("matcher.risk_levels", "holds no risk level"))
        }
    }
}

fn kind(number: i32) -> Result<Kind, Failure> {
    match pb::ToolKind::try_from(number) {
        Ok(pb::ToolKind::Read) => Ok(Kind::Read),
        Ok(pb::ToolKind::Fetch) => Ok(Kind::Fetch),
        Ok(pb::ToolKind::Edit) => Ok(Kind::Edit),
        Ok(pb::ToolKind::Delete) => Ok(Kind::Delete),
        Ok(pb::ToolKind::Execute) => Ok(Kind::Execute),
        Ok(pb::ToolKind::Interact) => Ok(Kind::Interact),
        Ok(pb::ToolKind::Other) => Ok(Kind::Other),
        Ok(pb::ToolKind::Unspecified) | Err(_) => {
            Err(Failure::field("matcher.kinds", "holds no kind"))
        }
    }
}

/// A hook as it is registered or declared.
pub(super) fn registration(hook: &Hook) -> pb::HookRegistration {
    let parts = hook.matcher.parts();
    let on_failure = match hook.on_failure {
        OnFailure::Deny => pb::HookFailureMode::Deny,
        OnFailure::Ask => pb::HookFailureMode::Ask,
        OnFailure::Ignore => pb::HookFailureMode::Ignore,
    };
    pb::HookRegistration {
        hook_id: hook.id.to_string(),
        points: hook
            .points
            .iter()
            .map(|point| point_number(*point))
            .collect(),
        order: hook.place.order,
        matcher: (parts != MatcherParts::default()).then(|| pb::HookMatcher {
            tools: parts.tools,
            risk_levels: parts.risks.into_iter().map(convert::risk).collect(),
            kinds: parts.kinds.into_iter().map(convert::kind).collect(),
            rules: parts.rules,
            argument_pointers: parts.pointers,
        }),
        timeout_ms: (hook.timeout_ms > 0).then_some(hook.timeout_ms),
        on_failure: on_failure as i32,
        observe: hook.observes,
        description: hook.description.clone(),
        withhold_on_failure: hook.withholds,
    }
}

/// A question as it is sent.
pub(super) fn invocation(question: &HookQuestion, invocation_id: String) -> pb::HookInvocation {
    let ask = &question.ask;
    let request = &ask.turn.request;
    pb::HookInvocation {
        invocation_id,
        hook_id: ask.hook.id.to_string(),
        point: point_number(ask.point),
        invoked_at_ms: ask.at.0,
        timeout_ms: match ask.is_awaited {
            true => ask.hook.timeout_ms,
            false => 0,
        },
        attempt: ask.attempt,
        session_id: request.session.to_string(),
        root_session_id: question.root.to_string(),
        run_id: request.run.to_string(),
        turn_id: request.turn.to_string(),
        batch_id: match request.calls.is_empty() {
            true => String::new(),
            false => ask.turn.batch.to_string(),
        },
        cwd: ask.cwd.clone().unwrap_or_default(),
        mode: mode_number(ask.mode),
        trace: request.trace.as_ref().map(|trace| pb::TraceContext {
            traceparent: trace.parent.clone(),
            tracestate: trace.state.clone(),
        }),
        payload: payload(question),
    }
}

fn payload(question: &HookQuestion) -> Option<Payload> {
    let spec = &question.ask.turn;
    Some(match &question.ask.about {
        HookAbout::Before {
            call,
            arguments,
            generation,
            validation,
            tool,
            earlier,
        } => Payload::Before(pb::BeforeToolCall {
            call: tool_call(spec, *call),
            arguments_json: arguments.clone(),
            arguments_generation: *generation,
            validation: validation.as_deref().map(convert::call_error),
            tool: tool.as_deref().map(hook_tool),
            earlier: earlier.iter().map(outcome).collect(),
        }),
        HookAbout::After {
            call,
            arguments,
            result,
            tool,
        } => Payload::After(pb::AfterToolCall {
            call: tool_call(spec, *call),
            arguments_json: arguments.clone(),
            result: Some(convert::call_result(result, true)),
            tool: tool.as_deref().map(hook_tool),
        }),
        HookAbout::Approval { .. } => Payload::Approval(pb::ApprovalRequested {
            approval: question
                .shown
                .as_ref()
                .map(|shown| convert_approval::approval(shown, Shown::Whole)),
        }),
        HookAbout::TurnStarted { run } => Payload::Turn(pb::TurnObserved {
            calls: observed_calls(question),
            results: Vec::new(),
            run: Some(convert::run(run)),
        }),
        HookAbout::TurnFinished { results, run } => Payload::Turn(pb::TurnObserved {
            calls: observed_calls(question),
            results: results.iter().map(|result| bare(result)).collect(),
            run: Some(convert::run(run)),
        }),
        HookAbout::LoopSuspected { found, run } => Payload::LoopSuspected(pb::LoopSuspected {
            detector: convert::loop_detector(found.detector),
            reason: found.reason.clone(),
            call_ids: found
                .calls
                .iter()
                .filter_map(|call| tool_call(spec, *call))
                .map(|call| call.call_id)
                .collect(),
            run: Some(convert::run(run)),
        }),
        HookAbout::Diagnosis { run } => Payload::Diagnosis(pb::LoopDiagnosis {
            history_json: question.history.clone(),
            run: Some(convert::run(run)),
        }),
    })
}

fn bare(result: &CallResult) -> pb::CallResult {
    convert::call_result(result, false)
}

/// Who is told of a turn needs no secrets.
fn observed_calls(question: &HookQuestion) -> Vec<pb::ToolCall> {
    let calls = question.arguments.iter().zip(0..);
    let calls = calls.filter_map(|(shown, at)| {
        Some(pb::ToolCall {
            arguments_json: shown.clone(),
            ..tool_call(&question.ask.turn, CallIndex(at))?
        })
    });
    calls.collect()
}

fn tool_call(spec: &TurnSpec, index: CallIndex) -> Option<pb::ToolCall> {
    let asked = spec.request.calls.get(index.get())?;
    Some(pb::ToolCall {
        call_id: asked.call.call_id.to_string(),
        name: asked.call.name.to_string(),
        arguments_json: asked.call.arguments.clone(),
        truncated: asked.call.truncated,
    })
}

fn hook_tool(tool: &Tool) -> pb::HookTool {
    pb::HookTool {
        name: tool.definition.name.to_string(),
        owner: tool.owner.to_string(),
        tool_digest: Bytes::copy_from_slice(&tool.digest.0),
        risk_level: convert::risk(tool.risk),
        kind: convert::kind(tool.definition.kind),
    }
}

fn outcome(earlier: &Earlier) -> pb::HookOutcome {
    pb::HookOutcome {
        hook_id: earlier.hook.to_string(),
        status: status(earlier.status),
        action: before_number(earlier.action),
        modified: earlier.modified,
    }
}

fn status(status: RunStatus) -> i32 {
    let status = match status {
        RunStatus::Answered => pb::HookRunStatus::Answered,
        RunStatus::Timeout => pb::HookRunStatus::Timeout,
        RunStatus::Failed => pb::HookRunStatus::Failed,
        RunStatus::Unavailable => pb::HookRunStatus::Unavailable,
        RunStatus::Cancelled => pb::HookRunStatus::Cancelled,
    };
    status as i32
}

pub(in crate::server) fn before_number(action: BeforeAction) -> i32 {
    let action = match action {
        BeforeAction::Proceed => pb::BeforeAction::Proceed,
        BeforeAction::Allow => pb::BeforeAction::Allow,
        BeforeAction::Ask => pb::BeforeAction::Ask,
        BeforeAction::Defer => pb::BeforeAction::Defer,
        BeforeAction::Deny => pb::BeforeAction::Deny,
        BeforeAction::Abort => pb::BeforeAction::Abort,
    };
    action as i32
}

/// What a hook answered to a question of that point.
pub(super) fn answer(verdict: pb::HookVerdict, point: Point) -> HookAnswer {
    let nonsense = |why: &str| HookAnswer::Failed(HookFailure::nonsense(why));
    match (verdict.verdict, point) {
        (Some(Verdict::Failure(failure)), _) => {
            let mut message = failure.message;
            cut_text(&mut message, FAILURE_BYTES_MAX);
            HookAnswer::Failed(HookFailure {
                kind: FailureKind::Failed,
                message,
            })
        }
        (Some(Verdict::Before(said)), Point::BeforeToolCall) => match before(said) {
            Some(said) => HookAnswer::Before(Box::new(said)),
            None => nonsense("its action is none that is known here"),
        },
        (Some(Verdict::After(said)), Point::AfterToolCall | Point::AfterToolFailure) => {
            match after(said) {
                Some(said) => HookAnswer::After(Box::new(said)),
                None => nonsense("its action is none that is known here"),
            }
        }
        (Some(Verdict::Approval(said)), Point::ApprovalRequested) => {
            HookAnswer::Approval(approval(said))
        }
        (Some(Verdict::LoopVerdict(said)), Point::LoopDiagnose) => {
            HookAnswer::Diagnosis(Diagnosis {
                is_loop: said.is_loop,
                reason: said.reason,
                confidence: said.confidence,
            })
        }
        (
            Some(
                Verdict::Before(_)
                | Verdict::After(_)
                | Verdict::Approval(_)
                | Verdict::LoopVerdict(_),
            ),
            _,
        ) => nonsense("it answered another question than it was asked"),
        (None, _) => nonsense("its answer holds no verdict"),
    }
}

fn before(said: pb::BeforeVerdict) -> Option<BeforeVerdict> {
    let action = match pb::BeforeAction::try_from(said.action) {
        Ok(pb::BeforeAction::Proceed) => BeforeAction::Proceed,
        Ok(pb::BeforeAction::Allow) => BeforeAction::Allow,
        Ok(pb::BeforeAction::Ask) => BeforeAction::Ask,
        Ok(pb::BeforeAction::Defer) => BeforeAction::Defer,
        Ok(pb::BeforeAction::Deny) => BeforeAction::Deny,
        Ok(pb::BeforeAction::Abort) => BeforeAction::Abort,
        Ok(pb::BeforeAction::Unspecified) | Err(_) => return None,
    };
    Some(BeforeVerdict {
        action,
        modified: said.modified_args_json,
        context: said.additional_context,
        suppress: said.suppress_output,
        reason_for_user: said.reason_for_user,
        reason_for_model: said.reason_for_model,
        synthetic: said.synthetic_result.map(tool_result),
    })
}

fn after(said: pb::AfterVerdict) -> Option<AfterVerdict> {
    let action = match pb::AfterAction::try_from(said.action) {
        Ok(pb::AfterAction::Proceed) => AfterAction::Proceed,
        Ok(pb::AfterAction::Stop) => AfterAction::Stop,
        Ok(pb::AfterAction::Abort) => AfterAction::Abort,
        Ok(pb::AfterAction::Unspecified) | Err(_) => return None,
    };
    let injected = said.injected_messages.into_iter().map(|message| {
        let role = match message.role() {
            pb::MessageRole::System => MessageRole::System,
            pb::MessageRole::User | pb::MessageRole::Unspecified => MessageRole::User,
        };
        (role, message.text)
    });
    Some(AfterVerdict {
        action,
        injected: injected.collect(),
        modified: said.modified_result.map(tool_result),
        context: said.additional_context,
        suppress: said.suppress_output,
        reason_for_user: said.reason_for_user,
    })
}

fn approval(said: pb::ApprovalVerdict) -> ApprovalVerdict {
    ApprovalVerdict {
        action: match said.action() {
            pb::ApprovalAction::Approve => ApprovalAction::Approve,
            pb::ApprovalAction::Deny => ApprovalAction::Deny,
            pb::ApprovalAction::Leave | pb::ApprovalAction::Unspecified => ApprovalAction::Leave,
        },
        digest: Digest::from_slice(&said.approval_digest),
        message: said.message,
    }
}

/// One run of one hook, for those who watch.
pub(in crate::server) fn hook_ran(spec: &TurnSpec, run: &HookRun) -> pb::HookRan {
    let after = run.after.map(|action| match action {
        AfterAction::Proceed => pb::AfterAction::Proceed,
        AfterAction::Stop => pb::AfterAction::Stop,
        AfterAction::Abort => pb::AfterAction::Abort,
    });
    let call = run.call.and_then(|call| tool_call(spec, call));
    pb::HookRan {
        hook_id: run.hook.to_string(),
        point: point_number(run.point),
        turn_id: spec.request.turn.to_string(),
        call_id: call.map(|call| call.call_id).unwrap_or_default(),
        status: status(run.status),
        before_action: run.before.map_or(0, before_number),
        after_action: after.map_or(0, |action| action as i32),
        modified: run.is_modified,
        duration_ms: u32::try_from(run.took_ms).unwrap_or(u32::MAX),
        code: run.code.to_string(),
    }
}

/// Tells a process that a message of it was ignored.
pub(super) fn notice(code: &str, message: &str, about: String) -> pb::Notice {
    pb::Notice {
        code: code.to_owned(),
        message: message.to_owned(),
        about,
    }
}
