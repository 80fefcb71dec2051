//! Messages and tool lists in the forms of model providers: text in, calls out, and back.
//!
//! One file per form. Never parses a call's arguments: they are text until the look.

mod openai_chat;

use bytes::Bytes;

use super::call::ToolCall;
use super::ids::{CallId, ToolName};
use super::result::{CallResult, Content};
use super::tool::SharedTool;

/// Largest message of a model that is read, in bytes.
pub const MESSAGE_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// A provider's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderFormat {
    /// OpenAI Chat Completions.
    OpenAiChat,
}

/// Why a provider's message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {problem}")]
pub struct MessageError {
    /// Where in the message, from `$`.
    pub path: String,
    /// What is wrong.
    pub problem: String,
}

/// A tool list in a provider's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The provider's `tools` value, an array.
    pub tools_json: Bytes,
    /// Each tool under the name that the model sees.
    pub names: Vec<ToolName>,
}

/// What to append to the history, and what the form could not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Appended {
    /// One per call, in call order.
    pub messages_json: Vec<Bytes>,
    /// What became a placeholder.
    pub losses: Vec<Loss>,
}

/// One thing that a form could not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The call.
    pub call_id: CallId,
    /// Where in the result, from `$`.
    pub path: String,
    /// The content's kind.
    pub keyword: &'static str,
}

impl ProviderFormat {
    /// The word that people see.
    pub fn as_str(self) -> &'static str {
        match self {
            ProviderFormat::OpenAiChat => "openai_chat",
        }
    }

    /// The calls of a finished message, in order.
    ///
    /// `finish_reason` is the provider's own word; one that means "cut off" marks the last call.
    ///
    /// # Errors
    /// [`MessageError`]: the message is not of this form.
    pub fn read_calls(
        self,
        message: &Bytes,
        finish_reason: &str,
    ) -> Result<Vec<ToolCall>, MessageError> {
        match self {
            ProviderFormat::OpenAiChat => openai_chat::read_calls(message, finish_reason),
        }
    }

    /// The tool list for a model.
    pub fn export_tools(self, tools: &[SharedTool]) -> Export {
        match self {
            ProviderFormat::OpenAiChat => openai_chat::export_tools(tools),
        }
    }

    /// The messages to append after a turn.
    pub fn write_results<'a>(self, results: impl Iterator<Item = &'a CallResult>) -> Appended {
        match self {
            ProviderFormat::OpenAiChat => openai_chat::write_results(results),
        }
    }
}

/// What a model reads of a result that has no text of its own form: one line per part.
fn placeholder(part: &Content) -> Option<(&'static str, String)> {
    match part {
        Content::Text(_) | Content::Json(_) => None,
        Content::Image(media) => Some(("image", format!("[image {}]", media.mime_type))),
        Content::Audio(media) => Some(("audio", format!("[audio {}]", media.mime_type))),
        Content::Resource(resource) => Some(("resource", format!("[resource {}]", resource.uri))),
        Content::ResourceLink(link) => Some((
            "resource_link",
            format!("[link {}: {}]", link.name, link.uri),
        )),
    }
}
