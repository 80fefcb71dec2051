//! What hooks added to the conversation, as much of it as one message of a reader holds.
//!
//! Whole texts only, in their order; what is left out is counted. Never takes more than its share: the
//! results must fit too.

use prost::Message;

use super::convert;
use crate::gate::event::{TurnCompleted, TurnOutcome};
use crate::pb::v1 as pb;

/// The part of a message that words may take: one in so many bytes.
const SHARE: usize = 4;
/// Bytes around each of them.
const OVERHEAD: usize = 8;

/// The words of all hooks of a turn.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// By call, those from before it first, then in the order of the hooks.
    pub(super) contexts: Vec<pb::AdditionalContext>,
    /// In the same order.
    pub(super) injected: Vec<pb::InjectedMessage>,
    /// Bytes that they take.
    pub(super) bytes: usize,
    left_out: usize,
}

impl Words {
    /// Those of a turn that ended as it should, for messages of that size.
    pub(super) fn of(completed: &TurnCompleted, message_bytes_max: usize) -> Self {
        let mut words = Self::default();
        if completed.outcome != TurnOutcome::Completed {
            return words;
        }
        let share = message_bytes_max / SHARE;
        for result in &completed.results {
            let call = result.call_id.as_str();
            for said in result.hooks.iter() {
                let contexts = said.contexts.iter();
                for context in contexts.map(|text| convert::context(text, call)) {
                    if words.has_room(context.encoded_len(), share) {
                        words.contexts.push(context);
                    }
                }
                let injected = said.injected.iter();
                for message in injected.map(|one| convert::injected(one, call)) {
                    if words.has_room(message.encoded_len(), share) {
                        words.injected.push(message);
                    }
                }
            }
        }
        words.tell_what_is_left_out();
        words
    }

    /// Takes room for one text, if there is any.
    fn has_room(&mut self, bytes: usize, share: usize) -> bool {
        let with_it = self.bytes + bytes + OVERHEAD;
        let fits = with_it <= share;
        match fits {
            true => self.bytes = with_it,
            false => self.left_out += 1,
        }
        fits
    }

    fn tell_what_is_left_out(&mut self) {
        if self.left_out > 0 {
            let count = self.left_out;
            self.contexts.push(pb::AdditionalContext {
                text: format!("[{count} texts of hooks are left out: they do not fit]"),
                ..pb::AdditionalContext::default()
            });
        }
    }
}
