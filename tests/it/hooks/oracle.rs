//! A second, naive reading of the specification: what hooks and permission make of one call.
//!
//! Never looks at the product's code: every branch quotes the words that it follows, and one
//! marked "Silent:" is a choice where they say nothing or can be read in two ways.
//! The case is a batch of one call of a registered tool; the answer is the moment after stage F
//! (decided, and frozen where it must ask), before any approver answers and before dispatch.

mod cases;
mod sentences;
mod words;

pub(super) use cases::cases;
pub(super) use words::*;

/// Says what becomes of the call.
pub(super) fn expect(case: Case) -> Expected {
    let walk = ask_hooks(case);
    let outcome = decide(case, walk);
    let arguments = matches!(outcome, Outcome::Runs | Outcome::Waits).then_some(walk.arguments);
    let Walk {
        first_asked,
        second_asked,
        ..
    } = walk;
    Expected {
        outcome,
        arguments,
        first_asked,
        second_asked,
    }
}

/// Lowest first: "(ABORT > DENY > DEFER > ASK > ALLOW > PROCEED)".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Proceed,
    Allow,
    Ask,
    Defer,
    Deny(&'static str),
    Abort,
}

/// `misfit`: what stage B says of the arguments as they now stand, `None` if they fit.
#[derive(Clone, Copy)]
struct Walk {
    verdict: Verdict,
    arguments: Arguments,
    misfit: Option<&'static str>,
    first_asked: bool,
    second_asked: bool,
}

/// Stage D.
fn ask_hooks(case: Case) -> Walk {
    // "a hook sees B's report": a call that does not fit goes through the hooks too.
    let misfit = (!case.original_fits).then_some("tool_argument_required");
    let (verdict, arguments) = (Verdict::Proceed, Arguments::Original);
    let mut walk = Walk {
        verdict,
        arguments,
        misfit,
        first_asked: false,
        second_asked: false,
    };
    // "strictly serial in (order, registration) order"
    if case.first.behaviour != Behaviour::Absent {
        walk.first_asked = true;
        walk.verdict = said(case.first);
        walk = rewrite(walk, case.first, Arguments::RewrittenByFirst);
    }
    // "ABORT, DENY, DEFER stop the chain at once; ALLOW and ASK do not"
    if matches!(
        walk.verdict,
        Verdict::Abort | Verdict::Deny(_) | Verdict::Defer
    ) {
        return walk;
    }
    // Silent: a hook after an invalid rewrite is still asked. Stage E ("B again on the effective
    // arguments") stands after all hooks, and "a rewrite may mend it" (proto, `validation`).
    if case.second.behaviour != Behaviour::Absent {
        walk.second_asked = true;
        // "later hooks may tighten but never loosen"
        // Silent: an ALLOW holds also when a later hook rewrites what it allowed ("The highest of
        // all hooks counts", proto); rules see the rewritten call anyway.
        walk.verdict = walk.verdict.max(said(case.second));
        // "a rewrite flows to the next hook"
        walk = rewrite(walk, case.second, Arguments::RewrittenBySecond);
    }
    walk
}

fn said(hook: Hook) -> Verdict {
    match hook.behaviour {
        // "PROCEED: no opinion"
        Behaviour::Absent | Behaviour::Proceed | Behaviour::Rewrite => Verdict::Proceed,
        // "`hook_modified_args_invalid` if it fails": its own code, no case for `on_failure`.
        Behaviour::RewriteInvalid => Verdict::Proceed,
        Behaviour::Allow | Behaviour::RewriteAllow => Verdict::Allow,
        Behaviour::Ask => Verdict::Ask,
        Behaviour::Defer => Verdict::Defer,
        // "Absent: an error `tool_denied_by_hook` with the reason" (proto, `synthetic_result`)
        Behaviour::Deny => Verdict::Deny("tool_denied_by_hook"),
        Behaviour::Abort => Verdict::Abort,
        Behaviour::Timeout => failed(hook.on_failure, "hook_timeout"),
        // "It said that it failed, or answered nonsense: `hook_failed`" (proto, HookRunStatus)
        // Silent: a process that dies with the question open may be `hook_failed` or
        // `hook_unavailable`; `Crash` here is only the hook that says it failed.
        Behaviour::Crash | Behaviour::Garbage => failed(hook.on_failure, "hook_failed"),
        // "It is not there: `hook_unavailable`" (proto, HookRunStatus)
        Behaviour::Gone => failed(hook.on_failure, "hook_unavailable"),
    }
}

