//! The demo's hooks in Python: one fills an argument in, one denies, one keeps output from the model.
//!
//! They are there for their own scenario only, and leave when they are told to.

use std::path::Path;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;

use super::processes::Running;
use super::{message_request, run, show_results};
use crate::cli::output::{Outcome, data};
use crate::cli::running::result_lines;

/// The recorded message.
const FILE: &str = "hooked_batch.json";

/// Plays the one batch that all three hooks have something to say about.
pub(super) async fn play(
    channel: &AuthorizedChannel,
    python: &Path,
    examples: &Path,
    endpoint: &str,
) -> Result<(), Outcome> {
    data("\nhooks fill an argument in, deny a call, and keep output from the model");
    let script = "baking_hooks.py";
    let mut hooks = Running::python_until_ready(python, examples, script, endpoint).await?;
    let request = pb::RunTurnRequest {
        run_id: "hooks".to_owned(),
        turn_id: FILE.to_owned(),
        ..message_request(examples, FILE)?
    };
    let completed = run(channel, request, false).await?;
    show_results(&completed.results);
    for context in &completed.additional_contexts {
        data(&format!(
            "  hook `{}` adds: {}",
            context.hook_id, context.text
        ));
    }
    hooks.stop().await?;
    check(&completed).map_err(|problem| Outcome::failed(problem.to_owned()))
}

fn check(completed: &pb::TurnCompleted) -> Result<(), &'static str> {
    let [read, cleared, baked] = completed.results.as_slice() else {
        return Err("there are not three results");
    };
    let code = |result: &pb::CallResult| result.error.as_ref().map(|error| error.code.clone());
    let shown = result_lines(read).concat();
    if !shown.contains("brioche") || shown.contains("sourdough") {
        return Err("the argument was not filled in");
    }
    if code(cleared).as_deref() != Some("tool_denied_by_hook") {
        return Err("the call was not denied by the hook");
    }
    if !baked.suppressed
        || baked.outcome() != pb::CallOutcome::Success
        || result_lines(baked).concat().contains('2')
    {
        return Err("the output was not kept back");
    }
    match completed.additional_contexts.as_slice() {
        [context] if context.hook_id == "keep_quiet" => Ok(()),
        _ => Err("the hook's words are missing"),
    }
}
