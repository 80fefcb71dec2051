//! What is shown of rules: their sources, their places, whether they count.
//!
//! Never about what a rule matches.

use callgate_client::pb::v1 as pb;
use pb::{PermissionEffect, RuleSource, RuleState};
use serde_json::json;
use tonic::Code;

use super::{control, get, list, policy, refusal, refused, source, spec, texts, with_file};
use crate::rules::write;
use crate::support::sidecar::home;
use crate::support::soon;

#[tokio::test]
async fn sources_are_shown_with_paths_for_administrators_only() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let rules = json!({ "allow": ["run_shell(git *)", "echo("], "deny": ["delete_*"] });
    let setup = with_file(&file, &rules)
        .set("permissions.workspace", dir.path().display())
        .set("permissions.ask", "[\"echo\"]");
    let sidecar = setup.start().await;
    let shown = get(&mut policy(&sidecar).await).await;
    let sources: Vec<RuleSource> = shown.sources.iter().map(|own| own.source()).collect();
    let expected = [
        RuleSource::PolicySettings,
        RuleSource::UserSettings,
        RuleSource::ProjectSettings,
        RuleSource::LocalSettings,
        RuleSource::FlagSettings,
        RuleSource::CliArg,
    ];
    assert_eq!(sources, expected);
    assert_eq!(
        (shown.policy_revision, shown.max_mode()),
        (1, pb::Mode::Auto)
    );
    let flag = source(&shown, RuleSource::FlagSettings);
    assert_eq!((flag.rule_count, flag.stale), (2, false));
    assert!(flag.loaded_at_ms > 0);
    assert_eq!(flag.origin, "settings.json");
    let invalid: Vec<_> = flag.problems.iter().filter(|own| !own.warning).collect();
    assert_eq!(invalid.len(), 1, "{flag:?}");
    assert_eq!(
        (
            invalid[0].code.as_str(),
            invalid[0].rule.as_str(),
            invalid[0].origin.as_str()
        ),
        ("rule_unclosed", "echo(", "settings.json, rule 2")
    );
    assert_eq!(source(&shown, RuleSource::CliArg).rule_count, 1);
    let project = source(&shown, RuleSource::ProjectSettings);
    assert_eq!((project.trusted, project.loaded_at_ms), (false, 0));
    // The whole path is for those who may change the file.
    let shown = get(&mut control(&sidecar).await).await;
    let flag = source(&shown, RuleSource::FlagSettings);
    assert_eq!(flag.origin, file.display().to_string());
    let rules = list(
        &mut control(&sidecar).await,
        pb::ListRulesRequest::default(),
    )
    .await;
    assert!(rules.rules[0].origin.starts_with(&flag.origin), "{rules:?}");
    let rules = list(&mut policy(&sidecar).await, pb::ListRulesRequest::default()).await;
    assert_eq!(rules.rules[0].origin, "settings.json, rule 1");
}

