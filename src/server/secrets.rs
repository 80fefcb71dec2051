//! Hides what tools call secret from everybody but orchestrators, who wrote it.
//!
//! Goes by what tools say now. Never touches what is kept.

use tonic::Request;

use super::access::{Caller, Role};
use crate::engine::Engine;
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
        if let Some(asked) = &mut call.call {
            asked.arguments_json = engine.shown_arguments(&call.tool, &asked.arguments_json);
        }
        // Empty where the call never got that far.
        if !call.effective_arguments_json.is_empty() {
            let effective = &call.effective_arguments_json;
            call.effective_arguments_json = engine.shown_arguments(&call.tool, effective);
        }
    }
}
