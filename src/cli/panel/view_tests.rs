//! What the panel looks like on screens of several sizes, as text.
//!
//! Never talks to a terminal.
#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use callgate_client::pb::v1 as pb;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::layout::{Size, width};
use super::samples::{
    USUAL, accepted, approval, candidate, changed, long_approval, moved, panel_with, press,
    session, sized_panel, type_text,
};
use super::state::{Key, Message, Panel};
use super::view::{Look, draw};
use Key::{Char, Down, End, Enter};

const WIDE: Size = Size {
    columns: 200,
    rows: 50,
};
const TINY: Size = Size {
    columns: 20,
    rows: 5,
};
const SMALLEST: Size = Size {
    columns: 40,
    rows: 10,
};

fn terminal(panel: &Panel, look: Look) -> Terminal<TestBackend> {
    let backend = TestBackend::new(panel.size.columns, panel.size.rows);
    let mut terminal = Terminal::new(backend).unwrap();
    terminal.draw(|frame| draw(frame, panel, look)).unwrap();
    terminal
}

/// The rows of the screen, blanks at their ends left out.
fn screen(panel: &Panel) -> Vec<String> {
    let text = terminal(panel, Look::Plain).backend().to_string();
    let rows = text.lines().map(|row| row.trim_matches('"').trim_end());
    rows.map(str::to_owned).collect()
}

fn assert_shows(panel: &Panel, texts: &[&str]) {
    let screen = screen(panel).join("\n");
    for text in texts {
        assert!(screen.contains(text), "`{text}` is not in\n{screen}");
    }
}

fn busy(size: Size) -> Panel {
    use pb::CallState::{AwaitingApproval, Cancelled, Error, Executing, Scheduled, Success};
    let mut young = approval("a2");
    young.created_at_ms += 120_000;
    young.tool = "write_file".to_owned();
    young.risk_level = pb::RiskLevel::Sensitive as i32;
    let mut panel = sized_panel(size, vec![approval("a1"), young]);
    panel.update(Message::FeedBegan { fresh: true });
    let states = [
        ("c1", AwaitingApproval, ""),
        ("c2", Scheduled, ""),
        ("c3", Executing, ""),
        ("c4", Success, ""),
        ("c5", Error, "tool_timeout"),
        ("c6", Cancelled, "tool_cancelled"),
    ];
    let calls: Vec<_> = states
        .iter()
        .map(|(call, ..)| (*call, "read_file"))
        .collect();
    let mut events = vec![accepted("t", &calls)];
    let moves = states.iter().rev();
    events.extend(moves.map(|(call, state, code)| moved("t", call, *state, code)));
    panel.update(Message::Events(events));
    panel
}

#[test]
fn the_list_at_the_usual_size() {
    let rows = screen(&busy(USUAL));
    let expected = [
        "callgate approvals: 2 wait, live",
        "  age  risk      tool             session    why",
        "> 3m   dangerous run_shell        s          ask rule `run_shell(git push*)` o..",
        "  1m   sensitive write_file       s          ask rule `run_shell(git push*)` o..",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "calls",
        "  review    read_file        t/c1",
        "  waiting   read_file        t/c2",
        "  running   read_file        t/c3",
        "  success   read_file        t/c4",
        "  error     read_file        t/c5 tool_timeout",
        "  cancelled read_file        t/c6 tool_cancelled",
        "",
        "",
        "",
        "up/down select  enter review  m mode  q quit",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_review_at_the_usual_size() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter]);
    let dashes = "-".repeat(80);
    let expected = [
        "review: run_shell, dangerous, asked 3m ago, mode default, live",
        dashes.as_str(),
        "approval  a1",
        "state     pending, asked 3m ago",
        "tool      run_shell of box, execute, dangerous",
        "session   s, mode default",
        "call      c of turn t, run r",
        "asked by  ask rule `run_shell(git push*)` of user_settings, settings.json:4",
        "          pushes are asked for",
        "",
        "arguments",
        "| {",
        "|   \"command\": \"git push\"",
        "| }",
        "",
        "approving for the session would store",
        "  - command_prefix `run_shell(git push *)`  (g1)",
        "    answers `part 0`",
        "    commands as `run_shell(git push *)` run unasked",
        "-- lines 1-17 of 17, the end --",
        "",
        "",
        "a once  s session  d deny  x cancel turn  m mode  up/down/pgup/pgdn read",
        "esc back",
    ];
    assert_eq!(screen(&panel), expected);
}

#[test]
fn a_review_has_what_the_tool_itself_says_on_one_line() {
    let mut asked = approval("a1");
    asked.tool_reason = "deletes 3 rows\nasked by  nobody".to_owned();
    let mut panel = panel_with(vec![asked]);
    press(&mut panel, &[Enter]);
    let rows = screen(&panel);
    assert_eq!(rows[9], r"tool says deletes 3 rows\nasked by  nobody");
}

