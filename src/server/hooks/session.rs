//! One hook process's stream, from hello to the end, over any carrier.
//!
//! A process that says so takes its hooks along; any other end leaves them registered and failing. Never waits
//! for the peer to read: everything to say goes into the lanes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::time::{MissedTickBehavior, interval};
use tokio_stream::{Stream, StreamExt};

use super::asking::{Connection, HookLanes, Taken};
use super::convert;
use super::desk::Desk;
use crate::base::tasks::Tasks;
use crate::executor::{
    Broken, LaneStream, SessionEnd, StreamSettings, stream_limits, stream_timing,
};
use crate::gate::hooks::HOOKS_MAX;
use crate::gate::ids::InstanceId;
use crate::gate::limits::Limits;
use crate::pb::v1 as pb;
use pb::connect_hook_request::Body as Heard;
use pb::connect_hook_response::Body as Said;
use pb::hook_verdict::Verdict;

/// The protocol number that this sidecar speaks.
const PROTOCOL: u32 = 1;
/// Largest message of a process that names none, in bytes.
const MESSAGE_BYTES_DEFAULT: u32 = 4 * 1024 * 1024;
/// Smallest message size that a process may name, in bytes.
const MESSAGE_BYTES_MIN: u32 = 64 * 1024;
/// Most invocations in flight that count.
const INVOCATIONS_MAX: u32 = 1_024;
/// Most messages of one stream that may be ignored before it ends.
const NOTICES_MAX: u32 = 1_000;

/// Everything that streams of hook processes share.
pub struct HookSessions {
    /// The hooks.
    pub desk: Arc<Desk>,
    /// The bounds.
    pub limits: Limits,
    /// The waits.
    pub settings: StreamSettings,
    /// How long the hooks of a broken stream stay, in milliseconds.
    pub absent_keep_ms: u64,
    /// Owns every stream's task; asked to stop at drain.
    pub tasks: Tasks,
}

/// How a stream ended.
enum Left {
    /// The peer takes its hooks along.
    InOrder,
    /// The transport broke, or we ended it for what the peer did or did not do.
    Lost(Option<SessionEnd>),
    /// The sidecar leaves.
    Draining,
}

impl HookSessions {
    /// Runs a stream. Returns at once; the messages to send come out of the lane stream.
    pub fn open<S>(self: &Arc<Self>, inbound: S) -> LaneStream<pb::ConnectHookResponse>
    where
        S: Stream<Item = Result<pb::ConnectHookRequest, Broken>> + Send + 'static,
    {
        let lanes = Arc::new(HookLanes::default());
        let out = lanes.stream();
        let sessions = self.clone();
        let allowed = self.limits.message_bytes_max;
        let inbound = inbound.map(move |message| message.and_then(|read| within(read, allowed)));
        self.tasks.spawn("hook stream", async move {
            sessions.run(Box::pin(inbound), lanes).await;
        });
        out
    }

    /// Gives the processes that were there before the sidecar restarted their time to return.
    pub fn await_restored(self: &Arc<Self>) {
        if !self.desk.awaits_restored() {
            return;
        }
        let sessions = self.clone();
        self.tasks.spawn("hooks that return", async move {
            let keep = Duration::from_millis(sessions.absent_keep_ms);
            tokio::select! {
                () = tokio::time::sleep(keep) => sessions.desk.expire_restored(),
                () = sessions.tasks.stopped() => {}
            }
        });
    }

    async fn run<S>(&self, mut inbound: std::pin::Pin<Box<S>>, lanes: Arc<HookLanes>)
    where
        S: Stream<Item = Result<pb::ConnectHookRequest, Broken>> + Send,
    {
        let connection = match self.greet(&mut inbound, &lanes).await {
            Ok(connection) => connection,
            Err(end) => {
                tracing::info!(reason = %end, "hook process refused");
                lanes.end(Some(end));
                return;
            }
        };
        let left = self.serve(&mut inbound, &connection).await;
        drop(inbound);
        self.leave(left, &connection).await;
    }

    async fn greet<S>(
        &self,
        inbound: &mut std::pin::Pin<Box<S>>,
        lanes: &Arc<HookLanes>,
    ) -> Result<Arc<Connection>, SessionEnd>
    where
        S: Stream<Item = Result<pb::ConnectHookRequest, Broken>> + Send,
    {
        if self.tasks.is_stopping() {
            return Err(SessionEnd::Draining);
        }
        let wait = Duration::from_millis(self.settings.hello_timeout_ms);
        let first = tokio::time::timeout(wait, inbound.next()).await;
        let first = first.map_err(|_| SessionEnd::HelloTimeout)?;
        match first {
            Some(Ok(pb::ConnectHookRequest {
                body: Some(Heard::Hello(hello)),
            })) => self.welcome(hello, lanes).await,
            Some(Err(Broken::TooLarge { allowed, actual })) => Err(too_large(allowed, actual)),
            Some(Ok(_) | Err(Broken::Lost(_))) | None => Err(SessionEnd::HelloRequired),
        }
    }

