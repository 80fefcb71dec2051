//! One approval before the eyes of a person: what was shown of it and what may be chosen.
//!
//! To approve is possible once the end was on the screen, and not after a change that was not read. To
//! deny is always possible. Never sends anything.

use std::collections::BTreeMap;

use callgate_client::pb::v1 as pb;

use super::layout::{HEAD_ROWS, NOTICE_ROWS, Size, pack, wrap};
use crate::cli::approval_text::lines;
use crate::cli::deciding::decision_on;

/// Longest text that is sent with a decision, in bytes.
const COMMENT_BYTES_MAX: usize = 4_096;

/// What a review is about to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The person reads.
    Reading,
    /// The person types why not. No key decides here but enter.
    Comment {
        choice: pb::ApprovalChoice,
        text: String,
    },
    /// The person picks what to store for the session.
    Grants {
        cursor: usize,
        /// The picked candidate of each part of the command.
        picked: BTreeMap<Option<u32>, String>,
    },
}

/// An approval under review.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Review {
    pub(super) approval: pb::Approval,
    opened_ms: u64,
    /// The whole text, broken for the screen.
    pub(super) rows: Vec<String>,
    /// First row on the screen.
    pub(super) top: usize,
    size: Size,
    /// The end was on the screen since the last change.
    pub(super) seen_end: bool,
    /// It changed and the person has not said that the change was read.
    pub(super) changed: bool,
    /// What was sent and is not answered yet.
    pub(super) sending: Option<pb::ApprovalChoice>,
    pub(super) step: Step,
}

/// What a changed approval means for its review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that matters is different.
    None,
    /// It is another one now and must be read again.
    Substance,
    /// Nothing is to be decided any more.
    Ended,
}

impl Review {
    pub(super) fn open(approval: pb::Approval, size: Size, now_ms: u64) -> Self {
        let mut review = Self {
            approval,
            opened_ms: now_ms,
            rows: Vec::new(),
            top: 0,
            size,
            seen_end: false,
            changed: false,
            sending: None,
            step: Step::Reading,
        };
        review.break_rows();
        review
    }

    fn break_rows(&mut self) {
        let lines = lines(&self.approval, self.opened_ms);
        let columns = self.size.width();
        self.rows = lines.iter().flat_map(|line| wrap(line, columns)).collect();
        self.scroll_to(self.top);
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
        self.break_rows();
    }

    /// Rows of the text that are on the screen at once.
    pub(super) fn body_rows(&self) -> usize {
        let keys = pack(&self.reading_keys(), self.size.width()).len();
        let around = HEAD_ROWS + 1 + NOTICE_ROWS + keys;
        self.size.height().saturating_sub(around)
    }

    /// Shows the text from this row on, or from the last from which a screen is full.
    pub(super) fn scroll_to(&mut self, top: usize) {
        let body = self.body_rows();
        self.top = top.min(self.rows.len().saturating_sub(body));
        let is_end = self.top + body >= self.rows.len();
        if is_end && !self.size.is_too_small() && !self.approval.arguments_cut {
            self.seen_end = true;
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.approval.state() == pb::ApprovalState::Pending
    }

    /// Takes the approval as it is now. Arguments that are known whole stay whole.
    pub(super) fn take(&mut self, now: &pb::Approval) -> Change {
        let was_pending = self.is_pending();
        let is_same = substance(&self.approval) == substance(now);
        let mut now = now.clone();
        if is_same && now.arguments_cut && !self.approval.arguments_cut {
            now.arguments_cut = false;
            now.display_arguments
                .clone_from(&self.approval.display_arguments);
            now.effective_arguments_json
                .clone_from(&self.approval.effective_arguments_json);
        }
        self.approval = now;
        let change = match (self.is_pending(), is_same) {
            (false, _) if was_pending => Change::Ended,
            (false, _) | (true, true) => Change::None,
            (true, false) => Change::Substance,
        };
        match change {
            Change::None => {}
            Change::Substance => self.must_be_read_again(),
            Change::Ended => {
                self.leave_grants();
                self.sending = None;
            }
        }
        self.break_rows();
        change
    }

    /// Whatever was shown is not what it is now.
    pub(super) fn must_be_read_again(&mut self) {
        self.changed = true;
        self.seen_end = false;
        self.sending = None;
        self.leave_grants();
        self.top = 0;
        self.scroll_to(0);
    }

    /// Back to reading. A comment stays: whoever types does not look, and the next letters would be keys.
    fn leave_grants(&mut self) {
        if matches!(self.step, Step::Grants { .. }) {
            self.step = Step::Reading;
        }
    }

    pub(super) fn offers(&self, choice: pb::ApprovalChoice) -> bool {
        let is_listed = self.approval.allowed_choices.contains(&(choice as i32));
        let needs_grant = choice == pb::ApprovalChoice::Session;
        is_listed && !(needs_grant && self.approval.grant_candidates.is_empty())
    }

    /// Why the call cannot be approved now. None: it can.
    pub(super) fn why_not(&self, choice: pb::ApprovalChoice) -> Option<&'static str> {
        if !self.is_pending() {
            return Some("nothing is to be decided here any more");
        }
        if !self.offers(choice) {
            return Some("that is not offered here");
        }
        if self.changed {
            return Some("it changed: read it, then press c");
        }
        if self.approval.arguments_cut {
            return Some("the arguments are not here whole yet: press r to read them again");
        }
        if self.size.is_too_small() {
            return Some("the screen is too small to approve anything on");
        }
        match self.seen_end {
            true => None,
            false => Some("read to the end before you approve: there is more below"),
        }
    }

