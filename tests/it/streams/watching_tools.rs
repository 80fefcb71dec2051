//! The stream of those who watch the tools.
//!
//! Never runs a turn.

use callgate_client::pb::v1 as pb;
use tokio_stream::StreamExt;

use crate::support::sidecar::Setup;
use crate::support::{set_up, soon, tools};

#[tokio::test]
async fn tools_are_watched_as_they_come_change_and_go() {
    let (_sidecar, executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let request = pb::WatchToolsRequest::default();
    let mut registry = orchestrator.registry.clone();
    let mut watch = soon("the watch", registry.watch_tools(request))
        .await
        .unwrap()
        .into_inner();
    let names = |message: &pb::WatchToolsResponse| -> Vec<String> {
        let tools = message.tools.iter();
        tools
            .map(|tool| tool.definition.as_ref().unwrap().name.clone())
            .collect()
    };
    let first = soon("the tools", watch.next()).await.unwrap().unwrap();
    assert_eq!(names(&first), ["echo"]);
    let mut complete = first.snapshot_complete;
    executor
        .say(pb::connect_request::Body::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: vec![tools::write()],
            remove: vec!["echo".to_owned()],
        }))
        .await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let message = soon("a change", watch.next()).await.unwrap().unwrap();
        complete |= message.snapshot_complete;
        for tool in message.tools {
            seen.push((tool.definition.unwrap().name, tool.state));
        }
    }
    seen.sort();
    let expected = [
        ("echo".to_owned(), pb::ToolState::Removed as i32),
        ("write".to_owned(), pb::ToolState::Active as i32),
    ];
    assert_eq!(seen, expected);
    assert!(complete);
}
