//! What becomes of one call, by the words of the specification and nothing else.
//!
//! A second, naive reading of the chain of hooks and of the order of decisions. Never looks at how the
//! gate does it.

/// What one hook does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Proceed,
    Rewrite,
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

impl Says {
    pub(super) const ALL: [Says; 11] = [
        Says::Proceed,
        Says::Rewrite,
        Says::Allow,
        Says::Ask,
        Says::Defer,
        Says::Deny,
        Says::Abort,
        Says::Timeout,
        Says::Crash,
        Says::Garbage,
        Says::Gone,
    ];
}

/// The one rule that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    None,
    Allow,
    Ask,
    Deny,
}

/// The tool that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    SafeRead,
    SensitiveRead,
    SensitiveEdit,
    SensitiveOther,
    DangerousDelete,
}

/// The session's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plan,
    Default,
    AcceptEdits,
    Auto,
}

/// Everything that the answer depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) hooks: [Says; 2],
    pub(super) rule: Rule,
    pub(super) tool: Tool,
    pub(super) mode: Mode,
    pub(super) approver: bool,
    pub(super) covers_dangerous: bool,
}

/// What becomes of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Runs { rewritten: bool },
    Waits { rewritten: bool, deferred: bool },
    Ends(&'static str),
}

/// What the hooks say together.
struct Chain {
    ends: Option<&'static str>,
    defer: bool,
    ask: bool,
    allow: bool,
    rewritten: bool,
    asked: usize,
}

/// How many hooks are asked.
pub(super) fn asked(case: &Case) -> usize {
    chain(case.hooks).asked
}

fn chain(hooks: [Says; 2]) -> Chain {
    let mut chain = Chain {
        ends: None,
        defer: false,
        ask: false,
        allow: false,
        rewritten: false,
        asked: 0,
    };
    for says in hooks {
        chain.asked += 1;
        match says {
            Says::Proceed => {}
            Says::Rewrite => chain.rewritten = true,
            Says::Allow => chain.allow = true,
            Says::Ask => chain.ask = true,
            Says::Defer => chain.defer = true,
            Says::Deny => chain.ends = Some("tool_denied_by_hook"),
            Says::Abort => chain.ends = Some("run_aborted"),
            // A failing hook denies unless it says otherwise.
            Says::Timeout => chain.ends = Some("hook_timeout"),
            Says::Crash | Says::Garbage => chain.ends = Some("hook_failed"),
            Says::Gone => chain.ends = Some("hook_unavailable"),
        }
        // ABORT, DENY and DEFER end the chain at once.
        if chain.ends.is_some() || chain.defer {
            break;
        }
    }
    // The strictest counts: whoever asks or parks is not outdone by whoever allows.
    chain.allow &= !chain.ask && !chain.defer;
    chain
}

/// What the mode says, the first row that fits.
fn mode_says(mode: Mode, tool: Tool) -> &'static str {
    let dangerous = tool == Tool::DangerousDelete;
    let safe = tool == Tool::SafeRead;
    let edits = tool == Tool::SensitiveEdit;
    let changes = edits || dangerous;
    let reads = matches!(tool, Tool::SafeRead | Tool::SensitiveRead);
    match mode {
        Mode::Plan if changes || dangerous => "deny",
        Mode::Plan if safe => "allow",
        Mode::Plan if reads => "ask",
        Mode::Plan => "deny",
        Mode::Auto => "allow",
        Mode::Default | Mode::AcceptEdits if dangerous => "ask",
        Mode::Default | Mode::AcceptEdits if safe => "allow",
        Mode::AcceptEdits if edits => "allow",
        Mode::Default | Mode::AcceptEdits => "ask",
    }
}

/// What becomes of the call.
pub(super) fn fate(case: &Case) -> Fate {
    let hooks = chain(case.hooks);
    if let Some(code) = hooks.ends {
        return Fate::Ends(code);
    }
    if case.rule == Rule::Deny {
        return Fate::Ends("tool_denied_by_rule");
    }
    let mode = mode_says(case.mode, case.tool);
    if mode == "deny" {
        return Fate::Ends("tool_denied_by_mode");
    }
    // Asks of an ask rule and of hooks are never lifted.
    let firm = case.rule == Rule::Ask || hooks.ask || hooks.defer;
    let dangerous = case.tool == Tool::DangerousDelete;
    let hook_lifts = hooks.allow && (!dangerous || case.covers_dangerous);
    let lifted = case.rule == Rule::Allow || hook_lifts;
    if !firm && (mode == "allow" || lifted) {
        return Fate::Runs {
            rewritten: hooks.rewritten,
        };
    }
    match case.approver || hooks.defer {
        true => Fate::Waits {
            rewritten: hooks.rewritten,
            deferred: hooks.defer,
        },
        false => Fate::Ends("approval_unavailable"),
    }
}
