//! How large and how many: tools and toolsets.
//!
//! Never tests a limit by its default alone.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use tonic::Code;

use super::refused_by;
use crate::support::executor::{Executor, hello};
use crate::support::failure::code;
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn definitions_have_a_size_in_every_part() {
    let setup = Setup::default()
        .set("limits.tool_name_bytes_max", 4)
        .set("limits.tool_description_bytes_max", 4)
        .set("limits.tool_annotations_bytes_max", 8)
        .set("limits.tool_version_bytes_max", 4)
        .set("limits.tool_services_max", 1)
        .set("limits.schema_bytes_max", 100)
        .set("limits.schema_depth_max", 3)
        .set("limits.schema_properties_max", 2);
    let sidecar = setup.start().await;
    let base = || pb::ToolDefinition {
        name: "t".to_owned(),
        description: "d".to_owned(),
        ..pb::ToolDefinition::default()
    };
    let schema = |text: &str| pb::ToolDefinition {
        parameters_json: text.to_owned().into(),
        ..base()
    };
    let secret = |count: usize, pointer: &str| pb::ToolDefinition {
        secret_pointers: vec![pointer.to_owned(); count],
        ..base()
    };
    let described = |bytes: usize| {
        schema(&format!(
            r#"{{"type":"object","description":"{}"}}"#,
            "x".repeat(bytes - 34)
        ))
    };
    let rows = [
        (
            pb::ToolDefinition {
                name: "tttt".to_owned(),
                ..base()
            },
            pb::ToolDefinition {
                name: "ttttt".to_owned(),
                ..base()
            },
            "tool_name_invalid",
        ),
        (
            pb::ToolDefinition {
                description: "dddd".to_owned(),
                ..base()
            },
            pb::ToolDefinition {
                description: "ddddd".to_owned(),
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            pb::ToolDefinition {
                annotations_json: "{\"a\":10}".into(),
                ..base()
            },
            pb::ToolDefinition {
                annotations_json: "{\"a\":100}".into(),
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            pb::ToolDefinition {
                version: "1.23".to_owned(),
                ..base()
            },
            pb::ToolDefinition {
                version: "1.234".to_owned(),
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            pb::ToolDefinition {
                services: vec!["a".to_owned()],
                ..base()
            },
            pb::ToolDefinition {
                services: vec!["a".to_owned(), "b".to_owned()],
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            secret(64, "/a"),
            secret(65, "/a"),
            "tool_definition_invalid",
        ),
        (
            secret(1, &format!("/{}", "a".repeat(255))),
            secret(1, &format!("/{}", "a".repeat(256))),
            "tool_definition_invalid",
        ),
        (
            secret(1, "/a~1b/0"),
            secret(1, "a"),
            "tool_definition_invalid",
        ),
        (described(100), described(101), "schema_too_large"),
        (
            schema(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#),
            schema(
                r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}"#,
            ),
            "schema_too_deep",
        ),
        (
            schema(r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}}}"#),
            schema(
                r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}}}"#,
            ),
            "schema_too_large",
        ),
    ];
    for (position, (at, above, expected)) in rows.into_iter().enumerate() {
        let executor = Executor::join(&sidecar, hello("at", [at])).await;
        let at = &executor.welcome.registrations[0];
        assert_eq!(at.error, None, "row {position}");
        executor.hang_up();
        let executor = Executor::join(&sidecar, hello("at", [above])).await;
        let above = &executor.welcome.registrations[0];
        let found = above.error.as_ref().map(|error| error.code.as_str());
        assert_eq!(found, Some(expected), "row {position}");
    }
}

