//! Rules that are checked and not loaded.
//!
//! Never about what a rule matches.

use callgate_client::pb::v1 as pb;
use pb::{PermissionEffect, RuleSource};
use tonic::Code;

use super::{list, policy, refusal, refused, spec, texts};
use crate::support::sidecar::Sidecar;
use crate::support::soon;

#[tokio::test]
async fn rules_are_checked_and_not_loaded() {
    let sidecar = Sidecar::start().await;
    let mut policy = policy(&sidecar).await;
    let mut check = async |request: pb::CheckRulesRequest| {
        let answered = soon("a check", policy.check_rules(request)).await;
        let answer = answered.unwrap().into_inner();
        let problems = answer.problems.iter().map(|problem| {
            let kind = if problem.warning { "warning" } else { "error" };
            format!("{kind} {} {}", problem.code, problem.origin)
        });
        (answer.ok, answer.rule_count, problems.collect::<Vec<_>>())
    };
    let text = |text: &str| pb::CheckRulesRequest {
        rules_json: text.to_owned().into(),
        ..pb::CheckRulesRequest::default()
    };
    let found = check(text(
        r#"{"permissions":{"allow":["a", "b(", "run(bash *)"],
            "ask":[{"rule":"c(git *)","matches":["git log"],"not_matches":["ls"]}]}}"#,
    ))
    .await;
    let problems = [
        "error rule_unclosed permissions.allow[1]",
        "warning rule_prefix_too_wide permissions.allow[2]",
    ];
    assert_eq!(found, (true, 3, problems.map(str::to_owned).to_vec()));
    let found = check(text(
        r#"{"permissions":{"deny":["a", {"rule":"c(git *)","matches":["ls"]}]}}"#,
    ))
    .await;
    let problems = vec!["error rule_example_fails permissions.deny[1]".to_owned()];
    assert_eq!(found, (false, 0, problems));
    let found = check(text("{")).await;
    let problems = vec!["error settings_json_invalid rules_json".to_owned()];
    assert_eq!(found, (false, 0, problems));
    // The highest mode is the administrator's to set.
    let highest = r#"{"max_mode":"plan"}"#;
    assert!(!check(text(highest)).await.0);
    let of_policy = pb::CheckRulesRequest {
        source: RuleSource::PolicySettings as i32,
        ..text(highest)
    };
    assert!(check(of_policy).await.0);
    // One by one, each is named by its place in the request.
    let rules = vec![
        spec(PermissionEffect::Deny, "a"),
        spec(PermissionEffect::Allow, "b"),
        pb::RuleSpec {
            not_matches: vec!["git log".to_owned()],
            ..spec(PermissionEffect::Deny, "run(git *)")
        },
    ];
    let found = check(pb::CheckRulesRequest {
        rules,
        ..pb::CheckRulesRequest::default()
    })
    .await;
    let problems = vec!["error rule_example_fails rules[2]".to_owned()];
    assert_eq!(found, (false, 0, problems));
    let listed = list(&mut policy, pb::ListRulesRequest::default()).await;
    assert_eq!(texts(&listed), Vec::<String>::new());
}

#[tokio::test]
async fn rules_to_check_have_bounds() {
    let sidecar = Sidecar::start().await;
    let mut policy = policy(&sidecar).await;
    let of_text = |bytes: usize| {
        let head = r#"{"permissions":{}"#;
        pb::CheckRulesRequest {
            rules_json: format!("{head}{}}}", " ".repeat(bytes - head.len() - 1)).into(),
            ..pb::CheckRulesRequest::default()
        }
    };
    let of_rules = |rules: Vec<pb::RuleSpec>| pb::CheckRulesRequest {
        rules,
        ..pb::CheckRulesRequest::default()
    };
    let rule = || spec(PermissionEffect::Deny, "a");
    let long = |bytes: usize| {
        let text = format!("a({})", "b".repeat(bytes - 3));
        vec![spec(PermissionEffect::Deny, &text)]
    };
    let examples = |count: usize| vec!["x".to_owned(); count];
    let matches = |count| {
        vec![pb::RuleSpec {
            matches: examples(count),
            ..rule()
        }]
    };
    let not_matches = |count| {
        vec![pb::RuleSpec {
            not_matches: examples(count),
            ..spec(PermissionEffect::Deny, "a(b)")
        }]
    };
    let cases = [
        (of_text(3 << 20), of_text((3 << 20) + 1), "rules_json"),
        (
            of_rules(vec![rule(); 1_000]),
            of_rules(vec![rule(); 1_001]),
            "rules",
        ),
        (
            of_rules(long(1_024)),
            of_rules(long(1_025)),
            "rules[0].rule",
        ),
        (
            of_rules(matches(32)),
            of_rules(matches(33)),
            "rules[0].matches",
        ),
        (
            of_rules(not_matches(32)),
            of_rules(not_matches(33)),
            "rules[0].not_matches",
        ),
    ];
    for (at, above, field) in cases {
        let answered = soon("a check", policy.check_rules(at)).await.unwrap();
        assert!(answered.into_inner().ok, "{field}");
        let answered = soon("a refusal", policy.check_rules(above)).await;
        let expected = refused(Code::InvalidArgument, "limit_exceeded", field);
        assert_eq!(refusal(answered), expected);
    }
    let both = pb::CheckRulesRequest {
        rules: vec![rule()],
        ..of_text(100)
    };
    let unset = vec![spec(PermissionEffect::Unspecified, "a")];
    let wrong = [
        (both, "rules_json"),
        (pb::CheckRulesRequest::default(), "rules_json"),
        (of_rules(unset), "rules[0].effect"),
    ];
    for (request, field) in wrong {
        let answered = soon("a refusal", policy.check_rules(request)).await;
        let expected = refused(Code::InvalidArgument, "invalid_request", field);
        assert_eq!(refusal(answered), expected);
    }
}
