//! The gate held against the oracle: pairs of hooks, rules, modes, tools, checks and circumstances.
//!
//! On paper: no process is started. Never shares code with the oracle.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::call::CallState;
use callgate::gate::event::RunState;
use callgate::gate::hooks::{
    self, BeforeAction, BeforeVerdict, FailureKind, HookAnswer, HookFailure, HookList, Point,
};
use callgate::gate::ids::OwnerName;
use callgate::gate::permission::{self, Permissions, Settings, ToolWord, Verdict};
use callgate::gate::record::Record;
use callgate::gate::tool::{self, ToolDefinition};
use callgate::gate::turn::{Effect, Input};

use super::oracle::{
    Approver, Arguments, Behaviour, Case, Check, Expected, Hook, Kind, Mode, OnFailure, Outcome,
    Risk, Rule, cases, expect,
};
use crate::turn_machine::drive::{Turn, paper};
use crate::turn_machine::hooking::{hook, list, says};
use crate::turn_machine::judging::rules;
use crate::turn_machine::tools::definition;

const SCHEMA: &str = r#"{"type":"object","required":["by","n"],
    "properties":{"by":{"type":"string"},"n":{"type":"integer"}}}"#;

const BY_MODEL: &str = r#"{"by":"model","n":1}"#;
const BY_MODEL_MISFIT: &str = r#"{"by":"model"}"#;
const BY_FIRST: &str = r#"{"by":"first","n":1}"#;
const BY_SECOND: &str = r#"{"by":"second","n":1}"#;
const BY_HOOK_MISFIT: &str = r#"{"by":"first","n":"one"}"#;

/// One rule about what the model wrote, another about what the hooks wrote.
fn permissions(case: &Case) -> Permissions {
    let named = |rule, text| {
        let list = match rule {
            Rule::None => None,
            Rule::Allow => Some(Verdict::Allow),
            Rule::Ask => Some(Verdict::Ask),
            Rule::Deny => Some(Verdict::Deny),
        };
        list.map(|list| (list, text))
    };
    let entries = [
        named(case.rule_of_original, "tool(param:/by=model)"),
        named(case.rule_of_rewritten, "tool(param:/by=first)"),
        named(case.rule_of_rewritten, "tool(param:/by=second)"),
    ];
    let entries: Vec<_> = entries.into_iter().flatten().collect();
    Permissions {
        settings: Settings {
            hook_allow_covers_dangerous: case.allow_covers_dangerous,
            ..Settings::default()
        },
        trusted_executors: match case.executor_trusted {
            true => Arc::new([OwnerName::trusted("paper")]),
            false => Arc::default(),
        },
        ..rules(&entries)
    }
}

fn tool(case: &Case) -> ToolDefinition {
    ToolDefinition {
        parameters: Bytes::from_static(SCHEMA.as_bytes()),
        kind: match case.kind {
            Kind::Read => tool::Kind::Read,
            Kind::Fetch => tool::Kind::Fetch,
            Kind::Edit => tool::Kind::Edit,
            Kind::Delete => tool::Kind::Delete,
            Kind::Execute => tool::Kind::Execute,
            Kind::Interact => tool::Kind::Interact,
            Kind::Other => tool::Kind::Other,
        },
        risk: Some(match case.risk {
            Risk::Safe => tool::Risk::Safe,
            Risk::Sensitive => tool::Risk::Sensitive,
            Risk::Dangerous => tool::Risk::Dangerous,
        }),
        skip_permission: case.skip_permission,
        // Both kinds of passthrough: of a check, and of a tool that has none.
        has_permission_check: case.check != Check::Passthrough || case.executor_trusted,
        ..definition("tool")
    }
}

fn turn_of(case: &Case) -> Turn {
    let arguments = match case.original_fits {
        true => BY_MODEL,
        false => BY_MODEL_MISFIT,
    };
    let mut turn = paper(&[("a", "tool", arguments)]).lay();
    turn.register(tool(case));
    turn.hooks = hooks_of(case);
    turn.permissions = permissions(case);
    turn.session_mode = Some(match case.mode {
        Mode::Plan => permission::Mode::Plan,
        Mode::Default => permission::Mode::Default,
        Mode::AcceptEdits => permission::Mode::AcceptEdits,
        Mode::Auto => permission::Mode::Auto,
    });
    turn.approver = match case.approver {
        Approver::Expected => permission::Approver::Expected,
        Approver::None => permission::Approver::None,
    };
    turn
}

