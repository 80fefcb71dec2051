//! The serial fold of one call's hooks after its executor answered.
//!
//! A rewritten result flows on to the next hook and passes the limits again, as a tool's own would; the
//! first STOP or ABORT ends the chain. A hook that fails, or whose result is no good, leaves the result as
//! it was, unless it is there to hold results back. Never turns an error into success.

use super::hook::Hook;
use super::verdict::{AfterAction, AfterVerdict, HookFailure, INJECTED_MAX};
use super::words::{HookText, HookWords, Injected, cut_words};
use crate::gate::ids::{HookId, ToolName};
use crate::gate::limits::Limits;
use crate::gate::result::{Settled, find_problem, settle};

/// One call's result on its way through the hooks.
#[derive(Debug, Clone, PartialEq)]
pub struct AfterChain {
    /// As the hooks so far left it.
    pub result: Settled,
    /// What they add to it.
    pub words: HookWords,
    /// The hook whose failure keeps the result back. None: it is told.
    pub withheld_by: Option<(HookId, HookFailure)>,
}

/// What one word does to the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterFold {
    /// The next hook is heard.
    Next,
    /// No further hook is heard.
    Done,
    /// No further hook is heard, and the run ends, for that reason.
    Aborted(String),
    /// The word does not count: the hook failed.
    Failed(HookFailure),
}

impl AfterChain {
    /// A result that no hook has seen.
    #[must_use]
    pub fn new(result: Settled) -> Self {
        Self {
            result,
            words: HookWords::default(),
            withheld_by: None,
        }
    }

    /// Takes one hook's word in.
    pub fn take(
        &mut self,
        hook: &Hook,
        verdict: AfterVerdict,
        tool: &ToolName,
        limits: &Limits,
    ) -> AfterFold {
        if let Some(problem) = self.find_problem(&verdict, limits) {
            let failure = HookFailure::nonsense(&problem);
            return AfterFold::Failed(failure);
        }
        if verdict.action == AfterAction::Abort {
            let mut reason = verdict.reason_for_user;
            cut_words(&mut reason);
            return AfterFold::Aborted(reason);
        }
        if let Some(modified) = verdict.modified {
            self.result = settle(tool, modified, limits);
        }
        self.add_words(hook, verdict.injected, verdict.context);
        self.words.suppressed |= verdict.suppress;
        match verdict.action {
            AfterAction::Stop => {
                self.words.stopped_by = Some(hook.id.clone());
                AfterFold::Done
            }
            AfterAction::Proceed | AfterAction::Abort => AfterFold::Next,
        }
    }

    /// Takes in that a hook failed.
    pub fn take_failure(&mut self, hook: &Hook, failure: HookFailure) -> AfterFold {
        if !hook.withholds {
            return AfterFold::Next;
        }
        self.withheld_by = Some((hook.id.clone(), failure));
        AfterFold::Done
    }

    /// A result that is no good is the hook's failure; one that is too large is treated as a tool's own.
    fn find_problem(&self, verdict: &AfterVerdict, limits: &Limits) -> Option<String> {
        if verdict.injected.len() > INJECTED_MAX {
            return Some("more messages than one hook may inject".to_owned());
        }
        let modified = verdict.modified.as_ref()?;
        if self.result.result.is_error && !modified.is_error {
            return Some("it turns an error into success".to_owned());
        }
        let counts = verdict.action != AfterAction::Abort;
        let problem = counts.then(|| find_problem(modified, limits)).flatten()?;
        Some(format!("its result is no good: {problem}"))
    }

