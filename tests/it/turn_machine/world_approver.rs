//! The approver on paper: decides at random, and holds the turn to what it was told.
//!
//! Never decides twice without saying the same.

use bytes::Bytes;
use callgate::gate::approval::{ApprovalState, Choice, Deciding, Outcome};
use callgate::gate::ids::CallIndex;
use callgate::gate::permission::{GrantId, Mode};
use callgate::gate::result::{Digest, ToolResult};
use callgate::gate::turn::{Answers, Decided, Input};

use super::world::World;

impl World {
    /// A dangerous call is only sent if a mode lets it run or an approver did, and that was shown.
    pub(super) fn check_consent(&self, call: CallIndex) {
        if self.tools[call.get()] != "drop" || self.turn.session_mode == Some(Mode::Auto) {
            return;
        }
        let shown = self.shown.get(&call).map(|approval| approval.state);
        assert_eq!(
            shown,
            Some(ApprovalState::Approved),
            "{}",
            self.turn.transcript()
        );
    }

    /// What became of a decision: the first one wins, and stays.
    pub(super) fn answered(&mut self, outcome: Outcome) {
        let (approval, is_taken) = match outcome {
            Outcome::Taken(approval) => (approval, true),
            Outcome::Repeated(approval) => (approval, false),
            Outcome::Refused(..) => return,
        };
        let before = self.decided.insert(approval.call, approval.state);
        match is_taken {
            true => assert_eq!(before, None, "two decisions were taken"),
            false => assert_eq!(before, Some(approval.state)),
        }
    }

    pub(super) fn decide(&mut self, position: usize, choice: Choice, seen: bool) {
        let index = Self::index(position);
        let Some(approval) = self.turn.machine.approval_of(index) else {
            return;
        };
        let digest = match seen {
            true => approval.digest,
            false => Digest::of(b"something else"),
        };
        let deciding = Deciding {
            id: format!("{position} {choice:?}"),
            digest: Some(digest),
            version: None,
            choice: Some(choice),
            message: String::new(),
            candidates: Vec::new(),
            edited: Bytes::from_static(b"{\"n\":7}"),
            response: Some(ToolResult::default()),
            by: String::new(),
            surface: String::new(),
        };
        let before = self.decided.get(&index).copied();
        self.give(Input::Decided(Box::new(Decided {
            call: index,
            deciding,
            first_grant: GrantId(1),
            answers: Answers::default(),
        })));
        let after = self.decided.get(&index).copied();
        if !seen {
            assert_eq!(after, before);
        }
        if choice == Choice::CancelTurn && before.is_none() && after.is_some() {
            let known = self.known.iter_mut();
            known.for_each(|known| known.cancelled = true);
        }
    }
}
