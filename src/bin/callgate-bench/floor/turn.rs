//! One turn in the bare relay: its calls, what is still open, the events that wait to be sent.
//!
//! The events and results have every field that the sidecar fills. Never checks anything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use callgate::pb::v1 as pb;
use parking_lot::Mutex;
use pb::turn_event::Body;

/// Stands for any digest.
pub(super) const DIGEST: Bytes = Bytes::from_static(&[0xC6; 32]);

/// One turn.
pub(super) struct Turn {
    pub(super) turn_id: String,
    pub(super) session_id: String,
    pub(super) run_id: String,
    pub(super) batch_id: String,
    /// Ids and tools of the calls, in order.
    calls: Vec<pb::AcceptedCall>,
    accepted_at_ms: u64,
    outlet: Arc<Outlet>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sequence: u64,
    waiting: Vec<pb::TurnEvent>,
    results: Vec<Option<pb::CallResult>>,
    open: usize,
    /// The outlet knows that something waits.
    queued: bool,
}

impl Turn {
    pub(super) fn new(
        request: &pb::RunTurnRequest,
        batch_id: String,
        accepted_at_ms: u64,
        outlet: Arc<Outlet>,
    ) -> Arc<Self> {
        let run_id = match request.run_id.is_empty() {
            true => request.session_id.clone(),
            false => request.run_id.clone(),
        };
        let calls: Vec<_> = request
            .calls
            .iter()
            .map(|call| pb::AcceptedCall {
                call_id: call.call_id.clone(),
                tool: call.name.clone(),
                minted: false,
            })
            .collect();
        Arc::new(Self {
            turn_id: request.turn_id.clone(),
            session_id: request.session_id.clone(),
            run_id,
            batch_id,
            accepted_at_ms,
            outlet,
            state: Mutex::new(State {
                results: vec![None; calls.len()],
                open: calls.len(),
                ..State::default()
            }),
            calls,
        })
    }

    /// Tells that the turn begins and that its calls may run.
    pub(super) fn accept(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let accepted = Body::TurnAccepted(pb::TurnAccepted {
            session_id: self.session_id.clone(),
            run_id: self.run_id.clone(),
            batch_id: self.batch_id.clone(),
            calls: self.calls.clone(),
            round: 1,
            ..pb::TurnAccepted::default()
        });
        state.tell(self.accepted_at_ms, accepted);
        for call in &self.calls {
            let moved = moved(call, pb::CallState::Validating, pb::CallState::Scheduled);
            state.tell(self.accepted_at_ms, moved);
        }
        self.queue(&mut state);
    }

    /// Takes one result. True: it was the last.
    pub(super) fn finish(
        self: &Arc<Self>,
        position: usize,
        result: pb::ToolResult,
        now: u64,
    ) -> bool {
        let mut state = self.state.lock();
        let (Some(call), Some(place)) = (self.calls.get(position), state.results.get_mut(position))
        else {
            return false;
        };
        let result = self.result_of(call, result, now);
        let bare = pb::CallResult {
            contents: Vec::new(),
            structured_json: Bytes::new(),
            metadata_json: Bytes::new(),
            call_id: result.call_id.clone(),
            tool: result.tool.clone(),
            arguments_digest: result.arguments_digest.clone(),
            error: None,
            approval_id: String::new(),
            ..result
        };
        if place.replace(result).is_some() {
            return false;
        }
        state.open -= 1;
        state.tell(
            now,
            moved(call, pb::CallState::Scheduled, pb::CallState::Executing),
        );
        state.tell(
            now,
            moved(call, pb::CallState::Executing, pb::CallState::Success),
        );
        state.tell(
            now,
            Body::CallCompleted(pb::CallCompleted { result: Some(bare) }),
        );
        let ended = state.open == 0;
        if ended {
            let completed = self.completed(&mut state);
            state.tell(now, completed);
        }
        self.queue(&mut state);
        ended
    }

