//! What a hook process may send, at each limit and one above.

use callgate_client::pb::v1 as pb;
use pb::HookPoint::{AfterToolCall, BeforeToolCall};
use pb::connect_hook_request::Body as Word;
use pb::hook_verdict::Verdict;

use crate::support::failure;
use crate::support::hook::{HookProcess, hello, registration};
use crate::support::orchestrator::{call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

async fn refused(sidecar: &Sidecar, word: Word) -> String {
    let mut process = HookProcess::open(sidecar).await;
    process.say(word).await;
    loop {
        match process.hear().await {
            Ok(_) => {}
            Err(status) => return failure::code(&status.unwrap()),
        }
    }
}

#[tokio::test]
async fn sixty_four_hooks_are_taken_and_sixty_five_are_not() {
    let sidecar = Sidecar::start().await;
    let hooks = |count: usize| {
        let ids = (0..count).map(|number| format!("hook-{number}"));
        hello("i", ids.map(|id| registration(&id, &[BeforeToolCall])))
    };
    let welcome = HookProcess::join(&sidecar, hooks(64)).await.welcome;
    assert!(welcome.registered.iter().all(|one| one.error.is_none()));
    let code = refused(&sidecar, Word::Hello(hooks(65))).await;
    assert_eq!(code, "limit_exceeded");
}

#[tokio::test]
async fn words_of_hooks_take_a_quarter_of_a_message_and_no_more() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let after = [registration("one", &[AfterToolCall])];
    let mut hook = HookProcess::join(&sidecar, hello("i", after)).await;
    let view = pb::TurnView {
        max_message_bytes: 256 * 1_024,
        ..pb::TurnView::default()
    };
    let request = pb::RunTurnRequest {
        view: Some(view),
        ..turn("t", [call("c", "echo", "{}")])
    };
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    executor.answer_text(&work, &"x".repeat(200_000)).await;
    let asked = hook.asked().await;
    let message = pb::InjectedMessage {
        text: "y".repeat(10_000),
        ..pb::InjectedMessage::default()
    };
    let verdict = pb::AfterVerdict {
        action: pb::AfterAction::Proceed as i32,
        injected_messages: vec![message; 16],
        ..pb::AfterVerdict::default()
    };
    hook.answer(&asked, Some(Verdict::After(verdict))).await;
    let completed = events.completed().await;
    assert_eq!(completed.injected_messages.len(), 6);
    let told = &completed.additional_contexts[0].text;
    assert!(told.contains("10 texts of hooks are left out"), "{told}");
    assert!(completed.results[0].truncated);
    assert!(prost::Message::encoded_len(&completed) < 256 * 1_024);
}

#[tokio::test]
async fn what_a_registration_may_hold() {
    let sidecar = Sidecar::start().await;
    let own = |change: fn(&mut pb::HookRegistration)| {
        let mut wanted = registration("one", &[BeforeToolCall]);
        change(&mut wanted);
        wanted
    };
    let matching = |change: fn(&mut pb::HookMatcher)| {
        let mut matcher = pb::HookMatcher::default();
        change(&mut matcher);
        pb::HookRegistration {
            matcher: Some(matcher),
            ..registration("one", &[BeforeToolCall])
        }
    };
    let rows = [
        (own(|_| {}), ""),
        (own(|hook| hook.timeout_ms = Some(0)), "invalid_request"),
        (own(|hook| hook.timeout_ms = Some(1)), ""),
        (own(|hook| hook.timeout_ms = Some(600_000)), ""),
        (
            own(|hook| hook.timeout_ms = Some(600_001)),
            "invalid_request",
        ),
        (own(|hook| hook.description = "x".repeat(1 << 10)), ""),
        (
            own(|hook| hook.description = "x".repeat(1025)),
            "invalid_request",
        ),
        (own(|hook| hook.hook_id = "x".repeat(128)), ""),
        (
            own(|hook| hook.hook_id = "x".repeat(129)),
            "invalid_request",
        ),
        (own(|hook| hook.points.clear()), "invalid_request"),
        (own(|hook| hook.points = vec![99]), "invalid_request"),
        (matching(|on| on.tools = vec!["a".to_owned(); 256]), ""),
        (
            matching(|on| on.tools = vec!["a".to_owned(); 257]),
            "invalid_request",
        ),
        (
            matching(|on| on.rules = vec!["a(".to_owned()]),
            "rule_invalid",
        ),
        (matching(|on| on.kinds = vec![0]), "invalid_request"),
        (matching(|on| on.risk_levels = vec![77]), "invalid_request"),
        (
            matching(|on| on.argument_pointers = vec!["x".to_owned()]),
            "invalid_request",
        ),
    ];
    for (wanted, expected) in rows {
        let shown = format!("{wanted:?}");
        let process = HookProcess::join(&sidecar, hello("i", [wanted])).await;
        let error = process.welcome.registered[0].error.clone();
        let code = error.map(|error| error.detail.unwrap().code);
        assert_eq!(code.unwrap_or_default(), expected, "{shown}");
        process.leave().await;
    }
}

#[tokio::test]
async fn a_stream_begins_with_one_hello() {
    let sidecar = Sidecar::start().await;
    let ping = Word::Ping(pb::Ping { nonce: 1 });
    assert_eq!(refused(&sidecar, ping).await, "hello_required");
    let newer = pb::HookHello {
        protocol: Some(pb::ProtocolRange { min: 2, max: 3 }),
        ..hello("i", [])
    };
    let code = refused(&sidecar, Word::Hello(newer)).await;
    assert_eq!(code, "protocol_unsupported");
    for (bytes, expected) in [(64 * 1024 - 1, "invalid_request"), (64 * 1024, "")] {
        let small = pb::HookHello {
            max_message_bytes: bytes,
            ..hello("i", [])
        };
        if expected.is_empty() {
            HookProcess::join(&sidecar, small).await.leave().await;
        } else {
            assert_eq!(refused(&sidecar, Word::Hello(small)).await, expected);
        }
    }
    let process = HookProcess::join(&sidecar, hello("i", [])).await;
    process.say(Word::Hello(hello("i", []))).await;
    let mut process = process;
    let end = loop {
        if let Err(end) = process.hear().await {
            break end;
        }
    };
    assert_eq!(failure::code(&end.unwrap()), "protocol_violation");
}
