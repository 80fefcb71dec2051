//! What hooks said, on the disk.
//!
//! Rare beside the records of every turn, so written through its messages. Never decides what it means.

use std::sync::Arc;

use prost::Message;

use super::{Unreadable, numbers};
use crate::gate::hooks::{self as gate, RestoredHook};
use crate::gate::ids::{CallIndex, HookId};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Text {
    #[prost(string, tag = "1")]
    hook: String,
    #[prost(string, tag = "2")]
    text: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Injected {
    #[prost(string, tag = "1")]
    hook: String,
    #[prost(uint32, tag = "2")]
    role: u32,
    #[prost(string, tag = "3")]
    text: String,
}

/// What hooks left with a result.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Words {
    #[prost(message, repeated, tag = "1")]
    contexts: Vec<Text>,
    #[prost(message, repeated, tag = "2")]
    injected: Vec<Injected>,
    #[prost(bool, tag = "3")]
    suppressed: bool,
    #[prost(string, optional, tag = "4")]
    stopped_by: Option<String>,
}

/// A hook of a process.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Hook {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    instance: String,
    #[prost(uint64, tag = "3")]
    number: u64,
    #[prost(bytes = "bytes", tag = "4")]
    registration: bytes::Bytes,
}

/// What is kept of a hook.
pub(crate) fn as_restored_hook(kept: &gate::KeptHook) -> RestoredHook {
    RestoredHook {
        id: kept.hook.id.clone(),
        instance: kept.instance.clone(),
        number: kept.hook.place.number,
        registration: kept.registration.clone(),
    }
}

/// The bytes of a hook.
pub(crate) fn hook_bytes(hook: &RestoredHook) -> Vec<u8> {
    let hook = Hook {
        id: hook.id.to_string(),
        instance: hook.instance.clone(),
        number: hook.number,
        registration: hook.registration.clone(),
    };
    hook.encode_to_vec()
}

/// Reads a hook.
pub(crate) fn restored_hook(bytes: &[u8]) -> Result<RestoredHook, Unreadable> {
    Ok(hook_from(Hook::decode(bytes)?))
}

pub(super) fn hook_from(hook: Hook) -> RestoredHook {
    RestoredHook {
        id: HookId::trusted(hook.id),
        instance: hook.instance,
        number: hook.number,
        registration: hook.registration,
    }
}

/// What hooks said before one call.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Heard {
    #[prost(uint32, tag = "1")]
    call: u32,
    #[prost(uint32, tag = "2")]
    action: u32,
    #[prost(string, optional, tag = "3")]
    decided_by: Option<String>,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(message, repeated, tag = "5")]
    contexts: Vec<Text>,
    #[prost(bool, tag = "6")]
    suppress: bool,
    #[prost(bytes = "bytes", optional, tag = "7")]
    arguments: Option<bytes::Bytes>,
    #[prost(string, optional, tag = "8")]
    rewritten_by: Option<String>,
    #[prost(uint32, tag = "9")]
    generation: u32,
}

pub(super) fn text_to(text: &gate::HookText) -> Text {
    Text {
        hook: text.hook.to_string(),
        text: text.text.clone(),
    }
}

pub(super) fn text_from(text: Text) -> gate::HookText {
    gate::HookText {
        hook: HookId::trusted(text.hook),
        text: text.text,
    }
}

pub(super) fn words_to(words: &gate::HookWords) -> Words {
    let injected = words.injected.iter().map(|message| Injected {
        hook: message.hook.to_string(),
        role: numbers::role_to(message.role),
        text: message.text.clone(),
    });
    Words {
        contexts: words.contexts.iter().map(text_to).collect(),
        injected: injected.collect(),
        suppressed: words.suppressed,
        stopped_by: words.stopped_by.as_ref().map(ToString::to_string),
    }
}

pub(super) fn words_from(words: Words) -> Result<gate::HookWords, Unreadable> {
    let injected = words.injected.into_iter().map(|message| {
        Ok(gate::Injected {
            hook: HookId::trusted(message.hook),
            role: numbers::role_from(message.role)?,
            text: message.text,
        })
    });
    Ok(gate::HookWords {
        contexts: words.contexts.into_iter().map(text_from).collect(),
        injected: injected.collect::<Result<_, Unreadable>>()?,
        suppressed: words.suppressed,
        // The audit has it.
        kept_back: None,
        stopped_by: words.stopped_by.map(HookId::trusted),
    })
}

pub(super) fn heard_to(call: CallIndex, heard: &gate::Heard) -> Heard {
    Heard {
        call: u32::from(call.0),
        action: numbers::before_action_to(heard.action),
        decided_by: heard.decided_by.as_ref().map(ToString::to_string),
        reason: heard.reason.clone(),
        contexts: heard.contexts.iter().map(text_to).collect(),
        suppress: heard.suppress,
        arguments: heard.arguments.clone(),
        rewritten_by: heard.rewritten_by.as_ref().map(ToString::to_string),
        generation: heard.generation,
    }
}

pub(super) fn heard_from(heard: Heard) -> Result<(CallIndex, Arc<gate::Heard>), Unreadable> {
    let call = super::decode::index_of(heard.call)?;
    let heard = gate::Heard {
        action: numbers::before_action_from(heard.action)?,
        decided_by: heard.decided_by.map(HookId::trusted),
        reason: heard.reason,
        contexts: heard.contexts.into_iter().map(text_from).collect(),
        suppress: heard.suppress,
        arguments: heard.arguments,
        rewritten_by: heard.rewritten_by.map(HookId::trusted),
        generation: heard.generation,
        earlier: Vec::new(),
    };
    Ok((call, Arc::new(heard)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::hooks::{BeforeAction, MessageRole};

    fn text(text: &str) -> gate::HookText {
        gate::HookText {
            hook: HookId::trusted("one"),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_hooks_left_with_a_result_is_read_back() {
        let injected = [MessageRole::System, MessageRole::User].map(|role| gate::Injected {
            hook: HookId::trusted("two"),
            role,
            text: "look".to_owned(),
        });
        let words = gate::HookWords {
            contexts: vec![text("mind"), text("the gap")],
            injected: injected.to_vec(),
            suppressed: true,
            kept_back: None,
            stopped_by: Some(HookId::trusted("two")),
        };
        assert_eq!(words_from(words_to(&words)), Ok(words));
        let nothing = gate::HookWords::default();
        assert_eq!(words_from(words_to(&nothing)), Ok(nothing));
    }

    #[test]
    fn what_hooks_said_before_a_call_is_read_back() {
        use BeforeAction::{Abort, Allow, Ask, Defer, Deny, Proceed};
        for action in [Proceed, Allow, Ask, Defer, Deny, Abort] {
            let heard = gate::Heard {
                action,
                decided_by: Some(HookId::trusted("one")),
                reason: "because".to_owned(),
                contexts: vec![text("mind the gap")],
                suppress: true,
                arguments: Some(bytes::Bytes::from_static(b"{}")),
                rewritten_by: Some(HookId::trusted("two")),
                generation: 2,
                earlier: Vec::new(),
            };
            let read = heard_from(heard_to(CallIndex(7), &heard));
            assert_eq!(read, Ok((CallIndex(7), Arc::new(heard))));
        }
        let broken = Heard::default();
        assert!(heard_from(broken).is_err());
    }
}
