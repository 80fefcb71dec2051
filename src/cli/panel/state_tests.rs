//! What the panel does with keys and with what the sidecar tells, as lists of messages and commands.
//!
//! Never draws and never waits.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use callgate_client::pb::v1 as pb;

use super::layout::Size;
use super::review::Step;
use super::samples::{
    NOW_MS, USUAL, approval, candidate, changed, long_approval, panel_with, press, session,
    sized_panel, snapshot, type_text,
};
use super::state::{Command, Key, Link, Message, Panel};
use Key::{Char, Down, End, Enter, Escape, PageDown, Up};

fn decisions(commands: &[Command]) -> Vec<&pb::ApprovalDecision> {
    let decided = commands.iter().map(|command| match command {
        Command::Decide(decision) => Some(decision.as_ref()),
        Command::Redraw
        | Command::Fetch(_)
        | Command::LookUp(_)
        | Command::SetMode(..)
        | Command::Quit
        | Command::Fail(_) => None,
    });
    decided.flatten().collect()
}

fn ids(panel: &Panel) -> Vec<&str> {
    panel.pending.keys().map(|(_, id)| id.as_str()).collect()
}

fn selected(panel: &Panel) -> Option<&str> {
    panel.selected.as_ref().map(|(_, id)| id.as_str())
}

fn answered(id: &str, status: pb::DecisionStatus, now: Option<pb::Approval>) -> Message {
    let error = pb::RpcError {
        detail: Some(pb::ErrorDetail {
            code: "etag_mismatch".to_owned(),
            ..pb::ErrorDetail::default()
        }),
        ..pb::RpcError::default()
    };
    Message::Decided {
        approval_id: id.to_owned(),
        choice: pb::ApprovalChoice::Once,
        result: Ok(Box::new(pb::DecisionOutcome {
            approval_id: id.to_owned(),
            status: status as i32,
            approval: now,
            error: Some(error),
        })),
    }
}

fn denied(id: &str) -> pb::Approval {
    pb::Approval {
        state: pb::ApprovalState::Denied as i32,
        ..approval(id)
    }
}

#[test]
fn a_decision_carries_the_digest_and_etag_of_what_was_shown() {
    let mut panel = panel_with(vec![approval("a1")]);
    let commands = press(&mut panel, &[Enter, Char('a')]);
    let sent = decisions(&commands);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].choice(), pb::ApprovalChoice::Once);
    assert_eq!(sent[0].approval_id, "a1");
    assert_eq!(sent[0].approval_digest, "digest of a1");
    assert_eq!(sent[0].etag, "etag of a1");
}

#[test]
fn no_key_on_the_list_decides() {
    let mut panel = panel_with(vec![approval("a1")]);
    let all = (' '..='~')
        .filter(|key| *key != 'q' && *key != 'm')
        .map(Char);
    let all: Vec<Key> = all.chain([Up, Down, End, Escape]).collect();
    assert_eq!(press(&mut panel, &all), []);
}

#[test]
fn nothing_is_approved_before_the_end_was_seen() {
    let mut panel = panel_with(vec![long_approval("a1", 60)]);
    assert_eq!(press(&mut panel, &[Enter, Char('a'), Char('s')]), []);
    assert!(panel.notice.contains("read to the end"), "{}", panel.notice);
    assert_eq!(press(&mut panel, &[PageDown, Char('a')]), []);
    let commands = press(
        &mut panel,
        &[PageDown, PageDown, PageDown, PageDown, Char('a')],
    );
    assert_eq!(decisions(&commands).len(), 1);
}

#[test]
fn the_end_counts_as_seen_after_the_last_line_and_not_one_before() {
    let mut panel = panel_with(vec![long_approval("a1", 60)]);
    press(&mut panel, &[Enter]);
    let review = panel.review.as_ref().unwrap();
    let steps = review.rows.len() - review.body_rows();
    press(&mut panel, &vec![Down; steps - 1]);
    assert_eq!(press(&mut panel, &[Char('a')]), []);
    let commands = press(&mut panel, &[Down, Char('a')]);
    assert_eq!(decisions(&commands).len(), 1);
}

#[test]
fn what_was_not_read_can_be_denied() {
    let mut cut = long_approval("a1", 60);
    cut.arguments_cut = true;
    let mut panel = panel_with(vec![cut]);
    let commands = press(&mut panel, &[Enter, Char('d'), Enter]);
    assert_eq!(commands.first(), Some(&Command::Fetch("a1".to_owned())));
    assert_eq!(decisions(&commands)[0].choice(), pb::ApprovalChoice::Deny);
}

