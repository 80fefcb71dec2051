//! The panel as a pure machine: messages in, commands out.
//!
//! Knows no terminal, no network and no clock. Never decides without a key that was pressed in a review,
//! and never with a key that was typed as text.

use std::collections::{BTreeMap, BTreeSet};

use callgate_client::pb::v1 as pb;

use super::calls::Calls;
use super::layout::Size;
use super::review::{Change, Review};
use crate::cli::approval_text::{age, choice_word, mode_word};
use crate::cli::deciding::refusal;
use crate::cli::visible::visible;

/// Approvals whose arguments are kept while nobody reviews them; further ones are fetched when opened.
const WITH_ARGUMENTS_MAX: usize = 200;
/// Sessions whose mode is remembered.
const MODES_MAX: usize = 512;

/// A key, as far as the panel cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Backspace,
    /// Forget the text typed so far.
    Clear,
    /// Leave, from anywhere.
    Interrupt,
}

/// What the panel is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    Key(Key),
    /// Text that was pasted. Never a key.
    Pasted(String),
    Resized(Size),
    /// Time has passed.
    Tick {
        now_ms: u64,
    },
    /// A watch stands. Fresh: what waits is told first.
    WatchBegan {
        fresh: bool,
    },
    /// Approvals as they are now.
    Approvals {
        approvals: Vec<pb::Approval>,
        snapshot_complete: bool,
    },
    /// The watch broke and is tried again.
    WatchLost {
        problem: String,
        retry_ms: u64,
    },
    /// The watch is refused for good.
    Refused(String),
    /// Events are told. Fresh: what is there comes first.
    FeedBegan {
        fresh: bool,
    },
    Events(Vec<pb::EventRecord>),
    /// Events broke and are tried again.
    FeedLost,
    /// Nobody tells events here.
    FeedNotServed,
    /// An approval that was asked for.
    Fetched {
        approval_id: String,
        result: Result<Box<pb::Approval>, String>,
    },
    /// What became of a decision.
    Decided {
        approval_id: String,
        choice: pb::ApprovalChoice,
        result: Result<Box<pb::DecisionOutcome>, String>,
    },
    /// A session that was asked for.
    Session {
        session_id: String,
        result: Result<Box<pb::Session>, String>,
    },
    /// What became of a change of mode.
    ModeSet {
        session_id: String,
        result: Result<Box<pb::UpdateSessionResponse>, String>,
    },
}

/// What the panel wants done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Command {
    /// Something looks different now.
    Redraw,
    /// Read an approval whole.
    Fetch(String),
    /// Send a decision.
    Decide(Box<pb::ApprovalDecision>),
    /// Read a session.
    LookUp(String),
    /// Give a session, as it was seen, another mode.
    SetMode(Box<pb::Session>, pb::Mode),
    /// Leave.
    Quit,
    /// Leave and say why.
    Fail(String),
}

/// How the stream of approvals stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    Connecting,
    Live,
    Lost { problem: String, retry_ms: u64 },
}

/// How the stream of events stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    Connecting,
    Live,
    Lost,
    NotServed,
}

/// A session whose mode is being changed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModeChange {
    pub(super) session_id: String,
    /// None: not read yet.
    pub(super) session: Option<pb::Session>,
    pub(super) sending: bool,
}

/// Where an approval stands in the list: oldest first.
type Place = (u64, String);

/// The panel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    pub(super) size: Size,
    pub(super) now_ms: u64,
    pub(super) link: Link,
    pub(super) feed: Feed,
    pub(super) pending: BTreeMap<Place, pb::Approval>,
    /// When each pending one was made, by its id.
    created: BTreeMap<String, u64>,
    /// Ids that a snapshot has told so far. None: no snapshot is being told.
    snapshot: Option<BTreeSet<String>>,
    pub(super) selected: Option<Place>,
    /// Decisions on their way, by approval.
    pub(super) sending: BTreeMap<String, pb::ApprovalChoice>,
    pub(super) calls: Calls,
    modes: BTreeMap<String, i32>,
    pub(super) review: Option<Review>,
    /// Lies over everything else.
    pub(super) mode_change: Option<ModeChange>,
    pub(super) notice: String,
}

impl Panel {
    pub(super) fn new(size: Size, now_ms: u64) -> Self {
        Self {
            size,
            now_ms,
            link: Link::Connecting,
            feed: Feed::Connecting,
            pending: BTreeMap::new(),
            created: BTreeMap::new(),
            snapshot: None,
            selected: None,
            sending: BTreeMap::new(),
            calls: Calls::default(),
            modes: BTreeMap::new(),
            review: None,
            mode_change: None,
            notice: String::new(),
        }
    }

