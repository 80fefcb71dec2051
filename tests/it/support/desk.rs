//! A sidecar that only knows approvals, sessions and events, and answers as a test scripts it.
//!
//! Serves a socket of its own, keeps what it was asked, and can lose its streams. Never decides by itself
//! more than a test said: a decision that nothing was scripted for is taken.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use callgate::pb::v1 as pb;
use parking_lot::Mutex;
use pb::approval_service_server::{ApprovalService, ApprovalServiceServer};
use pb::event_service_server::{EventService, EventServiceServer};
use pb::session_service_server::{SessionService, SessionServiceServer};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::sidecar::home;
use super::soon;

/// Messages that wait to be sent on one stream.
const OUT_MAX: usize = 64;

/// A desk that serves.
pub(crate) struct Desk {
    home: TempDir,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    /// Something came in.
    asked: Notify,
}

#[derive(Default)]
struct Inner {
    approvals: BTreeMap<String, pb::Approval>,
    sessions: BTreeMap<String, pb::Session>,
    grants: Vec<pb::Grant>,
    /// What the next decisions get. None left: they are taken.
    outcomes: VecDeque<Result<pb::DecisionOutcome, Status>>,
    decisions: Vec<(pb::ApprovalDecision, String)>,
    updates: Vec<pb::UpdateSessionRequest>,
    watches: Vec<pb::WatchApprovalsRequest>,
    watchers: Vec<mpsc::Sender<Result<pb::WatchApprovalsResponse, Status>>>,
    subscribers: Vec<mpsc::Sender<Result<pb::SubscribeResponse, Status>>>,
    cursor: u64,
    is_away: bool,
    cursors_expire: bool,
}

/// A pending approval of a command, with both choices and one grant.
pub(crate) fn approval(id: &str, command: &str) -> pb::Approval {
    let arguments = serde_json::json!({"command": command});
    pb::Approval {
        approval_id: id.to_owned(),
        session_id: "s".to_owned(),
        root_session_id: "s".to_owned(),
        run_id: "r".to_owned(),
        turn_id: "t".to_owned(),
        call: Some(pb::ToolCall {
            call_id: format!("call-{id}"),
            ..pb::ToolCall::default()
        }),
        tool: "run_shell".to_owned(),
        owner: "box".to_owned(),
        risk_level: pb::RiskLevel::Dangerous as i32,
        kind: pb::ToolKind::Execute as i32,
        effective_arguments_json: arguments.to_string().into(),
        display_arguments: format!("{arguments:#}"),
        approval_digest: format!("digest of {id}").into(),
        verdict: Some(pb::PermissionVerdict {
            effect: pb::PermissionEffect::Ask as i32,
            stage: pb::DecisionStage::AskRule as i32,
            rule: "run_shell(git push*)".to_owned(),
            source: pb::RuleSource::UserSettings as i32,
            origin: "settings.json:4".to_owned(),
            message: "pushes are asked for".to_owned(),
            ..pb::PermissionVerdict::default()
        }),
        allowed_choices: [
            pb::ApprovalChoice::Once,
            pb::ApprovalChoice::Session,
            pb::ApprovalChoice::Deny,
            pb::ApprovalChoice::Edit,
            pb::ApprovalChoice::Respond,
        ]
        .map(|choice| choice as i32)
        .to_vec(),
        grant_candidates: vec![candidate("g1", "run_shell(git push *)", 0)],
        state: pb::ApprovalState::Pending as i32,
        created_at_ms: 1,
        pending_in_batch: 1,
        mode: pb::Mode::Default as i32,
        etag: format!("etag of {id}"),
        ..pb::Approval::default()
    }
}

/// A proposal for one part of a command.
pub(crate) fn candidate(id: &str, rule: &str, segment: u32) -> pb::GrantCandidate {
    pb::GrantCandidate {
        candidate_id: id.to_owned(),
        kind: pb::GrantKind::CommandPrefix as i32,
        rule: rule.to_owned(),
        summary: format!("commands as `{rule}` run unasked"),
        segment: format!("part {segment}"),
        segment_index: Some(segment),
        also_covers: 0,
    }
}

/// An open session in a mode.
pub(crate) fn session(id: &str, mode: pb::Mode) -> pb::Session {
    pb::Session {
        session_id: id.to_owned(),
        root_session_id: id.to_owned(),
        settings: Some(pb::SessionSettings {
            mode: mode as i32,
            ..pb::SessionSettings::default()
        }),
        max_mode: pb::Mode::AcceptEdits as i32,
        created_at_ms: 1,
        used_at_ms: 1,
        pending_approvals: 2,
        etag: format!("etag of {id}"),
        ..pb::Session::default()
    }
}

