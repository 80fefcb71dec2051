//! What happened in one turn, for any number of readers.
//!
//! Readers follow by sequence and take what is new when they can; a slow one holds nobody up and costs
//! nothing, since kept events are kept once. Reports are thinned out. Never loses a kept event while
//! the turn is in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::gate::approval::Approval;
use crate::gate::call::CallState;
use crate::gate::event::{Event, TurnCompleted};
use crate::gate::ids::{CallIndex, ToolName, UnixMillis};
use crate::gate::result::{CallOutcome, CallResult};

/// Most reports that are kept for slow readers.
const REPORTS_MAX: usize = 512;

/// One thing that happened. Sequence 0: a report, not kept.
#[derive(Debug, Clone)]
pub struct Stamped {
    /// From 1, without gaps; 0 for reports.
    pub sequence: u64,
    /// When.
    pub at: UnixMillis,
    /// What.
    pub event: Event,
}

/// One call as it stands.
#[derive(Debug, Clone)]
pub struct CallStanding {
    /// The tool, aliases resolved.
    pub tool: ToolName,
    /// Where it stands.
    pub state: CallState,
    /// Its result, if it has one.
    pub result: Option<Arc<CallResult>>,
}

/// A turn as it stands.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Its calls in order.
    pub calls: Vec<CallStanding>,
    /// The last sequence.
    pub last_sequence: u64,
    /// What waits for approvers or did, as it is now.
    pub approvals: Vec<Arc<Approval>>,
    /// Only people are awaited.
    pub is_suspended: bool,
    /// How it ended. None: it has not.
    pub completed: Option<Arc<TurnCompleted>>,
    /// When it last changed.
    pub updated_at: UnixMillis,
}

struct Report {
    /// Position among reports, from 1.
    position: u64,
    /// The kept event that it follows.
    after: u64,
    at: UnixMillis,
    event: Event,
    /// Its bytes were given back to the executor as credit.
    credited: bool,
    /// Of output: bytes that the call had printed before it.
    printed_before: u64,
}

/// Bytes that calls have printed, by call.
type Printed = BTreeMap<CallIndex, u64>;

struct Inner {
    kept: Vec<Stamped>,
    reports: VecDeque<Report>,
    last_report: u64,
    standing: Standing,
    /// Nothing follows.
    ended: bool,
    /// The events were let go to save memory.
    dropped: bool,
    wakers: Vec<Waker>,
    /// Output bytes that executors may send again, by call.
    owed: Vec<(CallIndex, u32)>,
    printed: Printed,
}

/// What happened in one turn.
pub struct TurnLog {
    inner: Mutex<Inner>,
}

/// What a reader takes at once.
#[derive(Debug)]
pub enum Taken {
    /// Events, in order. Never empty.
    Events(Vec<Stamped>),
    /// The events were let go before this reader took them.
    TooSlow {
        /// The last one that it took.
        last_sequence: u64,
    },
}

/// Where one reader is.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The last kept event taken.
    pub sequence: u64,
    /// The last report taken.
    report: u64,
    /// Bytes that this reader was told of.
    printed: Printed,
}

impl TurnLog {
    /// A log of a turn whose calls stand as given.
    pub fn new(calls: Vec<CallStanding>, now: UnixMillis) -> Self {
        Self {
            inner: Mutex::new(Inner {
                kept: Vec::with_capacity(2 + 4 * calls.len()),
                reports: VecDeque::new(),
                last_report: 0,
                standing: Standing {
                    calls,
                    last_sequence: 0,
                    approvals: Vec::new(),
                    is_suspended: false,
                    completed: None,
                    updated_at: now,
                },
                ended: false,
                dropped: false,
                wakers: Vec::new(),
                owed: Vec::new(),
                printed: Printed::new(),
            }),
        }
    }

