//! How one reader wants a turn's events, and the messages that it gets.
//!
//! The stored turn does not depend on any of this. Never drops a kept event.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use prost::Message;
use tokio_stream::Stream;

use super::status::Failure;
use super::words::Words;
use super::{convert, convert_approval};
use crate::engine::{Attached, Stamped, Taken, TurnReader, stored_calls};
use crate::gate::event::{Event, StopReason, TurnCompleted, TurnOutcome};
use crate::gate::ids::CallId;
use crate::gate::provider::ProviderFormat;
use crate::gate::record::{StoredTurn, TurnSpec};
use crate::gate::result::{CallResult, fit};
use crate::pb::v1 as pb;
use pb::turn_event::Body;

/// Largest message of a reader that names none, in bytes.
const MESSAGE_BYTES_DEFAULT: usize = 4 * 1024 * 1024;
/// Smallest that one may name.
const MESSAGE_BYTES_MIN: usize = 64 * 1024;
/// What a message needs beside contents, per result and once, in bytes.
const RESULT_OVERHEAD: usize = 1_024;
const MESSAGE_OVERHEAD: usize = 16 * 1024;

/// How one reader wants events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Contents in `CallCompleted`.
    contents_as_completed: bool,
    /// Contents in `TurnCompleted`.
    contents_at_end: bool,
    /// Send output.
    pub(super) output: bool,
    /// Send progress.
    progress: bool,
    /// Largest message, in bytes.
    message_bytes_max: usize,
    /// Form of the messages to append.
    format: Option<ProviderFormat>,
    /// The stream ends when only people are awaited.
    ends_on_suspend: bool,
}

impl View {
    /// Events without contents, progress and output.
    pub(super) fn bare() -> Self {
        Self {
            contents_as_completed: false,
            contents_at_end: false,
            output: false,
            progress: false,
            message_bytes_max: MESSAGE_BYTES_DEFAULT,
            format: None,
            ends_on_suspend: false,
        }
    }

    /// The same, for a reader that leaves when only people are awaited.
    pub(super) fn until_suspended(self, on_suspend: i32) -> Self {
        let ends = pb::OnSuspend::try_from(on_suspend);
        Self {
            ends_on_suspend: ends.is_ok_and(|meaning| meaning == pb::OnSuspend::End),
            ..self
        }
    }

    /// Reads how a reader wants events.
    pub(super) fn read(view: Option<&pb::TurnView>) -> Result<Self, Failure> {
        let view = view.cloned().unwrap_or_default();
        let (as_completed, at_end) = match pb::ResultDelivery::try_from(view.result_delivery) {
            Ok(pb::ResultDelivery::Unspecified | pb::ResultDelivery::AtEnd) => (false, true),
            Ok(pb::ResultDelivery::AsCompleted) => (true, false),
            Ok(pb::ResultDelivery::Both) | Err(_) => (true, true),
        };
        let named = usize::try_from(view.max_message_bytes).unwrap_or(usize::MAX);
        if named != 0 && named < MESSAGE_BYTES_MIN {
            return Err(Failure::field(
                "view.max_message_bytes",
                format!("must be at least {MESSAGE_BYTES_MIN}"),
            ));
        }
        Ok(Self {
            contents_as_completed: as_completed,
            contents_at_end: at_end,
            output: view.include_output,
            progress: !view.exclude_progress,
            message_bytes_max: if named == 0 {
                MESSAGE_BYTES_DEFAULT
            } else {
                named
            },
            format: convert::format(view.results_format)?,
            ends_on_suspend: false,
        })
    }
}

/// A reader's events as messages. Ends after the turn's end.
pub(super) struct EventStream {
    spec: Arc<TurnSpec>,
    epoch: u32,
    view: View,
    source: Source,
    /// Made and not sent.
    ready: std::collections::VecDeque<pb::TurnEvents>,
    /// The turn's end was sent.
    completed: bool,
    /// Only people are awaited, and the reader wanted no more.
    left: bool,
}

enum Source {
    Live(TurnReader),
    /// Everything there was is in `ready`.
    Done,
}

/// Why events ended before the turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooSlow {
    pub(super) last_sequence: u64,
}

