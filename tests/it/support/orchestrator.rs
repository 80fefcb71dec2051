//! An orchestrator: runs turns, follows them, and checks that no event is missing.

use std::pin::Pin;

use callgate_client::connect::{AuthorizedChannel, Target};
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::registry_service_client::RegistryServiceClient;
use callgate_client::pb::v1::server_service_client::ServerServiceClient;
use callgate_client::pb::v1::turn_service_client::TurnServiceClient;
use pb::turn_event::Body;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::sidecar::Sidecar;
use super::soon;

const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A call as a model makes it.
pub(crate) fn call(id: &str, tool: &str, arguments: &str) -> pb::ToolCall {
    pb::ToolCall {
        call_id: id.to_owned(),
        name: tool.to_owned(),
        arguments_json: arguments.to_owned().into(),
        truncated: false,
    }
}

/// A turn of session `s`.
pub(crate) fn turn(id: &str, calls: impl IntoIterator<Item = pb::ToolCall>) -> pb::RunTurnRequest {
    pb::RunTurnRequest {
        session_id: "s".to_owned(),
        turn_id: id.to_owned(),
        calls: calls.into_iter().collect(),
        ..pb::RunTurnRequest::default()
    }
}

/// Talks to a sidecar over one channel.
#[derive(Clone)]
pub(crate) struct Orchestrator {
    pub(crate) turns: TurnServiceClient<AuthorizedChannel>,
    pub(crate) registry: RegistryServiceClient<AuthorizedChannel>,
    pub(crate) server: ServerServiceClient<AuthorizedChannel>,
}

impl Orchestrator {
    /// Connects to the socket of orchestrators.
    pub(crate) async fn connect(sidecar: &Sidecar) -> Self {
        Self::over(sidecar.channel().await)
    }

    /// Connects to the socket of administrators.
    pub(crate) async fn admin(sidecar: &Sidecar) -> Self {
        Self::over(sidecar.control_channel().await)
    }

    /// Connects if anybody is there.
    pub(crate) async fn try_connect(sidecar: &Sidecar) -> Option<Self> {
        let target = Target {
            endpoint: Some(format!("unix://{}", sidecar.socket().display())),
            token: None,
        };
        target.connect().await.ok().map(Self::over)
    }

    pub(crate) fn over(channel: AuthorizedChannel) -> Self {
        Self {
            turns: TurnServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            registry: RegistryServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            server: ServerServiceClient::new(channel),
        }
    }

    /// Starts a turn that must be taken.
    pub(crate) async fn run(&self, request: pb::RunTurnRequest) -> Following {
        self.try_run(request).await.unwrap()
    }

    /// Starts a turn that must be refused as a whole.
    pub(crate) async fn refused(&self, request: pb::RunTurnRequest) -> Status {
        match self.try_run(request).await {
            Ok(_) => panic!("the turn was taken"),
            Err(status) => status,
        }
    }

    pub(crate) async fn try_run(&self, request: pb::RunTurnRequest) -> Result<Following, Status> {
        let mut turns = self.turns.clone();
        let answered = soon("the turn to be taken", turns.run_turn(request)).await?;
        let events = answered.into_inner();
        Ok(Following::new(events.map(|message| {
            message.map(|message| message.turn.unwrap())
        })))
    }

    /// Runs a turn of calls that need no executor of the test's to its end.
    pub(crate) async fn run_to_end(&self, request: pb::RunTurnRequest) -> pb::TurnCompleted {
        self.run(request).await.completed().await
    }

    /// Follows a turn.
    pub(crate) async fn attach(&self, request: pb::AttachTurnRequest) -> Following {
        self.try_attach(request).await.unwrap()
    }

    pub(crate) async fn try_attach(
        &self,
        request: pb::AttachTurnRequest,
    ) -> Result<Following, Status> {
        let after = request.after_sequence;
        let mut turns = self.turns.clone();
        let answered = soon("the turn to be found", turns.attach_turn(request)).await?;
        let events = answered.into_inner();
        let mut following =
            Following::new(events.map(|message| message.map(|message| message.turn.unwrap())));
        following.last_sequence = after;
        Ok(following)
    }

