//! The serial fold of one call's hooks before it is decided.
//!
//! ABORT, DENY and DEFER end the chain at once; ALLOW and ASK do not, and later hooks may tighten but
//! never loosen. Never checks rewritten arguments: whoever holds the tool's schema does.

use bytes::Bytes;

use super::hook::{Hook, OnFailure};
use super::verdict::{BeforeAction, BeforeVerdict, FailureKind, HookFailure, RunStatus};
use super::words::{HookText, cut_words};
use crate::gate::ids::HookId;
use crate::gate::result::ToolResult;

/// What an earlier hook of the same call said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// The hook.
    pub hook: HookId,
    /// How it went.
    pub status: RunStatus,
    /// What it said, or what its failure counts as.
    pub action: BeforeAction,
    /// It replaced the arguments.
    pub modified: bool,
}

/// What the hooks so far said of one call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// The strictest word.
    pub action: BeforeAction,
    /// The hook that said it first. None: nobody said more than PROCEED.
    pub decided_by: Option<HookId>,
    /// Its reason for people. Empty: none.
    pub reason: String,
    /// What hooks add to the conversation.
    pub contexts: Vec<HookText>,
    /// Some hook keeps the result from the model.
    pub suppress: bool,
    /// The arguments as hooks left them. None: as the model made them.
    pub arguments: Option<Bytes>,
    /// The hook that replaced them last.
    pub rewritten_by: Option<HookId>,
    /// How often they were replaced.
    pub generation: u32,
    /// Hooks that were heard, in order. Not kept over a restart.
    pub earlier: Vec<Earlier>,
}

/// Why a hook's word ends the call.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The hook.
    pub hook: HookId,
    /// How it failed. None: it said DENY.
    pub failure: Option<FailureKind>,
    /// For the model. Empty: none.
    pub reason: String,
    /// For operators. Empty: none.
    pub detail: String,
    /// The call's result in the tool's place.
    pub synthetic: Option<ToolResult>,
}

/// What one word does to the chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Fold {
    /// The next hook is heard.
    Next,
    /// No further hook is heard; the call waits for an approver.
    Deferred,
    /// No further hook is heard; the call does not run.
    Denied(Box<Denial>),
    /// The run ends, for that reason.
    Aborted(String),
}

impl Heard {
    /// Whether there is anything to keep of it.
    #[must_use]
    pub fn is_trivial(&self) -> bool {
        self.action == BeforeAction::Proceed
            && self.contexts.is_empty()
            && !self.suppress
            && self.arguments.is_none()
    }

    /// Takes one hook's word in.
    pub fn take(&mut self, hook: &Hook, verdict: BeforeVerdict) -> Fold {
        let rewrites = verdict.rewrites();
        self.note(hook, RunStatus::Answered, verdict.action, rewrites);
        if rewrites {
            self.arguments = Some(verdict.modified);
            self.rewritten_by = Some(hook.id.clone());
            self.generation = self.generation.saturating_add(1);
        }
        if verdict.action == BeforeAction::Abort {
            return Fold::Aborted(first_of(verdict.reason_for_model, verdict.reason_for_user));
        }
        self.add_context(hook, verdict.context);
        self.suppress |= verdict.suppress;
        if verdict.action == BeforeAction::Deny {
            return Fold::Denied(Box::new(Denial {
                hook: hook.id.clone(),
                failure: None,
                reason: first_of(verdict.reason_for_model, verdict.reason_for_user),
                detail: String::new(),
                synthetic: verdict.synthetic,
            }));
        }
        self.tighten(hook, verdict.action, verdict.reason_for_user);
        match verdict.action {
            BeforeAction::Defer => Fold::Deferred,
            BeforeAction::Proceed
            | BeforeAction::Allow
            | BeforeAction::Ask
            | BeforeAction::Deny
            | BeforeAction::Abort => Fold::Next,
        }
    }

    /// Takes in that a hook failed.
    pub fn take_failure(&mut self, hook: &Hook, failure: HookFailure) -> Fold {
        let status = RunStatus::of_failure(failure.kind);
        let action = match hook.on_failure {
            OnFailure::Deny => BeforeAction::Deny,
            OnFailure::Ask => BeforeAction::Ask,
            OnFailure::Ignore => BeforeAction::Proceed,
        };
        self.note(hook, status, action, false);
        if action == BeforeAction::Deny {
            return Fold::Denied(Box::new(Denial {
                hook: hook.id.clone(),
                failure: Some(failure.kind),
                reason: String::new(),
                detail: failure.message,
                synthetic: None,
            }));
        }
        let reason = format!("hook `{}`: {}", hook.id, failure.kind.code());
        self.tighten(hook, action, reason);
        Fold::Next
    }

    fn note(&mut self, hook: &Hook, status: RunStatus, action: BeforeAction, modified: bool) {
        self.earlier.push(Earlier {
            hook: hook.id.clone(),
            status,
            action,
            modified,
        });
    }

    fn add_context(&mut self, hook: &Hook, mut text: String) {
        if !text.is_empty() {
            cut_words(&mut text);
            self.contexts.push(HookText {
                hook: hook.id.clone(),
                text,
            });
        }
    }

    /// The first hook that says the strictest word is the one that people are told of.
    fn tighten(&mut self, hook: &Hook, action: BeforeAction, mut reason: String) {
        if action > self.action {
            self.action = action;
            self.decided_by = Some(hook.id.clone());
            cut_words(&mut reason);
            self.reason = reason;
        }
    }
}

