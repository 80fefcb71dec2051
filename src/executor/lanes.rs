//! The way out to one executor or hook process: two bounded lanes, control before work.
//!
//! Pushing never waits; a full control lane means that the peer does not read, and ends the stream.
//! The work lane needs no bound of its own: slots are its credit. Never looks into a message.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_stream::Stream;

use super::session_end::SessionEnd;
use crate::pb::v1::ConnectResponse;

/// Most control messages that wait to be sent. Beyond it the peer counts as not reading.
const CONTROL_MAX: usize = 4_096;
/// How long a message that is in no hurry waits for another one to travel with.
const UNHURRIED: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Inner<M> {
    control: VecDeque<M>,
    work: VecDeque<M>,
    waker: Option<Waker>,
    /// Something is queued that the carrier was not woken for.
    unhurried: bool,
    /// Nothing more goes in; what is in still goes out, then this.
    end: Option<Option<SessionEnd>>,
    /// The reader is gone.
    dropped: bool,
    /// Messages taken by the carrier so far.
    taken: u64,
}

impl<M> Default for Inner<M> {
    fn default() -> Self {
        Self {
            control: VecDeque::new(),
            work: VecDeque::new(),
            waker: None,
            unhurried: false,
            end: None,
            dropped: false,
            taken: 0,
        }
    }
}

/// The sending side of a stream of `M`. Shared by whoever has something to say.
#[derive(Debug)]
pub struct Lanes<M = ConnectResponse> {
    inner: Mutex<Inner<M>>,
    unhurried: Notify,
}

impl<M> Default for Lanes<M> {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            unhurried: Notify::new(),
        }
    }
}

impl<M> Lanes<M> {
    /// Queues a control message. It may overtake work. False: nobody reads any more.
    pub fn control(&self, message: M) -> bool {
        let mut inner = self.inner.lock();
        let queued = inner.push_control(message);
        inner.wake();
        queued
    }

    /// Queues a control message that nobody waits for: it travels with the next one, or after a while.
    ///
    /// A write of its own per acknowledgement would cost as much as the call.
    pub fn control_unhurried(&self, message: M) -> bool {
        let mut inner = self.inner.lock();
        let queued = inner.push_control(message);
        if queued && !std::mem::replace(&mut inner.unhurried, true) {
            self.unhurried.notify_one();
        }
        queued
    }

    /// Sends unhurried messages that found nothing to travel with. Runs until it is dropped.
    pub async fn flush_unhurried(&self) {
        loop {
            self.unhurried.notified().await;
            tokio::time::sleep(UNHURRIED).await;
            self.inner.lock().wake();
        }
    }

    /// Queues work. False: nobody reads any more, and it was not sent.
    pub fn work(&self, message: M) -> bool {
        let mut inner = self.inner.lock();
        if inner.is_closed() {
            return false;
        }
        inner.work.push_back(message);
        inner.wake();
        true
    }

    /// Ends the stream after what is queued; with a reason, as a failure.
    pub fn end(&self, reason: Option<SessionEnd>) {
        let mut inner = self.inner.lock();
        if inner.end.is_none() {
            inner.end = Some(reason);
        }
        inner.wake();
    }

    /// Whether this side has ended the stream.
    pub fn has_end(&self) -> bool {
        self.inner.lock().end.is_some()
    }

    /// Whether nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.inner.lock().is_closed()
    }

    /// How many messages wait, and how many the carrier has taken so far.
    pub fn progress(&self) -> (usize, u64) {
        let inner = self.inner.lock();
        (inner.control.len() + inner.work.len(), inner.taken)
    }

    /// The reading side. One per stream.
    pub fn stream(self: &Arc<Self>) -> LaneStream<M> {
        LaneStream {
            lanes: self.clone(),
        }
    }
}

impl<M> Inner<M> {
    fn is_closed(&self) -> bool {
        self.end.is_some() || self.dropped
    }

    fn push_control(&mut self, message: M) -> bool {
        if self.is_closed() {
            return false;
        }
        if self.control.len() >= CONTROL_MAX {
            self.end = Some(Some(SessionEnd::SlowReader));
            self.control.clear();
            self.work.clear();
        } else {
            self.control.push_back(message);
        }
        true
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The reading side, for the carrier.
#[derive(Debug)]
pub struct LaneStream<M = ConnectResponse> {
    lanes: Arc<Lanes<M>>,
}

impl<M> Stream for LaneStream<M> {
    type Item = Result<M, SessionEnd>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut inner = self.lanes.inner.lock();
        let next = match inner.control.pop_front() {
            Some(message) => Some(message),
            None => inner.work.pop_front(),
        };
        if let Some(message) = next {
            inner.taken += 1;
            return Poll::Ready(Some(Ok(message)));
        }
        match &mut inner.end {
            Some(reason) => Poll::Ready(reason.take().map(Err)),
            None => {
                inner.unhurried = false;
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<M> Drop for LaneStream<M> {
    fn drop(&mut self) {
        let mut inner = self.lanes.inner.lock();
        inner.dropped = true;
        inner.control.clear();
        inner.work.clear();
    }
}
