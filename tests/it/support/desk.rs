//! A sidecar that only knows approvals, sessions and events, and answers as a test scripts it.
//!
//! Serves a socket of its own, keeps what it was asked, and can lose its streams. Never decides by itself
//! more than a test said: a decision that nothing was scripted for is taken.

mod services;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use callgate::pb::v1 as pb;
use parking_lot::Mutex;
use pb::approval_service_server::ApprovalServiceServer;
use pb::event_service_server::EventServiceServer;
use pb::session_service_server::SessionServiceServer;
use services::Front;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic::transport::Server;

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
    refuses: bool,
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

    /// Says no to whoever watches, and ends every stream.
    pub(crate) fn refuse(&self) {
        let mut inner = self.shared.inner.lock();
        inner.refuses = true;
        inner.watchers.clear();
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

    /// Waits until somebody follows events.
    pub(crate) async fn until_subscribed(&self) {
        self.until("a subscriber", |desk| {
            !desk.shared.inner.lock().subscribers.is_empty()
        })
        .await;
    }

    /// Waits until this holds of what came in.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
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
