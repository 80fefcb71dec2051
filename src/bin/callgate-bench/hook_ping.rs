//! `hook-ping`: a bare bidi stream that asks the first hook process to come, again and again.
//!
//! The same messages as the sidecar's, with nothing before or behind them: what a round trip costs.
//! Bounded in time. Prints `ready`, and one JSON line when it has measured.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use callgate::pb::v1 as pb;
use pb::connect_hook_request::Body as Said;
use pb::connect_hook_response::Body as Say;
use pb::hook_service_server::{HookService, HookServiceServer};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::clock::{nanos, now};
use crate::drive::micros;
use crate::histogram::Histogram;
use crate::output::data;
use crate::payload::{Payload, TOOL};
use crate::problem::{Problem, io};

/// How much longer than planned it may take, the coming of the hook included.
const OVERTIME: Duration = Duration::from_secs(30);
/// Size of arguments, in bytes.
const ARGUMENTS: usize = 200;

/// Measures bare round trips to a hook.
#[derive(Debug, clap::Args)]
pub(crate) struct HookPing {
    /// Unix socket to listen on.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Time before anything counts.
    #[arg(long, default_value_t = 300)]
    warm_ms: u64,
    /// Time that counts.
    #[arg(long, default_value_t = 1_000)]
    ms: u64,
}

/// What was measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PingReport {
    /// Round trips that count.
    pub(crate) pings: u64,
    /// Span of a round trip, in microseconds.
    pub(crate) p50_us: f64,
}

impl HookPing {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let limit = Duration::from_millis(self.warm_ms + self.ms) + OVERTIME;
        let measured = tokio::time::timeout(limit, self.measure()).await;
        let report = measured.map_err(|_| Problem::Late {
            what: "the pings".to_owned(),
            limit,
        })??;
        let line = serde_json::to_string(&report)
            .map_err(|error| Problem::Unexpected(error.to_string()))?;
        data(&line);
        Ok(())
    }

    async fn measure(&self) -> Result<PingReport, Problem> {
        let local = UnixListener::bind(&self.socket)
            .map_err(io(format!("cannot listen on `{}`", self.socket.display())))?;
        data("ready");
        let (come, comes) = oneshot::channel();
        let door = Door {
            come: Mutex::new(Some(come)),
        };
        let served = Server::builder()
            .add_service(HookServiceServer::new(door))
            .serve_with_incoming(UnixListenerStream::new(local));
        tokio::select! {
            ended = served => Err(Problem::Unexpected(format!("cannot serve: {ended:?}"))),
            report = self.ping(comes) => report,
        }
    }

    async fn ping(&self, comes: oneshot::Receiver<Hook>) -> Result<PingReport, Problem> {
        let come = comes.await;
        let mut hook = come.map_err(|_| Problem::Unexpected("no hook came".to_owned()))?;
        let mut payload = Payload::new(ARGUMENTS, 7);
        let begin = now() + Duration::from_millis(self.warm_ms);
        let end = begin + Duration::from_millis(self.ms);
        let mut spans = Histogram::new();
        loop {
            let asked = now();
            if asked >= end {
                break;
            }
            hook.ask(payload.next()).await?;
            if asked >= begin {
                spans.record(nanos(asked.elapsed()));
            }
        }
        Ok(PingReport {
            pings: spans.len(),
            p50_us: micros(spans.at(0.5)),
        })
    }
}

/// The stream of one hook process.
struct Hook {
    say: mpsc::Sender<Result<pb::ConnectHookResponse, Status>>,
    said: Streaming<pb::ConnectHookRequest>,
}

impl Hook {
    /// Asks one question and waits for its answer.
    async fn ask(&mut self, arguments: Bytes) -> Result<(), Problem> {
        self.tell(Say::Invocation(invocation(arguments))).await?;
        loop {
            let message = self.said.message().await?;
            let Some(message) = message else {
                return Err(Problem::Unexpected("the hook went".to_owned()));
            };
            match message.body {
                Some(Said::Verdict(_)) => return Ok(()),
                Some(Said::Ping(ping)) => {
                    self.tell(Say::Pong(pb::Pong { nonce: ping.nonce })).await?;
                }
                Some(_) | None => {}
            }
        }
    }

    async fn tell(&self, body: Say) -> Result<(), Problem> {
        let message = pb::ConnectHookResponse { body: Some(body) };
        let sent = self.say.send(Ok(message)).await;
        sent.map_err(|_| Problem::Unexpected("the hook went".to_owned()))
    }
}

/// A question as the sidecar asks it, with ids of the same lengths.
fn invocation(arguments: Bytes) -> pb::HookInvocation {
    let id = "0123456789abcdef0123456789abcdef";
    pb::HookInvocation {
        invocation_id: id.to_owned(),
        hook_id: "bench".to_owned(),
        point: pb::HookPoint::BeforeToolCall as i32,
        invoked_at_ms: 1_700_000_000_000,
        timeout_ms: 5_000,
        attempt: 1,
        session_id: id.to_owned(),
        root_session_id: id.to_owned(),
        run_id: id.to_owned(),
        turn_id: id.to_owned(),
        batch_id: id.to_owned(),
        payload: Some(pb::hook_invocation::Payload::Before(pb::BeforeToolCall {
            call: Some(pb::ToolCall {
                call_id: id.to_owned(),
                name: TOOL.to_owned(),
                arguments_json: arguments.clone(),
                ..pb::ToolCall::default()
            }),
            arguments_json: arguments,
            tool: Some(pb::HookTool {
                name: TOOL.to_owned(),
                tool_digest: Bytes::from_static(&[7; 32]),
                ..pb::HookTool::default()
            }),
            ..pb::BeforeToolCall::default()
        })),
        ..pb::HookInvocation::default()
    }
}

/// Lets the first hook process in.
struct Door {
    come: Mutex<Option<oneshot::Sender<Hook>>>,
}

#[tonic::async_trait]
impl HookService for Door {
    type ConnectHookStream = ReceiverStream<Result<pb::ConnectHookResponse, Status>>;

    async fn connect_hook(
        &self,
        request: Request<Streaming<pb::ConnectHookRequest>>,
    ) -> Result<Response<Self::ConnectHookStream>, Status> {
        let Some(come) = self.come.lock().await.take() else {
            return Err(Status::resource_exhausted("one hook has come already"));
        };
        let (say, says) = mpsc::channel(1);
        let welcome = pb::ConnectHookResponse {
            body: Some(Say::Welcome(pb::HookWelcome {
                timing: Some(pb::StreamTiming {
                    ping_interval_ms: 10_000,
                    ping_misses: 3,
                    ..pb::StreamTiming::default()
                }),
                ..pb::HookWelcome::default()
            })),
        };
        let hook = Hook {
            say: say.clone(),
            said: request.into_inner(),
        };
        if say.send(Ok(welcome)).await.is_err() || come.send(hook).is_err() {
            return Err(Status::unavailable("nobody measures any more"));
        }
        Ok(Response::new(ReceiverStream::new(says)))
    }

    async fn list_hooks(
        &self,
        _: Request<pb::ListHooksRequest>,
    ) -> Result<Response<pb::ListHooksResponse>, Status> {
        Err(Status::unimplemented("only streams are measured"))
    }

    async fn remove_hook(
        &self,
        _: Request<pb::RemoveHookRequest>,
    ) -> Result<Response<pb::RemoveHookResponse>, Status> {
        Err(Status::unimplemented("only streams are measured"))
    }
}
