//! Which hooks are for a call.
//!
//! Rules of hooks see a command as deny rules do: it is cut up before the first hook that has rules is
//! heard, and anew when a hook has changed it. Never guesses: what nobody can tell is meant.

use super::call::Call;
use super::effect::{Analyse, Effect};
use super::judge::{command_in, document_of};
use super::{TurnMachine, View};
use crate::gate::hooks::{Hook, Matched};
use crate::gate::json::Document;

/// The call as conditions of hooks see it.
pub(super) fn as_matched<'a>(
    call: &'a Call,
    arguments: Option<&'a Document>,
    view: &View<'a>,
) -> Matched<'a> {
    Matched {
        name: call.tool_name.as_str(),
        tool: call.tool.as_deref(),
        arguments,
        command: call.command.as_ref(),
        cwd: view.session.cwd,
    }
}

/// Whether a hook is for such calls, or nobody can tell.
pub(super) fn is_for(hook: &Hook, call: &Call, view: &View<'_>) -> bool {
    let reads = hook.matcher.reads_arguments();
    let document = reads.then(|| document_of(call, view)).flatten();
    hook.matcher
        .may_mean(&as_matched(call, document.as_ref(), view))
}

impl TurnMachine {
    /// Has the call's command cut up if the hook's rules must see that. True: it is to be awaited.
    pub(super) fn cut_up_for(&mut self, position: usize, hook: &Hook, view: &View<'_>) -> bool {
        let Some(call) = self.calls.get_mut(position) else {
            return false;
        };
        let is_known = call.command.is_some() || call.is_analysed_now;
        if is_known || !hook.matcher.has_rules_about(call.tool_name.as_str()) {
            return call.is_analysed_now;
        }
        let tool = call.tool.clone();
        let document = document_of(call, view);
        let text = tool.zip(document);
        let Some(text) = text.and_then(|(tool, document)| command_in(&tool, &document)) else {
            return false;
        };
        call.is_analysed_now = true;
        self.act.push(Effect::Analyse(Analyse {
            call: call.index,
            text,
        }));
        true
    }
}