    /// Cancels a turn of session `s`.
    pub(crate) async fn cancel_turn(&self, turn: &str, grace_ms: Option<u32>) -> pb::TurnState {
        let request = pb::CancelTurnRequest {
            turn_id: turn.to_owned(),
            session_id: "s".to_owned(),
            reason: "stop it".to_owned(),
            grace_ms,
        };
        let mut turns = self.turns.clone();
        let answered = soon("the cancellation", turns.cancel_turn(request)).await;
        answered.unwrap().into_inner().state()
    }

    /// Cancels a call of session `s`.
    pub(crate) async fn cancel_call(
        &self,
        turn: &str,
        call: &str,
        grace_ms: Option<u32>,
    ) -> Result<pb::CallState, Status> {
        let request = pb::CancelCallRequest {
            turn_id: turn.to_owned(),
            session_id: "s".to_owned(),
            call_id: call.to_owned(),
            reason: "not that one".to_owned(),
            grace_ms,
        };
        let mut turns = self.turns.clone();
        let answered = soon("the cancellation", turns.cancel_call(request)).await?;
        Ok(answered.into_inner().state())
    }

    /// A turn of session `s` as it stands.
    pub(crate) async fn get_turn(&self, turn: &str) -> Result<pb::Turn, Status> {
        let request = pb::GetTurnRequest {
            turn_id: turn.to_owned(),
            session_id: "s".to_owned(),
        };
        let mut turns = self.turns.clone();
        let answered = soon("the turn", turns.get_turn(request)).await?;
        Ok(answered.into_inner().turn.unwrap())
    }

    /// A result of session `s`, whole.
    pub(crate) async fn get_result(
        &self,
        turn: &str,
        call: &str,
    ) -> Result<pb::CallResult, Status> {
        let request = pb::GetCallResultRequest {
            turn_id: turn.to_owned(),
            session_id: "s".to_owned(),
            call_id: call.to_owned(),
        };
        let mut turns = self.turns.clone();
        let answered = soon("the result", turns.get_call_result(request)).await?;
        Ok(answered.into_inner().result.unwrap())
    }
}

/// Events of one turn, in order, none missing.
pub(crate) struct Following {
    messages: Pin<Box<dyn Stream<Item = Result<pb::TurnEvents, Status>> + Send>>,
    ready: std::collections::VecDeque<pb::TurnEvent>,
    /// Every event that was read.
    pub(crate) events: Vec<pb::TurnEvent>,
    /// The snapshot that came, if one did.
    pub(crate) snapshot: Option<pb::Turn>,
    /// Of the last message.
    pub(crate) epoch: u32,
    last_sequence: u64,
}

impl Following {
    pub(crate) fn new(
        messages: impl Stream<Item = Result<pb::TurnEvents, Status>> + Send + 'static,
    ) -> Self {
        Self {
            messages: Box::pin(messages),
            ready: std::collections::VecDeque::new(),
            events: Vec::new(),
            snapshot: None,
            epoch: 0,
            last_sequence: 0,
        }
    }

    /// The next event. None: the stream ended in order.
    pub(crate) async fn try_next(&mut self) -> Result<Option<pb::TurnEvent>, Status> {
        while self.ready.is_empty() {
            let Some(message) = soon("an event", self.messages.next()).await else {
                return Ok(None);
            };
            self.take(message?);
        }
        let event = self.ready.pop_front();
        self.events.extend(event.clone());
        Ok(event)
    }

    fn take(&mut self, message: pb::TurnEvents) {
        self.epoch = message.epoch;
        assert!(
            message.snapshot.is_some() || !message.events.is_empty(),
            "a message that says nothing"
        );
        let last_event = message
            .events
            .iter()
            .filter(|event| event.sequence > 0)
            .count() as u64;
        if let Some(snapshot) = message.snapshot {
            self.last_sequence = match snapshot.completed.is_some() || last_event > 0 {
                // A snapshot says where the events stand before those that come with it.
                true => message.events.first().map_or(0, |event| event.sequence) - 1,
                false => snapshot.last_sequence,
            };
            self.snapshot = Some(snapshot);
        }
        for event in message.events {
            if event.sequence > 0 {
                assert_eq!(
                    event.sequence,
                    self.last_sequence + 1,
                    "a gap before {event:?}"
                );
                self.last_sequence = event.sequence;
            }
            self.ready.push_back(event);
        }
    }

