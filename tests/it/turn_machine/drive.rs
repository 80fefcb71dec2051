//! A turn on paper: inputs in, effects out as lines, time by hand.
//!
//! Every input and its effects also go to a transcript, which the goldens compare. Never starts a
//! runtime.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::admission::{RequestedCall, TurnRequest};
use callgate::gate::approval::{Approval, BatchPolicy};
use callgate::gate::call::{CallState, ToolCall};
use callgate::gate::event::{Attempt, OutputChannel, OutputChunk, Progress, RunState, RunSummary};
use callgate::gate::hooks::HookList;
use callgate::gate::ids::{
    BatchId, CallId, CallIndex, InstanceId, RunId, SessionId, ToolName, TurnId, UnixMillis,
};
use callgate::gate::json::JsonLimits;
use callgate::gate::limits::Limits;
use callgate::gate::loop_detector::{LoopSettings, LoopWindow};
use callgate::gate::permission::{Approver, Grants, Mode, ModeBounds, Permissions};
use callgate::gate::record::{StoredTurn, TurnSpec};
use callgate::gate::registry::Registry;
use callgate::gate::result::{CallResult, Content, ToolResult};
use callgate::gate::snapshot::ToolSnapshot;
use callgate::gate::tool::ToolDefinition;
use callgate::gate::turn::{
    Cancel, CancelScope, Claimed, Effect, Input, Proof, RejectReason, Reply, SessionView,
    TurnMachine, TurnSettings, View,
};

use super::lines;
use super::tools;

/// What a turn on paper is made of.
pub(crate) struct Paper {
    request: TurnRequest,
    registry: Registry,
    attempts_max: u32,
    batch_policy: BatchPolicy,
    round: u32,
}

/// A turn whose calls are (id, tool, arguments).
pub(crate) fn paper(calls: &[(&str, &str, &str)]) -> Paper {
    Paper {
        request: TurnRequest {
            session: SessionId::trusted("session"),
            turn: TurnId::trusted("turn"),
            run: RunId::trusted("run"),
            calls: calls.iter().map(requested).collect(),
            format: None,
            toolset: None,
            snapshot: None,
            max_parallel: None,
            batch_policy: None,
            command_rules: Vec::new(),
            timeout_ms: None,
            model_message: Bytes::new(),
            trace: None,
        },
        registry: tools::registry(),
        attempts_max: 3,
        batch_policy: BatchPolicy::FreezeAtomic,
        round: 1,
    }
}

fn requested((id, tool, arguments): &(&str, &str, &str)) -> RequestedCall {
    RequestedCall {
        call: ToolCall {
            call_id: CallId::trusted(*id),
            name: ToolName::trusted(*tool),
            arguments: Bytes::copy_from_slice(arguments.as_bytes()),
            truncated: false,
        },
        minted: false,
        seen: None,
    }
}

impl Paper {
    /// Which turn of its run it is.
    pub(crate) fn round(mut self, number: u32) -> Self {
        self.round = number;
        self
    }

    pub(crate) fn max_parallel(mut self, max: u32) -> Self {
        self.request.max_parallel = Some(max);
        self
    }

    pub(crate) fn timeout_ms(mut self, span: u32) -> Self {
        self.request.timeout_ms = Some(span);
        self
    }

    pub(crate) fn attempts_max(mut self, max: u32) -> Self {
        self.attempts_max = max;
        self
    }

    pub(crate) fn batch_policy(mut self, policy: BatchPolicy) -> Self {
        self.batch_policy = policy;
        self
    }

    /// The model was cut off inside the last call.
    pub(crate) fn cut_off(mut self) -> Self {
        if let Some(last) = self.request.calls.last_mut() {
            last.call.truncated = true;
        }
        self
    }

    pub(crate) fn toolset(mut self, include: &[&str]) -> Self {
        let toolset = callgate::gate::toolset::Toolset {
            name: "set".to_owned(),
            base: String::new(),
            include: include.iter().map(|name| (*name).to_owned()).collect(),
            exclude: Vec::new(),
            version: 0,
        };
        self.registry.toolsets.put(toolset, None).unwrap();
        self.request.toolset = Some("set".to_owned());
        self
    }

    /// The model saw every tool under its name with `_` for a first letter of its own.
    pub(crate) fn snapshot(mut self) -> Self {
        let seen = self.registry.iter().map(|tool| {
            let alias = format!("x_{}", tool.definition.name);
            (ToolName::trusted(alias), tool.clone())
        });
        let snapshot = ToolSnapshot::new(seen);
        for requested in &mut self.request.calls {
            requested.seen = snapshot.resolve(&requested.call.name).cloned();
        }
        self.request.snapshot = Some(snapshot.id);
        self
    }

    pub(crate) fn spec(&self) -> TurnSpec {
        TurnSpec {
            request: self.request.clone(),
            batch: BatchId::trusted("batch"),
            batch_policy: self.batch_policy,
            session_toolset: None,
            session_max_parallel: None,
            round: self.round,
            run_started_at: UnixMillis(0),
            accepted_at: UnixMillis(0),
            principal: Arc::from(""),
        }
    }

