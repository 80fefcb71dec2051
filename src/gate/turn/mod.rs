//! The way of one batch, as a machine that is told what happened and says what to do.
//!
//! Every input is legal at every moment; the answer may be nothing. Holds no clock, no handle and no
//! channel, and never waits: time comes in with each input, and what should happen goes out as a list
//! of effects. Read [`TurnMachine::step`] first, then the files in the order in which a call meets
//! them: `look`, `looping`, `diagnosing`, `hooking`, `meant`, `inquire`, `judge`, `freeze`, `approving`, `decide`, `dispatch`,
//! `reply`, `after`, `cancel`, `settle`, and `recover` for what follows a restart.

mod after;
mod approving;
mod call;
mod cancel;
mod decide;
mod diagnosing;
mod dispatch;
mod effect;
mod freeze;
mod hooking;
mod input;
mod inquire;
mod judge;
mod look;
mod looping;
mod meant;
mod recover;
mod reply;
mod settle;

use std::collections::VecDeque;
use std::sync::Arc;

pub use decide::{Answers, Decided};
pub use effect::{
    About, Analyse, AskHook, Claim, Dispatch, Durability, Effect, Expect, HookAbout, HookRun,
    Inquiry, Matched, Withdraw,
};
pub use hooking::HookTicket;
pub use input::{
    Cancel, CancelReason, CancelScope, CheckedArguments, Claimed, Input, Proof, RejectReason, Reply,
};
pub use inquire::{keep_about, paths_in};
pub use judge::command_in;
pub use look::steps_of;

use super::approval::Approval;
use super::call::CallState;
use super::event::{AcceptedCall, Event, RunSummary, TurnAccepted};
use super::hooks::HookList;
use super::ids::{CallId, CallIndex, ToolName, UnixMillis};
use super::json::JsonLimits;
use super::limits::Limits;
use super::loop_detector::{LoopFound, LoopSettings, LoopWindow, Round};
use super::permission::{Approver, Grants, ModeBounds, Permissions, Policy};
use super::record::{Record, TurnSpec};
use super::registry::Registry;
use super::result::CallResult;
use after::After;
use approving::Approving;
use call::Call;
use diagnosing::Diagnosing;
use hooking::Before;

/// How long a turn's calls wait for what, in milliseconds, and what ends their run.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnSettings {
    /// For an executor with room. Then `tool_unavailable`.
    pub queue_timeout_ms: u64,
    /// For an executor to say that it has a call. Then the call counts as lost.
    pub accept_timeout_ms: u64,
    /// For executors to come back after a restart or a broken stream.
    pub resume_window_ms: u64,
    /// For a call to stop when it has timed out.
    pub cancel_grace_ms: u32,
    /// How often a call is sent at most.
    pub attempts_max: u32,
    /// For a tool to say what it thinks of a call. Then the call must be asked.
    pub check_timeout_ms: u64,
    /// For an executor to say what a call's paths are. Then nobody knows.
    pub facts_timeout_ms: u64,
    /// What is a loop.
    pub loops: LoopSettings,
}

/// The session of a turn, as it is at one step.
#[derive(Debug, Clone, Copy)]
pub struct SessionView<'a> {
    /// What bounds its mode.
    pub mode: ModeBounds,
    /// What approvers gave it, those of its parents included where it has them.
    pub grants: &'a Grants,
    /// Whether somebody can be asked.
    pub approver: Approver,
    /// How long an approval waits, in milliseconds. Zero: for ever.
    pub approval_ttl_ms: u64,
    /// Working directory of its tools.
    pub cwd: Option<&'a str>,
    /// How many more calls may begin to wait for approvers.
    pub approvals_room: usize,
}

/// The world as it is at one step.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The tools.
    pub registry: &'a Registry,
    /// The bounds.
    pub limits: &'a Limits,
    /// The bounds of arguments, out of `limits`.
    pub json: &'a JsonLimits,
    /// The waits.
    pub settings: &'a TurnSettings,
    /// The rules.
    pub permissions: &'a Permissions,
    /// The hooks.
    pub hooks: &'a HookList,
    /// The rules that came with the turn.
    pub turn_rules: Option<&'a Policy>,
    /// What the run called before.
    pub loop_window: &'a LoopWindow,
    /// The session.
    pub session: SessionView<'a>,
}

