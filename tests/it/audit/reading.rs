//! The service: lists, follows, verifies, exports.

use bytes::Bytes;
use callgate_client::pb::v1 as pb;
use tonic::Code;

use super::{admin, kinds, records, until_kind};
use crate::support::approver::{Approver, choose};
use crate::support::failure::code;
use crate::support::orchestrator::{call, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, soon, tools};

#[tokio::test]
async fn a_safe_call_is_recorded_from_its_decision_to_its_end() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let following = orchestrator.run(turn("t", [call("c", "echo", "{\"text\":\"x\"}")]));
    let mut following = following.await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    following.completed().await;
    let mut client = admin(&sidecar).await;
    let filter = pb::AuditFilter {
        turn_id: "t".to_owned(),
        ..pb::AuditFilter::default()
    };
    until_kind(&mut client, "turn.ended").await;
    // Which rules held when it was decided.
    let rules = until_kind(&mut client, "policy.changed").await;
    let found = records(&mut client, filter).await;
    assert_eq!(
        kinds(&found),
        ["turn.accepted", "call.decided", "call.ended", "turn.ended"]
    );
    assert!(rules[0].sequence < found[0].sequence);
    assert!(found[0].principal.starts_with("uid:"), "{:?}", found[0]);
    let decided = String::from_utf8(found[1].record_json.to_vec()).unwrap();
    for part in [
        r#""original_call":{"arguments":{"text":"x"}"#,
        r#""verdict":"allow""#,
        r#""stage":"mode_and_risk""#,
        r#""tool":"echo""#,
    ] {
        assert!(decided.contains(part), "{part} in {decided}");
    }
    let request = pb::VerifyAuditRequest::default();
    let verified = client.verify_audit(request).await.unwrap().into_inner();
    assert!(verified.intact, "{verified:?}");
    assert_eq!(verified.first_kept_sequence, 1);
    assert!(verified.checked_records >= 5);
}

#[tokio::test]
async fn every_setting_of_a_session_that_decides_who_is_asked_is_recorded() {
    let (sidecar, _executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let settings = pb::SessionSettings {
        mode: pb::Mode::Plan as i32,
        batch_policy: pb::BatchPolicy::EagerSafe as i32,
        approvers: pb::ApproverAvailability::None as i32,
        approval_ttl_ms: Some(5_000),
        ..pb::SessionSettings::default()
    };
    let create = pb::CreateSessionRequest {
        session_id: "s".to_owned(),
        settings: Some(settings),
    };
    let mut sessions = Approver::connect(&sidecar).await.sessions;
    sessions.create_session(create).await.unwrap();
    let found = until_kind(&mut admin(&sidecar).await, "session.changed").await;
    let text = String::from_utf8(found[0].record_json.to_vec()).unwrap();
    let set = r#""approval_ttl_ms":5000,"approvers":"none","batch_policy":"eager_safe""#;
    assert!(
        text.contains(set) && text.contains(r#""mode":"plan""#),
        "{text}"
    );
}

#[tokio::test]
async fn an_edited_call_is_recorded_as_it_was_made_and_as_it_ran() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::edit()]).await;
    let mut following = orchestrator
        .run(turn("t", [call("c", "edit", "{\"text\":\"model\"}")]))
        .await;
    let approver = Approver::connect(&sidecar).await;
    let asked = soon("an approval", async {
        loop {
            if let Some(asked) = approver.pending().await.pop() {
                return asked;
            }
        }
    })
    .await;
    let mut decision = choose(&asked, pb::ApprovalChoice::Edit);
    decision.edited_arguments_json = Bytes::from_static(b"{\"text\":\"person\"}");
    approver.decide(decision).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    following.completed().await;
    let mut client = admin(&sidecar).await;
    let filter = pb::AuditFilter {
        call_id: "c".to_owned(),
        ..pb::AuditFilter::default()
    };
    let found = records(&mut client, filter).await;
    let expected = [
        "approval.asked",
        "approval.decided",
        "call.decided",
        "call.dispatched",
        "call.ended",
    ];
    assert_eq!(kinds(&found), expected);
    assert!(found[1].principal.starts_with("uid:"));
    let decided = String::from_utf8(found[2].record_json.to_vec()).unwrap();
    for part in [
        r#""original_call":{"arguments":{"text":"model"}"#,
        r#""effective_call":{"arguments":{"text":"person"}"#,
        r#""approval":"approved""#,
    ] {
        assert!(decided.contains(part), "{part} in {decided}");
    }
}

