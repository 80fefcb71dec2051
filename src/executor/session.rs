//! One executor's stream, from hello to the end, over any carrier.
//!
//! The carrier hands in a stream of messages and takes a [`LaneStream`](super::LaneStream) out; nothing
//! here knows gRPC. One task reads and never waits for a peer to read: everything to say goes into the
//! lanes. Never decides what becomes of a call.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_stream::{Stream, StreamExt};

use super::convert;
use super::directory::Directory;
use super::handshake::{self, Greeting, NameBinding};
use super::lanes::{LaneStream, Lanes};
use super::pool::{Joining, Link, Pool};
use super::session_end::{Broken, Left, SessionEnd, dismiss};
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::gate::ids::OwnerName;
use crate::gate::limits::Limits;
use crate::gate::registry::Registration;
use crate::gate::tool::{SharedTool, Tool};
use crate::pb::v1 as pb;
use pb::connect_request::Body;

/// Who is at the other end, by credential.
#[derive(Debug, Clone)]
pub struct Identity {
    /// As logs name it.
    pub principal: String,
    /// Which executor name it may use.
    pub binding: NameBinding,
}

/// When the two sides ping, accept and come back. Milliseconds unless named otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// Each side pings this often.
    pub ping_interval_ms: u64,
    /// Unanswered pings after which the stream ends.
    pub ping_misses: u32,
    /// For the hello.
    pub hello_timeout_ms: u64,
    /// For an executor to say that it has a call.
    pub accept_timeout_ms: u64,
    /// How long what was in flight is kept after a stream broke.
    pub resume_window_ms: u64,
    /// For a peer to take something of what waits.
    pub send_stall_ms: u64,
    /// For executors to finish when the sidecar leaves.
    pub drain_ms: u64,
}

/// Everything that streams of executors share.
pub struct Sessions {
    /// Who holds what.
    pub pool: Arc<Pool>,
    /// The registry.
    pub directory: Arc<Directory>,
    /// Mints connection ids.
    pub mint: Arc<Mint>,
    /// The bounds.
    pub limits: Limits,
    /// The waits.
    pub settings: StreamSettings,
    /// From which resume tokens are made. The same over restarts.
    pub secret: String,
    /// Owns every stream's task; asked to stop at drain.
    pub tasks: Tasks,
}

impl Sessions {
    /// Runs a stream. Returns at once; the messages to send come out of the lane stream.
    pub fn open<S>(self: &Arc<Self>, inbound: S, identity: Identity) -> LaneStream
    where
        S: Stream<Item = Result<pb::ConnectRequest, Broken>> + Send + 'static,
    {
        let lanes = Arc::new(Lanes::default());
        let out = lanes.stream();
        let sessions = self.clone();
        self.tasks.spawn("executor stream", async move {
            sessions.run(Box::pin(inbound), lanes, identity).await;
        });
        out
    }

    async fn run<S>(
        &self,
        mut inbound: std::pin::Pin<Box<S>>,
        lanes: Arc<Lanes>,
        identity: Identity,
    ) where
        S: Stream<Item = Result<pb::ConnectRequest, Broken>> + Send,
    {
        let greeting = match self.greet(&mut inbound, &lanes, &identity).await {
            Ok(greeting) => greeting,
            Err(end) => {
                tracing::info!(principal = identity.principal, reason = %end, "executor refused");
                lanes.end(Some(end));
                return;
            }
        };
        let mut session = self.welcome(greeting, lanes);
        let end = session.serve(self, &mut inbound).await;
        // What the peer still sends is not read any more; it learns why.
        drop(inbound);
        session.leave(self, end).await;
    }

    async fn greet<S>(
        &self,
        inbound: &mut std::pin::Pin<Box<S>>,
        lanes: &Arc<Lanes>,
        identity: &Identity,
    ) -> Result<Greeting, SessionEnd>
    where
        S: Stream<Item = Result<pb::ConnectRequest, Broken>> + Send,
    {
        if self.tasks.is_stopping() {
            return Err(SessionEnd::Draining);
        }
        let wait = Duration::from_millis(self.settings.hello_timeout_ms);
        let first = tokio::time::timeout(wait, inbound.next()).await;
        let Ok(first) = first else {
            return Err(SessionEnd::HelloTimeout);
        };
        let hello = match first {
            Some(Ok(pb::ConnectRequest {
                body: Some(Body::Hello(hello)),
            })) => hello,
            Some(Err(Broken::TooLarge { allowed, actual })) => {
                return Err(SessionEnd::message_too_large(allowed, actual));
            }
            Some(Ok(_) | Err(Broken::Lost(_))) | None => return Err(SessionEnd::HelloRequired),
        };
        let link = Link {
            connection: Arc::from(self.mint.id()),
            lanes: lanes.clone(),
        };
        let greeting = handshake::greet(
            hello,
            link,
            &identity.binding,
            &self.secret,
            self.mint.id(),
            &self.limits,
        )?;
        let allowed = self.limits.executors_max;
        let joining = &greeting.joining;
        // Who comes back takes its own place.
        let comes_back = self.pool.knows(&joining.owner, &joining.instance);
        match !comes_back && self.pool.len() as u64 >= allowed {
            true => Err(SessionEnd::LimitExceeded {
                limit: "executors_max",
                allowed,
                actual: allowed + 1,
            }),
            false => Ok(greeting),
        }
    }

