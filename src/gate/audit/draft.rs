//! The shape that all records share: who, where, what, and what is particular to the kind.
//!
//! Members stand in the order of their names; those that say nothing are left out. Never knows what
//! kinds there are.

use super::chain::push_draft;
use super::object::Object;
use crate::gate::record::TurnSpec;
use crate::gate::result::Digest;

/// Writes members of an object, in the order of their names.
pub(super) type Members<'a> = &'a dyn Fn(&mut Object<'_>);

/// What a record says, but its moment and its sequence.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry<'a> {
    pub(super) kind: &'a str,
    pub(super) principal: &'a str,
    pub(super) session: &'a str,
    pub(super) run: &'a str,
    pub(super) turn: &'a str,
    pub(super) call: &'a str,
    pub(super) tool: &'a str,
    pub(super) decision: Option<Members<'a>>,
    /// What is particular to the kind.
    pub(super) detail: Option<Members<'a>>,
    pub(super) effective_call: Option<Members<'a>>,
    pub(super) original_call: Option<Members<'a>>,
    pub(super) result_digest: Option<Digest>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(kind: &'a str, principal: &'a str) -> Self {
        Self {
            kind,
            principal,
            ..Self::default()
        }
    }

    pub(super) fn of_turn(kind: &'a str, principal: &'a str, turn: &'a TurnSpec) -> Self {
        Self {
            session: turn.session().as_str(),
            run: turn.run().as_str(),
            turn: turn.request.turn.as_str(),
            ..Self::new(kind, principal)
        }
    }

    /// Appends the draft.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        push_draft(out, |out, start| {
            let (mut time, mut sequence) = (0, 0);
            Object::write(out, |object| {
                object.text_if("call_id", self.call);
                if let Some(members) = self.decision {
                    object.object("decision", members);
                }
                if let Some(members) = self.detail {
                    object.object("detail", members);
                }
                if let Some(members) = self.effective_call {
                    object.object("effective_call", members);
                }
                object.text("kind", self.kind);
                if let Some(members) = self.original_call {
                    object.object("original_call", members);
                }
                object.text_if("principal", self.principal);
                time = object.member("recorded_at_ms").len() - start;
                if let Some(digest) = &self.result_digest {
                    object.hex("result_digest", &digest.0);
                }
                object.text_if("run_id", self.run);
                sequence = object.member("sequence").len() - start;
                object.text_if("session_id", self.session);
                object.text_if("tool", self.tool);
                object.text_if("turn_id", self.turn);
            });
            (time, sequence)
        });
    }
}
