//! Hides what tools call secret from everybody but orchestrators, who wrote it.
//!
//! Goes by what the tool says now; of a tool that is gone nobody can say, so that all its arguments are
//! hidden. Never touches what is kept.

use tonic::Request;

use super::access::{Caller, Role};
use crate::engine::Engine;
use crate::gate::mask::masked;
use crate::pb::v1 as pb;

/// Whether the caller must not see arguments that tools call secret.
pub(super) fn are_hidden_from<T>(request: &Request<T>) -> bool {
    let caller = request.extensions().get::<Caller>();
    !caller.is_some_and(|caller| caller.roles.contains(&Role::Orchestrator))
}

/// Hides them in a turn, and the message that they came in.
pub(super) fn hide(turn: &mut pb::Turn, engine: &Engine) {
    turn.model_message.clear();
    for call in &mut turn.calls {
        // A call that never met a tool has no secrets: nobody said what they are.
        if call.tool.is_empty() {
            continue;
        }
        let secrets = engine.secrets_of(&call.tool);
        if let Some(asked) = &mut call.call {
            asked.arguments_json = masked(&asked.arguments_json, &secrets);
        }
        call.effective_arguments_json = masked(&call.effective_arguments_json, &secrets);
    }
}
