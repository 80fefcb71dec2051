//! Several calls of one turn that wait: answers in any order, grants and denials among them, the last
//! millisecond.
//!
//! What one decision does to its own call is `deciding`'s business.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::approval::{
    ApprovalState, BatchPolicy, Choice, DecideError, Deciding, Outcome,
};
use callgate::gate::call::CallState;
use callgate::gate::permission::{Approver, CommandSubject, GroundKind, Verdict};
use callgate::gate::record::Record;
use callgate::gate::turn::{Effect, Input};

use super::asking::{asked, decide, grants_of, outcome, refused, says};
use super::checking::checked;
use super::drive::{Turn, paper};
use super::hooking::code;
use super::judging::{rules, runs_commands};

/// Three calls of one tool that must be asked.
fn three() -> Turn {
    let calls = [
        ("a", "drop", "{\"n\":0}"),
        ("b", "drop", "{\"n\":1}"),
        ("c", "drop", "{\"n\":2}"),
    ];
    let mut turn = paper(&calls).batch_policy(BatchPolicy::FreezePartial).lay();
    turn.approver = Approver::Expected;
    turn.start();
    turn
}

#[test]
fn answers_come_in_any_order_and_each_is_for_its_own_call() {
    for order in ["abc", "acb", "bac", "bca", "cab", "cba"] {
        let mut turn = three();
        let digests = ["a", "b", "c"].map(|id| turn.approval(id).digest);
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
        let mut waiting = vec!["a", "b", "c"];
        for id in order.split("").filter(|id| !id.is_empty()) {
            let deciding = match id {
                "a" => says(&turn, id, Choice::Once),
                "b" => says(&turn, id, Choice::Deny),
                _ => Deciding {
                    edited: Bytes::from_static(b"{\"n\":9}"),
                    ..says(&turn, id, Choice::Edit)
                },
            };
            let taken = outcome(&mut turn, id, deciding);
            assert!(matches!(taken, Outcome::Taken(_)), "{order} {id}");
            waiting.retain(|one| one != &id);
            for other in &waiting {
                assert_eq!(turn.state(other), CallState::AwaitingApproval, "{order}");
            }
        }
        assert_eq!(code(&turn, "b"), "tool_denied_by_user", "{order}");
        let sent = turn.claimed(&["a", "b", "c"]);
        let sent: Vec<_> = sent
            .iter()
            .filter_map(|line| line.strip_prefix("dispatch "))
            .collect();
        assert_eq!(
            sent,
            ["a#1 {\"n\":0} timeout=10000", "c#1 {\"n\":9} timeout=10000"],
            "{order}"
        );
    }
}

#[test]
fn a_refusal_takes_back_what_was_approved_before_in_an_atomic_batch() {
    let mut turn = asked(BatchPolicy::FreezeAtomic);
    turn.start();
    let once = says(&turn, "a", Choice::Once);
    decide(&mut turn, "a", once);
    assert_eq!(turn.state("a"), CallState::Scheduled);
    let deny = says(&turn, "c", Choice::Deny);
    let told = decide(&mut turn, "c", deny);
    assert!(
        !told.iter().any(|line| line.starts_with("claim")),
        "{told:?}"
    );
    for (id, expected) in [
        ("a", "tool_batch_rejected"),
        ("b", "tool_batch_rejected"),
        ("c", "tool_denied_by_user"),
    ] {
        assert_eq!(code(&turn, id), expected, "{id}");
        assert_eq!(turn.result(id).attempts, 0, "{id}");
    }
    assert!(turn.machine.has_ended());
}

#[test]
fn what_has_ended_is_told_while_others_wait() {
    let mut turn = asked(BatchPolicy::EagerSafe);
    turn.start();
    turn.claimed(&["b"]);
    let told = turn.answered("b", 1);
    let is_told = |part: &str| told.iter().position(|line| line.contains(part)).unwrap();
    assert!(is_told("announce b completed: success") < is_told("suspended: a c"));
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
}

#[test]
fn a_no_to_one_call_stands_whatever_is_granted_to_its_like() {
    let mut turn = three();
    let deny = says(&turn, "a", Choice::Deny);
    decide(&mut turn, "a", deny);
    let session = says(&turn, "b", Choice::Session);
    for grant in grants_of(&mut turn, "b", session) {
        turn.grants.take(grant);
    }
    turn.give(Input::ToolsChanged);
    assert_eq!(code(&turn, "a"), "tool_denied_by_user");
    // The third is like the second and was not refused.
    assert_eq!(turn.state("c"), CallState::Scheduled);
    // What an ask rule asks waits with a grant too, and a no to it is a no.
    let mut next = paper(&[("a", "drop", "{\"n\":0}")]).lay();
    next.approver = Approver::Expected;
    next.grants = turn.grants.clone();
    next.permissions = rules(&[(Verdict::Ask, "drop")]);
    next.start();
    let deny = says(&next, "a", Choice::Deny);
    decide(&mut next, "a", deny);
    assert_eq!(code(&next, "a"), "tool_denied_by_user");
}

