//! The engine on paper, for random turns: performs effects and believes none.
//! Never decides what happens next; that is random.

use std::collections::BTreeMap;
use std::sync::Arc;

use callgate::gate::approval::{Approval, ApprovalState};
use callgate::gate::call::CallState;
use callgate::gate::event::{Attempt, Event};
use callgate::gate::ids::{CallIndex, InstanceId};
use callgate::gate::permission::Approver;
use callgate::gate::record::{Record, StoredTurn, TurnSpec};
use callgate::gate::result::{CallEffect, CallOutcome, ToolResult};
use callgate::gate::turn::{
    Cancel, CancelScope, Claimed, Durability, Effect, Input, Proof, RejectReason, Reply,
};

use super::drive::{Paper, Turn, paper, text};
use super::lines;
use super::random::{Op, Shape, Word};

pub(super) const TOOLS: &[&str] = &["read", "write", "put", "deaf", "solo", "drop", "nothing"];
pub(super) const IDS: &[&str] = &["a", "b", "c", "d", "e"];
const ATTEMPTS_MAX: u32 = 3;

/// What is known of one call from the effects alone.
#[derive(Debug, Default, Clone)]
pub(super) struct Known {
    state: Option<CallState>,
    completed: u32,
    /// Claimed and neither sent nor given back.
    claimed: bool,
    /// The attempt that was sent last.
    attempt: u32,
    /// From the claim to the end.
    active: bool,
    /// It was lost or refused with the proof that it never began, since it was last sent.
    proven: bool,
    /// Somebody wanted it to stop.
    pub(super) cancelled: bool,
    /// An attempt was sent and no proof came that it never began.
    may_have_run: bool,
}

/// The engine on paper, which believes nothing.
pub(super) struct World {
    pub(super) turn: Turn,
    spec: Arc<TurnSpec>,
    pub(super) tools: Vec<&'static str>,
    pub(super) known: Vec<Known>,
    /// Everything written, and how much of it is surely on the disk.
    written: Vec<Record>,
    durable: usize,
    completed: u32,
    finished: bool,
    /// Approvals as they were shown last.
    pub(super) shown: BTreeMap<CallIndex, Arc<Approval>>,
    /// Decisions that an approver was told are taken.
    pub(super) decided: BTreeMap<CallIndex, ApprovalState>,
}

pub(super) fn lay((calls, max_parallel, timeout_ms): &Shape) -> Paper {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(position, (tool, fits))| {
            let arguments = if *fits { "{\"n\":1}" } else { "{\"n\":\"x\"}" };
            (IDS[position], TOOLS[*tool], arguments)
        })
        .collect();
    let mut paper = paper(&calls).attempts_max(ATTEMPTS_MAX);
    if let Some(max) = max_parallel {
        paper = paper.max_parallel(*max);
    }
    if let Some(span) = timeout_ms {
        paper = paper.timeout_ms(*span);
    }
    paper
}

fn is_repeatable(tool: &str) -> bool {
    matches!(tool, "read" | "put")
}

impl World {
    pub(super) fn new(paper: Paper, tools: Vec<&'static str>) -> Self {
        let turn = paper.lay();
        let spec = turn.machine.spec().clone();
        let known = vec![
            Known {
                state: Some(CallState::Validating),
                ..Known::default()
            };
            tools.len()
        ];
        Self {
            turn,
            spec,
            tools,
            known,
            written: Vec::new(),
            durable: 0,
            completed: 0,
            finished: false,
            shown: BTreeMap::new(),
            decided: BTreeMap::new(),
        }
    }

    /// Somebody can be asked; what waits expires after that span, or never.
    pub(super) fn with_approver(mut self, ttl_ms: u64) -> Self {
        self.turn.approver = Approver::Expected;
        self.turn.approval_ttl_ms = ttl_ms;
        self
    }

    fn position(&self, call: u8) -> Option<usize> {
        (!self.known.is_empty()).then(|| usize::from(call) % self.known.len())
    }

    pub(super) fn index(position: usize) -> CallIndex {
        CallIndex(u16::try_from(position).unwrap())
    }

