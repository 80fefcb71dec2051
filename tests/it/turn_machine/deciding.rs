//! What an approver says: repeats, forgeries, edits, answers, grants.
//!
//! What becomes of the rest of the batch is `asking`'s business.

use std::borrow::Cow;

use bytes::Bytes;
use callgate::gate::approval::{
    ApprovalState, BatchPolicy, Choice, DecideError, Deciding, Outcome,
};
use callgate::gate::call::CallState;
use callgate::gate::permission::{Approver, CommandSubject, Scope, Verdict};
use callgate::gate::refusal::{CallError, ErrorLayer};
use callgate::gate::result::ToolResult;
use callgate::gate::tool::{Kind, Risk, ToolDefinition};
use callgate::gate::turn::Input;

use super::asking::{asked, decide, outcome, refused, says};
use super::drive::{Turn, paper, text};
use super::judging::{rules, runs_commands};
use super::tools::definition;

#[test]
fn the_same_again_is_repeated_and_anything_else_learns_of_the_winner() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let once = says(&turn, "a", Choice::Once);
    assert!(matches!(
        outcome(&mut turn, "a", once.clone()),
        Outcome::Taken(_)
    ));
    let mut other_words = Deciding {
        message: "again".to_owned(),
        ..once.clone()
    };
    assert!(matches!(
        outcome(&mut turn, "a", other_words.clone()),
        Outcome::Repeated(_)
    ));
    "another".clone_into(&mut other_words.id);
    assert!(matches!(
        outcome(&mut turn, "a", other_words),
        Outcome::Repeated(_)
    ));
    let deny = says(&turn, "a", Choice::Deny);
    assert_eq!(
        refused(&mut turn, "a", deny.clone()),
        DecideError::AlreadyDecided
    );
    let same_id = Deciding {
        id: once.id,
        ..deny
    };
    assert_eq!(refused(&mut turn, "a", same_id), DecideError::IdReused);
    assert_eq!(turn.approval("a").state, ApprovalState::Approved);
}

/// Decides twice: the same again is repeated, something else beside the same choice is not the same.
fn only_the_same_is_repeated(turn: &mut Turn, first: Deciding, other: Deciding) {
    let place = format!("{:?}", first.choice);
    let taken = outcome(turn, "a", first.clone());
    assert!(matches!(taken, Outcome::Taken(_)), "{place}");
    let again = Deciding {
        id: "another".to_owned(),
        ..first.clone()
    };
    let repeated = outcome(turn, "a", again);
    assert!(matches!(repeated, Outcome::Repeated(_)), "{place}");
    let error = refused(turn, "a", other.clone());
    assert_eq!(error, DecideError::AlreadyDecided, "{place}");
    let same_id = Deciding {
        id: first.id,
        ..other
    };
    let error = refused(turn, "a", same_id);
    assert_eq!(error, DecideError::IdReused, "{place}");
}

#[test]
fn the_same_choice_with_other_contents_is_another_decision() {
    let started = || {
        let mut turn = asked(BatchPolicy::FreezePartial);
        turn.start();
        turn
    };
    let mut turn = started();
    let edit = |turn: &Turn, text: &'static str| Deciding {
        id: text.to_owned(),
        edited: Bytes::from_static(text.as_bytes()),
        ..says(turn, "a", Choice::Edit)
    };
    let (first, other) = (edit(&turn, "{\"n\":4}"), edit(&turn, "{\"n\":5}"));
    only_the_same_is_repeated(&mut turn, first, other);
    let respond = |turn: &Turn, response: ToolResult| Deciding {
        id: format!("{response:?}"),
        response: Some(response),
        ..says(turn, "a", Choice::Respond)
    };
    let failure = |code: &'static str| CallError {
        code: Cow::Borrowed(code),
        layer: ErrorLayer::Tool,
        message_for_model: String::new(),
        detail: String::new(),
        path: String::new(),
        retryable: false,
        retry_after_ms: None,
    };
    let gone = ToolResult {
        is_error: true,
        error: Some(failure("gone")),
        ..text("gone")
    };
    let others = [
        ToolResult {
            contents: text("still there").contents,
            ..gone.clone()
        },
        ToolResult {
            is_error: false,
            ..gone.clone()
        },
        ToolResult {
            stop_flag: true,
            ..gone.clone()
        },
        ToolResult {
            error: Some(failure("moved")),
            ..gone.clone()
        },
        ToolResult {
            structured: Bytes::from_static(b"{}"),
            ..gone.clone()
        },
        ToolResult {
            metadata: Bytes::from_static(b"{}"),
            ..gone.clone()
        },
    ];
    for other in others {
        let mut turn = started();
        let (first, other) = (respond(&turn, gone.clone()), respond(&turn, other));
        only_the_same_is_repeated(&mut turn, first, other);
    }
}