impl EventStream {
    pub(super) fn new(attached: Attached, view: View) -> Self {
        match attached {
            Attached::Live { reader, snapshot } => Self::live(reader, snapshot, view),
            Attached::Stored(stored) => Self::stored(&stored, view),
        }
    }

    fn live(reader: TurnReader, snapshot: Option<Box<StoredTurn>>, view: View) -> Self {
        let turn = reader.turn().clone();
        let mut stream = Self {
            spec: turn.spec.clone(),
            epoch: turn.epoch,
            view,
            ready: std::collections::VecDeque::new(),
            completed: false,
            left: false,
            source: Source::Live(reader),
        };
        if let Some(snapshot) = snapshot {
            let last_sequence = match &stream.source {
                Source::Live(reader) => reader.last_sequence(),
                Source::Done => 0,
            };
            let message = stream.snapshot(&snapshot, last_sequence, Vec::new());
            stream.ready.push_back(message);
        }
        stream
    }

    /// A turn that only the store has: how it stands, and its end once more as an event.
    fn stored(stored: &StoredTurn, view: View) -> Self {
        let mut stream = Self {
            spec: Arc::new(stored.spec.clone()),
            // Its own sequence is gone with memory: readers that saw some of it count anew.
            epoch: stored.epoch.saturating_add(1),
            view,
            source: Source::Done,
            ready: std::collections::VecDeque::new(),
            completed: stored.completed.is_some(),
            left: false,
        };
        let end = stored.completed.as_ref().map(|completed| pb::TurnEvent {
            sequence: 1,
            occurred_at_ms: stored.updated_at.0,
            body: Some(Body::TurnCompleted(completed_message(
                completed,
                &stream.spec,
                &stream.view,
            ))),
        });
        let message = stream.snapshot(stored, 1, end.into_iter().collect());
        stream.ready.push_back(message);
        stream
    }

    fn snapshot(
        &self,
        stored: &StoredTurn,
        last_sequence: u64,
        events: Vec<pb::TurnEvent>,
    ) -> pb::TurnEvents {
        let calls = stored_calls(stored);
        pb::TurnEvents {
            turn_id: self.spec.request.turn.to_string(),
            epoch: self.epoch,
            snapshot: Some(convert::turn(stored, &calls, last_sequence, None)),
            events,
        }
    }

    /// Whether the turn's end was sent.
    pub(super) fn is_complete(&self) -> bool {
        self.completed
    }

    /// Whether the reader left because only people are awaited.
    pub(super) fn has_left(&self) -> bool {
        self.left
    }

    /// The turn that is followed.
    pub(super) fn spec(&self) -> &Arc<TurnSpec> {
        &self.spec
    }

    /// Takes new events in, as one message or, where contents are large, several: the first is
    /// returned, the others wait.
    fn take(&mut self, taken: Vec<Stamped>) -> Option<pb::TurnEvents> {
        let mut events = Vec::with_capacity(taken.len());
        let mut first = None;
        let mut bytes = 0;
        for stamped in taken {
            if matches!(stamped.event, Event::TurnCompleted(_)) {
                self.completed = true;
            }
            let Some(event) = self.event(stamped) else {
                continue;
            };
            if self.view.contents_as_completed || self.view.output {
                let size = event.encoded_len();
                if bytes + size + MESSAGE_OVERHEAD > self.view.message_bytes_max {
                    self.add(std::mem::take(&mut events), &mut first);
                    bytes = 0;
                }
                bytes += size;
            }
            events.push(event);
        }
        self.add(events, &mut first);
        first
    }

    fn add(&mut self, events: Vec<pb::TurnEvent>, first: &mut Option<pb::TurnEvents>) {
        if events.is_empty() {
            return;
        }
        let message = pb::TurnEvents {
            turn_id: self.spec.request.turn.to_string(),
            epoch: self.epoch,
            snapshot: None,
            events,
        };
        match first {
            None => *first = Some(message),
            Some(_) => self.ready.push_back(message),
        }
    }

    fn event(&self, stamped: Stamped) -> Option<pb::TurnEvent> {
        turn_event(&self.spec, &self.view, stamped)
    }
}

