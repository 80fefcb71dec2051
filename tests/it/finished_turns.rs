//! Turns that have ended: how long memory keeps their events, and for whom.
//!
//! Never waits for a clock.

use callgate_client::pb::v1 as pb;

use super::support::orchestrator::{call, turn};
use super::support::sidecar::Setup;
use super::support::{set_up, tools};

/// Larger than what a connection holds for a reader that does not come.
const LARGE: usize = 5 << 19;

#[tokio::test]
async fn a_late_reader_gets_its_end_however_many_turns_end_after_it() {
    let setup = Setup::default()
        .set("limits.finished_turns_max", 1)
        .set("limits.finished_turns_bytes_max", 64 << 20)
        .set("limits.result_bytes_max", 3 << 20);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let calls = ["a", "b", "c", "d"].map(|id| call(id, "echo", "{}"));
    let mut request = turn("late", calls);
    request.view = Some(pb::TurnView {
        result_delivery: pb::ResultDelivery::AsCompleted as i32,
        max_message_bytes: 8 << 20,
        ..pb::TurnView::default()
    });
    let mut late = orchestrator.run(request).await;
    // The first results fill the connection; the others and the end wait behind them in the turn.
    let answers = [LARGE, LARGE, LARGE, 1];
    for bytes in answers {
        let work = executor.work().await;
        executor.answer_text(&work, &"x".repeat(bytes)).await;
        executor.acked().await;
    }
    for number in 0..20 {
        orchestrator
            .run_to_end(turn(&format!("quick-{number}"), []))
            .await;
    }
    let completed = late.completed().await;
    assert_eq!(completed.results.len(), answers.len());
    assert!(late.snapshot.is_none());
}