    fn result_of(
        &self,
        call: &pb::AcceptedCall,
        result: pb::ToolResult,
        now: u64,
    ) -> pb::CallResult {
        pb::CallResult {
            call_id: call.call_id.clone(),
            tool: call.tool.clone(),
            outcome: pb::CallOutcome::Success as i32,
            is_error: result.is_error,
            stop_flag: result.stop_flag,
            error: result.error,
            contents: result.contents,
            structured_json: result.structured_json,
            metadata_json: result.metadata_json,
            not_executed_reason: pb::NotExecutedReason::Unspecified as i32,
            effect: pb::CallEffect::Executed as i32,
            truncated: false,
            original_bytes: None,
            sanitised: result.sanitised,
            attempts: 1,
            timing: Some(pb::CallTiming {
                received_at_ms: self.accepted_at_ms,
                started_at_ms: Some(now),
                finished_at_ms: now,
                queue_ms: 0,
                ..pb::CallTiming::default()
            }),
            arguments_digest: DIGEST,
            ..pb::CallResult::default()
        }
    }

    fn completed(&self, state: &mut State) -> Body {
        Body::TurnCompleted(pb::TurnCompleted {
            outcome: pb::TurnOutcome::Completed as i32,
            results: state.results.drain(..).flatten().collect(),
            closing_results: None,
            stop: false,
            stop_reason: pb::StopReason::Unspecified as i32,
            provider_messages: None,
            injected_messages: Vec::new(),
            additional_contexts: Vec::new(),
            run: Some(pb::Run {
                run_id: self.run_id.clone(),
                session_id: self.session_id.clone(),
                state: pb::RunState::Active as i32,
                rounds: 1,
                started_at_ms: self.accepted_at_ms,
                ..pb::Run::default()
            }),
            error: None,
        })
    }

    fn queue(self: &Arc<Self>, state: &mut State) {
        if !std::mem::replace(&mut state.queued, true) {
            self.outlet.push(self.clone());
        }
    }

    /// What waits, as one message.
    fn take(&self) -> pb::TurnEvents {
        let mut state = self.state.lock();
        state.queued = false;
        pb::TurnEvents {
            turn_id: self.turn_id.clone(),
            epoch: 1,
            snapshot: None,
            events: std::mem::take(&mut state.waiting),
        }
    }

    fn is_sent(&self) -> bool {
        let state = self.state.lock();
        state.open == 0 && state.waiting.is_empty()
    }
}

impl State {
    fn tell(&mut self, at_ms: u64, body: Body) {
        self.sequence += 1;
        self.waiting.push(pb::TurnEvent {
            sequence: self.sequence,
            occurred_at_ms: at_ms,
            body: Some(body),
        });
    }
}

fn moved(call: &pb::AcceptedCall, from: pb::CallState, to: pb::CallState) -> Body {
    Body::CallStateChanged(pb::CallStateChanged {
        call_id: call.call_id.clone(),
        state: to as i32,
        previous_state: from as i32,
        code: String::new(),
    })
}

/// The turns of one reader that have something to send.
#[derive(Default)]
pub(super) struct Outlet {
    inner: Mutex<OutletInner>,
}

#[derive(Default)]
struct OutletInner {
    turns: VecDeque<Arc<Turn>>,
    waker: Option<Waker>,
}

impl Outlet {
    fn push(&self, turn: Arc<Turn>) {
        let mut inner = self.inner.lock();
        inner.turns.push_back(turn);
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// The next message, and whether it was its turn's last.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<(pb::TurnEvents, bool)> {
        let turn = {
            let mut inner = self.inner.lock();
            match inner.turns.pop_front() {
                Some(turn) => turn,
                None => {
                    inner.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
        };
        let events = turn.take();
        Poll::Ready((events, turn.is_sent()))
    }

    /// Lets go of what waits: the reader is gone.
    pub(super) fn clear(&self) {
        self.inner.lock().turns.clear();
    }
}
