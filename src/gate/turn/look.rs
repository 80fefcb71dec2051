//! Stage B: is the tool registered, do the arguments parse, do they fit?
//!
//! The first failure is the call's error. Never sends anything.

use super::input::CheckedArguments;
use super::{TurnMachine, View};
use crate::gate::admission::RequestedCall;
use crate::gate::ids::CallIndex;
use crate::gate::json::{Document, JsonLimits};
use crate::gate::loop_detector::{Round, Signature};
use crate::gate::record::TurnSpec;
use crate::gate::refusal::Refusal;
use crate::gate::registry::Registry;
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
        call.is_hidden = false;
        let requested = &asked.call;
        let compares = view.settings.loops.compares_calls();
        let found = find_tool(asked, &spec, view.registry);
        let tool = match found {
            Ok(tool) => tool,
            Err(refused) => {
                call.refusal = Some(refused);
                call.is_hidden = view.registry.names_secrets();
                if compares {
                    call.signature = sign(asked, None, view.json);
                }
                return;
            }
        };
        call.tool_name = tool.definition.name.clone();
        call.tool = Some(tool.clone());
        if requested.truncated {
            call.refusal = Some(invalid(Refusal::CutOff));
            if compares {
                call.signature = sign(asked, Some(&tool), view.json);
            }
            return;
        }
        let text = &requested.arguments;
        let document = match Document::parse_object(text, view.json) {
            Ok(document) => document,
            Err(error) => {
                call.arguments = None;
                call.refusal = Some(invalid(error.into()));
                if compares {
                    call.signature = Signature::of_raw(name_of(&tool), Some(&tool), text);
                }
                return;
            }
        };
        // Arguments that parse are kept even if they do not fit, for their digest.
        let arguments = in_dispatch_form(&document);
        if compares {
            let known = Some((&arguments.text, &arguments.digest));
            call.signature = Signature::of_call(name_of(&tool), Some(&tool), &document, known);
        }
        call.arguments = Some(arguments);
        let refusal = tool.schema.check(&document).err().map(Refusal::from);
        let has_secrets = !tool.definition.secret_pointers.is_empty();
        call.is_hidden = has_secrets && refusal.is_some();
        call.refusal = refusal.map(invalid);
    }
}

fn name_of(tool: &SharedTool) -> &str {
    tool.definition.name.as_str()
}

fn in_dispatch_form(document: &Document) -> CheckedArguments {
    let text = document.dispatch_form();
    CheckedArguments {
        digest: Digest::of(&text),
        text,
    }
}

/// What a turn called, from its words alone, as the look signs it.
pub fn steps_of(spec: &TurnSpec, registry: &Registry, json: &JsonLimits) -> Round {
    let mut round = Round::new(spec.round);
    for (asked, position) in spec.request.calls.iter().zip(0..) {
        let tool = find_tool(asked, spec, registry).ok();
        if let Some(signature) = sign(asked, tool.as_ref(), json) {
            round.observe(CallIndex(position), signature);
        }
    }
    round
}

/// The signature of a call whose arguments nobody has read.
fn sign(asked: &RequestedCall, tool: Option<&SharedTool>, json: &JsonLimits) -> Option<Signature> {
    let name = tool.map_or(asked.call.name.as_str(), name_of);
    let tool = tool.map(AsRef::as_ref);
    match Document::parse_object(&asked.call.arguments, json) {
        Ok(document) => Signature::of_call(name, tool, &document, None),
        Err(_) => Signature::of_raw(name, tool, &asked.call.arguments),
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
    registry: &Registry,
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
        let tool = registry.look_up(name, toolset).cloned();
        return tool.ok_or_else(not_found);
    }
    let seen = asked.seen.as_ref().ok_or_else(not_found)?;
    let tool = registry.look_up(&seen.tool, toolset);
    let tool = tool.ok_or_else(not_found)?;
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
