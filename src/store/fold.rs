//! Folds facts into what is remembered: turns, runs, tools, toolsets.
//!
//! The one place that says what a record changes; every store folds with it. Never looks at a clock:
//! a turn was last written when its records say so.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RestoredTool;
use super::disk;
use crate::gate::approval::{Approval, ApprovalChange};
use crate::gate::event::{RunState, RunSummary, TurnCompleted};
use crate::gate::hooks::{Heard, RestoredHook};
use crate::gate::ids::{CallIndex, HookId, SessionId, ToolName, TurnKey, UnixMillis};
use crate::gate::permission::{Grant, Grants};
use crate::gate::record::{DispatchIntent, Record, StoredTurn, TurnSpec};
use crate::gate::result::CallResult;
use crate::gate::session::{SessionRecord, StoredSession};
use crate::gate::toolset::Toolset;

/// A record as it is read back.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fact {
    /// About one turn.
    Turn {
        key: TurnKey,
        /// The latest moment that the record names. Zero: none.
        at: UnixMillis,
        fact: TurnFact,
    },
    /// A run as something left it.
    Run(RunSummary),
    SessionPut(Box<SessionRecord>),
    GrantsPut {
        session: SessionId,
        grants: Vec<Grant>,
        at: UnixMillis,
    },
    ToolRegistered(Box<RestoredTool>),
    ToolRemoved(ToolName),
    HookRegistered(RestoredHook),
    HookRemoved(HookId),
    ToolsetPut(Toolset),
    ToolsetDeleted(String),
}

/// What a record says about its turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TurnFact {
    Accepted(Arc<TurnSpec>),
    Dispatched(Vec<DispatchIntent>),
    CallsEnded(Vec<(CallIndex, Arc<CallResult>)>),
    Cancelling { reason: String, run: RunSummary },
    Ended(Arc<TurnCompleted>),
    Recovered { epoch: u32 },
    HooksHeard(Vec<(CallIndex, Arc<Heard>)>),
    ApprovalsAsked(Vec<Arc<Approval>>),
    ApprovalsChanged(Vec<ApprovalChange>),
}

impl Fact {
    /// What the record says, without the way over its bytes.
    ///
    /// None: it is for the audit only.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let (turn, at, fact) = match record {
            Record::TurnAccepted(turn) => {
                (turn, turn.accepted_at, TurnFact::Accepted(turn.clone()))
            }
            Record::CallsDispatched { turn, calls, .. } => {
                (turn, UnixMillis(0), TurnFact::Dispatched(calls.clone()))
            }
            Record::CallsEnded { turn, results, .. } => {
                let at = disk::latest(results.iter().map(|(_, result)| &**result));
                (turn, at, TurnFact::CallsEnded(results.clone()))
            }
            Record::TurnCancelling { turn, reason, run } => {
                let (reason, run) = (reason.clone(), run.clone());
                let at = run.ended_at.unwrap_or_default();
                (turn, at, TurnFact::Cancelling { reason, run })
            }
            Record::TurnEnded {
                turn, completed, ..
            } => {
                let at = disk::ended_at(turn, completed);
                (turn, at, TurnFact::Ended(completed.clone()))
            }
            Record::TurnRecovered { turn, epoch } => {
                (turn, UnixMillis(0), TurnFact::Recovered { epoch: *epoch })
            }
            Record::HooksHeard { turn, heard } => {
                // What stood in memory only is not read back either.
                let heard = heard.iter().map(|(index, words)| {
                    let kept = Heard {
                        earlier: Vec::new(),
                        ..(**words).clone()
                    };
                    (*index, Arc::new(kept))
                });
                (turn, UnixMillis(0), TurnFact::HooksHeard(heard.collect()))
            }
            Record::ApprovalsAsked {
                turn, approvals, ..
            } => {
                let at = approvals.iter().map(|approval| approval.created_at).max();
                let fact = TurnFact::ApprovalsAsked(approvals.clone());
                (turn, at.unwrap_or_default(), fact)
            }
            Record::ApprovalsChanged { turn, changes } => {
                let at = changes.iter().map(|change| change.decision.at).max();
                let fact = TurnFact::ApprovalsChanged(changes.clone());
                (turn, at.unwrap_or_default(), fact)
            }
            Record::SessionPut(session) => {
                return Some(Fact::SessionPut(Box::new((**session).clone())));
            }
            Record::GrantsPut { session, grants } => {
                return Some(Fact::GrantsPut {
                    session: session.clone(),
                    grants: grants.clone(),
                    at: disk::grants_changed_at(grants),
                });
            }
            Record::RunEnded(run) => return Some(Fact::Run(run.clone())),
            Record::ToolRegistered(tool) => {
                return Some(Fact::ToolRegistered(Box::new(disk::as_restored(tool))));
            }
            Record::ToolRemoved(name) => return Some(Fact::ToolRemoved(name.clone())),
            Record::HookRegistered(kept) => {
                return Some(Fact::HookRegistered(disk::as_restored_hook(kept)));
            }
            Record::HookRemoved(id) => return Some(Fact::HookRemoved(id.clone())),
            Record::ToolsetPut(toolset) => return Some(Fact::ToolsetPut((**toolset).clone())),
            Record::ToolsetDeleted(name) => return Some(Fact::ToolsetDeleted(name.clone())),
            Record::By(_) | Record::Noted(_) => return None,
        };
        let key = turn.key();
        Some(Fact::Turn { key, at, fact })
    }

    /// The run as the record leaves it.
    pub(super) fn run(&self) -> Option<RunSummary> {
        match self {
            Fact::Turn { fact, .. } => match fact {
                TurnFact::Accepted(turn) => Some(disk::run_at_acceptance(turn)),
                TurnFact::Cancelling { run, .. } => Some(run.clone()),
                TurnFact::Ended(completed) => Some(completed.run.clone()),
                TurnFact::Dispatched(_)
                | TurnFact::CallsEnded(_)
                | TurnFact::HooksHeard(_)
                | TurnFact::ApprovalsAsked(_)
                | TurnFact::ApprovalsChanged(_)
                | TurnFact::Recovered { .. } => None,
            },
            Fact::Run(run) => Some(run.clone()),
            Fact::SessionPut(_)
            | Fact::GrantsPut { .. }
            | Fact::ToolRegistered(_)
            | Fact::ToolRemoved(_)
            | Fact::HookRegistered(_)
            | Fact::HookRemoved(_)
            | Fact::ToolsetPut(_)
            | Fact::ToolsetDeleted(_) => None,
        }
    }
}

