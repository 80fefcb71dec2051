//! One call inside the machine: its state, its place at an executor, and its moments.
//!
//! Only [`Call::move_to`] assigns a state. Never decides what comes next.

use std::borrow::Cow;
use std::sync::Arc;

use super::input::{CancelReason, CheckedArguments};
use super::inquire::FactsAsked;
use crate::gate::admission::RequestedCall;
use crate::gate::approval::Approval;
use crate::gate::call::CallState;
use crate::gate::event::{CallMoved, Progress};
use crate::gate::hooks::{Heard, Hook};
use crate::gate::ids::{BatchId, CallId, CallIndex, ExecutionId, InstanceId, ToolName, UnixMillis};
use crate::gate::loop_detector::Signature;
use crate::gate::permission::{CommandSubject, Facts, GrantId, Ground, ToolWord};
use crate::gate::record::CallWay;
use crate::gate::result::{CallResult, Settled};
use crate::gate::tool::SharedTool;

/// Where a call is on its way to a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// At home: not looked at, refused, or not yet its turn.
    Home,
    /// Looks for an executor with room.
    Waiting {
        /// Since when.
        since: UnixMillis,
        /// Until when.
        until: UnixMillis,
    },
    /// Was sent before a restart; its executor may still have it.
    Expected {
        /// The executor process.
        instance: InstanceId,
        /// Until when.
        until: UnixMillis,
    },
    /// Was sent.
    Sent {
        /// Until when it must be accepted. None: it is, or silence means nothing.
        accept_until: Option<UnixMillis>,
        /// Until when it must be done.
        run_until: UnixMillis,
    },
    /// Its executor answered; hooks are heard about the answer.
    Answered,
}

/// A call that was told to stop and has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stopping {
    /// Why, as the executor learns it.
    pub(super) reason: CancelReason,
    /// In the canceller's words.
    pub(super) message: String,
    /// Until when its answer counts.
    pub(super) until: UnixMillis,
}

/// What an executor reports, thinned out.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// When the next one may be passed on.
    pub(super) next_at: UnixMillis,
    /// The last one that waits for that.
    pub(super) held: Option<Progress>,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) index: CallIndex,
    pub(super) call_id: CallId,
    pub(super) execution: ExecutionId,
    /// The tool, aliases resolved; the name as it came if there is none.
    pub(super) tool_name: ToolName,
    pub(super) state: CallState,
    pub(super) tool: Option<SharedTool>,
    pub(super) arguments: Option<CheckedArguments>,
    /// The arguments are not the model's own.
    pub(super) is_rewritten: bool,
    /// What decided about it last. None: nothing did.
    pub(super) ground: Option<Arc<Ground>>,
    /// The grants without which it would have been asked when it was sent.
    pub(super) grants: Vec<GrantId>,
    /// The audit has its decision.
    pub(super) is_decision_told: bool,
    /// The audit has its end.
    pub(super) is_end_told: bool,
    pub(super) place: Place,
    pub(super) attempts: u32,
    /// An attempt that was given up may have acted, so that nobody can say that nothing happened.
    pub(super) may_have_run: bool,
    pub(super) started_at: Option<UnixMillis>,
    pub(super) queue_ms: u64,
    pub(super) stopping: Option<Stopping>,
    pub(super) result: Option<Arc<CallResult>>,
    /// The executor waits for the acknowledgement of its answer.
    pub(super) answered: bool,
    /// What the loop detector compares. None: not looked at, or it is not compared.
    pub(super) signature: Option<Signature>,
    /// Why the look refused it; becomes its result when the turn decides, or at dispatch.
    pub(super) refusal: Option<super::look::Refused>,
    /// Nobody can say which of the model's arguments are secret.
    pub(super) is_hidden: bool,
    pub(super) reports: Reports,
    /// What its command would run, for a tool of commands. None: it has none, or is not analysed yet.
    pub(super) command: Option<CommandSubject>,
    /// Its command is being analysed.
    pub(super) is_analysed_now: bool,
    /// What its paths really are. None: not asked yet, or its tool is about no paths.
    pub(super) facts: Option<Facts>,
    /// Its paths are being resolved.
    pub(super) facts_asked: Option<FactsAsked>,
    /// What its tool says of it. None: not asked yet, or the tool has no check.
    pub(super) word: Option<ToolWord>,
    /// Its tool is being asked; until when the answer counts.
    pub(super) word_until: Option<UnixMillis>,
    /// What an approver is asked, or was.
    pub(super) approval: Option<Arc<Approval>>,
    /// May run, and waits for its batch.
    pub(super) is_held: bool,
    /// What the hooks before it said. None: nothing.
    pub(super) heard: Option<Arc<Heard>>,
    /// The hooks before it were all heard.
    pub(super) is_heard: bool,
    /// Built-in hooks that ask where its paths lead.
    pub(super) confined_by: Vec<Arc<Hook>>,
    /// What its executor answered, until its hooks are heard.
    pub(super) answer: Option<Box<Settled>>,
}