    /// The turn before its first input.
    pub(crate) fn lay(self) -> Turn {
        let machine = TurnMachine::new(Arc::new(self.spec()));
        self.with(machine)
    }

    /// The turn as a restarted process finds it.
    pub(crate) fn restore(self, change: impl FnOnce(&mut StoredTurn)) -> Turn {
        let mut stored = StoredTurn::new(self.spec());
        change(&mut stored);
        let machine = TurnMachine::restore(&stored);
        self.with(machine)
    }

    fn with(self, machine: TurnMachine) -> Turn {
        Turn {
            machine,
            registry: self.registry,
            limits: Limits::default(),
            json: JsonLimits {
                bytes_max: 1024,
                depth_max: 16,
                nodes_max: 1000,
            },
            settings: TurnSettings {
                queue_timeout_ms: 1_000,
                accept_timeout_ms: 100,
                resume_window_ms: 500,
                cancel_grace_ms: 50,
                attempts_max: self.attempts_max,
                check_timeout_ms: 200,
                facts_timeout_ms: 300,
                loops: LoopSettings::default(),
            },
            permissions: Permissions::default(),
            approver: Approver::None,
            approval_ttl_ms: 0,
            approvals_room: 100,
            grants: Grants::default(),
            hooks: HookList::default(),
            cwd: None,
            session_mode: None,
            window: LoopWindow::default(),
            now: 0,
            transcript: String::new(),
        }
    }
}

/// A turn on its way.
pub(crate) struct Turn {
    pub(crate) machine: TurnMachine,
    pub(crate) registry: Registry,
    limits: Limits,
    json: JsonLimits,
    pub(crate) settings: TurnSettings,
    pub(crate) permissions: Permissions,
    /// Whether somebody can be asked. To begin with: nobody.
    pub(crate) approver: Approver,
    pub(crate) approval_ttl_ms: u64,
    pub(crate) approvals_room: usize,
    pub(crate) grants: Grants,
    /// To begin with: none.
    pub(crate) hooks: HookList,
    /// Working directory of the session. To begin with: none.
    pub(crate) cwd: Option<&'static str>,
    /// None: the mode of the permissions.
    pub(crate) session_mode: Option<Mode>,
    /// What the run called before.
    pub(crate) window: LoopWindow,
    now: u64,
    transcript: String,
}

impl Turn {
    /// Gives one input and returns the effects themselves.
    pub(crate) fn effects(&mut self, input: Input) -> Vec<Effect> {
        let view = View {
            registry: &self.registry,
            limits: &self.limits,
            json: &self.json,
            settings: &self.settings,
            permissions: &self.permissions,
            hooks: &self.hooks,
            turn_rules: None,
            loop_window: &self.window,
            session: SessionView {
                mode: ModeBounds::of(self.session_mode.unwrap_or(self.permissions.mode)),
                grants: &self.grants,
                approver: self.approver,
                approval_ttl_ms: self.approval_ttl_ms,
                cwd: self.cwd,
                approvals_room: self.approvals_room,
            },
        };
        let words = lines::input(self.machine.spec(), &input);
        let effects = self.machine.step(UnixMillis(self.now), input, &view);
        if let Some(steps) = self.machine.take_new_steps() {
            self.window.put(steps, &self.settings.loops);
        }
        self.transcript
            .push_str(&format!("{:>5} {words}\n", self.now));
        for effect in &effects {
            let line = lines::effect(self.machine.spec(), effect);
            self.transcript.push_str(&format!("      -> {line}\n"));
        }
        effects
    }

    /// Gives one input and returns its effects as lines.
    pub(crate) fn give(&mut self, input: Input) -> Vec<String> {
        let effects = self.effects(input);
        let spec = self.machine.spec();
        effects
            .iter()
            .map(|effect| lines::effect(spec, effect))
            .collect()
    }

    /// Takes larger arguments than to begin with, in bytes.
    pub(crate) fn allow_arguments_of(&mut self, bytes_max: usize) {
        self.json.bytes_max = bytes_max;
    }

    pub(crate) fn transcript(&self) -> &str {
        &self.transcript
    }

    /// Lets time pass.
    pub(crate) fn later(&mut self, span_ms: u64) -> &mut Self {
        self.now += span_ms;
        self
    }

    /// Goes to a moment, unless it is past.
    pub(crate) fn go_to(&mut self, moment: u64) {
        self.now = self.now.max(moment);
    }