/// One event as a reader wants it. None: it does not.
pub(super) fn turn_event(spec: &TurnSpec, view: &View, stamped: Stamped) -> Option<pb::TurnEvent> {
    let call_id = |position: usize| {
        let requested = spec.request.calls.get(position);
        requested.map_or_else(String::new, |requested| requested.call.call_id.to_string())
    };
    let body = match stamped.event {
        Event::Accepted(accepted) => Body::TurnAccepted(pb::TurnAccepted {
            session_id: accepted.session.to_string(),
            run_id: accepted.run.to_string(),
            batch_id: accepted
                .batch
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            calls: accepted
                .calls
                .iter()
                .map(|call| pb::AcceptedCall {
                    call_id: call.call_id.to_string(),
                    tool: call.tool.to_string(),
                    minted: call.minted,
                })
                .collect(),
            round: accepted.round,
            batch_policy: convert_approval::batch_policy(accepted.batch_policy),
        }),
        Event::CallMoved(moved) => Body::CallStateChanged(pb::CallStateChanged {
            call_id: call_id(moved.call.get()),
            state: convert::call_state(moved.to),
            previous_state: convert::call_state(moved.from),
            code: moved.code.into_owned(),
        }),
        Event::ApprovalRequired(approvals) => Body::ApprovalRequired(pb::ApprovalRequired {
            batch_id: spec.batch.to_string(),
            approvals: approvals
                .iter()
                .map(|approval| pb::ApprovalSummary {
                    approval_id: spec.approval_id(approval.call).to_string(),
                    call_id: call_id(approval.call.get()),
                    tool: approval.tool.name.to_string(),
                    risk_level: convert::risk(approval.risk),
                    verdict: Some(convert_approval::shown_ground(
                        &approval.ground,
                        &approval.secrets,
                    )),
                    expires_at_ms: approval.expires_at.map(|at| at.0),
                })
                .collect(),
        }),
        Event::Suspended(calls) => Body::TurnSuspended(pb::TurnSuspended {
            batch_id: spec.batch.to_string(),
            approval_ids: calls
                .iter()
                .map(|call| spec.approval_id(*call).to_string())
                .collect(),
        }),
        Event::LoopDetected(found) => Body::LoopDetected(pb::LoopDetected {
            detector: convert::loop_detector(found.detector),
            reason: found.reason.clone(),
            call_ids: found.calls.iter().map(|call| call_id(call.get())).collect(),
            period: found.period,
            repetitions: found.repetitions,
            confidence: found.confidence,
        }),
        Event::CallCompleted(_, result) => Body::CallCompleted(pb::CallCompleted {
            result: Some(convert::call_result(&result, view.contents_as_completed)),
        }),
        Event::TurnCompleted(completed) => {
            Body::TurnCompleted(completed_message(&completed, spec, view))
        }
        Event::Progress(call, progress) if view.progress => Body::CallProgress(pb::CallProgress {
            call_id: call_id(call.get()),
            message: progress.message.clone(),
            fraction: progress.fraction,
            details_json: progress.details.clone(),
        }),
        Event::Output(call, chunk) if view.output => Body::CallOutput(pb::CallOutput {
            call_id: call_id(call.get()),
            channel: convert::output_channel(chunk.channel),
            chunk_sequence: chunk.chunk_sequence,
            data: chunk.data.clone(),
            dropped_bytes: chunk.dropped_bytes,
        }),
        Event::Progress(..) | Event::Output(..) => return None,
        Event::Heartbeat(waiting_for) => Body::Heartbeat(pb::TurnHeartbeat {
            waiting_for: waiting_for.to_owned(),
        }),
    };
    Some(pb::TurnEvent {
        sequence: stamped.sequence,
        occurred_at_ms: stamped.at.0,
        body: Some(body),
    })
}

