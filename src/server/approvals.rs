//! `ApprovalService`: shows what waits, and takes decisions.
//!
//! Translates and hands over to the engine. Who decides is the credential's principal, never a field of
//! the request.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use super::access::{Caller, Role};
use super::convert_approval::{self as convert, Shown};
use super::status::Failure;
use crate::engine::{Changes, Engine, Place, ShownApproval, Wanted, Watching};
use crate::gate::approval::{Approval, ApprovalState, DecideError, Deciding};
use crate::gate::ids::{ApprovalId, SessionId, UnixMillis};
use crate::gate::record::TurnSpec;
use crate::gate::result::Digest;
use crate::gate::tool::Risk;
use crate::gate::toolset::glob_matches;
use crate::pb::v1::approval_service_server::ApprovalService;
use crate::pb::v1::{self as pb, ErrorReason};

/// Approvals of a page that names no size, and the most that one may name.
const PAGE_DEFAULT: u32 = 50;
const PAGE_MAX: u32 = 500;
/// A page or a message ends before it has more bytes.
const PAGE_BYTES_MAX: usize = 3 << 20;
/// Most decisions of one request.
const DECISIONS_MAX: usize = 100;
/// Approvals in one message of a snapshot.
const AT_ONCE: usize = 100;
/// Silence after which a watcher gets an empty message.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Longest id or surface that a decision may bring, in bytes.
const ID_BYTES_MAX: usize = 128;

/// Serves approvals.
#[derive(Clone)]
pub struct Approvals {
    /// Does the work.
    pub engine: Arc<Engine>,
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Which approvals are wanted.
#[derive(Debug, Clone, Default)]
struct Filter {
    roots: Vec<String>,
    session: String,
    turn: String,
    states: Vec<i32>,
    min_risk: Option<Risk>,
    tools: Vec<String>,
}

impl Filter {
    fn read(filter: Option<pb::ApprovalFilter>) -> Self {
        let filter = filter.unwrap_or_default();
        Self {
            min_risk: match pb::RiskLevel::try_from(filter.min_risk_level) {
                Ok(pb::RiskLevel::Unspecified | pb::RiskLevel::Safe) => None,
                Ok(pb::RiskLevel::Sensitive) => Some(Risk::Sensitive),
                Ok(pb::RiskLevel::Dangerous) | Err(_) => Some(Risk::Dangerous),
            },
            roots: filter.root_session_ids,
            session: filter.session_id,
            turn: filter.turn_id,
            states: filter.states,
            tools: filter.tools,
        }
    }

    /// Whether only what waits is wanted.
    fn is_pending_only(&self) -> bool {
        let pending = pb::ApprovalState::Pending as i32;
        self.states.iter().all(|state| *state == pending)
    }

    fn takes(&self, spec: &TurnSpec, approval: &Approval, root: &SessionId) -> bool {
        let name = approval.tool.name.as_str();
        let all = self
            .states
            .contains(&(pb::ApprovalState::Unspecified as i32));
        let state = match self.states.as_slice() {
            [] => approval.state == ApprovalState::Pending,
            states => all || states.contains(&convert::state(approval.state)),
        };
        state
            && (self.roots.is_empty() || self.roots.iter().any(|one| one == root.as_str()))
            && (self.session.is_empty() || self.session == spec.session().as_str())
            && (self.turn.is_empty() || self.turn == spec.request.turn.as_str())
            && self.min_risk.is_none_or(|min| approval.risk >= min)
            && (self.tools.is_empty() || self.tools.iter().any(|glob| glob_matches(glob, name)))
    }

    /// What the engine should look for, with the test that [`takes`](Self::takes) is. For those that wait.
    fn wanted<'a>(
        &self,
        takes: &'a dyn Fn(&TurnSpec, &Approval, &SessionId) -> bool,
    ) -> Wanted<'a> {
        let is_open = self.roots.is_empty()
            && self.session.is_empty()
            && self.turn.is_empty()
            && self.min_risk.is_none()
            && self.tools.is_empty();
        match is_open && self.is_pending_only() {
            true => Wanted::All,
            false => Wanted::Those(takes),
        }
    }

    /// Whether it would be taken if it were in a state that is.
    fn would_take(&self, shown: &ShownApproval) -> bool {
        let in_any_state = Self {
            states: vec![pb::ApprovalState::Unspecified as i32],
            ..self.clone()
        };
        in_any_state.takes_shown(shown)
    }

    fn takes_shown(&self, shown: &ShownApproval) -> bool {
        self.takes(&shown.spec, &shown.approval, &shown.root)
    }
}

