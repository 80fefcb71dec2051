//! Signatures and runs whose answers are data.
//!
//! Never holds a case itself: those are in `tests/vectors/loops.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::ids::{CallIndex, ToolName};
use callgate::gate::json::{Document, JsonLimits};
use callgate::gate::loop_detector::{
    DiagnosisSettings, LoopCheck, LoopSettings, LoopWindow, ResultMark, Round, Signature,
};
use callgate::gate::registry::Registry;
use callgate::gate::result::{CallEffect, CallOutcome, CallResult, CallTiming, Content};
use callgate::gate::tool::{Tool, ToolDefinition};
use serde::Deserialize;

use crate::turn_machine::tools::{definition, register};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    signatures: Vec<Pair>,
    runs: Vec<Run>,
}

/// Arguments of two calls of one tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    name: String,
    one: String,
    other: String,
    /// What of the arguments counts. Empty: all.
    #[serde(default)]
    keys: Vec<String>,
    same: bool,
    #[serde(default, rename = "known_as")]
    _known_as: String,
}

/// What a model called turn by turn: `word`, or `id:word`, or `word=result`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    turns: Vec<String>,
    repeat: Option<u32>,
    cycle_repeat: Option<u32>,
    cycle_length_max: Option<u32>,
    #[serde(default)]
    check: LoopCheck,
    #[serde(default)]
    compare_results: bool,
    #[serde(rename = "loop")]
    expected: Option<Expected>,
    #[serde(default, rename = "known_as")]
    _known_as: String,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Expected {
    turn: u32,
    detector: String,
    period: u32,
    repetitions: u32,
    calls: Vec<u16>,
}

fn vectors() -> Vectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/loops.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn tool(change: impl FnOnce(&mut ToolDefinition)) -> Arc<Tool> {
    let mut registry = Registry::default();
    let mut definition = definition("tool");
    change(&mut definition);
    register(&mut registry, "vectors", vec![definition]);
    let tool = registry.get(&ToolName::trusted("tool"));
    tool.unwrap().clone()
}

fn signature(name: &str, tool: &Tool, text: &str) -> Option<Signature> {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    match Document::parse_object(&bytes, &JsonLimits::default()) {
        Ok(document) => Signature::of_call(name, Some(tool), &document, None),
        Err(_) => Signature::of_raw(name, Some(tool), &bytes),
    }
}

#[test]
fn calls_are_the_same_as_the_vectors_say() {
    let vectors = vectors();
    for pair in &vectors.signatures {
        let tool = tool(|tool| tool.loop_key.clone_from(&pair.keys));
        let sign = |text: &str| signature("tool", &tool, text).unwrap();
        let same = sign(&pair.one) == sign(&pair.other);
        assert_eq!(same, pair.same, "{}", pair.name);
    }
    assert!(vectors.signatures.len() >= 20);
}

#[test]
fn the_same_arguments_of_another_tool_are_another_call() {
    let tool = tool(|_| {});
    assert_ne!(
        signature("read", &tool, "{}"),
        signature("reads", &tool, "{}")
    );
}

#[test]
fn a_digest_that_is_known_already_changes_no_signature() {
    let tool = tool(|_| {});
    for text in ["{\"b\":1,\"a\":2}", "{\"n\":100}", "{\"n\":1.50}"] {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let document = Document::parse_object(&bytes, &JsonLimits::default()).unwrap();
        let dispatch = document.dispatch_form();
        let digest = callgate::gate::result::Digest::of(&dispatch);
        let known = Some((&dispatch, &digest));
        assert_eq!(
            Signature::of_call("tool", Some(&tool), &document, known),
            Signature::of_call("tool", Some(&tool), &document, None),
            "{text}"
        );
    }
}

fn mark(text: &str) -> ResultMark {
    ResultMark::of(&CallResult {
        call_id: callgate::gate::ids::CallId::trusted("any"),
        tool: ToolName::trusted("tool"),
        outcome: CallOutcome::Success,
        stop_flag: false,
        error: None,
        contents: vec![Content::Text(text.to_owned())],
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
    })
}