    /// Takes a message. Gives back what is to be done, in order.
    pub(super) fn update(&mut self, message: Message) -> Vec<Command> {
        let mut commands = match message {
            Message::Key(key) => self.on_key(key),
            Message::Pasted(text) => {
                if let Some(review) = self.typing() {
                    review.write(&text);
                }
                Vec::new()
            }
            Message::Resized(size) => {
                self.size = size;
                if let Some(review) = &mut self.review {
                    review.resize(size);
                }
                Vec::new()
            }
            // The only message that mostly changes nothing on the screen.
            Message::Tick { now_ms } => return self.on_tick(now_ms),
            Message::WatchBegan { fresh } => {
                self.link = Link::Live;
                self.snapshot = fresh.then(BTreeSet::new);
                Vec::new()
            }
            Message::Approvals {
                approvals,
                snapshot_complete,
            } if approvals.is_empty() && !snapshot_complete => return Vec::new(),
            Message::Approvals {
                approvals,
                snapshot_complete,
            } => self.on_approvals(approvals, snapshot_complete),
            Message::WatchLost { problem, retry_ms } => {
                self.link = Link::Lost { problem, retry_ms };
                Vec::new()
            }
            Message::Refused(problem) => return vec![Command::Fail(problem)],
            Message::FeedBegan { fresh } => {
                self.feed = Feed::Live;
                if fresh {
                    self.calls.clear();
                }
                Vec::new()
            }
            Message::Events(events) => match self.on_events(&events) {
                true => Vec::new(),
                false => return Vec::new(),
            },
            Message::FeedLost => {
                self.feed = Feed::Lost;
                Vec::new()
            }
            Message::FeedNotServed => {
                self.feed = Feed::NotServed;
                Vec::new()
            }
            Message::Fetched {
                approval_id,
                result,
            } => self.on_fetched(&approval_id, result),
            Message::Decided {
                approval_id,
                choice,
                result,
            } => self.on_decided(&approval_id, choice, result),
            Message::Session { session_id, result } => self.on_session(&session_id, result),
            Message::ModeSet { session_id, result } => self.on_mode_set(&session_id, result),
        };
        commands.push(Command::Redraw);
        commands
    }

    /// The mode of a session, as far as it was told since `else_mode` was.
    pub(super) fn mode_of(&self, session: &str, else_mode: i32) -> String {
        mode_word(self.modes.get(session).copied().unwrap_or(else_mode))
    }

    pub(super) fn selected_approval(&self) -> Option<&pb::Approval> {
        self.selected
            .as_ref()
            .and_then(|place| self.pending.get(place))
    }

    fn on_tick(&mut self, now_ms: u64) -> Vec<Command> {
        let ages = |now_ms: u64| -> Vec<String> {
            let pending = self.pending.keys();
            let mut ages: Vec<_> = pending.map(|(since, _)| age(*since, now_ms)).collect();
            let reviewed = self.review.iter();
            ages.extend(reviewed.map(|review| age(review.approval.created_at_ms, now_ms)));
            ages
        };
        let differs = ages(self.now_ms) != ages(now_ms);
        self.now_ms = now_ms;
        match differs {
            true => vec![Command::Redraw],
            false => Vec::new(),
        }
    }

    fn on_approvals(&mut self, approvals: Vec<pb::Approval>, complete: bool) -> Vec<Command> {
        let mut commands = Vec::new();
        for approval in approvals {
            if let Some(told) = &mut self.snapshot {
                told.insert(approval.approval_id.clone());
            }
            commands.extend(self.take(approval));
        }
        if complete && let Some(told) = self.snapshot.take() {
            let gone = self.created.keys().filter(|id| !told.contains(*id));
            for id in gone.cloned().collect::<Vec<_>>() {
                self.forget(&id);
                // It ended while nobody told us: how, the sidecar knows.
                let is_reviewed = self.review_of(&id).is_some();
                commands.extend(is_reviewed.then(|| Command::Fetch(id)));
            }
        }
        commands
    }

    /// Takes an approval as it is now.
    fn take(&mut self, approval: pb::Approval) -> Option<Command> {
        let id = approval.approval_id.clone();
        let mut fetch = None;
        // Told before the answer to it came, it is most likely our own decision.
        let is_ours = self.sending.contains_key(&id);
        if let Some(review) = self.review_of(&id) {
            let change = review.take(&approval);
            let is_cut = review.approval.arguments_cut && review.is_pending();
            fetch = is_cut.then(|| Command::Fetch(id.clone()));
            match change {
                Change::None => {}
                Change::Ended if is_ours => {}
                Change::Substance => self.notice = "it changed: this is the new one".to_owned(),
                Change::Ended => self.notice = "it was decided elsewhere".to_owned(),
            }
        }
        if approval.state() != pb::ApprovalState::Pending {
            self.forget(&id);
            return fetch;
        }
        let place = (approval.created_at_ms, id.clone());
        self.created.insert(id, approval.created_at_ms);
        let mut kept = approval;
        if self.pending.len() >= WITH_ARGUMENTS_MAX {
            kept.arguments_cut = true;
            kept.display_arguments.clear();
            kept.effective_arguments_json.clear();
            kept.call.get_or_insert_default().arguments_json.clear();
        }
        self.pending.insert(place.clone(), kept);
        self.selected.get_or_insert(place);
        fetch
    }

