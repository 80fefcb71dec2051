//! OpenAI Chat Completions: assistant messages in, tool messages and `tools` out.
//!
//! Arguments are a string inside the message and stay one. Never guesses a name: an alias is resolved
//! by the snapshot's table only.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Appended, Export, Loss, MESSAGE_BYTES_MAX, MessageError, placeholder};
use crate::gate::call::ToolCall;
use crate::gate::ids::{CallId, IdError, ToolName};
use crate::gate::json::{Document, JsonError, JsonLimits, Kind, Value};
use crate::gate::result::{CallResult, Content};
use crate::gate::tool::SharedTool;

/// Longest function name that the provider takes.
const NAME_MAX: usize = 64;

fn limits() -> JsonLimits {
    JsonLimits {
        bytes_max: usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX),
        depth_max: 64,
        nodes_max: 500_000,
    }
}

fn error(path: impl Into<String>, problem: impl Into<String>) -> MessageError {
    MessageError {
        path: path.into(),
        problem: problem.into(),
    }
}

pub(super) fn read_calls(
    message: &Bytes,
    finish_reason: &str,
) -> Result<Vec<ToolCall>, MessageError> {
    if message.trim_ascii().is_empty() {
        return Err(error("$", "is missing"));
    }
    let document = Document::parse_object(message, &limits()).map_err(|problem| {
        match problem == JsonError::NotObject {
            true => error("$", "must be an object"),
            false => error("$", format!("cannot be read: {problem}")),
        }
    })?;
    let root = document.root();
    match root.get("role").map(|role| role.as_str()) {
        Some(Some("assistant")) => {}
        None => check_is_message(root)?,
        Some(_) => return Err(error("$.role", "must be `assistant`")),
    }
    // A call in the older form must not pass for none.
    if root
        .get("function_call")
        .is_some_and(|call| call.kind() != Kind::Null)
    {
        return Err(error("$.function_call", "is not read: use `tool_calls`"));
    }
    let mut calls = match root.get("tool_calls") {
        None => Vec::new(),
        Some(list) if list.kind() == Kind::Null => Vec::new(),
        Some(list) if list.kind() == Kind::Array => list
            .items()
            .enumerate()
            .map(|(position, item)| read_call(position, item))
            .collect::<Result<Vec<_>, _>>()?,
        Some(_) => return Err(error("$.tool_calls", "must be an array")),
    };
    if finish_reason == "length"
        && let Some(last) = calls.last_mut()
    {
        last.truncated = true;
    }
    Ok(calls)
}

/// What has no role must look like a message all the same: its calls would pass for none.
fn check_is_message(root: Value<'_>) -> Result<(), MessageError> {
    let has = |key| root.get(key).is_some();
    match (has("choices"), has("content") || has("tool_calls")) {
        (true, _) => Err(error(
            "$.choices",
            "is a whole response: pass `choices[0].message`",
        )),
        (false, false) => Err(error("$.role", "is missing")),
        (false, true) => Ok(()),
    }
}

fn read_call(position: usize, item: Value<'_>) -> Result<ToolCall, MessageError> {
    let path = format!("$.tool_calls[{position}]");
    match item.get("type").map(|kind| kind.as_str()) {
        Some(Some("function")) | None => {}
        Some(_) => return Err(error(format!("{path}.type"), "must be `function`")),
    }
    let function = item
        .get("function")
        .filter(|function| function.kind() == Kind::Object)
        .ok_or_else(|| error(format!("{path}.function"), "must be an object"))?;
    let name = function
        .get("name")
        .and_then(|name| name.as_str())
        .ok_or_else(|| error(format!("{path}.function.name"), "must be a string"))?;
    let arguments = match function.get("arguments") {
        None => "",
        Some(text) if text.kind() == Kind::Null => "",
        Some(text) => text
            .as_str()
            .ok_or_else(|| error(format!("{path}.function.arguments"), "must be a string"))?,
    };
    Ok(ToolCall {
        call_id: read_id(&path, item)?,
        name: ToolName::trusted(name),
        arguments: Bytes::copy_from_slice(arguments.as_bytes()),
        truncated: false,
    })
}

