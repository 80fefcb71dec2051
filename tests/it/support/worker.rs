//! An executor as it should be: keeps every result until it is acknowledged, comes back after every
//! break, and counts how often each call began.
//!
//! Outlives sidecars; ends with the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callgate_client::connect::Target;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::executor_service_client::ExecutorServiceClient;
use parking_lot::Mutex;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use super::executor::{again, resuming, text_result};
use super::soon;

/// Between two attempts to reach a sidecar that is not there.
const BACK_OFF: Duration = Duration::from_millis(10);

type Key = (String, u32);

#[derive(Default)]
struct Inner {
    /// How often the handler of each (turn, call) began.
    begun: BTreeMap<(String, String), u32>,
    /// What runs or is held, by execution and attempt. None: it runs.
    in_flight: BTreeMap<Key, Option<pb::ExecuteResult>>,
    token: String,
}

/// A faithful executor on a task of its own.
pub(crate) struct Worker {
    inner: Arc<Mutex<Inner>>,
    welcomes: watch::Receiver<u32>,
    begun: watch::Receiver<u32>,
    /// Its task, which ends with it.
    _tasks: JoinSet<()>,
}

/// What it does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Answers at once.
    Answers,
    /// Runs until it is told to stop.
    RunsOn,
}

impl Worker {
    /// Joins the sidecar at `socket`, and every later one there.
    pub(crate) fn start(socket: PathBuf, tools: Vec<pb::ToolDefinition>, habit: Habit) -> Self {
        let inner = Arc::new(Mutex::new(Inner::default()));
        let (welcomed, welcomes) = watch::channel(0);
        let (began, begun) = watch::channel(0);
        let mut tasks = JoinSet::new();
        let state = inner.clone();
        tasks.spawn(async move {
            loop {
                let hello = resuming("worker", "one", tools.clone());
                let session = Session {
                    inner: &state,
                    welcomed: &welcomed,
                    began: &began,
                    habit,
                };
                let _ = session.run(&socket, hello).await;
                tokio::time::sleep(BACK_OFF).await;
            }
        });
        Self {
            inner,
            welcomes,
            begun,
            _tasks: tasks,
        }
    }

    /// How often it was welcome so far.
    pub(crate) fn welcomes(&self) -> u32 {
        *self.welcomes.borrow()
    }

    /// Waits until it was welcome more often than `before`.
    pub(crate) async fn welcome_after(&self, before: u32) {
        let mut welcomes = self.welcomes.clone();
        soon(
            "the worker to join",
            welcomes.wait_for(|count| *count > before),
        )
        .await
        .unwrap();
    }

    /// Waits until that many handlers have begun.
    pub(crate) async fn has_begun(&self, count: u32) {
        let mut begun = self.begun.clone();
        soon(
            "a handler to begin",
            begun.wait_for(|begun| *begun >= count),
        )
        .await
        .unwrap();
    }

    /// How often the handler of a call began.
    pub(crate) fn begun(&self, turn: &str, call: &str) -> u32 {
        let key = (turn.to_owned(), call.to_owned());
        self.inner.lock().begun.get(&key).copied().unwrap_or(0)
    }
}

struct Session<'a> {
    inner: &'a Mutex<Inner>,
    welcomed: &'a watch::Sender<u32>,
    began: &'a watch::Sender<u32>,
    habit: Habit,
}

