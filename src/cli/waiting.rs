//! What a turn waits for, in one line for whoever sits before a silent terminal.
//!
//! Reads the turn's events and no clock: when the line is due, its owner says. Never prints.

use std::collections::BTreeMap;
use std::time::Duration;

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

/// Silence that needs no explanation.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// Names that a line holds.
const NAMES_MAX: usize = 5;

/// A turn's calls as far as its events have told.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Tool and state of each call, by call.
    calls: BTreeMap<String, (String, pb::CallState)>,
    /// Only people are awaited: what is scheduled is held by its batch.
    is_suspended: bool,
}

impl Waiting {
    /// Takes what happened.
    pub(super) fn take(&mut self, event: &pb::TurnEvent) {
        match &event.body {
            Some(Body::TurnAccepted(accepted)) => {
                for call in &accepted.calls {
                    let entry = (call.tool.clone(), pb::CallState::Unspecified);
                    self.calls.insert(call.call_id.clone(), entry);
                }
            }
            Some(Body::CallStateChanged(moved)) => {
                if let Some((_, state)) = self.calls.get_mut(&moved.call_id) {
                    *state = moved.state();
                }
                let mut states = self.calls.values().map(|(_, state)| *state);
                self.is_suspended &= states.any(|state| state == pb::CallState::AwaitingApproval);
            }
            Some(Body::TurnSuspended(_)) => self.is_suspended = true,
            Some(
                Body::CallCompleted(_)
                | Body::CallProgress(_)
                | Body::CallOutput(_)
                | Body::LoopDetected(_)
                | Body::Heartbeat(_)
                | Body::ApprovalRequired(_)
                | Body::TurnCompleted(_),
            )
            | None => {}
        }
    }

    /// What the turn waits for now.
    pub(super) fn line(&self) -> String {
        let named = |state, before: &str, after: &str| {
            let tools = self.tools_in(state);
            (!tools.is_empty()).then(|| format!("{before}{tools}{after}"))
        };
        let awaited = [
            named(pb::CallState::Executing, "", " to end"),
            named(pb::CallState::Scheduled, "an executor to take ", "")
                .filter(|_| !self.is_suspended),
            named(
                pb::CallState::AwaitingApproval,
                "somebody to decide on ",
                "",
            ),
        ];
        let awaited: Vec<String> = awaited.into_iter().flatten().collect();
        match awaited.is_empty() {
            true => "waiting for the sidecar".to_owned(),
            false => format!("waiting for {}", awaited.join(", and for ")),
        }
    }

    /// The tools of the calls in this state, each once. Empty: there are none.
    fn tools_in(&self, wanted: pb::CallState) -> String {
        let calls = self.calls.values();
        let mut names: Vec<&str> = calls
            .filter(|(_, state)| *state == wanted)
            .map(|(tool, _)| tool.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(NAMES_MAX);
        let shown = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`"));
        let shown = shown.collect::<Vec<_>>().join(", ");
        match more {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: Body) -> pb::TurnEvent {
        pb::TurnEvent {
            body: Some(body),
            ..pb::TurnEvent::default()
        }
    }

    /// A turn with a call of each tool, moved to these states one after the other.
    fn waiting(calls: &[(&str, &[pb::CallState])]) -> Waiting {
        let mut waiting = Waiting::default();
        let accepted = calls
            .iter()
            .enumerate()
            .map(|(id, (tool, _))| pb::AcceptedCall {
                call_id: id.to_string(),
                tool: (*tool).to_owned(),
                minted: false,
            });
        waiting.take(&event(Body::TurnAccepted(pb::TurnAccepted {
            calls: accepted.collect(),
            ..pb::TurnAccepted::default()
        })));
        for (id, (_, states)) in calls.iter().enumerate() {
            for state in *states {
                waiting.take(&event(Body::CallStateChanged(pb::CallStateChanged {
                    call_id: id.to_string(),
                    state: *state as i32,
                    ..pb::CallStateChanged::default()
                })));
            }
        }
        waiting
    }

    #[test]
    fn what_its_batch_holds_waits_for_people_only() {
        use pb::CallState::{AwaitingApproval, Scheduled};
        let mut held = waiting(&[("erase", &[AwaitingApproval]), ("read", &[Scheduled])]);
        held.take(&event(Body::TurnSuspended(pb::TurnSuspended::default())));
        assert_eq!(held.line(), "waiting for somebody to decide on `erase`");
        held.take(&event(Body::CallStateChanged(pb::CallStateChanged {
            call_id: "0".to_owned(),
            state: Scheduled as i32,
            ..pb::CallStateChanged::default()
        })));
        let line = "waiting for an executor to take `erase`, `read`";
        assert_eq!(held.line(), line);
    }

    #[test]
    fn the_line_says_what_each_open_call_waits_for() {
        use pb::CallState::{AwaitingApproval, Executing, Scheduled, Success};
        let none: &[(&str, &[pb::CallState])] = &[];
        let cases = [
            (none, "waiting for the sidecar"),
            (
                &[("read", &[Scheduled])],
                "waiting for an executor to take `read`",
            ),
            (
                &[("read", &[Scheduled, Executing])],
                "waiting for `read` to end",
            ),
            (
                &[("erase", &[AwaitingApproval]), ("read", &[Executing])],
                "waiting for `read` to end, and for somebody to decide on `erase`",
            ),
            (
                &[
                    ("write", &[Scheduled]),
                    ("read", &[Scheduled, Executing]),
                    ("done", &[Scheduled, Executing, Success]),
                    ("write", &[Scheduled]),
                ],
                "waiting for `read` to end, and for an executor to take `write`",
            ),
            (
                &[
                    ("a", &[Scheduled]),
                    ("b", &[Scheduled]),
                    ("c", &[Scheduled]),
                    ("d", &[Scheduled]),
                    ("e", &[Scheduled]),
                    ("f", &[Scheduled]),
                    ("g", &[Scheduled]),
                ],
                "waiting for an executor to take `a`, `b`, `c`, `d`, `e` and 2 more",
            ),
        ];
        for (calls, expected) in cases {
            assert_eq!(waiting(calls).line(), expected);
        }
    }
}