/// "A hook that fails, times out or answers nonsense: on_failure = deny (default) | ask | ignore"
fn failed(on_failure: OnFailure, code: &'static str) -> Verdict {
    match on_failure {
        // "As DENY, with the code of the failure" (proto): so it stops the chain too.
        OnFailure::Deny => Verdict::Deny(code),
        // "As ASK" (proto)
        // Silent: the failure's code is then in the hook's event only, never the call's error.
        OnFailure::Ask => Verdict::Ask,
        // "As PROCEED" (proto)
        OnFailure::Ignore => Verdict::Proceed,
    }
}

fn rewrite(mut walk: Walk, hook: Hook, rewritten: Arguments) -> Walk {
    // "modified_args (whole replacement ...; re-validated": mends what was wrong before.
    if matches!(hook.behaviour, Behaviour::Rewrite | Behaviour::RewriteAllow) {
        walk.arguments = rewritten;
        walk.misfit = None;
    }
    // "`hook_modified_args_invalid` if it fails, never the old arguments instead"
    if hook.behaviour == Behaviour::RewriteInvalid {
        walk.arguments = rewritten;
        walk.misfit = Some("hook_modified_args_invalid");
    }
    walk
}

/// The end of stage D, stage E, then stage F.
fn decide(case: Case, walk: Walk) -> Outcome {
    match walk.verdict {
        // "ABORT: the run ends run_aborted; nothing of the batch runs"
        Verdict::Abort => return Outcome::RunAborted,
        // "DENY: not executed; synthetic result ... or reason"
        // Silent: DENY takes effect at stage D, so its code stands before those of E (arguments
        // that do not fit) and F (a deny rule, the mode): the hook's reason is what helps.
        Verdict::Deny(code) => return denied(code),
        Verdict::Defer | Verdict::Ask | Verdict::Allow | Verdict::Proceed => {}
    }
    // "E recheck: B again on the effective arguments; a failing call gets its structured error and
    // leaves the path", also before DEFER or ASK: "Validation comes before a human is asked"
    match walk.misfit {
        Some(code) => denied(code),
        None => permission(case, walk),
    }
}

/// Stage F: "deny rules → ask rules → mode block → the tool's own check → allow rules, grants
/// and hook ALLOW → mode and risk → ask"
fn permission(case: Case, walk: Walk) -> Outcome {
    let rule = rule_of_effective(case, walk);
    // deny rules: "Deny rules, ask rules and hook verdicts hold in every mode, auto included."
    if rule == Rule::Deny {
        return denied("tool_denied_by_rule");
    }
    // ask rules: "only the allow stage lifts, and only an ordinary ask": this one is not.
    let ask_rule = rule == Rule::Ask;
    // mode block: "deny" in the table; no allow lifts a deny.
    if mode_table(case.mode, case.kind, case.risk) == Cell::Deny {
        return denied("tool_denied_by_mode");
    }
    // the tool's own check: "its deny is final"
    if case.check == Check::Deny {
        // Silent: no code is named for it in sections 1-9 or the two proto files.
        return Outcome::Denied { code: None };
    }
    // "ask_firm no allow lifts"
    let firm = case.check == Check::AskFirm;
    // hook ASK: "forces approval"
    // Silent: an allow rule does not lift it, since a forced ask is no "ordinary" one.
    let forced = walk.verdict == Verdict::Ask;
    // the allow stage, then mode and risk
    let ordinary = check_asks(case, walk, rule) || mode_asks(case, walk, rule);
    ask(case, walk, ask_rule || firm || forced || ordinary)
}

/// "F permission" follows "E recheck ... on the effective arguments".
fn rule_of_effective(case: Case, walk: Walk) -> Rule {
    // Silent: the rule of the model's own arguments no longer counts once a hook replaced them.
    match walk.arguments {
        Arguments::Original => case.rule_of_original,
        Arguments::RewrittenByFirst | Arguments::RewrittenBySecond => case.rule_of_rewritten,
    }
}

