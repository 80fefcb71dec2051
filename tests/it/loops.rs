//! The loop detector: its answers, what a turn does with them, and what a run is afterwards.
//!
//! Never asks a real model.

mod diagnosis;
mod restarting;
mod stub;
mod vectors;
mod wire;

use callgate_client::pb::v1 as pb;

use crate::support::orchestrator::{call, turn};

/// One call of that tool in a run, the same each time.
fn same(run: &str, tool: &str, number: u32) -> pb::RunTurnRequest {
    let turn_id = format!("{run}-{number}");
    pb::RunTurnRequest {
        run_id: run.to_owned(),
        ..turn(&turn_id, [call("c", tool, r#"{"text":"x"}"#)])
    }
}
