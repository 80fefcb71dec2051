//! The panel in a terminal, against a desk that answers as scripted: loss, changes, sizes, ways out.
//!
//! What a real sidecar makes of its decisions is in `panel.rs`. Never waits for time to pass.

use callgate::pb::v1 as pb;
use pb::event_record::Body as Happened;
use pb::turn_event::Body;

use crate::support::desk::{Desk, approval, not_taken, session};
use crate::support::tmux::Panel;

const USUAL: (u16, u16) = (80, 24);

async fn panel(desk: &Desk) -> Panel {
    let panel = Panel::start(desk.home(), &desk.socket_dir(), USUAL).await;
    panel.shows(&["live"]).await;
    panel
}

/// A desk on which these wait, and the panel that shows it.
async fn panel_with(approvals: Vec<pb::Approval>) -> (Desk, Panel) {
    let desk = Desk::open();
    for approval in approvals {
        desk.put(approval);
    }
    let panel = panel(&desk).await;
    (desk, panel)
}

#[tokio::test]
async fn what_is_approved_once_is_sent_as_it_was_shown() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.shows(&["1 wait", "run_shell"]).await;
    panel.press(&["Enter"]).await;
    panel
        .shows(&["\"command\": \"git push\"", "the end", "a once"])
        .await;
    panel.press(&["a"]).await;
    panel.shows(&["once holds for a1", "0 wait"]).await;
    let sent = desk.decisions();
    assert_eq!(sent.len(), 1);
    let (decision, client) = &sent[0];
    assert_eq!(decision.choice(), pb::ApprovalChoice::Once);
    assert_eq!(decision.approval_digest, "digest of a1");
    assert_eq!(decision.etag, "etag of a1");
    assert!(!decision.decision_id.is_empty());
    assert!(client.starts_with("callgate-panel/"), "{client}");
}

#[tokio::test]
async fn typed_and_pasted_letters_are_text_and_never_keys() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["a once"]).await;
    panel.paste("a").await;
    panel.press(&["d"]).await;
    panel.shows(&["why not"]).await;
    panel.types("as d").await;
    panel.paste("aa").await;
    panel.shows(&["as daa_"]).await;
    assert_eq!(desk.decisions(), []);
    panel.press(&["Enter"]).await;
    panel.shows(&["deny holds for a1"]).await;
    let sent = desk.decisions();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0.choice(), pb::ApprovalChoice::Deny);
    assert_eq!(sent[0].0.message, "as daa");
}

#[tokio::test]
async fn a_grant_is_shown_word_for_word_and_stored_by_its_id() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["s session"]).await;
    panel.press(&["s"]).await;
    panel
        .shows(&[
            "[x] command_prefix `run_shell(git push *)`",
            "enter store and run",
        ])
        .await;
    panel.press(&["Enter"]).await;
    panel.shows(&["session holds for a1"]).await;
    let sent = desk.decisions();
    assert_eq!(sent[0].0.choice(), pb::ApprovalChoice::Session);
    assert_eq!(sent[0].0.grant_candidate_ids, ["g1"]);
}

#[tokio::test]
async fn arguments_of_any_length_are_fetched_and_must_be_read_to_the_end() {
    let mut long = approval("a1", "git push");
    let lines = (1..=400).map(|line| format!("this is line {line} of the arguments\n"));
    long.display_arguments = lines.collect();
    let (desk, panel) = panel_with(vec![long]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["of 415,"]).await;
    panel.press(&["a"]).await;
    panel.shows(&["read to the end before you approve"]).await;
    assert_eq!(desk.decisions(), []);
    panel.press(&["PageDown"]).await;
    panel.shows(&["lines 19-36"]).await;
    panel.press(&["End"]).await;
    panel
        .shows(&["this is line 400 of the arguments", "the end"])
        .await;
    panel.press(&["a"]).await;
    panel.shows(&["once holds"]).await;
}

#[tokio::test]
async fn an_approval_that_changes_is_shown_anew_and_cannot_be_approved_blindly() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["git push", "the end"]).await;
    let mut new = approval("a1", "rm -rf /");
    new.approval_digest = "another".into();
    desk.put(new);
    panel.shows(&["IT CHANGED", "rm -rf /"]).await;
    panel.press(&["a"]).await;
    panel.shows(&["read it, then press c"]).await;
    panel.press(&["c", "a"]).await;
    panel.shows(&["once holds"]).await;
    assert_eq!(desk.decisions()[0].0.approval_digest, "another");
}

#[tokio::test]
async fn a_decision_on_an_old_approval_shows_the_new_one() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["the end"]).await;
    let mut new = approval("a1", "rm -rf /");
    new.approval_digest = "another".into();
    let refused = pb::DecisionStatus::Refused;
    desk.script(Ok(not_taken(refused, "etag_mismatch", Some(new))));
    panel.press(&["a"]).await;
    panel
        .shows(&["IT CHANGED", "rm -rf /", "etag_mismatch"])
        .await;
}

#[tokio::test]
async fn a_lost_sidecar_is_told_and_taken_up_where_it_broke() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.shows(&["1 wait, live"]).await;
    desk.go_away();
    panel.shows(&["1 wait, LOST THE SIDECAR"]).await;
    desk.put(approval("a2", "git push"));
    desk.come_back();
    // What came while it was away was told to nobody; what comes now is.
    panel.shows(&["1 wait, live"]).await;
    desk.put(approval("a3", "git push"));
    panel.shows(&["2 wait, live"]).await;
    let cursors = desk.cursors();
    assert_eq!(cursors[0], "");
    assert!(
        cursors[1..].iter().all(|cursor| cursor == "1"),
        "{cursors:?}"
    );
}