/// An outcome that is none of a decision taken.
pub(crate) fn not_taken(
    status: pb::DecisionStatus,
    code: &str,
    now: Option<pb::Approval>,
) -> pb::DecisionOutcome {
    pb::DecisionOutcome {
        approval_id: now.as_ref().map_or("a1", |now| &now.approval_id).to_owned(),
        status: status as i32,
        approval: now,
        error: Some(pb::RpcError {
            status: 9,
            message: "not taken".to_owned(),
            detail: Some(pb::ErrorDetail {
                code: code.to_owned(),
                ..pb::ErrorDetail::default()
            }),
        }),
    }
}

impl Desk {
    /// One that serves approvals and sessions.
    pub(crate) fn open() -> Self {
        Self::serve(false)
    }

    /// One that serves events, too.
    pub(crate) fn with_events() -> Self {
        Self::serve(true)
    }

    fn serve(events: bool) -> Self {
        let home = home();
        std::fs::create_dir(home.path().join("s")).unwrap();
        let shared = Arc::new(Shared::default());
        let listener = UnixListener::bind(home.path().join("s/control.sock")).unwrap();
        let front = || Front(shared.clone());
        let server = Server::builder()
            .add_service(ApprovalServiceServer::new(front()))
            .add_service(SessionServiceServer::new(front()))
            .add_optional_service(events.then(|| EventServiceServer::new(front())));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let incoming = UnixListenerStream::new(listener);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            home,
            shared,
            _serving: serving,
        }
    }

    /// The directory of the sockets.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        self.home.path().join("s")
    }

    /// The directory of this test.
    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// Puts an approval there, or in place of the one of its id, and tells whoever watches.
    pub(crate) fn put(&self, approval: pb::Approval) {
        let mut inner = self.shared.inner.lock();
        let id = approval.approval_id.clone();
        inner.approvals.insert(id, approval.clone());
        inner.tell(cut(&approval));
    }

    /// Takes an approval away while nobody is told.
    pub(crate) fn lose(&self, id: &str) {
        self.shared.inner.lock().approvals.remove(id);
    }

    /// Puts a session there, or in place of the one of its id.
    pub(crate) fn put_session(&self, session: pb::Session) {
        let mut inner = self.shared.inner.lock();
        inner.sessions.insert(session.session_id.clone(), session);
    }

    /// Puts a grant there.
    pub(crate) fn put_grant(&self, grant: pb::Grant) {
        self.shared.inner.lock().grants.push(grant);
    }

    /// What the decision after those that are scripted already gets.
    pub(crate) fn script(&self, outcome: Result<pb::DecisionOutcome, Status>) {
        self.shared.inner.lock().outcomes.push_back(outcome);
    }

    /// Tells subscribers of this.
    pub(crate) fn happen(&self, events: Vec<pb::EventRecord>) {
        let mut inner = self.shared.inner.lock();
        let message = pb::SubscribeResponse {
            events,
            ..pb::SubscribeResponse::default()
        };
        inner
            .subscribers
            .retain(|out| out.try_send(Ok(message.clone())).is_ok());
    }

    /// Ends every stream and refuses new ones until [`Desk::come_back`].
    pub(crate) fn go_away(&self) {
        let mut inner = self.shared.inner.lock();
        inner.is_away = true;
        inner.watchers.clear();
        inner.subscribers.clear();
    }

    /// Serves again.
    pub(crate) fn come_back(&self) {
        self.shared.inner.lock().is_away = false;
    }

    /// Refuses every cursor from now on.
    pub(crate) fn forget_cursors(&self) {
        self.shared.inner.lock().cursors_expire = true;
    }

    /// Decisions as they came, each with the client that it named.
    pub(crate) fn decisions(&self) -> Vec<(pb::ApprovalDecision, String)> {
        self.shared.inner.lock().decisions.clone()
    }

    /// Changes of sessions as they came.
    pub(crate) fn updates(&self) -> Vec<pb::UpdateSessionRequest> {
        self.shared.inner.lock().updates.clone()
    }

    /// Cursors of the watches as they came.
    pub(crate) fn cursors(&self) -> Vec<String> {
        let inner = self.shared.inner.lock();
        let watches = inner.watches.iter();
        watches.map(|watch| watch.after_cursor.clone()).collect()
    }

    /// Waits until this holds of what came in.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let asked = self.shared.asked.notified();
                if holds(self) {
                    return;
                }
                asked.await;
            }
        };
        soon(what, waiting).await;
    }
}

impl Inner {
    fn tell(&mut self, approval: pb::Approval) {
        self.cursor += 1;
        let message = pb::WatchApprovalsResponse {
            approvals: vec![approval],
            snapshot_complete: false,
            cursor: self.cursor.to_string(),
        };
        self.watchers
            .retain(|out| out.try_send(Ok(message.clone())).is_ok());
    }

