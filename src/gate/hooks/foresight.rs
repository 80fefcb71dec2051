//! What the hooks before a call would say, as far as that can be told without asking anybody.
//!
//! Built-in hooks are judged one after the other, as in a turn; hooks of processes are named and passed
//! over. Never asks and never decides.

use bytes::Bytes;

use super::before::{Denial, Fold, Heard};
use super::builtin::Judged;
use super::hook::{Body, HookList, Point};
use super::matcher::Matched;
use super::verdict::{BeforeAction, BeforeVerdict};
use crate::gate::ids::HookId;
use crate::gate::json::{Document, JsonLimits, pointer_name, write_string};
use crate::gate::permission;

/// What one built-in hook would say of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreseen {
    /// The hook.
    pub hook: HookId,
    /// Its word.
    pub verdict: BeforeVerdict,
}

/// What can be told of the hooks before a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Foresight {
    /// What built-in hooks would say, in order.
    pub said: Vec<Foreseen>,
    /// Hooks of processes that would be asked and were not, in order.
    pub unasked: Vec<HookId>,
    /// What the built-in ones say together.
    pub heard: Heard,
    /// The one that denies. None: none does.
    pub denial: Option<Box<Denial>>,
}

impl Foresight {
    /// Hears the built-in hooks about a call.
    #[must_use]
    pub fn of(hooks: &HookList, call: &Matched<'_>, limits: &JsonLimits) -> Self {
        let mut found = Self::default();
        let mut rewritten: Option<Document> = None;
        for hook in hooks.at(Point::BeforeToolCall) {
            let arguments = rewritten.as_ref().or(call.arguments);
            let seen = Matched { arguments, ..*call };
            if !hook.matcher.may_mean(&seen) {
                continue;
            }
            let Body::BuiltIn(builtin) = &hook.body else {
                if hook.is_awaited(Point::BeforeToolCall) {
                    found.unasked.push(hook.id.clone());
                }
                continue;
            };
            let cwd = call.cwd;
            let verdict = builtin.judge(&Judged { arguments, cwd });
            found.said.push(Foreseen {
                hook: hook.id.clone(),
                verdict: verdict.clone(),
            });
            let rewrites = verdict.rewrites();
            let fold = found.heard.take(hook, verdict);
            if let Fold::Denied(denial) = fold {
                found.denial = Some(denial);
                break;
            }
            if let Some(text) = found.heard.arguments.as_ref().filter(|_| rewrites) {
                rewritten = Document::parse_object(text, limits).ok();
            }
        }
        found
    }

    /// What they say together, as one voice among those that decide.
    #[must_use]
    pub fn voice(&self) -> permission::Hook {
        match self.denial {
            Some(_) => permission::Hook::Deny,
            None => voice_of(self.heard.action),
        }
    }

    /// The hook whose word that voice is. None: none has an opinion.
    #[must_use]
    pub fn decided_by(&self) -> Option<&HookId> {
        let denied_by = self.denial.as_ref().map(|denial| &denial.hook);
        denied_by.or(self.heard.decided_by.as_ref())
    }
}

/// What hooks say together, as one voice among those that decide.
#[must_use]
pub fn voice_of(action: BeforeAction) -> permission::Hook {
    use permission::Hook as Voice;
    match action {
        BeforeAction::Proceed => Voice::Proceed,
        BeforeAction::Allow => Voice::Allow,
        BeforeAction::Ask => Voice::Ask,
        BeforeAction::Defer => Voice::Defer,
        // Both ended the call; nothing lifts that.
        BeforeAction::Deny | BeforeAction::Abort => Voice::Deny,
    }
}