#[tokio::test]
async fn with_an_old_cursor_everything_is_told_anew() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.shows(&["1 wait, live"]).await;
    desk.forget_cursors();
    desk.go_away();
    panel.shows(&["LOST"]).await;
    desk.lose("a1");
    for id in ["a2", "a3"] {
        desk.put(approval(id, "git push"));
    }
    desk.come_back();
    panel.shows(&["2 wait, live"]).await;
}

#[tokio::test]
async fn calls_are_shown_as_they_move() {
    let desk = Desk::with_events();
    let panel = panel(&desk).await;
    let event = |body| pb::EventRecord {
        body: Some(Happened::Turn(pb::TurnEventRecord {
            turn_id: "t1".to_owned(),
            event: Some(pb::TurnEvent {
                body: Some(body),
                ..pb::TurnEvent::default()
            }),
            ..pb::TurnEventRecord::default()
        })),
        ..pb::EventRecord::default()
    };
    let moved = |state: pb::CallState| {
        event(Body::CallStateChanged(pb::CallStateChanged {
            call_id: "c1".to_owned(),
            state: state as i32,
            ..pb::CallStateChanged::default()
        }))
    };
    let accepted = event(Body::TurnAccepted(pb::TurnAccepted {
        calls: vec![pb::AcceptedCall {
            call_id: "c1".to_owned(),
            tool: "echo".to_owned(),
            minted: false,
        }],
        ..pb::TurnAccepted::default()
    }));
    desk.until_subscribed().await;
    desk.happen(vec![accepted]);
    panel.shows(&["waiting   echo             t1/c1"]).await;
    desk.happen(vec![moved(pb::CallState::Executing)]);
    panel.shows(&["running   echo"]).await;
    desk.happen(vec![moved(pb::CallState::Success)]);
    panel.shows(&["success   echo"]).await;
}

#[tokio::test]
async fn without_events_the_panel_works_and_says_so() {
    let (_desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.shows(&["1 wait", "calls: not told here"]).await;
}

#[tokio::test]
async fn the_mode_of_the_session_is_switched() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    desk.put_session(session("s", pb::Mode::Default));
    let panel = panel(&desk).await;
    panel.shows(&["1 wait"]).await;
    panel.press(&["m"]).await;
    panel
        .shows(&[
            "> 2 default",
            "4 auto         everything runs (not allowed here)",
        ])
        .await;
    panel.press(&["1"]).await;
    panel
        .shows(&["mode of s is plan; 2 released, 1 denied"])
        .await;
    let updates = desk.updates();
    assert_eq!(updates[0].etag, "etag of s");
    assert_eq!(updates[0].settings.as_ref().unwrap().mode(), pb::Mode::Plan);
}

#[tokio::test]
async fn the_panel_follows_the_size_of_the_terminal() {
    let (_desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["the end"]).await;
    panel.resize(20, 5).await;
    panel.shows(&["too small to decide", "ctrl-c quit"]).await;
    panel.resize(200, 50).await;
    panel
        .shows(&["the end", "esc back", &"-".repeat(200)])
        .await;
    panel.resize(80, 24).await;
    panel.shows(&["the end", "esc back"]).await;
    panel.press(&["q", "q"]).await;
    panel.left(0).await;
}

#[tokio::test]
async fn without_colour_nothing_is_coloured() {
    let desk = Desk::open();
    desk.put(approval("a1", "git push"));
    let variables = ["NO_COLOR=1", "TERM=dumb"];
    let panel = Panel::start_with(desk.home(), &desk.socket_dir(), USUAL, &variables).await;
    panel.shows(&["1 wait, live", "> "]).await;
    desk.go_away();
    panel.shows(&["LOST THE SIDECAR"]).await;
    let styled = panel.styled_screen().await;
    assert!(
        !styled.contains("\u{1b}[31m") && !styled.contains(";31m"),
        "{styled:?}"
    );
}

#[tokio::test]
async fn every_way_out_leaves_the_terminal_as_it_was() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let (_desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
        panel.press(&["Enter", "d"]).await;
        panel.shows(&["why not"]).await;
        panel.signal(signal).await;
        panel.left(0).await;
    }
    for keys in [&["q"][..], &["Enter", "d", "C-c"]] {
        let (_desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
        panel.press(keys).await;
        panel.left(0).await;
    }
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    desk.refuse();
    let screen = panel.left(2).await;
    assert!(
        screen.contains("callgate: PermissionDenied: role_missing"),
        "{screen}"
    );
}

#[tokio::test]
async fn a_lost_sidecar_keeps_nobody_in_the_panel() {
    let (desk, panel) = panel_with(vec![approval("a1", "git push")]).await;
    desk.go_away();
    panel.shows(&["LOST"]).await;
    panel.press(&["q"]).await;
    panel.left(0).await;
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_panic_is_told_on_a_terminal_that_works_again() {
    let desk = Desk::open();
    let variables = ["CALLGATE_FAILPOINTS=panel_draw=panic@2"];
    let panel = Panel::start_with(desk.home(), &desk.socket_dir(), USUAL, &variables).await;
    let screen = panel.left(101).await;
    assert!(screen.contains("failpoint `panel_draw`"), "{screen}");
}
