//! Messages of a sidecar for the panel's tests.
//!
//! Never part of the program.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use super::layout::Size;
use super::state::{Command, Key, Message, Panel};

/// The size that every panel must do with.
pub(super) const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// When the panel's tests take place.
pub(super) const NOW_MS: u64 = 1_000_000;

fn event(turn: &str, body: Body) -> pb::EventRecord {
    pb::EventRecord {
        body: Some(pb::event_record::Body::Turn(pb::TurnEventRecord {
            turn_id: turn.to_owned(),
            event: Some(pb::TurnEvent {
                body: Some(body),
                ..pb::TurnEvent::default()
            }),
            ..pb::TurnEventRecord::default()
        })),
        ..pb::EventRecord::default()
    }
}

/// A turn begins with these calls, each with its tool.
pub(super) fn accepted(turn: &str, calls: &[(&str, &str)]) -> pb::EventRecord {
    let calls = calls.iter().map(|(call, tool)| pb::AcceptedCall {
        call_id: (*call).to_owned(),
        tool: (*tool).to_owned(),
        minted: false,
    });
    event(
        turn,
        Body::TurnAccepted(pb::TurnAccepted {
            calls: calls.collect(),
            ..pb::TurnAccepted::default()
        }),
    )
}

/// A call moves.
pub(super) fn moved(turn: &str, call: &str, state: pb::CallState, code: &str) -> pb::EventRecord {
    event(
        turn,
        Body::CallStateChanged(pb::CallStateChanged {
            call_id: call.to_owned(),
            state: state as i32,
            code: code.to_owned(),
            ..pb::CallStateChanged::default()
        }),
    )
}

/// A pending approval with every choice that the panel knows and one proposal.
pub(super) fn approval(id: &str) -> pb::Approval {
    pb::Approval {
        approval_id: id.to_owned(),
        session_id: "s".to_owned(),
        root_session_id: "s".to_owned(),
        run_id: "r".to_owned(),
        turn_id: "t".to_owned(),
        call: Some(pb::ToolCall {
            call_id: "c".to_owned(),
            ..pb::ToolCall::default()
        }),
        tool: "run_shell".to_owned(),
        owner: "box".to_owned(),
        risk_level: pb::RiskLevel::Dangerous as i32,
        kind: pb::ToolKind::Execute as i32,
        display_arguments: "{\n  \"command\": \"git push\"\n}".to_owned(),
        approval_digest: format!("digest of {id}").into(),
        verdict: Some(pb::PermissionVerdict {
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
            pb::ApprovalChoice::CancelTurn,
        ]
        .map(|choice| choice as i32)
        .to_vec(),
        grant_candidates: vec![candidate("g1", "run_shell(git push *)", 0)],
        state: pb::ApprovalState::Pending as i32,
        created_at_ms: NOW_MS - 180_000,
        pending_in_batch: 1,
        mode: pb::Mode::Default as i32,
        etag: format!("etag of {id}"),
        ..pb::Approval::default()
    }
}

/// The same with arguments of so many lines.
pub(super) fn long_approval(id: &str, lines: usize) -> pb::Approval {
    let lines = (1..=lines).map(|line| format!("argument line {line}\n"));
    pb::Approval {
        display_arguments: lines.collect(),
        ..approval(id)
    }
}

/// A proposal for one part of a command.
pub(super) fn candidate(id: &str, rule: &str, segment: u32) -> pb::GrantCandidate {
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

/// A session in a mode that may go up to accept_edits.
pub(super) fn session(id: &str, mode: pb::Mode) -> pb::Session {
    pb::Session {
        session_id: id.to_owned(),
        settings: Some(pb::SessionSettings {
            mode: mode as i32,
            ..pb::SessionSettings::default()
        }),
        max_mode: pb::Mode::AcceptEdits as i32,
        etag: format!("etag of {id}"),
        ..pb::Session::default()
    }
}

/// Approvals as a snapshot that is complete.
pub(super) fn snapshot(approvals: Vec<pb::Approval>) -> Message {
    Message::Approvals {
        approvals,
        snapshot_complete: true,
    }
}

/// One approval as it is now.
pub(super) fn changed(approval: pb::Approval) -> Message {
    Message::Approvals {
        approvals: vec![approval],
        snapshot_complete: false,
    }
}

/// A panel of the usual size on which these wait.
pub(super) fn panel_with(approvals: Vec<pb::Approval>) -> Panel {
    sized_panel(USUAL, approvals)
}

/// A panel of a size on which these wait.
pub(super) fn sized_panel(size: Size, approvals: Vec<pb::Approval>) -> Panel {
    let mut panel = Panel::new(size, NOW_MS);
    panel.update(Message::WatchBegan { fresh: true });
    panel.update(snapshot(approvals));
    panel
}

/// Presses keys one after the other. Gives back what is to be done besides drawing.
pub(super) fn press(panel: &mut Panel, keys: &[Key]) -> Vec<Command> {
    let messages = keys.iter().map(|key| Message::Key(*key));
    let commands = messages.flat_map(|message| panel.update(message));
    commands
        .filter(|command| *command != Command::Redraw)
        .collect()
}

/// Types a text letter by letter.
pub(super) fn type_text(panel: &mut Panel, text: &str) -> Vec<Command> {
    let keys: Vec<Key> = text.chars().map(Key::Char).collect();
    press(panel, &keys)
}
