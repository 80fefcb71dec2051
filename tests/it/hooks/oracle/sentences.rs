//! The oracle itself, held to the sentences that it reads.
//!
//! Never drives the product.

use super::cases::{CELLS, cases, failing, plain, quiet};
use super::words::{Behaviour::*, *};
use super::{denied, expect};

const RUNS: Outcome = Outcome::Runs;
const WAITS: Outcome = Outcome::Waits;

// Of an edit that default mode would ask about.
fn hooks(first: Behaviour, second: Behaviour) -> Case {
    plain(
        quiet(first),
        quiet(second),
        Mode::Default,
        Kind::Edit,
        Risk::Sensitive,
    )
}
fn hook(first: Behaviour) -> Case {
    hooks(first, Absent)
}
fn fails(first: Behaviour, how: OnFailure) -> Case {
    Case {
        first: failing(first, how),
        ..hook(Absent)
    }
}
fn auto(case: Case) -> Case {
    Case {
        mode: Mode::Auto,
        ..case
    }
}
fn dangerous(case: Case) -> Case {
    Case {
        risk: Risk::Dangerous,
        kind: Kind::Execute,
        ..case
    }
}
fn plan_read(case: Case) -> Case {
    Case {
        mode: Mode::Plan,
        kind: Kind::Read,
        ..case
    }
}
fn rule(rule: Rule, case: Case) -> Case {
    Case {
        rule_of_original: rule,
        ..case
    }
}
fn check(check: Check, case: Case) -> Case {
    Case { check, ..case }
}
fn lonely(case: Case) -> Case {
    Case {
        approver: Approver::None,
        ..case
    }
}
fn skip(case: Case) -> Case {
    Case {
        skip_permission: true,
        ..case
    }
}

fn says(sentence: &str, case: Case, outcome: Outcome) {
    assert_eq!(expect(case).outcome, outcome, "{sentence}: {case:?}");
}

#[test]
fn decisions_before_have_their_effects() {
    says("PROCEED: no opinion", auto(hook(Proceed)), RUNS);
    says(
        "ALLOW satisfies an ask that comes from mode",
        hook(Allow),
        RUNS,
    );
    says(
        "ALLOW satisfies an ask that comes from the tool's check",
        check(Check::Ask, hook(Allow)),
        RUNS,
    );
    says(
        "ALLOW never beats a deny rule",
        rule(Rule::Deny, hook(Allow)),
        denied("tool_denied_by_rule"),
    );
    says(
        "ALLOW never beats an ask rule",
        rule(Rule::Ask, hook(Allow)),
        WAITS,
    );
    says(
        "ALLOW never beats a dangerous tool",
        dangerous(hook(Allow)),
        WAITS,
    );
    let covered = Case {
        allow_covers_dangerous: true,
        ..dangerous(hook(Allow))
    };
    says(
        "(hooks.allow_covers_dangerous, default false)",
        covered,
        RUNS,
    );
    says("ASK forces approval", auto(hook(Ask)), WAITS);
    says(
        "hook verdicts hold in every mode, auto included",
        auto(hook(Deny)),
        denied("tool_denied_by_hook"),
    );
    says("DEFER parks the call", auto(hook(Defer)), WAITS);
    says(
        "DEFER parks the call durably even when no approver is attached",
        lonely(hook(Defer)),
        WAITS,
    );
    says(
        "ABORT: the run ends run_aborted",
        hook(Abort),
        Outcome::RunAborted,
    );
    says(
        "ABORT: nothing of the batch runs",
        rule(Rule::Allow, hooks(Allow, Abort)),
        Outcome::RunAborted,
    );
}

#[test]
fn later_hooks_tighten_and_never_loosen() {
    says("later hooks may tighten", hooks(Allow, Ask), WAITS);
    says("later hooks may tighten", auto(hooks(Allow, Defer)), WAITS);
    says(
        "later hooks may tighten",
        hooks(Allow, Deny),
        denied("tool_denied_by_hook"),
    );
    says(
        "but never loosen (ASK > ALLOW)",
        auto(hooks(Ask, Allow)),
        WAITS,
    );
    says("(ALLOW > PROCEED)", hooks(Allow, Proceed), RUNS);
}

#[test]
fn chain_stops_where_it_must() {
    let asked = |case| (expect(case).first_asked, expect(case).second_asked);
    for first in [Abort, Deny, Defer, Timeout, Gone] {
        assert_eq!(
            asked(hooks(first, Allow)),
            (true, false),
            "ABORT, DENY, DEFER stop the chain at once"
        );
    }
    assert_eq!(
        asked(hooks(Ask, Allow)),
        (true, true),
        "ALLOW and ASK do not"
    );
    assert_eq!(
        asked(hooks(Absent, Proceed)),
        (false, true),
        "strictly serial in order"
    );
}