    fn add_words(
        &mut self,
        hook: &Hook,
        injected: Vec<(super::words::MessageRole, String)>,
        mut context: String,
    ) {
        let injected = injected.into_iter().map(|(role, mut text)| {
            cut_words(&mut text);
            Injected {
                hook: hook.id.clone(),
                role,
                text,
            }
        });
        self.words.injected.extend(injected);
        if !context.is_empty() {
            cut_words(&mut context);
            self.words.contexts.push(HookText {
                hook: hook.id.clone(),
                text: context,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::hooks::{Body, HookPlace, Matcher, MessageRole, OnFailure, Point};
    use crate::gate::result::{Content, ToolResult};

    fn hook(withholds: bool) -> Hook {
        Hook {
            id: HookId::trusted("one"),
            place: HookPlace {
                order: 0,
                number: 0,
            },
            points: vec![Point::AfterToolCall],
            matcher: Matcher::default(),
            timeout_ms: 5_000,
            on_failure: OnFailure::Deny,
            observes: false,
            withholds,
            description: String::new(),
            body: Body::Remote,
        }
    }

    fn result(text: &str, is_error: bool) -> ToolResult {
        ToolResult {
            contents: vec![Content::Text(text.to_owned())],
            is_error,
            ..ToolResult::default()
        }
    }

    fn take(chain: &mut AfterChain, verdict: AfterVerdict) -> AfterFold {
        let limits = Limits {
            result_bytes_max: 8,
            ..Limits::default()
        };
        chain.take(&hook(false), verdict, &ToolName::trusted("tool"), &limits)
    }

    fn chain(is_error: bool) -> AfterChain {
        let name = ToolName::trusted("tool");
        let settled = settle(&name, result("done", is_error), &Limits::default());
        AfterChain::new(settled)
    }

    #[test]
    fn a_rewritten_result_passes_the_limits_again() {
        let mut chain = chain(false);
        let verdict = AfterVerdict {
            modified: Some(result("much too long", false)),
            ..AfterVerdict::default()
        };
        assert_eq!(take(&mut chain, verdict), AfterFold::Next);
        assert_eq!(chain.result.cut_from_bytes, Some(13));
        let expected = [Content::Text("much too".to_owned())];
        assert_eq!(chain.result.result.contents, expected);
    }

    #[test]
    fn a_result_that_is_no_good_is_the_hooks_failure_and_leaves_the_one_before() {
        let json = |text: &'static [u8]| bytes::Bytes::from_static(text);
        let broken = [
            ToolResult {
                contents: vec![Content::Json(json(b"{"))],
                ..ToolResult::default()
            },
            ToolResult {
                structured: json(b" "),
                ..result("fine", false)
            },
            ToolResult {
                metadata: json(b"[1,]"),
                ..result("fine", false)
            },
            ToolResult {
                contents: vec![Content::Text(String::new()); 65],
                ..ToolResult::default()
            },
        ];
        for modified in broken {
            let verdict = AfterVerdict {
                modified: Some(modified),
                context: "told".to_owned(),
                suppress: true,
                ..AfterVerdict::default()
            };
            let mut kept = chain(false);
            let before = kept.clone();
            let fold = take(&mut kept, verdict.clone());
            assert!(matches!(fold, AfterFold::Failed(_)), "{fold:?}");
            assert_eq!(kept, before);
            // What ends the run ends it, whatever else it says.
            let aborts = AfterVerdict {
                action: AfterAction::Abort,
                ..verdict
            };
            let fold = take(&mut kept, aborts);
            assert!(matches!(fold, AfterFold::Aborted(_)), "{fold:?}");
        }
        // One that is too large and cannot be cut is no hook's failure: it is refused as a tool's is.
        let mut refused = chain(false);
        let verdict = AfterVerdict {
            modified: Some(ToolResult {
                structured: json(b"\"12345678\""),
                ..ToolResult::default()
            }),
            ..AfterVerdict::default()
        };
        assert_eq!(take(&mut refused, verdict), AfterFold::Next);
        let error = refused.result.result.error.unwrap();
        assert_eq!(error.code, "result_too_large");
    }

    #[test]
    fn an_error_cannot_become_success_and_a_success_can_become_an_error() {
        let modified = |is_error| AfterVerdict {
            modified: Some(result("fine", is_error)),
            context: "told".to_owned(),
            ..AfterVerdict::default()
        };
        let mut failed = chain(true);
        let before = failed.clone();
        let fold = take(&mut failed, modified(false));
        assert!(matches!(fold, AfterFold::Failed(_)), "{fold:?}");
        assert_eq!(failed, before);
        let mut succeeded = chain(false);
        assert_eq!(take(&mut succeeded, modified(true)), AfterFold::Next);
        assert!(succeeded.result.result.is_error);
    }

    #[test]
    fn sixteen_messages_are_taken_and_seventeen_are_not() {
        let messages = |count| AfterVerdict {
            injected: vec![(MessageRole::User, "look".to_owned()); count],
            ..AfterVerdict::default()
        };
        let mut taken = chain(false);
        assert_eq!(take(&mut taken, messages(INJECTED_MAX)), AfterFold::Next);
        assert_eq!(taken.words.injected.len(), INJECTED_MAX);
        let mut refused = chain(false);
        let fold = take(&mut refused, messages(INJECTED_MAX + 1));
        assert!(matches!(fold, AfterFold::Failed(_)), "{fold:?}");
        assert!(refused.words.is_empty());
    }

    #[test]
    fn stop_keeps_the_result_and_abort_drops_what_it_says() {
        let says = |action| AfterVerdict {
            action,
            context: "told".to_owned(),
            reason_for_user: "enough".to_owned(),
            ..AfterVerdict::default()
        };
        let mut stopped = chain(false);
        assert_eq!(take(&mut stopped, says(AfterAction::Stop)), AfterFold::Done);
        assert_eq!(stopped.words.stopped_by, Some(HookId::trusted("one")));
        assert_eq!(stopped.words.contexts.len(), 1);
        let mut aborted = chain(false);
        let fold = take(&mut aborted, says(AfterAction::Abort));
        assert_eq!(fold, AfterFold::Aborted("enough".to_owned()));
        assert!(aborted.words.is_empty());
    }

    #[test]
    fn only_a_hook_that_holds_results_back_does_so_when_it_fails() {
        let failure = HookFailure::nonsense("no answer");
        let mut kept = chain(false);
        let fold = kept.take_failure(&hook(false), failure.clone());
        assert_eq!((fold, kept.withheld_by), (AfterFold::Next, None));
        let mut held = chain(false);
        assert_eq!(
            held.take_failure(&hook(true), failure.clone()),
            AfterFold::Done
        );
        assert_eq!(held.withheld_by, Some((HookId::trusted("one"), failure)));
    }
}