impl Approvals {
    async fn list(
        &self,
        request: pb::ListApprovalsRequest,
    ) -> Result<pb::ListApprovalsResponse, Failure> {
        let filter = Filter::read(request.filter);
        let limit = page_size(request.page_size)?;
        if !filter.is_pending_only() {
            return self.list_decided(&filter, &request.page_token).await;
        }
        let after = match request.page_token.is_empty() {
            true => None,
            false => Some(read_place(&request.page_token)?),
        };
        let takes = |spec: &_, approval: &_, root: &_| filter.takes(spec, approval, root);
        let wanted = filter.wanted(&takes);
        let total = self.engine.count_approvals(wanted);
        let (page, mut next) = self.engine.pending_approvals(after.as_ref(), limit, wanted);
        let mut bytes = 0;
        let mut approvals = Vec::with_capacity(page.len());
        let mut last: Option<Place> = None;
        for shown in &page {
            let message = convert::approval(shown, Shown::Cut);
            bytes += message.encoded_len();
            if bytes > PAGE_BYTES_MAX && last.is_some() {
                next = last;
                break;
            }
            last = Some((shown.approval.created_at, shown.id.clone()));
            approvals.push(message);
        }
        Ok(pb::ListApprovalsResponse {
            approvals,
            next_page_token: next.as_ref().map(place).unwrap_or_default(),
            total,
        })
    }

    /// Decided ones are found by their turns: one page is what some turns hold.
    async fn list_decided(
        &self,
        filter: &Filter,
        token: &str,
    ) -> Result<pb::ListApprovalsResponse, Failure> {
        if filter.session.is_empty() {
            let problem = "must be set where states other than PENDING are asked for";
            return Err(Failure::field("filter.session_id", problem));
        }
        let session = super::convert::session_id(&filter.session)?;
        let before = match token.is_empty() {
            true => None,
            false => Some(token.parse().map_err(|_| none_of_ours())?),
        };
        let found = self.engine.approvals_of_session(&session, before).await?;
        let (shown, next) = found;
        let wanted: Vec<pb::Approval> = shown
            .iter()
            .filter(|shown| filter.takes_shown(shown))
            .map(|shown| convert::approval(shown, Shown::Cut))
            .collect();
        Ok(pb::ListApprovalsResponse {
            total: u32::try_from(wanted.len()).unwrap_or(u32::MAX),
            approvals: wanted,
            next_page_token: next.map_or_else(String::new, |next| next.to_string()),
        })
    }

    async fn decide(
        &self,
        by: &str,
        surface: &str,
        request: pb::DecideApprovalsRequest,
    ) -> Result<pb::DecideApprovalsResponse, Failure> {
        let decisions = request.decisions;
        if decisions.len() > DECISIONS_MAX {
            let problem = format!("must have at most {DECISIONS_MAX} entries");
            return Err(Failure::field("decisions", problem));
        }
        for (position, decision) in decisions.iter().enumerate() {
            let same = |other: &pb::ApprovalDecision| other.approval_id == decision.approval_id;
            if decisions.iter().take(position).any(same) {
                let field = format!("decisions[{position}].approval_id");
                return Err(Failure::field(field, "must not come twice"));
            }
        }
        let mut outcomes = Vec::with_capacity(decisions.len());
        for (position, decision) in decisions.into_iter().enumerate() {
            outcomes.push(self.decide_one(by, surface, position, decision).await);
        }
        Ok(pb::DecideApprovalsResponse { outcomes })
    }

    async fn decide_one(
        &self,
        by: &str,
        surface: &str,
        position: usize,
        decision: pb::ApprovalDecision,
    ) -> pb::DecisionOutcome {
        let id = decision.approval_id.clone();
        match self.try_decide(by, surface, position, decision).await {
            Ok(outcome) => outcome,
            Err(failure) => pb::DecisionOutcome {
                approval_id: id,
                status: pb::DecisionStatus::Refused as i32,
                approval: None,
                error: Some(failure.into_rpc_error()),
            },
        }
    }

