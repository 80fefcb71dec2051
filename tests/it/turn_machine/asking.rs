//! Calls that must be asked: what waits, what is recorded before it is told, and what a decision does.
//!
//! Who asks and over which wire is the approvals' tests' business.

use bytes::Bytes;
use callgate::gate::approval::{
    ApprovalState, BatchPolicy, Choice, DecideError, Deciding, Outcome,
};
use callgate::gate::call::CallState;
use callgate::gate::permission::{Approver, Grant, GrantId, Mode, Verdict};
use callgate::gate::tool::{Risk, ToolDefinition};
use callgate::gate::turn::{Answers, CancelScope, Decided, Effect, Input};

use super::drive::{Turn, paper};
use super::judging::rules;
use super::tools::definition;

/// A turn in which `drop` must be asked and `put` runs unasked.
pub(super) fn asked(policy: BatchPolicy) -> Turn {
    let calls = [
        ("a", "drop", "{}"),
        ("b", "put", "{}"),
        ("c", "drop", r#"{"n":1}"#),
    ];
    let mut turn = paper(&calls).batch_policy(policy).lay();
    turn.approver = Approver::Expected;
    turn
}

pub(super) fn says(turn: &Turn, id: &str, choice: Choice) -> Deciding {
    let approval = turn.approval(id);
    Deciding {
        id: format!("{id} {choice:?}"),
        digest: Some(approval.digest),
        version: None,
        choice: Some(choice),
        message: String::new(),
        candidates: Vec::new(),
        edited: Bytes::new(),
        response: None,
        by: "somebody".to_owned(),
        surface: String::new(),
    }
}

pub(super) fn decide(turn: &mut Turn, id: &str, deciding: Deciding) -> Vec<String> {
    turn.give(decided(turn, id, deciding))
}

pub(super) fn decided(turn: &Turn, id: &str, deciding: Deciding) -> Input {
    Input::Decided(Box::new(Decided {
        call: turn.index(id),
        deciding,
        first_grant: GrantId(7),
        answers: Answers::default(),
    }))
}

/// What became of a decision, and everything else that it led to.
pub(super) fn outcome(turn: &mut Turn, id: &str, deciding: Deciding) -> Outcome {
    let input = decided(turn, id, deciding);
    let mut effects = turn.effects(input).into_iter();
    let answer = effects.find(|effect| matches!(effect, Effect::Answer(_)));
    let Some(Effect::Answer(outcome)) = answer else {
        panic!("no answer");
    };
    *outcome
}

pub(super) fn refused(turn: &mut Turn, id: &str, deciding: Deciding) -> DecideError {
    let outcome = outcome(turn, id, deciding);
    let Outcome::Refused(_, error) = outcome else {
        panic!("{outcome:?}");
    };
    error
}

/// Decides, and returns the grants that the session got by it.
pub(super) fn grants_of(turn: &mut Turn, id: &str, deciding: Deciding) -> Vec<Grant> {
    let effects = turn.effects(decided(turn, id, deciding)).into_iter();
    let given = effects.filter_map(|effect| {
        let Effect::Grant(grants) = effect else {
            return None;
        };
        Some(grants)
    });
    given.flatten().collect()
}

#[test]
fn what_waits_is_recorded_before_it_is_told_and_nothing_of_its_batch_runs() {
    let mut turn = asked(BatchPolicy::FreezeAtomic);
    assert_eq!(
        turn.start(),
        [
            "persist turn accepted, after",
            "persist asking for a c, before announce",
            "show a=pending c=pending",
            "announce accepted round 1: a=drop b=put c=drop",
            "announce b: validating -> scheduled",
            "announce a: validating -> awaiting_approval",
            "announce c: validating -> awaiting_approval",
            "announce approval required: a c",
            "announce suspended: a c",
        ]
    );
}

#[test]
fn an_approved_batch_runs_once_all_are_decided() {
    let mut turn = asked(BatchPolicy::FreezeAtomic);
    turn.start();
    let once = says(&turn, "a", Choice::Once);
    assert_eq!(
        decide(&mut turn, "a", once),
        [
            "persist approval of a=approved, before announce",
            "show a=approved",
            "announce a: awaiting_approval -> scheduled",
            "answer taken",
        ]
    );
    let once = says(&turn, "c", Choice::Once);
    assert_eq!(
        decide(&mut turn, "c", once),
        [
            "persist approval of c=approved, before announce",
            "show c=approved",
            "announce c: awaiting_approval -> scheduled",
            "answer taken",
            "claim a",
            "claim b",
            "claim c",
        ]
    );
    let told = turn.claimed(&["a", "b", "c"]);
    assert!(
        told.contains(&"dispatch a#1 {} timeout=120000".to_owned())
            || told.iter().any(|line| line.starts_with("dispatch a#1")),
        "{told:?}"
    );
}

#[test]
fn one_refusal_ends_an_atomic_batch() {
    let mut turn = asked(BatchPolicy::FreezeAtomic);
    turn.start();
    let mut deny = says(&turn, "a", Choice::Deny);
    "not today".clone_into(&mut deny.message);
    let told = decide(&mut turn, "a", deny);
    assert!(
        told.contains(&"persist approval of a=denied c=withdrawn, before announce".to_owned()),
        "{told:?}"
    );
    let code = |id: &str| turn.result(id).error.clone().unwrap().code;
    assert_eq!(code("a"), "tool_denied_by_user");
    assert_eq!(
        (code("b"), code("c")),
        ("tool_batch_rejected".into(), "tool_batch_rejected".into())
    );
    assert!(
        turn.result("a")
            .error
            .clone()
            .unwrap()
            .message_for_model
            .contains("not today")
    );
    assert_eq!(turn.result("b").attempts, 0);
    assert!(turn.machine.has_ended());
}

#[test]
fn a_partial_batch_runs_without_what_was_refused() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let deny = says(&turn, "a", Choice::Deny);
    let told = decide(&mut turn, "a", deny);
    assert!(
        !told.iter().any(|line| line.starts_with("claim")),
        "{told:?}"
    );
    let once = says(&turn, "c", Choice::Once);
    let told = decide(&mut turn, "c", once);
    assert!(
        told.ends_with(&["claim b".to_owned(), "claim c".to_owned()]),
        "{told:?}"
    );
}

