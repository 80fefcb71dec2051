//! One executor's stream, from hello to the end, over any carrier.
//!
//! The carrier hands in a stream of messages and takes a [`LaneStream`](super::LaneStream) out; nothing
//! here knows gRPC. One task reads and never waits for a peer to read: everything to say goes into the
//! lanes. Never decides what becomes of a call.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_stream::{Stream, StreamExt};

use super::convert;
use super::directory::Directory;
use super::handshake::{self, Greeting, NameBinding};
use super::lanes::{LaneStream, Lanes};
use super::pool::{Heard, Joining, Link, Pool, ResultStatus, Word};
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::gate::ids::{ExecutionId, ToolName};
use crate::gate::limits::Limits;
use crate::gate::registry::Registration;
use crate::pb::v1 as pb;
use pb::connect_request::Body;

/// Most messages of one stream that may be ignored before it ends.
const NOTICES_MAX: u32 = 1_000;

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

/// Why a stream ended on our side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The first message is not the hello.
    #[error("the first message must be the hello")]
    HelloRequired,
    /// No hello came in time.
    #[error("no hello came in time")]
    HelloTimeout,
    /// No common protocol number.
    #[error(
        "no common protocol number; this sidecar speaks {}",
        handshake::PROTOCOL
    )]
    ProtocolUnsupported,
    /// A field is missing or wrong.
    #[error("`{field}` {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The credential may not use this name.
    #[error("the credential may not use the executor name `{name}`")]
    NameForbidden {
        /// The name.
        name: String,
    },
    /// Beyond a limit.
    #[error("`{limit}` allows {allowed}, got {actual}")]
    LimitExceeded {
        /// The limit.
        limit: &'static str,
        /// Its value.
        allowed: u64,
        /// What came.
        actual: u64,
    },
    /// A newer stream of the same process took over.
    #[error("a newer stream of the same process took over")]
    Superseded,
    /// The peer did not answer pings.
    #[error("the peer did not answer pings")]
    HeartbeatMissed,
    /// The peer does not read.
    #[error("the peer does not read what is sent")]
    SlowReader,
    /// The peer broke the protocol too often.
    #[error("the peer broke the protocol: {problem}")]
    ProtocolViolation {
        /// How.
        problem: String,
    },
    /// The sidecar leaves.
    #[error("the sidecar is shutting down")]
    Draining,
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
    pub fn open<S, E>(self: &Arc<Self>, inbound: S, identity: Identity) -> LaneStream
    where
        S: Stream<Item = Result<pb::ConnectRequest, E>> + Send + 'static,
        E: std::fmt::Display + Send,
    {
        let lanes = Arc::new(Lanes::default());
        let out = lanes.stream();
        let sessions = self.clone();
        self.tasks.spawn("executor stream", async move {
            sessions.run(Box::pin(inbound), lanes, identity).await;
        });
        out
    }

    async fn run<S, E>(
        &self,
        mut inbound: std::pin::Pin<Box<S>>,
        lanes: Arc<Lanes>,
        identity: Identity,
    ) where
        S: Stream<Item = Result<pb::ConnectRequest, E>> + Send,
        E: std::fmt::Display,
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

    async fn greet<S, E>(
        &self,
        inbound: &mut std::pin::Pin<Box<S>>,
        lanes: &Arc<Lanes>,
        identity: &Identity,
    ) -> Result<Greeting, SessionEnd>
    where
        S: Stream<Item = Result<pb::ConnectRequest, E>> + Send,
    {
        if self.tasks.is_stopping() {
            return Err(SessionEnd::Draining);
        }
        let wait = Duration::from_millis(self.settings.hello_timeout_ms);
        let first = tokio::time::timeout(wait, inbound.next()).await;
        let Ok(first) = first else {
            return Err(SessionEnd::HelloTimeout);
        };
        let Some(Ok(pb::ConnectRequest {
            body: Some(Body::Hello(hello)),
        })) = first
        else {
            return Err(SessionEnd::HelloRequired);
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
        let registrations = self.register(&joining, greeting.tools, &[]);
        let decided = self.pool.join(greeting.joining, greeting.listed);
        let welcome = pb::Welcome {
            protocol: handshake::PROTOCOL,
            connection_id: joining.link.connection.to_string(),
            instance_id: joining.instance.to_string(),
            resume_token: greeting.resume_token,
            capabilities: vec![
                pb::ExecutorCapability::Resume as i32,
                pb::ExecutorCapability::Output as i32,
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

    fn register(
        &self,
        about: &Joining,
        tools: Vec<pb::ToolDefinition>,
        _remove: &[ToolName],
    ) -> Vec<Registration> {
        let definitions = tools.into_iter().map(convert::definition).collect();
        self.directory
            .register(&about.owner, definitions, &|tool| self.pool.is_held(tool))
    }
}

fn active(registrations: &[Registration]) -> Vec<(ToolName, crate::gate::result::Digest)> {
    registrations
        .iter()
        .filter_map(|registration| match registration {
            Registration::Active { tool, .. } => Some((tool.definition.name.clone(), tool.digest)),
            Registration::Refused { .. } => None,
        })
        .collect()
}

/// Pings that were sent and not answered.
#[derive(Debug, Default)]
struct PingState {
    nonce: u32,
    unanswered: u32,
    sent_at: Option<Instant>,
}

/// Whether the peer takes what waits.
#[derive(Debug, Default)]
struct StallState {
    taken: u64,
    since: Option<Instant>,
}

/// One stream after its hello.
struct Session {
    about: Joining,
    lanes: Arc<Lanes>,
    ping: PingState,
    stall: StallState,
    /// Messages that were ignored.
    ignored: u32,
    /// The peer knows that one of its words is not understood here.
    unknown_noted: bool,
    /// When a full executor may be asked again.
    pause_until: Option<Instant>,
}

/// How a stream ended.
#[derive(Debug)]
enum Left {
    /// The peer closed its half in order.
    Closed,
    /// The transport broke.
    Broken(String),
    /// We ended it.
    Ended(SessionEnd),
}

impl std::fmt::Display for Left {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Left::Closed => out.write_str("closed by the executor"),
            Left::Broken(problem) => write!(out, "broken: {problem}"),
            Left::Ended(end) => end.fmt(out),
        }
    }
}

impl Session {
    async fn serve<S, E>(
        &mut self,
        sessions: &Sessions,
        inbound: &mut std::pin::Pin<Box<S>>,
    ) -> Left
    where
        S: Stream<Item = Result<pb::ConnectRequest, E>> + Send,
        E: std::fmt::Display,
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
                    Some(Err(error)) => return Left::Broken(error.to_string()),
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

    fn say(&self, body: pb::connect_response::Body) {
        self.lanes.control(convert::response(body));
    }

    /// Takes one message. Whatever it is, the stream goes on unless the peer does this too often.
    fn take(&mut self, sessions: &Sessions, message: pb::ConnectRequest) -> Result<(), SessionEnd> {
        let pool = &sessions.pool;
        let heard = match message.body {
            Some(Body::Accepted(accepted)) => self.about_execution(accepted.execution, |word| {
                pool.accepted(word, accepted.queued)
            }),
            Some(Body::Result(result)) => return self.take_result(sessions, result),
            Some(Body::Progress(progress)) => {
                let execution = progress.execution.clone();
                let progress = convert::progress(progress, &sessions.limits);
                self.about_execution(execution, |word| pool.progressed(word, progress))
            }
            Some(Body::Output(chunk)) => {
                if chunk.data.len() as u64 > sessions.limits.output_chunk_bytes_max {
                    return self.notice("output_too_large", "a chunk is larger than allowed", "");
                }
                let execution = chunk.execution.clone();
                let chunk = convert::output(chunk);
                self.about_execution(execution, |word| pool.printed(word, chunk))
            }
            Some(Body::Rejected(rejected)) => {
                let reason = convert::reject_reason(rejected.reason());
                let retry_after_ms = rejected.retry_after_ms;
                let (heard, about) = self.about_execution(rejected.execution, |word| {
                    pool.rejected(word, reason, retry_after_ms)
                });
                if let (Heard::Taken, Some(pause)) = (heard, pool.pause_of(reason, retry_after_ms))
                {
                    self.pause_until = Some(now() + pause);
                }
                (heard, about)
            }
            Some(Body::Abandoned(abandoned)) => {
                self.about_execution(abandoned.execution, |word| pool.gave_back(word))
            }
            Some(Body::CancelAck(ack)) if ack.unknown_execution => {
                self.about_execution(ack.execution, |word| pool.gave_back(word));
                return Ok(());
            }
            Some(Body::CancelAck(_)) => return Ok(()),
            Some(Body::Ping(ping)) => {
                self.say(pb::connect_response::Body::Pong(pb::Pong {
                    nonce: ping.nonce,
                }));
                return Ok(());
            }
            Some(Body::Pong(pong)) => return self.take_pong(sessions, pong),
            Some(Body::ToolUpdate(update)) => return self.take_update(sessions, update),
            Some(Body::CapacityUpdate(update)) => {
                let slots = update.max_concurrent_executions;
                pool.set_slots(&self.about.owner, &self.about.instance, slots);
                return Ok(());
            }
            Some(Body::DrainRequest(_)) => {
                pool.drain(&self.about.owner, &self.about.instance);
                self.say(pb::connect_response::Body::DrainStarted(
                    pb::DrainStarted {},
                ));
                return Ok(());
            }
            Some(Body::Hello(_)) => {
                return Err(SessionEnd::ProtocolViolation {
                    problem: "a second hello".to_owned(),
                });
            }
            None => return self.take_unknown(),
        };
        self.answer_heard(heard)
    }

    fn about_execution(
        &self,
        execution: Option<pb::ExecutionRef>,
        tell: impl FnOnce(Word<'_>) -> Heard,
    ) -> (Heard, String) {
        let reference = execution.unwrap_or_default();
        let execution = ExecutionId::trusted(reference.execution_id.as_str());
        let heard = tell(Word {
            owner: &self.about.owner,
            instance: &self.about.instance,
            execution: &execution,
            attempt: reference.attempt,
        });
        (heard, reference.execution_id)
    }

    fn answer_heard(&mut self, (heard, about): (Heard, String)) -> Result<(), SessionEnd> {
        match heard {
            // Words that cross an end on their way are nobody's fault.
            Heard::Taken | Heard::TooLate => Ok(()),
            Heard::NotYours => self.notice(
                "execution_not_yours",
                "the execution is not at this executor",
                &about,
            ),
            Heard::Unknown => self.notice("execution_unknown", "no such execution here", &about),
            Heard::WithoutCredit => self.notice(
                "output_without_credit",
                "output beyond its credit is dropped",
                &about,
            ),
        }
    }

    fn take_result(
        &mut self,
        sessions: &Sessions,
        result: pb::ExecuteResult,
    ) -> Result<(), SessionEnd> {
        let reference = result.execution.clone().unwrap_or_default();
        let execution = ExecutionId::trusted(reference.execution_id.as_str());
        let word = Word {
            owner: &self.about.owner,
            instance: &self.about.instance,
            execution: &execution,
            attempt: reference.attempt,
        };
        let reply = convert::reply(result.outcome);
        let Some(status) = sessions.pool.replied(word, reply) else {
            return Ok(());
        };
        self.lanes
            .control(convert::result_ack(&execution, reference.attempt, status));
        match status {
            ResultStatus::Unknown => self.notice(
                "execution_unknown",
                "no such execution here",
                &reference.execution_id,
            ),
            ResultStatus::Recorded | ResultStatus::AlreadyRecorded | ResultStatus::Late => Ok(()),
        }
    }

    fn take_pong(&mut self, sessions: &Sessions, pong: pb::Pong) -> Result<(), SessionEnd> {
        let behind = self.ping.nonce.wrapping_sub(pong.nonce);
        if behind >= self.ping.unanswered {
            return Ok(());
        }
        // A late answer is one: only the pings after it are still open.
        self.ping.unanswered = behind;
        let sent_at = self.ping.sent_at.filter(|_| behind == 0);
        let round_trip =
            sent_at.map(|sent| u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX));
        sessions
            .pool
            .seen(&self.about.owner, &self.about.instance, round_trip);
        Ok(())
    }

    fn take_update(
        &mut self,
        sessions: &Sessions,
        update: pb::ToolUpdate,
    ) -> Result<(), SessionEnd> {
        let allowed = sessions.limits.tools_per_message_max;
        let actual = (update.upsert.len() + update.remove.len()) as u64;
        if actual > allowed {
            return Err(SessionEnd::LimitExceeded {
                limit: "tools_per_message_max",
                allowed,
                actual,
            });
        }
        let registrations = sessions.register(&self.about, update.upsert, &[]);
        let removed: Vec<ToolName> = update
            .remove
            .iter()
            .map(|name| ToolName::trusted(name.as_str()))
            .collect();
        sessions.pool.set_tools(
            &self.about.owner,
            &self.about.instance,
            active(&registrations),
            &removed,
        );
        self.unregister_orphans(sessions, &removed);
        let removals = update.remove.iter().map(|name| convert::removal(name));
        let answer = pb::ToolUpdateResult {
            update_id: update.update_id,
            registrations: registrations
                .iter()
                .map(convert::registration)
                .chain(removals)
                .collect(),
        };
        self.say(pb::connect_response::Body::ToolUpdateResult(answer));
        Ok(())
    }

    /// A tool that its owner takes back, and that no other instance runs, leaves the registry.
    fn unregister_orphans(&self, sessions: &Sessions, removed: &[ToolName]) {
        let registry = sessions.directory.registry();
        for name in removed {
            let orphaned = registry
                .get(name)
                .is_some_and(|tool| tool.owner == self.about.owner && !sessions.pool.is_held(tool));
            if orphaned {
                sessions.directory.unregister(name);
            }
        }
    }

    /// A message of a newer protocol, or none at all: noted once, and counted.
    fn take_unknown(&mut self) -> Result<(), SessionEnd> {
        let message = "a message without a known body";
        match std::mem::replace(&mut self.unknown_noted, true) {
            false => self.notice("body_unknown", message, ""),
            true => self.count_ignored(message),
        }
    }

    /// Says that a message was ignored.
    fn notice(&mut self, code: &str, message: &str, about: &str) -> Result<(), SessionEnd> {
        self.count_ignored(message)?;
        self.say(pb::connect_response::Body::Notice(pb::Notice {
            code: code.to_owned(),
            message: message.to_owned(),
            about: about.to_owned(),
        }));
        Ok(())
    }

    /// Ends a stream that makes it a habit.
    fn count_ignored(&mut self, message: &str) -> Result<(), SessionEnd> {
        self.ignored += 1;
        match self.ignored > NOTICES_MAX {
            true => Err(SessionEnd::ProtocolViolation {
                problem: message.to_owned(),
            }),
            false => Ok(()),
        }
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
        if !sessions.pool.disconnected(owner, instance, link) {
            return;
        }
        let window = Duration::from_millis(sessions.settings.resume_window_ms);
        tokio::select! {
            () = tokio::time::sleep(window) => sessions.pool.expire(owner, instance, link),
            () = sessions.tasks.stopped() => {}
        }
    }
}

/// Ends a stream with a farewell.
pub(super) fn dismiss(lanes: &Lanes, end: SessionEnd) {
    let farewell = pb::connect_response::Body::GoAway(go_away_of(&end));
    lanes.control(convert::response(farewell));
    lanes.end(Some(end));
}

fn go_away_of(end: &SessionEnd) -> pb::GoAway {
    let (reason, comes_back) = match end {
        SessionEnd::Superseded => (pb::GoAwayReason::Superseded, false),
        SessionEnd::SlowReader => (pb::GoAwayReason::SlowReader, true),
        SessionEnd::HeartbeatMissed => (pb::GoAwayReason::HeartbeatMissed, true),
        SessionEnd::Draining => (pb::GoAwayReason::Shutdown, true),
        SessionEnd::HelloRequired
        | SessionEnd::HelloTimeout
        | SessionEnd::ProtocolUnsupported
        | SessionEnd::Invalid { .. }
        | SessionEnd::NameForbidden { .. }
        | SessionEnd::LimitExceeded { .. }
        | SessionEnd::ProtocolViolation { .. } => (pb::GoAwayReason::ProtocolViolation, true),
    };
    pb::GoAway {
        reason: reason as i32,
        message: end.to_string(),
        drain_ms: 0,
        reconnect_min_ms: if comes_back { 100 } else { 0 },
        reconnect_max_ms: if comes_back { 2_000 } else { 0 },
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "spans between messages need no wall time"
)]
fn now() -> Instant {
    Instant::now()
}
