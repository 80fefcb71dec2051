//! Stage G: calls that must be asked wait, and their batch with them.
//!
//! What waits is recorded before anybody is told. Nothing of a frozen batch is sent before its policy
//! lets it go. Never decides: answers come from `judge` and `decide`.

use std::borrow::Cow;
use std::sync::Arc;

use super::call::{Call, Place};
use super::effect::{Durability, Effect};
use super::judge::{Asked, Case, Wanted, case_revision, granted_tool};
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::approval::{self, Approval, ApprovalState, BatchPolicy, Decision};
use crate::gate::call::CallState;
use crate::gate::event::Event;
use crate::gate::hooks::HookText;
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::permission::{
    Answer, Approver, Check, GrantCandidate, Ground, GroundKind, Scope, ToolWord, Verdict,
};
use crate::gate::record::Record;
use crate::gate::refusal::Refusal;
use crate::gate::result::NotExecuted;
use crate::gate::tool::{Risk, Tool};

impl TurnMachine {
    /// Has the asked calls wait, and tells of all that do.
    pub(super) fn freeze(&mut self, asked: Vec<Asked>, now: UnixMillis, view: &View<'_>) {
        if self.run_ended.is_some() {
            let calls = asked.iter().map(|ask| ask.position);
            let calls: Vec<_> = calls
                .filter_map(|at| Some(self.calls.get(at)?.index))
                .collect();
            self.stop_unasked(now, &calls);
            return;
        }
        let room = asked.len().min(view.session.approvals_room);
        let mut approvals: Vec<Arc<Approval>> = Vec::with_capacity(room);
        for (ask, number) in asked.into_iter().zip(0_usize..) {
            if number >= room {
                let end = End::refused(Refusal::TooManyApprovals, NotExecuted::ApprovalUnavailable);
                self.end(ask.position, now, end);
                continue;
            }
            let position = ask.position;
            approvals.extend(self.ask(ask, now, view));
            self.wait_on(position, now);
        }
        let new: Vec<CallIndex> = approvals.iter().map(|approval| approval.call).collect();
        self.ask_approving_hooks(&new, view);
        if !approvals.is_empty() {
            let calls = approvals.iter();
            let calls = calls.filter_map(|approval| self.calls.get(approval.call.get()));
            let asked = calls.map(Call::way).collect();
            self.persist.push(Effect::Persist {
                record: Record::ApprovalsAsked {
                    turn: self.spec.clone(),
                    approvals,
                    asked,
                },
                when: Durability::BeforeAnnounce,
            });
        }
        let waiting: Arc<[_]> = self.pending().cloned().collect();
        if !waiting.is_empty() {
            // One that waited before a restart may be shown already.
            self.shown = waiting.to_vec();
            self.announce.push(Event::ApprovalRequired(waiting));
        }
    }

    fn ask(&mut self, ask: Asked, now: UnixMillis, view: &View<'_>) -> Option<Arc<Approval>> {
        let spec = self.spec.clone();
        let call = self.calls.get_mut(ask.position)?;
        let (tool, arguments) = (call.tool.as_ref()?, call.arguments.as_ref()?);
        let granted = granted_tool(tool);
        let ttl_ms = view.session.approval_ttl_ms;
        let approval = Arc::new(Approval {
            call: call.index,
            digest: approval::digest(&spec, call.index, &granted, &arguments.text),
            tool: granted,
            risk: tool.risk,
            kind: tool.definition.kind,
            arguments: arguments.text.clone(),
            secrets: tool.definition.secret_pointers.clone(),
            ground: ground_of(call, &ask.answer, view),
            tool_reason: tool_reason(call),
            is_deferred: ask.answer.is_deferred,
            contexts: contexts_of(call),
            candidates: showable(tool, ask.candidates),
            mode: ask.answer.mode,
            created_at: now,
            expires_at: (ttl_ms > 0).then(|| now.plus(ttl_ms)),
            state: ApprovalState::Pending,
            decision: None,
            version: 1,
        });
        call.approval = Some(approval.clone());
        Some(approval)
    }

