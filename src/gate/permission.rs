//! Decides whether a checked call may run, must be asked, or must not.
//!
//! The only maker of [`Permit`]: nothing is dispatched without one. Never looks at arguments that did
//! not pass their schema.

use super::tool::{Risk, Tool};

/// What a decision says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// May run.
    Allow,
    /// An approver must be asked.
    Ask,
}

/// Leave to dispatch one call. Only a final decision makes one, and a dispatch uses it up.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit(());

/// Decides by risk: safe tools run unasked, everything else asks.
pub fn decide(tool: &Tool) -> Decision {
    match tool.risk {
        Risk::Safe => Decision::Allow,
        Risk::Sensitive | Risk::Dangerous => Decision::Ask,
    }
}

/// The permit of a call, if the decision about its tool is final and lets it run.
pub fn permit(tool: &Tool) -> Option<Permit> {
    match decide(tool) {
        Decision::Allow => Some(Permit(())),
        Decision::Ask => None,
    }
}