/// Arguments that hold nothing but this text at the pointer. None: nothing can stand there.
#[must_use]
pub fn arguments_of(pointer: &str, text: &str) -> Option<Document> {
    let mut json = Vec::new();
    let tokens: Vec<&str> = pointer.strip_prefix('/')?.split('/').collect();
    for token in &tokens {
        json.push(b'{');
        write_string(&pointer_name(token)?, &mut json);
        json.push(b':');
    }
    write_string(text, &mut json);
    json.extend(tokens.iter().map(|_| b'}'));
    Document::parse_object(&Bytes::from(json), &JsonLimits::default()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gate::hooks::{
        Builtin, BuiltinVerdict, Hook, HookPlace, Matcher, MatcherParts, OnFailure,
    };
    use crate::gate::permission::Aliases;

    fn hook(number: u64, body: Body, parts: MatcherParts) -> Arc<Hook> {
        Arc::new(Hook {
            id: HookId::trusted(format!("hook-{number}")),
            place: HookPlace { order: 0, number },
            points: vec![Point::BeforeToolCall],
            matcher: Matcher::new(parts, &Aliases::default()).unwrap(),
            timeout_ms: 0,
            on_failure: OnFailure::Deny,
            observes: false,
            withholds: false,
            description: String::new(),
            body,
        })
    }

    fn built_in(number: u64, verdict: BuiltinVerdict, parts: MatcherParts) -> Arc<Hook> {
        let builtin = Builtin::new(verdict, "why".to_owned()).unwrap();
        hook(number, Body::BuiltIn(builtin), parts)
    }

    fn foresee(hooks: Vec<Arc<Hook>>, arguments: Option<&Document>) -> Foresight {
        let call = Matched {
            name: "tool",
            tool: None,
            arguments,
            command: None,
            cwd: None,
        };
        Foresight::of(&HookList::new(hooks), &call, &JsonLimits::default())
    }

    fn ids(ids: &[HookId]) -> Vec<&str> {
        ids.iter().map(HookId::as_str).collect()
    }

    #[test]
    fn built_in_hooks_are_heard_in_order_and_processes_are_named_up_to_a_denial() {
        let all = MatcherParts::default;
        let of_another = MatcherParts {
            tools: vec!["other".to_owned()],
            ..all()
        };
        let found = foresee(
            vec![
                hook(1, Body::Remote, all()),
                built_in(2, BuiltinVerdict::Allow, all()),
                built_in(3, BuiltinVerdict::Deny, of_another),
                built_in(4, BuiltinVerdict::Ask, all()),
                built_in(5, BuiltinVerdict::Deny, all()),
                hook(6, Body::Remote, all()),
                built_in(7, BuiltinVerdict::Allow, all()),
            ],
            None,
        );
        let said = found.said.iter();
        let said: Vec<_> = said
            .map(|one| (one.hook.as_str(), one.verdict.action))
            .collect();
        let expected = [
            ("hook-2", BeforeAction::Allow),
            ("hook-4", BeforeAction::Ask),
            ("hook-5", BeforeAction::Deny),
        ];
        assert_eq!(said, expected);
        assert_eq!(ids(&found.unasked), ["hook-1"]);
        assert_eq!(found.voice(), permission::Hook::Deny);
        assert_eq!(found.decided_by().map(HookId::as_str), Some("hook-5"));
    }

    #[test]
    fn a_default_that_one_puts_in_is_seen_by_the_next() {
        let sets = BuiltinVerdict::SetDefaultArgument {
            pointer: "/n".to_owned(),
            value: Bytes::from_static(b"1"),
        };
        let if_there = MatcherParts {
            pointers: vec!["/n".to_owned()],
            ..MatcherParts::default()
        };
        let hooks = || {
            vec![
                built_in(1, sets.clone(), MatcherParts::default()),
                built_in(2, BuiltinVerdict::Ask, if_there.clone()),
            ]
        };
        let arguments = arguments_of("/a~1b/c", "say \"x\"").unwrap();
        assert_eq!(&arguments.text()[..], br#"{"a/b":{"c":"say \"x\""}}"#);
        let found = foresee(hooks(), Some(&arguments));
        let rewritten = found.heard.arguments.as_deref();
        assert_eq!(rewritten, Some(&br#"{"a/b":{"c":"say \"x\""},"n":1}"#[..]));
        assert_eq!(found.voice(), permission::Hook::Ask);
        assert_eq!(found.decided_by().map(HookId::as_str), Some("hook-2"));
        assert_eq!(foresee(Vec::new(), None), Foresight::default());
        assert_eq!(
            arguments_of("", "x").map(|found| found.dispatch_form()),
            None
        );
    }
}