fn first_of(mut one: String, other: String) -> String {
    if one.is_empty() {
        one = other;
    }
    cut_words(&mut one);
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::hooks::{Body, HookPlace, Matcher, Point, TEXT_CHARACTERS_MAX};

    fn hook(name: &str, on_failure: OnFailure) -> Hook {
        Hook {
            id: HookId::trusted(name),
            place: HookPlace {
                order: 0,
                number: 0,
            },
            points: vec![Point::BeforeToolCall],
            matcher: Matcher::default(),
            timeout_ms: 5_000,
            on_failure,
            observes: false,
            withholds: false,
            description: String::new(),
            body: Body::Remote,
        }
    }

    fn denial(fold: Fold) -> Option<Denial> {
        match fold {
            Fold::Denied(denial) => Some(*denial),
            Fold::Next | Fold::Deferred | Fold::Aborted(_) => None,
        }
    }

    fn says(action: BeforeAction) -> BeforeVerdict {
        BeforeVerdict {
            action,
            reason_for_user: format!("{action:?}"),
            ..BeforeVerdict::default()
        }
    }

    #[test]
    fn later_hooks_tighten_and_never_loosen() {
        use BeforeAction::{Allow, Ask, Defer, Proceed};
        for first in [Proceed, Allow, Ask] {
            for second in [Proceed, Allow, Ask, Defer] {
                let mut heard = Heard::default();
                let (one, two) = (hook("one", OnFailure::Deny), hook("two", OnFailure::Deny));
                assert_eq!(heard.take(&one, says(first)), Fold::Next);
                let expected = if second == Defer {
                    Fold::Deferred
                } else {
                    Fold::Next
                };
                assert_eq!(heard.take(&two, says(second)), expected);
                assert_eq!(heard.action, first.max(second));
                if heard.action > Proceed {
                    assert_eq!(heard.reason, format!("{:?}", first.max(second)));
                }
            }
        }
    }

    #[test]
    fn deny_and_abort_end_the_chain_whatever_was_said_before() {
        let mut heard = Heard::default();
        heard.take(&hook("one", OnFailure::Deny), says(BeforeAction::Allow));
        let denied = heard.take(&hook("two", OnFailure::Deny), says(BeforeAction::Deny));
        let denial = denial(denied).unwrap();
        assert_eq!((denial.hook.as_str(), &*denial.reason), ("two", "Deny"));
        let aborted = heard.take(&hook("three", OnFailure::Deny), says(BeforeAction::Abort));
        assert_eq!(aborted, Fold::Aborted("Abort".to_owned()));
    }

    #[test]
    fn a_rewrite_stays_when_the_next_hook_says_nothing_of_arguments() {
        let mut heard = Heard::default();
        let rewrite = BeforeVerdict {
            modified: Bytes::from_static(b"{\"n\":2}"),
            ..says(BeforeAction::Proceed)
        };
        heard.take(&hook("one", OnFailure::Deny), rewrite);
        heard.take(&hook("two", OnFailure::Deny), says(BeforeAction::Proceed));
        assert_eq!(heard.arguments.as_deref(), Some(&b"{\"n\":2}"[..]));
        assert_eq!(heard.generation, 1);
        let modified: Vec<_> = heard.earlier.iter().map(|one| one.modified).collect();
        assert_eq!(modified, [true, false]);
    }

    #[test]
    fn a_denied_call_keeps_the_arguments_that_it_had() {
        let mut heard = Heard::default();
        let verdict = BeforeVerdict {
            modified: Bytes::from_static(b"{}"),
            ..says(BeforeAction::Deny)
        };
        heard.take(&hook("one", OnFailure::Deny), verdict);
        assert_eq!((heard.arguments, heard.generation), (None, 0));
    }

    #[test]
    fn a_failure_counts_as_the_hook_says() {
        let failed = |mode, kind| {
            let mut heard = Heard::default();
            let failure = HookFailure {
                kind,
                message: "why".to_owned(),
            };
            let fold = heard.take_failure(&hook("one", mode), failure);
            (fold, heard.action)
        };
        let (fold, _) = failed(OnFailure::Deny, FailureKind::Timeout);
        let denial = denial(fold).unwrap();
        assert_eq!(denial.failure, Some(FailureKind::Timeout));
        assert_eq!(denial.detail, "why");
        let asked = failed(OnFailure::Ask, FailureKind::Unavailable);
        assert_eq!(asked, (Fold::Next, BeforeAction::Ask));
        let ignored = failed(OnFailure::Ignore, FailureKind::Failed);
        assert_eq!(ignored, (Fold::Next, BeforeAction::Proceed));
    }

    #[test]
    fn a_context_is_cut_one_character_above_the_limit_and_not_at_it() {
        for (characters, kept) in [
            (TEXT_CHARACTERS_MAX, TEXT_CHARACTERS_MAX),
            (TEXT_CHARACTERS_MAX + 1, TEXT_CHARACTERS_MAX),
        ] {
            let mut heard = Heard::default();
            let verdict = BeforeVerdict {
                context: "ä".repeat(characters),
                ..says(BeforeAction::Proceed)
            };
            heard.take(&hook("one", OnFailure::Deny), verdict);
            let cut = heard.contexts.iter().map(|one| one.text.chars().count());
            assert_eq!(cut.collect::<Vec<_>>(), [kept]);
        }
    }
}