#[tokio::test]
async fn rules_come_in_pages_and_keep_their_ids_over_a_restart() {
    let dir = home();
    let file = dir.path().join("settings.json");
    write(
        &dir.path().join(".callgate/settings.json"),
        &json!({ "allow": ["waits"] }),
    );
    let rules = json!({
        "deny": ["a", {"rule": "b", "message": "no", "matches": ["x"], "modes": ["plan"]}],
        "allow": ["c(", {"rule": "d", "expires": "2001-01-01"}, "a"],
    });
    let setup = || {
        with_file(&file, &rules)
            .set("permissions.workspace", dir.path().display())
            .set("permissions.ask", "[\"e\"]")
    };
    let sidecar = setup().start().await;
    let whole = list(&mut policy(&sidecar).await, pb::ListRulesRequest::default()).await;
    assert_eq!(whole.next_page_token, "");
    let told: Vec<(String, RuleSource, RuleState)> = whole
        .rules
        .iter()
        .map(|rule| (rule.spec.clone().unwrap().rule, rule.source(), rule.state()))
        .collect();
    let expected = [
        ("waits", RuleSource::ProjectSettings, RuleState::Untrusted),
        ("c(", RuleSource::FlagSettings, RuleState::Invalid),
        ("d", RuleSource::FlagSettings, RuleState::Expired),
        ("a", RuleSource::FlagSettings, RuleState::Active),
        ("a", RuleSource::FlagSettings, RuleState::Active),
        ("b", RuleSource::FlagSettings, RuleState::Active),
        ("e", RuleSource::CliArg, RuleState::Active),
    ];
    let expected = expected.map(|(text, source, state)| (text.to_owned(), source, state));
    assert_eq!(told, expected);
    let b = whole.rules[5].spec.clone().unwrap();
    let expected = pb::RuleSpec {
        message: "no".to_owned(),
        matches: vec!["x".to_owned()],
        modes: vec![pb::Mode::Plan as i32],
        ..spec(PermissionEffect::Deny, "b")
    };
    assert_eq!(b, expected);
    let unreachable: Vec<&str> = whole.rules[3]
        .problems
        .iter()
        .map(|problem| problem.code.as_str())
        .collect();
    assert_eq!(unreachable, ["rule_unreachable"]);
    let mut ids: Vec<String> = whole
        .rules
        .iter()
        .map(|rule| rule.rule_id.clone())
        .collect();
    let mut paged = Vec::new();
    let mut request = pb::ListRulesRequest {
        page_size: 3,
        ..pb::ListRulesRequest::default()
    };
    loop {
        let page = list(&mut policy(&sidecar).await, request.clone()).await;
        assert!(page.rules.len() <= 3);
        paged.extend(page.rules.into_iter().map(|rule| rule.rule_id));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(paged, ids);
    let sidecar = sidecar.crash_and_restart(setup()).await;
    let again = list(&mut policy(&sidecar).await, pb::ListRulesRequest::default()).await;
    let again: Vec<String> = again.rules.into_iter().map(|rule| rule.rule_id).collect();
    assert_eq!(again, ids);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 7, "each its own");
}

#[tokio::test]
async fn rules_are_listed_by_source_effect_and_state() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let rules = json!({ "deny": ["a"], "allow": ["b", "c("] });
    let setup = with_file(&file, &rules).set("permissions.ask", "[\"d\"]");
    let sidecar = setup.start().await;
    let mut policy = policy(&sidecar).await;
    let base = pb::ListRulesRequest::default;
    let cases = [
        (
            pb::ListRulesRequest {
                sources: vec![RuleSource::CliArg as i32, RuleSource::Command as i32],
                ..base()
            },
            vec!["d"],
        ),
        (
            pb::ListRulesRequest {
                effect: PermissionEffect::Allow as i32,
                ..base()
            },
            vec!["b", "c("],
        ),
        (
            pb::ListRulesRequest {
                state: RuleState::Invalid as i32,
                ..base()
            },
            vec!["c("],
        ),
        (
            pb::ListRulesRequest {
                sources: vec![RuleSource::Session as i32],
                session_id: "s".to_owned(),
                ..base()
            },
            vec![],
        ),
        (
            pb::ListRulesRequest {
                page_size: 1_000,
                session_id: "s".to_owned(),
                ..base()
            },
            vec!["a", "b", "c(", "d"],
        ),
    ];
    for (request, expected) in cases {
        let answer = list(&mut policy, request.clone()).await;
        let mut found = texts(&answer);
        found.sort();
        assert_eq!(found, expected, "{request:?}");
    }
    let wrong = [
        (
            pb::ListRulesRequest {
                page_size: 1_001,
                ..base()
            },
            "page_size",
        ),
        (
            pb::ListRulesRequest {
                page_token: "soon".to_owned(),
                ..base()
            },
            "page_token",
        ),
        (
            pb::ListRulesRequest {
                sources: vec![RuleSource::Session as i32],
                ..base()
            },
            "session_id",
        ),
        (
            pb::ListRulesRequest {
                sources: vec![0],
                ..base()
            },
            "sources[0]",
        ),
        (
            pb::ListRulesRequest {
                state: 99,
                ..base()
            },
            "state",
        ),
    ];
    for (request, field) in wrong {
        let answered = soon("a refusal", policy.list_rules(request)).await;
        let expected = refused(Code::InvalidArgument, "invalid_request", field);
        assert_eq!(refusal(answered), expected);
    }
}