    /// The call waits for its approver; one that was approved before a restart may run.
    pub(super) fn wait_on(&mut self, position: usize, now: UnixMillis) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let state = call.approval.as_ref().map(|approval| approval.state);
        match state {
            Some(ApprovalState::Pending) => {
                let moved = call.move_to(CallState::AwaitingApproval, Cow::Borrowed(""));
                self.announce.push(Event::CallMoved(moved));
            }
            Some(ApprovalState::Approved) => self.let_run(position),
            // Ended with its result, which a restart has as well.
            Some(
                ApprovalState::Denied
                | ApprovalState::Answered
                | ApprovalState::Expired
                | ApprovalState::Cancelled
                | ApprovalState::Withdrawn
                | ApprovalState::Superseded,
            )
            | None => {
                let name = call.tool_name.to_string();
                let end = End::refused(
                    Refusal::ApprovalUnavailable { name },
                    NotExecuted::ApprovalUnavailable,
                );
                self.end(position, now, end);
            }
        }
    }

    /// The call may run as soon as its batch may.
    pub(super) fn let_run(&mut self, position: usize) {
        if let Some(call) = self.calls.get_mut(position) {
            let moved = call.move_to(CallState::Scheduled, Cow::Borrowed(""));
            call.is_held = true;
            self.has_held = true;
            self.announce.push(Event::CallMoved(moved));
        }
    }

    /// Leaves true after every step: what nothing holds back any more looks for an executor.
    pub(super) fn let_go(&mut self) {
        if !self.has_held {
            return;
        }
        let is_frozen = self.is_undecided || self.pending().next().is_some();
        let is_eager = self.spec.batch_policy == BatchPolicy::EagerSafe;
        self.has_held = false;
        for call in self.calls.iter_mut().filter(|call| call.is_held) {
            call.is_held = call.is_open() && is_frozen && !(is_eager && is_safe(call));
            self.has_held |= call.is_held;
            if !call.is_held {
                self.ready.push_back(call.index);
            }
        }
    }

    /// Approvals that wait, in call order.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Arc<Approval>> {
        let awaiting = self.calls.iter();
        awaiting
            .filter(|call| call.state == CallState::AwaitingApproval)
            .filter_map(|call| call.approval.as_ref())
    }

    /// Gives a waiting approval its end. Nothing happens to one that does not wait.
    pub(super) fn close(&mut self, position: usize, state: ApprovalState, decision: Decision) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        if let Some(approval) = call.approval.as_mut().filter(|known| known.is_pending()) {
            *approval = Arc::new(approval.decided(state, decision));
            self.changed.push(call.index);
        }
    }

    /// As [`close`](Self::close), by a rule, a mode or a grant.
    pub(super) fn close_by(
        &mut self,
        position: usize,
        now: UnixMillis,
        state: ApprovalState,
        ground: Ground,
    ) {
        let decision = Decision {
            at: now,
            ground: Some(ground),
            ..Decision::default()
        };
        self.close(position, state, decision);
    }

    /// A rule, a mode or a grant lets a waiting call run.
    pub(super) fn approve_by(&mut self, position: usize, now: UnixMillis, ground: Ground) {
        self.close_by(position, now, ApprovalState::Approved, ground);
    }

    /// Decides waiting calls again: rules, mode or grants are others now.
    pub(super) fn decide_waiting_again(&mut self, now: UnixMillis, view: &View<'_>) {
        for position in 0..self.calls.len() {
            let Some(call) = self.calls.get(position) else {
                continue;
            };
            let Some(tool) = call.tool.clone() else {
                continue;
            };
            if call.state != CallState::AwaitingApproval {
                continue;
            }
            if view
                .registry
                .is_replaced(&tool.definition.name, &tool.digest)
            {
                self.supersede(position, now);
                continue;
            }
            // What is asked about it is not known yet; it is decided when that is.
            if self.is_undecided {
                continue;
            }
            let case = Case::new(call, &tool, view, now, Approver::Expected);
            let (answer, _) = case.judge(Wanted::Answer);
            match answer.verdict {
                Verdict::Ask => {}
                Verdict::Allow => {
                    self.approve_by(position, now, answer.ground(case_revision(view)));
                    self.let_run(position);
                }
                Verdict::Deny => self.deny_by(position, now, &tool, &answer, view),
            }
        }
    }

    /// The tool is another one than was shown to the approver.
    pub(super) fn supersede(&mut self, position: usize, now: UnixMillis) {
        let decision = Decision {
            at: now,
            ..Decision::default()
        };
        self.close(position, ApprovalState::Superseded, decision);
        let name = self
            .calls
            .get(position)
            .map(|call| call.tool_name.to_string());
        let refusal = Refusal::ToolChanged {
            name: name.unwrap_or_default(),
        };
        self.end(
            position,
            now,
            End::refused(refusal, NotExecuted::ToolUnavailable),
        );
    }

    /// Nobody decided in time.
    pub(super) fn expire(&mut self, position: usize, now: UnixMillis) {
        let decision = Decision {
            at: now,
            ..Decision::default()
        };
        self.close(position, ApprovalState::Expired, decision);
        let name = self
            .calls
            .get(position)
            .map(|call| call.tool_name.to_string());
        let refusal = Refusal::ApprovalExpired {
            name: name.unwrap_or_default(),
        };
        self.end(
            position,
            now,
            End::refused(refusal, NotExecuted::ApprovalExpired),
        );
        self.reject_rest(now);
    }

    /// In an atomic batch, one refusal ends what was not sent.
    pub(super) fn reject_rest(&mut self, now: UnixMillis) {
        if self.spec.batch_policy != BatchPolicy::FreezeAtomic {
            return;
        }
        for position in 0..self.calls.len() {
            let unsent = self
                .calls
                .get(position)
                .filter(|call| call.is_open() && call.place == Place::Home && call.attempts == 0);
            let Some(name) = unsent.map(|call| call.tool_name.to_string()) else {
                continue;
            };
            let decision = Decision {
                at: now,
                ..Decision::default()
            };
            self.close(position, ApprovalState::Withdrawn, decision);
            let refusal = Refusal::BatchRejected { name };
            self.end(
                position,
                now,
                End::refused(refusal, NotExecuted::BatchRejected),
            );
        }
    }

    /// Leaves true after every step: changed approvals are recorded before they are shown.
    pub(super) fn record_approvals(&mut self) {
        let changed: Vec<CallIndex> = std::mem::take(&mut self.changed);
        let approvals = changed
            .iter()
            .filter_map(|index| self.calls.get(index.get())?.approval.clone());
        let approvals: Vec<_> = approvals.collect();
        if approvals.is_empty() {
            return;
        }
        self.persist.push(Effect::Persist {
            record: Record::ApprovalsChanged {
                turn: self.spec.clone(),
                changes: approvals.iter().filter_map(|one| one.change()).collect(),
            },
            when: Durability::BeforeAnnounce,
        });
        self.shown.extend(approvals);
    }

    /// Leaves true after every step: it is told once that only people are awaited, and for how long.
    pub(super) fn note_suspension(&mut self, now: UnixMillis) {
        let idle = self.active == 0 && self.ready.is_empty() && !self.ended && !self.is_undecided;
        let waiting: Arc<[CallIndex]> = match idle {
            true => self.pending().map(|approval| approval.call).collect(),
            false => Arc::default(),
        };
        match (self.suspended_since, waiting.is_empty()) {
            (None, false) => {
                self.suspended_since = Some(now);
                self.announce.push(Event::Suspended(waiting));
            }
            (Some(since), true) => {
                self.suspended_ms += now.since(since);
                self.suspended_since = None;
            }
            (None, true) | (Some(_), false) => {}
        }
    }
}