    async fn try_decide(
        &self,
        by: &str,
        surface: &str,
        position: usize,
        decision: pb::ApprovalDecision,
    ) -> Result<pb::DecisionOutcome, Failure> {
        let field = |name: &str| format!("decisions[{position}].{name}");
        let id = approval_id(&decision.approval_id)?;
        if decision.decision_id.len() > ID_BYTES_MAX {
            let problem = format!("must have at most {ID_BYTES_MAX} bytes");
            return Err(Failure::field(field("decision_id"), problem));
        }
        let edited_max = self.engine.limits().args_bytes_max;
        if decision.edited_arguments_json.len() as u64 > edited_max {
            let actual = decision.edited_arguments_json.len() as u64;
            return Err(Failure::limit("args_bytes_max", edited_max, actual, false));
        }
        let response = decision.response.map(crate::executor::tool_result);
        let deciding = Deciding {
            id: decision.decision_id,
            digest: Digest::from_slice(&decision.approval_digest),
            version: convert::version(&decision.etag)?,
            choice: convert::choice_from(decision.choice),
            message: convert::message(decision.message, &field("message"))?,
            candidates: decision.grant_candidate_ids,
            edited: decision.edited_arguments_json,
            response,
            by: by.to_owned(),
            surface: surface.to_owned(),
        };
        let outcome = self.engine.decide(&id, deciding).await;
        let outcome = outcome.map_err(Failure::from)?;
        let shown = self.engine.look_at_approval(&id).await;
        Ok(convert::decision_outcome(
            &outcome,
            &shown.map_err(Failure::from)?,
        ))
    }
}

fn approval_id(text: &str) -> Result<ApprovalId, Failure> {
    let parsed = ApprovalId::parse(text)
        .ok()
        .filter(|id| id.parts().is_some());
    parsed.ok_or_else(|| convert::decide_failure(&DecideError::NotFound))
}

fn page_size(named: u32) -> Result<usize, Failure> {
    match named {
        0 => Ok(PAGE_DEFAULT as usize),
        1..=PAGE_MAX => Ok(named as usize),
        _ => {
            let problem = format!("must be at most {PAGE_MAX}");
            Err(Failure::field("page_size", problem))
        }
    }
}

fn place((at, id): &Place) -> String {
    format!("{}.{id}", at.0)
}

fn read_place(token: &str) -> Result<Place, Failure> {
    let parts = token.split_once('.').and_then(|(at, id)| {
        let id = ApprovalId::parse(id).ok()?;
        Some((UnixMillis(at.parse().ok()?), id))
    });
    parts.ok_or_else(none_of_ours)
}

fn none_of_ours() -> Failure {
    Failure::field("page_token", "is none of ours")
}

/// The principal of a request and whether it has a role.
fn caller<T>(request: &Request<T>) -> (String, bool) {
    let caller = request.extensions().get::<Caller>();
    let principal = caller.map_or_else(String::new, |caller| caller.principal.to_string());
    let decides = caller.is_some_and(|caller| caller.roles.contains(&Role::Approver));
    (principal, decides)
}

fn surface<T>(request: &Request<T>) -> String {
    let named = request.metadata().get("callgate-client");
    let named = named
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    named.chars().take(ID_BYTES_MAX).collect()
}

/// One watcher.
struct Watch {
    engine: Arc<Engine>,
    filter: Filter,
    /// The change up to which was told.
    after: u64,
    changed: tokio::sync::watch::Receiver<u64>,
    /// Where the snapshot goes on. None: it was sent.
    snapshot: Option<Option<Place>>,
    /// Approvals that were told, so that one that leaves the filter is told once more. None: the
    /// watcher came back, and nobody knows what it was told.
    told: Option<BTreeSet<ApprovalId>>,
    /// Counts as an approver that is there.
    _watching: Option<Watching>,
}

impl Watch {
    fn cursor(&self) -> String {
        format!("{}.{}", self.engine.process_id(), self.after)
    }

    async fn next(&mut self) -> Result<pb::WatchApprovalsResponse, Status> {
        if let Some(after) = self.snapshot.take() {
            return Ok(self.snapshot_page(after));
        }
        loop {
            self.changed.borrow_and_update();
            match self.engine.approval_changes(self.after) {
                Changes::Missed => {
                    let problem = "changes were missed; start from a snapshot";
                    return Err(Failure::new(ErrorReason::CursorExpired, problem).into());
                }
                Changes::New(changed, last) => {
                    self.after = last;
                    let wanted = self.wanted(changed);
                    if !wanted.is_empty() {
                        return Ok(self.message(wanted, false));
                    }
                }
            }
            let waited = tokio::time::timeout(HEARTBEAT, self.changed.changed()).await;
            if waited.is_err() {
                return Ok(self.message(Vec::new(), false));
            }
        }
    }