    /// The keys that mean something now, each with its meaning.
    pub(super) fn keys(&self) -> Vec<&'static str> {
        match &self.step {
            Step::Reading => self.reading_keys(),
            Step::Comment { choice, .. } => vec![
                match choice {
                    pb::ApprovalChoice::CancelTurn => "enter cancel the turn",
                    pb::ApprovalChoice::Unspecified
                    | pb::ApprovalChoice::Once
                    | pb::ApprovalChoice::Session
                    | pb::ApprovalChoice::Deny
                    | pb::ApprovalChoice::Edit
                    | pb::ApprovalChoice::Respond => "enter deny",
                },
                "esc back",
            ],
            Step::Grants { .. } => {
                vec![
                    "up/down move",
                    "space pick",
                    "enter store and run",
                    "esc back",
                ]
            }
        }
    }

    fn reading_keys(&self) -> Vec<&'static str> {
        let offered = |choice, label| self.offers(choice).then_some(label);
        if !self.is_pending() {
            return vec!["up/down/pgup/pgdn read", "esc back"];
        }
        let keys = [
            self.changed.then_some("c I have read the change"),
            offered(pb::ApprovalChoice::Once, "a once"),
            offered(pb::ApprovalChoice::Session, "s session"),
            Some("d deny"),
            offered(pb::ApprovalChoice::CancelTurn, "x cancel turn"),
            Some("m mode"),
            Some("up/down/pgup/pgdn read"),
            Some("esc back"),
        ];
        keys.into_iter().flatten().collect()
    }

    /// The parts of the command of which none is picked yet.
    pub(super) fn unpicked(&self) -> usize {
        let Step::Grants { picked, .. } = &self.step else {
            return 0;
        };
        let candidates = self.approval.grant_candidates.iter();
        let mut parts: Vec<_> = candidates
            .map(|candidate| candidate.segment_index)
            .filter(|part| !picked.contains_key(part))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        parts.len()
    }

    /// Lets the person pick what to store. A lone proposal is picked already.
    pub(super) fn begin_grants(&mut self) {
        let picked = match self.approval.grant_candidates.as_slice() {
            [only] => BTreeMap::from([(only.segment_index, only.candidate_id.clone())]),
            [] | [_, _, ..] => BTreeMap::new(),
        };
        self.step = Step::Grants { cursor: 0, picked };
    }

    /// Moves among the proposals.
    pub(super) fn move_cursor(&mut self, by: isize) {
        let last = self.approval.grant_candidates.len().saturating_sub(1);
        if let Step::Grants { cursor, .. } = &mut self.step {
            *cursor = cursor.saturating_add_signed(by).min(last);
        }
    }

    /// Picks the proposal under the cursor in place of another of its part, or takes that back.
    pub(super) fn pick(&mut self) {
        let Step::Grants { cursor, picked } = &mut self.step else {
            return;
        };
        let Some(candidate) = self.approval.grant_candidates.get(*cursor) else {
            return;
        };
        let part = candidate.segment_index;
        let before = picked.insert(part, candidate.candidate_id.clone());
        if before.as_ref() == Some(&candidate.candidate_id) {
            picked.remove(&part);
        }
    }

    /// Adds typed or pasted text to the comment; line ends and other controls become blanks.
    pub(super) fn write(&mut self, typed: &str) {
        if let Step::Comment { text, .. } = &mut self.step {
            for character in typed.chars() {
                let character = if character.is_control() {
                    ' '
                } else {
                    character
                };
                if text.len() + character.len_utf8() <= COMMENT_BYTES_MAX {
                    text.push(character);
                }
            }
        }
    }

    /// The decision of the present step, on what is shown.
    pub(super) fn decision(&self, choice: pb::ApprovalChoice) -> pb::ApprovalDecision {
        let mut decision = decision_on(&self.approval, choice, "");
        match &self.step {
            Step::Reading => {}
            Step::Comment { text, .. } => decision.message.clone_from(text),
            Step::Grants { picked, .. } => {
                decision.grant_candidate_ids = picked.values().cloned().collect();
            }
        }
        decision
    }
}

/// What a person decides on: all but counters, and the arguments, which the digest stands for.
fn substance(approval: &pb::Approval) -> pb::Approval {
    let mut approval = approval.clone();
    approval.etag.clear();
    approval.pending_in_batch = 0;
    approval.arguments_cut = false;
    approval.display_arguments.clear();
    approval.effective_arguments_json.clear();
    if let Some(call) = &mut approval.call {
        call.arguments_json.clear();
    }
    if let Some(verdict) = &mut approval.verdict {
        verdict.policy_revision = 0;
    }
    for candidate in &mut approval.grant_candidates {
        candidate.also_covers = 0;
    }
    approval
}