/// Folds one fact into its turn. None stays None until the turn is accepted.
///
/// A second acceptance of an open turn changes nothing; one after the end begins the turn anew.
pub(super) fn fold_turn(turn: &mut Option<StoredTurn>, at: UnixMillis, fact: TurnFact) {
    if let TurnFact::Accepted(spec) = fact {
        if turn.as_ref().is_none_or(|turn| turn.completed.is_some()) {
            *turn = Some(StoredTurn::new(Arc::unwrap_or_clone(spec)));
        }
        return;
    }
    let Some(turn) = turn.as_mut().filter(|turn| turn.completed.is_none()) else {
        return;
    };
    turn.updated_at = turn.updated_at.max(at);
    match fact {
        TurnFact::Accepted(_) => {}
        TurnFact::Dispatched(intents) => {
            for intent in intents {
                match turn
                    .dispatched
                    .iter_mut()
                    .find(|known| known.call == intent.call)
                {
                    Some(known) => *known = intent,
                    None => turn.dispatched.push(intent),
                }
            }
        }
        TurnFact::CallsEnded(results) => {
            for (index, result) in results {
                match turn.results.iter_mut().find(|(known, _)| *known == index) {
                    Some((_, known)) => *known = result,
                    None => turn.results.push((index, result)),
                }
            }
        }
        TurnFact::Cancelling { reason, .. } => turn.cancelling = Some(reason),
        TurnFact::Ended(completed) => turn.completed = Some(completed),
        TurnFact::Recovered { epoch } => turn.epoch = turn.epoch.max(epoch),
        TurnFact::HooksHeard(heard) => {
            for (index, words) in heard {
                match turn.heard.iter_mut().find(|(known, _)| *known == index) {
                    Some((_, known)) => *known = words,
                    None => turn.heard.push((index, words)),
                }
            }
        }
        TurnFact::ApprovalsAsked(approvals) => {
            for approval in approvals {
                match approval_mut(turn, approval.call) {
                    Some(known) => *known = approval,
                    None => turn.approvals.push(approval),
                }
            }
        }
        TurnFact::ApprovalsChanged(changes) => {
            for change in changes {
                if let Some(known) = approval_mut(turn, change.call) {
                    Arc::make_mut(known).apply(change);
                }
            }
        }
    }
}

fn approval_mut(turn: &mut StoredTurn, call: CallIndex) -> Option<&mut Arc<Approval>> {
    let mut approvals = turn.approvals.iter_mut();
    approvals.find(|approval| approval.call == call)
}

/// Folds one fact into what is known of its session; other facts change nothing.
pub(super) fn fold_session(known: &mut Option<StoredSession>, fact: Fact) {
    match fact {
        Fact::SessionPut(record) => {
            let touched_at = record.updated_at;
            match known {
                Some(known) => {
                    known.record = *record;
                    known.touched_at = known.touched_at.max(touched_at);
                }
                None => {
                    *known = Some(StoredSession {
                        record: *record,
                        grants: Grants::default(),
                        touched_at,
                    });
                }
            }
        }
        Fact::GrantsPut {
            session,
            grants,
            at,
        } => {
            let known = known.get_or_insert_with(|| StoredSession {
                record: SessionRecord::new(session, at),
                grants: Grants::default(),
                touched_at: at,
            });
            known.touched_at = known.touched_at.max(at);
            for grant in grants {
                known.grants.take(grant);
            }
        }
        Fact::Turn { .. }
        | Fact::Run(_)
        | Fact::ToolRegistered(_)
        | Fact::ToolRemoved(_)
        | Fact::HookRegistered(_)
        | Fact::HookRemoved(_)
        | Fact::ToolsetPut(_)
        | Fact::ToolsetDeleted(_) => {}
    }
}

