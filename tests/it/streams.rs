//! Streams: many turns on one, taking a turn up again, progress, output, silence, and the tools.
//!
//! Never assumes which of two turns speaks first.

mod multiplex;
mod taking_up;
mod watching_tools;
mod while_it_runs;

use callgate_client::pb::v1 as pb;

use crate::support::orchestrator::{call, turn};

fn one(turn_id: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", "echo", "{}")])
}

fn attach(turn_id: &str, after_sequence: u64) -> pb::AttachTurnRequest {
    pb::AttachTurnRequest {
        turn_id: turn_id.to_owned(),
        after_sequence,
        ..pb::AttachTurnRequest::default()
    }
}