#[test]
fn cut_arguments_are_fetched_and_only_then_can_be_approved() {
    let whole = long_approval("a1", 3);
    let cut = pb::Approval {
        arguments_cut: true,
        display_arguments: "argu".to_owned(),
        ..whole.clone()
    };
    let mut panel = panel_with(vec![cut.clone()]);
    let commands = press(&mut panel, &[Enter, End, Char('a')]);
    assert_eq!(commands, [Command::Fetch("a1".to_owned())]);
    panel.update(Message::Fetched {
        approval_id: "a1".to_owned(),
        result: Ok(Box::new(whole.clone())),
    });
    // The watch tells it again, cut: what is known whole stays whole, and it did not change.
    panel.update(changed(cut));
    let review = panel.review.as_ref().unwrap();
    assert_eq!(review.approval.display_arguments, whole.display_arguments);
    assert!(!review.changed);
    assert_eq!(decisions(&press(&mut panel, &[End, Char('a')])).len(), 1);
}

#[test]
fn a_key_typed_as_text_never_decides() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('d')]);
    let text = "asdxmqrcgGbkj 1234";
    assert_eq!(type_text(&mut panel, text), []);
    let Step::Comment { text: typed, .. } = &panel.review.as_ref().unwrap().step else {
        panic!("the comment was left");
    };
    assert_eq!(typed, text);
    let commands = press(&mut panel, &[Enter]);
    let sent = decisions(&commands);
    assert_eq!(
        (sent[0].choice(), sent[0].message.as_str()),
        (pb::ApprovalChoice::Deny, text)
    );
}

#[test]
fn pasted_text_is_text_in_a_comment_and_nothing_elsewhere() {
    let mut panel = panel_with(vec![approval("a1")]);
    let pasted = || Message::Pasted("a\ns\u{1b}".to_owned());
    press(&mut panel, &[Enter]);
    assert_eq!(panel.update(pasted()), [Command::Redraw]);
    assert_eq!(panel.review.as_ref().unwrap().step, Step::Reading);
    press(&mut panel, &[Char('d')]);
    panel.update(pasted());
    let commands = press(&mut panel, &[Enter]);
    assert_eq!(decisions(&commands)[0].message, "a s ");
}

#[test]
fn a_comment_can_be_corrected_and_left() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('d')]);
    type_text(&mut panel, "wrong");
    press(&mut panel, &[Key::Clear]);
    type_text(&mut panel, "nox");
    press(&mut panel, &[Key::Backspace, Escape]);
    assert_eq!(panel.review.as_ref().unwrap().step, Step::Reading);
    press(&mut panel, &[Char('d')]);
    type_text(&mut panel, "no");
    assert_eq!(decisions(&press(&mut panel, &[Enter]))[0].message, "no");
}

#[test]
fn a_comment_ends_at_its_limit() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('d')]);
    panel.update(Message::Pasted("é".repeat(3_000)));
    let commands = press(&mut panel, &[Enter]);
    assert_eq!(decisions(&commands)[0].message.len(), 4_096);
}

#[test]
fn a_lone_proposal_is_picked_and_stored_by_enter() {
    let mut panel = panel_with(vec![approval("a1")]);
    assert_eq!(press(&mut panel, &[Enter, Char('s')]), []);
    let commands = press(&mut panel, &[Enter]);
    let sent = decisions(&commands);
    assert_eq!(sent[0].choice(), pb::ApprovalChoice::Session);
    assert_eq!(sent[0].grant_candidate_ids, ["g1"]);
}

#[test]
fn each_part_of_a_command_needs_exactly_one_proposal() {
    let mut several = approval("a1");
    several.grant_candidates = vec![
        candidate("exact", "run_shell(git push)", 0),
        candidate("prefix", "run_shell(git push *)", 0),
        candidate("ls", "run_shell(ls)", 1),
    ];
    let mut panel = panel_with(vec![several]);
    assert_eq!(
        press(&mut panel, &[Enter, End, Char('s'), Char(' '), Enter]),
        []
    );
    assert!(panel.notice.contains("1 left"), "{}", panel.notice);
    let commands = press(&mut panel, &[Down, Char(' '), Down, Char(' '), Enter]);
    assert_eq!(
        decisions(&commands)[0].grant_candidate_ids,
        ["prefix", "ls"]
    );
}

