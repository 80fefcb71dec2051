//! Sessions: settings, modes that change while calls wait, children, closing.

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::session_service_client::SessionServiceClient;
use tonic::{Code, Status};

use super::{erasing, frozen, with_approver};
use crate::support::failure;
use crate::support::orchestrator::{call, code_of, turn};
use crate::support::sidecar::{Setup, Sidecar};

type Sessions = SessionServiceClient<AuthorizedChannel>;

async fn sessions(sidecar: &Sidecar) -> Sessions {
    SessionServiceClient::new(sidecar.channel().await)
}

fn mode(mode: pb::Mode) -> Option<pb::SessionSettings> {
    Some(pb::SessionSettings {
        mode: mode as i32,
        ..pb::SessionSettings::default()
    })
}

async fn get(sessions: &Sessions, id: &str) -> Result<pb::Session, Status> {
    let request = pb::GetSessionRequest {
        session_id: id.to_owned(),
    };
    let got = sessions.clone().get_session(request).await?;
    Ok(got.into_inner().session.unwrap())
}

async fn update(
    sessions: &Sessions,
    id: &str,
    etag: &str,
    settings: Option<pb::SessionSettings>,
) -> Result<pb::UpdateSessionResponse, Status> {
    let request = pb::UpdateSessionRequest {
        session_id: id.to_owned(),
        etag: etag.to_owned(),
        settings,
    };
    Ok(sessions.clone().update_session(request).await?.into_inner())
}

async fn fork(
    sessions: &Sessions,
    parent: &str,
    child: &str,
    settings: Option<pb::SessionSettings>,
) -> Result<pb::Session, Status> {
    let request = pb::ForkSessionRequest {
        parent_session_id: parent.to_owned(),
        session_id: child.to_owned(),
        settings,
        inherit_grants: false,
    };
    let forked = sessions.clone().fork_session(request).await?;
    Ok(forked.into_inner().session.unwrap())
}

fn refused(status: &Status) -> (Code, String) {
    (status.code(), failure::code(status))
}

#[tokio::test]
async fn a_mode_that_changes_while_calls_wait_releases_or_ends_them() {
    let (sidecar, mut executor, orchestrator, _approver) = with_approver(Setup::default()).await;
    let sessions = sessions(&sidecar).await;
    let mut events = frozen(&orchestrator, erasing("t1")).await;
    let before = get(&sessions, "s").await.unwrap();
    assert_eq!(before.pending_approvals, 1);
    let updated = update(&sessions, "s", &before.etag, mode(pb::Mode::Auto))
        .await
        .unwrap();
    assert_eq!((updated.released, updated.denied), (1, 0));
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
    let old = update(&sessions, "s", &before.etag, mode(pb::Mode::Default))
        .await
        .unwrap_err();
    assert_eq!(refused(&old), (Code::Aborted, "etag_mismatch".to_owned()));
    update(&sessions, "s", "", mode(pb::Mode::Default))
        .await
        .unwrap();
    let mut events = frozen(&orchestrator, erasing("t2")).await;
    let updated = update(&sessions, "s", "", mode(pb::Mode::Plan))
        .await
        .unwrap();
    assert_eq!((updated.released, updated.denied), (0, 1));
    assert_eq!(
        code_of(&events.completed().await, "c"),
        "tool_denied_by_mode"
    );
}

#[tokio::test]
async fn settings_outlive_the_process_and_hold_for_turns_that_say_nothing() {
    let (sidecar, executor, _orchestrator, _approver) = with_approver(Setup::default()).await;
    let created = pb::CreateSessionRequest {
        session_id: "s".to_owned(),
        settings: Some(pb::SessionSettings {
            batch_policy: pb::BatchPolicy::FreezePartial as i32,
            approvers: pb::ApproverAvailability::None as i32,
            max_parallel: Some(3),
            cwd: Some("/work".to_owned()),
            ..pb::SessionSettings::default()
        }),
    };
    let first = sessions(&sidecar).await;
    first.clone().create_session(created.clone()).await.unwrap();
    let taken = first.clone().create_session(created).await.unwrap_err();
    assert_eq!(
        refused(&taken),
        (Code::AlreadyExists, "already_exists".to_owned())
    );
    drop(executor);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let sessions = sessions(&sidecar).await;
    let settings = get(&sessions, "s").await.unwrap().settings.unwrap();
    assert_eq!(settings.batch_policy(), pb::BatchPolicy::FreezePartial);
    assert_eq!(settings.max_parallel, Some(3));
    assert_eq!(settings.cwd.as_deref(), Some("/work"));
    let tools = [crate::support::tools::erase()];
    let hello = crate::support::executor::hello("box", tools);
    let _executor = crate::support::executor::Executor::join(&sidecar, hello).await;
    let orchestrator = crate::support::orchestrator::Orchestrator::connect(&sidecar).await;
    let completed = orchestrator.run_to_end(erasing("t")).await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
    let unknown = get(&sessions, "nobody").await.unwrap_err();
    assert_eq!(refused(&unknown), (Code::NotFound, "not_found".to_owned()));
}

