//! What becomes of a tool's result before anyone sees it.
//!
//! Cases that other languages share stand in `tests/vectors/results.json`. Never runs a turn.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::ids::{CallId, ToolName};
use callgate::gate::limits::Limits;
use callgate::gate::refusal::{CallError, ErrorLayer, RESERVED_CODES, is_executor_code};
use callgate::gate::result::{
    CallEffect, CallOutcome, CallResult, CallTiming, Content, Media, Resource, ResourceBody,
    ResourceLink, ToolResult, fit, settle,
};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    limits: Limits,
    result: Given,
    expect: Expect,
}

/// A result as a tool gives it. Absent: empty or false.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Given {
    contents: Vec<Part>,
    is_error: bool,
    stop_flag: bool,
    error: Option<GivenError>,
    structured: String,
    metadata: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenError {
    code: String,
    message: String,
    #[serde(default)]
    detail: String,
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
    Image {
        /// The bytes as they are.
        image: String,
        mime_type: String,
    },
}

/// A result as the model gets it. A code: the result is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Expect {
    code: Option<String>,
    message: Option<String>,
    detail: String,
    contents: Vec<Part>,
    stop_flag: bool,
    structured: String,
    metadata: String,
    cut_from_bytes: Option<u64>,
}

impl Part {
    fn read(&self) -> Content {
        match self {
            Part::Text { text } => Content::Text(text.clone()),
            Part::Json { json } => Content::Json(Bytes::from(json.clone())),
            Part::Image { image, mime_type } => Content::Image(Media {
                data: Bytes::from(image.clone()),
                mime_type: mime_type.clone(),
            }),
        }
    }
}

fn parts(parts: &[Part]) -> Vec<Content> {
    parts.iter().map(Part::read).collect()
}

impl Given {
    fn read(&self) -> ToolResult {
        ToolResult {
            contents: parts(&self.contents),
            is_error: self.is_error,
            stop_flag: self.stop_flag,
            error: self.error.as_ref().map(|error| CallError {
                code: Cow::Owned(error.code.clone()),
                layer: ErrorLayer::Store,
                message_for_model: error.message.clone(),
                detail: error.detail.clone(),
                path: String::new(),
                retryable: false,
                retry_after_ms: None,
            }),
            structured: Bytes::from(self.structured.clone()),
            metadata: Bytes::from(self.metadata.clone()),
            sanitised: false,
        }
    }
}

impl Case {
    fn check(&self) {
        let settled = settle(&ToolName::trusted("tool"), self.result.read(), &self.limits);
        let (result, expect, name) = (settled.result, &self.expect, &self.name);
        assert_eq!(result.contents, parts(&expect.contents), "{name}");
        assert_eq!(result.structured, expect.structured, "{name}");
        assert_eq!(result.metadata, expect.metadata, "{name}");
        assert_eq!(result.stop_flag, expect.stop_flag, "{name}");
        assert_eq!(settled.cut_from_bytes, expect.cut_from_bytes, "{name}");
        assert_eq!(result.is_error, expect.code.is_some(), "{name}");
        let error = result.error;
        assert_eq!(
            error.as_ref().map(|error| error.code.as_ref()),
            expect.code.as_deref(),
            "{name}"
        );
        if let (Some(error), Some(message)) = (&error, &expect.message) {
            assert_eq!(error.message_for_model, *message, "{name}");
        }
        if let Some(error) = error {
            assert_eq!(
                (error.layer, error.detail),
                (ErrorLayer::Tool, expect.detail.clone()),
                "{name}"
            );
        }
    }
}

#[test]
fn results_are_settled_as_their_vectors_say() {
    let text = std::fs::read("tests/vectors/results.json").unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&text).unwrap();
    cases.iter().for_each(Case::check);
}

#[test]
fn an_executor_may_send_no_code_of_ours_but_the_one_that_only_it_can_know() {
    let taken: Vec<_> = RESERVED_CODES
        .iter()
        .filter(|code| is_executor_code(code))
        .collect();
    assert_eq!(taken, [&"result_too_large"]);
    assert!(is_executor_code("own_code_2"));
}

