//! What each key means, by what is on the screen.
//!
//! One function per screen, so that a key typed as text is never looked up among the keys that decide.

use callgate_client::pb::v1 as pb;

use super::review::{Review, Step};
use super::state::{Command, Key, ModeChange, Panel};

/// Approvals that a page key moves over.
const PAGE: usize = 10;

impl Panel {
    pub(super) fn on_key(&mut self, key: Key) -> Vec<Command> {
        if key == Key::Interrupt {
            return vec![Command::Quit];
        }
        self.notice.clear();
        if self.mode_change.is_some() {
            return self.on_mode_key(key);
        }
        match self.review.as_ref().map(|review| &review.step) {
            None => self.on_list_key(key),
            Some(Step::Reading) => self.on_review_key(key),
            Some(Step::Comment { choice, .. }) => {
                let choice = *choice;
                self.on_comment_key(key, choice)
            }
            Some(Step::Grants { .. }) => self.on_grant_key(key),
        }
    }

    /// The review whose comment is being typed.
    pub(super) fn typing(&mut self) -> Option<&mut Review> {
        let is_typed = self.mode_change.is_none();
        let review = self.review.as_mut().filter(|_| is_typed);
        review.filter(|review| matches!(review.step, Step::Comment { .. }))
    }

    fn on_list_key(&mut self, key: Key) -> Vec<Command> {
        match key {
            Key::Up | Key::Char('k') => self.select(-1),
            Key::Down | Key::Char('j') => self.select(1),
            Key::PageUp => self.select(-PAGE.cast_signed()),
            Key::PageDown => self.select(PAGE.cast_signed()),
            Key::Home => self.select(isize::MIN),
            Key::End => self.select(isize::MAX),
            Key::Enter => return self.open_review(),
            Key::Char('m') => return self.begin_mode_change(),
            Key::Char('q') => return vec![Command::Quit],
            Key::Char(_) | Key::Escape | Key::Backspace | Key::Clear | Key::Interrupt => {}
        }
        Vec::new()
    }

    fn select(&mut self, by: isize) {
        let Some(place) = &self.selected else {
            return;
        };
        let steps = by.unsigned_abs();
        let moved = match by < 0 {
            true => {
                let above = self.pending.range(..place.clone());
                above.rev().take(steps).last()
            }
            false => {
                let below = self.pending.range(place.clone()..);
                below.skip(1).take(steps).last()
            }
        };
        if let Some((place, _)) = moved {
            self.selected = Some(place.clone());
        }
    }

    fn open_review(&mut self) -> Vec<Command> {
        let Some(approval) = self.selected_approval().cloned() else {
            return Vec::new();
        };
        let fetch = approval.arguments_cut.then(|| approval.approval_id.clone());
        let mut review = Review::open(approval, self.size, self.now_ms);
        review.sending = self.sending.get(&review.approval.approval_id).copied();
        self.review = Some(review);
        fetch.into_iter().map(Command::Fetch).collect()
    }