#[test]
fn what_is_not_offered_cannot_be_chosen() {
    let mut bare = approval("a1");
    bare.allowed_choices = vec![pb::ApprovalChoice::Deny as i32];
    let mut panel = panel_with(vec![bare]);
    assert_eq!(
        press(&mut panel, &[Enter, Char('a'), Char('s'), Char('x'), Enter]),
        []
    );
    let mut no_grant = approval("a2");
    no_grant.grant_candidates.clear();
    let mut panel = panel_with(vec![no_grant]);
    assert_eq!(press(&mut panel, &[Enter, Char('s'), Enter]), []);
}

#[test]
fn a_changed_approval_must_be_read_again() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter]);
    let new = pb::Approval {
        approval_digest: "another".into(),
        etag: "new".to_owned(),
        ..approval("a1")
    };
    panel.update(changed(new));
    assert!(panel.notice.contains("it changed"), "{}", panel.notice);
    assert_eq!(press(&mut panel, &[Char('a')]), []);
    assert!(panel.notice.contains("press c"), "{}", panel.notice);
    let commands = press(&mut panel, &[Char('c'), Char('a')]);
    let sent = decisions(&commands);
    assert_eq!(
        (&sent[0].approval_digest[..], sent[0].etag.as_str()),
        (&b"another"[..], "new")
    );
}

#[test]
fn counters_alone_are_no_change() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter]);
    let new = pb::Approval {
        pending_in_batch: 7,
        etag: "new".to_owned(),
        ..approval("a1")
    };
    panel.update(changed(new));
    let commands = press(&mut panel, &[Char('a')]);
    assert_eq!(decisions(&commands)[0].etag, "new");
}

#[test]
fn a_change_under_a_comment_is_told_before_the_comment_decides() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('d')]);
    type_text(&mut panel, "no");
    panel.update(changed(pb::Approval {
        approval_digest: "another".into(),
        ..approval("a1")
    }));
    assert_eq!(type_text(&mut panel, " das"), []);
    assert_eq!(press(&mut panel, &[Enter]), []);
    assert!(
        panel.notice.contains("changed meanwhile"),
        "{}",
        panel.notice
    );
    let commands = press(&mut panel, &[Enter]);
    let sent = decisions(&commands);
    assert_eq!(
        (sent[0].message.as_str(), &sent[0].approval_digest[..]),
        ("no das", &b"another"[..])
    );
}

#[test]
fn a_change_under_the_proposals_leads_back_to_reading() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('s')]);
    let mut new = approval("a1");
    new.grant_candidates = vec![candidate("g2", "run_shell(*)", 0)];
    panel.update(changed(new));
    assert_eq!(press(&mut panel, &[Enter]), []);
    let review = panel.review.as_ref().unwrap();
    assert!(review.changed && review.step == Step::Reading);
}

#[test]
fn what_was_decided_elsewhere_cannot_be_decided() {
    let mut panel = panel_with(vec![approval("a1"), approval("a2")]);
    press(&mut panel, &[Enter]);
    panel.update(changed(denied("a1")));
    assert!(
        panel.notice.contains("decided elsewhere"),
        "{}",
        panel.notice
    );
    assert_eq!(
        press(&mut panel, &[Char('a'), Char('s'), Char('d'), Enter]),
        []
    );
    assert_eq!(ids(&panel), ["a2"]);
}

#[test]
fn a_decision_of_our_own_is_not_taken_for_another_one() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('a'), Enter]);
    panel.update(changed(denied("a1")));
    assert!(!panel.notice.contains("elsewhere"), "{}", panel.notice);
    panel.update(answered(
        "a1",
        pb::DecisionStatus::Taken,
        Some(denied("a1")),
    ));
    assert!(panel.review.is_none());
    assert!(panel.notice.contains("holds for a1"), "{}", panel.notice);
}

#[test]
fn while_a_decision_is_on_its_way_there_is_no_second_one() {
    let mut panel = panel_with(vec![approval("a1")]);
    let once = press(&mut panel, &[Enter, Char('a'), Char('a'), Char('d'), Enter]);
    assert_eq!(decisions(&once).len(), 1);
    let again = press(&mut panel, &[Escape, Enter, Char('a')]);
    assert_eq!(again, []);
}

