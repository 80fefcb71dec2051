//! One stream of a hook process, and one question on its way over it.
//!
//! A question waits for a free place, is sent, and has its own time from then on. Whatever becomes of
//! it, exactly one answer is handed in, or none if nobody waits any more; then the process is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::convert;
use crate::engine::HookQuestion;
use crate::executor::{Lanes, SharedMailbox};
use crate::gate::hooks::{FailureKind, HookAnswer, HookFailure};
use crate::gate::turn::Input;
use crate::pb::v1 as pb;
use pb::connect_hook_response::Body;

/// Most questions of one stream whose late answers are told apart from answers to nothing.
const OVERDUE_MAX: usize = 1_024;

/// The way out to one hook process.
pub(super) type HookLanes = Lanes<pb::ConnectHookResponse>;

/// Most messages that wait for the welcome of their process.
const EARLY_MAX: usize = 1_024;

/// What came about one question.
enum Said {
    /// Its answer.
    Verdict(Box<pb::HookVerdict>),
    /// It takes longer, by that much.
    Longer(Duration),
}

/// Who answers a question.
pub(super) enum Answerer {
    /// This stream.
    Here(Arc<Connection>),
    /// A process that has not come back since the sidecar restarted.
    Returning(watch::Receiver<Option<Arc<Connection>>>),
    /// Nobody.
    Gone,
}

/// One stream.
pub(super) struct Connection {
    pub(super) instance: String,
    pub(super) lanes: Arc<HookLanes>,
    slots: Semaphore,
    message_bytes_max: usize,
    questions: Mutex<Questions>,
    /// What is said before the process is welcomed. None: it was.
    early: Mutex<Option<Vec<pb::ConnectHookResponse>>>,
}

/// What the process was asked.
#[derive(Default)]
struct Questions {
    waiting: BTreeMap<String, Waiting>,
    /// Those whose time was over before an answer came, the oldest first.
    overdue: VecDeque<String>,
}

struct Waiting {
    verdict: Option<oneshot::Sender<Said>>,
    longer: Option<oneshot::Sender<Said>>,
}

/// What became of a word of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It counts.
    Yes,
    /// Nobody waits for it.
    Unknown,
    /// It was said before.
    Again,
    /// It comes after its time.
    Late,
}

impl Connection {
    pub(super) fn new(
        instance: String,
        lanes: Arc<HookLanes>,
        slots: usize,
        message_bytes_max: usize,
    ) -> Self {
        Self {
            instance,
            lanes,
            slots: Semaphore::new(slots),
            message_bytes_max,
            questions: Mutex::default(),
            early: Mutex::new(Some(Vec::new())),
        }
    }

    /// The process gets its welcome, and then what it was asked meanwhile.
    pub(super) fn open(&self, welcome: pb::ConnectHookResponse) {
        let mut early = self.early.lock();
        self.lanes.control(welcome);
        for message in early.take().into_iter().flatten() {
            self.lanes.work(message);
        }
    }

    /// Tells the process something. One that is too large for it is not told.
    pub(super) fn tell(&self, invocation: pb::HookInvocation) -> bool {
        let message = pb::ConnectHookResponse {
            body: Some(Body::Invocation(invocation)),
        };
        if message.encoded_len() > self.message_bytes_max {
            return false;
        }
        match &mut *self.early.lock() {
            Some(early) if early.len() < EARLY_MAX => early.push(message),
            Some(_) => return false,
            None => return self.lanes.work(message),
        }
        true
    }

    fn wait_for(&self, invocation_id: String, waiting: Waiting) {
        let waiting_for = &mut self.questions.lock().waiting;
        waiting_for.insert(invocation_id, waiting);
    }

    /// The process answered.
    pub(super) fn answered(&self, verdict: pb::HookVerdict) -> Taken {
        let mut questions = self.questions.lock();
        let Some(mut one) = questions.waiting.remove(&verdict.invocation_id) else {
            return questions.late(&verdict.invocation_id);
        };
        let sent = one.verdict.take().map(|waiter| {
            // Whoever asked may have gone at this moment.
            waiter.send(Said::Verdict(Box::new(verdict))).is_ok()
        });
        match sent {
            Some(true) => Taken::Yes,
            // It crosses the end of its time.
            Some(false) | None => Taken::Late,
        }
    }

    /// The process wants more time, which it may once.
    pub(super) fn wants_longer(&self, invocation_id: &str, extra: Duration) -> Taken {
        let mut questions = self.questions.lock();
        let Some(one) = questions.waiting.get_mut(invocation_id) else {
            return Taken::Unknown;
        };
        match one.longer.take() {
            Some(waiter) => {
                let _ = waiter.send(Said::Longer(extra));
                Taken::Yes
            }
            None => Taken::Again,
        }
    }

    /// Nothing more comes: whoever waits learns that.
    pub(super) fn close(&self) {
        self.slots.close();
        *self.questions.lock() = Questions::default();
    }
}