    pub(super) fn give(&mut self, input: Input) {
        let effects = self.turn.effects(input);
        self.perform(effects, true);
    }

    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Claimed { calls, recorded } => self.claimed(calls, *recorded),
            Op::Executor { call, beside, word } => self.executor(*call, *beside, word),
            Op::Decide { call, choice, seen } => {
                if let Some(position) = self.position(*call) {
                    self.decide(position, *choice, *seen);
                }
            }
            Op::Mode { mode, told } => {
                self.turn.session_mode = Some(*mode);
                if *told {
                    self.give(Input::ToolsChanged);
                }
            }
            Op::CancelCall { call, grace_ms } => {
                let Some(position) = self.position(*call) else {
                    return;
                };
                self.known[position].cancelled = true;
                self.cancel(CancelScope::Call(Self::index(position)), *grace_ms);
            }
            Op::CancelTurn { run, grace_ms } => {
                self.known
                    .iter_mut()
                    .for_each(|known| known.cancelled = true);
                let scope = if *run {
                    CancelScope::Run
                } else {
                    CancelScope::Turn
                };
                self.cancel(scope, *grace_ms);
            }
            Op::Later { span_ms } => {
                self.turn.later(u64::from(*span_ms));
                self.give(Input::DeadlineReached);
            }
            Op::ChangeTool { tool, told } => {
                self.turn.change_tool(TOOLS[usize::from(*tool)]);
                if *told {
                    self.give(Input::ToolsChanged);
                }
            }
            Op::EndRun => self.give(Input::RunEnded(self.turn.run_ended())),
            Op::Crash { kept } => self.crash(usize::from(*kept)),
        }
    }

    fn cancel(&mut self, scope: CancelScope, grace_ms: u32) {
        self.give(Input::CancelRequested(Cancel {
            scope,
            reason: String::new(),
            grace_ms,
        }));
    }

    /// Only calls that look for an executor are claimed; any other claim would be the pool's mistake.
    fn claimed(&mut self, calls: &[u8], recorded: bool) {
        let claims: Vec<Claimed> = calls
            .iter()
            .filter_map(|call| self.position(*call))
            .filter(|position| self.known[*position].claimed)
            .map(|position| Claimed {
                call: Self::index(position),
                instance: InstanceId::trusted("x1"),
                accepts: true,
            })
            .collect();
        let effects = self.turn.effects(Input::Claimed(claims));
        let unrecorded = self.perform(effects, recorded);
        if !unrecorded.is_empty() {
            self.give(Input::DispatchUnrecorded(unrecorded));
        }
    }

    fn executor(&mut self, call: u8, beside: u8, word: &Word) {
        let Some(position) = self.position(call) else {
            return;
        };
        let known = &mut self.known[position];
        let of = Attempt {
            call: Self::index(position),
            attempt: known.attempt.wrapping_sub(u32::from(beside)),
        };
        let is_out = beside == 0 && known.attempt > 0 && !known.claimed;
        let begun = known.state == Some(CallState::Executing);
        let never_began = matches!(
            word,
            Word::Lost(Proof::NeverStarted) | Word::Rejected(RejectReason::Busy)
        );
        if is_out && never_began && !begun {
            known.proven = true;
        }
        self.give(match word {
            Word::Accepted => Input::ExecutorAccepted { of, queued: false },
            Word::Queued => Input::ExecutorAccepted { of, queued: true },
            Word::Resumed => Input::ExecutorResumed { of },
            Word::Progressed => Input::ExecutorProgressed {
                of,
                progress: callgate::gate::event::Progress {
                    message: String::new(),
                    fraction: None,
                    details: bytes::Bytes::new(),
                },
            },
            Word::Result {
                is_error,
                stop_flag,
            } => Input::ExecutorReplied {
                of,
                reply: Reply::Result(ToolResult {
                    is_error: *is_error,
                    stop_flag: *stop_flag,
                    ..text("done")
                }),
            },
            Word::Cancelled {
                not_executed,
                executed,
            } => Input::ExecutorReplied {
                of,
                reply: Reply::Cancelled {
                    not_executed: *not_executed,
                    executed: *executed,
                    message: String::new(),
                },
            },
            Word::Empty => Input::ExecutorReplied {
                of,
                reply: Reply::Empty,
            },
            Word::Rejected(reason) => Input::ExecutorRejected {
                of,
                reason: *reason,
            },
            Word::Lost(proof) => Input::ExecutorLost { of, proof: *proof },
        });
    }

    /// Performs effects as the engine does and returns what was not sent for want of a record.
    fn perform(&mut self, effects: Vec<Effect>, recorded: bool) -> Vec<CallIndex> {
        self.check_order(&effects);
        let mut unrecorded = Vec::new();
        for effect in effects {
            assert!(!self.finished, "something follows the end");
            match effect {
                Effect::Persist { record, when } => {
                    let refused = when == Durability::BeforeDispatch && !recorded;
                    if !refused {
                        self.written.push(record);
                    }
                    if when != Durability::After {
                        self.durable = self.written.len();
                    }
                }
                Effect::Announce(event) => self.announced(event),
                // None of the tools here runs commands, or has paths or a check of its own.
                Effect::Analyse(_)
                | Effect::Inquire(_)
                | Effect::AskHook(_)
                | Effect::AskDiagnosis { .. } => {
                    panic!("asked about")
                }
                Effect::Claim(claim) => self.claim(claim.call.get()),
                Effect::Expect(expect) => {
                    let known = &mut self.known[expect.call.get()];
                    assert!(!known.active);
                    known.active = true;
                    known.attempt = expect.attempt;
                }
                Effect::Dispatch(dispatch) => {
                    let recorded = recorded || is_repeatable(self.tools[dispatch.call.get()]);
                    self.check_consent(dispatch.call);
                    // One record for the whole burst: without it nothing of the burst is sent.
                    if recorded && unrecorded.is_empty() {
                        self.sent(dispatch.call.get(), dispatch.attempt);
                    } else {
                        unrecorded.push(dispatch.call);
                    }
                }
                Effect::Withdraw(withdraw) if withdraw.attempt == 0 => {
                    let position: usize = withdraw
                        .execution
                        .as_str()
                        .rsplit_once('.')
                        .unwrap()
                        .1
                        .parse()
                        .unwrap();
                    self.known[position].claimed = false;
                }
                Effect::ShowApprovals(approvals) => {
                    // Nobody is shown what a crash could take back.
                    assert_eq!(self.durable, self.written.len());
                    self.shown
                        .extend(approvals.into_iter().map(|one| (one.call, one)));
                }
                Effect::Answer(outcome) => self.answered(*outcome),
                Effect::ForgetHook(_) | Effect::HookRan(_) => panic!("nobody was asked"),
                Effect::Grant(_) | Effect::Withdraw(_) | Effect::Acknowledge { .. } => {}
                Effect::Finish => self.finished = true,
            }
        }
        // A call that has ended holds no place at the executors.
        for known in &self.known {
            let is_held = known.claimed && known.state.unwrap().is_final();
            assert!(!is_held, "{}", self.turn.transcript());
        }
        unrecorded
    }

    /// Record, show, tell, do; and a strict dispatch has its record in the same list.
    fn check_order(&self, effects: &[Effect]) {
        assert!(
            effects.is_sorted_by_key(lines::rank),
            "{}",
            self.turn.transcript()
        );
        for effect in effects {
            let Effect::Dispatch(dispatch) = effect else {
                continue;
            };
            let is_recorded = effects.iter().any(|other| {
                let Effect::Persist {
                    record: Record::CallsDispatched { calls, .. },
                    when: Durability::BeforeDispatch,
                } = other
                else {
                    return false;
                };
                calls.iter().any(|intent| {
                    intent.call == dispatch.call && intent.attempt == dispatch.attempt
                })
            });
            let strict = !is_repeatable(self.tools[dispatch.call.get()]);
            assert_eq!(is_recorded, strict, "{}", self.turn.transcript());
        }
    }

    fn claim(&mut self, position: usize) {
        let exclusive = |position: usize| self.tools[position] == "solo";
        let known = &self.known[position];
        assert!(!known.claimed && !known.state.unwrap().is_final());
        if !known.active {
            let active: Vec<_> = (0..self.known.len())
                .filter(|at| self.known[*at].active)
                .collect();
            let max = self
                .spec
                .request
                .max_parallel
                .map_or(usize::MAX, |max| max as usize);
            assert!(active.len() < max, "{}", self.turn.transcript());
            let alone =
                active.is_empty() || !(exclusive(position) || active.into_iter().any(exclusive));
            assert!(alone, "{}", self.turn.transcript());
        }
        let known = &mut self.known[position];
        known.claimed = true;
        known.active = true;
    }

    fn sent(&mut self, position: usize, attempt: u32) {
        let strict = !is_repeatable(self.tools[position]);
        let transcript = self.turn.transcript();
        let known = &mut self.known[position];
        assert!(known.claimed, "{transcript}");
        assert!(!known.cancelled, "sent after a cancellation\n{transcript}");
        assert!(
            attempt <= ATTEMPTS_MAX && attempt == known.attempt + 1,
            "{transcript}"
        );
        assert!(
            attempt == 1 || !strict || known.proven,
            "sent twice\n{transcript}"
        );
        if attempt > 1 && !known.proven {
            known.may_have_run = true;
        }
        known.claimed = false;
        known.attempt = attempt;
        known.proven = false;
    }

    fn announced(&mut self, event: Event) {
        assert_eq!(self.completed, 0, "something is told after the end");
        match event {
            Event::CallMoved(moved) => {
                let known = &mut self.known[moved.call.get()];
                assert_eq!(Some(moved.from), known.state);
                assert!(moved.from.can_become(moved.to));
                known.state = Some(moved.to);
                if moved.to.is_final() {
                    known.active = false;
                }
            }
            Event::CallCompleted(index, result) => {
                let position = index.get();
                let known = &mut self.known[position];
                known.completed += 1;
                let state = match result.outcome {
                    CallOutcome::Success => CallState::Success,
                    CallOutcome::Error => CallState::Error,
                    CallOutcome::Cancelled => CallState::Cancelled,
                };
                assert_eq!(known.state, Some(state));
                assert_eq!(result.call_id.as_str(), IDS[position]);
                assert_eq!(result.error.is_some(), state != CallState::Success);
                assert!(result.not_executed.is_none() || result.effect == CallEffect::NotExecuted);
                assert!(
                    !(known.may_have_run && result.effect == CallEffect::NotExecuted),
                    "{}",
                    self.turn.transcript()
                );
                let decided = self.shown.contains_key(&index);
                if decided || result.attempts > 0 && !is_repeatable(self.tools[position]) {
                    assert!(self.is_durable(index), "told before it was durable");
                }
            }
            Event::TurnCompleted(completed) => {
                self.completed += 1;
                let ids: Vec<_> = completed
                    .results
                    .iter()
                    .map(|it| it.call_id.as_str())
                    .collect();
                assert_eq!(ids, IDS[..self.known.len()]);
            }
            Event::Accepted(_)
            | Event::ApprovalRequired(_)
            | Event::Suspended(_)
            | Event::LoopDetected(_)
            | Event::Progress(..)
            | Event::Output(..)
            | Event::Heartbeat(_) => {}
        }
    }

    fn is_durable(&self, call: CallIndex) -> bool {
        self.written[..self.durable].iter().any(|record| {
            if let Record::CallsEnded { results, .. } = record {
                return results.iter().any(|(index, _)| *index == call);
            }
            matches!(record, Record::TurnEnded { .. })
        })
    }

    /// Another process takes the turn up from what is on the disk.
    fn crash(&mut self, kept: usize) {
        if self.finished {
            return;
        }
        let volatile = self.written.len() - self.durable;
        self.written.truncate(self.durable + kept % (volatile + 1));
        self.durable = self.written.len();
        let mut stored = StoredTurn::new((*self.spec).clone());
        for record in &self.written {
            match record {
                Record::CallsDispatched { calls, .. } => {
                    for intent in calls {
                        stored
                            .dispatched
                            .retain(|earlier| earlier.call != intent.call);
                        stored.dispatched.push(intent.clone());
                    }
                }
                Record::CallsEnded { results, .. } => {
                    stored.results.extend(results.iter().cloned())
                }
                Record::TurnCancelling { reason, .. } => stored.cancelling = Some(reason.clone()),
                // The next process finds a turn that has ended, and nothing to take up.
                Record::TurnEnded { .. } => return,
                Record::ApprovalsAsked { approvals, .. } => {
                    stored.approvals.extend(approvals.iter().cloned());
                }
                Record::ApprovalsChanged { changes, .. } => {
                    for change in changes {
                        let mut known = stored.approvals.iter_mut();
                        let known = known.find(|known| known.call == change.call).unwrap();
                        Arc::make_mut(known).apply(change.clone());
                    }
                }
                Record::TurnAccepted(_)
                | Record::HooksHeard { .. }
                | Record::TurnRecovered { .. }
                | Record::SessionPut(_)
                | Record::GrantsPut { .. }
                | Record::RunEnded(_)
                | Record::ToolRegistered(_)
                | Record::ToolRemoved(_)
                | Record::HookRegistered(_)
                | Record::HookRemoved(_)
                | Record::ToolsetPut(_)
                | Record::ToolsetDeleted(_)
                | Record::By(_)
                | Record::Noted(_) => {}
            }
        }
        let ended: BTreeMap<_, _> = stored.results.iter().cloned().collect();
        for (position, known) in self.known.iter_mut().enumerate() {
            let result = ended.get(&Self::index(position));
            let unrecorded =
                is_repeatable(self.tools[position]) && known.attempt > 0 && !known.proven;
            let sent = stored
                .dispatched
                .iter()
                .any(|intent| intent.call.get() == position);
            *known = Known {
                state: Some(match result.map(|result| result.outcome) {
                    None => CallState::Validating,
                    Some(CallOutcome::Success) => CallState::Success,
                    Some(CallOutcome::Error) => CallState::Error,
                    Some(CallOutcome::Cancelled) => CallState::Cancelled,
                }),
                completed: u32::from(result.is_some()),
                cancelled: stored.cancelling.is_some(),
                may_have_run: known.may_have_run || unrecorded,
                // A proof that no later record bears out died with the process.
                proven: false,
                attempt: if sent { known.attempt } else { 0 },
                ..Known::default()
            };
        }
        for (index, state) in &self.decided {
            let kept = stored.approvals.iter().find(|known| known.call == *index);
            assert_eq!(
                kept.map(|kept| kept.state),
                Some(*state),
                "a decision is lost"
            );
        }
        self.turn.machine = callgate::gate::turn::TurnMachine::restore(&stored);
        self.give(Input::Recovered);
    }

    /// Nobody says anything any more: time alone brings every turn to its end.
    pub(super) fn run_out(&mut self) {
        for _ in 0..100 {
            if self.finished {
                break;
            }
            let Some(now) = self.turn.deadline() else {
                // Only people may be waited for without an end.
                let calls = self.known.iter();
                let mut states = calls.map(|known| known.state.unwrap());
                assert!(
                    states.any(|state| state == CallState::AwaitingApproval),
                    "waits for ever\n{}",
                    self.turn.transcript()
                );
                self.known
                    .iter_mut()
                    .for_each(|known| known.cancelled = true);
                self.cancel(CancelScope::Turn, 0);
                continue;
            };
            self.turn.go_to(now);
            self.give(Input::DeadlineReached);
        }
        assert!(self.finished, "does not end\n{}", self.turn.transcript());
        assert!(self.turn.machine.has_ended());
        assert_eq!(self.completed, 1);
        for known in &self.known {
            assert_eq!(known.completed, 1);
            assert!(known.state.unwrap().is_final());
        }
    }
}