impl Call {
    pub(super) fn new(batch: &BatchId, position: usize, requested: &RequestedCall) -> Self {
        // Admission bounds the number of calls far below u16.
        let index = CallIndex(u16::try_from(position).unwrap_or(u16::MAX));
        Self {
            index,
            call_id: requested.call.call_id.clone(),
            execution: ExecutionId::trusted(format!("{batch}.{position}")),
            tool_name: requested.call.name.clone(),
            state: CallState::Validating,
            tool: None,
            arguments: None,
            is_rewritten: false,
            ground: None,
            grants: Vec::new(),
            is_decision_told: false,
            is_end_told: false,
            place: Place::Home,
            attempts: 0,
            may_have_run: false,
            started_at: None,
            queue_ms: 0,
            stopping: None,
            result: None,
            answered: false,
            signature: None,
            refusal: None,
            is_hidden: false,
            reports: Reports::default(),
            command: None,
            is_analysed_now: false,
            facts: None,
            facts_asked: None,
            word: None,
            word_until: None,
            approval: None,
            is_held: false,
            heard: None,
            is_heard: false,
            confined_by: Vec::new(),
            answer: None,
        }
    }

    /// Moves the call and says what to announce.
    ///
    /// Invariant: only moves of the one table happen; another one is a bug of the machine.
    pub(super) fn move_to(&mut self, next: CallState, code: Cow<'static, str>) -> CallMoved {
        assert!(
            self.state.can_become(next),
            "call `{}` cannot go from {} to {}",
            self.call_id,
            self.state.as_str(),
            next.as_str()
        );
        let from = std::mem::replace(&mut self.state, next);
        CallMoved {
            call: self.index,
            from,
            to: next,
            code,
        }
    }

    /// Its way up to its decision, as the audit keeps it.
    pub(super) fn way(&self) -> CallWay {
        let decision = self.approval.as_ref().and_then(|one| one.decision.as_ref());
        let arguments = self.arguments.as_ref();
        let heard = self.heard.as_ref();
        CallWay {
            call: self.index,
            tool: self.tool.clone(),
            arguments: arguments.map(|arguments| (arguments.text.clone(), arguments.digest)),
            rewritten: self.is_rewritten || heard.is_some_and(|heard| heard.generation > 0),
            hidden: self.is_hidden,
            hook: heard.and_then(|heard| Some((heard.action, heard.decided_by.clone()?))),
            ground: self.ground.clone(),
            grants: self.grants.clone(),
            approval: self.approval.as_ref().map(|approval| approval.state),
            by: decision.map_or_else(String::new, |decision| decision.by.clone()),
        }
    }

    /// Its way, once: the audit has it from then on.
    pub(super) fn tell_decision(&mut self) -> Option<CallWay> {
        let is_told = std::mem::replace(&mut self.is_decision_told, true);
        (!is_told).then(|| self.way())
    }

    pub(super) fn is_open(&self) -> bool {
        !self.state.is_final()
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.place, Place::Waiting { .. } | Place::Expected { .. })
    }

    /// Whether an executor has it, or may have.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.place, Place::Sent { .. } | Place::Expected { .. })
    }

    pub(super) fn is_repeatable(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| tool.is_repeatable())
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.tool
            .as_ref()
            .is_some_and(|tool| tool.definition.exclusive)
    }

    /// The next moment at which something is due.
    pub(super) fn deadline(&self) -> Option<UnixMillis> {
        if !self.is_open() {
            return None;
        }
        let stopping = self.stopping.as_ref().map(|stopping| stopping.until);
        let report = self.reports.held.as_ref().map(|_| self.reports.next_at);
        let expiry = self.expires_at();
        let inquiry = self.inquiry_deadline();
        let due = [self.place_deadline(), stopping, report, expiry, inquiry];
        due.into_iter().flatten().min()
    }

    /// Until when an approver may answer.
    pub(super) fn expires_at(&self) -> Option<UnixMillis> {
        let approval = self.approval.as_ref()?;
        approval.is_pending().then_some(approval.expires_at)?
    }

    /// How long approvers were waited for, in milliseconds.
    pub(super) fn approval_ms(&self, now: UnixMillis) -> u64 {
        self.approval.as_ref().map_or(0, |approval| {
            let decided = approval
                .decision
                .as_ref()
                .map_or(now, |decision| decision.at);
            decided.since(approval.created_at)
        })
    }

    /// Until when it may be where it is.
    pub(super) fn place_deadline(&self) -> Option<UnixMillis> {
        match &self.place {
            Place::Home | Place::Answered => None,
            Place::Waiting { until, .. } | Place::Expected { until, .. } => Some(*until),
            Place::Sent {
                accept_until,
                run_until,
            } => Some(accept_until.map_or(*run_until, |accept| accept.min(*run_until))),
        }
    }
}