#[test]
fn a_decision_that_holds_leads_back_to_the_list() {
    let mut panel = panel_with(vec![approval("a1"), approval("a2")]);
    press(&mut panel, &[Enter, Char('a')]);
    panel.update(answered(
        "a1",
        pb::DecisionStatus::Taken,
        Some(denied("a1")),
    ));
    assert_eq!(panel.review, None);
    assert_eq!(ids(&panel), ["a2"]);
    // A key that was held down does not reach the next one.
    assert_eq!(press(&mut panel, &[Char('a'), Char('a')]), []);
}

#[test]
fn a_refused_decision_shows_the_approval_as_it_is_now() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('a')]);
    let now = pb::Approval {
        etag: "new".to_owned(),
        ..approval("a1")
    };
    panel.update(answered("a1", pb::DecisionStatus::Refused, Some(now)));
    assert!(panel.notice.contains("etag_mismatch"), "{}", panel.notice);
    assert_eq!(press(&mut panel, &[Char('a')]), []);
    let commands = press(&mut panel, &[Char('c'), Char('a')]);
    assert_eq!(decisions(&commands)[0].etag, "new");
}

#[test]
fn a_conflict_names_who_won() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('a')]);
    let mut winner = denied("a1");
    winner.decision = Some(pb::Decision {
        choice: pb::ApprovalChoice::Deny as i32,
        decided_by: "eve".to_owned(),
        ..pb::Decision::default()
    });
    panel.update(answered("a1", pb::DecisionStatus::Conflict, Some(winner)));
    assert!(panel.notice.contains("deny by eve"), "{}", panel.notice);
    assert_eq!(ids(&panel), [] as [&str; 0]);
}

#[test]
fn a_lost_answer_is_not_taken_for_one() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('a')]);
    let commands = panel.update(Message::Decided {
        approval_id: "a1".to_owned(),
        choice: pb::ApprovalChoice::Once,
        result: Err("gone".to_owned()),
    });
    assert_eq!(commands, [Command::Fetch("a1".to_owned()), Command::Redraw]);
    assert!(
        panel.notice.contains("it may hold or not"),
        "{}",
        panel.notice
    );
    assert_eq!(ids(&panel), ["a1"]);
}

#[test]
fn a_new_snapshot_takes_away_what_it_does_not_tell() {
    let mut panel = panel_with(vec![approval("a1"), approval("a2"), approval("a3")]);
    panel.update(Message::WatchLost {
        problem: "gone".to_owned(),
        retry_ms: 250,
    });
    assert_eq!(ids(&panel), ["a1", "a2", "a3"]);
    panel.update(Message::WatchBegan { fresh: true });
    panel.update(changed(approval("a2")));
    panel.update(snapshot(vec![approval("a4")]));
    assert_eq!((ids(&panel), &panel.link), (vec!["a2", "a4"], &Link::Live));
}

#[test]
fn a_stream_taken_up_where_it_broke_takes_nothing_away() {
    let mut panel = panel_with(vec![approval("a1"), approval("a2")]);
    panel.update(Message::WatchBegan { fresh: false });
    panel.update(changed(denied("a2")));
    assert_eq!(ids(&panel), ["a1"]);
}

#[test]
fn a_review_whose_approval_is_gone_is_read_again() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter]);
    panel.update(Message::WatchBegan { fresh: true });
    let commands = panel.update(snapshot(Vec::new()));
    assert_eq!(commands, [Command::Fetch("a1".to_owned()), Command::Redraw]);
}

#[test]
fn the_selection_moves_to_what_is_below_when_it_goes() {
    let older = |id: &str, age_ms| pb::Approval {
        created_at_ms: NOW_MS - age_ms,
        ..approval(id)
    };
    let mut panel = panel_with(vec![older("new", 1), older("old", 3), older("middle", 2)]);
    press(&mut panel, &[Key::Home]);
    assert_eq!(selected(&panel), Some("old"));
    press(&mut panel, &[Down]);
    panel.update(changed(denied_at(&older("middle", 2))));
    assert_eq!(selected(&panel), Some("new"));
    panel.update(changed(denied_at(&older("new", 1))));
    assert_eq!(selected(&panel), Some("old"));
    panel.update(changed(denied_at(&older("old", 3))));
    assert_eq!(selected(&panel), None);
    assert_eq!(press(&mut panel, &[Enter, Up, Down, Char('m')]), []);
}

fn denied_at(approval: &pb::Approval) -> pb::Approval {
    pb::Approval {
        state: pb::ApprovalState::Denied as i32,
        ..approval.clone()
    }
}