#[test]
fn an_eager_batch_runs_what_is_safe_at_once() {
    let mut turn = asked(BatchPolicy::EagerSafe);
    let told = turn.start();
    assert!(told.ends_with(&["claim b".to_owned()]), "{told:?}");
    assert!(
        !told.iter().any(|line| line.contains("suspended")),
        "{told:?}"
    );
    turn.claimed(&["b"]);
    let told = turn.answered("b", 1);
    assert!(
        told.contains(&"announce suspended: a c".to_owned()),
        "{told:?}"
    );
}

#[test]
fn what_is_cancelled_cannot_be_approved_any_more() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let once = says(&turn, "a", Choice::Once);
    let call = turn.index("a");
    let told = turn.cancel(CancelScope::Call(call), 0);
    assert!(
        told.contains(&"persist approval of a=cancelled, before announce".to_owned()),
        "{told:?}"
    );
    assert_eq!(refused(&mut turn, "a", once), DecideError::NotPending);
    assert_eq!(turn.state("a"), CallState::Cancelled);
    assert_eq!(turn.state("c"), CallState::AwaitingApproval);
}

#[test]
fn an_approval_expires_and_a_late_yes_does_not_revive_it() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.approval_ttl_ms = 500;
    turn.start();
    assert_eq!(turn.deadline(), Some(500));
    turn.later(499);
    let once = says(&turn, "a", Choice::Once);
    assert!(matches!(outcome(&mut turn, "a", once), Outcome::Taken(_)));
    turn.later(1);
    // The decision comes before the deadline is told.
    let late = says(&turn, "c", Choice::Once);
    assert_eq!(refused(&mut turn, "c", late), DecideError::NotPending);
    assert_eq!(turn.approval("c").state, ApprovalState::Expired);
    assert_eq!(
        turn.result("c").error.clone().unwrap().code,
        "approval_expired"
    );
}

#[test]
fn a_no_after_the_time_is_a_no() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.approval_ttl_ms = 500;
    turn.start();
    turn.later(600);
    let deny = says(&turn, "a", Choice::Deny);
    assert!(matches!(outcome(&mut turn, "a", deny), Outcome::Taken(_)));
    assert_eq!(turn.approval("a").state, ApprovalState::Denied);
}

#[test]
fn an_expiry_ends_an_atomic_batch() {
    let mut turn = asked(BatchPolicy::FreezeAtomic);
    turn.approval_ttl_ms = 500;
    turn.start();
    turn.due();
    assert!(turn.machine.has_ended());
    assert_eq!(
        turn.result("b").error.clone().unwrap().code,
        "tool_batch_rejected"
    );
}

