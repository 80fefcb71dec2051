//! What the panel looks like, from its state alone.
//!
//! Everything that a colour says stands there in words as well. Draws nothing that a terminal would obey:
//! texts of others come escaped. Never changes the state.

use callgate_client::pb::v1 as pb;
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};

use super::layout::{HEAD_ROWS, NOTICE_ROWS, column, fit, pack, width, wrap_text};
use super::review::{Review, Step};
use super::state::{Feed, Link, ModeChange, Panel};
use crate::cli::approval_text::{
    age, approval_state_word, candidate_lines, choice_word, decision_line, mode_word, risk_word,
    why,
};
use crate::cli::visible::visible;

/// How much a terminal can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Colour,
    /// `NO_COLOR`, or a terminal that says it cannot.
    Plain,
}

/// How much a row stands out. Never the only sign of what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Plain,
    Strong,
    Selected,
    Alarm,
}

/// One row of the screen.
struct Row {
    text: String,
    weight: Weight,
}

fn plain(text: impl Into<String>) -> Row {
    let (text, weight) = (text.into(), Weight::Plain);
    Row { text, weight }
}

fn strong(text: impl Into<String>) -> Row {
    let (text, weight) = (text.into(), Weight::Strong);
    Row { text, weight }
}

fn alarm(text: impl Into<String>) -> Row {
    let (text, weight) = (text.into(), Weight::Alarm);
    Row { text, weight }
}

/// Draws the panel.
pub(super) fn draw(frame: &mut Frame<'_>, panel: &Panel, look: Look) {
    let area = frame.area();
    let rows = rows(panel);
    for (row, y) in rows.iter().zip(0..area.height) {
        let style = style(row.weight, look);
        let text = match row.weight {
            // To the end of the line, as a selection looks.
            Weight::Selected => column(&row.text, usize::from(area.width)),
            Weight::Plain | Weight::Strong | Weight::Alarm => row.text.clone(),
        };
        let columns = usize::from(area.width);
        frame
            .buffer_mut()
            .set_stringn(area.x, area.y + y, text, columns, style);
    }
}

