//! What is said of the hooks before a call that nobody makes.
//!
//! Never about which calls a hook means.

use callgate_client::pb::v1 as pb;
use pb::{BeforeAction, DecisionStage, HookPoint, PermissionEffect};
use serde_json::Value;

use super::command_line::callgate;
use super::{about, about_call, explain, policy};
use crate::rules::{command, connect};
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{code_of, turn};
use crate::support::sidecar::Setup;

const HOOKS: &str = r#"[
    { id = "reminder", order = 2, tools = ["echo"], then = { context = "be brief" } },
    { id = "default", order = 1, tools = ["echo"],
      then = { set_default_argument = { pointer = "/text", value_json = "\"hello\"" } } },
    { id = "no-push", order = 3, rules = ["run_shell(git push *)"], then = "deny",
      reason = "pushing is for people" },
    { id = "lets", order = 4, tools = ["run_shell"], then = "allow" } ]"#;

fn set_up() -> Setup {
    let setup = Setup::default().set("hooks.builtin", HOOKS.replace('\n', " "));
    setup.set("hooks.allow_covers_dangerous", true)
}

fn guard(order: u32) -> pb::HookHello {
    let guard = pb::HookRegistration {
        order,
        ..registration("guard", &[HookPoint::BeforeToolCall])
    };
    let watches = pb::HookRegistration {
        observe: true,
        ..registration("watches", &[HookPoint::BeforeToolCall])
    };
    let after = registration("after", &[HookPoint::AfterToolCall]);
    hello("i", [guard, watches, after])
}

#[tokio::test]
async fn built_in_hooks_answer_and_processes_are_named_and_not_asked() {
    let sidecar = set_up().start().await;
    let (_executor, orchestrator) = connect(&sidecar).await;
    let mut process = HookProcess::join(&sidecar, guard(9)).await;
    let mut policy = policy(&sidecar).await;
    let denied = explain(&mut policy, about("run_shell(git log; git push origin)")).await;
    let verdict = denied.verdict.clone().unwrap();
    assert_eq!(
        (verdict.effect(), verdict.stage(), verdict.hook_id.as_str()),
        (PermissionEffect::Deny, DecisionStage::Hook, "no-push")
    );
    let expected = pb::ExplainedHook {
        hook_id: "no-push".to_owned(),
        action: BeforeAction::Deny as i32,
        reason_for_user: "pushing is for people".to_owned(),
        ..pb::ExplainedHook::default()
    };
    assert_eq!(denied.hooks, [expected]);
    // Behind a denial nobody is asked.
    assert_eq!(denied.hooks_not_asked, Vec::<String>::new());
    // The same as a model would make it.
    let call = about_call("run_shell", r#"{"command":"git log; git push origin"}"#);
    assert_eq!(explain(&mut policy, call).await.hooks, denied.hooks);
    let allowed = explain(&mut policy, about("run_shell(make)")).await;
    let verdict = allowed.verdict.clone().unwrap();
    assert_eq!(
        (verdict.effect(), verdict.stage(), verdict.hook_id.as_str()),
        (PermissionEffect::Allow, DecisionStage::Hook, "lets")
    );
    assert_eq!(allowed.hooks.len(), 1);
    assert_eq!(allowed.hooks_not_asked, ["guard"]);
    let rewritten = explain(&mut policy, about_call("echo", "{}")).await;
    let said: Vec<_> = rewritten
        .hooks
        .iter()
        .map(|hook| {
            let arguments = String::from_utf8(hook.modified_args_json.to_vec()).unwrap();
            (
                hook.hook_id.as_str(),
                arguments,
                hook.additional_context.as_str(),
            )
        })
        .collect();
    let expected = [
        ("default", r#"{"text":"hello"}"#.to_owned(), ""),
        ("reminder", String::new(), "be brief"),
    ];
    assert_eq!(said, expected);
    // What is made is decided as it was explained, and the first question comes with it.
    let made = turn("t", [command("c", "git push origin"), command("d", "make")]);
    let mut events = orchestrator.run(made).await;
    let asked = loop {
        let asked = process.asked().await;
        if asked.hook_id == "guard" {
            break asked;
        }
        assert_eq!(asked.turn_id, "t");
    };
    assert_eq!(asked.turn_id, "t");
    let verdict = pb::hook_verdict::Verdict::Before(before(BeforeAction::Deny));
    process.answer(&asked, Some(verdict)).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_hook");
}

#[tokio::test]
async fn the_command_line_tells_of_hooks_beside_a_sidecar_and_without_one() {
    let sidecar = set_up().start().await;
    let (_executor, _orchestrator) = connect(&sidecar).await;
    let _process = HookProcess::join(&sidecar, guard(0)).await;
    let push = "run_shell(git push origin)";
    let hooks = format!("hooks.builtin={}", HOOKS.replace('\n', " "));
    let online = ["explain", push];
    let offline = [
        "explain",
        "--offline",
        "--set",
        &hooks,
        "--set",
        "hooks.required=[\"guard\"]",
        push,
    ];
    for arguments in [&online[..], &offline[..]] {
        let (out, notes, code) = callgate(&sidecar, arguments).await;
        assert_eq!(code, Some(0), "{notes}");
        for line in [
            "deny, by ",
            "  hook `no-push` says deny: pushing is for people\n",
            "  hook `guard` is a process: it would be asked, and was not\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
        let (out, _, _) = callgate(&sidecar, &[arguments, &["--json"]].concat()).await;
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["decided_by"]["hook"], "no-push");
        assert_eq!(told["hooks"][0]["hook"], "no-push");
        assert_eq!(told["hooks"][0]["action"], "deny");
        assert_eq!(told["hooks_not_asked"], serde_json::json!(["guard"]));
        let mut of_another = arguments.to_vec();
        of_another.pop();
        of_another.push("run_shell(ls)");
        let (out, notes, _) = callgate(&sidecar, &of_another).await;
        assert!(!out.contains("no-push"), "{out}{notes}");
    }
}
