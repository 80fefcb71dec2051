//! Live states of calls, as the event stream tells them.
//!
//! Keeps the newest [`CALLS_MAX`]; ended ones leave first. Never shows what it was not told.

use std::collections::VecDeque;

use callgate_client::pb::v1 as pb;
use pb::event_record::Body as Happened;
use pb::turn_event::Body;

/// Calls that are kept.
pub(super) const CALLS_MAX: usize = 256;

/// One call as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) turn: String,
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) state: pb::CallState,
    /// Why, for error and cancelled. Empty otherwise.
    pub(super) code: String,
}

impl Call {
    /// What a terminal shows of the state.
    pub(super) fn shown(&self) -> &'static str {
        match self.state {
            pb::CallState::Validating | pb::CallState::Scheduled => "waiting",
            pb::CallState::AwaitingApproval => "review",
            // The wire says so of a state that it does not know.
            pb::CallState::Executing | pb::CallState::Unspecified => "running",
            pb::CallState::Success => "success",
            pb::CallState::Error => "error",
            pb::CallState::Cancelled => "cancelled",
        }
    }

    fn has_ended(&self) -> bool {
        match self.state {
            pb::CallState::Unspecified
            | pb::CallState::Validating
            | pb::CallState::AwaitingApproval
            | pb::CallState::Scheduled
            | pb::CallState::Executing => false,
            pb::CallState::Success | pb::CallState::Error | pb::CallState::Cancelled => true,
        }
    }
}

/// The calls that were told of, last changed last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Calls {
    calls: VecDeque<Call>,
}

impl Calls {
    /// Forgets everything: a snapshot follows.
    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }

    /// The calls to show, open ones first, then ended ones; in each part last changed first.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Call> {
        let open = self.calls.iter().rev().filter(|call| !call.has_ended());
        let ended = self.calls.iter().rev().filter(|call| call.has_ended());
        open.chain(ended)
    }

    /// Takes what happened. Returns whether anything is different now.
    pub(super) fn take(&mut self, event: &pb::EventRecord) -> bool {
        match &event.body {
            Some(Happened::Turn(record)) => {
                let body = record.event.as_ref().and_then(|event| event.body.as_ref());
                body.is_some_and(|body| self.take_turn(&record.turn_id, body))
            }
            Some(Happened::TurnSnapshot(turn)) => {
                for call in &turn.calls {
                    let id = call.call.as_ref().map_or("", |call| call.call_id.as_str());
                    self.put(Call {
                        turn: turn.turn_id.clone(),
                        call: id.to_owned(),
                        tool: call.tool.clone(),
                        state: call.state(),
                        code: String::new(),
                    });
                }
                !turn.calls.is_empty()
            }
            Some(
                Happened::SessionChanged(_)
                | Happened::ApprovalChanged(_)
                | Happened::GrantChanged(_)
                | Happened::HookRan(_)
                | Happened::PolicyChanged(_),
            )
            | None => false,
        }
    }

    fn take_turn(&mut self, turn: &str, body: &Body) -> bool {
        match body {
            Body::TurnAccepted(accepted) => {
                for call in &accepted.calls {
                    self.put(Call {
                        turn: turn.to_owned(),
                        call: call.call_id.clone(),
                        tool: call.tool.clone(),
                        // Where every call begins; it is never announced.
                        state: pb::CallState::Validating,
                        code: String::new(),
                    });
                }
                !accepted.calls.is_empty()
            }
            Body::CallStateChanged(moved) => {
                let tool = self.tool_of(turn, &moved.call_id);
                self.put(Call {
                    turn: turn.to_owned(),
                    call: moved.call_id.clone(),
                    tool,
                    state: moved.state(),
                    code: moved.code.clone(),
                });
                true
            }
            Body::CallCompleted(_)
            | Body::TurnCompleted(_)
            | Body::ApprovalRequired(_)
            | Body::TurnSuspended(_)
            | Body::LoopDetected(_)
            | Body::CallProgress(_)
            | Body::CallOutput(_)
            | Body::Heartbeat(_) => false,
        }
    }

    fn tool_of(&self, turn: &str, call: &str) -> String {
        let mut calls = self.calls.iter();
        let known = calls.find(|known| known.turn == turn && known.call == call);
        known.map_or_else(String::new, |known| known.tool.clone())
    }

    fn put(&mut self, call: Call) {
        self.calls
            .retain(|known| known.turn != call.turn || known.call != call.call);
        if self.calls.len() >= CALLS_MAX {
            let ended = self.calls.iter().position(Call::has_ended);
            self.calls.remove(ended.unwrap_or(0));
        }
        self.calls.push_back(call);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{accepted, moved};
    use super::*;

    fn taken(events: &[pb::EventRecord]) -> Calls {
        let mut calls = Calls::default();
        for event in events {
            assert!(calls.take(event));
        }
        calls
    }

    #[test]
    fn every_state_is_shown_in_its_words() {
        use pb::CallState::{
            AwaitingApproval, Cancelled, Error, Executing, Scheduled, Success, Validating,
        };
        let cases = [
            (Validating, "waiting"),
            (AwaitingApproval, "review"),
            (Scheduled, "waiting"),
            (Executing, "running"),
            (Success, "success"),
            (Error, "error"),
            (Cancelled, "cancelled"),
        ];
        for (state, shown) in cases {
            let calls = taken(&[accepted("t", &[("c", "read")]), moved("t", "c", state, "")]);
            let words: Vec<_> = calls.shown().map(Call::shown).collect();
            assert_eq!(words, [shown], "{state:?}");
        }
    }

    #[test]
    fn open_calls_come_before_ended_ones_and_the_last_changed_first() {
        use pb::CallState::{Error, Executing, Success};
        let calls = taken(&[
            accepted(
                "t",
                &[("a", "read"), ("b", "write"), ("c", "run"), ("d", "see")],
            ),
            moved("t", "d", Success, ""),
            moved("t", "c", Error, "tool_timeout"),
            moved("t", "a", Executing, ""),
        ]);
        let shown: Vec<_> = calls
            .shown()
            .map(|call| (call.call.as_str(), call.tool.as_str(), call.code.as_str()))
            .collect();
        let expected = [
            ("a", "read", ""),
            ("b", "write", ""),
            ("c", "run", "tool_timeout"),
            ("d", "see", ""),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_same_call_id_in_two_turns_is_two_calls() {
        let calls = taken(&[
            accepted("t", &[("c", "read")]),
            accepted("u", &[("c", "run")]),
        ]);
        assert_eq!(calls.shown().count(), 2);
    }

    #[test]
    fn a_call_too_many_pushes_an_ended_one_out() {
        let mut calls = taken(&[
            accepted("t", &[("open", "read"), ("ended", "read")]),
            moved("t", "ended", pb::CallState::Success, ""),
        ]);
        for number in 2..=CALLS_MAX {
            calls.take(&accepted("u", &[(&number.to_string(), "read")]));
        }
        let ids: Vec<_> = calls.shown().map(|call| call.call.as_str()).collect();
        assert_eq!(ids.len(), CALLS_MAX);
        assert!(ids.contains(&"open") && !ids.contains(&"ended"));
    }
}