    fn wanted(&mut self, changed: Vec<ShownApproval>) -> Vec<pb::Approval> {
        let filter = &self.filter;
        let told = &mut self.told;
        let wanted =
            changed
                .into_iter()
                .filter(|shown| match (filter.takes_shown(shown), told.as_mut()) {
                    (takes, None) => takes || filter.would_take(shown),
                    (true, Some(told)) => {
                        told.insert(shown.id.clone());
                        true
                    }
                    (false, Some(told)) => told.remove(&shown.id),
                });
        wanted
            .map(|shown| convert::approval(&shown, Shown::Cut))
            .collect()
    }

    fn snapshot_page(&mut self, after: Option<Place>) -> pb::WatchApprovalsResponse {
        let filter = &self.filter;
        let takes = |spec: &_, approval: &_, root: &_| filter.takes(spec, approval, root);
        let wanted = filter.wanted(&takes);
        let (page, next) = self
            .engine
            .pending_approvals(after.as_ref(), AT_ONCE, wanted);
        let complete = next.is_none();
        self.snapshot = next.map(Some);
        let shown = page.iter();
        if let Some(told) = &mut self.told {
            told.extend(shown.clone().map(|shown| shown.id.clone()));
        }
        let approvals = shown.map(|shown| convert::approval(shown, Shown::Cut));
        let approvals = approvals.collect();
        self.message(approvals, complete)
    }

    fn message(
        &self,
        approvals: Vec<pb::Approval>,
        snapshot_complete: bool,
    ) -> pb::WatchApprovalsResponse {
        pb::WatchApprovalsResponse {
            approvals,
            snapshot_complete,
            cursor: match self.snapshot {
                None => self.cursor(),
                Some(_) => String::new(),
            },
        }
    }
}

/// Reads a cursor of this process. None: it is another one's, or none at all.
pub(super) fn read_cursor(cursor: &str, process: &str) -> Option<u64> {
    let (of, number) = cursor.rsplit_once('.')?;
    (of == process).then(|| number.parse().ok()).flatten()
}

#[tonic::async_trait]
impl ApprovalService for Approvals {
    async fn list_approvals(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn get_approval(
        &self,
        request: Request<pb::GetApprovalRequest>,
    ) -> Result<Response<pb::GetApprovalResponse>, Status> {
        let id = approval_id(&request.into_inner().approval_id)?;
        let shown = self.engine.look_at_approval(&id).await;
        let shown = shown.map_err(Failure::from)?;
        Ok(Response::new(pb::GetApprovalResponse {
            approval: Some(convert::approval(&shown, Shown::Whole)),
        }))
    }

    type WatchApprovalsStream = Boxed<pb::WatchApprovalsResponse>;

    async fn watch_approvals(
        &self,
        request: Request<pb::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        let (_, decides) = caller(&request);
        let request = request.into_inner();
        let (last, changed) = self.engine.watch_approvals();
        let cursor = request.after_cursor;
        let (after, snapshot) = match cursor.is_empty() {
            true => (last, Some(None)),
            false => {
                let expired = || {
                    let problem = "the cursor is too old; start from a snapshot";
                    Failure::new(ErrorReason::CursorExpired, problem)
                };
                let after = read_cursor(&cursor, self.engine.process_id()).ok_or_else(expired)?;
                (after, None)
            }
        };
        let watch = Watch {
            engine: self.engine.clone(),
            filter: Filter::read(request.filter),
            after,
            changed,
            snapshot,
            told: cursor.is_empty().then(BTreeSet::new),
            _watching: decides.then(|| self.engine.approver_watches()),
        };
        let stream = futures_util::stream::unfold(Some(watch), |watch| async move {
            let mut watch = watch?;
            let next = watch.next().await;
            let ended = next.is_err();
            Some((next, (!ended).then_some(watch)))
        });
        Ok(Response::new(Box::pin(stream.map(|next| next))))
    }

    async fn decide_approvals(
        &self,
        request: Request<pb::DecideApprovalsRequest>,
    ) -> Result<Response<pb::DecideApprovalsResponse>, Status> {
        let (by, _) = caller(&request);
        let surface = surface(&request);
        let decided = self.decide(&by, &surface, request.into_inner()).await?;
        Ok(Response::new(decided))
    }
}
