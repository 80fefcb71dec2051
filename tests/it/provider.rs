//! Providers' messages in, results and tool lists out.
//!
//! Cases that other languages share stand in `tests/vectors/openai_chat.json`. Never talks to a
//! provider.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::ids::{CallId, OwnerName, ToolName, UnixMillis};
use callgate::gate::limits::Limits;
use callgate::gate::provider::ProviderFormat;
use callgate::gate::refusal::{CallError, ErrorLayer};
use callgate::gate::registry::Registry;
use callgate::gate::result::{
    CallEffect, CallOutcome, CallResult, CallTiming, Content, Media, Resource, ResourceBody,
    ResourceLink,
};
use callgate::gate::schema::SchemaDialect;
use callgate::gate::snapshot::ToolSnapshot;
use callgate::gate::tool::{SharedTool, ToolDefinition};
use serde::Deserialize;
use serde_json::Value;

use crate::turn_machine::tools::{definition, register, rules};

const FORMAT: ProviderFormat = ProviderFormat::OpenAiChat;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    read: Vec<Read>,
    write: Vec<Write>,
    export: Vec<Export>,
}

/// A message, and its calls or why there are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    name: String,
    message: Option<Value>,
    /// The message as text, where its writing matters.
    message_text: Option<String>,
    #[serde(default)]
    finish_reason: String,
    calls: Option<Vec<Call>>,
    error: Option<Problem>,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    #[serde(default)]
    truncated: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Problem {
    path: String,
    problem: Option<String>,
}

