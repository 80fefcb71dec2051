//! `StreamTurns`: many turns over one long stream, told apart by turn id.
//!
//! The same requests and events as the single methods, without a stream set up per turn. A failure of
//! one turn is a message; the stream ends only with its peer, at drain, or when it breaks. Never lets
//! one turn's events wait for another's.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, SelectAll};
use futures_util::task::AtomicWaker;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::events::TooSlow;
use super::status::Failure;
use super::turns::{Followed, Turns, too_slow};
use crate::pb::v1 as pb;
use pb::stream_turns_request::Body as Asked;
use pb::stream_turns_response::Body as Said;

/// Requests taken in one go before events go out.
const REQUESTS_AT_ONCE: usize = 64;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a request led to.
enum Done {
    /// A turn is followed from now on.
    Followed(String, Box<Followed>),
    /// The request failed.
    Refused(String, Failure),
    /// There is nothing to say; the events tell.
    Nothing,
}

/// One turn's events on the stream.
struct Lane {
    turn_id: String,
    followed: Followed,
    handle: Arc<Handle>,
    ended: bool,
}

/// What the stream knows of a lane, and how it stops it.
#[derive(Default)]
struct Handle {
    stopped: AtomicBool,
    /// The last kept event that went out.
    last_sequence: AtomicU64,
    waker: AtomicWaker,
}

impl Handle {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Its reader left in order; that is no broken stream.
        if self.handle.stopped.load(Ordering::Relaxed) {
            self.followed.keep();
        }
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "nearly every item is events; a box would cost each of them an allocation"
)]
enum LaneItem {
    Events(pb::TurnEvents),
    Cut(String, TooSlow),
    /// The reader left, since only people are awaited.
    Left(String, u64),
    End(String),
}

impl Stream for Lane {
    type Item = LaneItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<LaneItem>> {
        let lane = &mut *self;
        lane.handle.waker.register(context.waker());
        if lane.ended || lane.handle.stopped.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        let item = match std::task::ready!(Pin::new(&mut lane.followed).poll_next(context)) {
            Some(Ok(events)) => {
                // The turn's end is the lane's: its place is free at once.
                lane.ended = lane.followed.events.is_complete();
                let kept = events.events.iter().map(|event| event.sequence).max();
                let kept = kept.filter(|sequence| *sequence > 0);
                let snapshot = events.snapshot.as_ref().map(|turn| turn.last_sequence);
                if let Some(last) = kept.or(snapshot) {
                    lane.handle.last_sequence.store(last, Ordering::Relaxed);
                }
                LaneItem::Events(events)
            }
            Some(Err(cut)) => {
                lane.ended = true;
                LaneItem::Cut(lane.turn_id.clone(), cut)
            }
            None if lane.followed.events.has_left() => {
                lane.ended = true;
                let last = lane.handle.last_sequence.load(Ordering::Relaxed);
                LaneItem::Left(lane.turn_id.clone(), last)
            }
            None => {
                lane.ended = true;
                LaneItem::End(lane.turn_id.clone())
            }
        };
        Poll::Ready(Some(item))
    }
}

/// The stream's way out; reading it drives everything.
pub struct TurnStream {
    turns: Turns,
    /// Who runs them.
    principal: Arc<str>,
    inbound: Streaming<pb::StreamTurnsRequest>,
    inbound_ended: bool,
    /// With each: whether it leads to a turn that is followed.
    work: FuturesUnordered<Work<(bool, Done)>>,
    lanes: SelectAll<Lane>,
    /// The lane of each turn.
    handles: BTreeMap<String, Arc<Handle>>,
    /// Turns whose following is under way.
    starting: u64,
    out: VecDeque<Said>,
    stopping: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl TurnStream {
    pub(super) fn new(
        turns: Turns,
        principal: Arc<str>,
        inbound: Streaming<pb::StreamTurnsRequest>,
    ) -> Self {
        let tasks = turns.tasks.clone();
        Self {
            turns,
            principal,
            inbound,
            inbound_ended: false,
            work: FuturesUnordered::new(),
            lanes: SelectAll::new(),
            handles: BTreeMap::new(),
            starting: 0,
            out: VecDeque::new(),
            stopping: Some(Box::pin(async move { tasks.stopped().await })),
        }
    }

    /// Takes a request. What can be done at once is, without a detour.
    fn take(&mut self, request: pb::StreamTurnsRequest, context: &mut Context<'_>) {
        let turns = self.turns.clone();
        let follows = matches!(request.body, Some(Asked::Run(_) | Asked::Attach(_)));
        let mut work: Work<Done> = match request.body {
            Some(Asked::Run(request)) => {
                let id = request.turn_id.clone();
                if let Some(refused) = self.refuse_run(&id) {
                    self.finish(Done::Refused(id, refused));
                    return;
                }
                let principal = self.principal.clone();
                Box::pin(async move { followed(id, turns.run(request, principal).await) })
            }
            Some(Asked::Attach(request)) => {
                let id = request.turn_id.clone();
                if let Some(refused) = self.refuse_one_more(&id) {
                    self.finish(Done::Refused(id, refused));
                    return;
                }
                Box::pin(async move { followed(id, turns.attach(request).await) })
            }
            Some(Asked::CancelTurn(request)) => {
                let id = request.turn_id.clone();
                Box::pin(async move { nothing(id, turns.cancel(request).await) })
            }
            Some(Asked::CancelCall(request)) => {
                let id = request.turn_id.clone();
                Box::pin(async move { nothing(id, turns.cancel_one(request).await) })
            }
            Some(Asked::Detach(request)) => {
                self.detach(request.turn_id);
                return;
            }
            None => {
                self.out.push_back(Said::Notice(pb::Notice {
                    code: "body_unknown".to_owned(),
                    message: "a message without a known body".to_owned(),
                    about: String::new(),
                }));
                return;
            }
        };
        match work.as_mut().poll(context) {
            Poll::Ready(done) => self.finish(done),
            Poll::Pending => {
                self.starting += u64::from(follows);
                self.work
                    .push(Box::pin(async move { (follows, work.await) }));
            }
        }
    }

    fn refuse_run(&self, turn_id: &str) -> Option<Failure> {
        if turn_id.is_empty() {
            return Some(Failure::field(
                "turn_id",
                "must not be empty on a turn stream",
            ));
        }
        self.refuse_one_more(turn_id)
    }

    fn refuse_one_more(&self, turn_id: &str) -> Option<Failure> {
        let allowed = self.turns.engine.limits().stream_turns_max;
        let actual = self.handles.len() as u64 + self.starting;
        let is_full = actual >= allowed && !self.handles.contains_key(turn_id);
        is_full.then(|| Failure::limit("stream_turns_max", allowed, actual + 1, true))
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Followed(turn_id, followed) => self.follow(turn_id, *followed),
            Done::Refused(turn_id, failure) => self.out.push_back(Said::Refused(pb::TurnRefused {
                turn_id,
                error: Some(failure.into_rpc_error()),
            })),
            Done::Nothing => {}
        }
    }

