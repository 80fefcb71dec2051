//! Hooks that may answer an approval when it begins to wait.
//!
//! One approval after the other in no order among them, its hooks in theirs; a hook that fails or says
//! nothing leaves it to people. Never lets a hook approve what an ask rule, an unclear call or the firm
//! word of a tool asks.

use std::sync::Arc;

use super::effect::{Effect, HookAbout, HookRun};
use super::hooking::{Asked, HookTicket};
use super::judge::{Case, Wanted};
use super::meant::is_for;
use super::{TurnMachine, View};
use crate::gate::approval::{Approval, Choice, Decision};
use crate::gate::hooks::{
    ApprovalAction, ApprovalVerdict, FailureKind, Hook, HookAnswer, HookPlace, Point,
};
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::permission::{Approver, Because, Check, Verdict};

/// How far the hooks about one approval are.
#[derive(Debug)]
pub(super) struct Approving {
    index: CallIndex,
    behind: Option<HookPlace>,
    asked: Option<Asked>,
}

impl TurnMachine {
    /// These calls begin to wait.
    pub(super) fn ask_approving_hooks(&mut self, waiting: &[CallIndex], view: &View<'_>) {
        if view.hooks.has(Point::ApprovalRequested) {
            let new = waiting.iter().map(|index| Approving {
                index: *index,
                behind: None,
                asked: None,
            });
            self.approving.extend(new);
        }
    }

    /// Leaves true after every step: each approval that waits has a hook that is asked, or none is left.
    pub(super) fn go_on_approving(&mut self, now: UnixMillis, view: &View<'_>) {
        let mut at = 0;
        while let Some(approving) = self.approving.get_mut(at) {
            let call = self.calls.get(approving.index.get());
            let approval = call.and_then(|call| call.approval.clone());
            let Some(approval) = approval.filter(|approval| approval.is_pending()) else {
                let gone = self.approving.remove(at);
                let position = gone.index.get();
                self.forget_asked(gone.asked, Point::ApprovalRequested, Some(position));
                continue;
            };
            if approving.asked.is_some() {
                at += 1;
                continue;
            }
            let next = view.hooks.next(Point::ApprovalRequested, approving.behind);
            let Some(hook) = next.cloned() else {
                self.approving.remove(at);
                continue;
            };
            approving.behind = Some(hook.place);
            if call.is_some_and(|call| is_for(&hook, call, view)) {
                self.ask_approving(at, hook, approval, now, view);
            }
        }
    }

    fn ask_approving(
        &mut self,
        at: usize,
        hook: Arc<Hook>,
        approval: Arc<Approval>,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        let point = Point::ApprovalRequested;
        let is_awaited = hook.is_awaited(point);
        let about = HookAbout::Approval { approval };
        let ticket = self.ask_hook(hook.clone(), point, about, now, view);
        if is_awaited && let Some(approving) = self.approving.get_mut(at) {
            approving.asked = Some(Asked { ticket, hook });
        }
    }

    /// A hook answered about an approval. Nothing happens if it was not asked, or not any more.
    pub(super) fn take_approval_answer(
        &mut self,
        now: UnixMillis,
        ticket: HookTicket,
        answer: HookAnswer,
        took_ms: u64,
        view: &View<'_>,
    ) {
        let mut found = None;
        for approving in &mut self.approving {
            if let Some(asked) = approving.asked.take_if(|asked| asked.ticket == ticket) {
                found = Some((approving.index, asked.hook));
            }
        }
        let Some((index, hook)) = found else {
            return;
        };
        let failure = match answer {
            HookAnswer::Approval(verdict) => self.decide_by_hook(index, &hook, verdict, now, view),
            HookAnswer::Failed(failure) => Some(failure.kind),
            HookAnswer::Before(_) | HookAnswer::After(_) | HookAnswer::Diagnosis(_) => {
                Some(FailureKind::Failed)
            }
        };
        self.act.push(Effect::HookRan(HookRun::of(
            &hook,
            Point::ApprovalRequested,
            index,
            failure,
            took_ms,
        )));
    }

    /// Takes a hook's decision. Some: it does not count.
    fn decide_by_hook(
        &mut self,
        index: CallIndex,
        hook: &Hook,
        verdict: ApprovalVerdict,
        now: UnixMillis,
        view: &View<'_>,
    ) -> Option<FailureKind> {
        let position = index.get();
        let call = self.calls.get(position)?;
        let approval = call.approval.clone()?;
        if !approval.is_pending() {
            return None;
        }
        let decision = |choice| Decision {
            id: format!("hook:{}", hook.id),
            choice: Some(choice),
            by: format!("hook:{}", hook.id),
            at: now,
            message: verdict.message.clone(),
            ..Decision::default()
        };
        match verdict.action {
            ApprovalAction::Leave => None,
            ApprovalAction::Deny => {
                self.refuse(position, decision(Choice::Deny), now);
                None
            }
            ApprovalAction::Approve => {
                let saw_this = verdict.digest == Some(approval.digest);
                if !saw_this || !self.may_approve(position, now, view) {
                    return Some(FailureKind::Failed);
                }
                self.approve(position, decision(Choice::Once));
                None
            }
        }
    }

    /// Whether every ask about the call is one that a hook may answer.
    fn may_approve(&self, position: usize, now: UnixMillis, view: &View<'_>) -> bool {
        let Some(call) = self.calls.get(position) else {
            return false;
        };
        let Some(tool) = &call.tool else {
            return false;
        };
        let case = Case::new(call, tool, view, now, Approver::Expected);
        let is_firm = case.check == Check::AskFirm;
        let (answer, _) = case.judge(Wanted::Answer);
        let asks = answer
            .steps
            .iter()
            .filter(|step| step.verdict == Verdict::Ask);
        let mut asks = asks.map(|step| match &step.because {
            Because::Rule(_) | Because::Untried(_) | Because::Unclear(_) => false,
            Because::ToolCheck => !is_firm,
            Because::Grant { .. }
            | Because::Hook
            | Because::Mode(_)
            | Because::SkipPermission
            | Because::NoApprover => true,
        });
        answer.verdict != Verdict::Deny && asks.all(|may| may)
    }

    /// The turn ends: no approval waits any more.
    pub(super) fn forget_approving(&mut self) {
        for gone in std::mem::take(&mut self.approving) {
            let position = gone.index.get();
            self.forget_asked(gone.asked, Point::ApprovalRequested, Some(position));
        }
    }
}