impl Questions {
    /// A verdict that nobody waits for. It is late once, for a question whose time was over.
    fn late(&mut self, invocation_id: &str) -> Taken {
        let found = self.overdue.iter().position(|id| id == invocation_id);
        match found.and_then(|at| self.overdue.remove(at)) {
            Some(_) => Taken::Late,
            None => Taken::Unknown,
        }
    }

    fn is_over(&mut self, invocation_id: &str) {
        if self.overdue.len() >= OVERDUE_MAX {
            self.overdue.pop_front();
        }
        self.overdue.push_back(invocation_id.to_owned());
    }
}

/// Takes a question back when nobody waits for its answer any more.
struct Place<'a> {
    connection: &'a Connection,
    invocation_id: &'a str,
    /// Its time is over.
    is_over: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut questions = self.connection.questions.lock();
        let was_waiting = questions.waiting.remove(self.invocation_id).is_some();
        if was_waiting && self.is_over {
            questions.is_over(self.invocation_id);
        }
        drop(questions);
        if was_waiting {
            let cancelled = pb::InvocationCancelled {
                invocation_id: self.invocation_id.to_owned(),
            };
            self.connection.lanes.control(pb::ConnectHookResponse {
                body: Some(Body::InvocationCancelled(cancelled)),
            });
        }
    }
}

/// Asks and hands the answer in.
pub(super) async fn ask(
    answerer: Answerer,
    question: HookQuestion,
    invocation_id: String,
    mailbox: SharedMailbox,
) {
    let ticket = question.ask.ticket;
    let began = now();
    let connection = match answerer {
        Answerer::Here(connection) => Ok(connection),
        Answerer::Returning(comes) => comes_back(comes, question.ask.hook.timeout_ms).await,
        Answerer::Gone => Err("no process is connected"),
    };
    let answer = match connection {
        Ok(connection) => answer(&connection, &question, &invocation_id).await,
        Err(why) => unavailable(why),
    };
    let took = began.elapsed();
    mailbox.deliver(Input::HookAnswered {
        ticket,
        answer,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    });
}

/// Waits as long as the hook may take: a process needs a moment to notice that the sidecar is back.
async fn comes_back(
    mut comes: watch::Receiver<Option<Arc<Connection>>>,
    timeout_ms: u32,
) -> Result<Arc<Connection>, &'static str> {
    let limit = Duration::from_millis(u64::from(timeout_ms));
    let back = tokio::time::timeout(limit, comes.wait_for(Option::is_some)).await;
    match back {
        Ok(Ok(connection)) => connection.clone().ok_or("no process is connected"),
        Ok(Err(_)) => Err("no process is connected"),
        Err(_) => Err("its process has not come back since the sidecar restarted"),
    }
}

async fn answer(
    connection: &Connection,
    question: &HookQuestion,
    invocation_id: &str,
) -> HookAnswer {
    let Ok(_slot) = connection.slots.acquire().await else {
        return unavailable("its stream ended");
    };
    let (verdict, verdict_comes) = oneshot::channel();
    let (longer, longer_comes) = oneshot::channel();
    let waiting = Waiting {
        verdict: Some(verdict),
        longer: Some(longer),
    };
    let id = invocation_id.to_owned();
    connection.wait_for(id.clone(), waiting);
    let mut place = Place {
        connection,
        invocation_id,
        is_over: false,
    };
    let sent_at = now();
    if !connection.tell(convert::invocation(question, id)) {
        let problem = "the question could not be sent: it is too large, or nobody reads";
        return failed(FailureKind::Failed, problem);
    }
    let timeout = Duration::from_millis(u64::from(question.ask.hook.timeout_ms));
    let said = wait(verdict_comes, longer_comes, sent_at, timeout).await;
    place.is_over = said.is_none();
    drop(place);
    match said {
        Some(Ok(Said::Verdict(verdict))) => convert::answer(*verdict, question.ask.point),
        Some(Ok(Said::Longer(_)) | Err(_)) => unavailable("its stream ended"),
        None => failed(FailureKind::Timeout, "it did not answer in time"),
    }
}

/// Waits for the answer. None: the time is over.
async fn wait(
    verdict: oneshot::Receiver<Said>,
    longer: oneshot::Receiver<Said>,
    sent_at: Instant,
    timeout: Duration,
) -> Option<Result<Said, oneshot::error::RecvError>> {
    let mut verdict = std::pin::pin!(verdict);
    let mut longer = std::pin::pin!(longer);
    let mut until = sent_at + timeout;
    let mut may_be_longer = true;
    loop {
        tokio::select! {
            biased;
            said = verdict.as_mut() => return Some(said),
            more = longer.as_mut(), if may_be_longer => {
                may_be_longer = false;
                if let Ok(Said::Longer(extra)) = more {
                    until += extra.min(timeout);
                }
            }
            () = tokio::time::sleep_until(until) => return None,
        }
    }
}

fn unavailable(why: &str) -> HookAnswer {
    failed(FailureKind::Unavailable, why)
}

fn failed(kind: FailureKind, why: &str) -> HookAnswer {
    HookAnswer::Failed(HookFailure {
        kind,
        message: why.to_owned(),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "spans between messages need no wall time"
)]
fn now() -> Instant {
    Instant::now()
}