/// Results, and the messages to append.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    name: String,
    results: Vec<Given>,
    messages: Vec<Value>,
    #[serde(default)]
    losses: Vec<Loss>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    id: String,
    #[serde(default)]
    contents: Vec<Part>,
    #[serde(default)]
    structured: String,
    error: Option<GivenError>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Part {
    Text {
        text: String,
    },
    Json {
        json: String,
    },
    /// A picture of that type.
    Image {
        image: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenError {
    code: String,
    message: String,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Loss {
    id: String,
    path: String,
    keyword: String,
}

/// Tools in order, the names that the model sees, and the list that it gets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    name: String,
    tools: Vec<Tool>,
    names: Vec<String>,
    tools_json: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    description: Option<String>,
    #[serde(default)]
    parameters: String,
}

fn vectors() -> Vectors {
    let text = std::fs::read("tests/vectors/openai_chat.json").unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn messages_are_read_as_their_vectors_say() {
    for case in vectors().read {
        let name = &case.name;
        let text = match (&case.message, &case.message_text) {
            (Some(message), None) => message.to_string(),
            (None, Some(text)) => text.clone(),
            _ => panic!("{name}: a message or its text"),
        };
        let read = FORMAT.read_calls(&Bytes::from(text), &case.finish_reason);
        match (read, &case.calls, &case.error) {
            (Ok(calls), Some(expected), None) => {
                let calls: Vec<_> = calls
                    .into_iter()
                    .map(|call| Call {
                        id: call.call_id.to_string(),
                        name: call.name.to_string(),
                        arguments: String::from_utf8(call.arguments.to_vec()).unwrap(),
                        truncated: call.truncated,
                    })
                    .collect();
                assert_eq!(calls, *expected, "{name}");
            }
            (Err(error), None, Some(expected)) => {
                assert_eq!(error.path, expected.path, "{name}");
                if let Some(problem) = &expected.problem {
                    assert_eq!(error.problem, *problem, "{name}");
                }
            }
            (read, ..) => panic!("{name}: {read:?}"),
        }
    }
}

fn result(given: &Given) -> CallResult {
    let contents = given.contents.iter().map(|part| match part {
        Part::Text { text } => Content::Text(text.as_str().into()),
        Part::Json { json } => Content::Json(Bytes::from(json.clone())),
        Part::Image { image } => Content::Image(Media {
            data: Bytes::from_static(b"\0"),
            mime_type: image.clone(),
        }),
    });
    CallResult {
        outcome: match given.error {
            None => CallOutcome::Success,
            Some(_) => CallOutcome::Error,
        },
        error: given.error.as_ref().map(|error| CallError {
            code: Cow::Owned(error.code.clone()),
            layer: ErrorLayer::Tool,
            message_for_model: error.message.clone(),
            detail: "not for the model".to_owned(),
            path: String::new(),
            retryable: false,
            retry_after_ms: None,
        }),
        structured: Bytes::from(given.structured.clone()),
        metadata: Bytes::from_static(b"{\"not\":\"for the model\"}"),
        ..plain(&given.id, contents.collect())
    }
}

fn plain(id: &str, contents: Vec<Content>) -> CallResult {
    CallResult {
        call_id: CallId::trusted(id),
        tool: ToolName::trusted("tool"),
        outcome: CallOutcome::Success,
        stop_flag: false,
        error: None,
        contents,
        structured: Bytes::new(),
        metadata: Bytes::new(),
        not_executed: None,
        effect: CallEffect::Executed,
        cut_from_bytes: None,
        sanitised: false,
        attempts: 1,
        timing: CallTiming::default(),
        approval: None,
        arguments_digest: None,
        hooks: None,
    }
}

#[test]
fn results_are_written_as_their_vectors_say() {
    for case in vectors().write {
        let results: Vec<_> = case.results.iter().map(result).collect();
        let appended = FORMAT.write_results(results.iter());
        let messages: Vec<Value> = appended
            .messages_json
            .iter()
            .map(|text| serde_json::from_slice(text).unwrap())
            .collect();
        assert_eq!(messages, case.messages, "{}", case.name);
        let losses: Vec<_> = appended
            .losses
            .iter()
            .map(|loss| Loss {
                id: loss.call_id.to_string(),
                path: loss.path.clone(),
                keyword: loss.keyword.to_owned(),
            })
            .collect();
        assert_eq!(losses, case.losses, "{}", case.name);
    }
}

#[test]
fn what_the_form_cannot_hold_leaves_a_line_and_a_loss_each() {
    let media = Media {
        data: Bytes::from_static(b"\0"),
        mime_type: "audio/wav".to_owned(),
    };
    let contents = vec![
        Content::Audio(media),
        Content::Resource(Resource {
            uri: "file:///a".to_owned(),
            mime_type: String::new(),
            body: ResourceBody::Text("never shown".to_owned()),
        }),
        Content::ResourceLink(ResourceLink {
            uri: "file:///b".to_owned(),
            name: "b".to_owned(),
            title: String::new(),
            description: String::new(),
            mime_type: String::new(),
            size_bytes: None,
        }),
    ];
    let appended = FORMAT.write_results([plain("a", contents)].iter());
    let message: Value = serde_json::from_slice(&appended.messages_json[0]).unwrap();
    assert_eq!(
        message["content"],
        "[audio audio/wav]\n[resource file:///a]\n[link b: file:///b]"
    );
    let keywords: Vec<_> = appended.losses.iter().map(|loss| loss.keyword).collect();
    assert_eq!(keywords, ["audio", "resource", "resource_link"]);
}

/// The tools, registered and in the order given.
fn tools(given: &[Tool]) -> Vec<SharedTool> {
    let mut registry = Registry::default();
    let limits = Limits {
        tool_name_bytes_max: 128,
        ..Limits::default()
    };
    let definitions = given.iter().map(|tool| {
        let plain = definition(&tool.name);
        ToolDefinition {
            description: tool
                .description
                .clone()
                .unwrap_or(plain.description.clone()),
            parameters: Bytes::from(tool.parameters.clone()),
            dialect: SchemaDialect::JsonSchema202012,
            ..plain
        }
    });
    let owner = OwnerName::trusted("a");
    registry.register(
        &owner,
        definitions.collect(),
        UnixMillis(1),
        &rules(),
        &limits,
        &|_| true,
    );
    let tool = |tool: &Tool| {
        registry
            .get(&ToolName::trusted(tool.name.as_str()))
            .unwrap()
            .clone()
    };
    given.iter().map(tool).collect()
}

#[test]
fn tool_lists_are_exported_as_their_vectors_say() {
    for case in vectors().export {
        let export = FORMAT.export_tools(&tools(&case.tools));
        let names: Vec<_> = export.names.iter().map(ToolName::as_str).collect();
        assert_eq!(names, case.names, "{}", case.name);
        let list: Vec<Value> = serde_json::from_slice(&export.tools_json).unwrap();
        let listed: Vec<_> = list
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(listed, case.names, "{}", case.name);
        if let Some(text) = &case.tools_json {
            assert_eq!(export.tools_json, text.as_bytes(), "{}", case.name);
        }
    }
}

fn snapshot(registry: &Registry) -> ToolSnapshot {
    let tools: Vec<SharedTool> = registry.iter().cloned().collect();
    let names = FORMAT.export_tools(&tools).names;
    ToolSnapshot::new(names.into_iter().zip(tools))
}

#[test]
fn equal_lists_have_the_same_snapshot_and_others_do_not() {
    let mut registry = Registry::default();
    register(
        &mut registry,
        "a",
        vec![definition("fs.read"), definition("weather")],
    );
    let first = snapshot(&registry);
    // Another process, another order, another owner: the list is the same.
    let mut other = Registry::default();
    register(
        &mut other,
        "b",
        vec![definition("weather"), definition("fs.read")],
    );
    assert_eq!(snapshot(&other).id, first.id);
    register(&mut other, "b", vec![definition("more")]);
    assert_ne!(snapshot(&other).id, first.id);
    let changed = ToolDefinition {
        description: "changed".to_owned(),
        ..definition("weather")
    };
    register(&mut registry, "a", vec![changed]);
    assert_ne!(snapshot(&registry).id, first.id);
}

#[test]
fn aliases_resolve_by_table_only() {
    let mut registry = Registry::default();
    register(
        &mut registry,
        "a",
        vec![definition("fs.read"), definition("fs_read")],
    );
    let snapshot = snapshot(&registry);
    let resolve = |name: &str| {
        let seen = snapshot.resolve(&ToolName::trusted(name));
        seen.map(|seen| seen.tool.to_string())
    };
    assert_eq!(resolve("fs_read_2").as_deref(), Some("fs.read"));
    assert_eq!(resolve("fs_read").as_deref(), Some("fs_read"));
    assert_eq!(resolve("fs.read"), None);
}

#[test]
fn a_shared_result_is_written_like_its_value() {
    let shared = Arc::new(plain("a", vec![Content::Text("one".into())]));
    let appended = FORMAT.write_results([shared].iter().map(AsRef::as_ref));
    assert_eq!(
        appended.messages_json,
        ["{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"one\"}"]
    );
}