#[tokio::test]
async fn a_child_is_never_freer_than_its_parent_and_its_approvals_are_its_roots() {
    let (sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let sessions = sessions(&sidecar).await;
    let create = pb::CreateSessionRequest {
        session_id: "root".to_owned(),
        settings: None,
    };
    sessions.clone().create_session(create).await.unwrap();
    let freer = fork(&sessions, "root", "x", mode(pb::Mode::Auto))
        .await
        .unwrap_err();
    assert_eq!(
        refused(&freer),
        (Code::FailedPrecondition, "mode_not_allowed".to_owned())
    );
    let child = fork(&sessions, "root", "child", None).await.unwrap();
    assert_eq!((child.root_session_id.as_str(), child.depth), ("root", 1));
    assert_eq!(child.max_mode(), pb::Mode::Default);
    let request = pb::RunTurnRequest {
        session_id: "child".to_owned(),
        ..erasing("t")
    };
    let mut events = frozen(&orchestrator, request).await;
    let approval = approver.only().await;
    assert_eq!(approval.root_session_id, "root");
    assert_eq!(get(&sessions, "root").await.unwrap().pending_approvals, 1);
    // The parent gets stricter: so does the child, at once.
    let updated = update(&sessions, "root", "", mode(pb::Mode::Plan))
        .await
        .unwrap();
    assert_eq!(updated.denied, 1);
    assert_eq!(
        code_of(&events.completed().await, "c"),
        "tool_denied_by_mode"
    );
    let mut parent = "child".to_owned();
    for depth in 2..=8 {
        let id = format!("depth {depth}");
        fork(&sessions, &parent, &id, None).await.unwrap();
        parent = id;
    }
    let too_deep = fork(&sessions, &parent, "depth 9", None).await.unwrap_err();
    assert_eq!(too_deep.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_closed_session_takes_no_turn_and_what_waited_is_cancelled() {
    let (sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let sessions = sessions(&sidecar).await;
    let mut events = frozen(&orchestrator, erasing("t1")).await;
    let child = fork(&sessions, "s", "child", None).await.unwrap();
    assert_eq!(child.parent_session_id, "s");
    let request = pb::CloseSessionRequest {
        session_id: "s".to_owned(),
        reason: "enough".to_owned(),
    };
    let closed = sessions
        .clone()
        .close_session(request.clone())
        .await
        .unwrap();
    assert!(closed.into_inner().session.unwrap().closed_at_ms.is_some());
    assert_eq!(
        events.completed().await.outcome(),
        pb::TurnOutcome::Cancelled
    );
    assert_eq!(approver.pending().await, []);
    sessions.clone().close_session(request).await.unwrap();
    for session in ["s", "child"] {
        let request = pb::RunTurnRequest {
            session_id: session.to_owned(),
            ..turn(&format!("after {session}"), [call("c", "echo", "{}")])
        };
        let status = orchestrator.refused(request).await;
        assert_eq!(
            refused(&status),
            (Code::FailedPrecondition, "session_closed".to_owned())
        );
    }
    let update = update(&sessions, "s", "", mode(pb::Mode::Plan))
        .await
        .unwrap_err();
    assert_eq!(
        refused(&update),
        (Code::FailedPrecondition, "session_closed".to_owned())
    );
}

#[tokio::test]
async fn an_approver_may_change_the_mode_and_nothing_else() {
    let (_sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    // The control socket is an approver's and an administrator's: a token is one of them.
    let request = pb::UpdateSessionRequest {
        session_id: "s".to_owned(),
        etag: String::new(),
        settings: mode(pb::Mode::Plan),
    };
    let updated = approver
        .sessions
        .clone()
        .update_session(request)
        .await
        .unwrap();
    assert_eq!(updated.into_inner().denied, 1);
    events.completed().await;
}

#[tokio::test]
async fn sessions_are_listed_last_used_first() {
    let (sidecar, _executor, orchestrator, _approver) = with_approver(Setup::default()).await;
    let sessions = sessions(&sidecar).await;
    for session in ["a", "b", "c"] {
        let create = pb::CreateSessionRequest {
            session_id: session.to_owned(),
            settings: None,
        };
        sessions.clone().create_session(create).await.unwrap();
    }
    let request = pb::RunTurnRequest {
        session_id: "a".to_owned(),
        ..erasing("t")
    };
    let _events = frozen(&orchestrator, request).await;
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let request = pb::ListSessionsRequest {
            page_size: 2,
            page_token: token,
            ..pb::ListSessionsRequest::default()
        };
        let page = sessions
            .clone()
            .list_sessions(request)
            .await
            .unwrap()
            .into_inner();
        found.extend(page.sessions.into_iter().map(|session| session.session_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, ["a", "b", "c"]);
}
