//! Inputs and effects as lines, for people and for comparing.
//!
//! Calls show as `id`, attempts as `id#attempt`, executors as `@instance`. Never leaves a field out
//! that decides something.

use callgate::gate::approval::Outcome;
use callgate::gate::event::{Event, TurnCompleted};
use callgate::gate::hooks::HookAnswer;
use callgate::gate::ids::{CallIndex, ExecutionId};
use callgate::gate::record::{Record, TurnSpec};
use callgate::gate::result::{CallOutcome, CallResult};
use callgate::gate::turn::{
    About, AskHook, CancelScope, Durability, Effect, HookAbout, HookRun, Input, Reply,
};

fn call(spec: &TurnSpec, index: CallIndex) -> String {
    let calls = &spec.request.calls;
    calls.get(index.get()).map_or_else(
        || format!("?{}", index.0),
        |requested| requested.call.call_id.to_string(),
    )
}

fn execution(spec: &TurnSpec, id: &ExecutionId) -> String {
    let position = id.as_str().rsplit_once('.').unwrap().1;
    call(spec, CallIndex(position.parse().unwrap()))
}

fn snake(debug: String) -> String {
    let mut out = String::new();
    for character in debug.chars() {
        if character.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

fn list(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// One input.
pub(crate) fn input(spec: &TurnSpec, input: &Input) -> String {
    let at =
        |of: &callgate::gate::event::Attempt| format!("{}#{}", call(spec, of.call), of.attempt);
    match input {
        Input::Started => "started".to_owned(),
        Input::Recovered => "recovered".to_owned(),
        Input::Claimed(claims) => format!(
            "claimed {}",
            list(claims.iter().map(|claim| {
                let silent = if claim.accepts { "" } else { " (says nothing)" };
                format!("{}@{}{silent}", call(spec, claim.call), claim.instance)
            }))
        ),
        Input::CommandAnalysed { call: index, .. } => format!("analysed {}", call(spec, *index)),
        Input::FactsResolved { call: index, facts } => {
            format!("resolved {}: {}", call(spec, *index), facts.len())
        }
        Input::ToolChecked { call: index, word } => {
            let said = word.as_ref().map(|word| snake(format!("{:?}", word.check)));
            let said = said.unwrap_or_else(|| "nothing".to_owned());
            format!("checked {}: {said}", call(spec, *index))
        }
        Input::HookAnswered { ticket, answer, .. } => {
            format!("hook answered #{}: {}", ticket.0, said(answer))
        }
        Input::QueueFull(index) => format!("queue full for {}", call(spec, *index)),
        Input::DispatchUnrecorded(calls) => format!(
            "dispatch unrecorded {}",
            list(calls.iter().map(|index| call(spec, *index)))
        ),
        Input::ExecutorAccepted { of, queued: true } => format!("queued {}", at(of)),
        Input::ExecutorAccepted { of, queued: false } => format!("accepted {}", at(of)),
        Input::ExecutorResumed { of } => format!("resumed {}", at(of)),
        Input::ExecutorProgressed { of, .. } => format!("progressed {}", at(of)),
        Input::ExecutorPrinted { of, .. } => format!("printed {}", at(of)),
        Input::ExecutorReplied { of, reply } => format!("replied {} {}", at(of), answer(reply)),
        Input::ExecutorRejected { of, reason } => {
            format!("rejected {} {}", at(of), snake(format!("{reason:?}")))
        }
        Input::ExecutorLost { of, proof } => {
            format!("lost {} proof={}", at(of), snake(format!("{proof:?}")))
        }
        Input::CancelRequested(cancel) => {
            let scope = match cancel.scope {
                CancelScope::Call(index) => call(spec, index),
                CancelScope::Turn => "the turn".to_owned(),
                CancelScope::Run => "the run".to_owned(),
            };
            format!(
                "cancel {scope} {:?} grace={}",
                cancel.reason, cancel.grace_ms
            )
        }
        Input::RunEnded(run) => format!("run ended {}", snake(format!("{:?}", run.state))),
        Input::Decided(decided) => format!(
            "decided {} {}",
            call(spec, decided.call),
            snake(format!("{:?}", decided.deciding.choice))
        ),
        Input::ToolsChanged => "tools changed".to_owned(),
        Input::Diagnosed(said) => match said {
            None => "no diagnosis".to_owned(),
            Some(said) => format!("diagnosed loop={} {}", said.is_loop, said.confidence),
        },
        Input::DeadlineReached => "deadline reached".to_owned(),
    }
}

fn said(answer: &HookAnswer) -> String {
    match answer {
        HookAnswer::Before(verdict) => snake(format!("{:?}", verdict.action)),
        HookAnswer::After(verdict) => snake(format!("{:?}", verdict.action)),
        HookAnswer::Approval(verdict) => snake(format!("{:?}", verdict.action)),
        HookAnswer::Diagnosis(said) => format!("loop={} {}", said.is_loop, said.confidence),
        HookAnswer::Failed(failure) => failure.kind.code().to_owned(),
    }
}

fn ask_hook(spec: &TurnSpec, ask: &AskHook) -> String {
    let about = match &ask.about {
        HookAbout::Before {
            call: index,
            arguments,
            validation,
            earlier,
            ..
        } => {
            let wrong = validation.as_ref().map(|error| format!(" {}", error.code));
            format!(
                "{} {}{} after {}",
                call(spec, *index),
                String::from_utf8_lossy(arguments),
                wrong.unwrap_or_default(),
                earlier.len()
            )
        }
        HookAbout::After {
            call: index,
            result,
            ..
        } => format!("{} {}", call(spec, *index), self::result(result)),
        HookAbout::Approval { approval } => call(spec, approval.call),
        HookAbout::TurnStarted { .. } => "the turn".to_owned(),
        HookAbout::LoopSuspected { found, run } => format!(
            "{} run={}",
            found.detector.as_str(),
            snake(format!("{:?}", run.state))
        ),
        HookAbout::Diagnosis { run } => format!("run={}", snake(format!("{:?}", run.state))),
        HookAbout::TurnFinished { results, .. } => format!("the turn of {} results", results.len()),
    };
    let verb = if ask.is_awaited { "ask" } else { "tell" };
    let attempt = match ask.attempt {
        1 => String::new(),
        attempt => format!(" attempt={attempt}"),
    };
    format!(
        "{verb} hook {} {} #{} {about}{attempt}",
        ask.hook.id,
        ask.point.as_str(),
        ask.ticket.0
    )
}

fn hook_ran(spec: &TurnSpec, run: &HookRun) -> String {
    let before = run
        .before
        .map(|action| snake(format!(" {action:?}")).replace("_", ""));
    let after = run
        .after
        .map(|action| snake(format!(" {action:?}")).replace("_", ""));
    let modified = if run.is_modified { " modified" } else { "" };
    format!(
        "hook ran {} {} {} {}{}{}{modified}",
        run.hook,
        run.point.as_str(),
        run.call.map_or("-".to_owned(), |index| call(spec, index)),
        run.status.as_str(),
        before.unwrap_or_default(),
        after.unwrap_or_default(),
    )
}

fn answer(reply: &Reply) -> String {
    match reply {
        Reply::Result(result) => {
            let error = if result.is_error { "error" } else { "result" };
            let stop = if result.stop_flag { " stop" } else { "" };
            format!("{error}{stop}")
        }
        Reply::Cancelled {
            not_executed,
            executed,
            ..
        } => match (not_executed, executed) {
            (true, _) => "cancelled, not executed".to_owned(),
            (false, true) => "cancelled, executed".to_owned(),
            (false, false) => "cancelled".to_owned(),
        },
        Reply::Empty => "nothing".to_owned(),
    }
}

/// Where an effect stands in a list: record, show, tell, do, finish.
pub(crate) fn rank(effect: &Effect) -> u8 {
    match effect {
        Effect::Persist { .. } => 0,
        Effect::ShowApprovals(_) => 1,
        Effect::Announce(_) => 2,
        Effect::Grant(_)
        | Effect::Answer(_)
        | Effect::Analyse(_)
        | Effect::Inquire(_)
        | Effect::AskHook(_)
        | Effect::ForgetHook(_)
        | Effect::HookRan(_)
        | Effect::AskDiagnosis { .. }
        | Effect::Claim(_)
        | Effect::Expect(_)
        | Effect::Dispatch(_)
        | Effect::Withdraw(_)
        | Effect::Acknowledge { .. } => 3,
        Effect::Finish => 4,
    }
}

/// One effect.
pub(crate) fn effect(spec: &TurnSpec, effect: &Effect) -> String {
    match effect {
        Effect::Persist { record, when } => {
            let when = match when {
                Durability::After => "after",
                Durability::BeforeDispatch => "before dispatch",
                Durability::BeforeAnnounce => "before announce",
            };
            format!("persist {}, {when}", self::record(spec, record))
        }
        Effect::Announce(event) => format!("announce {}", self::event(spec, event)),
        Effect::Analyse(analyse) => {
            format!("analyse {} {:?}", call(spec, analyse.call), analyse.text)
        }
        Effect::Inquire(inquiry) => {
            let asked = call(spec, inquiry.call);
            match &inquiry.about {
                About::Facts { pointers } => format!("resolve {asked} {}", pointers.join(" ")),
                About::Check {
                    mode,
                    facts,
                    matched,
                } => {
                    let facts = facts.iter().map(|fact| fact.canonical.clone());
                    let matched = matched.as_ref().map_or("-", |matched| &matched.rule);
                    let facts = list(facts);
                    format!(
                        "check {asked} {} matched={matched} [{facts}]",
                        mode.as_str()
                    )
                }
            }
        }
        Effect::AskDiagnosis { timeout_ms, .. } => format!("ask diagnosis within {timeout_ms}"),
        Effect::AskHook(ask) => ask_hook(spec, ask),
        Effect::ForgetHook(ticket) => format!("forget hook #{}", ticket.0),
        Effect::HookRan(run) => hook_ran(spec, run),
        Effect::Claim(claim) => format!("claim {}", call(spec, claim.call)),
        Effect::Expect(expect) => format!(
            "expect {}#{}@{}",
            call(spec, expect.call),
            expect.attempt,
            expect.instance
        ),
        Effect::Dispatch(dispatch) => format!(
            "dispatch {}#{} {} timeout={}",
            call(spec, dispatch.call),
            dispatch.attempt,
            String::from_utf8_lossy(&dispatch.arguments.text),
            dispatch.timeout_ms
        ),
        Effect::Withdraw(withdraw) => {
            let id = execution(spec, &withdraw.execution);
            if withdraw.attempt == 0 {
                return format!("give back {id}");
            }
            format!(
                "withdraw {id}#{} {} {:?} grace={}{}{}",
                withdraw.attempt,
                snake(format!("{:?}", withdraw.reason)),
                withdraw.message,
                withdraw.grace_ms,
                if withdraw.tell { "" } else { " untold" },
                if withdraw.forget { " forget" } else { "" },
            )
        }
        Effect::Acknowledge { execution, attempt } => {
            format!("acknowledge {}#{attempt}", self::execution(spec, execution))
        }
        Effect::ShowApprovals(approvals) => format!(
            "show {}",
            list(approvals.iter().map(|approval| {
                let state = snake(format!("{:?}", approval.state));
                format!("{}={state}", call(spec, approval.call))
            }))
        ),
        Effect::Grant(grants) => {
            format!("grant {}", list(grants.iter().map(|grant| grant.text())))
        }
        Effect::Answer(outcome) => format!("answer {}", self::outcome(outcome)),
        Effect::Finish => "finish".to_owned(),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Taken(_) => "taken".to_owned(),
        Outcome::Repeated(_) => "repeated".to_owned(),
        Outcome::Refused(_, error) => format!("refused {}", snake(format!("{error:?}"))),
    }
}

fn record(spec: &TurnSpec, record: &Record) -> String {
    match record {
        Record::TurnAccepted(_) => "turn accepted".to_owned(),
        Record::CallsDispatched { calls, .. } => format!(
            "dispatch of {}",
            list(calls.iter().map(|intent| format!(
                "{}#{}@{}",
                call(spec, intent.call),
                intent.attempt,
                intent.instance
            )))
        ),
        Record::CallsEnded { results, .. } => format!(
            "end of {}",
            list(results.iter().map(|(index, _)| call(spec, *index)))
        ),
        Record::TurnCancelling { reason, run, .. } => format!(
            "turn cancelling {reason:?} run={}",
            snake(format!("{:?}", run.state))
        ),
        Record::TurnEnded { completed, .. } => format!("turn ended {}", ended(completed)),
        Record::HooksHeard { heard, .. } => format!(
            "hooks heard of {}",
            list(heard.iter().map(|(index, words)| {
                let action = snake(format!("{:?}", words.action));
                format!("{}={action}", call(spec, *index))
            }))
        ),
        Record::ApprovalsAsked { approvals, .. } => format!(
            "asking for {}",
            list(approvals.iter().map(|approval| call(spec, approval.call)))
        ),
        Record::ApprovalsChanged { changes, .. } => format!(
            "approval of {}",
            list(changes.iter().map(|change| {
                let state = snake(format!("{:?}", change.state));
                format!("{}={state}", call(spec, change.call))
            }))
        ),
        Record::GrantsPut { grants, .. } => {
            format!("grants {}", list(grants.iter().map(|grant| grant.text())))
        }
        Record::TurnRecovered { .. }
        | Record::SessionPut(_)
        | Record::RunEnded(_)
        | Record::ToolRegistered(_)
        | Record::ToolRemoved(_)
        | Record::HookRegistered(_)
        | Record::HookRemoved(_)
        | Record::ToolsetPut(_)
        | Record::ToolsetDeleted(_)
        | Record::By(_)
        | Record::Noted(_) => panic!("no record of a turn machine: {record:?}"),
    }
}

fn event(spec: &TurnSpec, event: &Event) -> String {
    match event {
        Event::Accepted(accepted) => format!(
            "accepted round {}: {}",
            accepted.round,
            list(
                accepted
                    .calls
                    .iter()
                    .map(|it| format!("{}={}", it.call_id, it.tool))
            )
        ),
        Event::CallMoved(moved) => {
            let code = match moved.code.is_empty() {
                true => String::new(),
                false => format!(" {}", moved.code),
            };
            format!(
                "{}: {} -> {}{code}",
                call(spec, moved.call),
                moved.from.as_str(),
                moved.to.as_str()
            )
        }
        Event::ApprovalRequired(approvals) => format!(
            "approval required: {}",
            list(approvals.iter().map(|approval| call(spec, approval.call)))
        ),
        Event::Suspended(calls) => format!(
            "suspended: {}",
            list(calls.iter().map(|index| call(spec, *index)))
        ),
        Event::LoopDetected(found) => format!(
            "loop detected: {} {:?} period={} repetitions={} [{}]",
            found.detector.as_str(),
            found.reason,
            found.period,
            found.repetitions,
            list(found.calls.iter().map(|index| call(spec, *index)))
        ),
        Event::CallCompleted(index, result) => {
            format!("{} completed: {}", call(spec, *index), self::result(result))
        }
        Event::TurnCompleted(completed) => format!("turn completed: {}", ended(completed)),
        Event::Progress(index, progress) => {
            format!("{} progress {:?}", call(spec, *index), progress.message)
        }
        Event::Output(index, chunk) => {
            format!(
                "{} output of {} bytes",
                call(spec, *index),
                chunk.data.len()
            )
        }
        Event::Heartbeat(waits_for) => format!("heartbeat {waits_for}"),
    }
}

/// Outcome, code, why not executed, effect, attempts.
pub(crate) fn result(result: &CallResult) -> String {
    let mut words = vec![
        match result.outcome {
            CallOutcome::Success => "success",
            CallOutcome::Error => "error",
            CallOutcome::Cancelled => "cancelled",
        }
        .to_owned(),
    ];
    words.extend(result.error.as_ref().map(|error| error.code.to_string()));
    words.extend(
        result
            .not_executed
            .map(|why| format!("because={}", snake(format!("{why:?}")))),
    );
    words.push(format!("effect={}", snake(format!("{:?}", result.effect))));
    words.push(format!("attempts={}", result.attempts));
    if let Some(hooks) = &result.hooks {
        words.push(format!("contexts={}", hooks.contexts.len()));
        words.extend(
            (!hooks.injected.is_empty()).then(|| format!("injected={}", hooks.injected.len())),
        );
        words.extend(hooks.suppressed.then(|| "suppressed".to_owned()));
        words.extend(
            hooks
                .stopped_by
                .as_ref()
                .map(|hook| format!("stopped_by={hook}")),
        );
    }
    list(words)
}

fn ended(completed: &TurnCompleted) -> String {
    let mut words = vec![
        snake(format!("{:?}", completed.outcome)),
        format!("run={}", snake(format!("{:?}", completed.run.state))),
    ];
    words.extend(
        completed
            .stop
            .map(|stop| format!("stop={}", snake(format!("{stop:?}")))),
    );
    words.push(format!(
        "results=[{}]",
        list(
            completed
                .results
                .iter()
                .map(|result| result.call_id.to_string())
        )
    ));
    list(words)
}