/// The calls of one turn, and their results by position.
fn round_of(number: u32, words: &str) -> (Round, BTreeMap<CallIndex, ResultMark>) {
    let plain = tool(|_| {});
    let exempt = tool(|tool| tool.loop_exempt = true);
    let (mut round, mut results) = (Round::new(number), BTreeMap::new());
    let mut ids: Vec<&str> = Vec::new();
    for (place, word) in words.split_whitespace().enumerate() {
        let (word, result) = match word.split_once('=') {
            Some((word, result)) => (word, Some(result)),
            None => (word, None),
        };
        let (id, word) = word.split_once(':').unwrap_or(("", word));
        // A call without an id is another one each time.
        let position = match ids.iter().position(|known| !id.is_empty() && *known == id) {
            Some(known) => known,
            None => {
                ids.push(id);
                ids.len() - 1
            }
        };
        assert!(place >= position);
        let tool = if word == "exempt" { &exempt } else { &plain };
        let call = CallIndex(u16::try_from(position).unwrap());
        let arguments = format!("{{\"word\":\"{word}\"}}");
        if let Some(signature) = signature("tool", tool, &arguments) {
            round.observe(call, signature);
        }
        results.extend(result.map(|result| (call, mark(result))));
    }
    (round, results)
}

fn settings(run: &Run) -> LoopSettings {
    let defaults = LoopSettings::default();
    LoopSettings {
        repeat: run.repeat.unwrap_or(defaults.repeat),
        cycle_repeat: run.cycle_repeat.unwrap_or(defaults.cycle_repeat),
        cycle_length_max: run.cycle_length_max.unwrap_or(defaults.cycle_length_max),
        check: run.check,
        compare_results: run.compare_results,
        diagnosis: DiagnosisSettings::default(),
    }
}

/// Plays a run to its loop. `restart`: the window is made anew from all turns before each verdict.
fn play(run: &Run, restart: bool) -> Option<Expected> {
    let settings = settings(run);
    let mut window = LoopWindow::default();
    let mut past: Vec<Round> = Vec::new();
    for (words, number) in run.turns.iter().zip(1..) {
        let (mut round, results) = round_of(number, words);
        if restart {
            window = LoopWindow::default();
            // The newest first and some of them twice, as they come.
            for round in past.iter().rev().chain(&past) {
                window.put(round.clone(), &settings);
            }
        }
        let mut with_results = round.clone();
        for step in &mut with_results.steps {
            step.result = results.get(&step.call).copied();
        }
        if run.check == LoopCheck::AfterResults {
            round = with_results.clone();
        }
        // What a turn itself left in the window does not count twice.
        window.put(round.clone(), &settings);
        if let Some(found) = window.judge(&round, &settings) {
            return Some(Expected {
                turn: number,
                detector: found.detector.as_str().to_owned(),
                period: found.period,
                repetitions: found.repetitions,
                calls: found.calls.iter().map(|call| call.0).collect(),
            });
        }
        window.put(with_results.clone(), &settings);
        past.push(with_results);
        assert!(
            window.steps() <= settings.window_steps() + 64,
            "{}",
            run.name
        );
    }
    None
}

#[test]
fn runs_are_loops_as_the_vectors_say() {
    for run in &vectors().runs {
        assert_eq!(play(run, false), run.expected, "{}", run.name);
    }
}

#[test]
fn a_window_that_is_made_anew_says_the_same() {
    for run in &vectors().runs {
        assert_eq!(play(run, true), run.expected, "{}", run.name);
    }
}

#[test]
fn a_window_holds_what_a_verdict_needs_and_no_more() {
    let settings = LoopSettings::default();
    let mut window = LoopWindow::default();
    for number in 1..=1_000 {
        let (round, _) = round_of(number, &format!("a{number} b{number} b{number} exempt"));
        window.put(round, &settings);
        assert!(window.steps() <= settings.window_steps() + 1, "{number}");
    }
    assert_eq!(window.steps(), 26);
    assert!(!window.has(987) && window.has(988));
}
