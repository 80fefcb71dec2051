//! The demo's model that asks for the same thing again and again: its run is ended.
//!
//! Plays one recorded message five times under other turn ids.

use std::path::Path;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::turn_service_client::TurnServiceClient;
use tonic::Code;

use super::{message_request, run, show_results};
use crate::cli::output::{Outcome, data};

/// The recorded message.
const FILE: &str = "good_call.json";
/// How often it comes before its run is a loop.
const REPEAT: u32 = 5;

/// Plays until the run is ended, and once more.
pub(super) async fn play(channel: &AuthorizedChannel, examples: &Path) -> Result<(), Outcome> {
    data("\nthe fifth identical call stops the run, and the run refuses afterwards");
    for number in 1..=REPEAT {
        let completed = run(channel, request(examples, number)?, false).await?;
        show_results(&completed.results);
        let expected = match number {
            REPEAT => pb::TurnOutcome::LoopDetected,
            _ => pb::TurnOutcome::Completed,
        };
        if completed.outcome() != expected {
            let outcome = completed.outcome();
            return Err(Outcome::failed(format!("turn {number} ended {outcome:?}")));
        }
    }
    let mut turns = TurnServiceClient::new(channel.clone());
    match turns.run_turn(request(examples, REPEAT + 1)?).await {
        Err(status) if status.code() == Code::FailedPrecondition => {
            data(&format!("  refused: {}", status.message()));
            Ok(())
        }
        Err(status) => Err(Outcome::failed(format!("refused with {status}"))),
        Ok(_) => Err(Outcome::failed("the run takes a further turn")),
    }
}

fn request(examples: &Path, number: u32) -> Result<pb::RunTurnRequest, Outcome> {
    Ok(pb::RunTurnRequest {
        run_id: "loop".to_owned(),
        turn_id: format!("loop-{number}"),
        ..message_request(examples, FILE)?
    })
}