    /// Judges a hello, registers its hooks and answers it.
    async fn welcome(
        &self,
        hello: pb::HookHello,
        lanes: &Arc<HookLanes>,
    ) -> Result<Arc<Connection>, SessionEnd> {
        let range = hello
            .protocol
            .unwrap_or(pb::ProtocolRange { min: 1, max: 1 });
        if !(range.min.max(1)..=range.max.max(1)).contains(&PROTOCOL) {
            return Err(SessionEnd::ProtocolUnsupported);
        }
        if hello.hooks.len() > HOOKS_MAX {
            return Err(SessionEnd::LimitExceeded {
                limit: "hooks",
                allowed: HOOKS_MAX as u64,
                actual: hello.hooks.len() as u64,
            });
        }
        let instance = match hello.instance_id.is_empty() {
            true => self.desk.mint.id(),
            false => hello.instance_id,
        };
        InstanceId::parse(&instance).map_err(|error| SessionEnd::Invalid {
            field: "instance_id",
            problem: error.to_string(),
        })?;
        let message_bytes = match hello.max_message_bytes {
            0 => MESSAGE_BYTES_DEFAULT,
            named => named,
        };
        if message_bytes < MESSAGE_BYTES_MIN {
            return Err(SessionEnd::Invalid {
                field: "max_message_bytes",
                problem: format!("must be at least {MESSAGE_BYTES_MIN}"),
            });
        }
        let slots = hello.max_concurrent_invocations.clamp(1, INVOCATIONS_MAX);
        let connection = Arc::new(Connection::new(
            instance.clone(),
            lanes.clone(),
            slots as usize,
            message_bytes as usize,
        ));
        let mut registered = Vec::with_capacity(hello.hooks.len());
        let mut hooks = Vec::new();
        for registration in hello.hooks {
            let hook_id = registration.hook_id.clone();
            let words = Bytes::from(registration.encode_to_vec());
            let hook = convert::hook(registration, &self.desk.aliases);
            registered.push((hook_id, hook.as_ref().err().cloned()));
            hooks.push(hook.ok().map(|hook| (hook, words)));
        }
        let mut records = Vec::new();
        for (place, hook) in registered.iter_mut().zip(hooks) {
            let Some((hook, words)) = hook else { continue };
            match self.desk.register(hook, words, &connection) {
                Ok(record) => records.extend(record),
                Err(refused) => place.1 = Some(refused),
            }
        }
        self.desk.keeper.keep(&records).await;
        let welcome = pb::HookWelcome {
            protocol: PROTOCOL,
            connection_id: self.desk.mint.id(),
            instance_id: instance.clone(),
            registered: registered
                .into_iter()
                .map(|(hook_id, refused)| pb::HookRegistered {
                    hook_id,
                    error: refused.map(crate::server::status::Failure::into_rpc_error),
                })
                .collect(),
            timing: Some(stream_timing(&self.settings)),
            limits: Some(stream_limits(&self.limits)),
        };
        connection.open(pb::ConnectHookResponse {
            body: Some(Said::Welcome(welcome)),
        });
        tracing::info!(%instance, "hook process connected");
        Ok(connection)
    }

    async fn serve<S>(
        &self,
        inbound: &mut std::pin::Pin<Box<S>>,
        connection: &Arc<Connection>,
    ) -> Left
    where
        S: Stream<Item = Result<pb::ConnectHookRequest, Broken>> + Send,
    {
        let mut ticks = interval(Duration::from_millis(self.settings.ping_interval_ms));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let mut state = Pings::default();
        let mut ignored = 0;
        loop {
            tokio::select! {
                message = inbound.next() => match message {
                    Some(Ok(_)) if connection.lanes.has_end() => return Left::Lost(None),
                    Some(Ok(pb::ConnectHookRequest {
                        body: Some(Heard::Leave(_)),
                    })) => return Left::InOrder,
                    Some(Ok(message)) => {
                        if let Err(end) = take(connection, message, &mut state, &mut ignored) {
                            return Left::Lost(Some(end));
                        }
                    }
                    Some(Err(Broken::TooLarge { allowed, actual })) => {
                        return Left::Lost(Some(too_large(allowed, actual)));
                    }
                    Some(Err(Broken::Lost(problem))) => {
                        tracing::info!(problem, "hook stream broke");
                        return Left::Lost(None);
                    }
                    // A process that crashes may end its half like this too.
                    None => return Left::Lost(None),
                },
                () = self.tasks.stopped() => return Left::Draining,
                _ = ticks.tick() => {
                    if connection.lanes.has_end() {
                        return Left::Lost(None);
                    }
                    if state.unanswered >= self.settings.ping_misses {
                        return Left::Lost(Some(SessionEnd::HeartbeatMissed));
                    }
                    state.nonce = state.nonce.wrapping_add(1);
                    state.unanswered += 1;
                    say(&connection.lanes, Said::Ping(pb::Ping { nonce: state.nonce }));
                }
            }
        }
    }