#[test]
fn a_wide_screen_shows_ids_and_reasons_whole() {
    let panel = busy(WIDE);
    let rows = screen(&panel);
    assert_eq!(rows.len(), 50);
    assert!(
        rows[2].ends_with("ask rule `run_shell(git push*)` of user_settings, settings.json:4"),
        "{}",
        rows[2]
    );
    let mut panel = panel;
    press(&mut panel, &[Enter]);
    assert_shows(
        &panel,
        &[
            "the end --",
            "x cancel turn  m mode  up/down/pgup/pgdn read  esc back",
        ],
    );
}

#[test]
fn a_tiny_screen_says_so_whatever_is_open() {
    let cases: [&[Key]; 4] = [&[], &[Enter], &[Enter, Char('d')], &[Char('m')]];
    for keys in cases {
        let mut panel = sized_panel(TINY, vec![approval("a1")]);
        press(&mut panel, keys);
        let rows = screen(&panel);
        assert_eq!(
            rows,
            ["too small to decide", "1 wait", "ctrl-c quit", "", ""]
        );
    }
    for (columns, rows) in [(1, 1), (1, 30), (300, 1), (39, 40), (80, 9)] {
        let mut panel = sized_panel(Size { columns, rows }, vec![approval("a1")]);
        press(&mut panel, &[Enter]);
        assert_eq!(screen(&panel).len(), usize::from(rows));
    }
}

#[test]
fn the_smallest_screen_shows_every_key_of_every_step() {
    let mut panel = sized_panel(SMALLEST, vec![long_approval("a1", 60)]);
    let cases: [(&[Key], &[&str]); 4] = [
        (&[], &["up/down select", "enter review", "m mode", "q quit"]),
        (
            &[Enter],
            &[
                "MORE BELOW",
                "a once",
                "s session",
                "d deny",
                "x cancel turn",
                "m mode",
                "esc back",
            ],
        ),
        (
            &[End, Char('d')],
            &["why not, for the model: _", "enter deny", "esc back"],
        ),
        (
            &[Key::Escape, Char('s')],
            &[
                "> [x] command_prefix",
                "space pick",
                "enter store and run",
                "esc back",
            ],
        ),
    ];
    for (keys, texts) in cases {
        press(&mut panel, keys);
        assert_shows(&panel, texts);
    }
}

#[test]
fn a_long_review_tells_how_much_is_below() {
    let mut panel = panel_with(vec![long_approval("a1", 60)]);
    press(&mut panel, &[Enter]);
    assert_shows(
        &panel,
        &["-- lines 1-17 of 75, 58 MORE BELOW --", "argument line 8"],
    );
    press(&mut panel, &[End]);
    assert_shows(
        &panel,
        &["-- lines 59-75 of 75, the end --", "argument line 60"],
    );
}

#[test]
fn arguments_never_look_like_lines_of_ours() {
    let mut fake = approval("a1");
    let spaces = " ".repeat(78);
    fake.display_arguments = format!("{spaces}asked by  the owner\nasked by  the owner");
    let mut panel = panel_with(vec![fake]);
    press(&mut panel, &[Enter]);
    let rows = screen(&panel);
    let ours: Vec<_> = rows
        .iter()
        .filter(|row| row.starts_with("asked by"))
        .collect();
    assert_eq!(ours.len(), 1, "{rows:?}");
    let theirs = rows.iter().filter(|row| row.contains("the owner"));
    assert!(theirs.clone().count() == 2 && theirs.clone().all(|row| row.starts_with('|')));
}

#[test]
fn what_hides_or_acts_is_shown_as_escapes() {
    let bad = "\u{202e}\u{1b}[31m\u{200b}";
    let mut hidden = approval("a1");
    hidden.display_arguments = format!("a{bad}b");
    hidden.tool = format!("tool{bad}");
    hidden.session_id = format!("s{bad}");
    hidden.grant_candidates[0].rule = format!("rule{bad}");
    let verdict = hidden.verdict.get_or_insert_default();
    verdict.rule = format!("asked{bad}");
    verdict.message = format!("why{bad}");
    let mut panel = sized_panel(WIDE, vec![hidden]);
    panel.update(Message::FeedBegan { fresh: true });
    panel.update(Message::Events(vec![
        accepted(
            &format!("t{bad}"),
            &[(&format!("c{bad}"), &format!("run{bad}"))],
        ),
        moved(
            &format!("t{bad}"),
            &format!("c{bad}"),
            pb::CallState::Error,
            &format!("code{bad}"),
        ),
    ]));
    let escaped = "\\u{202e}\\u{1b}[31m\\u{200b}";
    let shown = |names: &[&str]| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{name}{escaped}"))
            .collect()
    };
    let steps: [(&[Key], &[&str]); 4] = [
        (&[], &["s", "asked", "t", "c", "code"]),
        (&[Enter], &["a", "tool", "s", "rule", "asked", "why"]),
        (&[Char('s')], &["rule"]),
        (&[Char('m')], &[]),
    ];
    for (keys, names) in steps {
        press(&mut panel, keys);
        let texts = shown(names);
        assert_shows(
            &panel,
            &texts.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        assert!(screen(&panel).join("").is_ascii());
    }
}