#[test]
fn a_grant_releases_what_it_covers_and_a_deny_rule_stops_it_all_the_same() {
    let commands = [
        ("a", "git status"),
        ("b", "git status src"),
        ("c", "git log -1"),
        ("d", "git status docs"),
    ];
    let texts = commands.map(|(id, command)| (id, format!("{{\"command\":{command:?}}}")));
    let calls: Vec<_> = texts
        .iter()
        .map(|(id, text)| (*id, "run_shell", text.as_str()))
        .collect();
    let mut turn = paper(&calls).batch_policy(BatchPolicy::FreezePartial).lay();
    turn.approver = Approver::Expected;
    turn.register(runs_commands());
    turn.start();
    for (id, command) in commands {
        let call = turn.index(id);
        let command = Box::new(CommandSubject::read(command));
        turn.give(Input::CommandAnalysed { call, command });
    }
    let offered = turn.approval("a").candidates.clone();
    let prefix = offered
        .iter()
        .find(|one| one.rule == "run_shell(git status *)");
    let session = Deciding {
        candidates: vec![prefix.unwrap().id.clone()],
        ..says(&turn, "a", Choice::Session)
    };
    for grant in grants_of(&mut turn, "a", session) {
        turn.grants.take(grant);
    }
    turn.permissions = rules(&[(Verdict::Deny, "run_shell(git status docs)")]);
    turn.give(Input::ToolsChanged);
    let by = turn.approval("b").decision.clone().unwrap();
    assert_eq!(by.ground.unwrap().kind, GroundKind::Grant);
    assert_eq!(turn.state("b"), CallState::Scheduled);
    assert_eq!(turn.state("c"), CallState::AwaitingApproval);
    assert_eq!(code(&turn, "d"), "tool_denied_by_rule");
}

#[test]
fn what_comes_in_the_last_millisecond_is_too_late_whichever_is_read_first() {
    let expiring = || {
        let mut turn = asked(BatchPolicy::FreezePartial);
        turn.approval_ttl_ms = 500;
        turn.start();
        turn
    };
    for deadline_first in [false, true] {
        let mut turn = expiring();
        turn.later(500);
        let late = says(&turn, "a", Choice::Once);
        if deadline_first {
            turn.give(Input::DeadlineReached);
        }
        assert_eq!(refused(&mut turn, "a", late), DecideError::NotPending);
        let approval = turn.approval("a").clone();
        assert_eq!(approval.state, ApprovalState::Expired);
        // Nobody decided, and nobody is named.
        let decision = approval.decision.clone().unwrap();
        assert_eq!((decision.choice, decision.by.as_str()), (None, ""));
        assert_eq!(code(&turn, "a"), "approval_expired");
    }
    let mut turn = expiring();
    turn.later(499).give(Input::DeadlineReached);
    let once = says(&turn, "a", Choice::Once);
    assert!(matches!(outcome(&mut turn, "a", once), Outcome::Taken(_)));
    turn.later(1).give(Input::DeadlineReached);
    assert_eq!(turn.approval("a").state, ApprovalState::Approved);
}

#[test]
fn what_was_decided_is_asked_of_nobody_again_and_deny_rules_still_hold() {
    let sent = |denied: bool| {
        let mut turn = paper(&[("a", "own", "{}")]).lay();
        turn.register(checked("own"));
        turn.permissions = rules(&[(Verdict::Ask, "own")]);
        turn.approver = Approver::Expected;
        turn.start();
        let call = turn.index("a");
        turn.give(Input::ToolChecked { call, word: None });
        let once = says(&turn, "a", Choice::Once);
        let mut told = decide(&mut turn, "a", once);
        if denied {
            turn.permissions = rules(&[(Verdict::Deny, "own")]);
        }
        told.extend(turn.claimed(&["a"]));
        let asks = |line: &&String| line.starts_with("check") || line.contains("required");
        assert_eq!(told.iter().find(asks), None);
        told.iter().any(|line| line.starts_with("dispatch a"))
    };
    assert!(sent(false));
    assert!(!sent(true));
}

#[test]
fn a_rule_that_stops_an_approved_call_is_named_beside_the_approval() {
    let mut turn = paper(&[("a", "drop", "{}"), ("b", "read", "{}")]).lay();
    turn.approver = Approver::Expected;
    turn.start();
    let once = says(&turn, "a", Choice::Once);
    decide(&mut turn, "a", once);
    turn.permissions = rules(&[(Verdict::Deny, "drop")]);
    let effects = turn.effects(Input::ToolsChanged);
    let ways = effects.into_iter().find_map(|effect| {
        let Effect::Persist { record, .. } = effect else {
            return None;
        };
        let Record::CallsEnded { decided, .. } = record else {
            return None;
        };
        Some(decided)
    });
    let way = ways.unwrap().remove(0);
    let ground: Arc<_> = way.ground.unwrap();
    assert_eq!(
        (way.approval, &*way.by),
        (Some(ApprovalState::Approved), "somebody")
    );
    assert_eq!(
        (ground.verdict, ground.rule.as_str()),
        (Verdict::Deny, "drop")
    );
    let error = turn.result("a").error.clone().unwrap();
    assert_eq!(error.code, "tool_denied_by_rule");
    assert!(
        error.detail.contains("deny rule `drop`"),
        "{}",
        error.detail
    );
}