#[test]
fn a_session_with_other_grants_is_another_decision() {
    let mut turn = paper(&[("a", "run_shell", r#"{"command":"git status"}"#)]).lay();
    turn.approver = Approver::Expected;
    turn.register(runs_commands());
    turn.start();
    let call = turn.index("a");
    let command = Box::new(CommandSubject::read("git status"));
    turn.give(Input::CommandAnalysed { call, command });
    let pick = |turn: &Turn, id: &str| Deciding {
        id: id.to_owned(),
        candidates: vec![id.to_owned()],
        ..says(turn, "a", Choice::Session)
    };
    let (first, other) = (pick(&turn, "c1"), pick(&turn, "c2"));
    only_the_same_is_repeated(&mut turn, first, other);
    // The only one that is offered need not be named, and is the same if it is.
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let unnamed = says(&turn, "a", Choice::Session);
    let named = pick(&turn, &turn.approval("a").candidates[0].id.clone());
    assert!(matches!(
        outcome(&mut turn, "a", unnamed),
        Outcome::Taken(_)
    ));
    assert!(matches!(
        outcome(&mut turn, "a", named),
        Outcome::Repeated(_)
    ));
}

#[test]
fn a_decision_about_something_else_changes_nothing() {
    let mut turn = asked(BatchPolicy::FreezeAtomic);
    turn.start();
    let of_another = says(&turn, "c", Choice::Once).digest;
    for digest in [None, of_another] {
        let forged = Deciding {
            digest,
            ..says(&turn, "a", Choice::Once)
        };
        assert_eq!(refused(&mut turn, "a", forged), DecideError::DigestMismatch);
    }
    let old = Deciding {
        version: Some(2),
        ..says(&turn, "a", Choice::Once)
    };
    assert_eq!(refused(&mut turn, "a", old), DecideError::VersionMismatch);
    let unknown = Deciding {
        choice: None,
        ..says(&turn, "a", Choice::Once)
    };
    assert!(matches!(
        refused(&mut turn, "a", unknown),
        DecideError::ChoiceNotAllowed(_)
    ));
    let silent = says(&turn, "a", Choice::Respond);
    assert!(matches!(
        refused(&mut turn, "a", silent),
        DecideError::ChoiceNotAllowed(_)
    ));
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
}

#[test]
fn edited_arguments_pass_schema_and_deny_rules_and_are_what_runs() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let edit = |turn: &Turn, text: &str| Deciding {
        edited: Bytes::copy_from_slice(text.as_bytes()),
        ..says(turn, "a", Choice::Edit)
    };
    for broken in [r#"{"n":"x"}"#, "{", ""] {
        let decision = edit(&turn, broken);
        assert!(
            matches!(
                refused(&mut turn, "a", decision),
                DecideError::EditInvalid(_)
            ),
            "{broken}"
        );
    }
    turn.permissions = rules(&[(Verdict::Deny, "drop(param:/n=3)")]);
    let decision = edit(&turn, r#"{"n":3}"#);
    assert!(matches!(
        refused(&mut turn, "a", decision),
        DecideError::EditInvalid(_)
    ));
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    let decision = edit(&turn, r#"{ "n": 4 }"#);
    assert!(matches!(
        outcome(&mut turn, "a", decision.clone()),
        Outcome::Taken(_)
    ));
    assert!(matches!(
        outcome(&mut turn, "a", decision),
        Outcome::Repeated(_)
    ));
    let once = says(&turn, "c", Choice::Once);
    decide(&mut turn, "c", once);
    let told = turn.claimed(&["a"]);
    assert!(
        told.iter()
            .any(|line| line.starts_with(r#"dispatch a#1 {"n":4}"#)),
        "{told:?}"
    );
}

#[test]
fn an_approvers_answer_is_the_result() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let respond = Deciding {
        response: Some(ToolResult::default()),
        ..says(&turn, "a", Choice::Respond)
    };
    let told = decide(&mut turn, "a", respond);
    assert!(
        told.contains(&"persist end of a, before announce".to_owned()),
        "{told:?}"
    );
    assert_eq!(turn.state("a"), CallState::Success);
    let result = turn.result("a");
    assert_eq!(
        (result.attempts, result.effect),
        (0, callgate::gate::result::CallEffect::NotExecuted)
    );
}

#[test]
fn an_approver_can_cancel_the_turn() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let cancel = says(&turn, "c", Choice::CancelTurn);
    decide(&mut turn, "c", cancel);
    assert!(turn.machine.has_ended());
    assert_eq!(turn.state("a"), CallState::Cancelled);
    assert_eq!(turn.approval("a").state, ApprovalState::Cancelled);
}

#[test]
fn a_grant_for_the_session_is_of_what_was_offered() {
    let mut turn = asked(BatchPolicy::FreezePartial);
    turn.start();
    let unknown = Deciding {
        candidates: vec!["c9".to_owned()],
        ..says(&turn, "a", Choice::Session)
    };
    assert!(matches!(
        refused(&mut turn, "a", unknown),
        DecideError::ChoiceNotAllowed(_)
    ));
    let session = says(&turn, "a", Choice::Session);
    let told = decide(&mut turn, "a", session);
    assert_eq!(
        told,
        [
            "persist grants drop, before announce",
            "persist approval of a=approved, before announce",
            "show a=approved",
            "announce a: awaiting_approval -> scheduled",
            "grant drop",
            "answer taken",
        ]
    );
}

#[test]
fn a_command_is_granted_part_by_part() {
    let text = r#"{"command":"git status && rm -rf x"}"#;
    let mut turn = paper(&[("a", "run_shell", text)]).lay();
    turn.approver = Approver::Expected;
    turn.register(runs_commands());
    turn.start();
    let call = turn.index("a");
    turn.give(Input::CommandAnalysed {
        call,
        command: Box::new(CommandSubject::read("git status && rm -rf x")),
    });
    let offered = turn.approval("a").candidates.clone();
    let rules: Vec<_> = offered
        .iter()
        .map(|one| (one.segment.as_ref().unwrap().0, one.rule.as_str()))
        .collect();
    assert_eq!(
        rules,
        [
            (0, "run_shell(git status)"),
            (0, "run_shell(git status *)"),
            (1, "run_shell(rm -rf x)"),
        ]
    );
    let pick = |turn: &Turn, ids: &[&str]| Deciding {
        candidates: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..says(turn, "a", Choice::Session)
    };
    for wrong in [&[][..], &["c1"], &["c1", "c2"], &["c1", "c2", "c3"]] {
        let decision = pick(&turn, wrong);
        assert!(
            matches!(
                refused(&mut turn, "a", decision),
                DecideError::ChoiceNotAllowed(_)
            ),
            "{wrong:?}"
        );
    }
    let decision = pick(&turn, &["c2", "c3"]);
    assert!(matches!(
        outcome(&mut turn, "a", decision),
        Outcome::Taken(_)
    ));
}

#[test]
fn an_edit_is_granted_as_a_mode_and_what_no_grant_could_lift_is_offered_none() {
    let edits = ToolDefinition {
        risk: Some(Risk::Sensitive),
        kind: Kind::Edit,
        ..definition("patch")
    };
    let mut turn = paper(&[("a", "patch", "{}")]).lay();
    turn.approver = Approver::Expected;
    turn.register(edits.clone());
    turn.start();
    let scopes: Vec<_> = turn
        .approval("a")
        .candidates
        .iter()
        .map(|one| one.scope.clone())
        .collect();
    assert_eq!(scopes, [Scope::Edits]);
    let mut turn = paper(&[("a", "patch", "{}")]).lay();
    turn.approver = Approver::Expected;
    turn.permissions = rules(&[(Verdict::Ask, "patch")]);
    turn.register(edits);
    turn.start();
    assert_eq!(turn.approval("a").candidates, []);
    assert!(!turn.approval("a").choices().contains(&Choice::Session));
}
