//! Questions about calls and their answers, between the executor stream's messages and the gate's types.
//!
//! An unknown verdict asks. Never checks whether an answer was asked for.

use bytes::Bytes;
use prost::Message;

use super::convert::{call_context, ms32, response};
use crate::gate::limits::Limits;
use crate::gate::permission::{Check, Mode, PathFact, Source, ToolWord};
use crate::gate::result::cut_text;
use crate::gate::turn::{About, Inquiry};
use crate::pb::v1 as pb;
use pb::connect_response::Body;

/// The message of a question, and its size on the wire in bytes.
pub(super) fn inquiry(id: &str, inquiry: Inquiry) -> (pb::ConnectResponse, usize) {
    let Inquiry {
        call,
        tool,
        turn,
        arguments,
        cwd,
        until: _,
        timeout_ms,
        about,
    } = inquiry;
    let requested = turn.request.calls.get(call.get());
    let call_id = requested.map(|requested| requested.call.call_id.to_string());
    let call_id = call_id.unwrap_or_default();
    let tool_name = tool.definition.name.to_string();
    let body = match about {
        About::Facts { pointers } => Body::ResolveFacts(pb::ResolveFactsRequest {
            request_id: id.to_owned(),
            tool_name,
            call_id,
            arguments_json: arguments,
            pointers,
            cwd: cwd.unwrap_or_default(),
            timeout_ms: ms32(timeout_ms),
        }),
        About::Check {
            mode,
            facts,
            matched,
        } => Body::PermissionCheck(pb::PermissionCheckRequest {
            check_id: id.to_owned(),
            tool_name,
            tool_digest: Bytes::copy_from_slice(&tool.digest.0),
            call_id,
            arguments_json: arguments,
            context: Some(call_context(&turn, &tool, cwd)),
            mode: mode_number(mode),
            facts: facts.into_iter().map(fact).collect(),
            matched_source: matched
                .as_ref()
                .map_or(0, |matched| source_number(matched.source)),
            matched_rule: matched.map(|matched| matched.rule).unwrap_or_default(),
            timeout_ms: ms32(timeout_ms),
        }),
    };
    let message = response(body);
    let size = message.encoded_len();
    (message, size)
}

fn fact(fact: PathFact) -> pb::SubjectFact {
    pb::SubjectFact {
        pointer: fact.pointer,
        value: fact.value,
        canonical: fact.canonical,
        exists: fact.exists,
        error: String::new(),
    }
}

pub(super) fn facts(facts: Vec<pb::SubjectFact>, limits: &Limits) -> Vec<PathFact> {
    let known = facts.into_iter().filter(|fact| {
        let bytes = fact.canonical.len() as u64;
        bytes > 0 && bytes <= limits.fact_bytes_max
    });
    known
        .map(|fact| PathFact {
            pointer: fact.pointer,
            value: fact.value,
            canonical: fact.canonical,
            exists: fact.exists,
        })
        .collect()
}

pub(super) fn tool_word(result: pb::PermissionCheckResult, limits: &Limits) -> ToolWord {
    use pb::PermissionCheckVerdict as Verdict;
    let check = match result.verdict() {
        Verdict::Deny => Check::Deny,
        Verdict::Ask | Verdict::Unspecified => Check::Ask,
        Verdict::AskFirm => Check::AskFirm,
        Verdict::Allow => Check::Allow,
        Verdict::Passthrough => Check::Passthrough,
    };
    let cut = |mut text: String| {
        cut_text(&mut text, limits.check_reason_bytes_max);
        text
    };
    ToolWord {
        check,
        for_user: cut(result.reason_for_user),
        for_model: cut(result.reason_for_model),
    }
}

/// The number of a rule's source.
pub fn source_number(source: Source) -> i32 {
    let source = match source {
        Source::Policy => pb::RuleSource::PolicySettings,
        Source::User => pb::RuleSource::UserSettings,
        Source::Project => pb::RuleSource::ProjectSettings,
        Source::Local => pb::RuleSource::LocalSettings,
        Source::Flag => pb::RuleSource::FlagSettings,
        Source::CliArg => pb::RuleSource::CliArg,
        Source::Command => pb::RuleSource::Command,
        Source::Session => pb::RuleSource::Session,
    };
    source as i32
}

/// The number of a mode.
pub fn mode_number(mode: Mode) -> i32 {
    let mode = match mode {
        Mode::Plan => pb::Mode::Plan,
        Mode::Default => pb::Mode::Default,
        Mode::AcceptEdits => pb::Mode::AcceptEdits,
        Mode::Auto => pb::Mode::Auto,
    };
    mode as i32
}