    fn on_review_key(&mut self, key: Key) -> Vec<Command> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        let page = review.body_rows().max(1);
        match key {
            Key::Up | Key::Char('k') => review.scroll_to(review.top.saturating_sub(1)),
            Key::Down | Key::Char('j') => review.scroll_to(review.top + 1),
            Key::PageUp | Key::Char('b') => review.scroll_to(review.top.saturating_sub(page)),
            Key::PageDown | Key::Char(' ') => review.scroll_to(review.top + page),
            Key::Home | Key::Char('g') => review.scroll_to(0),
            Key::End | Key::Char('G') => review.scroll_to(usize::MAX),
            Key::Escape | Key::Char('q') => self.review = None,
            Key::Char('c') => review.changed = false,
            Key::Char('r') => return vec![Command::Fetch(review.approval.approval_id.clone())],
            Key::Char('m') => return self.begin_mode_change(),
            Key::Char('a') => return self.approve_once(),
            Key::Char('s') => self.begin_grants(),
            Key::Char('d') => self.begin_comment(pb::ApprovalChoice::Deny),
            Key::Char('x') => self.begin_comment(pb::ApprovalChoice::CancelTurn),
            Key::Char(_) | Key::Enter | Key::Backspace | Key::Clear | Key::Interrupt => {}
        }
        Vec::new()
    }

    fn approve_once(&mut self) -> Vec<Command> {
        let choice = pb::ApprovalChoice::Once;
        match self.is_open_to(choice) {
            true => self.decide(choice),
            false => Vec::new(),
        }
    }

    /// Whether the call can be approved now. If not, the notice says why.
    fn is_open_to(&mut self, choice: pb::ApprovalChoice) -> bool {
        let Some(review) = &self.review else {
            return false;
        };
        let why_not = match review.sending {
            Some(_) => Some("a decision is on its way"),
            None => review.why_not(choice),
        };
        self.notice = why_not.unwrap_or_default().to_owned();
        why_not.is_none()
    }

    fn begin_grants(&mut self) {
        if self.is_open_to(pb::ApprovalChoice::Session)
            && let Some(review) = &mut self.review
        {
            review.begin_grants();
        }
    }

    fn begin_comment(&mut self, choice: pb::ApprovalChoice) {
        let Some(review) = &mut self.review else {
            return;
        };
        // What was not read can be denied all the same.
        let is_offered = choice == pb::ApprovalChoice::Deny || review.offers(choice);
        self.notice = match (review.is_pending(), review.sending, is_offered) {
            (false, _, _) => "nothing is to be decided here any more".to_owned(),
            (true, Some(_), _) => "a decision is on its way".to_owned(),
            (true, None, false) => "that is not offered here".to_owned(),
            (true, None, true) => {
                let text = String::new();
                review.step = Step::Comment { choice, text };
                String::new()
            }
        };
    }

    fn on_comment_key(&mut self, key: Key, choice: pb::ApprovalChoice) -> Vec<Command> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        match key {
            Key::Char(typed) => review.write(typed.encode_utf8(&mut [0; 4])),
            Key::Backspace | Key::Clear => {
                if let Step::Comment { text, .. } = &mut review.step {
                    match key == Key::Clear {
                        true => text.clear(),
                        false => drop(text.pop()),
                    }
                }
            }
            Key::Escape => review.step = Step::Reading,
            Key::Enter if !review.is_pending() => {
                review.step = Step::Reading;
                self.notice = "nothing is to be decided here any more".to_owned();
            }
            Key::Enter if review.changed => {
                review.changed = false;
                self.notice = "it changed meanwhile: enter again is about the new one".to_owned();
            }
            Key::Enter => return self.decide(choice),
            Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Interrupt => {}
        }
        Vec::new()
    }

    fn on_grant_key(&mut self, key: Key) -> Vec<Command> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        match key {
            Key::Up | Key::Char('k') => review.move_cursor(-1),
            Key::Down | Key::Char('j') => review.move_cursor(1),
            Key::Char(' ') => review.pick(),
            Key::Escape | Key::Char('q') => review.step = Step::Reading,
            Key::Enter => match review.unpicked() {
                0 => {
                    let choice = pb::ApprovalChoice::Session;
                    if self.is_open_to(choice) {
                        return self.decide(choice);
                    }
                }
                parts => {
                    self.notice = format!("pick one for each part: {parts} left, press space");
                }
            },
            Key::Char(_)
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Backspace
            | Key::Clear
            | Key::Interrupt => {}
        }
        Vec::new()
    }

    fn decide(&mut self, choice: pb::ApprovalChoice) -> Vec<Command> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        let decision = review.decision(choice);
        review.sending = Some(choice);
        review.step = Step::Reading;
        self.sending.insert(decision.approval_id.clone(), choice);
        vec![Command::Decide(Box::new(decision))]
    }

    fn begin_mode_change(&mut self) -> Vec<Command> {
        let reviewed = self.review.as_ref().map(|review| &review.approval);
        let Some(approval) = reviewed.or_else(|| self.selected_approval()) else {
            return Vec::new();
        };
        let session_id = approval.session_id.clone();
        self.mode_change = Some(ModeChange {
            session_id: session_id.clone(),
            session: None,
            sending: false,
        });
        vec![Command::LookUp(session_id)]
    }

    fn on_mode_key(&mut self, key: Key) -> Vec<Command> {
        let mode = match key {
            Key::Char('1') => pb::Mode::Plan,
            Key::Char('2') => pb::Mode::Default,
            Key::Char('3') => pb::Mode::AcceptEdits,
            Key::Char('4') => pb::Mode::Auto,
            Key::Escape | Key::Char('q') => {
                self.mode_change = None;
                return Vec::new();
            }
            Key::Char(_)
            | Key::Enter
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Backspace
            | Key::Clear
            | Key::Interrupt => return Vec::new(),
        };
        let Some(change) = &mut self.mode_change else {
            return Vec::new();
        };
        let Some(session) = change.session.clone().filter(|_| !change.sending) else {
            return Vec::new();
        };
        if session.max_mode != 0 && mode as i32 > session.max_mode {
            self.notice = "that mode is not allowed in this session".to_owned();
            return Vec::new();
        }
        change.sending = true;
        vec![Command::SetMode(Box::new(session), mode)]
    }
}
