//! Answers of hooks that are no good, or beyond a limit: whose fault that is, and what it costs.

use callgate_client::pb::v1 as pb;
use pb::BeforeAction::{Ask, Deny, Proceed};
use pb::HookPoint::{AfterToolCall, BeforeToolCall};
use pb::connect_hook_request::Body as Word;
use pb::connect_hook_response::Body as Heard;
use pb::hook_verdict::Verdict;
use prost::Message;

use crate::support::executor::text_result;
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{failure, set_up, tools};

/// One call in a run of its own: several of them are no loop.
fn echoing(id: &str) -> pb::RunTurnRequest {
    pb::RunTurnRequest {
        run_id: id.to_owned(),
        ..turn(id, [call("c", "echo", r#"{"text":"x"}"#)])
    }
}

#[tokio::test]
async fn blank_arguments_of_a_hook_are_no_arguments_but_a_failure() {
    use pb::HookFailureMode as Mode;
    let setup = Setup::default().set("approvals.approvers", "none");
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let modes = [
        (Mode::Deny, "hook_failed"),
        (Mode::Ask, "approval_unavailable"),
        (Mode::Ignore, ""),
    ];
    for (mode, expected) in modes {
        let wanted = pb::HookRegistration {
            on_failure: mode as i32,
            ..registration("one", &[BeforeToolCall])
        };
        let mut hook = HookProcess::join(&sidecar, hello("i", [wanted])).await;
        for (number, blank) in [" ", "\t\r\n  "].into_iter().enumerate() {
            let mut events = orchestrator
                .run(echoing(&format!("{mode:?}{number}")))
                .await;
            let verdict = pb::BeforeVerdict {
                modified_args_json: blank.into(),
                ..before(Proceed)
            };
            hook.says(verdict).await;
            if expected.is_empty() {
                // As if the hook had said nothing: with the model's own arguments.
                let work = executor.work().await;
                assert_eq!(work.arguments_json, r#"{"text":"x"}"#);
                executor.answer_text(&work, "done").await;
            }
            assert_eq!(code_of(&events.completed().await, "c"), expected);
        }
        hook.leave().await;
    }
    let mut hook = HookProcess::join(
        &sidecar,
        hello("i", [registration("one", &[BeforeToolCall])]),
    )
    .await;
    // Where new arguments do not count, blank ones do not either.
    let mut events = orchestrator.run(echoing("denied")).await;
    let verdict = pb::BeforeVerdict {
        modified_args_json: " ".into(),
        ..before(Deny)
    };
    hook.says(verdict).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_hook");
    let mut events = orchestrator.run(echoing("asked")).await;
    let verdict = pb::BeforeVerdict {
        modified_args_json: "{}".into(),
        ..before(Ask)
    };
    hook.says(verdict).await;
    let completed = events.completed().await;
    assert_ne!(code_of(&completed, "c"), "hook_failed");
}

fn replaced(result: pb::ToolResult) -> Option<Verdict> {
    Some(Verdict::After(pb::AfterVerdict {
        action: pb::AfterAction::Proceed as i32,
        modified_result: Some(result),
        ..pb::AfterVerdict::default()
    }))
}

#[tokio::test]
async fn a_broken_result_of_a_hook_is_its_failure_and_not_the_tools() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let broken = || {
        let result = text_result("polished");
        [
            pb::ToolResult {
                structured_json: "{".into(),
                ..result.clone()
            },
            pb::ToolResult {
                metadata_json: "[1,]".into(),
                ..result
            },
        ]
    };
    for withholds in [false, true] {
        let wanted = pb::HookRegistration {
            withhold_on_failure: withholds,
            ..registration("one", &[AfterToolCall])
        };
        let mut hook = HookProcess::join(&sidecar, hello("i", [wanted])).await;
        for (number, result) in broken().into_iter().enumerate() {
            let mut events = orchestrator
                .run(echoing(&format!("{withholds}{number}")))
                .await;
            let work = executor.work().await;
            executor.answer_text(&work, "raw").await;
            let asked = hook.asked().await;
            hook.answer(&asked, replaced(result)).await;
            let completed = events.completed().await;
            let result = result_of(&completed, "c");
            match withholds {
                true => assert_eq!(code_of(&completed, "c"), "hook_failed"),
                false => assert_eq!(
                    (text_of(result), result.is_error),
                    ("raw".to_owned(), false)
                ),
            }
        }
        hook.leave().await;
    }
}

fn picture(bytes: usize) -> pb::ToolResult {
    pb::ToolResult {
        contents: vec![pb::ContentPart {
            content: Some(pb::content_part::Content::Image(pb::Media {
                data: vec![0; bytes - "image/png".len()].into(),
                mime_type: "image/png".to_owned(),
            })),
        }],
        ..pb::ToolResult::default()
    }
}

/// What is told of a result, but for what differs from call to call.
fn told(result: &pb::CallResult) -> (String, bool, Option<u64>, Vec<pb::ContentPart>) {
    let code = result.error.as_ref().map(|error| error.code.clone());
    (
        code.unwrap_or_default(),
        result.truncated,
        result.original_bytes,
        result.contents.clone(),
    )
}

#[tokio::test]
async fn a_result_of_a_hook_may_be_as_large_as_a_tools_and_no_larger() {
    let setup = Setup::default().set("limits.result_bytes_max", 1_000);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let cases = [
        (text_result(&"x".repeat(1_000)), "", None),
        (text_result(&"x".repeat(1_001)), "", Some(1_001)),
        (picture(1_000), "", None),
        (picture(1_001), "result_too_large", None),
    ];
    for (number, (result, code, cut_from)) in cases.into_iter().enumerate() {
        let mut events = orchestrator.run(echoing(&format!("own{number}"))).await;
        let work = executor.work().await;
        executor.answer(&work.execution, result.clone()).await;
        let completed = events.completed().await;
        let own = told(result_of(&completed, "c"));
        assert_eq!((own.0.as_str(), own.2), (code, cut_from));
        // In the tool's place after the call, and before it.
        let after = registration("after", &[AfterToolCall]);
        let mut hook = HookProcess::join(&sidecar, hello("i", [after])).await;
        let mut events = orchestrator.run(echoing(&format!("after{number}"))).await;
        let work = executor.work().await;
        executor.answer_text(&work, "raw").await;
        let asked = hook.asked().await;
        hook.answer(&asked, replaced(result.clone())).await;
        let completed = events.completed().await;
        assert_eq!(told(result_of(&completed, "c")), own);
        hook.leave().await;
        let first = registration("before", &[BeforeToolCall]);
        let mut hook = HookProcess::join(&sidecar, hello("i", [first])).await;
        let mut events = orchestrator.run(echoing(&format!("before{number}"))).await;
        let verdict = pb::BeforeVerdict {
            synthetic_result: Some(result),
            ..before(Deny)
        };
        hook.says(verdict).await;
        let completed = events.completed().await;
        assert_eq!(told(result_of(&completed, "c")), own);
        hook.leave().await;
    }
    // An error without a name is the denial's, unless it is too large.
    let first = registration("before", &[BeforeToolCall]);
    let mut hook = HookProcess::join(&sidecar, hello("i", [first])).await;
    for (bytes, code) in [(1_000, "tool_denied_by_hook"), (1_001, "result_too_large")] {
        let mut events = orchestrator.run(echoing(&format!("error{bytes}"))).await;
        let verdict = pb::BeforeVerdict {
            synthetic_result: Some(pb::ToolResult {
                is_error: true,
                ..picture(bytes)
            }),
            ..before(Deny)
        };
        hook.says(verdict).await;
        assert_eq!(code_of(&events.completed().await, "c"), code);
    }
}

/// An answer in a message of just that size.
fn sized(question: &pb::HookInvocation, bytes: usize) -> Word {
    let word = |context: usize| {
        Word::Verdict(pb::HookVerdict {
            invocation_id: question.invocation_id.clone(),
            verdict: Some(Verdict::Before(pb::BeforeVerdict {
                additional_context: "x".repeat(context),
                ..before(Proceed)
            })),
        })
    };
    let size_of = |word: &Word| {
        let body = Some(word.clone());
        pb::ConnectHookRequest { body }.encoded_len()
    };
    let around = size_of(&word(bytes)) - bytes;
    let word = word(bytes - around);
    assert_eq!(size_of(&word), bytes);
    word
}

#[tokio::test]
async fn an_answer_that_is_too_large_costs_its_own_question_only() {
    let setup = Setup::default().set("limits.message_bytes_max", 100_000);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let before_calls = registration("one", &[BeforeToolCall]);
    let mut hook = HookProcess::join(&sidecar, hello("i", [before_calls])).await;
    let mut turns = Vec::new();
    for id in ["at", "above", "far", "beside"] {
        turns.push(orchestrator.run(echoing(id)).await);
    }
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(hook.asked().await);
    }
    let mut answered = async |at: usize, bytes: usize| {
        let id = ["at", "above", "far", "beside"][at];
        let question = asked.iter().find(|asked| asked.turn_id == id).unwrap();
        hook.say(sized(question, bytes)).await;
        let fits = bytes <= 100_000;
        if fits {
            let work = executor.work().await;
            executor.answer_text(&work, "done").await;
        }
        let completed = turns[at].completed().await;
        let expected = if fits { "" } else { "hook_failed" };
        assert_eq!(code_of(&completed, "c"), expected, "{bytes}");
    };
    answered(1, 100_001).await;
    answered(2, 400_000).await;
    answered(0, 100_000).await;
    // Of what is larger still nothing is read: every question of the stream fails.
    let question = asked.iter().find(|asked| asked.turn_id == "beside");
    hook.say(sized(question.unwrap(), 400_001)).await;
    let completed = turns[3].completed().await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    let end = loop {
        if let Err(end) = hook.hear().await {
            break end;
        }
    };
    assert_eq!(failure::code(&end.unwrap()), "limit_exceeded");
}

#[tokio::test]
async fn any_other_word_that_is_too_large_ends_the_stream() {
    let setup = Setup::default().set("limits.message_bytes_max", 100_000);
    let sidecar = setup.start().await;
    let mut process = HookProcess::open(&sidecar).await;
    let large = hello(&"i".repeat(100_001), []);
    process.say(Word::Hello(large)).await;
    let end = process.hear().await.unwrap_err();
    assert_eq!(failure::code(&end.unwrap()), "limit_exceeded");
    let mut process = HookProcess::join(&sidecar, hello("i", [])).await;
    process
        .say(Word::NeedMoreTime(pb::NeedMoreTime {
            invocation_id: "i".repeat(100_001),
            extra_ms: 1,
        }))
        .await;
    let end = loop {
        if let Err(end) = process.hear().await {
            break end;
        }
    };
    assert_eq!(failure::code(&end.unwrap()), "limit_exceeded");
}

#[tokio::test]
async fn an_answer_after_its_time_is_told_to_be_late_once() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let quick = pb::HookRegistration {
        timeout_ms: Some(1),
        on_failure: pb::HookFailureMode::Ignore as i32,
        ..registration("one", &[BeforeToolCall])
    };
    let mut hook = HookProcess::join(&sidecar, hello("i", [quick])).await;
    let mut events = orchestrator.run(echoing("t")).await;
    let asked = hook.asked().await;
    // Nobody answers: its time is over once the call has gone on.
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    events.completed().await;
    let Heard::InvocationCancelled(cancelled) = hook.hear().await.unwrap() else {
        panic!("the question is not taken back");
    };
    assert_eq!(cancelled.invocation_id, asked.invocation_id);
    let late = Some(Verdict::Before(before(Deny)));
    for code in ["verdict_late", "invocation_unknown"] {
        hook.answer(&asked, late.clone()).await;
        let Heard::Notice(notice) = hook.hear().await.unwrap() else {
            panic!("no notice");
        };
        assert_eq!(
            (notice.code.as_str(), &notice.about),
            (code, &asked.invocation_id)
        );
    }
    // Nor is it late for what it was never asked.
    let unknown = pb::HookInvocation {
        invocation_id: "none".to_owned(),
        ..asked
    };
    hook.answer(&unknown, late).await;
    let Heard::Notice(notice) = hook.hear().await.unwrap() else {
        panic!("no notice");
    };
    assert_eq!(notice.code, "invocation_unknown");
}