/// What hooks said for the conversation.
fn contexts_of(call: &Call) -> Vec<HookText> {
    let heard = call.heard.as_ref();
    heard
        .map(|heard| heard.contexts.clone())
        .unwrap_or_default()
}

/// Why it is asked; where a hook asks, which one, in its words.
fn ground_of(call: &Call, answer: &Answer, view: &View<'_>) -> Ground {
    let mut ground = answer.ground(case_revision(view));
    if ground.kind == GroundKind::Hook
        && let Some(heard) = &call.heard
    {
        let hook = heard.decided_by.as_ref();
        ground.hook = hook.map(ToString::to_string).unwrap_or_default();
        ground.message.clone_from(&heard.reason);
    }
    ground
}

/// Grants that hold words of an argument that nobody may see are not offered.
fn showable(tool: &Tool, candidates: Vec<GrantCandidate>) -> Vec<GrantCandidate> {
    let definition = &tool.definition;
    let is_secret = definition.subject.as_ref().is_some_and(|subject| {
        let mut secrets = definition.secret_pointers.iter();
        secrets.any(|secret| subject.pointer.starts_with(secret.as_str()))
    });
    let holds_words = |candidate: &GrantCandidate| match candidate.scope {
        Scope::Prefix(_) | Scope::Words(_) | Scope::WholeText(_) => true,
        Scope::Tool | Scope::Edits => false,
    };
    let mut candidates = candidates;
    candidates.retain(|candidate| !(is_secret && holds_words(candidate)));
    candidates
}

/// The tool's own words, if its check asked.
fn tool_reason(call: &Call) -> String {
    let asks = |word: &&ToolWord| matches!(word.check, Check::Ask | Check::AskFirm);
    let word = call.word.as_ref().filter(asks);
    word.map(|word| word.for_user.clone()).unwrap_or_default()
}

fn is_safe(call: &Call) -> bool {
    call.tool
        .as_ref()
        .is_some_and(|tool| tool.risk == Risk::Safe)
}