    /// Takes an approval off the list; what is below it is selected in its place.
    fn forget(&mut self, id: &str) {
        let Some(created) = self.created.remove(id) else {
            return;
        };
        let place = (created, id.to_owned());
        self.pending.remove(&place);
        if self.selected.as_ref() == Some(&place) {
            let below = self.pending.range(place..).next();
            let next = below.or_else(|| self.pending.last_key_value());
            self.selected = next.map(|(place, _)| place.clone());
        }
    }

    pub(super) fn review_of(&mut self, id: &str) -> Option<&mut Review> {
        let review = self.review.as_mut();
        review.filter(|review| review.approval.approval_id == id)
    }

    fn on_events(&mut self, events: &[pb::EventRecord]) -> bool {
        let mut differs = false;
        for event in events {
            if let Some(pb::event_record::Body::SessionChanged(changed)) = &event.body
                && let Some(session) = &changed.session
            {
                self.know_mode(session);
                differs = true;
            }
            differs |= self.calls.take(event);
        }
        differs
    }

    fn know_mode(&mut self, session: &pb::Session) {
        if self.modes.len() >= MODES_MAX {
            self.modes.pop_first();
        }
        let mode = session.settings.as_ref().map_or(0, |set| set.mode);
        self.modes.insert(session.session_id.clone(), mode);
    }

    fn on_fetched(&mut self, id: &str, result: Result<Box<pb::Approval>, String>) -> Vec<Command> {
        match result {
            Ok(approval) => {
                self.take(*approval);
            }
            Err(problem) => {
                if self.review_of(id).is_some() {
                    self.notice = format!("cannot be read: {}", visible(&problem));
                }
            }
        }
        Vec::new()
    }

    fn on_decided(
        &mut self,
        id: &str,
        choice: pb::ApprovalChoice,
        result: Result<Box<pb::DecisionOutcome>, String>,
    ) -> Vec<Command> {
        self.sending.remove(id);
        if let Some(review) = self.review_of(id) {
            review.sending = None;
        }
        let word = choice_word(choice as i32);
        let shown = visible(id);
        match result {
            Ok(outcome) => match refusal(&outcome) {
                None => {
                    self.forget(id);
                    if self.review_of(id).is_some() {
                        self.review = None;
                    }
                    self.notice = format!("{word} holds for {shown}");
                    Vec::new()
                }
                Some(refusal) => {
                    let mut commands = Vec::new();
                    match outcome.approval {
                        Some(now) => commands.extend(self.take(now)),
                        None => commands.push(Command::Fetch(id.to_owned())),
                    }
                    if let Some(review) = self.review_of(id).filter(|review| review.is_pending()) {
                        review.must_be_read_again();
                    }
                    self.notice = format!("{word} was not taken for {shown}: {refusal}");
                    commands
                }
            },
            Err(problem) => {
                let problem = visible(&problem);
                self.notice = format!("no answer to {word}, it may hold or not: {problem}");
                vec![Command::Fetch(id.to_owned())]
            }
        }
    }

    fn on_session(&mut self, id: &str, result: Result<Box<pb::Session>, String>) -> Vec<Command> {
        match result {
            Ok(session) => {
                self.know_mode(&session);
                if let Some(change) = self.changing(id) {
                    change.session = Some(*session);
                }
            }
            Err(problem) => {
                if self.changing(id).is_some() {
                    self.mode_change = None;
                    self.notice = format!("session cannot be read: {}", visible(&problem));
                }
            }
        }
        Vec::new()
    }

    fn changing(&mut self, session: &str) -> Option<&mut ModeChange> {
        let change = self.mode_change.as_mut();
        change.filter(|change| change.session_id == session)
    }

    fn on_mode_set(
        &mut self,
        id: &str,
        result: Result<Box<pb::UpdateSessionResponse>, String>,
    ) -> Vec<Command> {
        match result {
            Ok(answer) => {
                if let Some(session) = &answer.session {
                    self.know_mode(session);
                }
                if self.changing(id).is_some() {
                    self.mode_change = None;
                }
                let mode = self.mode_of(id, 0);
                let (released, denied) = (answer.released, answer.denied);
                let id = visible(id);
                self.notice =
                    format!("mode of {id} is {mode}; {released} released, {denied} denied");
                Vec::new()
            }
            Err(problem) => {
                self.notice = format!("the mode was not changed: {}", visible(&problem));
                let Some(change) = self.changing(id) else {
                    return Vec::new();
                };
                // It may have changed meanwhile: only what is read now can be changed.
                change.sending = false;
                change.session = None;
                vec![Command::LookUp(id.to_owned())]
            }
        }
    }
}
