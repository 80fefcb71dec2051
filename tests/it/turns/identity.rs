//! What makes two calls or two turns the same.
//!
//! Never runs anything twice.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use crate::support::failure::{self, detail};
use crate::support::orchestrator::{call, code_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn empty_and_repeated_call_ids_refuse_the_turn() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let empty = turn("t", [call("a", "echo", "{}"), call("", "echo", "{}")]);
    let status = orchestrator.refused(empty).await;
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(failure::code(&status), "call_id_empty");
    assert_eq!(detail(&status).violations[0].field, "calls[1].call_id");
    let twice = turn("t", [call("a", "echo", "{}"), call("a", "echo", "{}")]);
    let status = orchestrator.refused(twice).await;
    assert_eq!(failure::code(&status), "call_id_duplicate");
    assert_eq!(detail(&status).violations[0].field, "calls[1].call_id");
    // Nothing was recorded: the id is free.
    assert!(orchestrator.get_turn("t").await.is_err());
}

#[tokio::test]
async fn an_empty_call_id_is_minted_where_that_is_configured() {
    let setup = Setup::default().set("turn.mint_call_ids", true);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let request = turn("t", [call("", "echo", "{}"), call("b", "echo", "{}")]);
    let mut events = orchestrator.run(request.clone()).await;
    let Body::TurnAccepted(accepted) = events.next().await else {
        panic!("not accepted first");
    };
    let minted = accepted.calls[0].call_id.clone();
    assert!(accepted.calls[0].minted && !minted.is_empty());
    assert!(!accepted.calls[1].minted);
    // The same request is the same turn, though its ids would be minted anew.
    let mut again = orchestrator.run(request).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert_eq!(completed.results[0].call_id, minted);
    assert_eq!(again.completed().await, completed);
}

#[tokio::test]
async fn the_same_turn_attaches_and_runs_nothing_twice() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let request = turn("t", [call("c", "write", "{}")]);
    let mut first = orchestrator.run(request.clone()).await;
    let work = executor.work().await;
    let mut second = orchestrator.run(request.clone()).await;
    executor.answer_text(&work, "once").await;
    let completed = first.completed().await;
    assert_eq!(second.completed().await, completed);
    assert_eq!(second.lines(), first.lines());
    // After its end, too.
    let mut third = orchestrator.run(request).await;
    assert_eq!(third.completed().await, completed);
    assert_eq!(third.lines(), first.lines());
}

#[tokio::test]
async fn the_same_turn_with_other_contents_is_a_conflict() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut first = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let other = turn("t", [call("c", "echo", r#"{"text":"other"}"#)]);
    let status = orchestrator.refused(other.clone()).await;
    assert_eq!(status.code(), tonic::Code::AlreadyExists);
    assert_eq!(failure::code(&status), "call_conflict");
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    first.completed().await;
    assert_eq!(
        failure::code(&orchestrator.refused(other.clone()).await),
        "call_conflict"
    );
    // Of another session it is another turn.
    let elsewhere = pb::RunTurnRequest {
        session_id: "elsewhere".to_owned(),
        ..other
    };
    let mut events = orchestrator.run(elsewhere).await;
    let work = executor.work().await;
    assert_eq!(work.context.as_ref().unwrap().session_id, "elsewhere");
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    // Now the id alone is not enough.
    let request = pb::GetTurnRequest {
        turn_id: "t".to_owned(),
        session_id: String::new(),
    };
    let status = orchestrator
        .turns
        .clone()
        .get_turn(request)
        .await
        .unwrap_err();
    assert_eq!(detail(&status).violations[0].field, "session_id");
}
