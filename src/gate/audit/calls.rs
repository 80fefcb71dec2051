//! What the audit says of one call: as the model made it, as it would run, why, and how it ended.
//!
//! Of a tool with secret pointers, arguments are masked and texts that may quote them are left out.
//! Never the result itself: its digest.

use std::borrow::Cow;

use super::draft::Entry;
use super::object::Object;
use super::result::{as_it_came, result_digest, write_result};
use super::words;
use crate::gate::approval::Decision;
use crate::gate::hooks::BeforeAction;
use crate::gate::ids::{CallIndex, HookId};
use crate::gate::mask;
use crate::gate::permission::{GrantId, Ground, Source};
use crate::gate::record::{CallWay, TurnSpec};
use crate::gate::result::{CallResult, Digest};

/// Whether and why a call may run.
pub(super) fn decided(turn: &TurnSpec, way: &CallWay, out: &mut Vec<u8>) {
    let call = turn.request.calls.get(way.call.get());
    let original = original(turn, Some(way));
    let effective = effective(Some(way));
    Entry {
        call: call.map_or("", |requested| requested.call.call_id.as_str()),
        tool: match &way.tool {
            Some(tool) => tool.definition.name.as_str(),
            None => call.map_or("", |requested| requested.call.name.as_str()),
        },
        decision: Some(&|object| {
            object.text_if("approval", way.approval.map_or("", words::approval));
            let hook = way.hook.as_ref();
            match &way.ground {
                Some(ground) => {
                    self::ground(object, ground, (&way.grants, hook), way.has_secrets());
                }
                // What did not pass the look or a hook was never judged.
                None => {
                    self::hook(object, hook);
                    object.text("verdict", "not_judged");
                }
            }
        }),
        effective_call: effective.as_ref().map(|members| members as _),
        original_call: original.as_ref().map(|members| members as _),
        ..Entry::of_turn("call.decided", &way.by, turn)
    }
    .push(out);
}

/// How a call ended.
pub(super) fn ended(turn: &TurnSpec, index: CallIndex, result: &CallResult, out: &mut Vec<u8>) {
    let came = as_it_came(result);
    let is_suppressed = matches!(came, Cow::Owned(_));
    Entry {
        call: result.call_id.as_str(),
        tool: result.tool.as_str(),
        detail: Some(&|object| {
            object.text_if(
                "approval_id",
                match &result.approval {
                    Some(_) => turn.approval_id(index).as_str().to_owned(),
                    None => String::new(),
                }
                .as_str(),
            );
            if let Some(digest) = &result.arguments_digest {
                object.hex("arguments_digest", &digest.0);
            }
            object.number("attempts", u64::from(result.attempts));
            object.text("effect", words::effect(result.effect));
            if let Some(error) = &result.error {
                object.text("error_code", &error.code);
            }
            if let Some(why) = result.not_executed {
                object.text("not_executed", words::not_executed(why));
            }
            object.text("outcome", words::outcome(result.outcome));
            if is_suppressed {
                write_result(&came, object.member("suppressed_result"));
            }
        }),
        result_digest: Some(result_digest(&came)),
        ..Entry::of_turn("call.ended", "", turn)
    }
    .push(out);
}

/// The call as the model made it. None: nothing is known of it.
pub(super) fn original<'a>(
    turn: &'a TurnSpec,
    way: Option<&'a CallWay>,
) -> Option<impl Fn(&mut Object<'_>) + use<'a>> {
    let way = way?;
    let requested = turn.request.calls.get(way.call.get())?;
    Some(move |object: &mut Object<'_>| {
        let call = &requested.call;
        let out = object.member("arguments");
        match &way.arguments {
            Some((text, _)) if !way.rewritten => mask::write_canonical(text, way.secrets(), out),
            Some(_) | None => mask::write_arguments(&call.arguments, way.secrets(), out),
        }
        match &way.arguments {
            Some((_, digest)) if !way.rewritten => object.hex("arguments_digest", &digest.0),
            Some(_) | None => object.hex("arguments_digest", &Digest::of(&call.arguments).0),
        }
        object.text("name", call.name.as_str());
        if call.truncated {
            object.flag("truncated", true);
        }
    })
}

/// What would run. None: just what the model made, or nothing.
pub(super) fn effective<'a>(
    way: Option<&'a CallWay>,
) -> Option<impl Fn(&mut Object<'_>) + use<'a>> {
    let way = way?;
    let (text, digest) = way.arguments.as_ref().filter(|_| way.rewritten)?;
    Some(move |object: &mut Object<'_>| {
        mask::write_canonical(text, way.secrets(), object.member("arguments"));
        object.hex("arguments_digest", &digest.0);
    })
}

/// Why a call may run, must be asked or must not run.
pub(super) fn ground(
    object: &mut Object<'_>,
    ground: &Ground,
    (grants, hook): (&[GrantId], Option<&(BeforeAction, HookId)>),
    has_secrets: bool,
) {
    let of_session = ground.source == Some(Source::Session);
    object.texts_if("grants", grants.iter().map(GrantId::to_string));
    self::hook(object, hook);
    object.text_if("origin", &ground.origin);
    object.number("revision", ground.revision);
    // The words of a grant are those of a command.
    if !(has_secrets && of_session) {
        object.text_if("rule", &ground.rule);
    }
    if !has_secrets {
        object.text_if("segment", &ground.segment);
    }
    object.text_if("source", ground.source.map_or("", Source::as_str));
    object.text("stage", words::ground(ground.kind));
    object.text("verdict", ground.verdict.as_str());
}

/// The strictest word of the hooks.
fn hook(object: &mut Object<'_>, hook: Option<&(BeforeAction, HookId)>) {
    if let Some((action, id)) = hook {
        object.text("hook", id.as_str());
        object.text("hook_action", words::before(*action));
    }
}

/// What an approver said, or what decided in an approver's place.
pub(super) fn approver_decision(object: &mut Object<'_>, decision: &Decision) {
    object.text_if("by", &decision.by);
    object.text_if("choice", decision.choice.map_or("", words::choice));
    object.number("decided_at_ms", decision.at.0);
    object.text_if("decision_id", &decision.id);
    if let Some(edited) = &decision.edited {
        object.hex("edited_arguments_digest", &Digest::of(edited).0);
    }
    object.texts_if("grants", decision.grants.iter().map(GrantId::to_string));
    if let Some(by_rule) = &decision.ground {
        // Which tool it was for, and so what may be shown, is not known here.
        object.object("ground", |object| {
            ground(object, by_rule, (&[], None), true)
        });
    }
    object.text_if("message", &decision.message);
    object.text_if("surface", &decision.surface);
}
