//! Files that are read at once, and workspaces that are trusted.
//!
//! Never about what a rule matches.

use callgate_client::pb::v1 as pb;
use pb::{PermissionEffect, RuleSource};
use serde_json::json;
use tonic::Code;

use super::{about, control, explain, get, list, refusal, refused, source, texts, with_file};
use crate::rules::{shell, write};
use crate::support::executor::{Executor, hello};
use crate::support::failure::detail;
use crate::support::sidecar::{Setup, home};
use crate::support::soon;

#[tokio::test]
async fn a_reload_holds_at_once_and_a_broken_rule_leaves_the_last_good_ones() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let sidecar = with_file(&file, &json!({ "deny": ["a"] })).start().await;
    let mut control = control(&sidecar).await;
    let reload = pb::ReloadPolicyRequest {};
    write(&file, &json!({ "deny": ["b"], "allow": ["c("] }));
    let answered = soon("a reload", control.reload_policy(reload)).await;
    let answer = answered.unwrap().into_inner();
    assert!(answer.policy_revision > 1);
    let codes: Vec<&str> = answer
        .problems
        .iter()
        .map(|own| own.code.as_str())
        .collect();
    assert_eq!(codes, ["rule_unclosed"]);
    let listed = list(&mut control, pb::ListRulesRequest::default()).await;
    assert_eq!(texts(&listed), ["c(", "b"]);
    for (text, code) in [
        (r#"{"permissions":{"deny":["d("]}}"#, "rule_unclosed"),
        ("{", "settings_json_invalid"),
    ] {
        std::fs::write(&file, text).unwrap();
        let answered = soon("a reload", control.reload_policy(reload)).await;
        let status = answered.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let detail = detail(&status);
        assert_eq!(detail.code, "rule_invalid");
        assert_eq!(detail.violations[0].code, code);
        let shown = get(&mut control).await;
        let flag = source(&shown, RuleSource::FlagSettings);
        assert_eq!((flag.stale, flag.rule_count), (true, 1), "{code}");
        assert_eq!(flag.problems[0].code, code);
        let listed = list(&mut control, pb::ListRulesRequest::default()).await;
        assert_eq!(texts(&listed), ["c(", "b"]);
    }
    write(&file, &json!({ "deny": ["e"] }));
    soon("a reload", control.reload_policy(reload))
        .await
        .unwrap();
    let flag = source(&get(&mut control).await, RuleSource::FlagSettings);
    assert!(!flag.stale && flag.problems.is_empty(), "{flag:?}");
}

#[tokio::test]
async fn a_workspace_is_trusted_at_once_and_distrusted_at_once() {
    let workspace = home();
    write(
        &workspace.path().join(".callgate/settings.json"),
        &json!({ "allow": ["run_shell(git *)"] }),
    );
    let setup = Setup::default().set("permissions.workspace", workspace.path().display());
    let sidecar = setup.start().await;
    let _executor = Executor::join(&sidecar, hello("box", [shell()])).await;
    let mut control = control(&sidecar).await;
    let git = || about("run_shell(git log)");
    for (trusted, effect) in [
        (true, PermissionEffect::Allow),
        (false, PermissionEffect::Ask),
    ] {
        let before = explain(&mut control, git()).await.verdict.unwrap();
        let request = pb::SetWorkspaceTrustRequest {
            workspace: workspace.path().display().to_string(),
            trusted,
        };
        let answered = soon("the trust", control.set_workspace_trust(request)).await;
        let revision = answered.unwrap().into_inner().policy_revision;
        let after = explain(&mut control, git()).await.verdict.unwrap();
        assert_eq!((after.effect(), after.policy_revision), (effect, revision));
        assert!(before.policy_revision < revision);
        let project = source(&get(&mut control).await, RuleSource::ProjectSettings);
        assert_eq!(project.trusted, trusted);
    }
    let gone = workspace.path().join("gone").display().to_string();
    let long = format!("/{}", "x".repeat(4_096));
    let at_limit = format!("/{}", "x".repeat(4_095));
    for (path, expected) in [
        (gone, refused(Code::NotFound, "not_found", "")),
        (at_limit, refused(Code::NotFound, "not_found", "")),
        (
            long,
            refused(Code::InvalidArgument, "limit_exceeded", "workspace"),
        ),
        (
            "here".to_owned(),
            refused(Code::InvalidArgument, "invalid_request", "workspace"),
        ),
    ] {
        let request = pb::SetWorkspaceTrustRequest {
            workspace: path,
            trusted: true,
        };
        let answered = soon("a refusal", control.set_workspace_trust(request)).await;
        assert_eq!(refusal(answered), expected);
    }
}

#[tokio::test]
async fn trust_is_taken_back_from_a_workspace_that_is_gone() {
    let dir = home();
    let workspace = dir.path().join("w");
    std::fs::create_dir(&workspace).unwrap();
    let setup = Setup::default().set("permissions.workspace", workspace.display());
    let sidecar = setup.start().await;
    let mut control = control(&sidecar).await;
    for (trusted, is_there) in [(true, true), (false, false)] {
        if !is_there {
            std::fs::remove_dir(&workspace).unwrap();
        }
        let request = pb::SetWorkspaceTrustRequest {
            workspace: workspace.display().to_string(),
            trusted,
        };
        let answered = soon("the trust", control.set_workspace_trust(request)).await;
        answered.unwrap();
    }
    std::fs::create_dir(&workspace).unwrap();
    let reload = control.reload_policy(pb::ReloadPolicyRequest {});
    soon("a reload", reload).await.unwrap();
    let project = source(&get(&mut control).await, RuleSource::ProjectSettings);
    assert!(!project.trusted);
}