    fn follow(&mut self, turn_id: String, followed: Followed) {
        let handle = Arc::new(Handle::default());
        // A second reader of the same turn takes the first one's place.
        if let Some(before) = self.handles.insert(turn_id.clone(), handle.clone()) {
            before.stop();
        }
        self.lanes.push(Lane {
            turn_id,
            followed,
            handle,
            ended: false,
        });
    }

    fn detach(&mut self, turn_id: String) {
        let Some(handle) = self.handles.remove(&turn_id) else {
            return;
        };
        handle.stop();
        self.out.push_back(Said::Detached(pb::TurnDetached {
            turn_id,
            last_sequence: handle.last_sequence.load(Ordering::Relaxed),
            error: None,
        }));
    }

    fn take_item(&mut self, item: LaneItem) {
        match item {
            LaneItem::Events(events) => {
                let ended = events.events.iter().any(|event| {
                    matches!(event.body, Some(pb::turn_event::Body::TurnCompleted(_)))
                });
                if ended {
                    self.handles.remove(&events.turn_id);
                }
                self.out.push_back(Said::Turn(events));
            }
            LaneItem::Cut(turn_id, cut) => {
                self.handles.remove(&turn_id);
                self.out.push_back(Said::Detached(pb::TurnDetached {
                    turn_id,
                    last_sequence: cut.last_sequence,
                    error: Some(too_slow(cut).into_rpc_error()),
                }));
            }
            LaneItem::Left(turn_id, last_sequence) => {
                self.handles.remove(&turn_id);
                self.out.push_back(Said::Detached(pb::TurnDetached {
                    turn_id,
                    last_sequence,
                    error: None,
                }));
            }
            LaneItem::End(turn_id) => {
                self.handles.remove(&turn_id);
            }
        }
    }

    /// Takes what waits at the entrance. False: nothing did.
    fn poll_inbound(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        for _ in 0..REQUESTS_AT_ONCE {
            if self.inbound_ended {
                return Ok(());
            }
            match Pin::new(&mut self.inbound).poll_next(context) {
                Poll::Ready(Some(Ok(request))) => self.take(request, context),
                Poll::Ready(Some(Err(status))) => return Err(status),
                Poll::Ready(None) => self.inbound_ended = true,
                Poll::Pending => return Ok(()),
            }
        }
        // More may wait: come back after what is ready has gone out.
        context.waker().wake_by_ref();
        Ok(())
    }

    fn poll_drain(&mut self, context: &mut Context<'_>) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if stopping.as_mut().poll(context).is_ready() {
            self.stopping = None;
            self.out.push_back(Said::GoAway(pb::GoAway {
                reason: pb::GoAwayReason::Shutdown as i32,
                message: "the sidecar is shutting down".to_owned(),
                drain_ms: 0,
                reconnect_min_ms: 100,
                reconnect_max_ms: 2_000,
            }));
        }
    }

    fn say(&mut self) -> Option<pb::StreamTurnsResponse> {
        let body = self.out.pop_front()?;
        Some(pb::StreamTurnsResponse { body: Some(body) })
    }
}

fn followed(turn_id: String, outcome: Result<Followed, Failure>) -> Done {
    match outcome {
        Ok(followed) => Done::Followed(turn_id, Box::new(followed)),
        Err(failure) => Done::Refused(turn_id, failure),
    }
}

fn nothing<T>(turn_id: String, outcome: Result<T, Failure>) -> Done {
    match outcome {
        Ok(_) => Done::Nothing,
        Err(failure) => Done::Refused(turn_id, failure),
    }
}

impl Stream for TurnStream {
    type Item = Result<pb::StreamTurnsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = &mut *self;
        if let Some(response) = stream.say() {
            return Poll::Ready(Some(Ok(response)));
        }
        stream.poll_drain(context);
        if let Err(status) = stream.poll_inbound(context) {
            return Poll::Ready(Some(Err(status)));
        }
        while let Poll::Ready(Some((follows, done))) = Pin::new(&mut stream.work).poll_next(context)
        {
            stream.starting -= u64::from(follows);
            stream.finish(done);
        }
        while stream.out.is_empty() {
            match Pin::new(&mut stream.lanes).poll_next(context) {
                Poll::Ready(Some(item)) => stream.take_item(item),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if let Some(response) = stream.say() {
            return Poll::Ready(Some(Ok(response)));
        }
        let idle = stream.work.is_empty() && stream.lanes.is_empty();
        match stream.inbound_ended && idle {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }
}