    fn pending(&self) -> Vec<pb::Approval> {
        let pending = self.approvals.values();
        let pending = pending.filter(|approval| approval.state() == pb::ApprovalState::Pending);
        pending.map(cut).collect()
    }
}

/// As lists and watches have it: long arguments are cut.
fn cut(approval: &pb::Approval) -> pb::Approval {
    const LONG: usize = 4_096;
    let mut approval = approval.clone();
    if approval.display_arguments.len() > LONG {
        approval.display_arguments.truncate(LONG);
        approval.effective_arguments_json.truncate(LONG);
        approval.arguments_cut = true;
    }
    approval
}

/// What the services of one desk have in common.
struct Front(Arc<Shared>);

type Stream<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl ApprovalService for Front {
    async fn list_approvals(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        // One a page, so that a client that reads the first alone is found out.
        let request = request.into_inner();
        let inner = self.0.inner.lock();
        let page: usize = request.page_token.parse().unwrap_or(0);
        let filter = request.filter.unwrap_or_default();
        let approvals: Vec<_> = match filter.states.is_empty() {
            true => inner.pending(),
            false => inner.approvals.values().map(cut).collect(),
        };
        let next = page + 1;
        Ok(Response::new(pb::ListApprovalsResponse {
            total: u32::try_from(approvals.len()).unwrap(),
            next_page_token: match next < approvals.len() {
                true => next.to_string(),
                false => String::new(),
            },
            approvals: approvals.into_iter().skip(page).take(1).collect(),
        }))
    }

    async fn get_approval(
        &self,
        request: Request<pb::GetApprovalRequest>,
    ) -> Result<Response<pb::GetApprovalResponse>, Status> {
        let inner = self.0.inner.lock();
        let approval = inner.approvals.get(&request.into_inner().approval_id);
        let approval = approval.ok_or_else(|| Status::not_found("no such approval"))?;
        Ok(Response::new(pb::GetApprovalResponse {
            approval: Some(approval.clone()),
        }))
    }

    type WatchApprovalsStream = Stream<pb::WatchApprovalsResponse>;

    async fn watch_approvals(
        &self,
        request: Request<pb::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        let request = request.into_inner();
        let mut inner = self.0.inner.lock();
        inner.watches.push(request.clone());
        self.0.asked.notify_waiters();
        if inner.is_away {
            return Err(Status::unavailable("gone for lunch"));
        }
        let is_fresh = request.after_cursor.is_empty();
        if !is_fresh && inner.cursors_expire {
            return Err(Status::out_of_range("the cursor is too old"));
        }
        let (out, messages) = mpsc::channel(OUT_MAX);
        if is_fresh {
            let snapshot = pb::WatchApprovalsResponse {
                approvals: inner.pending(),
                snapshot_complete: true,
                cursor: inner.cursor.to_string(),
            };
            out.try_send(Ok(snapshot)).unwrap();
        }
        inner.watchers.push(out);
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn decide_approvals(
        &self,
        request: Request<pb::DecideApprovalsRequest>,
    ) -> Result<Response<pb::DecideApprovalsResponse>, Status> {
        let client = request.metadata().get("callgate-client");
        let client = client
            .map_or("", |client| client.to_str().unwrap())
            .to_owned();
        let mut inner = self.0.inner.lock();
        let mut outcomes = Vec::new();
        for decision in request.into_inner().decisions {
            inner.decisions.push((decision.clone(), client.clone()));
            self.0.asked.notify_waiters();
            let outcome = match inner.outcomes.pop_front() {
                Some(outcome) => outcome?,
                None => inner.take(&decision)?,
            };
            outcomes.push(outcome);
        }
        Ok(Response::new(pb::DecideApprovalsResponse { outcomes }))
    }
}

impl Inner {
    fn take(&mut self, decision: &pb::ApprovalDecision) -> Result<pb::DecisionOutcome, Status> {
        let approval = self.approvals.get_mut(&decision.approval_id);
        let approval = approval.ok_or_else(|| Status::not_found("no such approval"))?;
        if decision.approval_digest != approval.approval_digest || decision.etag != approval.etag {
            let now = approval.clone();
            let refused = pb::DecisionStatus::Refused;
            return Ok(not_taken(refused, "etag_mismatch", Some(now)));
        }
        approval.state = match decision.choice() {
            pb::ApprovalChoice::Once | pb::ApprovalChoice::Session | pb::ApprovalChoice::Edit => {
                pb::ApprovalState::Approved
            }
            pb::ApprovalChoice::Deny | pb::ApprovalChoice::Unspecified => pb::ApprovalState::Denied,
            pb::ApprovalChoice::Respond => pb::ApprovalState::Answered,
            pb::ApprovalChoice::CancelTurn => pb::ApprovalState::Cancelled,
        } as i32;
        approval.decision = Some(pb::Decision {
            decision_id: decision.decision_id.clone(),
            choice: decision.choice,
            decided_by: "somebody".to_owned(),
            message: decision.message.clone(),
            ..pb::Decision::default()
        });
        let now = approval.clone();
        self.tell(cut(&now));
        Ok(pb::DecisionOutcome {
            approval_id: now.approval_id.clone(),
            status: pb::DecisionStatus::Taken as i32,
            approval: Some(now),
            error: None,
        })
    }
}

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not at this desk"))
}

