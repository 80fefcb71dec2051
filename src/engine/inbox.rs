//! Where a turn's inputs wait for its task.
//!
//! Handing in never waits. Progress and output are dropped when too many wait; everything else is
//! bounded by the turn's own calls. Never reorders.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::executor::Mailbox;
use crate::gate::approval::Outcome;
use crate::gate::ids::CallIndex;
use crate::gate::turn::Input;

/// Most reports that wait.
const REPORTS_MAX: usize = 256;

/// One input and who wants to know that it was dealt with.
pub(super) struct Item {
    pub(super) input: Input,
    /// Told once everything that the input led to has been done.
    pub(super) done: Option<oneshot::Sender<()>>,
    /// Told what became of a decision.
    pub(super) outcome: Option<oneshot::Sender<Outcome>>,
}

impl Item {
    pub(super) fn of(input: Input) -> Self {
        Self {
            input,
            done: None,
            outcome: None,
        }
    }
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    waker: Option<Waker>,
    /// The waiter should look at the time.
    nudged: bool,
    /// Nobody reads any more.
    closed: bool,
    /// Output bytes that were dropped and that the next piece of the same call tells of.
    dropped: BTreeMap<CallIndex, u64>,
    /// Output bytes that were dropped and may be printed again.
    owed: Vec<(CallIndex, u32)>,
}

impl Inner {
    /// Drops a report. Output is counted: its reader learns of it, its executor gets the room back.
    fn drop_report(&mut self, input: &Input) {
        if let Input::ExecutorPrinted { of, chunk } = input {
            let bytes = chunk.data.len();
            *self.dropped.entry(of.call).or_default() += chunk.dropped_bytes + bytes as u64;
            if bytes > 0 {
                self.owed
                    .push((of.call, u32::try_from(bytes).unwrap_or(u32::MAX)));
            }
        }
    }
}

/// Where a turn's inputs wait.
#[derive(Default)]
pub(super) struct Inbox {
    inner: Mutex<Inner>,
}

impl Inbox {
    /// Hands in one input; with `done`, its end is told.
    pub(super) fn push(&self, input: Input, done: Option<oneshot::Sender<()>>) {
        self.push_item(Item {
            done,
            ..Item::of(input)
        });
    }

    /// Hands in a decision; what becomes of it is told. Dropped unread, its waiter learns that.
    pub(super) fn push_decision(&self, input: Input, outcome: oneshot::Sender<Outcome>) {
        self.push_item(Item {
            outcome: Some(outcome),
            ..Item::of(input)
        });
    }

    fn push_item(&self, mut item: Item) {
        let mut inner = self.inner.lock();
        if inner.closed {
            return;
        }
        let input = &mut item.input;
        let is_awaited = item.done.is_some() || item.outcome.is_some();
        if is_report(input) && !is_awaited && inner.items.len() >= REPORTS_MAX {
            inner.drop_report(input);
            return;
        }
        if let Input::ExecutorPrinted { of, chunk } = input {
            chunk.dropped_bytes += inner.dropped.remove(&of.call).unwrap_or_default();
        }
        inner.items.push_back(item);
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// Wakes the waiter without an input, so that it looks at the time.
    pub(super) fn nudge(&self) {
        let mut inner = self.inner.lock();
        inner.nudged = true;
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// Moves what waits now into `items`, which is empty and leaves its memory for what comes next.
    pub(super) fn take_into(&self, items: &mut VecDeque<Item>) {
        std::mem::swap(&mut self.inner.lock().items, items);
    }

    /// Nothing is taken in from now on. Moves what still waits into `items`.
    pub(super) fn close_into(&self, items: &mut VecDeque<Item>) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        std::mem::swap(&mut inner.items, items);
    }

    /// Output bytes that were dropped since the last time, by call.
    pub(super) fn take_owed(&self) -> Vec<(CallIndex, u32)> {
        std::mem::take(&mut self.inner.lock().owed)
    }

    /// Waits until something is there, or a nudge comes. One waiter at a time.
    pub(super) async fn ready(&self) {
        poll_fn(|context| {
            let mut inner = self.inner.lock();
            if !inner.items.is_empty() || std::mem::take(&mut inner.nudged) {
                return Poll::Ready(());
            }
            match &mut inner.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => inner.waker = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await;
    }
}

fn is_report(input: &Input) -> bool {
    matches!(
        input,
        Input::ExecutorProgressed { .. } | Input::ExecutorPrinted { .. } | Input::ToolsChanged
    )
}

impl Mailbox for Inbox {
    fn deliver(&self, input: Input) {
        self.push(input, None);
    }
}