/// One turn on its way.
#[derive(Debug)]
pub struct TurnMachine {
    spec: Arc<TurnSpec>,
    calls: Vec<Call>,
    /// Calls that may run and have not looked for an executor yet, in call order.
    ready: VecDeque<CallIndex>,
    /// Calls that look for an executor, are on their way or execute.
    active: usize,
    /// Calls without a result.
    open: usize,
    /// Why the turn is being cancelled.
    cancelling: Option<String>,
    /// Why a hook ended the run.
    aborted: Option<String>,
    /// How far the hooks before the calls are. None: all were heard.
    before: Option<Before>,
    /// How far the hooks after a call are. None: no call is being heard about.
    after: Option<After>,
    /// Calls that were answered and wait for their hooks.
    after_queue: VecDeque<CallIndex>,
    /// Approvals that hooks may answer.
    approving: Vec<Approving>,
    /// Questions to hooks so far.
    tickets: u32,
    /// Processes that had the turn, this one included.
    epoch: u32,
    /// The run, if it has ended otherwise than by this turn's results.
    run_ended: Option<RunSummary>,
    /// A cancellation that came before the turn began.
    early_cancel: Option<Cancel>,
    /// What the turn called, for the window of its run.
    steps: Round,
    /// The window has not had them like this.
    steps_are_new: bool,
    /// The run is in a loop.
    looping: Option<Arc<LoopFound>>,
    /// Whose opinion whether it is one is awaited.
    diagnosing: Option<Diagnosing>,
    begun: bool,
    ended: bool,
    /// Calls that this step ended; told once their record stands.
    ended_now: Vec<CallIndex>,
    /// Some call may run and waits for its batch.
    has_held: bool,
    /// The calls are not decided yet: something about them is awaited.
    is_undecided: bool,
    /// Since when only people are awaited.
    suspended_since: Option<UnixMillis>,
    /// How long only people were awaited before that, in milliseconds.
    suspended_ms: u64,
    /// Approvals that this step changed.
    changed: Vec<CallIndex>,
    /// Approvals to be shown as they are now, once that is recorded.
    shown: Vec<Arc<Approval>>,
    persist: Vec<Effect>,
    announce: Vec<Event>,
    act: Vec<Effect>,
}

impl TurnMachine {
    /// A turn of which nothing has happened yet.
    pub fn new(spec: Arc<TurnSpec>) -> Self {
        let calls: Vec<Call> = spec
            .request
            .calls
            .iter()
            .enumerate()
            .map(|(position, requested)| Call::new(&spec.batch, position, requested))
            .collect();
        Self {
            open: calls.len(),
            calls,
            spec,
            ready: VecDeque::new(),
            active: 0,
            cancelling: None,
            aborted: None,
            before: None,
            after: None,
            after_queue: VecDeque::new(),
            approving: Vec::new(),
            tickets: 0,
            epoch: 1,
            run_ended: None,
            early_cancel: None,
            steps: Round::default(),
            steps_are_new: false,
            looping: None,
            diagnosing: None,
            begun: false,
            ended: false,
            ended_now: Vec::new(),
            has_held: false,
            is_undecided: false,
            suspended_since: None,
            suspended_ms: 0,
            changed: Vec::new(),
            shown: Vec::new(),
            persist: Vec::new(),
            announce: Vec::new(),
            act: Vec::new(),
        }
    }

    /// What is fixed about the turn.
    pub fn spec(&self) -> &Arc<TurnSpec> {
        &self.spec
    }

    /// Whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The position of the call with that id.
    pub fn position_of(&self, call_id: &CallId) -> Option<CallIndex> {
        self.calls
            .iter()
            .find(|call| call.call_id == *call_id)
            .map(|call| call.index)
    }

    /// Every call with the tool that it names, aliases resolved, and where it stands.
    pub fn calls(&self) -> impl Iterator<Item = (&CallId, &ToolName, CallState)> {
        self.calls
            .iter()
            .map(|call| (&call.call_id, &call.tool_name, call.state))
    }

    /// The result of a call that has ended.
    pub fn result_of(&self, call: CallIndex) -> Option<&Arc<CallResult>> {
        self.calls.get(call.get())?.result.as_ref()
    }

    /// What an approver is asked about a call, or was.
    pub fn approval_of(&self, call: CallIndex) -> Option<&Arc<Approval>> {
        self.calls.get(call.get())?.approval.as_ref()
    }

    /// When to tell the machine that a moment has come. None: nothing is due.
    ///
    /// Ask again after every step.
    pub fn deadline(&self) -> Option<UnixMillis> {
        if self.ended {
            return None;
        }
        let calls = self.calls.iter().filter_map(Call::deadline);
        let others = self
            .turn_deadline()
            .into_iter()
            .chain(self.diagnosed_until());
        calls.chain(others).min()
    }

    fn turn_deadline(&self) -> Option<UnixMillis> {
        // Whoever decides may take days.
        let is_over = self.cancelling.is_some() || self.aborted.is_some();
        if is_over || self.suspended_since.is_some() {
            return None;
        }
        let timeout = u64::from(self.spec.request.timeout_ms?);
        Some(self.spec.accepted_at.plus(timeout + self.suspended_ms))
    }