#[test]
fn a_lost_sidecar_is_told_in_words() {
    let mut panel = busy(USUAL);
    panel.update(Message::WatchLost {
        problem: "Unavailable: gone for lunch".to_owned(),
        retry_ms: 4_000,
    });
    panel.update(Message::FeedLost);
    assert_shows(
        &panel,
        &[
            "2 wait, LOST THE SIDECAR, again in 4s: Unavailable: gone",
            "calls: LOST, trying again",
        ],
    );
    panel.update(Message::FeedNotServed);
    assert_shows(&panel, &["calls: not told here"]);
}

#[test]
fn a_change_and_an_end_are_told_in_words() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter]);
    panel.update(changed(pb::Approval {
        approval_digest: "another".into(),
        display_arguments: "the new arguments".to_owned(),
        ..approval("a1")
    }));
    assert_shows(
        &panel,
        &[
            "IT CHANGED: this is the new one",
            "the new arguments",
            "c I have read the change",
        ],
    );
    let mut ended = approval("a1");
    ended.state = pb::ApprovalState::Denied as i32;
    ended.decision = Some(pb::Decision {
        choice: pb::ApprovalChoice::Deny as i32,
        decided_by: "eve".to_owned(),
        ..pb::Decision::default()
    });
    panel.update(changed(ended));
    assert_shows(&panel, &["NOT PENDING ANY MORE, denied: deny by eve"]);
    assert!(!screen(&panel).join("\n").contains("a once"));
}

#[test]
fn proposals_are_shown_word_for_word_however_long() {
    let long = format!("run_shell({})", "git push --force-with-lease ".repeat(20));
    let mut several = approval("a1");
    several.grant_candidates = vec![
        candidate("g1", "run_shell(ls)", 0),
        candidate("g2", &long, 1),
    ];
    several.grant_candidates[1].also_covers = 3;
    let mut panel = sized_panel(WIDE, vec![several]);
    press(&mut panel, &[Enter, Char('s'), Down, Char(' ')]);
    let rows = screen(&panel);
    let pressed: String = rows.iter().map(|row| row.trim_start()).collect();
    assert!(
        pressed.replace(' ', "").contains(&long.replace(' ', "")),
        "{pressed}"
    );
    assert_shows(
        &panel,
        &[
            "  [ ] command_prefix `run_shell(ls)`",
            "> [x] command_prefix",
            "covers 3 more that wait",
        ],
    );
}

#[test]
fn a_long_comment_shows_where_it_is_typed() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Enter, Char('d')]);
    type_text(&mut panel, &"long ".repeat(100));
    type_text(&mut panel, "the end");
    assert_shows(&panel, &["the end_", "enter deny  esc back"]);
}

#[test]
fn the_modes_are_told_apart_by_words() {
    let mut panel = panel_with(vec![approval("a1")]);
    press(&mut panel, &[Char('m')]);
    assert_shows(&panel, &["mode of session s", "reading the session"]);
    panel.update(Message::Session {
        session_id: "s".to_owned(),
        result: Ok(Box::new(session("s", pb::Mode::Default))),
    });
    assert_shows(
        &panel,
        &[
            "  1 plan",
            "> 2 default",
            "  3 accept_edits",
            "  4 auto",
            "(not allowed here)",
            "1-4 change",
        ],
    );
}

#[test]
fn colour_adds_nothing_to_what_is_said() {
    let mut panel = busy(USUAL);
    panel.update(Message::WatchLost {
        problem: "gone".to_owned(),
        retry_ms: 1_000,
    });
    let symbols = |look| {
        let terminal = terminal(&panel, look);
        let cells = terminal.backend().buffer().content().iter();
        cells
            .map(|cell| cell.symbol().to_owned())
            .collect::<String>()
    };
    assert_eq!(symbols(Look::Colour), symbols(Look::Plain));
    let plain = terminal(&panel, Look::Plain);
    let mut cells = plain.backend().buffer().content().iter();
    assert!(cells.all(|cell| cell.fg == ratatui::style::Color::Reset));
}

#[test]
fn wide_characters_stay_on_the_screen() {
    let mut wide = approval("a1");
    wide.display_arguments = "世界".repeat(100);
    let mut panel = panel_with(vec![wide]);
    press(&mut panel, &[Enter]);
    let review = panel.review.as_ref().unwrap();
    assert!(review.rows.iter().all(|row| width(row) <= 80));
    let text = review.rows.concat();
    assert_eq!(
        text.matches("世界").count() + text.matches("世|> 界").count(),
        100
    );
}
