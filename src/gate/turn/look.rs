//! Stage B: is the tool registered, do the arguments parse, do they fit?
//!
//! The first failure is the call's error. Never sends anything.

use bytes::Bytes;

use super::input::CheckedArguments;
use super::{TurnMachine, View};
use crate::gate::admission::RequestedCall;
use crate::gate::json::Document;
use crate::gate::record::TurnSpec;
use crate::gate::refusal::Refusal;
use crate::gate::result::{Digest, NotExecuted};
use crate::gate::tool::SharedTool;

/// Why a call will not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    pub(super) why: NotExecuted,
}

impl TurnMachine {
    /// Looks at one call and keeps what was found. Ends nothing yet.
    pub(super) fn look(&mut self, position: usize, view: &View<'_>) {
        let spec = self.spec.clone();
        let (Some(call), Some(asked)) = (
            self.calls.get_mut(position),
            spec.request.calls.get(position),
        ) else {
            return;
        };
        call.refusal = None;
        let requested = &asked.call;
        let found = find_tool(asked, &spec, view);
        let tool = match found {
            Ok(tool) => tool,
            Err(refused) => {
                call.refusal = Some(refused);
                return;
            }
        };
        call.tool_name = tool.definition.name.clone();
        call.tool = Some(tool.clone());
        if requested.truncated {
            call.refusal = Some(invalid(Refusal::CutOff));
            return;
        }
        match check_arguments(&requested.arguments, &tool, view) {
            (arguments, None) => call.arguments = arguments,
            (arguments, Some(refusal)) => {
                call.arguments = arguments;
                call.refusal = Some(invalid(refusal));
            }
        }
    }
}

fn invalid(refusal: Refusal) -> Refused {
    Refused {
        refusal,
        why: NotExecuted::InvalidCall,
    }
}

fn find_tool(
    asked: &RequestedCall,
    spec: &TurnSpec,
    view: &View<'_>,
) -> Result<SharedTool, Refused> {
    let name = &asked.call.name;
    let toolset = spec.toolset();
    let not_found = || Refused {
        refusal: Refusal::ToolNotFound {
            name: name.to_string(),
        },
        why: NotExecuted::NotFound,
    };
    if spec.request.snapshot.is_none() {
        return view
            .registry
            .look_up(name, toolset)
            .cloned()
            .ok_or_else(not_found);
    }
    let seen = asked.seen.as_ref().ok_or_else(not_found)?;
    let tool = view
        .registry
        .look_up(&seen.tool, toolset)
        .ok_or_else(not_found)?;
    if tool.digest != seen.digest {
        return Err(Refused {
            refusal: Refusal::ToolChanged {
                name: seen.tool.to_string(),
            },
            why: NotExecuted::ToolUnavailable,
        });
    }
    Ok(tool.clone())
}

/// Parses and checks. Arguments that parse are kept even if they do not fit, for their digest.
fn check_arguments(
    text: &Bytes,
    tool: &SharedTool,
    view: &View<'_>,
) -> (Option<CheckedArguments>, Option<Refusal>) {
    let document = match Document::parse_object(text, view.json) {
        Ok(document) => document,
        Err(error) => return (None, Some(error.into())),
    };
    let text = document.dispatch_form();
    let arguments = CheckedArguments {
        digest: Digest::of(&text),
        text,
    };
    let refusal = tool.schema.check(&document).err().map(Refusal::from);
    (Some(arguments), refusal)
}
