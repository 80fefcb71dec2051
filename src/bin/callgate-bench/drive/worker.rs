//! One session of an orchestrator: makes turns, one after the other, and checks how each ends.
//!
//! A turn that does not end with a success for every call stops the measurement. Never measures.

use bytes::Bytes;
use callgate::pb::v1 as pb;
use callgate_client::connect::AuthorizedChannel;
use pb::stream_turns_request::Body as Asked;
use pb::stream_turns_response::Body as Told;
use pb::turn_event::Body;
use pb::turn_service_client::TurnServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::Shape;
use crate::payload::Payload;
use crate::problem::Problem;

/// Largest message taken.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One session.
pub(crate) struct Worker {
    /// Begins every id.
    session_id: String,
    tool: &'static str,
    payload: Payload,
    batch: usize,
    turns: u64,
    lane: Lane,
}

/// How turns are asked for.
enum Lane {
    Single(TurnServiceClient<AuthorizedChannel>),
    Stream {
        ask: mpsc::Sender<pb::StreamTurnsRequest>,
        told: Box<Streaming<pb::StreamTurnsResponse>>,
    },
}

impl Worker {
    /// A session of its own that calls this tool. With [`Shape::Stream`] it opens its stream.
    pub(crate) async fn start(
        channel: AuthorizedChannel,
        shape: Shape,
        (session_id, tool): (String, &'static str),
        batch: usize,
        payload: Payload,
    ) -> Result<Self, Problem> {
        let mut client =
            TurnServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let lane = match shape {
            Shape::Run => Lane::Single(client),
            Shape::Stream => {
                let (ask, asked) = mpsc::channel(4);
                let told = client.stream_turns(ReceiverStream::new(asked)).await?;
                Lane::Stream {
                    ask,
                    told: Box::new(told.into_inner()),
                }
            }
        };
        Ok(Self {
            session_id,
            tool,
            payload,
            batch,
            turns: 0,
            lane,
        })
    }

    fn request(&mut self) -> pb::RunTurnRequest {
        self.turns += 1;
        let turn_id = format!("{}-{:x}", self.session_id, self.turns);
        let arguments: Bytes = self.payload.next();
        let calls = (0..self.batch).map(|position| pb::ToolCall {
            call_id: format!("call_{turn_id}_{position}"),
            name: self.tool.to_owned(),
            arguments_json: arguments.clone(),
            truncated: false,
        });
        pb::RunTurnRequest {
            session_id: self.session_id.clone(),
            calls: calls.collect(),
            turn_id,
            ..pb::RunTurnRequest::default()
        }
    }

    /// One turn, from the request to its end.
    pub(crate) async fn turn(&mut self) -> Result<(), Problem> {
        let request = self.request();
        let batch = self.batch;
        match &mut self.lane {
            Lane::Single(client) => {
                let mut told = client.run_turn(request).await?.into_inner();
                let mut completed = None;
                while let Some(message) = told.message().await? {
                    completed = end_of(message.turn).or(completed);
                }
                check(completed, batch)
            }
            Lane::Stream { ask, told } => {
                let body = Some(Asked::Run(request));
                let asked = ask.send(pb::StreamTurnsRequest { body }).await;
                asked.map_err(|_| ended())?;
                loop {
                    let message = told.message().await?.ok_or_else(ended)?;
                    let turn = match message.body {
                        Some(Told::Turn(turn)) => Some(turn),
                        Some(other) => {
                            return Err(Problem::Unexpected(format!("not an event: {other:?}")));
                        }
                        None => None,
                    };
                    if let Some(completed) = end_of(turn) {
                        return check(Some(completed), batch);
                    }
                }
            }
        }
    }
}

fn ended() -> Problem {
    Problem::Unexpected("the turn stream ended".to_owned())
}

/// The turn's end, if it is among the events.
fn end_of(turn: Option<pb::TurnEvents>) -> Option<pb::TurnCompleted> {
    match turn?.events.pop()?.body {
        Some(Body::TurnCompleted(completed)) => Some(completed),
        Some(
            Body::TurnAccepted(_)
            | Body::CallStateChanged(_)
            | Body::CallCompleted(_)
            | Body::CallProgress(_)
            | Body::CallOutput(_)
            | Body::Heartbeat(_)
            | Body::ApprovalRequired(_)
            | Body::TurnSuspended(_)
            | Body::LoopDetected(_),
        )
        | None => None,
    }
}

fn check(completed: Option<pb::TurnCompleted>, batch: usize) -> Result<(), Problem> {
    let completed =
        completed.ok_or_else(|| Problem::Unexpected("a turn did not complete".to_owned()))?;
    let good = completed
        .results
        .iter()
        .filter(|result| !result.is_error && !result.contents.is_empty())
        .count();
    if good == batch && completed.outcome() == pb::TurnOutcome::Completed {
        return Ok(());
    }
    let error = completed
        .results
        .into_iter()
        .find_map(|result| result.error);
    Err(Problem::Unexpected(format!(
        "{good} of {batch} calls succeeded: {error:?}"
    )))
}