impl Fact {
    /// The session that the fact is about, if it changes what is kept of one.
    pub(super) fn session(&self) -> Option<&SessionId> {
        match self {
            Fact::SessionPut(record) => Some(&record.id),
            Fact::GrantsPut { session, .. } => Some(session),
            Fact::Turn { .. }
            | Fact::Run(_)
            | Fact::ToolRegistered(_)
            | Fact::ToolRemoved(_)
            | Fact::HookRegistered(_)
            | Fact::HookRemoved(_)
            | Fact::ToolsetPut(_)
            | Fact::ToolsetDeleted(_) => None,
        }
    }
}

/// Folds what a record says about a run into what was known: an end stays, rounds only grow.
pub(super) fn fold_run(known: &mut RunSummary, next: RunSummary) {
    let rounds = known.rounds.max(next.rounds);
    let started_at = known.started_at;
    if known.state == RunState::Active || next.state != RunState::Active {
        *known = next;
    }
    known.rounds = rounds;
    known.started_at = started_at;
}

/// Each session once, with the latest moment that is named with it.
pub(super) fn newest_of_each(
    named: impl Iterator<Item = (SessionId, UnixMillis)>,
) -> Vec<(SessionId, UnixMillis)> {
    let mut newest: BTreeMap<SessionId, UnixMillis> = BTreeMap::new();
    for (session, at) in named {
        let known = newest.entry(session).or_default();
        *known = (*known).max(at);
    }
    newest.into_iter().collect()
}

/// Tools, hooks and toolsets as the last records leave them.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// With the position of the record that brought each.
    tools: BTreeMap<ToolName, (u64, RestoredTool)>,
    hooks: BTreeMap<HookId, RestoredHook>,
    toolsets: BTreeMap<String, Toolset>,
}

/// What a fact changed in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Tool(ToolName),
    Hook(HookId),
    Toolset(String),
}

impl Catalog {
    /// Takes up a tool, hook or toolset; other facts change nothing.
    pub(super) fn fold(&mut self, position: u64, fact: Fact) -> Option<Change> {
        match fact {
            Fact::ToolRegistered(tool) => {
                let name = tool.definition.name.clone();
                self.tools.insert(name.clone(), (position, *tool));
                Some(Change::Tool(name))
            }
            Fact::ToolRemoved(name) => {
                self.tools.remove(&name);
                Some(Change::Tool(name))
            }
            Fact::HookRegistered(hook) => {
                let id = hook.id.clone();
                self.hooks.insert(id.clone(), hook);
                Some(Change::Hook(id))
            }
            Fact::HookRemoved(id) => {
                self.hooks.remove(&id);
                Some(Change::Hook(id))
            }
            Fact::ToolsetPut(toolset) => {
                let name = toolset.name.clone();
                self.toolsets.insert(name.clone(), toolset);
                Some(Change::Toolset(name))
            }
            Fact::ToolsetDeleted(name) => {
                self.toolsets.remove(&name);
                Some(Change::Toolset(name))
            }
            Fact::Turn { .. } | Fact::Run(_) | Fact::SessionPut(_) | Fact::GrantsPut { .. } => None,
        }
    }

    /// A tool and the position of its record.
    pub(super) fn tool(&self, name: &ToolName) -> Option<&(u64, RestoredTool)> {
        self.tools.get(name)
    }

    /// A hook.
    pub(super) fn hook(&self, id: &HookId) -> Option<&RestoredHook> {
        self.hooks.get(id)
    }

    /// Every hook, in the order in which they were first registered.
    pub(super) fn hooks(&self) -> Vec<RestoredHook> {
        let mut hooks: Vec<_> = self.hooks.values().cloned().collect();
        hooks.sort_by_key(|hook| hook.number);
        hooks
    }

    /// A toolset.
    pub(super) fn toolset(&self, name: &str) -> Option<&Toolset> {
        self.toolsets.get(name)
    }

    /// Every tool in the order of its last registration, and toolsets with bases first.
    pub(super) fn restored(&self) -> (Vec<RestoredTool>, Vec<Toolset>) {
        let mut tools: Vec<_> = self.tools.values().collect();
        tools.sort_by_key(|(position, _)| *position);
        let tools = tools.into_iter().map(|(_, tool)| tool.clone()).collect();
        (tools, bases_first(self.toolsets.clone()))
    }
}

/// Orders toolsets so that each stands after its base.
fn bases_first(mut toolsets: BTreeMap<String, Toolset>) -> Vec<Toolset> {
    let mut ordered = Vec::with_capacity(toolsets.len());
    while let Some((name, toolset)) = toolsets.pop_first() {
        let mut chain = vec![(name, toolset)];
        while let Some((_, last)) = chain.last()
            && let Some(base) = toolsets.remove_entry(&last.base)
        {
            chain.push(base);
        }
        ordered.extend(chain.into_iter().rev().map(|(_, toolset)| toolset));
    }
    ordered
}