fn hooks_of(case: &Case) -> HookList {
    let hooks = [("first", 1, case.first), ("second", 2, case.second)];
    let is_there = |(_, _, behaves): &(&str, u64, Hook)| behaves.behaviour != Behaviour::Absent;
    let hooks = hooks.into_iter().filter(is_there);
    let hooks = hooks.map(|(name, number, behaves)| hooks::Hook {
        on_failure: match behaves.on_failure {
            OnFailure::Deny => hooks::OnFailure::Deny,
            OnFailure::Ask => hooks::OnFailure::Ask,
            OnFailure::Ignore => hooks::OnFailure::Ignore,
        },
        ..hook(name, number, &[Point::BeforeToolCall])
    });
    list(hooks.collect())
}

/// What the hook answers, with these arguments where it rewrites.
fn answer(hook: Hook, rewritten: &'static str) -> HookAnswer {
    let before = |action| HookAnswer::Before(Box::new(says(action)));
    let rewrites = |action, arguments: &'static str| {
        HookAnswer::Before(Box::new(BeforeVerdict {
            modified: Bytes::from_static(arguments.as_bytes()),
            ..says(action)
        }))
    };
    let failed = |kind| {
        HookAnswer::Failed(HookFailure {
            kind,
            message: String::new(),
        })
    };
    match hook.behaviour {
        Behaviour::Absent => panic!("a hook that is absent is asked"),
        Behaviour::Proceed => before(BeforeAction::Proceed),
        Behaviour::Rewrite => rewrites(BeforeAction::Proceed, rewritten),
        Behaviour::RewriteInvalid => rewrites(BeforeAction::Proceed, BY_HOOK_MISFIT),
        Behaviour::RewriteAllow => rewrites(BeforeAction::Allow, rewritten),
        Behaviour::Allow => before(BeforeAction::Allow),
        Behaviour::Ask => before(BeforeAction::Ask),
        Behaviour::Defer => before(BeforeAction::Defer),
        Behaviour::Deny => before(BeforeAction::Deny),
        Behaviour::Abort => before(BeforeAction::Abort),
        Behaviour::Timeout => failed(FailureKind::Timeout),
        Behaviour::Crash => failed(FailureKind::Failed),
        Behaviour::Garbage => HookAnswer::After(Box::default()),
        Behaviour::Gone => failed(FailureKind::Unavailable),
    }
}

fn word(check: Check) -> ToolWord {
    ToolWord {
        check: match check {
            Check::Passthrough => permission::Check::Passthrough,
            Check::Allow => permission::Check::Allow,
            Check::Ask => permission::Check::Ask,
            Check::AskFirm => permission::Check::AskFirm,
            Check::Deny => permission::Check::Deny,
        },
        ..ToolWord::default()
    }
}

/// Answers every question that the turn asks; what became of the call.
fn play(case: &Case) -> Expected {
    let mut turn = turn_of(case);
    let (mut asked, mut is_aborted) = (Vec::new(), false);
    let mut effects = turn.effects(Input::Started);
    loop {
        asked.extend(effects.iter().filter_map(asked_hook));
        is_aborted |= effects.iter().any(aborts);
        let Some(input) = effects.iter().find_map(|effect| reply(case, effect)) else {
            break;
        };
        effects = turn.effects(input);
    }
    let is_asked = |hook: &str| asked.iter().any(|asked| asked == hook);
    let (first_asked, second_asked) = (is_asked("first"), is_asked("second"));
    let once_in_order = [(first_asked, "first"), (second_asked, "second")];
    let once_in_order = once_in_order.into_iter().filter(|(is_asked, _)| *is_asked);
    assert!(
        once_in_order
            .map(|(_, hook)| hook)
            .eq(asked.iter().map(String::as_str)),
        "{case:?}"
    );
    let (outcome, arguments) = fate(case, &mut turn, is_aborted);
    Expected {
        outcome,
        arguments,
        first_asked,
        second_asked,
    }
}