#[test]
fn a_turn_has_its_time_for_itself_while_people_are_awaited() {
    let calls = [("a", "drop", "{}")];
    let mut turn = paper(&calls).timeout_ms(100).lay();
    turn.approver = Approver::Expected;
    turn.later(40).start();
    assert_eq!(turn.deadline(), None);
    turn.later(1_000);
    let once = says(&turn, "a", Choice::Once);
    decide(&mut turn, "a", once);
    assert_eq!(turn.deadline(), Some(1_100));
}

#[test]
fn a_mode_that_lets_it_run_releases_what_waits_and_a_rule_that_denies_ends_it() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    turn.permissions = rules(&[(Verdict::Deny, "drop(param:/n=1)")]);
    let told = turn.give(Input::ToolsChanged);
    assert!(
        told.contains(&"persist approval of c=denied, before announce".to_owned()),
        "{told:?}"
    );
    assert_eq!(
        turn.result("c").error.clone().unwrap().code,
        "tool_denied_by_rule"
    );
    turn.session_mode = Some(Mode::Auto);
    let told = turn.give(Input::ToolsChanged);
    assert!(
        told.contains(&"persist approval of a=approved, before announce".to_owned()),
        "{told:?}"
    );
    assert!(
        told.ends_with(&["claim a".to_owned(), "claim b".to_owned()]),
        "{told:?}"
    );
    assert_eq!(turn.approval("a").decision.clone().unwrap().choice, None);
}

#[test]
fn a_rule_that_comes_after_the_yes_still_denies() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    for id in ["a", "c"] {
        let once = says(&turn, id, Choice::Once);
        decide(&mut turn, id, once);
    }
    turn.permissions = rules(&[(Verdict::Deny, "drop")]);
    let told = turn.claimed(&["a", "b", "c"]);
    let sent: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("dispatch"))
        .collect();
    assert_eq!(sent.len(), 1, "{told:?}");
    assert!(sent[0].starts_with("dispatch b"));
    assert_eq!(
        turn.result("a").error.clone().unwrap().code,
        "tool_denied_by_rule"
    );
}

#[test]
fn a_tool_that_changes_while_it_waits_is_not_what_was_shown() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    turn.register(ToolDefinition {
        risk: Some(Risk::Safe),
        ..definition("drop")
    });
    turn.give(Input::ToolsChanged);
    assert_eq!(turn.approval("a").state, ApprovalState::Superseded);
    assert_eq!(turn.result("a").error.clone().unwrap().code, "tool_changed");
}

#[test]
fn nobody_waits_where_nobody_is_there() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.approver = Approver::None;
    turn.start();
    assert_eq!(
        turn.result("a").error.clone().unwrap().code,
        "approval_unavailable"
    );
    assert_eq!(turn.state("b"), CallState::Scheduled);
}

#[test]
fn only_so_many_wait() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.approvals_room = 1;
    turn.start();
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    assert_eq!(
        turn.result("c").error.clone().unwrap().code,
        "limit_exceeded"
    );
}

#[test]
fn after_a_restart_what_waits_still_waits_and_what_was_approved_runs_once() {
    let mut first = asked(BatchPolicy::FreezePartial);
    first.start();
    let once = says(&first, "a", Choice::Once);
    decide(&mut first, "a", once.clone());
    let approvals = ["a", "c"].map(|id| first.approval(id).clone());
    let calls = [
        ("a", "drop", "{}"),
        ("b", "put", "{}"),
        ("c", "drop", r#"{"n":1}"#),
    ];
    let again = paper(&calls).batch_policy(BatchPolicy::FreezePartial);
    let mut turn = again.restore(|stored| stored.approvals = approvals.to_vec());
    turn.approver = Approver::Expected;
    let told = turn.give(Input::Recovered);
    assert_eq!(
        told,
        [
            "show c=pending",
            "announce c: validating -> awaiting_approval",
            "announce a: validating -> scheduled",
            "announce b: validating -> scheduled",
            "announce approval required: c",
            "announce suspended: c",
        ]
    );
    assert!(matches!(
        outcome(&mut turn, "a", once),
        Outcome::Repeated(_)
    ));
    let once = says(&turn, "c", Choice::Once);
    let told = decide(&mut turn, "c", once);
    assert!(
        told.ends_with(&[
            "claim a".to_owned(),
            "claim b".to_owned(),
            "claim c".to_owned()
        ]),
        "{told:?}"
    );
    // Nothing of a frozen batch can have run before.
    turn.claimed(&["a", "b", "c"]);
    let refused = turn.rejected("b", 1, callgate::gate::turn::RejectReason::BadArguments);
    assert!(
        refused
            .iter()
            .any(|line| line.contains("effect=not_executed")),
        "{refused:?}"
    );
}