/// Every part that cannot be cut, each of 100 bytes.
fn uncuttable() -> Vec<Content> {
    let data = |bytes| Bytes::from(vec![b'1'; bytes]);
    let media = |bytes| Media {
        data: data(bytes),
        mime_type: "image/png".to_owned(),
    };
    vec![
        Content::Json(data(100)),
        Content::Image(media(91)),
        Content::Audio(media(91)),
        Content::Resource(Resource {
            uri: "a://b".to_owned(),
            mime_type: "x/y".to_owned(),
            body: ResourceBody::Text("t".repeat(92)),
        }),
        Content::Resource(Resource {
            uri: "a://b".to_owned(),
            mime_type: "x/y".to_owned(),
            body: ResourceBody::Blob(data(92)),
        }),
        Content::ResourceLink(ResourceLink {
            uri: "u".repeat(20),
            name: "n".repeat(20),
            title: "t".repeat(20),
            description: "d".repeat(20),
            mime_type: "m".repeat(20),
            size_bytes: None,
        }),
    ]
}

#[test]
fn every_byte_of_a_part_counts() {
    for part in uncuttable() {
        assert_eq!(part.size_bytes(), 100, "{part:?}");
        let limits = |result_bytes_max| Limits {
            result_bytes_max,
            ..Limits::default()
        };
        let settled = |limit| {
            let result = ToolResult {
                contents: vec![part.clone()],
                ..ToolResult::default()
            };
            settle(&ToolName::trusted("tool"), result, &limits(limit))
                .result
                .is_error
        };
        assert!(!settled(100), "{part:?}");
        assert!(settled(99), "{part:?}");
    }
}

#[test]
fn an_errors_path_is_bounded_like_its_message() {
    let result = ToolResult {
        is_error: true,
        error: Some(CallError {
            code: Cow::Borrowed("own"),
            layer: ErrorLayer::Tool,
            message_for_model: "m".to_owned(),
            detail: String::new(),
            path: "$".repeat(10_000),
            retryable: false,
            retry_after_ms: None,
        }),
        ..ToolResult::default()
    };
    let settled = settle(&ToolName::trusted("tool"), result, &Limits::default());
    assert_eq!(settled.result.error.unwrap().path.len(), 4096);
}

fn call_result(contents: Vec<Content>, structured: usize, metadata: usize) -> Arc<CallResult> {
    Arc::new(CallResult {
        call_id: CallId::trusted("a"),
        tool: ToolName::trusted("tool"),
        outcome: CallOutcome::Success,
        stop_flag: false,
        error: None,
        contents,
        structured: Bytes::from(vec![b'1'; structured]),
        metadata: Bytes::from(vec![b'1'; metadata]),
        not_executed: None,
        effect: CallEffect::Executed,
        cut_from_bytes: None,
        sanitised: false,
        attempts: 1,
        timing: CallTiming::default(),
        approval: None,
        arguments_digest: None,
        hooks: None,
    })
}

fn size(result: &CallResult) -> usize {
    let contents: usize = result.contents.iter().map(Content::size_bytes).sum();
    let error = result.error.as_ref().map_or(0, |error| {
        error.message_for_model.len() + error.detail.len() + error.path.len()
    });
    contents + result.structured.len() + result.metadata.len() + error
}

fn text(bytes: usize) -> Content {
    Content::Text("x".repeat(bytes))
}

#[test]
fn results_that_fit_are_the_same() {
    let results = [
        call_result(vec![text(10)], 5, 5),
        call_result(vec![text(20)], 0, 0),
    ];
    assert_eq!(fit(&results, 40), results);
    assert_eq!(fit(&[], 0), []);
}

#[test]
fn the_largest_result_is_cut_first_and_says_so() {
    let results = [
        call_result(vec![text(10)], 0, 0),
        call_result(vec![text(50)], 0, 0),
    ];
    let fitted = fit(&results, 40);
    assert_eq!(fitted[0], results[0]);
    assert_eq!(fitted[1].contents, [text(30)]);
    assert_eq!(fitted[1].cut_from_bytes, Some(50));
}

#[test]
fn what_only_programs_read_goes_before_text() {
    let results = [call_result(vec![text(50)], 100, 0)];
    let fitted = fit(&results, 60);
    assert_eq!(fitted[0].contents, [text(50)]);
    assert!(fitted[0].structured.is_empty());
    assert_eq!(fitted[0].cut_from_bytes, Some(150));
}