#[tonic::async_trait]
impl SessionService for Front {
    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let inner = self.0.inner.lock();
        let session = inner.sessions.get(&request.into_inner().session_id);
        let session = session.ok_or_else(|| Status::not_found("no such session"))?;
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(session.clone()),
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let inner = self.0.inner.lock();
        let page: usize = request.into_inner().page_token.parse().unwrap_or(0);
        let next = page + 1;
        Ok(Response::new(pb::ListSessionsResponse {
            sessions: inner
                .sessions
                .values()
                .skip(page)
                .take(1)
                .cloned()
                .collect(),
            next_page_token: match next < inner.sessions.len() {
                true => next.to_string(),
                false => String::new(),
            },
        }))
    }

    async fn update_session(
        &self,
        request: Request<pb::UpdateSessionRequest>,
    ) -> Result<Response<pb::UpdateSessionResponse>, Status> {
        let request = request.into_inner();
        let mut inner = self.0.inner.lock();
        inner.updates.push(request.clone());
        self.0.asked.notify_waiters();
        let session = inner.sessions.get_mut(&request.session_id);
        let session = session.ok_or_else(|| Status::not_found("no such session"))?;
        if request.etag != session.etag {
            return Err(Status::aborted("the etag is old"));
        }
        let mode = request.settings.unwrap_or_default().mode;
        if mode > session.max_mode {
            return Err(Status::failed_precondition("mode_not_allowed"));
        }
        session.settings.get_or_insert_default().mode = mode;
        Ok(Response::new(pb::UpdateSessionResponse {
            session: Some(session.clone()),
            released: 2,
            denied: 1,
        }))
    }

    async fn list_grants(
        &self,
        request: Request<pb::ListGrantsRequest>,
    ) -> Result<Response<pb::ListGrantsResponse>, Status> {
        let request = request.into_inner();
        let inner = self.0.inner.lock();
        let grants = inner.grants.iter();
        let grants = grants.filter(|grant| request.state == 0 || grant.state == request.state);
        Ok(Response::new(pb::ListGrantsResponse {
            grants: grants.cloned().collect(),
            next_page_token: String::new(),
        }))
    }

    async fn revoke_grants(
        &self,
        request: Request<pb::RevokeGrantsRequest>,
    ) -> Result<Response<pb::RevokeGrantsResponse>, Status> {
        let request = request.into_inner();
        let mut inner = self.0.inner.lock();
        let mut meant = Vec::new();
        for grant in &mut inner.grants {
            let is_meant =
                request.grant_ids.is_empty() || request.grant_ids.contains(&grant.grant_id);
            if is_meant {
                grant.state = pb::GrantState::Revoked as i32;
                meant.push(grant.clone());
            }
        }
        match meant.is_empty() {
            true => Err(Status::not_found("no such grant")),
            false => Ok(Response::new(pb::RevokeGrantsResponse {
                grants: meant,
                mode: pb::Mode::Default as i32,
            })),
        }
    }

    async fn create_session(
        &self,
        _: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        not_here()
    }

    async fn fork_session(
        &self,
        _: Request<pb::ForkSessionRequest>,
    ) -> Result<Response<pb::ForkSessionResponse>, Status> {
        not_here()
    }

    async fn close_session(
        &self,
        _: Request<pb::CloseSessionRequest>,
    ) -> Result<Response<pb::CloseSessionResponse>, Status> {
        not_here()
    }
}

#[tonic::async_trait]
impl EventService for Front {
    type SubscribeStream = Stream<pb::SubscribeResponse>;

    async fn subscribe(
        &self,
        _: Request<pb::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut inner = self.0.inner.lock();
        if inner.is_away {
            return Err(Status::unavailable("gone for lunch"));
        }
        let (out, messages) = mpsc::channel(OUT_MAX);
        let complete = pb::SubscribeResponse {
            snapshot_complete: true,
            ..pb::SubscribeResponse::default()
        };
        out.try_send(Ok(complete)).unwrap();
        inner.subscribers.push(out);
        self.0.asked.notify_waiters();
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