impl Session<'_> {
    /// One stream, to its end. None: it ended or never began.
    async fn run(&self, socket: &Path, hello: pb::Hello) -> Option<()> {
        let target = Target {
            endpoint: Some(format!("unix://{}", socket.display())),
            token: None,
        };
        let channel = target.connect().await.ok()?;
        let (out, words) = mpsc::channel(1_024);
        let say = |word: Word| {
            let out = out.clone();
            async move { out.send(pb::ConnectRequest { body: Some(word) }).await.ok() }
        };
        say(Word::Hello(self.hello(hello))).await?;
        let mut client = ExecutorServiceClient::new(channel);
        let connecting = client.connect(ReceiverStream::new(words));
        let mut inbound = connecting.await.ok()?.into_inner();
        loop {
            let heard = inbound.message().await.ok()??.body?;
            for word in self.answers(heard) {
                say(word).await?;
            }
        }
    }

    fn hello(&self, hello: pb::Hello) -> pb::Hello {
        let inner = self.inner.lock();
        let listed = inner
            .in_flight
            .iter()
            .map(|((execution_id, attempt), held)| {
                let execution = pb::ExecutionRef {
                    execution_id: execution_id.clone(),
                    attempt: *attempt,
                };
                let state = match held {
                    None => pb::InFlightState::Running,
                    Some(_) => pb::InFlightState::Finished,
                };
                (execution, state)
            });
        again(hello, &inner.token, listed)
    }

    fn answers(&self, heard: Heard) -> Vec<Word> {
        match heard {
            Heard::Welcome(welcome) => self.welcome(welcome),
            Heard::Execute(request) => self.execute(&request),
            Heard::ResultAck(ack) => {
                self.inner
                    .lock()
                    .in_flight
                    .remove(&key(ack.execution.as_ref()));
                Vec::new()
            }
            Heard::Cancel(cancel) => self.stop(cancel.execution.as_ref()),
            Heard::Ping(ping) => vec![Word::Pong(pb::Pong { nonce: ping.nonce })],
            Heard::OutputCredit(_)
            | Heard::PermissionCheck(_)
            | Heard::ResolveFacts(_)
            | Heard::Pong(_)
            | Heard::ToolUpdateResult(_)
            | Heard::DrainStarted(_)
            | Heard::GoAway(_)
            | Heard::Notice(_) => Vec::new(),
        }
    }

    fn welcome(&self, welcome: pb::Welcome) -> Vec<Word> {
        let mut words = Vec::new();
        for decision in &welcome.in_flight {
            let key = key(decision.execution.as_ref());
            match decision.action() {
                pb::InFlightAction::Unspecified | pb::InFlightAction::Continue => {}
                pb::InFlightAction::Cancel => words.extend(self.stop(decision.execution.as_ref())),
                pb::InFlightAction::SendResult => {
                    let held = self.inner.lock().in_flight.get(&key).cloned().flatten();
                    words.extend(held.map(Word::Result));
                }
                pb::InFlightAction::Forget => {
                    self.inner.lock().in_flight.remove(&key);
                }
            }
        }
        self.inner.lock().token = welcome.resume_token;
        self.welcomed.send_modify(|count| *count += 1);
        words
    }

    fn execute(&self, request: &pb::ExecuteRequest) -> Vec<Word> {
        let accepted = Word::Accepted(pb::ExecuteAccepted {
            execution: request.execution.clone(),
            queued: false,
        });
        let turn = request.context.as_ref().unwrap().turn_id.clone();
        let text = format!("{turn} {}", request.call_id);
        let result = (self.habit == Habit::Answers).then(|| pb::ExecuteResult {
            execution: request.execution.clone(),
            outcome: Some(pb::execute_result::Outcome::Result(text_result(&text))),
        });
        let mut inner = self.inner.lock();
        *inner
            .begun
            .entry((turn, request.call_id.clone()))
            .or_default() += 1;
        inner
            .in_flight
            .insert(key(request.execution.as_ref()), result.clone());
        self.began.send_modify(|count| *count += 1);
        [Some(accepted), result.map(Word::Result)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn stop(&self, execution: Option<&pb::ExecutionRef>) -> Vec<Word> {
        let mut inner = self.inner.lock();
        let Some(held) = inner.in_flight.get_mut(&key(execution)) else {
            return vec![Word::CancelAck(pb::CancelAck {
                execution: execution.cloned(),
                unknown_execution: true,
            })];
        };
        if held.is_some() {
            return Vec::new();
        }
        let result = pb::ExecuteResult {
            execution: execution.cloned(),
            outcome: Some(pb::execute_result::Outcome::Cancelled(
                pb::ExecutionCancelled {
                    effect: pb::CallEffect::Executed as i32,
                    message: String::new(),
                },
            )),
        };
        *held = Some(result.clone());
        vec![Word::Result(result)]
    }
}

fn key(execution: Option<&pb::ExecutionRef>) -> Key {
    let execution = execution.unwrap();
    (execution.execution_id.clone(), execution.attempt)
}