    /// Registers the tools, settles what was in flight, answers the hello.
    fn welcome(&self, greeting: Greeting, lanes: Arc<Lanes>) -> Session {
        let joining = greeting.joining.clone();
        let registrations = self.register(&joining, greeting.tools);
        let decided = self.pool.join(greeting.joining, greeting.listed);
        let welcome = pb::Welcome {
            protocol: handshake::PROTOCOL,
            connection_id: joining.link.connection.to_string(),
            instance_id: joining.instance.to_string(),
            resume_token: greeting.resume_token,
            capabilities: vec![
                pb::ExecutorCapability::Resume as i32,
                pb::ExecutorCapability::Output as i32,
                pb::ExecutorCapability::ResolveFacts as i32,
            ],
            registrations: registrations.iter().map(convert::registration).collect(),
            in_flight: handshake::decisions(greeting.listed_refs, decided),
            timing: Some(convert::timing(&self.settings)),
            limits: Some(convert::stream_limits(&self.limits)),
        };
        lanes.control(convert::response(pb::connect_response::Body::Welcome(
            welcome,
        )));
        // Only now may work come: the executor knows its welcome first.
        self.pool.set_tools(
            &joining.owner,
            &joining.instance,
            active(&registrations),
            &[],
        );
        tracing::info!(
            executor = %joining.owner,
            instance = %joining.instance,
            tools = registrations.len(),
            sdk = joining.sdk,
            "executor connected"
        );
        Session {
            about: joining,
            lanes,
            ping: PingState::default(),
            stall: StallState::default(),
            ignored: 0,
            unknown_noted: false,
            pause_until: None,
        }
    }

    pub(super) fn register(
        &self,
        about: &Joining,
        tools: Vec<pb::ToolDefinition>,
    ) -> Vec<Registration> {
        let definitions = tools.into_iter().map(convert::definition).collect();
        let registrations = self
            .directory
            .register(&about.owner, definitions, &|tool| self.pool.is_held(tool));
        for tool in active(&registrations) {
            if self.pool.is_outdone(&tool, &about.instance) {
                tracing::warn!(
                    executor = %about.owner,
                    instance = %about.instance,
                    tool = %tool.definition.name,
                    "another process of this executor runs the tool in another definition; \
                     it gets no calls of it while this one is connected"
                );
            }
        }
        registrations
    }

    /// Takes the definitions of processes that are still here for tools whose newer one nobody runs any
    /// more: a rollout that is taken back must not take the tool along.
    pub(super) fn hand_back(&self, owner: &OwnerName) {
        if self.tasks.is_stopping() {
            return;
        }
        let registry = self.directory.registry();
        let is_held = |tool: &Tool| self.pool.is_held(tool);
        let mut back = BTreeMap::new();
        for tool in self.pool.tools_of(owner) {
            let name = tool.definition.name.clone();
            // One that is not registered at all was removed on purpose.
            let newest = registry.get(&name);
            if newest.is_some_and(|newest| newest.owner == *owner && !is_held(newest)) {
                back.insert(name, tool.definition.clone());
            }
        }
        if back.is_empty() {
            return;
        }
        let definitions = back.into_values().collect();
        for tool in active(&self.directory.register(owner, definitions, &is_held)) {
            tracing::warn!(
                executor = %owner,
                tool = %tool.definition.name,
                "the newest definition left with its last process; an earlier one is back"
            );
        }
    }
}

pub(super) fn active(registrations: &[Registration]) -> Vec<SharedTool> {
    registrations
        .iter()
        .filter_map(|registration| match registration {
            Registration::Active { tool, .. } => Some(tool.clone()),
            Registration::Refused { .. } => None,
        })
        .collect()
}

/// Pings that were sent and not answered.
#[derive(Debug, Default)]
pub(super) struct PingState {
    pub(super) nonce: u32,
    pub(super) unanswered: u32,
    pub(super) sent_at: Option<Instant>,
}

/// Whether the peer takes what waits.
#[derive(Debug, Default)]
struct StallState {
    taken: u64,
    since: Option<Instant>,
}