/// Whether an ordinary ask of the tool's check remains after the allow stage.
fn check_asks(case: Case, walk: Walk, rule: Rule) -> bool {
    if case.check != Check::Ask {
        return false;
    }
    // "only the allow stage lifts, and only an ordinary ask": an allow rule lifts it.
    // Silent: of a dangerous tool too; only hook ALLOW, skip_permission and the tool's own allow
    // are said to stop there.
    // hook ALLOW "satisfies an ask that comes from mode, risk or the tool's check"
    if rule == Rule::Allow || hook_allow_counts(case, walk) {
        return false;
    }
    // skip_permission "lifts an ask that comes from mode or risk": not this one. A mode that
    // allows does not lift it either: "Every stage runs and may only tighten".
    true
}

/// Whether an ask of mode and risk remains after the allow stage.
fn mode_asks(case: Case, walk: Walk, rule: Rule) -> bool {
    if mode_table(case.mode, case.kind, case.risk) != Cell::Ask {
        return false;
    }
    // "allow rules, grants and hook ALLOW"; allow rules of a dangerous tool too, as above.
    if rule == Rule::Allow || hook_allow_counts(case, walk) {
        return false;
    }
    // "its allow counts as passthrough unless the config trusts that executor, and never for
    // dangerous tools"
    // Silent: a trusted allow lifts like an allow rule, in plan mode too.
    if case.check == Check::Allow && case.executor_trusted && case.risk != Risk::Dangerous {
        return false;
    }
    // skip_permission "lifts an ask that comes from mode or risk, never for a dangerous tool,
    // never in plan, and no rule or hook"
    !(case.skip_permission && case.risk != Risk::Dangerous && case.mode != Mode::Plan)
}

/// ALLOW "never beats ... (`hooks.allow_covers_dangerous`, default false) a dangerous tool"
fn hook_allow_counts(case: Case, walk: Walk) -> bool {
    walk.verdict == Verdict::Allow && (case.risk != Risk::Dangerous || case.allow_covers_dangerous)
}

fn ask(case: Case, walk: Walk, must_ask: bool) -> Outcome {
    // DEFER "parks the call durably even when no approver is attached"
    // Silent: also when an ask rule, the mode or the tool's check asks as well and no approver is
    // expected: the call waits already, and an ask adds nothing to that.
    if walk.verdict == Verdict::Defer {
        return Outcome::Waits;
    }
    if !must_ask {
        return Outcome::Runs;
    }
    match case.approver {
        Approver::Expected => Outcome::Waits,
        // "With no approver and none expected, ask becomes deny `approval_unavailable`."
        Approver::None => denied("approval_unavailable"),
    }
}

fn denied(code: &'static str) -> Outcome {
    Outcome::Denied { code: Some(code) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Allow,
    Ask,
    Deny,
}

/// "Read top down, the first row that fits"
fn mode_table(mode: Mode, kind: Kind, risk: Risk) -> Cell {
    // "kind edit, delete, execute | deny | (next rows) | (next rows) | (next rows)"
    if matches!(kind, Kind::Edit | Kind::Delete | Kind::Execute) && mode == Mode::Plan {
        return Cell::Deny;
    }
    // "risk dangerous | deny | ask | ask | allow"
    if risk == Risk::Dangerous {
        return row(mode, Cell::Deny, Cell::Ask, Cell::Ask, Cell::Allow);
    }
    // "risk safe | allow | allow | allow | allow"
    if risk == Risk::Safe {
        return row(mode, Cell::Allow, Cell::Allow, Cell::Allow, Cell::Allow);
    }
    // "kind edit | – | ask | allow | allow"; the first row took plan.
    if kind == Kind::Edit {
        return row(mode, Cell::Deny, Cell::Ask, Cell::Allow, Cell::Allow);
    }
    // "kind read, fetch | ask | ask | ask | allow"
    if matches!(kind, Kind::Read | Kind::Fetch) {
        return row(mode, Cell::Ask, Cell::Ask, Cell::Ask, Cell::Allow);
    }
    // "kind delete, execute, interact, other | deny | ask | ask | allow"
    row(mode, Cell::Deny, Cell::Ask, Cell::Ask, Cell::Allow)
}

fn row(mode: Mode, plan: Cell, default: Cell, accept_edits: Cell, auto: Cell) -> Cell {
    [plan, default, accept_edits, auto][mode as usize]
}