#[test]
fn metadata_goes_as_a_whole_if_there_is_no_room_for_it() {
    let fitted = fit(&[call_result(vec![text(50)], 0, 100)], 40);
    assert!(fitted[0].metadata.is_empty());
    assert_eq!(size(&fitted[0]), 40);
    let fitted = fit(&[call_result(vec![text(50)], 0, 30)], 40);
    assert_eq!((fitted[0].metadata.len(), size(&fitted[0])), (30, 40));
}

#[test]
fn a_part_that_cannot_be_cut_gives_way_to_a_line() {
    for part in uncuttable() {
        let fitted = fit(&[call_result(vec![part, text(1)], 0, 0)], 50);
        assert_eq!(
            fitted[0].contents,
            [
                Content::Text("[100 bytes left out]".into()),
                Content::Text("".into())
            ]
        );
    }
}

#[test]
fn of_an_error_the_detail_goes_first_and_the_words_last() {
    let mut result = (*call_result(vec![text(50)], 0, 0)).clone();
    result.error = Some(CallError {
        code: Cow::Borrowed("own"),
        layer: ErrorLayer::Tool,
        message_for_model: "m".repeat(50),
        detail: "d".repeat(50),
        path: String::new(),
        retryable: false,
        retry_after_ms: None,
    });
    let fitted = |budget| {
        let fitted = fit(&[Arc::new(result.clone())], budget).remove(0);
        let error = fitted.error.clone().unwrap();
        let contents = fitted.contents[0].size_bytes();
        (error.detail.len(), contents, error.message_for_model.len())
    };
    assert_eq!(fitted(120), (20, 50, 50));
    assert_eq!(fitted(70), (0, 20, 50));
    assert_eq!(fitted(30), (0, 0, 30));
}

#[test]
fn the_size_before_the_first_cut_is_the_one_that_is_told() {
    let mut result = (*call_result(vec![text(50)], 0, 0)).clone();
    result.cut_from_bytes = Some(1_000);
    assert_eq!(fit(&[Arc::new(result)], 10)[0].cut_from_bytes, Some(1_000));
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        "[aé€😀]{0,40}".prop_map(Content::Text),
        (0_usize..200).prop_map(|bytes| Content::Json(Bytes::from(vec![b'1'; bytes]))),
        (0_usize..200).prop_map(|bytes| Content::Image(Media {
            data: Bytes::from(vec![0; bytes]),
            mime_type: "image/png".to_owned(),
        })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_does_not_fit_is_cut_to_the_budget_but_for_the_lines_that_say_so(
        shapes in prop::collection::vec((prop::collection::vec(content(), 0..6), 0_usize..200, 0_usize..200), 0..6),
        budget in 0_usize..1_500,
    ) {
        let results: Vec<_> = shapes
            .iter()
            .map(|(contents, structured, metadata)| call_result(contents.clone(), *structured, *metadata))
            .collect();
        let fitted = fit(&results, budget);
        prop_assert_eq!(fitted.len(), results.len());
        let parts: usize = results.iter().map(|result| result.contents.len()).sum();
        let total: usize = fitted.iter().map(|result| size(result)).sum();
        // A line says at most `[200 bytes left out]`; smaller parts stay.
        prop_assert!(total <= budget + parts * 21, "{} of {}", total, budget);
        for (before, after) in results.iter().zip(&fitted) {
            prop_assert_eq!(before.contents.len(), after.contents.len());
            prop_assert!(size(after) <= size(before));
        }
    }

    #[test]
    fn a_settled_result_is_within_its_limit_and_settling_it_again_changes_nothing(
        contents in prop::collection::vec("[aé€😀]{0,40}", 0..6),
        result_bytes_max in 1_u64..100,
    ) {
        let limits = Limits { result_bytes_max, ..Limits::default() };
        let tool = ToolName::trusted("tool");
        let result = ToolResult {
            contents: contents.iter().map(|text| Content::Text(text.as_str().into())).collect(),
            ..ToolResult::default()
        };
        let settled = settle(&tool, result, &limits).result;
        let total: usize = settled.contents.iter().map(Content::size_bytes).sum();
        prop_assert!(total as u64 <= result_bytes_max);
        prop_assert_eq!(settle(&tool, settled.clone(), &limits).result, settled);
    }
}
