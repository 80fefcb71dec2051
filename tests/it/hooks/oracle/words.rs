//! What a case is made of, and what becomes of its call.
//!
//! Never shares a type with the product.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plan,
    Default,
    AcceptEdits,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Fetch,
    Edit,
    Delete,
    Execute,
    Interact,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Risk {
    Safe,
    Sensitive,
    Dangerous,
}

/// The one rule that matches the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    None,
    Allow,
    Ask,
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Deny,
    Ask,
    Ignore,
}

/// What a hook does when it is asked before the call.
///
/// `Absent`: no such hook is registered. `Rewrite`, `RewriteInvalid`: PROCEED with arguments
/// that fit the schema, or do not; `RewriteAllow`: ALLOW with ones that fit. `Deny`: a reason
/// and no synthetic result. `Timeout`: no answer in time. `Crash`: its code fails, it answers
/// `HookFailure`. `Garbage`: it answers nonsense. `Gone`: registered or required, but no
/// process is there when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Absent,
    Proceed,
    Rewrite,
    RewriteInvalid,
    RewriteAllow,
    Allow,
    Ask,
    Defer,
    Deny,
    Abort,
    Timeout,
    Crash,
    Garbage,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) behaviour: Behaviour,
    pub(crate) on_failure: OnFailure,
}

/// `Expected`: one is attached or expected. `None`: none is attached and none expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approver {
    Expected,
    None,
}

/// What the executor's own permission check answers. A tool without one: `Passthrough`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Passthrough,
    Allow,
    Ask,
    AskFirm,
    Deny,
}

/// `Waits`: an approval is pending. `Denied`: not executed; code `None` where the
/// specification names none. `RunAborted`: the run ended `run_aborted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Runs,
    Waits,
    Denied { code: Option<&'static str> },
    RunAborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    Original,
    RewrittenByFirst,
    RewrittenBySecond,
}

/// `rule_of_rewritten` matches the call as either hook rewrites it. `original_fits: false`: the
/// model left out a required argument; the hooks' valid rewrites have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) first: Hook,
    pub(crate) second: Hook,
    pub(crate) mode: Mode,
    pub(crate) kind: Kind,
    pub(crate) risk: Risk,
    pub(crate) rule_of_original: Rule,
    pub(crate) rule_of_rewritten: Rule,
    pub(crate) approver: Approver,
    pub(crate) skip_permission: bool,
    pub(crate) allow_covers_dangerous: bool,
    pub(crate) check: Check,
    pub(crate) executor_trusted: bool,
    pub(crate) original_fits: bool,
}

/// `arguments`: what the call runs or waits with, `None` where it does neither. `first_asked`:
/// the chain came to this hook; a `Gone` one counts, an `Absent` one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    pub(crate) arguments: Option<Arguments>,
    pub(crate) first_asked: bool,
    pub(crate) second_asked: bool,
}