/// The id as it came; an empty one is judged at admission.
fn read_id(path: &str, item: Value<'_>) -> Result<CallId, MessageError> {
    let id = match item.get("id") {
        None => "",
        Some(id) if id.kind() == Kind::Null => "",
        Some(id) => id
            .as_str()
            .ok_or_else(|| error(format!("{path}.id"), "must be a string"))?,
    };
    match CallId::parse(id) {
        Ok(id) => Ok(id),
        Err(IdError::Empty) => Ok(CallId::trusted("")),
        Err(problem) => Err(error(format!("{path}.id"), problem.to_string())),
    }
}

pub(super) fn export_tools(tools: &[SharedTool]) -> Export {
    let names = aliases(tools);
    let mut out = String::from("[");
    for (tool, name) in tools.iter().zip(&names) {
        if out.len() > 1 {
            out.push(',');
        }
        let definition = &tool.definition;
        let parameters = match definition.parameters.is_empty() {
            true => "{\"type\":\"object\"}".to_owned(),
            false => String::from_utf8_lossy(&definition.parameters).into_owned(),
        };
        // The schema is text that was checked; it goes in as it stands, digits and order kept.
        out.push_str(&format!(
            "{{\"type\":\"function\",\"function\":{{\"name\":{},\"description\":{},\"parameters\":{}}}}}",
            quoted(name.as_str()),
            quoted(&definition.description),
            parameters.trim(),
        ));
    }
    out.push(']');
    Export {
        tools_json: Bytes::from(out),
        names,
    }
}

/// A name per tool that the provider takes: the tool's own, or one made from it that is free.
fn aliases(tools: &[SharedTool]) -> Vec<ToolName> {
    let own = tools.iter().map(|tool| tool.definition.name.as_str());
    let mut taken: BTreeMap<String, ()> = own
        .filter(|name| is_allowed(name))
        .map(|name| (name.to_owned(), ()))
        .collect();
    tools
        .iter()
        .map(|tool| {
            let name = tool.definition.name.as_str();
            if is_allowed(name) {
                return tool.definition.name.clone();
            }
            let alias = free_alias(name, &taken);
            taken.insert(alias.clone(), ());
            ToolName::trusted(alias)
        })
        .collect()
}

fn is_allowed(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

fn free_alias(name: &str, taken: &BTreeMap<String, ()>) -> String {
    let plain: String = name
        .chars()
        .take(NAME_MAX)
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect();
    if !taken.contains_key(&plain) {
        return plain;
    }
    let mut number = 2_u32;
    loop {
        let suffix = format!("_{number}");
        let stem: String = plain.chars().take(NAME_MAX - suffix.len()).collect();
        let candidate = format!("{stem}{suffix}");
        if !taken.contains_key(&candidate) {
            return candidate;
        }
        number += 1;
    }
}

pub(super) fn write_results<'a>(results: impl Iterator<Item = &'a CallResult>) -> Appended {
    let mut appended = Appended::default();
    for result in results {
        let text = text_of(result, &mut appended.losses);
        let message = format!(
            "{{\"role\":\"tool\",\"tool_call_id\":{},\"content\":{}}}",
            quoted(result.call_id.as_str()),
            quoted(&text),
        );
        appended.messages_json.push(Bytes::from(message));
    }
    appended
}

/// What the model reads: the parts, one per line. The form has no error flag, so an error says so.
fn text_of(result: &CallResult, losses: &mut Vec<Loss>) -> String {
    let mut lines = Vec::new();
    if let Some(error) = &result.error {
        lines.push(format!("error {}: {}", error.code, error.message_for_model));
    }
    for (position, part) in result.contents.iter().enumerate() {
        if let Some((keyword, line)) = placeholder(part) {
            losses.push(Loss {
                call_id: result.call_id.clone(),
                path: format!("$.contents[{position}]"),
                keyword,
            });
            lines.push(line);
            continue;
        }
        match part {
            // The error's own words are often the first part as well: once is enough.
            Content::Text(text) if position == 0 && says(result, text) => {}
            Content::Text(text) => lines.push(text.clone()),
            Content::Json(json) => lines.push(String::from_utf8_lossy(json).into_owned()),
            Content::Image(_)
            | Content::Audio(_)
            | Content::Resource(_)
            | Content::ResourceLink(_) => {}
        }
    }
    if lines.is_empty() && !result.structured.is_empty() {
        lines.push(String::from_utf8_lossy(&result.structured).into_owned());
    }
    lines.join("\n")
}

fn says(result: &CallResult, text: &str) -> bool {
    result
        .error
        .as_ref()
        .is_some_and(|error| error.message_for_model == text)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
