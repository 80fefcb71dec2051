//! The bare relay: from a turn to an executor and back, with a table of what is on its way.
//!
//! No gates, no store, no queue for executors that are busy. Never fails a call.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use callgate::base::clock::Clock;
use callgate::base::mint::Mint;
use callgate::pb::v1 as pb;
use parking_lot::Mutex;
use tokio_stream::Stream;
use tonic::Status;

use super::turn::{DIGEST, Outlet, Turn};

/// Time that a call has, as the sidecar's default.
const TIMEOUT_MS: u32 = 120_000;

/// Everything that connections share.
pub(super) struct Relay {
    clock: Clock,
    boot: String,
    /// Acknowledge results as the sidecar does.
    acks: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next_turn: u64,
    next_executor: usize,
    executors: Vec<Arc<Outbox>>,
    turns: BTreeMap<u64, Arc<Turn>>,
}

impl Relay {
    pub(super) fn new(acks: bool) -> Self {
        Self {
            clock: Clock::system(),
            boot: Mint::new().process_id().to_owned(),
            acks,
            inner: Mutex::default(),
        }
    }

    /// Sends the calls of a turn to an executor. The outlet gets its events.
    pub(super) fn run(
        &self,
        request: pb::RunTurnRequest,
        outlet: &Arc<Outlet>,
    ) -> Result<(), Box<Status>> {
        let now = self.clock.now_ms();
        let (turn, executor) = {
            let mut inner = self.inner.lock();
            let count = inner.executors.len();
            let chosen = inner.next_executor.checked_rem(count).unwrap_or(0);
            let Some(executor) = inner.executors.get(chosen).cloned() else {
                return Err(Box::new(Status::unavailable("no executor")));
            };
            inner.next_executor = chosen + 1;
            inner.next_turn += 1;
            let number = inner.next_turn;
            let batch_id = format!("{}-{number:x}", self.boot);
            let turn = Turn::new(&request, batch_id, now, outlet.clone());
            inner.turns.insert(number, turn.clone());
            (turn, executor)
        };
        turn.accept();
        let calls = request.calls.into_iter().enumerate();
        executor.push(calls.map(|(position, call)| execute(&turn, position, call, now)));
        Ok(())
    }

    /// Takes what an executor says.
    pub(super) fn take(&self, executor: &Outbox, message: pb::ConnectRequest) {
        use pb::connect_request::Body;
        match message.body {
            Some(Body::Result(result)) => self.take_result(executor, result),
            Some(Body::Ping(ping)) => {
                let pong = pb::Pong { nonce: ping.nonce };
                executor.push([response(pb::connect_response::Body::Pong(pong))]);
            }
            Some(Body::ToolUpdate(update)) => {
                let answer = pb::ToolUpdateResult {
                    update_id: update.update_id,
                    registrations: update.upsert.iter().map(registered).collect(),
                };
                executor.push([response(pb::connect_response::Body::ToolUpdateResult(
                    answer,
                ))]);
            }
            Some(
                Body::Hello(_)
                | Body::Accepted(_)
                | Body::Progress(_)
                | Body::Output(_)
                | Body::Rejected(_)
                | Body::Abandoned(_)
                | Body::CancelAck(_)
                | Body::PermissionCheckResult(_)
                | Body::ResolveFactsResult(_)
                | Body::Pong(_)
                | Body::CapacityUpdate(_)
                | Body::DrainRequest(_),
            )
            | None => {}
        }
    }

    fn take_result(&self, executor: &Outbox, result: pb::ExecuteResult) {
        let Some(reference) = result.execution else {
            return;
        };
        let Some(pb::execute_result::Outcome::Result(answer)) = result.outcome else {
            return;
        };
        let Some((number, position)) = parse_execution(&reference.execution_id) else {
            return;
        };
        let Some(turn) = self.inner.lock().turns.get(&number).cloned() else {
            return;
        };
        if turn.finish(position, answer, self.clock.now_ms()) {
            self.inner.lock().turns.remove(&number);
        }
        if self.acks {
            let ack = pb::ResultAck {
                execution: Some(reference),
                status: pb::ResultAckStatus::Recorded as i32,
            };
            executor.push([response(pb::connect_response::Body::ResultAck(ack))]);
        }
    }