#[test]
fn arguments_of_many_approvals_are_not_kept_but_fetched() {
    let many = (0..300).map(|number| approval(&format!("a{number:03}")));
    let mut panel = panel_with(many.collect());
    let with_arguments = panel.pending.values().filter(|kept| !kept.arguments_cut);
    assert_eq!(with_arguments.count(), 200);
    let commands = press(&mut panel, &[End, Enter, Char('a')]);
    assert_eq!(commands, [Command::Fetch("a299".to_owned())]);
}

#[test]
fn the_mode_is_changed_from_what_was_read() {
    let mut panel = panel_with(vec![approval("a1")]);
    let commands = press(&mut panel, &[Char('m'), Char('1')]);
    assert_eq!(commands, [Command::LookUp("s".to_owned())]);
    let read = session("s", pb::Mode::Default);
    panel.update(Message::Session {
        session_id: "s".to_owned(),
        result: Ok(Box::new(read.clone())),
    });
    assert_eq!(press(&mut panel, &[Char('4')]), []);
    assert!(panel.notice.contains("not allowed"), "{}", panel.notice);
    let commands = press(&mut panel, &[Char('1'), Char('2')]);
    assert_eq!(commands, [Command::SetMode(Box::new(read), pb::Mode::Plan)]);
    panel.update(Message::ModeSet {
        session_id: "s".to_owned(),
        result: Ok(Box::new(pb::UpdateSessionResponse {
            session: Some(session("s", pb::Mode::Plan)),
            released: 2,
            denied: 1,
        })),
    });
    assert_eq!(panel.notice, "mode of s is plan; 2 released, 1 denied");
    assert_eq!(panel.mode_change, None);
    assert_eq!(panel.mode_of("s", pb::Mode::Default as i32), "plan");
}

#[test]
fn a_mode_that_was_not_changed_is_read_again() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Char('m')]);
    let read = || Message::Session {
        session_id: "s".to_owned(),
        result: Ok(Box::new(session("s", pb::Mode::Default))),
    };
    panel.update(read());
    press(&mut panel, &[Char('1')]);
    let commands = panel.update(Message::ModeSet {
        session_id: "s".to_owned(),
        result: Err("Aborted: etag_mismatch".to_owned()),
    });
    assert_eq!(commands, [Command::LookUp("s".to_owned()), Command::Redraw]);
    assert_eq!(press(&mut panel, &[Char('1')]), []);
    panel.update(read());
    assert_eq!(press(&mut panel, &[Char('1')]).len(), 1);
}

#[test]
fn a_screen_on_which_nothing_can_be_read_approves_nothing() {
    let tiny = Size {
        columns: 20,
        rows: 5,
    };
    let mut panel = sized_panel(tiny, vec![approval("a1")]);
    assert_eq!(press(&mut panel, &[Enter, End, Char('a'), Char('s')]), []);
    panel.update(Message::Resized(USUAL));
    assert_eq!(decisions(&press(&mut panel, &[Char('a')])).len(), 1);
}

#[test]
fn ctrl_c_leaves_from_everywhere_and_q_from_the_list() {
    for keys in [
        &[][..],
        &[Enter],
        &[Enter, Char('d')],
        &[Enter, Char('s')],
        &[Char('m')],
    ] {
        let mut panel = panel_with(vec![approval("a1")]);
        press(&mut panel, keys);
        assert_eq!(
            press(&mut panel, &[Key::Interrupt]),
            [Command::Quit],
            "{keys:?}"
        );
    }
    let mut panel = panel_with(vec![approval("a1")]);
    assert_eq!(press(&mut panel, &[Enter, Char('q')]), []);
    assert_eq!(press(&mut panel, &[Char('q')]), [Command::Quit]);
}

#[test]
fn a_refused_watch_ends_the_panel() {
    let mut panel = Panel::new(USUAL, NOW_MS);
    let commands = panel.update(Message::Refused("no role".to_owned()));
    assert_eq!(commands, [Command::Fail("no role".to_owned())]);
}

#[test]
fn nothing_is_drawn_that_looks_the_same() {
    let mut panel = panel_with(vec![approval("a1")]);
    let quiet = Message::Approvals {
        approvals: Vec::new(),
        snapshot_complete: false,
    };
    assert_eq!(panel.update(quiet), []);
    let now_ms = NOW_MS + 1_000;
    assert_eq!(panel.update(Message::Tick { now_ms }), []);
    let now_ms = NOW_MS + 60_000;
    assert_eq!(panel.update(Message::Tick { now_ms }), [Command::Redraw]);
}