/// What whoever is asked says.
fn reply(case: &Case, effect: &Effect) -> Option<Input> {
    if let Effect::AskHook(question) = effect {
        let answer = match question.hook.id.as_str() {
            "first" => answer(case.first, BY_FIRST),
            "second" => answer(case.second, BY_SECOND),
            other => panic!("there is no hook `{other}`"),
        };
        return Some(Input::HookAnswered {
            ticket: question.ticket,
            answer,
            took_ms: 0,
        });
    }
    if let Effect::Inquire(inquiry) = effect {
        return Some(Input::ToolChecked {
            call: inquiry.call,
            word: Some(Box::new(word(case.check))),
        });
    }
    None
}

fn asked_hook(effect: &Effect) -> Option<String> {
    let Effect::AskHook(question) = effect else {
        return None;
    };
    Some(question.hook.id.to_string())
}

fn aborts(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Persist { record: Record::TurnEnded { completed, .. }, .. }
            if completed.run.state == RunState::Aborted
    )
}

fn fate(case: &Case, turn: &mut Turn, is_aborted: bool) -> (Outcome, Option<Arguments>) {
    match turn.state("a") {
        CallState::AwaitingApproval => {
            let approval = turn.approval("a");
            // Nobody is expected: only DEFER waits for whoever may come.
            assert!(case.approver == Approver::Expected || approval.is_deferred);
            let text = std::str::from_utf8(&approval.arguments).unwrap();
            (Outcome::Waits, Some(writer_of(|by| by == text)))
        }
        CallState::Scheduled => {
            let lines = turn.claimed(&["a"]);
            let is_sent = |text: &str| {
                let start = format!("dispatch a#1 {text}");
                lines.iter().any(|line| line.starts_with(&start))
            };
            (Outcome::Runs, Some(writer_of(is_sent)))
        }
        CallState::Error => {
            let result = turn.result("a");
            assert_eq!(result.attempts, 0, "{case:?}");
            let code = &*result.error.as_ref().unwrap().code;
            assert_eq!(is_aborted, code == "run_aborted", "{case:?}");
            (refused(code), None)
        }
        other @ (CallState::Validating
        | CallState::Executing
        | CallState::Success
        | CallState::Cancelled) => panic!("{other:?} in {case:?}"),
    }
}

/// Whose arguments they are.
fn writer_of(is_text: impl Fn(&str) -> bool) -> Arguments {
    let writers = [
        (BY_MODEL, Arguments::Original),
        (BY_FIRST, Arguments::RewrittenByFirst),
        (BY_SECOND, Arguments::RewrittenBySecond),
    ];
    let writer = writers.into_iter().find(|(text, _)| is_text(text));
    writer.expect("arguments that somebody wrote").1
}

fn refused(code: &str) -> Outcome {
    let codes = [
        "hook_failed",
        "hook_modified_args_invalid",
        "hook_timeout",
        "hook_unavailable",
        "tool_argument_required",
        "tool_denied_by_hook",
        "tool_denied_by_mode",
        "tool_denied_by_rule",
        "approval_unavailable",
    ];
    match code {
        "run_aborted" => Outcome::RunAborted,
        // The oracle's sections give a tool's own denial no code; the list of codes in the proto does.
        "tool_denied_by_tool" => Outcome::Denied { code: None },
        other => Outcome::Denied {
            code: Some(codes.into_iter().find(|code| *code == other).expect(other)),
        },
    }
}

#[test]
fn whatever_hooks_rules_and_modes_say_the_oracle_says_the_same() {
    let mut held = 0;
    let mut disagreements = Vec::new();
    // All of them: 23 s of one core in a debug build.
    for case in cases() {
        let (found, expected) = (play(&case), expect(case));
        if found != expected {
            disagreements.push(format!(
                "{case:?}\n  the gate: {found:?}\n  the oracle: {expected:?}"
            ));
        }
        held += 1;
    }
    let shown = disagreements.iter().take(10).cloned().collect::<Vec<_>>();
    assert!(
        disagreements.is_empty(),
        "{} of {held} disagree, the first:\n{}",
        disagreements.len(),
        shown.join("\n")
    );
    assert_eq!(held, 26_176);
}