#[tokio::test]
async fn a_decision_that_is_said_twice_is_recorded_once_and_one_that_lost_not_as_a_decision() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::edit()]).await;
    let mut following = orchestrator.run(turn("t", [call("c", "edit", "{}")])).await;
    let approver = Approver::connect(&sidecar).await;
    let suspended =
        |body: &pb::turn_event::Body| matches!(body, pb::turn_event::Body::TurnSuspended(_));
    following.until(suspended).await;
    let asked = approver.only().await;
    let once = pb::ApprovalDecision {
        decision_id: "mine".to_owned(),
        ..choose(&asked, pb::ApprovalChoice::Once)
    };
    for expected in [pb::DecisionStatus::Taken, pb::DecisionStatus::Repeated] {
        let outcome = approver.decide(once.clone()).await;
        assert_eq!(outcome.status(), expected);
        let decision = outcome.approval.unwrap().decision.unwrap();
        assert_eq!(decision.decision_id, "mine");
    }
    let lost = approver
        .decide(choose(&asked, pb::ApprovalChoice::Deny))
        .await;
    assert_eq!(lost.status(), pb::DecisionStatus::Conflict);
    let winner = lost.approval.unwrap().decision.unwrap();
    assert_eq!(winner.decision_id, "mine");
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    following.completed().await;
    let mut client = admin(&sidecar).await;
    let found = until_kind(&mut client, "approval.decided").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let text = String::from_utf8(found[0].record_json.to_vec()).unwrap();
    assert!(text.contains(r#""choice":"once""#), "{text}");
    assert!(text.contains(r#""decision_id":"mine""#), "{text}");
}

#[tokio::test]
async fn a_secret_argument_reaches_the_executor_and_not_the_audit() {
    let secret = "hunter2-for-nobody";
    let mut tool = tools::echo();
    tool.secret_pointers = vec!["/text".to_owned()];
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tool]).await;
    let arguments = format!("{{\"text\":\"{secret}\"}}");
    let mut following = orchestrator
        .run(turn("t", [call("c", "echo", &arguments)]))
        .await;
    let work = executor.work().await;
    assert_eq!(work.arguments_json, arguments.as_bytes());
    executor.answer_text(&work, "done").await;
    following.completed().await;
    let mut client = admin(&sidecar).await;
    until_kind(&mut client, "turn.ended").await;
    let found = records(&mut client, pb::AuditFilter::default()).await;
    for record in &found {
        let text = String::from_utf8_lossy(&record.record_json).into_owned();
        assert!(!text.contains(secret), "{text}");
    }
    let decided = found.iter().find(|record| record.kind == "call.decided");
    let text = String::from_utf8_lossy(&decided.unwrap().record_json).into_owned();
    assert!(text.contains(r#""text":"[secret]""#), "{text}");
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_in_the_audit_only() {
    let setup = Setup::default().set("turn.cancel_grace_ms", 0);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::write()]).await;
    let mut following = orchestrator
        .run(turn("t", [call("c", "write", "{}")]))
        .await;
    let work = executor.work().await;
    executor.accept(&work).await;
    let mut turns = orchestrator.turns.clone();
    let cancel = pb::CancelTurnRequest {
        turn_id: "t".to_owned(),
        ..pb::CancelTurnRequest::default()
    };
    turns.cancel_turn(cancel).await.unwrap();
    following.completed().await;
    executor.answer_text(&work, "too late").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Late);
    let mut client = admin(&sidecar).await;
    let found = until_kind(&mut client, "call.late_result").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].principal, "box");
    let text = String::from_utf8_lossy(&found[0].record_json).into_owned();
    assert!(text.contains(r#""result_digest":""#), "{text}");
}

#[tokio::test]
async fn who_is_refused_is_recorded() {
    let (sidecar, _executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut stranger = super::AuditServiceClient::new(sidecar.channel().await);
    let request = pb::ExportAuditRequest::default();
    let refused = stranger.export_audit(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let mut client = admin(&sidecar).await;
    let found = until_kind(&mut client, "security").await;
    assert_eq!(kinds(&found), ["security.refused"]);
    let text = String::from_utf8_lossy(&found[0].record_json).into_owned();
    for part in [
        "role_missing",
        "/callgate.v1.AuditService/ExportAudit",
        "\"door\":\"local\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn watchers_get_what_comes_and_can_go_on_where_they_were() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut client = admin(&sidecar).await;
    let filter = pb::AuditFilter {
        kinds: vec!["turn.ended".to_owned()],
        ..pb::AuditFilter::default()
    };
    let request = pb::WatchAuditRecordsRequest {
        filter: Some(filter.clone()),
        after_sequence: Some(0),
    };
    let mut watching = client
        .watch_audit_records(request)
        .await
        .unwrap()
        .into_inner();
    let mut last = 0;
    for id in ["one", "two"] {
        orchestrator.run_to_end(turn(id, [])).await;
        let message = soon("a record", watching.message()).await.unwrap().unwrap();
        assert_eq!(kinds(&message.records), ["turn.ended"]);
        assert_eq!(message.records[0].turn_id, id);
        assert!(message.last_sequence > last);
        last = message.last_sequence;
    }
    drop(watching);
    orchestrator.run_to_end(turn("three", [])).await;
    let request = pb::WatchAuditRecordsRequest {
        filter: Some(filter),
        after_sequence: Some(last),
    };
    let mut watching = client
        .watch_audit_records(request)
        .await
        .unwrap()
        .into_inner();
    let message = soon("a record", watching.message()).await.unwrap().unwrap();
    assert_eq!(message.records[0].turn_id, "three");
    let ahead = pb::WatchAuditRecordsRequest {
        filter: None,
        after_sequence: Some(u64::MAX >> 1),
    };
    let refused = client.watch_audit_records(ahead).await.unwrap_err();
    assert_eq!(code(&refused), "invalid_request");
}

#[tokio::test]
async fn bounds_hold_at_the_limit_and_not_above() {
    let (sidecar, _executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut client = admin(&sidecar).await;
    let list = |page_size, text: String| pb::ListAuditRecordsRequest {
        filter: Some(pb::AuditFilter {
            text,
            ..pb::AuditFilter::default()
        }),
        page_size,
        page_token: String::new(),
    };
    client
        .list_audit_records(list(1_000, "x".repeat(512)))
        .await
        .unwrap();
    let above = [list(1_001, String::new()), list(1, "x".repeat(513))];
    for request in above {
        let refused = client.list_audit_records(request).await.unwrap_err();
        assert_eq!(code(&refused), "invalid_request");
    }
    let mut request = list(1, String::new());
    request.page_token = "none".to_owned();
    let refused = client.list_audit_records(request).await.unwrap_err();
    assert_eq!(code(&refused), "invalid_request");
    let backwards = pb::VerifyAuditRequest {
        first_sequence: 3,
        last_sequence: 2,
        checkpoint: None,
    };
    let refused = client.verify_audit(backwards).await.unwrap_err();
    assert_eq!(code(&refused), "invalid_request");
}

#[tokio::test]
async fn a_checkpoint_that_was_kept_outside_is_compared() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    orchestrator.run_to_end(turn("t", [])).await;
    let mut client = admin(&sidecar).await;
    until_kind(&mut client, "turn.ended").await;
    // An export signs the head.
    let export = client.export_audit(pb::ExportAuditRequest::default()).await;
    let mut export = export.unwrap().into_inner();
    let mut kept = None;
    while let Some(message) = export.message().await.unwrap() {
        kept = message.checkpoint.or(kept);
    }
    let kept = kept.unwrap();
    let listed = client
        .list_audit_checkpoints(pb::ListAuditCheckpointsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed.checkpoints, std::slice::from_ref(&kept));
    assert_eq!(listed.public_key.len(), 32);
    let verify = |checkpoint: pb::AuditCheckpoint| pb::VerifyAuditRequest {
        checkpoint: Some(checkpoint),
        ..pb::VerifyAuditRequest::default()
    };
    let good = client.verify_audit(verify(kept.clone())).await.unwrap();
    assert!(good.get_ref().intact, "{good:?}");
    let mut forged = kept.clone();
    let mut signature = forged.signature.to_vec();
    signature[0] ^= 1;
    forged.signature = signature.into();
    let found = client
        .verify_audit(verify(forged))
        .await
        .unwrap()
        .into_inner();
    assert!(!found.intact);
    assert_eq!(found.problem(), pb::AuditProblem::CheckpointMismatch);
    assert_eq!(found.first_bad_sequence, kept.sequence);
    let foreign = pb::AuditCheckpoint {
        key_id: "ed25519:of-somebody".to_owned(),
        ..kept
    };
    let refused = client.verify_audit(verify(foreign)).await.unwrap_err();
    assert_eq!(code(&refused), "invalid_request");
}