    /// Lets an executor in.
    pub(super) fn join(&self, hello: &pb::Hello) -> Arc<Outbox> {
        let welcome = pb::Welcome {
            protocol: 1,
            connection_id: "floor".to_owned(),
            instance_id: hello.instance_id.clone(),
            capabilities: hello.capabilities.clone(),
            registrations: hello.tools.iter().map(registered).collect(),
            ..pb::Welcome::default()
        };
        let outbox = Arc::new(Outbox::default());
        outbox.push([response(pb::connect_response::Body::Welcome(welcome))]);
        self.inner.lock().executors.push(outbox.clone());
        outbox
    }

    /// Forgets an executor whose stream ended. What it had is lost.
    pub(super) fn leave(&self, outbox: &Arc<Outbox>) {
        let mut inner = self.inner.lock();
        inner.executors.retain(|other| !Arc::ptr_eq(other, outbox));
    }
}

/// What the sidecar sends for a call, field by field.
fn execute(turn: &Turn, position: usize, call: pb::ToolCall, now: u64) -> pb::ConnectResponse {
    response(pb::connect_response::Body::Execute(pb::ExecuteRequest {
        execution: Some(pb::ExecutionRef {
            execution_id: format!("{}.{position}", turn.batch_id),
            attempt: 1,
        }),
        tool_name: call.name,
        tool_digest: DIGEST,
        call_id: call.call_id,
        arguments_json: call.arguments_json,
        arguments_digest: DIGEST,
        context: Some(pb::CallContext {
            session_id: turn.session_id.clone(),
            run_id: turn.run_id.clone(),
            turn_id: turn.turn_id.clone(),
            batch_call_id: turn.batch_id.clone(),
            state: Some(pb::SessionState {
                schema_version: 0,
                session_id: turn.session_id.clone(),
                metadata_json: bytes::Bytes::new(),
            }),
            services: Vec::new(),
            cwd: String::new(),
            trace: None,
        }),
        deadline_at_ms: now + u64::from(TIMEOUT_MS),
        timeout_ms: TIMEOUT_MS,
        output_credit_bytes: 0,
    }))
}

/// `boot-turn.position`, numbers as they were printed.
fn parse_execution(id: &str) -> Option<(u64, usize)> {
    let (batch, position) = id.rsplit_once('.')?;
    let (_, turn) = batch.rsplit_once('-')?;
    Some((u64::from_str_radix(turn, 16).ok()?, position.parse().ok()?))
}

fn registered(tool: &pb::ToolDefinition) -> pb::ToolRegistration {
    pb::ToolRegistration {
        name: tool.name.clone(),
        state: pb::RegistrationState::Active as i32,
        tool_digest: DIGEST,
        generation: 1,
        ..pb::ToolRegistration::default()
    }
}

fn response(body: pb::connect_response::Body) -> pb::ConnectResponse {
    pb::ConnectResponse { body: Some(body) }
}

/// The way out to one executor.
#[derive(Default)]
pub(super) struct Outbox {
    inner: Mutex<OutboxInner>,
}

#[derive(Default)]
struct OutboxInner {
    messages: VecDeque<pb::ConnectResponse>,
    waker: Option<Waker>,
}

impl Outbox {
    fn push(&self, messages: impl IntoIterator<Item = pb::ConnectResponse>) {
        let mut inner = self.inner.lock();
        inner.messages.extend(messages);
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }
}

/// An executor's outbox as its stream; empty until it has said hello.
pub(super) struct OutboxStream {
    pub(super) outbox: tokio::sync::oneshot::Receiver<Arc<Outbox>>,
    pub(super) joined: Option<Arc<Outbox>>,
}

impl Stream for OutboxStream {
    type Item = Result<pb::ConnectResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let outbox = match self.joined.clone() {
            Some(outbox) => outbox,
            None => match std::task::ready!(Pin::new(&mut self.outbox).poll(context)) {
                Ok(outbox) => self.joined.insert(outbox).clone(),
                Err(_) => return Poll::Ready(None),
            },
        };
        let mut inner = outbox.inner.lock();
        match inner.messages.pop_front() {
            Some(message) => Poll::Ready(Some(Ok(message))),
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