/// One stream after its hello.
pub(super) struct Session {
    pub(super) about: Joining,
    pub(super) lanes: Arc<Lanes>,
    pub(super) ping: PingState,
    stall: StallState,
    /// Messages that were ignored.
    pub(super) ignored: u32,
    /// The peer knows that one of its words is not understood here.
    pub(super) unknown_noted: bool,
    /// When a full executor may be asked again.
    pub(super) pause_until: Option<Instant>,
}

impl Session {
    async fn serve<S>(&mut self, sessions: &Sessions, inbound: &mut std::pin::Pin<Box<S>>) -> Left
    where
        S: Stream<Item = Result<pb::ConnectRequest, Broken>> + Send,
    {
        let mut ticks = interval(Duration::from_millis(sessions.settings.ping_interval_ms));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let mut told_to_go = false;
        let lanes = self.lanes.clone();
        let mut flushing = std::pin::pin!(lanes.flush_unhurried());
        loop {
            let draining = async {
                match told_to_go {
                    true => pending().await,
                    false => sessions.tasks.stopped().await,
                }
            };
            let pause_until = self.pause_until;
            let pause = async {
                match pause_until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                message = inbound.next() => match message {
                    // Somebody else has ended this stream: what it still says is nobody's word.
                    Some(Ok(_)) if self.lanes.has_end() => return Left::Closed,
                    Some(Ok(message)) => {
                        if let Err(end) = self.take(sessions, message) {
                            return Left::Ended(end);
                        }
                    }
                    Some(Err(broken)) => return broken.into(),
                    None => return Left::Closed,
                },
                () = draining => {
                    told_to_go = true;
                    self.tell_to_go(sessions);
                }
                () = flushing.as_mut() => {}
                () = pause => {
                    self.pause_until = None;
                    sessions.pool.pause_ended(&self.about.owner);
                }
                _ = ticks.tick() => {
                    if self.lanes.has_end() {
                        return Left::Closed;
                    }
                    if let Err(end) = self.tick(sessions) {
                        return Left::Ended(end);
                    }
                }
            }
        }
    }

    /// The sidecar leaves: the executor finishes what it has and comes back later.
    fn tell_to_go(&self, sessions: &Sessions) {
        sessions.pool.drain(&self.about.owner, &self.about.instance);
        let go_away = pb::GoAway {
            reason: pb::GoAwayReason::Shutdown as i32,
            message: "the sidecar is shutting down".to_owned(),
            drain_ms: convert::ms32(sessions.settings.drain_ms),
            reconnect_min_ms: 100,
            reconnect_max_ms: 2_000,
        };
        self.say(pb::connect_response::Body::GoAway(go_away));
    }

    /// Pings, and judges the peer's silence.
    fn tick(&mut self, sessions: &Sessions) -> Result<(), SessionEnd> {
        let settings = &sessions.settings;
        if self.ping.unanswered >= settings.ping_misses {
            return Err(SessionEnd::HeartbeatMissed);
        }
        self.check_stall(settings)?;
        self.ping.nonce = self.ping.nonce.wrapping_add(1);
        self.ping.unanswered += 1;
        self.ping.sent_at = Some(now());
        self.say(pb::connect_response::Body::Ping(pb::Ping {
            nonce: self.ping.nonce,
        }));
        Ok(())
    }

    fn check_stall(&mut self, settings: &StreamSettings) -> Result<(), SessionEnd> {
        let (waiting, taken) = self.lanes.progress();
        if waiting == 0 || taken != self.stall.taken {
            self.stall = StallState { taken, since: None };
            return Ok(());
        }
        let since = *self.stall.since.get_or_insert_with(now);
        match since.elapsed() > Duration::from_millis(settings.send_stall_ms) {
            true => Err(SessionEnd::SlowReader),
            false => Ok(()),
        }
    }

    pub(super) fn say(&self, body: pb::connect_response::Body) {
        self.lanes.control(convert::response(body));
    }

    /// Ends the stream and, if its executor may come back, waits for that.
    async fn leave(self, sessions: &Sessions, left: Left) {
        let (owner, instance) = (&self.about.owner, &self.about.instance);
        tracing::info!(executor = %owner, instance = %instance, reason = %left, "executor stream ended");
        match left {
            Left::Ended(end) => dismiss(&self.lanes, end),
            Left::Closed | Left::Broken(_) => self.lanes.end(None),
        }
        let link = &self.about.link;
        if sessions.pool.disconnected(owner, instance, link) {
            let window = Duration::from_millis(sessions.settings.resume_window_ms);
            tokio::select! {
                () = tokio::time::sleep(window) => sessions.pool.expire(owner, instance, link),
                () = sessions.tasks.stopped() => {}
            }
        }
        sessions.hand_back(owner);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "spans between messages need no wall time"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}