fn style(weight: Weight, look: Look) -> Style {
    match (weight, look) {
        (Weight::Plain, _) => Style::new(),
        (Weight::Strong, _) | (Weight::Alarm, Look::Plain) => {
            Style::new().add_modifier(Modifier::BOLD)
        }
        (Weight::Selected, _) => Style::new().add_modifier(Modifier::REVERSED),
        (Weight::Alarm, Look::Colour) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

fn rows(panel: &Panel) -> Vec<Row> {
    if panel.size.is_too_small() {
        return too_small(panel);
    }
    match (&panel.mode_change, &panel.review) {
        (Some(change), _) => mode_rows(panel, change),
        (None, Some(review)) => review_rows(panel, review),
        (None, None) => list_rows(panel),
    }
}

fn too_small(panel: &Panel) -> Vec<Row> {
    let columns = panel.size.width();
    let waiting = format!("{} wait", panel.pending.len());
    let texts = ["too small to decide", waiting.as_str(), "ctrl-c quit"];
    texts.map(|text| plain(fit(text, columns))).into()
}

/// The body, in as many rows as there are, with what the panel has to say and the keys below it.
fn with_foot(panel: &Panel, mut body: Vec<Row>, above_keys: Vec<Row>, keys: &[&str]) -> Vec<Row> {
    let keys = pack(keys, panel.size.width());
    let foot = above_keys.len() + keys.len();
    body.truncate(panel.size.height().saturating_sub(foot));
    while body.len() + foot < panel.size.height() {
        body.push(plain(""));
    }
    body.extend(above_keys);
    body.extend(keys.into_iter().map(strong));
    body
}

/// What the panel has to say, in its two rows.
fn notice_rows(panel: &Panel) -> Vec<Row> {
    let columns = panel.size.width();
    let mut rows = wrap_text(&panel.notice, columns);
    if rows.len() > NOTICE_ROWS {
        rows.truncate(NOTICE_ROWS);
        if let Some(last) = rows.last_mut() {
            *last = fit(&format!("{last}..."), columns);
        }
    }
    rows.resize(NOTICE_ROWS, String::new());
    rows.into_iter().map(alarm).collect()
}

fn link_words(link: &Link) -> String {
    match link {
        Link::Connecting => "connecting".to_owned(),
        Link::Live => "live".to_owned(),
        Link::Lost { problem, retry_ms } => {
            let seconds = retry_ms.div_ceil(1_000);
            format!(
                "LOST THE SIDECAR, again in {seconds}s: {}",
                visible(problem)
            )
        }
    }
}

fn list_rows(panel: &Panel) -> Vec<Row> {
    let columns = panel.size.width();
    let keys = ["up/down select", "enter review", "m mode", "q quit"];
    let foot = NOTICE_ROWS + pack(&keys, columns).len();
    // Title, the names of the columns, the title of the calls.
    let room = panel.size.height().saturating_sub(foot + 3);
    let for_calls = room * 2 / 5;
    let title = format!(
        "callgate approvals: {} wait, {}",
        panel.pending.len(),
        link_words(&panel.link)
    );
    let title = fit(&title, columns);
    let mut body = vec![match panel.link {
        Link::Connecting | Link::Live => strong(title),
        Link::Lost { .. } => alarm(title),
    }];
    body.extend(approval_rows(panel, room - for_calls));
    body.extend(call_rows(panel, for_calls));
    with_foot(panel, body, notice_rows(panel), &keys)
}

/// Columns of the list: age, risk, tool, session, why.
fn approval_row(mark: &str, cells: [&str; 5], columns: usize) -> String {
    let [age, risk, tool, session, why] = cells;
    let (for_tool, for_session) = match columns {
        0..60 => (10, 6),
        60..120 => (16, 10),
        _ => (28, 38),
    };
    let text = format!(
        "{mark} {} {} {} {} {why}",
        column(age, 4),
        column(risk, 9),
        column(tool, for_tool),
        column(session, for_session)
    );
    fit(&text, columns)
}

fn approval_rows(panel: &Panel, room: usize) -> Vec<Row> {
    let columns = panel.size.width();
    let header = approval_row(" ", ["age", "risk", "tool", "session", "why"], columns);
    let mut rows = vec![plain(header)];
    let place = panel.selected.as_ref();
    let above = place.map_or(0, |place| panel.pending.range(..place.clone()).count());
    let first = (above + 1).saturating_sub(room);
    for (place, approval) in panel.pending.iter().skip(first).take(room) {
        let is_selected = panel.selected.as_ref() == Some(place);
        let sending = panel.sending.get(&approval.approval_id);
        let why = match sending {
            Some(choice) => format!("sending {}", choice_word(*choice as i32)),
            None => why(approval),
        };
        let text = approval_row(
            if is_selected { ">" } else { " " },
            [
                &age(approval.created_at_ms, panel.now_ms),
                &risk_word(approval.risk_level),
                &visible(&approval.tool),
                &visible(&approval.session_id),
                &why,
            ],
            columns,
        );
        let weight = match is_selected {
            true => Weight::Selected,
            false => Weight::Plain,
        };
        rows.push(Row { text, weight });
    }
    if panel.pending.is_empty() {
        rows.push(plain("  nothing waits for a decision"));
    }
    rows.truncate(room + 1);
    while rows.len() < room + 1 {
        rows.push(plain(""));
    }
    rows
}

fn call_rows(panel: &Panel, room: usize) -> Vec<Row> {
    let columns = panel.size.width();
    let told = match panel.feed {
        Feed::Connecting => "calls: connecting",
        Feed::Live => "calls",
        Feed::Lost => "calls: LOST, trying again",
        Feed::NotServed => "calls: not told here",
    };
    let mut rows = vec![strong(fit(told, columns))];
    for call in panel.calls.shown().take(room) {
        let code = visible(&call.code);
        let text = format!(
            "  {} {} {}/{} {code}",
            column(call.shown(), 9),
            column(&visible(&call.tool), 16),
            visible(&call.turn),
            visible(&call.call),
        );
        rows.push(plain(fit(text.trim_end(), columns)));
    }
    rows
}

fn review_rows(panel: &Panel, review: &Review) -> Vec<Row> {
    let columns = panel.size.width();
    let approval = &review.approval;
    let title = format!(
        "review: {}, {}, asked {} ago, mode {}, {}",
        visible(&approval.tool),
        risk_word(approval.risk_level),
        age(approval.created_at_ms, panel.now_ms),
        panel.mode_of(&approval.session_id, approval.mode),
        link_words(&panel.link),
    );
    let mut body = vec![strong(fit(&title, columns)), standing_row(review, columns)];
    let room = review.body_rows();
    match &review.step {
        Step::Reading => {
            body.extend(text_rows(review, room));
            let mut above_keys = vec![plain(fit(&position(review, room), columns))];
            above_keys.extend(notice_rows(panel));
            with_foot(panel, body, above_keys, &review.keys())
        }
        Step::Comment { text, .. } => {
            body.extend(text_rows(review, room));
            let above_keys = comment_rows(panel, text);
            with_foot(panel, body, above_keys, &review.keys())
        }
        Step::Grants { cursor, picked } => {
            let is_picked = |candidate: &pb::GrantCandidate| {
                picked.get(&candidate.segment_index) == Some(&candidate.candidate_id)
            };
            let mut at_cursor = 0..0;
            let mut rows = Vec::new();
            for (position, candidate) in approval.grant_candidates.iter().enumerate() {
                let begin = rows.len();
                let is_under = position == *cursor;
                rows.extend(candidate_rows(
                    candidate,
                    is_under,
                    is_picked(candidate),
                    columns,
                ));
                if is_under {
                    at_cursor = begin..rows.len();
                }
            }
            // The proposal under the cursor is whole on the screen, if it fits.
            let first = at_cursor.end.saturating_sub(room).min(at_cursor.start);
            body.extend(rows.into_iter().skip(first).take(room));
            let asked = "this is stored word for word, and the call runs:";
            let mut above_keys = vec![plain(fit(asked, columns))];
            above_keys.extend(notice_rows(panel));
            with_foot(panel, body, above_keys, &review.keys())
        }
    }
}

/// How the approval stands, when that is not simply pending.
fn standing_row(review: &Review, columns: usize) -> Row {
    let approval = &review.approval;
    if !review.is_pending() {
        let state = approval_state_word(approval.state);
        let how = approval.decision.as_ref().map(decision_line);
        let how = how.map_or_else(String::new, |how| format!(": {how}"));
        return alarm(fit(&format!("NOT PENDING ANY MORE, {state}{how}"), columns));
    }
    if let Some(choice) = review.sending {
        return strong(format!("sending {} ...", choice_word(choice as i32)));
    }
    match (review.changed, approval.arguments_cut) {
        (true, _) => alarm(fit(
            "IT CHANGED: this is the new one, read it again",
            columns,
        )),
        (false, true) => strong("reading the arguments whole ..."),
        (false, false) => plain("-".repeat(columns)),
    }
}

fn text_rows(review: &Review, room: usize) -> impl Iterator<Item = Row> {
    let rows = review.rows.iter().skip(review.top).take(room);
    rows.map(|row| plain(row.as_str()))
}

fn position(review: &Review, room: usize) -> String {
    let total = review.rows.len();
    let last = (review.top + room).min(total);
    let first = (review.top + 1).min(total);
    match total - last {
        0 if review.approval.arguments_cut => format!("-- lines {first}-{last}, cut here --"),
        0 => format!("-- lines {first}-{last} of {total}, the end --"),
        below => format!("-- lines {first}-{last} of {total}, {below} MORE BELOW --"),
    }
}

/// The text that is typed, its last rows if it is long.
fn comment_rows(panel: &Panel, text: &str) -> Vec<Row> {
    let prompt = format!("why not, for the model: {}_", visible(text));
    let mut rows = wrap_text(&prompt, panel.size.width());
    let mut room = NOTICE_ROWS + 1;
    let mut shown = Vec::new();
    if !panel.notice.is_empty() {
        room -= 1;
        shown.push(alarm(fit(&panel.notice, panel.size.width())));
    }
    rows.drain(..rows.len().saturating_sub(room));
    rows.resize(room, String::new());
    shown.extend(rows.into_iter().map(plain));
    shown
}

fn candidate_rows(
    candidate: &pb::GrantCandidate,
    is_under: bool,
    is_picked: bool,
    columns: usize,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mark = if is_under { ">" } else { " " };
    let tick = if is_picked { "[x]" } else { "[ ]" };
    for (position, text) in candidate_lines(candidate).into_iter().enumerate() {
        let indent = match position {
            0 => format!("{mark} {tick} "),
            _ => "      ".to_owned(),
        };
        let room = columns.saturating_sub(width(&indent));
        for (part, piece) in wrap_text(&text, room).into_iter().enumerate() {
            let lead = if part == 0 { indent.as_str() } else { "      " };
            let weight = match is_under && position == 0 && part == 0 {
                true => Weight::Selected,
                false => Weight::Plain,
            };
            let text = format!("{lead}{piece}");
            rows.push(Row { text, weight });
        }
    }
    rows
}

fn mode_rows(panel: &Panel, change: &ModeChange) -> Vec<Row> {
    let columns = panel.size.width();
    let title = format!("mode of session {}", visible(&change.session_id));
    let mut body = vec![strong(fit(&title, columns)), plain("")];
    body.truncate(HEAD_ROWS);
    let modes = [
        ("1", pb::Mode::Plan, "looks, changes nothing"),
        ("2", pb::Mode::Default, "safe tools run, the rest asks"),
        ("3", pb::Mode::AcceptEdits, "as default, edits run"),
        ("4", pb::Mode::Auto, "everything runs"),
    ];
    let session = change.session.as_ref();
    let now = session
        .and_then(|session| session.settings.as_ref())
        .map(|set| set.mode);
    let max = session.map_or(0, |session| session.max_mode);
    for (key, mode, what) in modes {
        let mark = if now == Some(mode as i32) { ">" } else { " " };
        let bar = match max != 0 && mode as i32 > max {
            true => " (not allowed here)",
            false => "",
        };
        let word = column(&mode_word(mode as i32), 12);
        body.push(plain(fit(
            &format!("{mark} {key} {word} {what}{bar}"),
            columns,
        )));
    }
    body.push(plain(""));
    body.push(plain(match (session.is_some(), change.sending) {
        (false, _) => "reading the session ...",
        (true, true) => "sending ...",
        (true, false) => "everything that waits is decided again",
    }));
    with_foot(panel, body, notice_rows(panel), &["1-4 change", "esc back"])
}