impl Stream for EventStream {
    type Item = Result<pb::TurnEvents, TooSlow>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = &mut *self;
        loop {
            if let Some(message) = stream.ready.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            let Source::Live(reader) = &mut stream.source else {
                return Poll::Ready(None);
            };
            let Poll::Ready(taken) = Pin::new(&mut *reader).poll_next(context) else {
                if stream.view.ends_on_suspend && reader.turn().log.is_suspended() {
                    stream.left = true;
                    stream.source = Source::Done;
                    return Poll::Ready(None);
                }
                return Poll::Pending;
            };
            match taken {
                Some(Taken::Events(events)) => {
                    if let Some(message) = stream.take(events) {
                        return Poll::Ready(Some(Ok(message)));
                    }
                }
                Some(Taken::TooSlow { last_sequence }) => {
                    stream.source = Source::Done;
                    return Poll::Ready(Some(Err(TooSlow { last_sequence })));
                }
                None => {
                    stream.source = Source::Done;
                    return Poll::Ready(None);
                }
            }
        }
    }
}

/// A turn's end as one reader wants it.
pub(super) fn completed_message(
    completed: &TurnCompleted,
    spec: &TurnSpec,
    view: &View,
) -> pb::TurnCompleted {
    let format = view.format.or(spec.request.format);
    let words = Words::of(completed, view.message_bytes_max);
    let results = match view.contents_at_end || format.is_some() {
        true => fitted(&completed.results, view, words.bytes, format.is_some()),
        false => completed.results.clone(),
    };
    let messages = format.map(|format| provider_messages(format, &results));
    let results = results
        .iter()
        .map(|result| convert::call_result(result, view.contents_at_end))
        .collect();
    // Neither goes back to the model: the run is over.
    let cancelled = matches!(
        completed.outcome,
        TurnOutcome::Cancelled | TurnOutcome::Aborted
    );
    let outcome = match completed.outcome {
        TurnOutcome::Completed => pb::TurnOutcome::Completed,
        TurnOutcome::Cancelled => pb::TurnOutcome::Cancelled,
        TurnOutcome::Aborted => pb::TurnOutcome::Aborted,
        TurnOutcome::Error => pb::TurnOutcome::Error,
        TurnOutcome::LoopDetected => pb::TurnOutcome::LoopDetected,
    };
    let stop_reason = match completed.stop {
        None => pb::StopReason::Unspecified,
        Some(StopReason::Tool) => pb::StopReason::Tool,
        Some(StopReason::Hook) => pb::StopReason::Hook,
        Some(StopReason::RunEnded) => pb::StopReason::RunEnded,
    };
    let (results, messages, closing_results) = match cancelled {
        false => (results, messages, None),
        true => {
            let closing = pb::ClosingResults {
                history_only: true,
                results,
                provider_messages: messages,
            };
            (Vec::new(), None, Some(closing))
        }
    };
    pb::TurnCompleted {
        outcome: outcome as i32,
        results,
        closing_results,
        stop: completed.stop.is_some(),
        stop_reason: stop_reason as i32,
        provider_messages: messages,
        run: Some(convert::run(&completed.run)),
        injected_messages: words.injected,
        additional_contexts: words.contexts,
        error: completed.error.as_ref().map(convert::call_error),
    }
}

/// Results cut to what one message of this reader holds, the largest first.
fn fitted(
    results: &[Arc<CallResult>],
    view: &View,
    words: usize,
    twice: bool,
) -> Vec<Arc<CallResult>> {
    let overhead = MESSAGE_OVERHEAD + results.len() * RESULT_OVERHEAD + words;
    let budget = view.message_bytes_max.saturating_sub(overhead);
    // Messages for a provider hold the same text once more, and quoting may double it.
    let budget = if twice { budget / 3 } else { budget };
    fit(results, budget)
}

fn provider_messages(format: ProviderFormat, results: &[Arc<CallResult>]) -> pb::ProviderMessages {
    let appended = format.write_results(results.iter().map(AsRef::as_ref));
    pb::ProviderMessages {
        format: convert::format_number(format),
        messages_json: appended.messages_json,
        losses: appended
            .losses
            .into_iter()
            .map(|loss| pb::ExportLoss {
                tool: String::new(),
                call_id: CallId::to_string(&loss.call_id),
                path: loss.path,
                keyword: loss.keyword.to_owned(),
                action: pb::ExportAction::Placeholder as i32,
            })
            .collect(),
    }
}