    /// When something is due next.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.machine.deadline().map(|moment| moment.0)
    }

    /// Goes to the moment that is due next and says that it has come.
    pub(crate) fn due(&mut self) -> Vec<String> {
        self.now = self.deadline().unwrap();
        self.give(Input::DeadlineReached)
    }

    pub(crate) fn index(&self, id: &str) -> CallIndex {
        self.machine.position_of(&CallId::trusted(id)).unwrap()
    }

    fn of(&self, id: &str, attempt: u32) -> Attempt {
        Attempt {
            call: self.index(id),
            attempt,
        }
    }

    /// What an approver is asked about the call, or was.
    pub(crate) fn approval(&self, id: &str) -> &Arc<Approval> {
        self.machine.approval_of(self.index(id)).unwrap()
    }

    pub(crate) fn state(&self, id: &str) -> CallState {
        let mut calls = self.machine.calls();
        calls.find(|(call, ..)| call.as_str() == id).unwrap().2
    }

    pub(crate) fn result(&self, id: &str) -> Arc<CallResult> {
        self.machine.result_of(self.index(id)).unwrap().clone()
    }

    pub(crate) fn start(&mut self) -> Vec<String> {
        self.give(Input::Started)
    }

    pub(crate) fn recover(&mut self) -> Vec<String> {
        self.give(Input::Recovered)
    }

    pub(crate) fn claimed(&mut self, ids: &[&str]) -> Vec<String> {
        let claims = ids.iter().map(|id| Claimed {
            call: self.index(id),
            instance: InstanceId::trusted("x1"),
            accepts: true,
        });
        let claims = claims.collect();
        self.give(Input::Claimed(claims))
    }

    pub(crate) fn unrecorded(&mut self, ids: &[&str]) -> Vec<String> {
        let calls = ids.iter().map(|id| self.index(id)).collect();
        self.give(Input::DispatchUnrecorded(calls))
    }

    pub(crate) fn accepted(&mut self, id: &str, attempt: u32) -> Vec<String> {
        let of = self.of(id, attempt);
        self.give(Input::ExecutorAccepted { of, queued: false })
    }

    pub(crate) fn queued(&mut self, id: &str, attempt: u32) -> Vec<String> {
        let of = self.of(id, attempt);
        self.give(Input::ExecutorAccepted { of, queued: true })
    }

    pub(crate) fn resumed(&mut self, id: &str, attempt: u32) -> Vec<String> {
        let of = self.of(id, attempt);
        self.give(Input::ExecutorResumed { of })
    }

    pub(crate) fn progressed(&mut self, id: &str, attempt: u32) -> Vec<String> {
        let of = self.of(id, attempt);
        let progress = Progress {
            message: "half".to_owned(),
            fraction: Some(0.5),
            details: Bytes::new(),
        };
        self.give(Input::ExecutorProgressed { of, progress })
    }

    pub(crate) fn printed(&mut self, id: &str, attempt: u32) -> Vec<String> {
        let of = self.of(id, attempt);
        let chunk = OutputChunk {
            channel: OutputChannel::Stdout,
            chunk_sequence: 1,
            data: Bytes::from_static(b"line\n"),
            dropped_bytes: 0,
        };
        self.give(Input::ExecutorPrinted { of, chunk })
    }

    pub(crate) fn replied(&mut self, id: &str, attempt: u32, reply: Reply) -> Vec<String> {
        let of = self.of(id, attempt);
        self.give(Input::ExecutorReplied { of, reply })
    }

    /// The handler answers with text.
    pub(crate) fn answered(&mut self, id: &str, attempt: u32) -> Vec<String> {
        self.replied(id, attempt, Reply::Result(text("done")))
    }

    pub(crate) fn rejected(&mut self, id: &str, attempt: u32, reason: RejectReason) -> Vec<String> {
        let of = self.of(id, attempt);
        self.give(Input::ExecutorRejected { of, reason })
    }

    pub(crate) fn lost(&mut self, id: &str, attempt: u32, proof: Proof) -> Vec<String> {
        let of = self.of(id, attempt);
        self.give(Input::ExecutorLost { of, proof })
    }

    pub(crate) fn cancel(&mut self, scope: CancelScope, grace_ms: u32) -> Vec<String> {
        self.give(Input::CancelRequested(Cancel {
            scope,
            reason: "enough".to_owned(),
            grace_ms,
        }))
    }

    pub(crate) fn cancel_call(&mut self, id: &str, grace_ms: u32) -> Vec<String> {
        let call = self.index(id);
        self.cancel(CancelScope::Call(call), grace_ms)
    }

    /// The run of the turn as somebody ended it.
    pub(crate) fn run_ended(&self) -> RunSummary {
        let spec = self.machine.spec();
        RunSummary {
            session: spec.session().clone(),
            run: spec.run().clone(),
            state: RunState::Completed,
            rounds: spec.round,
            end_code: String::new(),
            end_reason: "the user is served".to_owned(),
            started_at: spec.run_started_at,
            ended_at: Some(UnixMillis(self.now)),
        }
    }

    /// Registers a tool anew.
    pub(crate) fn register(&mut self, definition: ToolDefinition) {
        tools::register(&mut self.registry, "paper", vec![definition]);
    }

    /// A tool gets another description, and so another digest.
    pub(crate) fn change_tool(&mut self, name: &str) {
        let tool = self.registry.get(&ToolName::trusted(name)).unwrap();
        let mut definition = tool.definition.clone();
        definition.description.push_str(", changed");
        self.register(definition);
    }
}

/// A result of one text.
pub(crate) fn text(text: &str) -> ToolResult {
    ToolResult {
        contents: vec![Content::Text(text.to_owned())],
        ..ToolResult::default()
    }
}