    async fn leave(&self, left: Left, connection: &Arc<Connection>) {
        match left {
            Left::InOrder => {
                self.desk.unregister(connection);
                connection.lanes.end(None);
                tracing::info!(instance = connection.instance, "hook process left");
            }
            Left::Draining => {
                say(
                    &connection.lanes,
                    Said::GoAway(go_away("the sidecar is shutting down")),
                );
                self.desk.lose(connection);
                connection.lanes.end(None);
            }
            Left::Lost(end) => {
                self.desk.lose(connection);
                if let Some(end) = &end {
                    let message = end.to_string();
                    say(&connection.lanes, Said::GoAway(go_away(&message)));
                }
                connection.lanes.end(end);
                tracing::warn!(
                    instance = connection.instance,
                    "hook process lost; its hooks fail until it returns"
                );
                let keep = Duration::from_millis(self.absent_keep_ms);
                tokio::select! {
                    () = tokio::time::sleep(keep) => self.desk.expire(connection),
                    () = self.tasks.stopped() => {}
                }
            }
        }
    }
}

/// Pings that were sent and not answered.
#[derive(Debug, Default)]
struct Pings {
    nonce: u32,
    unanswered: u32,
}

/// A message of at most that size. An answer that is larger is a failure for its own question only; anything
/// else that is larger ends the stream.
fn within(
    mut message: pb::ConnectHookRequest,
    allowed: u64,
) -> Result<pb::ConnectHookRequest, Broken> {
    let actual = message.encoded_len() as u64;
    if actual <= allowed {
        return Ok(message);
    }
    let Some(Heard::Verdict(verdict)) = &mut message.body else {
        return Err(Broken::TooLarge { allowed, actual });
    };
    let problem = format!("its answer has {actual} bytes, {allowed} are allowed");
    verdict.verdict = Some(Verdict::Failure(pb::HookFailure { message: problem }));
    Ok(message)
}

/// Takes one message. Whatever it is, the stream goes on unless the peer does this too often.
fn take(
    connection: &Connection,
    message: pb::ConnectHookRequest,
    pings: &mut Pings,
    ignored: &mut u32,
) -> Result<(), SessionEnd> {
    let (taken, about) = match message.body {
        Some(Heard::Verdict(verdict)) => {
            let about = verdict.invocation_id.clone();
            (connection.answered(verdict), about)
        }
        Some(Heard::NeedMoreTime(more)) => {
            let extra = Duration::from_millis(u64::from(more.extra_ms));
            let taken = connection.wants_longer(&more.invocation_id, extra);
            (taken, more.invocation_id)
        }
        Some(Heard::Ping(ping)) => {
            say(
                &connection.lanes,
                Said::Pong(pb::Pong { nonce: ping.nonce }),
            );
            return Ok(());
        }
        Some(Heard::Pong(_)) => {
            pings.unanswered = 0;
            return Ok(());
        }
        Some(Heard::Hello(_)) => {
            return Err(SessionEnd::ProtocolViolation {
                problem: "a second hello".to_owned(),
            });
        }
        Some(Heard::Leave(_)) | None => (Taken::Unknown, String::new()),
    };
    let (code, text) = match taken {
        Taken::Yes => return Ok(()),
        Taken::Unknown => ("invocation_unknown", "nobody waits for that invocation"),
        Taken::Again => ("need_more_time_twice", "more time was asked for before"),
        // As often as it was asked, and no oftener: whoever is slow is no intruder.
        Taken::Late => {
            let notice = convert::notice("verdict_late", "it comes after its time", about);
            say(&connection.lanes, Said::Notice(notice));
            return Ok(());
        }
    };
    *ignored += 1;
    if *ignored > NOTICES_MAX {
        return Err(SessionEnd::ProtocolViolation {
            problem: "too many messages that nobody waits for".to_owned(),
        });
    }
    let notice = convert::notice(code, text, about);
    say(&connection.lanes, Said::Notice(notice));
    Ok(())
}

fn say(lanes: &HookLanes, body: Said) {
    lanes.control(pb::ConnectHookResponse { body: Some(body) });
}

fn go_away(message: &str) -> pb::GoAway {
    pb::GoAway {
        reason: pb::GoAwayReason::Shutdown as i32,
        message: message.to_owned(),
        drain_ms: 0,
        reconnect_min_ms: 100,
        reconnect_max_ms: 2_000,
    }
}

fn too_large(allowed: u64, actual: u64) -> SessionEnd {
    SessionEnd::LimitExceeded {
        limit: "message_bytes_max",
        allowed,
        actual,
    }
}
