//! The cases that the gate is held to.
//!
//! Never says what becomes of one.

use super::words::*;

const RULES: [Rule; 4] = [Rule::None, Rule::Allow, Rule::Ask, Rule::Deny];

/// The mode table, row by row, one kind and risk for each of its cells.
pub(super) const CELLS: [(Mode, Kind, Risk); 20] = {
    use {Kind::*, Mode::*, Risk::*};
    [
        (Plan, Execute, Safe),
        (Plan, Read, Dangerous),
        (Default, Execute, Dangerous),
        (AcceptEdits, Edit, Dangerous),
        (Auto, Execute, Dangerous),
        (Plan, Read, Safe),
        (Default, Delete, Safe),
        (AcceptEdits, Execute, Safe),
        (Auto, Other, Safe),
        (Default, Edit, Sensitive),
        (AcceptEdits, Edit, Sensitive),
        (Auto, Edit, Sensitive),
        (Plan, Read, Sensitive),
        (Default, Fetch, Sensitive),
        (AcceptEdits, Read, Sensitive),
        (Auto, Fetch, Sensitive),
        (Plan, Interact, Sensitive),
        (Default, Execute, Sensitive),
        (AcceptEdits, Delete, Sensitive),
        (Auto, Execute, Sensitive),
    ]
};

/// Every case worth comparing, always in the same order. For a slow subject: `step_by(7)`.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let mut all = Vec::new();
    hook_cases(&mut all);
    pair_cases(&mut all);
    permission_cases(&mut all);
    all.into_iter()
}

/// {every hook} × {first, second} × {companion} × {rule} × {cell}, the circumstances in turn.
fn hook_cases(all: &mut Vec<Case>) {
    for (hook_index, hook) in every_hook().into_iter().enumerate() {
        for companion in companions() {
            for (first, second) in [(hook, companion), (companion, hook)] {
                for (rule_index, rule) in RULES.into_iter().enumerate() {
                    for (cell_index, (mode, kind, risk)) in CELLS.into_iter().enumerate() {
                        let mut case = plain(first, second, mode, kind, risk);
                        case.rule_of_original = rule;
                        case.rule_of_rewritten = RULES[(rule_index + cell_index + hook_index) % 4];
                        all.push(circumstance(all.len(), case));
                    }
                }
            }
        }
    }
}

/// {every hook} × {every hook}, for a call that the mode lets ask.
fn pair_cases(all: &mut Vec<Case>) {
    let (mode, kind, risk) = (Mode::Default, Kind::Edit, Risk::Sensitive);
    for first in every_hook() {
        for second in every_hook() {
            all.push(plain(first, second, mode, kind, risk));
        }
    }
}

/// {cell} × {no hook, ALLOW} × {no rule, allow rule} × {every circumstance with every other}.
fn permission_cases(all: &mut Vec<Case>) {
    use Check::*;
    for (mode, kind, risk) in CELLS {
        for hook in [Behaviour::Absent, Behaviour::Allow].map(quiet) {
            for rule in [Rule::None, Rule::Allow] {
                for check in [Passthrough, Allow, Ask, AskFirm, Deny] {
                    for bits in 0..16 {
                        let mut case = plain(hook, quiet(Behaviour::Absent), mode, kind, risk);
                        (case.rule_of_original, case.check) = (rule, check);
                        case.approver = [Approver::Expected, Approver::None][bits % 2];
                        case.skip_permission = bits & 2 != 0;
                        case.allow_covers_dangerous = bits & 4 != 0;
                        case.executor_trusted = bits & 8 != 0;
                        all.push(case);
                    }
                }
            }
        }
    }
}

/// Every behaviour; those that could concern `on_failure` with each of its values.
fn every_hook() -> Vec<Hook> {
    use Behaviour::*;
    let mut hooks = companions().to_vec();
    hooks.extend([Absent, RewriteAllow, Defer, Abort].map(quiet));
    for on_failure in [OnFailure::Deny, OnFailure::Ask, OnFailure::Ignore] {
        for behaviour in [RewriteInvalid, Timeout, Crash, Garbage, Gone] {
            hooks.push(failing(behaviour, on_failure));
        }
    }
    hooks
}

/// What the other hook does while one hook is looked at.
fn companions() -> [Hook; 5] {
    use Behaviour::*;
    [Proceed, Rewrite, Ask, Allow, Deny].map(quiet)
}

/// Eleven: prime to the lengths of all loops, so that each meets every rule and cell.
fn circumstance(index: usize, mut case: Case) -> Case {
    match index % 11 {
        0 | 1 => {}
        2 => case.approver = Approver::None,
        3 => case.skip_permission = true,
        4 => case.allow_covers_dangerous = true,
        5 => case.check = Check::Ask,
        6 => case.check = Check::AskFirm,
        7 => case.check = Check::Deny,
        8 => case.check = Check::Allow,
        9 => (case.check, case.executor_trusted) = (Check::Allow, true),
        _ => case.original_fits = false,
    }
    case
}

pub(super) fn quiet(behaviour: Behaviour) -> Hook {
    failing(behaviour, OnFailure::Deny)
}

pub(super) fn failing(behaviour: Behaviour, on_failure: OnFailure) -> Hook {
    Hook {
        behaviour,
        on_failure,
    }
}

pub(super) fn plain(first: Hook, second: Hook, mode: Mode, kind: Kind, risk: Risk) -> Case {
    Case {
        first,
        second,
        mode,
        kind,
        risk,
        rule_of_original: Rule::None,
        rule_of_rewritten: Rule::None,
        approver: Approver::Expected,
        skip_permission: false,
        allow_covers_dangerous: false,
        check: Check::Passthrough,
        executor_trusted: false,
        original_fits: true,
    }
}