    /// The next event, which must come.
    pub(crate) async fn next(&mut self) -> Body {
        let event = self.try_next().await.unwrap();
        event.expect("the stream ended").body.unwrap()
    }

    /// Reads on until an event that `is_it`.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&Body) -> bool) -> Body {
        let until_it_comes = async {
            loop {
                let body = self.next().await;
                if is_it(&body) {
                    return body;
                }
            }
        };
        soon("an event", until_it_comes).await
    }

    /// Reads on until a call is in that state.
    pub(crate) async fn until_state(&mut self, call: &str, state: pb::CallState) {
        self.until(|body| {
            let Body::CallStateChanged(moved) = body else {
                return false;
            };
            moved.call_id == call && moved.state() == state
        })
        .await;
    }

    /// Reads to the turn's end, which must be the last event.
    pub(crate) async fn completed(&mut self) -> pb::TurnCompleted {
        let end = self
            .until(|body| matches!(body, Body::TurnCompleted(_)))
            .await;
        let Body::TurnCompleted(completed) = end else {
            panic!("no end: {end:?}");
        };
        let after = self.try_next().await.unwrap();
        assert_eq!(after, None, "an event after the end");
        completed
    }

    /// Every kept event so far, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let kept = self.events.iter().filter(|event| event.sequence > 0);
        kept.map(|event| line(event.body.as_ref().unwrap()))
            .collect()
    }
}

/// One event as a line.
pub(crate) fn line(body: &Body) -> String {
    match body {
        Body::TurnAccepted(accepted) => format!("accepted {}", accepted.calls.len()),
        Body::CallStateChanged(moved) => {
            let state = |state: pb::CallState| {
                let name = state.as_str_name();
                name.trim_start_matches("CALL_STATE_").to_lowercase()
            };
            let (from, to) = (state(moved.previous_state()), state(moved.state()));
            let code = match moved.code.is_empty() {
                true => String::new(),
                false => format!(" {}", moved.code),
            };
            format!("{}: {from} > {to}{code}", moved.call_id)
        }
        Body::CallCompleted(completed) => {
            let result = completed.result.as_ref().unwrap();
            format!("{}: result", result.call_id)
        }
        Body::TurnCompleted(completed) => {
            let outcome = completed.outcome().as_str_name();
            outcome.trim_start_matches("TURN_OUTCOME_").to_lowercase()
        }
        Body::ApprovalRequired(required) => format!("asking {}", required.approvals.len()),
        Body::LoopDetected(found) => format!("loop of {}", found.period),
        Body::TurnSuspended(suspended) => format!("suspended {}", suspended.approval_ids.len()),
        Body::CallProgress(progress) => {
            format!("{}: progress {}", progress.call_id, progress.message)
        }
        Body::CallOutput(output) => format!("{}: output {}", output.call_id, output.data.len()),
        Body::Heartbeat(heartbeat) => format!("waiting for {}", heartbeat.waiting_for),
    }
}

/// The result of a call, whether it stands among the results or the closing results.
pub(crate) fn result_of<'a>(completed: &'a pb::TurnCompleted, call: &str) -> &'a pb::CallResult {
    let closing = completed.closing_results.iter();
    let mut results = completed
        .results
        .iter()
        .chain(closing.flat_map(|closing| &closing.results));
    results
        .find(|result| result.call_id == call)
        .unwrap_or_else(|| panic!("no result for `{call}`: {completed:?}"))
}

/// The code of a result. Empty: it is no error.
pub(crate) fn code_of<'a>(completed: &'a pb::TurnCompleted, call: &str) -> &'a str {
    let error = result_of(completed, call).error.as_ref();
    error.map_or("", |error| error.code.as_str())
}

/// The text of a result.
pub(crate) fn text_of(result: &pb::CallResult) -> String {
    let texts = result.contents.iter().map(|part| match &part.content {
        Some(pb::content_part::Content::Text(text)) => text.as_str(),
        other => panic!("no text: {other:?}"),
    });
    texts.collect()
}
