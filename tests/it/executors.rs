//! Executors over the wire, polite or not: what becomes of their calls, and that nobody else suffers.
//!
//! Never trusts an executor to be polite.

mod choosing;
mod coming_back;
mod lies;
mod silence;

use callgate_client::pb::v1 as pb;

use crate::support::orchestrator::{call, code_of, result_of, turn};

/// One call of a tool, in a turn of its own.
fn one(turn_id: &str, tool: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", tool, "{}")])
}

fn unknown_outcome(completed: &pb::TurnCompleted, expected: &str) {
    let result = result_of(completed, "c");
    assert_eq!(code_of(completed, "c"), expected);
    assert_eq!(result.effect(), pb::CallEffect::Unknown);
    assert_eq!(
        result.not_executed_reason(),
        pb::NotExecutedReason::Unspecified
    );
}
