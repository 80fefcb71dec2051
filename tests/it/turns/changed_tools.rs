//! Tools that are hidden, or that changed after the model saw them.
//!
//! Never runs another tool than the one that was meant.

use callgate_client::pb::v1 as pb;

use crate::support::executor::{Executor, hello};
use crate::support::failure::{self, detail};
use crate::support::orchestrator::{call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, soon, tools};

#[tokio::test]
async fn a_call_outside_the_toolset_is_not_found() {
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default(), [tools::echo(), tools::write()]).await;
    let toolset = pb::Toolset {
        name: "readers".to_owned(),
        include: vec!["ec*".to_owned()],
        ..pb::Toolset::default()
    };
    let put = pb::PutToolsetRequest {
        toolset: Some(toolset),
    };
    orchestrator
        .registry
        .clone()
        .put_toolset(put)
        .await
        .unwrap();
    let mut request = turn("t", [call("in", "echo", "{}"), call("out", "write", "{}")]);
    request.toolset = "readers".to_owned();
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "in");
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "out"), "tool_not_found");
    let mut unknown = turn("u", [call("c", "echo", "{}")]);
    unknown.toolset = "none".to_owned();
    let status = orchestrator.refused(unknown).await;
    assert_eq!(failure::code(&status), "not_found");
    assert_eq!(detail(&status).resource_kind, "toolset");
}

#[tokio::test]
async fn a_tool_that_changed_since_the_model_saw_it_does_not_run() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let listed = orchestrator
        .registry
        .clone()
        .list_tools(pb::ListToolsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let changed = pb::ToolDefinition {
        description: "Does something else.".to_owned(),
        ..tools::echo()
    };
    let newer = Executor::join(&sidecar, hello("box", [changed])).await;
    assert_eq!(newer.welcome.registrations[0].generation, 2);
    let mut request = turn("t", [call("c", "echo", "{}")]);
    request.tool_snapshot_id = listed.tool_snapshot_id;
    let completed = orchestrator.run_to_end(request).await;
    assert_eq!(code_of(&completed, "c"), "tool_changed");
    let mut expired = turn("u", [call("c", "echo", "{}")]);
    expired.tool_snapshot_id = "none of ours".to_owned();
    let status = orchestrator.refused(expired).await;
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(failure::code(&status), "snapshot_expired");
}

#[tokio::test]
async fn a_tool_goes_back_to_its_earlier_definition_when_the_newer_one_leaves() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let changed = pb::ToolDefinition {
        description: "Does something else.".to_owned(),
        ..tools::echo()
    };
    let newer = Executor::join(&sidecar, hello("box", [changed])).await;
    assert_eq!(newer.welcome.registrations[0].generation, 2);
    let mut registry = orchestrator.registry.clone();
    let watched = soon(
        "the watch",
        registry.watch_tools(pb::WatchToolsRequest::default()),
    )
    .await;
    let mut watch = watched.unwrap().into_inner();
    newer.hang_up();
    let is_back = async {
        while let Some(message) = watch.message().await.unwrap() {
            if message.tools.iter().any(|tool| tool.generation == 3) {
                return;
            }
        }
    };
    soon("the earlier definition", is_back).await;
    // The name was never free for others.
    let thief = Executor::join(&sidecar, hello("thief", [tools::echo()])).await;
    let refused = thief.welcome.registrations[0].error.clone().unwrap();
    assert_eq!(refused.code, "tool_name_duplicate");
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    executor.answer_text(&work, "still here").await;
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "still here");
}

#[tokio::test]
async fn a_tool_that_changed_while_its_call_waited_does_not_run() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), []).await;
    let busy = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::echo()])
    };
    executor.hang_up();
    executor = Executor::join(&sidecar, busy).await;
    let calls = [call("a", "echo", "{}"), call("b", "echo", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    let changed = pb::ToolDefinition {
        description: "Does something else.".to_owned(),
        ..tools::echo()
    };
    executor
        .say(pb::connect_request::Body::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: vec![changed],
            remove: Vec::new(),
        }))
        .await;
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "a"), "");
    assert_eq!(code_of(&completed, "b"), "tool_changed");
}
