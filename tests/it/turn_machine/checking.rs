//! The tool's own check: when it is asked, what each of its answers does, and what silence means.
//!
//! Never says what a rule matches: that is the permission vectors' business.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::approval::{ApprovalState, Choice};
use callgate::gate::call::CallState;
use callgate::gate::ids::OwnerName;
use callgate::gate::permission::{
    Approver, Check, GroundKind, Mode, Permissions, ToolWord, Verdict,
};
use callgate::gate::tool::{Risk, ToolDefinition};
use callgate::gate::turn::{Answers, CancelScope, Effect, Input};

use super::asking::{decide, decided, says as choose};
use super::drive::{Turn, paper};
use super::judging::rules;
use super::tools::definition;

pub(super) fn checked(name: &str) -> ToolDefinition {
    ToolDefinition {
        has_permission_check: true,
        ..definition(name)
    }
}

/// One call of a safe tool with a check, and one of a tool without.
fn turn() -> Turn {
    let mut turn = paper(&[("a", "own", "{}"), ("z", "read", "{}")]).lay();
    turn.register(checked("own"));
    turn
}

fn word(check: Check) -> ToolWord {
    ToolWord {
        check,
        for_user: "look at this".to_owned(),
        for_model: "not like this".to_owned(),
    }
}

fn says(turn: &mut Turn, id: &str, check: Check) -> Vec<String> {
    let call = turn.index(id);
    let word = Some(Box::new(word(check)));
    turn.give(Input::ToolChecked { call, word })
}

fn lost(turn: &mut Turn, id: &str) -> Vec<String> {
    let call = turn.index(id);
    turn.give(Input::ToolChecked { call, word: None })
}

#[test]
fn nothing_of_a_batch_runs_before_the_tool_has_answered() {
    let mut turn = turn();
    let told = turn.start();
    let asked: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("check"))
        .collect();
    assert_eq!(asked, ["check a default matched=- []"]);
    assert_eq!(turn.state("a"), CallState::Validating);
    assert_eq!(turn.state("z"), CallState::Validating);
    says(&mut turn, "a", Check::Passthrough);
    assert_eq!(turn.state("a"), CallState::Scheduled);
    assert_eq!(turn.state("z"), CallState::Scheduled);
    // A second word about the same call is nobody's.
    assert!(says(&mut turn, "a", Check::Deny).is_empty());
    let told = turn.claimed(&["a"]);
    assert!(told.iter().any(|line| line.starts_with("dispatch a")));
}

#[test]
fn a_call_that_its_tool_denies_ends_with_the_tools_words() {
    let mut turn = turn();
    turn.permissions = rules(&[(Verdict::Allow, "own")]);
    turn.approver = Approver::Expected;
    turn.start();
    let told = says(&mut turn, "a", Check::Deny);
    assert!(
        told.contains(&"announce a completed: error tool_denied_by_tool because=denied_by_tool effect=not_executed attempts=0".to_owned()),
        "{told:?}"
    );
    let error = turn.result("a").error.clone().unwrap();
    assert_eq!(error.message_for_model, "not like this");
    assert_eq!(turn.state("z"), CallState::Scheduled);
}

#[test]
fn a_call_that_its_tool_asks_about_waits_with_the_tools_words() {
    let mut turn = turn();
    turn.approver = Approver::Expected;
    turn.start();
    says(&mut turn, "a", Check::Ask);
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    let approval = turn.approval("a");
    assert_eq!(approval.ground.kind, GroundKind::ToolCheck);
    assert_eq!(approval.tool_reason, "look at this");
    let once = choose(&turn, "a", Choice::Once);
    decide(&mut turn, "a", once);
    let told = turn.claimed(&["a"]);
    assert!(told.iter().any(|line| line.starts_with("dispatch a")));
}

#[test]
fn an_allow_rule_lifts_an_ask_of_the_tool_and_not_a_firm_one() {
    for (check, expected) in [
        (Check::Ask, CallState::Scheduled),
        (Check::AskFirm, CallState::AwaitingApproval),
    ] {
        let mut turn = turn();
        turn.permissions = rules(&[(Verdict::Allow, "own")]);
        turn.approver = Approver::Expected;
        let told = turn.start();
        assert!(
            told.contains(&"check a default matched=own []".to_owned()),
            "{told:?}"
        );
        says(&mut turn, "a", check);
        assert_eq!(turn.state("a"), expected);
        // What the tool said counts whenever the call is decided again.
        turn.give(Input::ToolsChanged);
        assert_eq!(turn.state("a"), expected);
    }
}

#[test]
fn what_a_tool_allows_counts_only_for_a_trusted_executor_and_never_when_dangerous() {
    let cases = [
        (Risk::Sensitive, false, CallState::AwaitingApproval),
        (Risk::Sensitive, true, CallState::Scheduled),
        (Risk::Dangerous, true, CallState::AwaitingApproval),
    ];
    for (risk, is_trusted, expected) in cases {
        let mut turn = turn();
        turn.register(ToolDefinition {
            risk: Some(risk),
            ..checked("own")
        });
        turn.approver = Approver::Expected;
        if is_trusted {
            turn.permissions = Permissions {
                trusted_executors: Arc::new([OwnerName::trusted("paper")]),
                ..Permissions::default()
            };
        }
        turn.start();
        says(&mut turn, "a", Check::Allow);
        assert_eq!(turn.state("a"), expected, "{risk:?}, trusted: {is_trusted}");
    }
}