    /// Takes one input and says what to do, in order.
    #[must_use = "effects must be performed, in order"]
    pub fn step(&mut self, now: UnixMillis, input: Input, view: &View<'_>) -> Vec<Effect> {
        if self.ended {
            return Vec::new();
        }
        if let (false, Input::CancelRequested(cancel)) = (self.begun, &input) {
            self.early_cancel = Some(cancel.clone());
            return Vec::new();
        }
        self.begun = true;
        match input {
            Input::Started => self.on_started(now, view),
            Input::Recovered => self.on_recovered(now, view),
            Input::Claimed(claims) => self.on_claimed(now, &claims, view),
            Input::CommandAnalysed { call, command } => {
                self.on_command_analysed(now, call, *command, view);
            }
            Input::FactsResolved { call, facts } => {
                self.on_facts_resolved(now, call, facts, view);
            }
            Input::ToolChecked { call, word } => self.on_tool_checked(call, word.map(|word| *word)),
            Input::HookAnswered {
                ticket,
                answer,
                took_ms,
            } => self.on_hook_answered(now, ticket, answer, took_ms, view),
            Input::QueueFull(call) => self.on_queue_full(now, call),
            Input::DispatchUnrecorded(calls) => self.on_dispatch_unrecorded(now, &calls),
            Input::ExecutorAccepted { of, queued } => self.on_accepted(now, of, queued),
            Input::ExecutorResumed { of } => self.on_resumed(now, of, view),
            Input::ExecutorProgressed { of, progress } => self.on_progress(now, of, progress),
            Input::ExecutorPrinted { of, chunk } => self.on_output(now, of, chunk),
            Input::ExecutorReplied { of, reply } => self.on_reply(now, of, reply, view),
            Input::ExecutorRejected { of, reason } => self.on_rejected(now, of, reason, view),
            Input::ExecutorLost { of, proof } => self.on_lost(now, of, proof, view),
            Input::CancelRequested(cancel) => self.on_cancel(now, &cancel),
            Input::RunEnded(run) => self.on_run_ended(now, run),
            Input::Decided(decided) => self.on_decided(now, *decided, view),
            Input::ToolsChanged => self.on_tools_changed(now, view),
            Input::Diagnosed(diagnosis) => self.on_diagnosed(now, diagnosis.as_deref(), view),
            Input::DeadlineReached => self.on_deadline(now, view),
        }
        self.go_on_hearing(now, view);
        self.decide_when_answered(now, view);
        self.go_on_after(now, view);
        self.go_on_approving(now, view);
        // Whatever ended may have made room for the next.
        self.let_go();
        self.claim_ready(now, view);
        self.judge_results(now, view);
        self.settle(now, view);
        self.note_suspension(now);
        self.take_effects()
    }

    fn on_started(&mut self, now: UnixMillis, view: &View<'_>) {
        self.persist_after(Record::TurnAccepted(self.spec.clone()));
        for position in 0..self.calls.len() {
            self.look(position, view);
        }
        self.announce_accepted();
        self.note_steps(self.signed(), view);
        if let Some(cancel) = self.early_cancel.take() {
            self.on_cancel(now, &cancel);
            return;
        }
        self.tell_started(now, view);
        if self.stop_loop(now, view) {
            return;
        }
        self.ask_for_diagnosis(now, view);
        self.hear_hooks(now, view);
    }

    fn announce_accepted(&mut self) {
        let request = &self.spec.request;
        let calls = self.calls.iter().zip(&request.calls);
        let accepted = TurnAccepted {
            session: request.session.clone(),
            run: request.run.clone(),
            batch: (!request.calls.is_empty()).then(|| self.spec.batch.clone()),
            calls: calls
                .map(|(call, requested)| AcceptedCall {
                    call_id: call.call_id.clone(),
                    tool: call.tool_name.clone(),
                    minted: requested.minted,
                })
                .collect(),
            round: self.spec.round,
            batch_policy: self.spec.batch_policy,
        };
        self.announce.push(Event::Accepted(Arc::new(accepted)));
    }

    fn persist_after(&mut self, record: Record) {
        self.persist.push(Effect::Persist {
            record,
            when: Durability::After,
        });
    }

    /// The one order in which everything leaves a step: record, show, tell, do.
    fn take_effects(&mut self) -> Vec<Effect> {
        let count = self.persist.len() + self.announce.len() + self.act.len() + 1;
        let mut effects = Vec::with_capacity(count);
        effects.append(&mut self.persist);
        if !self.shown.is_empty() {
            effects.push(Effect::ShowApprovals(std::mem::take(&mut self.shown)));
        }
        effects.extend(self.announce.drain(..).map(Effect::Announce));
        effects.append(&mut self.act);
        if self.ended {
            effects.push(Effect::Finish);
        }
        effects
    }
}