    /// Adds one event. Readers learn of it at the next [`wake`](Self::wake).
    ///
    /// Returns its sequence; 0 for a report.
    pub(super) fn add(&self, at: UnixMillis, event: Event) -> u64 {
        let mut inner = self.inner.lock();
        if event.is_kept() {
            inner.keep(at, event);
            inner.standing.last_sequence
        } else {
            inner.report(at, event);
            0
        }
    }

    /// Wakes readers that wait.
    pub(super) fn wake(&self) {
        let wakers = std::mem::take(&mut self.inner.lock().wakers);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Nothing follows: readers end after what is there.
    pub(super) fn end(&self) {
        self.inner.lock().ended = true;
        self.wake();
    }

    /// Lets the events go; what readers have not taken they cannot take any more.
    pub(super) fn drop_events(&self) {
        let mut inner = self.inner.lock();
        inner.dropped = true;
        inner.kept = Vec::new();
        inner.reports = VecDeque::new();
        drop(inner);
        self.wake();
    }

    /// Takes approvals in as they are now.
    pub(super) fn show(&self, approvals: &[Arc<Approval>]) {
        let known = &mut self.inner.lock().standing.approvals;
        for approval in approvals {
            match known.iter_mut().find(|one| one.call == approval.call) {
                Some(one) => *one = approval.clone(),
                None => known.push(approval.clone()),
            }
        }
    }

    /// How a call ended. None: it has not.
    pub(super) fn outcome_of(&self, call: CallIndex) -> Option<CallOutcome> {
        let inner = self.inner.lock();
        let result = inner.standing.calls.get(call.get())?.result.as_ref()?;
        Some(result.outcome)
    }

    /// Whether only people are awaited.
    pub fn is_suspended(&self) -> bool {
        self.inner.lock().standing.is_suspended
    }

    /// The turn as it stands.
    pub fn standing(&self) -> Standing {
        self.inner.lock().standing.clone()
    }

    /// Whether the turn has ended.
    pub fn has_ended(&self) -> bool {
        self.inner.lock().ended
    }

    /// When something last happened.
    pub(super) fn last_event_at(&self) -> UnixMillis {
        let inner = self.inner.lock();
        let report = inner.reports.back().map(|report| report.at);
        inner.standing.updated_at.max(report.unwrap_or_default())
    }

    /// A cursor that begins after `sequence`, with reports from now on.
    pub fn cursor_after(&self, sequence: u64) -> Cursor {
        let inner = self.inner.lock();
        Cursor {
            sequence: sequence.min(inner.standing.last_sequence),
            report: inner.last_report,
            printed: inner.printed.clone(),
        }
    }

    /// Takes what is new. Ready with None: the turn has ended and everything was taken.
    pub fn poll_take(&self, cursor: &mut Cursor, context: &mut Context<'_>) -> Poll<Option<Taken>> {
        let mut inner = self.inner.lock();
        if inner.dropped && cursor.sequence < inner.standing.last_sequence {
            return Poll::Ready(Some(Taken::TooSlow {
                last_sequence: cursor.sequence,
            }));
        }
        let events = inner.take(cursor);
        if !events.is_empty() {
            return Poll::Ready(Some(Taken::Events(events)));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        let waker = context.waker();
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// Output bytes that readers have taken since the last time, by call.
    pub(super) fn take_owed(&self) -> Vec<(CallIndex, u32)> {
        std::mem::take(&mut self.inner.lock().owed)
    }

    /// Calls that execute now.
    pub(super) fn executing(&self) -> Vec<CallIndex> {
        let inner = self.inner.lock();
        let calls = inner.standing.calls.iter().enumerate();
        calls
            .filter(|(_, call)| matches!(call.state, CallState::Executing | CallState::Scheduled))
            .map(|(position, _)| CallIndex(u16::try_from(position).unwrap_or(u16::MAX)))
            .collect()
    }
}

impl Inner {
    fn keep(&mut self, at: UnixMillis, event: Event) {
        let standing = &mut self.standing;
        standing.last_sequence += 1;
        standing.updated_at = at;
        match &event {
            Event::Accepted(accepted) => {
                for (call, seen) in standing.calls.iter_mut().zip(&accepted.calls) {
                    call.tool = seen.tool.clone();
                }
            }
            Event::CallMoved(moved) => {
                if let Some(call) = standing.calls.get_mut(moved.call.get()) {
                    call.state = moved.to;
                }
                if standing.is_suspended {
                    let mut calls = standing.calls.iter();
                    standing.is_suspended =
                        calls.any(|call| call.state == CallState::AwaitingApproval);
                }
            }
            Event::CallCompleted(index, result) => {
                if let Some(call) = standing.calls.get_mut(index.get()) {
                    call.result = Some(result.clone());
                }
            }
            Event::Suspended(_) => standing.is_suspended = true,
            Event::ApprovalRequired(_) | Event::LoopDetected(_) => {}
            Event::TurnCompleted(completed) => standing.completed = Some(completed.clone()),
            Event::Progress(..) | Event::Output(..) | Event::Heartbeat(_) => {}
        }
        self.kept.push(Stamped {
            sequence: standing.last_sequence,
            at,
            event,
        });
    }

    fn report(&mut self, at: UnixMillis, event: Event) {
        if self.reports.len() >= REPORTS_MAX
            && let Some(oldest) = self.reports.pop_front()
        {
            self.owe(&oldest);
        }
        self.last_report += 1;
        let mut printed_before = 0;
        if let Event::Output(call, chunk) = &event {
            let printed = self.printed.entry(*call).or_default();
            printed_before = *printed;
            *printed += chunk.dropped_bytes + chunk.data.len() as u64;
        }
        self.reports.push_back(Report {
            position: self.last_report,
            after: self.standing.last_sequence,
            at,
            event,
            credited: false,
            printed_before,
        });
    }

    fn owe(&mut self, report: &Report) {
        if let Event::Output(call, chunk) = &report.event
            && !report.credited
        {
            let bytes = u32::try_from(chunk.data.len()).unwrap_or(u32::MAX);
            self.owed.push((*call, bytes));
        }
    }

    /// Kept events and reports after the cursor, as they happened.
    fn take(&mut self, cursor: &mut Cursor) -> Vec<Stamped> {
        let first = usize::try_from(cursor.sequence).unwrap_or(usize::MAX);
        let kept = self.kept.get(first..).unwrap_or_default();
        let no_reports = cursor.report >= self.last_report;
        if no_reports {
            cursor.sequence = self.standing.last_sequence;
            return kept.to_vec();
        }
        let mut events: Vec<Stamped> = Vec::with_capacity(kept.len() + self.reports.len());
        let mut reports = self
            .reports
            .iter_mut()
            .filter(|report| report.position > cursor.report)
            .peekable();
        let mut owed = Vec::new();
        let printed = &mut cursor.printed;
        let mut take_report = |report: &mut Report, events: &mut Vec<Stamped>| {
            let mut event = report.event.clone();
            if let Event::Output(call, chunk) = &mut event {
                let bytes = chunk.data.len() as u64;
                if !std::mem::replace(&mut report.credited, true) {
                    owed.push((*call, u32::try_from(bytes).unwrap_or(u32::MAX)));
                }
                let told = printed.entry(*call).or_default();
                let missed = report.printed_before.saturating_sub(*told);
                *told = report.printed_before + chunk.dropped_bytes + bytes;
                if missed > 0 {
                    Arc::make_mut(chunk).dropped_bytes += missed;
                }
            }
            events.push(Stamped {
                sequence: 0,
                at: report.at,
                event,
            });
        };
        for stamped in kept {
            while let Some(report) = reports.next_if(|report| report.after < stamped.sequence) {
                take_report(report, &mut events);
            }
            events.push(stamped.clone());
        }
        for report in reports {
            take_report(report, &mut events);
        }
        self.owed.extend(owed);
        cursor.sequence = self.standing.last_sequence;
        cursor.report = self.last_report;
        events
    }
}
