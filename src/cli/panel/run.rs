//! The panel's loop: owns the terminal and the streams, and does what the state asks for.
//!
//! Every message is drawn before the next key is taken, so that a key is always about what was on the
//! screen. Never decides anything.

use std::time::Duration;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::session_service_client::SessionServiceClient;
use crossterm::event::EventStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::Status;

use super::state::{Command, Message, Panel};
use super::terminal::{Screen, asks_to_redraw, message_of};
use super::watch::{self, Out};
use crate::base::clock::Clock;
use crate::base::tasks::Tasks;
use crate::cli::deciding::{Desk, Surface, desk, send};
use crate::cli::output::Outcome;
use crate::cli::sessions::mode_change;

/// Messages that wait to be shown.
const INBOX_MAX: usize = 64;
/// How often ages are looked at.
const TICK: Duration = Duration::from_secs(5);
/// Longest wait for an answer, attempts that were lost included.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long decisions on their way may take after the panel was left.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// What is watched.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// These sessions and their child sessions. Empty: all.
    pub(super) root_session_ids: Vec<String>,
    /// This session alone. Empty: all.
    pub(super) session_id: String,
}

/// Signals that end the panel.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Everything that answers to the panel.
struct Errands {
    desk: Desk,
    sessions: SessionServiceClient<AuthorizedChannel>,
    tasks: Tasks,
    out: Out,
}

/// Runs the panel until somebody leaves it.
pub(super) async fn run(channel: AuthorizedChannel, scope: Scope) -> Result<(), Outcome> {
    let (out, inbox) = mpsc::channel(INBOX_MAX);
    let errands = Errands {
        desk: desk(channel.clone()),
        sessions: SessionServiceClient::new(channel.clone()),
        tasks: Tasks::new(),
        out,
    };
    errands.follow(channel, scope);
    let ended = match show(&errands, inbox).await {
        Ok(ended) => ended,
        Err(error) => Err(Outcome::failed(format!("terminal: {error}"))),
    };
    errands.tasks.close(CLOSE_GRACE).await;
    ended
}

/// Shows the panel. The terminal is given back before this returns.
async fn show(
    errands: &Errands,
    mut inbox: mpsc::Receiver<Message>,
) -> std::io::Result<Result<(), Outcome>> {
    let clock = Clock::system();
    let mut signals = Signals::listen()?;
    let mut screen = Screen::enter()?;
    let mut keys = EventStream::new();
    let mut ticks = tokio::time::interval(TICK);
    let mut panel = Panel::new(screen.size()?, clock.now_ms());
    screen.draw(&panel)?;
    loop {
        let message = tokio::select! {
            () = signals.any() => return Ok(Ok(())),
            event = keys.next() => match event {
                // Nobody can press a key any more.
                None => return Ok(Ok(())),
                Some(event) => {
                    let event = event?;
                    if asks_to_redraw(&event) {
                        screen.clear()?;
                        screen.draw(&panel)?;
                    }
                    message_of(event)
                }
            },
            message = inbox.recv() => message,
            _ = ticks.tick() => Some(Message::Tick { now_ms: clock.now_ms() }),
        };
        let mut commands = message.map_or_else(Vec::new, |message| panel.update(message));
        // What else came over the wire is drawn with it; a slow terminal falls no further behind.
        while let Ok(message) = inbox.try_recv() {
            commands.extend(panel.update(message));
        }
        if Screen::has_panicked() {
            return Err(std::io::Error::other("the panel broke"));
        }
        let redraws = commands.contains(&Command::Redraw);
        for command in commands {
            if let Some(ended) = errands.run(command) {
                return Ok(ended);
            }
        }
        if redraws {
            screen.draw(&panel)?;
        }
    }
}

impl Errands {
    /// Starts to follow the streams.
    fn follow(&self, channel: AuthorizedChannel, scope: Scope) {
        let filter = pb::ApprovalFilter {
            root_session_ids: scope.root_session_ids.clone(),
            session_id: scope.session_id.clone(),
            ..pb::ApprovalFilter::default()
        };
        let approvals = watch::approvals(self.desk.clone(), filter, self.out.clone());
        let filter = pb::EventFilter {
            root_session_ids: scope.root_session_ids,
            session_id: scope.session_id,
            kinds: vec![pb::EventKind::Turn as i32, pb::EventKind::Session as i32],
        };
        let events = watch::events(channel, filter, self.out.clone());
        let tasks = self.tasks.clone();
        self.tasks.spawn("panel streams", async move {
            let both = async { tokio::join!(approvals, events) };
            tokio::select! {
                () = tasks.stopped() => {}
                _ = both => {}
            }
        });
    }

    /// Does what the state asks for. Some: the panel is over.
    fn run(&self, command: Command) -> Option<Result<(), Outcome>> {
        match command {
            Command::Redraw => {}
            Command::Quit => return Some(Ok(())),
            Command::Fail(problem) => return Some(Err(Outcome::failed(problem))),
            Command::Fetch(approval_id) => self.fetch(approval_id),
            Command::Decide(decision) => self.decide(*decision),
            Command::LookUp(session_id) => self.look_up(session_id),
            Command::SetMode(session, mode) => self.set_mode(&session, mode),
        }
        None
    }

    /// Tells the panel what comes of some work. A panel that is gone is told nothing.
    fn report(&self, work: impl Future<Output = Message> + Send + 'static) {
        let out = self.out.clone();
        self.tasks.spawn("panel request", async move {
            let message = work.await;
            let _ = out.send(message).await;
        });
    }

    fn fetch(&self, approval_id: String) {
        let mut desk = self.desk.clone();
        self.report(async move {
            let request = pb::GetApprovalRequest {
                approval_id: approval_id.clone(),
            };
            let answer = in_time(desk.get_approval(request)).await;
            let approval = answer.map(|answer| answer.into_inner().approval);
            let result = approval.and_then(|approval| approval.map(Box::new).ok_or_else(nothing));
            Message::Fetched {
                approval_id,
                result,
            }
        });
    }

    fn decide(&self, decision: pb::ApprovalDecision) {
        let mut desk = self.desk.clone();
        self.report(async move {
            let approval_id = decision.approval_id.clone();
            let choice = decision.choice();
            let result = in_time(send(&mut desk, decision, Surface::Panel)).await;
            Message::Decided {
                approval_id,
                choice,
                result: result.map(Box::new),
            }
        });
    }

    fn look_up(&self, session_id: String) {
        let mut sessions = self.sessions.clone();
        self.report(async move {
            let request = pb::GetSessionRequest {
                session_id: session_id.clone(),
            };
            let answer = in_time(sessions.get_session(request)).await;
            let session = answer.map(|answer| answer.into_inner().session);
            let result = session.and_then(|session| session.map(Box::new).ok_or_else(nothing));
            Message::Session { session_id, result }
        });
    }

    fn set_mode(&self, seen: &pb::Session, mode: pb::Mode) {
        let mut sessions = self.sessions.clone();
        let request = mode_change(seen, mode);
        self.report(async move {
            let session_id = request.session_id.clone();
            let answer = in_time(sessions.update_session(request)).await;
            Message::ModeSet {
                session_id,
                result: answer.map(|answer| Box::new(answer.into_inner())),
            }
        });
    }
}

/// The answer, or why there is none.
async fn in_time<T>(asked: impl Future<Output = Result<T, Status>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => Err(format!("{:?}: {}", status.code(), status.message())),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

fn nothing() -> String {
    "an answer without what was asked for".to_owned()
}
