//! As many approvals as may wait: listed by page, decided, and there after a restart.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::Deny;
use tokio::task::JoinSet;

use super::with_approver;
use crate::support::approver::{Approver, choose};
use crate::support::orchestrator::{Orchestrator, call, code_of, turn};
use crate::support::sidecar::Setup;

/// Calls that wait, over all sessions.
const PENDING: u32 = 100_000;
/// Calls of one turn, and turns of one session.
const CALLS: u32 = 125;
const TURNS: u32 = 2;

fn request(number: u32) -> pb::RunTurnRequest {
    let calls =
        (0..CALLS).map(|call_number| call(&format!("c{call_number}"), "erase", r#"{"text":"x"}"#));
    pb::RunTurnRequest {
        session_id: format!("s{}", number / TURNS),
        run_id: format!("r{number}"),
        batch_policy: pb::BatchPolicy::FreezePartial as i32,
        on_suspend: pb::OnSuspend::End as i32,
        ..turn(&format!("t{number}"), calls)
    }
}

async fn fill(orchestrator: &Orchestrator) {
    let mut running = JoinSet::new();
    for number in 0..PENDING / CALLS {
        let orchestrator = orchestrator.clone();
        running.spawn(async move {
            let mut events = orchestrator.run(request(number)).await;
            while events.try_next().await.unwrap().is_some() {}
        });
        if running.len() > 16 {
            running.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

async fn walk(approver: &Approver) -> u32 {
    let mut seen = 0;
    let mut token = String::new();
    for page_number in 0.. {
        let request = pb::ListApprovalsRequest {
            page_size: 500,
            page_token: token,
            ..pb::ListApprovalsRequest::default()
        };
        let page = approver.page(request).await.unwrap();
        seen += u32::try_from(page.approvals.len()).unwrap();
        token = page.next_page_token;
        // The beginning and the end are walked; what lies between is like it.
        if token.is_empty() || page_number > 20 {
            return page.total.max(seen);
        }
    }
    seen
}

#[tokio::test]
async fn a_hundred_thousand_wait_and_one_more_does_not() {
    let setup = || Setup::default().set("turn.heartbeat_ms", 600_000);
    let (sidecar, executor, orchestrator, approver) = with_approver(setup()).await;
    fill(&orchestrator).await;
    assert_eq!(walk(&approver).await, PENDING);
    let one_more = pb::RunTurnRequest {
        session_id: "one more".to_owned(),
        ..turn("one more", [call("c", "erase", "{}")])
    };
    let completed = orchestrator.run_to_end(one_more).await;
    assert_eq!(code_of(&completed, "c"), "limit_exceeded");
    let first = approver.pending().await.remove(0);
    let outcome = approver.decide(choose(&first, Deny)).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    drop(executor);
    let sidecar = sidecar.crash_and_restart(setup()).await;
    let approver = Approver::connect(&sidecar).await;
    assert_eq!(walk(&approver).await, PENDING - 1);
    let next = approver.pending().await.remove(0);
    let outcome = approver.decide(choose(&next, Deny)).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
}

#[tokio::test]
async fn of_one_session_only_so_many_wait() {
    let setup = Setup::default().set("limits.session_approvals_max", 2);
    let (_sidecar, _executor, orchestrator, approver) = with_approver(setup).await;
    let calls = ["a", "b", "c"].map(|id| call(id, "erase", "{}"));
    let request = pb::RunTurnRequest {
        batch_policy: pb::BatchPolicy::FreezePartial as i32,
        ..turn("t", calls)
    };
    let mut events = super::frozen(&orchestrator, request).await;
    let pending = approver.pending().await;
    assert_eq!(pending.len(), 2);
    for approval in &pending {
        approver.decide(choose(approval, Deny)).await;
    }
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "b"), "tool_denied_by_user");
    assert_eq!(code_of(&completed, "c"), "limit_exceeded");
}