#[tokio::test]
async fn registrations_have_a_number_of_tools() {
    let setup = Setup::default()
        .set("limits.tools_per_message_max", 2)
        .set("limits.tools_max", 3);
    let sidecar = setup.start().await;
    let list = |names: &[&str]| -> Vec<pb::ToolDefinition> {
        names
            .iter()
            .map(|name| tools::named(name, tools::echo()))
            .collect()
    };
    let mut greedy = Executor::open(&sidecar).await;
    greedy
        .say(Word::Hello(hello("greedy", list(&["a", "b", "c"]))))
        .await;
    let status = greedy.ended().await.1.unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    refused_by(&status, "tools_per_message_max", 2, 3);
    let mut modest = Executor::join(&sidecar, hello("modest", list(&["a", "b"]))).await;
    let told = modest.welcome.limits.unwrap();
    assert_eq!(told.max_tools_per_message, 2);
    let asked = pb::GetServerInfoRequest {};
    let mut server = Orchestrator::connect(&sidecar).await.server;
    let info = server.get_server_info(asked).await.unwrap().into_inner();
    assert_eq!(info.stream_limits, Some(told));
    let update = |names: &[&str]| {
        Word::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: list(names),
            remove: Vec::new(),
        })
    };
    modest.say(update(&["c", "d"])).await;
    let answer = modest
        .hear_some("the answer", |heard| {
            let pb::connect_response::Body::ToolUpdateResult(answer) = heard else {
                return None;
            };
            Some(answer.clone())
        })
        .await;
    assert_eq!(answer.registrations[0].error, None);
    let refused = answer.registrations[1].error.as_ref().unwrap();
    assert_eq!(refused.code, "tool_definition_invalid");
    modest.say(update(&["a", "b", "c"])).await;
    refused_by(
        &modest.ended().await.1.unwrap(),
        "tools_per_message_max",
        2,
        3,
    );
}

#[tokio::test]
async fn toolsets_have_a_number_and_a_number_of_entries() {
    let setup = Setup::default()
        .set("limits.toolsets_max", 2)
        .set("limits.toolset_entries_max", 2);
    let list = ["a", "b", "c"].map(|name| tools::named(name, tools::echo()));
    let (_sidecar, _executor, orchestrator) = set_up(setup, list).await;
    let mut registry = orchestrator.registry.clone();
    let put = |name: &str, include: &[&str]| pb::PutToolsetRequest {
        toolset: Some(pb::Toolset {
            name: name.to_owned(),
            include: include.iter().map(|&entry| entry.to_owned()).collect(),
            ..pb::Toolset::default()
        }),
    };
    registry.put_toolset(put("one", &["a", "b"])).await.unwrap();
    let status = registry
        .put_toolset(put("one", &["a", "b", "c"]))
        .await
        .unwrap_err();
    refused_by(&status, "toolset_entries_max", 2, 3);
    let copy = |target: &str, excluding: &[&str]| pb::CopyToolsetRequest {
        source: String::new(),
        target: target.to_owned(),
        excluding: excluding.iter().map(|&entry| entry.to_owned()).collect(),
    };
    let status = registry.copy_toolset(copy("two", &[])).await.unwrap_err();
    refused_by(&status, "toolset_entries_max", 2, 3);
    registry.copy_toolset(copy("two", &["c"])).await.unwrap();
    let status = registry.put_toolset(put("three", &[])).await.unwrap_err();
    refused_by(&status, "toolsets_max", 2, 3);
    let status = registry
        .copy_toolset(copy("three", &["c"]))
        .await
        .unwrap_err();
    refused_by(&status, "toolsets_max", 2, 3);
}

#[tokio::test]
async fn tool_lists_have_a_number() {
    let setup = Setup::default().set("limits.tool_snapshots_max", 1);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let list = async || {
        let request = pb::ListToolsRequest::default();
        let listed = orchestrator
            .registry
            .clone()
            .list_tools(request)
            .await
            .unwrap();
        listed.into_inner().tool_snapshot_id
    };
    let older = list().await;
    executor
        .say(Word::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: vec![tools::write()],
            remove: Vec::new(),
        }))
        .await;
    executor.has_no_work().await;
    let newer = list().await;
    assert_ne!(older, newer);
    let of = |snapshot: &str| pb::RunTurnRequest {
        tool_snapshot_id: snapshot.to_owned(),
        ..turn("t", [call("c", "echo", "{}")])
    };
    assert_eq!(
        code(&orchestrator.refused(of(&older)).await),
        "snapshot_expired"
    );
    let mut events = orchestrator.run(of(&newer)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
}