#[test]
fn rewrites_flow_and_are_checked_again() {
    let arguments = |case| expect(case).arguments;
    let invalid = denied("hook_modified_args_invalid");
    assert_eq!(
        arguments(hooks(Rewrite, Allow)),
        Some(Arguments::RewrittenByFirst),
        "a rewrite flows to the next hook"
    );
    assert_eq!(
        arguments(hooks(Rewrite, RewriteAllow)),
        Some(Arguments::RewrittenBySecond),
        "whole replacement"
    );
    assert_eq!(
        arguments(hooks(Proceed, Ask)),
        Some(Arguments::Original),
        "no opinion"
    );
    assert_eq!(arguments(hooks(Rewrite, Deny)), None, "not executed");
    says(
        "re-validated; hook_modified_args_invalid if it fails",
        auto(hook(RewriteInvalid)),
        invalid,
    );
    says(
        "never the old arguments instead",
        fails(RewriteInvalid, OnFailure::Ignore),
        invalid,
    );
    says(
        "Validation comes before a human is asked",
        hooks(RewriteInvalid, Ask),
        invalid,
    );
    says(
        "a rewrite may mend it",
        auto(hooks(RewriteInvalid, Rewrite)),
        RUNS,
    );
    let broken = |case| Case {
        original_fits: false,
        ..case
    };
    says(
        "a failing call gets its structured error",
        broken(hook(Ask)),
        denied("tool_argument_required"),
    );
    says("a rewrite may mend it", auto(broken(hook(Rewrite))), RUNS);
    let escaped = Case {
        rule_of_rewritten: Rule::Deny,
        ..auto(hook(Rewrite))
    };
    says(
        "B again on the effective arguments; F permission",
        escaped,
        denied("tool_denied_by_rule"),
    );
}

#[test]
fn failures_count_as_on_failure_says() {
    says(
        "on_failure = deny, with a distinct code",
        fails(Timeout, OnFailure::Deny),
        denied("hook_timeout"),
    );
    says(
        "A hook that fails: a distinct code",
        fails(Crash, OnFailure::Deny),
        denied("hook_failed"),
    );
    says(
        "or answers nonsense",
        fails(Garbage, OnFailure::Deny),
        denied("hook_failed"),
    );
    says(
        "hooks.required count as failed while absent",
        fails(Gone, OnFailure::Deny),
        denied("hook_unavailable"),
    );
    says(
        "on_failure = ask",
        auto(fails(Timeout, OnFailure::Ask)),
        WAITS,
    );
    says(
        "on_failure = ignore",
        auto(fails(Gone, OnFailure::Ignore)),
        RUNS,
    );
}

#[test]
fn permission_stages_come_in_order() {
    says(
        "Deny rules hold in every mode, auto included",
        auto(rule(Rule::Deny, hook(Absent))),
        denied("tool_denied_by_rule"),
    );
    says(
        "ask rules hold in every mode, auto included",
        auto(rule(Rule::Ask, hook(Absent))),
        WAITS,
    );
    says(
        "allow lifts an ordinary ask",
        rule(Rule::Allow, hook(Absent)),
        RUNS,
    );
    let plan_edit = Case {
        mode: Mode::Plan,
        ..hook(Ask)
    };
    says(
        "kind edit | deny in plan; only an ordinary ask is lifted",
        rule(Rule::Allow, plan_edit),
        denied("tool_denied_by_mode"),
    );
    says(
        "its deny is final",
        auto(rule(Rule::Allow, check(Check::Deny, hook(Allow)))),
        Outcome::Denied { code: None },
    );
    says(
        "ask_firm no allow lifts",
        auto(rule(Rule::Allow, check(Check::AskFirm, hook(Allow)))),
        WAITS,
    );
    says(
        "its allow counts as passthrough",
        check(Check::Allow, hook(Absent)),
        WAITS,
    );
    let trusted = Case {
        executor_trusted: true,
        ..check(Check::Allow, hook(Absent))
    };
    says("unless the config trusts that executor", trusted, RUNS);
    says("and never for dangerous tools", dangerous(trusted), WAITS);
    says(
        "Every stage may only tighten",
        auto(check(Check::Ask, hook(Absent))),
        WAITS,
    );
    says(
        "ask becomes deny approval_unavailable",
        lonely(hook(Absent)),
        denied("approval_unavailable"),
    );
}

#[test]
fn mode_table_is_read_top_down() {
    // Row by row as in section 7: r runs, w waits, d is denied.
    let want = "d dwwr rrrr wrr wwwr dwwr"
        .split_whitespace()
        .flat_map(str::chars);
    for ((mode, kind, risk), letter) in CELLS.into_iter().zip(want) {
        let outcome = match letter {
            'r' => RUNS,
            'w' => WAITS,
            _ => denied("tool_denied_by_mode"),
        };
        says(
            "Read top down, the first row that fits",
            Case {
                mode,
                kind,
                risk,
                ..hook(Proceed)
            },
            outcome,
        );
    }
}

#[test]
fn skip_permission_has_its_limits() {
    says(
        "lifts an ask that comes from mode or risk",
        skip(hook(Absent)),
        RUNS,
    );
    says(
        "never for a dangerous tool",
        skip(dangerous(hook(Absent))),
        WAITS,
    );
    says("never in plan", skip(plan_read(hook(Absent))), WAITS);
    says("and no rule", skip(rule(Rule::Ask, hook(Absent))), WAITS);
    says("or hook", skip(hook(Ask)), WAITS);
    says(
        "not the tool's check",
        skip(check(Check::Ask, hook(Absent))),
        WAITS,
    );
}

#[test]
fn generated_table_is_deterministic_and_meets_every_outcome() {
    let all: Vec<Expected> = cases().map(expect).collect();
    assert!(cases().eq(cases()));
    let codes = [
        "tool_denied_by_rule",
        "tool_denied_by_mode",
        "tool_denied_by_hook",
        "hook_timeout",
        "hook_failed",
        "hook_unavailable",
        "hook_modified_args_invalid",
        "tool_argument_required",
        "approval_unavailable",
    ]
    .map(denied);
    for outcome in [
        RUNS,
        WAITS,
        Outcome::RunAborted,
        Outcome::Denied { code: None },
    ]
    .into_iter()
    .chain(codes)
    {
        assert!(
            all.iter().any(|expected| expected.outcome == outcome),
            "{outcome:?}"
        );
    }
}