#[test]
fn a_check_that_takes_too_long_or_is_lost_asks() {
    let mut late = turn();
    late.approver = Approver::Expected;
    late.start();
    assert_eq!(late.deadline(), Some(200));
    late.due();
    assert_eq!(late.state("a"), CallState::AwaitingApproval);
    assert_eq!(late.approval("a").tool_reason, "");
    assert!(says(&mut late, "a", Check::Passthrough).is_empty());

    let mut gone = turn();
    gone.approver = Approver::Expected;
    gone.start();
    lost(&mut gone, "a");
    assert_eq!(gone.state("a"), CallState::AwaitingApproval);
    gone.permissions = rules(&[(Verdict::Allow, "own")]);
    gone.give(Input::ToolsChanged);
    assert_eq!(gone.state("a"), CallState::Scheduled);
}

#[test]
fn a_tool_is_not_asked_about_a_call_that_is_denied_or_invalid() {
    let mut denied = turn();
    denied.permissions = rules(&[(Verdict::Deny, "own")]);
    let told = denied.start();
    assert!(!told.iter().any(|line| line.starts_with("check")));
    assert_eq!(denied.state("a"), CallState::Error);

    let mut invalid = paper(&[("a", "own", "[]")]).lay();
    invalid.register(checked("own"));
    let told = invalid.start();
    assert!(!told.iter().any(|line| line.starts_with("check")));
}

#[test]
fn a_turn_that_is_cancelled_while_a_tool_is_asked_ends_and_one_call_leaves_the_rest() {
    let mut whole = turn();
    whole.start();
    whole.cancel(CancelScope::Turn, 0);
    assert!(whole.machine.has_ended(), "{}", whole.transcript());
    assert!(says(&mut whole, "a", Check::Passthrough).is_empty());

    let mut one = turn();
    one.start();
    one.cancel_call("a", 0);
    assert_eq!(one.state("z"), CallState::Scheduled);
}

#[test]
fn a_tool_is_asked_again_after_a_restart_and_silence_is_firm_for_a_call_that_waited() {
    let mut before = turn();
    before.approver = Approver::Expected;
    before.start();
    let asked = {
        let call = before.index("a");
        let word = Some(Box::new(word(Check::AskFirm)));
        before.effects(Input::ToolChecked { call, word })
    };
    let shown = |effect: &Effect| matches!(effect, Effect::ShowApprovals(_));
    let Some(Effect::ShowApprovals(approvals)) = asked.into_iter().find(shown) else {
        panic!("no approval was shown");
    };
    for (answer, expected) in [
        (None, CallState::AwaitingApproval),
        (Some(Check::AskFirm), CallState::AwaitingApproval),
        (Some(Check::Ask), CallState::Scheduled),
        (Some(Check::Deny), CallState::Error),
    ] {
        let calls = [("a", "own", "{}"), ("z", "read", "{}")];
        let paper = paper(&calls);
        let mut after = paper.restore(|stored| stored.approvals.clone_from(&approvals));
        after.register(checked("own"));
        after.approver = Approver::Expected;
        after.permissions = rules(&[(Verdict::Allow, "own")]);
        let told = after.recover();
        assert!(
            told.contains(&"check a default matched=own []".to_owned()),
            "{told:?}"
        );
        match answer {
            None => after.due(),
            Some(check) => says(&mut after, "a", check),
        };
        assert_eq!(after.state("a"), expected, "{answer:?}");
    }
}

#[test]
fn edited_arguments_count_with_what_the_tool_says_of_them() {
    let cases = [
        (Some(Check::Deny), ApprovalState::Pending),
        (Some(Check::AskFirm), ApprovalState::Approved),
        (None, ApprovalState::Approved),
    ];
    for (check, expected) in cases {
        let mut turn = turn();
        turn.approver = Approver::Expected;
        turn.start();
        says(&mut turn, "a", Check::Ask);
        let mut deciding = choose(&turn, "a", Choice::Edit);
        deciding.edited = Bytes::from_static(br#"{"n":2}"#);
        let Input::Decided(mut input) = decided(&turn, "a", deciding) else {
            panic!("not a decision");
        };
        input.answers = Answers {
            word: check.map(word),
            ..Answers::default()
        };
        turn.give(Input::Decided(input));
        assert_eq!(turn.approval("a").state, expected, "{check:?}");
    }
}

#[test]
fn the_mode_is_told_to_the_tool() {
    let mut turn = turn();
    turn.session_mode = Some(Mode::Plan);
    let told = turn.start();
    assert!(
        told.contains(&"check a plan matched=- []".to_owned()),
        "{told:?}"
    );
}
