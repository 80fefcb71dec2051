//! `cancel-probe`: how long a cancellation takes from an orchestrator to an executor, beside a ping.
//!
//! One process plays both, so that one clock measures. Both ways have two legs: request and cancel,
//! ping and pong. Never measures under a load of its own: `drive` makes that. Prints one JSON line.

use std::time::{Duration, Instant};

use callgate::base::mint::Mint;
use callgate::pb::v1 as pb;
use callgate_client::connect::AuthorizedChannel;
use pb::connect_request::Body as Say;
use pb::connect_response::Body as Heard;
use pb::turn_service_client::TurnServiceClient;
use serde::{Deserialize, Serialize};

use crate::clock::{nanos, now};
use crate::connect::Place;
use crate::drive::micros;
use crate::executor::Joined;
use crate::histogram::Histogram;
use crate::output::data;
use crate::problem::Problem;

/// Name of the tool that only ends when it is cancelled.
const TOOL: &str = "hang";
/// Longest time for all rounds.
const LIMIT: Duration = Duration::from_secs(60);

/// Measures how fast a cancellation reaches the executor.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelProbe {
    #[command(flatten)]
    place: Place,
    /// Cancellations, and as many pings.
    #[arg(long, default_value_t = 500)]
    rounds: u32,
}

/// What was measured, in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CancelReport {
    /// Rounds.
    pub(crate) rounds: u64,
    /// Ping to pong on the executor's stream.
    pub(crate) ping_p50_us: f64,
    /// The same, at 99 %.
    pub(crate) ping_p99_us: f64,
    /// `CancelCall` sent to `CancelExecution` received.
    pub(crate) cancel_p50_us: f64,
    /// The same, at 99 %.
    pub(crate) cancel_p99_us: f64,
}

impl CancelProbe {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let measured = tokio::time::timeout(LIMIT, self.measure()).await;
        let report = measured.map_err(|_| Problem::Late {
            what: "the probe".to_owned(),
            limit: LIMIT,
        })??;
        let line = serde_json::to_string(&report)
            .map_err(|error| Problem::Unexpected(error.to_string()))?;
        data(&line);
        Ok(())
    }

    async fn measure(&self) -> Result<CancelReport, Problem> {
        let mint = Mint::new();
        let hello = Joined::hello("bench-cancel", mint.id(), 1);
        let hang = pb::ToolDefinition {
            name: TOOL.to_owned(),
            description: "Ends when it is cancelled.".to_owned(),
            risk_level: pb::RiskLevel::Safe as i32,
            kind: pb::ToolKind::Read as i32,
            supports_cancellation: true,
            ..pb::ToolDefinition::default()
        };
        let executor = Joined::join(self.place.connect().await?, hello, &[hang]).await?;
        let mut probe = Probe {
            executor,
            turns: TurnServiceClient::new(self.place.connect().await?),
        };
        let (mut pings, mut cancels) = (Histogram::new(), Histogram::new());
        let session = mint.id();
        for round in 0..self.rounds {
            pings.record(probe.ping(round).await?);
            cancels.record(probe.cancel(&session, mint.id()).await?);
        }
        Ok(CancelReport {
            rounds: pings.len(),
            ping_p50_us: micros(pings.at(0.5)),
            ping_p99_us: micros(pings.at(0.99)),
            cancel_p50_us: micros(cancels.at(0.5)),
            cancel_p99_us: micros(cancels.at(0.99)),
        })
    }
}

struct Probe {
    executor: Joined,
    turns: TurnServiceClient<AuthorizedChannel>,
}

impl Probe {
    /// Reads until `wanted` finds something, and answers pings meanwhile.
    async fn await_heard<T>(
        &mut self,
        wanted: impl Fn(Heard) -> Option<T>,
    ) -> Result<(T, Instant), Problem> {
        loop {
            let heard = self.executor.next().await?;
            let at = now();
            if let Heard::Ping(ping) = heard {
                let pong = pb::Pong { nonce: ping.nonce };
                self.executor.send(Say::Pong(pong)).await?;
            } else if let Some(found) = wanted(heard) {
                return Ok((found, at));
            }
        }
    }

    /// Ping to pong, in nanoseconds.
    async fn ping(&mut self, nonce: u32) -> Result<u64, Problem> {
        let sent = now();
        self.executor.send(Say::Ping(pb::Ping { nonce })).await?;
        let ((), at) = self
            .await_heard(|heard| {
                matches!(heard, Heard::Pong(pong) if pong.nonce == nonce).then_some(())
            })
            .await?;
        Ok(nanos(at.duration_since(sent)))
    }

    /// `CancelCall` sent to `CancelExecution` received, in nanoseconds.
    async fn cancel(&mut self, session: &str, turn_id: String) -> Result<u64, Problem> {
        let request = pb::RunTurnRequest {
            session_id: session.to_owned(),
            // The same call each time would be a loop.
            run_id: turn_id.clone(),
            turn_id: turn_id.clone(),
            calls: vec![pb::ToolCall {
                call_id: "call_1".to_owned(),
                name: TOOL.to_owned(),
                ..pb::ToolCall::default()
            }],
            ..pb::RunTurnRequest::default()
        };
        let mut events = self.turns.run_turn(request).await?.into_inner();
        let (execution, _) = self
            .await_heard(|heard| {
                if let Heard::Execute(request) = heard {
                    return Some(request.execution);
                }
                None
            })
            .await?;
        let accepted = pb::ExecuteAccepted {
            execution: execution.clone(),
            queued: false,
        };
        self.executor.send(Say::Accepted(accepted)).await?;
        let request = pb::CancelCallRequest {
            session_id: session.to_owned(),
            turn_id,
            call_id: "call_1".to_owned(),
            ..pb::CancelCallRequest::default()
        };
        let mut turns = self.turns.clone();
        let sent = now();
        let (answered, heard) = tokio::join!(
            turns.cancel_call(request),
            self.await_heard(|heard| matches!(heard, Heard::Cancel(_)).then_some(()))
        );
        answered?;
        let ((), at) = heard?;
        let stopped = pb::ExecuteResult {
            execution,
            outcome: Some(pb::execute_result::Outcome::Cancelled(
                pb::ExecutionCancelled {
                    effect: pb::CallEffect::NotExecuted as i32,
                    message: String::new(),
                },
            )),
        };
        self.executor.send(Say::Result(stopped)).await?;
        while events.message().await?.is_some() {}
        Ok(nanos(at.duration_since(sent)))
    }
}
