//! `callgate approvals` and `callgate sessions` as people and scripts see them.
//!
//! Against a desk that answers as scripted. Never against a sidecar that decides by itself.

use std::process::Stdio;

use callgate::pb::v1 as pb;
use serde_json::Value;
use tokio::process::Command;
use tonic::Status;

use crate::support::desk::{Desk, approval, candidate, not_taken, session};
use crate::support::soon;

/// What a run left behind.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// The objects of its lines.
    fn json(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

async fn run(desk: &Desk, arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(arguments)
        .env_clear()
        .env("HOME", desk.home())
        .env("CALLGATE_SOCKET_DIR", desk.socket_dir())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = soon("the command to end", output).await.unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test]
async fn every_page_of_what_waits_is_listed() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    desk.put(approval("a2", "git push --force"));
    let ran = run(&desk, &["approvals", "list"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.out);
    assert!(lines[0].starts_with("approval  age"), "{}", ran.out);
    for (line, id) in lines[1..].iter().zip(["a1", "a2"]) {
        assert!(line.starts_with(id), "{line}");
        assert!(line.contains("s        run_shell  dangerous"), "{line}");
        assert!(
            line.ends_with("ask rule `run_shell(git push*)` of user_settings, settings.json:4"),
            "{line}"
        );
    }
    let ran = run(&desk, &["approvals", "list", "--json"]).await;
    let ids: Vec<_> = ran
        .json()
        .iter()
        .map(|one| one["approval_id"].clone())
        .collect();
    assert_eq!(ids, ["a1", "a2"]);
}

#[tokio::test]
async fn an_approval_is_shown_whole_and_hides_nothing() {
    let desk = Desk::open();
    let mut long = approval("a1", &"x".repeat(10_000));
    long.display_arguments
        .push_str("\n  \u{202e}gnp.exe \u{1b}[2J\u{200b} the end");
    long.owner = "box\u{7}".to_owned();
    desk.put(long);
    let ran = run(&desk, &["approvals", "show", "a1"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains(&"x".repeat(10_000)));
    for text in [
        "|   \\u{202e}gnp.exe \\u{1b}[2J\\u{200b} the end",
        "of box\\u{7}, execute, dangerous",
        "command_prefix `run_shell(git push *)`  (g1)",
        "pushes are asked for",
        "choices   once, session, deny, edit, respond",
    ] {
        assert!(ran.out.contains(text), "{text} is not in {}", ran.out);
    }
    let is_plain = |character: char| character == '\n' || !character.is_control();
    assert!(ran.out.chars().all(is_plain) && ran.out.is_ascii());
}

#[tokio::test]
async fn a_decision_carries_what_was_read() {
    let desk = Desk::open();
    for id in ["a1", "a2", "a3", "a4", "a5"] {
        desk.put(approval(id, "git push"));
    }
    let cases: &[(&[&str], pb::ApprovalChoice)] = &[
        (
            &["approve", "a1", "--message", "fine"],
            pb::ApprovalChoice::Once,
        ),
        (&["approve", "a2", "--session"], pb::ApprovalChoice::Session),
        (
            &["approve", "a3", "--edit", r#"{"command": "ls"}"#],
            pb::ApprovalChoice::Edit,
        ),
        (
            &["deny", "a4", "--message", "not today"],
            pb::ApprovalChoice::Deny,
        ),
        (
            &["respond", "a5", "it is done"],
            pb::ApprovalChoice::Respond,
        ),
    ];
    for (arguments, choice) in cases {
        let ran = run(&desk, &[&["approvals"], *arguments].concat()).await;
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}");
        let id = arguments[1];
        let word = choice.as_str_name().trim_start_matches("APPROVAL_CHOICE_");
        assert_eq!(ran.out, format!("taken  {id}  {}\n", word.to_lowercase()));
        let (decision, client) = desk.decisions().pop().unwrap();
        assert_eq!(decision.choice(), *choice);
        assert_eq!(decision.approval_digest, format!("digest of {id}"));
        assert_eq!(decision.etag, format!("etag of {id}"));
        assert!(!decision.decision_id.is_empty());
        assert!(client.starts_with("callgate-cli/"), "{client}");
    }
    let sent = desk.decisions();
    assert_eq!(sent[0].0.message, "fine");
    assert_eq!(sent[2].0.edited_arguments_json, r#"{"command": "ls"}"#);
    assert_eq!(sent[3].0.message, "not today");
    let response = sent[4].0.response.as_ref().unwrap();
    let text = pb::content_part::Content::Text("it is done".to_owned());
    assert_eq!(response.contents[0].content, Some(text));
}

#[tokio::test]
async fn new_arguments_come_from_a_file() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    let file = desk.home().join("new.json");
    std::fs::write(&file, r#"{"command": "ls"}"#).unwrap();
    let arguments = [
        "approvals",
        "approve",
        "a1",
        "--edit",
        file.to_str().unwrap(),
    ];
    assert_eq!(run(&desk, &arguments).await.code, Some(0));
    let sent = desk.decisions().pop().unwrap().0;
    assert_eq!(sent.edited_arguments_json, r#"{"command": "ls"}"#);
}

#[tokio::test]
async fn with_several_proposals_one_has_to_be_named() {
    let desk = Desk::open();
    let mut both = approval("a1", "git push && ls");
    both.grant_candidates
        .push(candidate("g2", "run_shell(ls *)", 1));
    desk.put(both);
    let ran = run(&desk, &["approvals", "approve", "a1", "--session"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(64), ""));
    assert!(
        ran.err.contains("g1 ") && ran.err.contains("`run_shell(ls *)`"),
        "{}",
        ran.err
    );
    assert_eq!(desk.decisions(), []);
    let named = [
        "approvals",
        "approve",
        "a1",
        "--session",
        "--grant",
        "g1",
        "--grant",
        "g2",
    ];
    assert_eq!(run(&desk, &named).await.code, Some(0));
    let sent = desk.decisions().pop().unwrap().0;
    assert_eq!(sent.grant_candidate_ids, ["g1", "g2"]);
}

#[tokio::test]
async fn a_decision_that_is_not_taken_exits_1_with_its_code_and_the_winner() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    let mut decided = approval("a1", "git push");
    decided.state = pb::ApprovalState::Denied as i32;
    decided.decision = Some(pb::Decision {
        choice: pb::ApprovalChoice::Deny as i32,
        decided_by: "eve\u{202e}".to_owned(),
        message: "no pushes".to_owned(),
        ..pb::Decision::default()
    });
    desk.script(Ok(not_taken(
        pb::DecisionStatus::Conflict,
        "approval_already_decided",
        Some(decided),
    )));
    let ran = run(&desk, &["approvals", "approve", "a1"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let expected = "conflict: approval_already_decided: not taken; it is denied, \
                    deny by eve\\u{202e}: no pushes";
    assert!(ran.err.contains(expected), "{}", ran.err);
    desk.script(Ok(not_taken(
        pb::DecisionStatus::Refused,
        "approval_edit_invalid",
        None,
    )));
    let ran = run(
        &desk,
        &["approvals", "approve", "a1", "--json", "--edit", "{}"],
    )
    .await;
    assert_eq!(ran.code, Some(1));
    let object = &ran.json()[0];
    assert_eq!(
        (&object["status"], &object["code"]),
        (&"refused".into(), &"approval_edit_invalid".into())
    );
}

#[tokio::test]
async fn an_unknown_approval_is_a_no() {
    let desk = Desk::open();
    for arguments in [&["show", "a9"][..], &["approve", "a9"], &["deny", "a9"]] {
        let ran = run(&desk, &[&["approvals"], arguments].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert_eq!(ran.err, "callgate: approval_not_found: `a9`\n");
    }
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_id() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    desk.script(Err(Status::unavailable("gone")));
    let ran = run(&desk, &["approvals", "approve", "a1"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let sent = desk.decisions();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
}

#[tokio::test]
async fn who_may_not_decide_is_told_where_people_do() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    desk.script(Err(Status::permission_denied("role_missing")));
    let ran = run(&desk, &["approvals", "deny", "a1"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(
        ran.err
            .contains("\n\nhint: people decide over control.sock"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn sessions_are_listed_and_shown() {
    let desk = Desk::open();
    desk.put_session(session("s1", pb::Mode::Default));
    desk.put_session(session("s2", pb::Mode::Plan));
    let ran = run(&desk, &["sessions", "list"]).await;
    let firsts: Vec<_> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().take(3).collect::<Vec<_>>())
        .collect();
    assert_eq!(
        firsts,
        [
            ["session", "mode", "waiting"],
            ["s1", "default", "2"],
            ["s2", "plan", "2"]
        ]
    );
    let ran = run(&desk, &["sessions", "show", "s2", "--json"]).await;
    assert_eq!(ran.json()[0]["max_mode"], "accept_edits");
    let ran = run(&desk, &["sessions", "show", "s9"]).await;
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(1), "callgate: not_found: `s9`\n")
    );
}

#[tokio::test]
async fn a_mode_is_changed_from_what_was_read() {
    let desk = Desk::open();
    desk.put_session(session("s1", pb::Mode::Default));
    let ran = run(&desk, &["sessions", "mode", "s1", "plan"]).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "default to plan; 2 released, 1 denied\n")
    );
    assert_eq!(desk.updates()[0].etag, "etag of s1");
    let ran = run(&desk, &["sessions", "mode", "s1"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "plan\n"));
    let ran = run(&desk, &["sessions", "mode", "s1", "auto"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("mode_not_allowed"), "{}", ran.err);
    assert_eq!(
        run(&desk, &["sessions", "mode", "s1", "wild"]).await.code,
        Some(64)
    );
}

#[tokio::test]
async fn grants_are_listed_and_taken_back() {
    let desk = Desk::open();
    for id in ["g1", "g2"] {
        desk.put_grant(pb::Grant {
            grant_id: id.to_owned(),
            rule: "run_shell(git push *)".to_owned(),
            kind: pb::GrantKind::CommandPrefix as i32,
            state: pb::GrantState::Active as i32,
            ..pb::Grant::default()
        });
    }
    let ran = run(&desk, &["sessions", "revoke", "s"]).await;
    assert_eq!(ran.code, Some(64), "{}", ran.out);
    let ran = run(&desk, &["sessions", "revoke", "s", "g1", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.json()[0]["state"], "revoked");
    let ran = run(&desk, &["sessions", "grants", "s", "--json"]).await;
    let ids: Vec<_> = ran
        .json()
        .iter()
        .map(|one| one["grant_id"].clone())
        .collect();
    assert_eq!(ids, ["g2"]);
    let ran = run(&desk, &["sessions", "grants", "s", "--all", "--json"]).await;
    assert_eq!(ran.json().len(), 2);
    assert_eq!(
        run(&desk, &["sessions", "revoke", "s", "--all"]).await.code,
        Some(0)
    );
}
