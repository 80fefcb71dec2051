//! What a tool gave back, and what became of a call.
//!
//! [`ToolResult`] is the tool's word, [`CallResult`] the sidecar's. Every tool result passes
//! [`settle`] once; nothing else may cut, refuse or rename one. Never touches arguments.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::hooks::HookWords;
use super::ids::{ApprovalId, CallId, ToolName, UnixMillis};
use super::json::{Document, JsonLimits};
use super::limits::Limits;
use super::refusal::{CallError, ErrorLayer, Refusal, is_executor_code};

/// The code of an error that a tool gave no code of its own.
pub(super) const UNNAMED_ERROR: &str = "tool_execution_failed";

/// One piece of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Any JSON value; the model reads it as text.
    Json(Bytes),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A document inside the result.
    Resource(Resource),
    /// A document elsewhere.
    ResourceLink(ResourceLink),
}

/// Binary content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// The bytes as they are.
    pub data: Bytes,
    /// E.g. `image/png`.
    pub mime_type: String,
}

/// A document inside a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Names it.
    pub uri: String,
    /// Empty: unknown.
    pub mime_type: String,
    /// What it holds.
    pub body: ResourceBody,
}

/// What a document holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Anything else.
    Blob(Bytes),
}

/// A document elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLink {
    /// Where. Never fetched.
    pub uri: String,
    /// For programs.
    pub name: String,
    /// For people.
    pub title: String,
    /// Empty: none.
    pub description: String,
    /// Empty: unknown.
    pub mime_type: String,
    /// Size, if known.
    pub size_bytes: Option<u64>,
}

impl Content {
    /// Bytes that count against the result's limit.
    pub fn size_bytes(&self) -> usize {
        match self {
            Content::Text(text) => text.len(),
            Content::Json(text) => text.len(),
            Content::Image(media) | Content::Audio(media) => {
                media.data.len() + media.mime_type.len()
            }
            Content::Resource(resource) => {
                let body = match &resource.body {
                    ResourceBody::Text(text) => text.len(),
                    ResourceBody::Blob(blob) => blob.len(),
                };
                body + resource.uri.len() + resource.mime_type.len()
            }
            Content::ResourceLink(link) => {
                let texts = [
                    &link.uri,
                    &link.name,
                    &link.title,
                    &link.description,
                    &link.mime_type,
                ];
                texts.into_iter().map(String::len).sum()
            }
        }
    }
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// For the model, in order.
    pub contents: Vec<Content>,
    /// The tool did not do what was asked.
    pub is_error: bool,
    /// The loop ends after this turn.
    pub stop_flag: bool,
    /// With `is_error`: what went wrong.
    pub error: Option<CallError>,
    /// The same result for programs. Empty: none.
    pub structured: Bytes,
    /// Never shown to the model. Empty: none.
    pub metadata: Bytes,
    /// The executor replaced broken text.
    pub sanitised: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool gave a result.
    Success,
    /// The result is an error.
    Error,
    /// The call was cancelled.
    Cancelled,
}

/// Why no executor ran a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotExecuted {
    /// It had to be asked and nobody can answer.
    ApprovalUnavailable,
    /// An approver said no.
    DeniedByUser,
    /// The approval expired undecided.
    ApprovalExpired,
    /// Another call of the batch was refused.
    BatchRejected,
    /// An approver gave the result in the tool's place.
    AnsweredByApprover,
    /// A deny rule matched.
    DeniedByRule,
    /// The mode forbids it.
    DeniedByMode,
    /// The tool's own permission check denied.
    DeniedByTool,
    /// The arguments did not pass.
    InvalidCall,
    /// No such tool.
    NotFound,
    /// Cancelled before it was sent.
    CancelledBeforeStart,
    /// No executor took it in time, or the tool has changed.
    ToolUnavailable,
    /// The run is in a loop.
    Loop,
    /// A hook denied, or failed and counts as a denial.
    DeniedByHook,
    /// A hook gave the result in the tool's place.
    AnsweredByHook,
    /// A hook ended the run.
    RunAborted,
}

/// Whether the tool may have acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// Surely nothing happened.
    NotExecuted,
    /// The tool answered.
    Executed,
    /// It was sent and no answer is known.
    Unknown,
}

/// Where the time of a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallTiming {
    /// When the turn was accepted.
    pub received_at: UnixMillis,
    /// When an executor accepted it.
    pub started_at: Option<UnixMillis>,
    /// When it ended.
    pub finished_at: UnixMillis,
    /// Spent waiting for approvers.
    pub approval_ms: u64,
    /// Spent waiting for a slot or for an executor.
    pub queue_ms: u64,
}

/// How one call ended; exactly one for every call id that came in.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// As it came in.
    pub call_id: CallId,
    /// The tool's name, or the name that was not found.
    pub tool: ToolName,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The tool asked to end the loop.
    pub stop_flag: bool,
    /// Set exactly when the outcome is no success.
    pub error: Option<CallError>,
    /// For the model, in order.
    pub contents: Vec<Content>,
    /// As the tool sent it.
    pub structured: Bytes,
    /// As the tool sent it.
    pub metadata: Bytes,
    /// Why no executor ran it. None: one did.
    pub not_executed: Option<NotExecuted>,
    /// Whether the tool may have acted.
    pub effect: CallEffect,
    /// Size of the content before it was cut. None: whole.
    pub cut_from_bytes: Option<u64>,
    /// Broken text was replaced.
    pub sanitised: bool,
    /// How often it was sent to an executor.
    pub attempts: u32,
    /// The approval that let it run or refused it.
    pub approval: Option<ApprovalId>,
    /// When things happened.
    pub timing: CallTiming,
    /// SHA-256 of the dispatch form. None: the arguments did not parse.
    pub arguments_digest: Option<Digest>,
    /// What hooks left with it. None: nothing.
    pub hooks: Option<Box<HookWords>>,
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Digests `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Reads a digest that came from outside; None unless it has 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A tool's result after the gate's rules were applied to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The result, cut where it had to be.
    pub result: ToolResult,
    /// Size of the content before it was cut.
    pub cut_from_bytes: Option<u64>,
}

/// Applies the limits and the code rules to what a tool gave back.
///
/// Text is cut on a character boundary; what cannot be cut turns the whole result into
/// `result_too_large`. JSON that does not parse becomes `result_invalid`. A foreign or reserved error
/// code becomes `tool_execution_failed`.
pub fn settle(tool: &ToolName, result: ToolResult, limits: &Limits) -> Settled {
    if let Some(problem) = find_problem(&result, limits) {
        return refused(
            &result,
            Refusal::ResultInvalid {
                name: tool.to_string(),
                problem,
            },
        );
    }
    let mut result = result;
    settle_error(&mut result, limits);
    let size = size_bytes(&result);
    let allowed = usize::try_from(limits.result_bytes_max).unwrap_or(usize::MAX);
    if size <= allowed {
        return Settled {
            result,
            cut_from_bytes: None,
        };
    }
    match cut(&mut result, size - allowed) {
        true => Settled {
            result,
            cut_from_bytes: Some(size as u64),
        },
        false => refused(
            &result,
            Refusal::ResultTooLarge {
                name: tool.to_string(),
                allowed: limits.result_bytes_max,
                actual: size as u64,
            },
        ),
    }
}

/// The result that stands in place of one that cannot be taken. A stop still holds.
fn refused(original: &ToolResult, refusal: Refusal) -> Settled {
    Settled {
        result: ToolResult {
            is_error: true,
            stop_flag: original.stop_flag,
            error: Some(refusal.into_error()),
            ..ToolResult::default()
        },
        cut_from_bytes: None,
    }
}

fn size_bytes(result: &ToolResult) -> usize {
    let contents: usize = result.contents.iter().map(Content::size_bytes).sum();
    contents + result.structured.len()
}

/// Why a result is no good, whatever its size. None: it is.
pub(super) fn find_problem(result: &ToolResult, limits: &Limits) -> Option<String> {
    if result.contents.len() as u64 > limits.result_parts_max {
        return Some(format!("more than {} parts", limits.result_parts_max));
    }
    if result.metadata.len() as u64 > limits.result_metadata_bytes_max {
        let allowed = limits.result_metadata_bytes_max;
        return Some(format!("metadata of more than {allowed} bytes"));
    }
    let json = JsonLimits {
        bytes_max: usize::MAX,
        depth_max: u16::try_from(limits.json_depth_max).unwrap_or(u16::MAX),
        nodes_max: usize::MAX,
    };
    let parts = result.contents.iter().filter_map(|part| match part {
        Content::Json(text) => Some(text),
        Content::Text(_)
        | Content::Image(_)
        | Content::Audio(_)
        | Content::Resource(_)
        | Content::ResourceLink(_) => None,
    });
    for text in parts.chain([&result.structured, &result.metadata]) {
        if text.is_empty() {
            continue;
        }
        if let Err(error) = Document::parse(text, &json) {
            return Some(error.to_string());
        }
    }
    None
}

/// Gives an error result an error, with a code that is the executor's own or ours.
fn settle_error(result: &mut ToolResult, limits: &Limits) {
    if !result.is_error {
        result.error = None;
        return;
    }
    let mut error = result.error.take().unwrap_or_else(|| CallError {
        code: Cow::Borrowed(""),
        layer: ErrorLayer::Tool,
        message_for_model: first_text(&result.contents),
        detail: String::new(),
        path: String::new(),
        retryable: false,
        retry_after_ms: None,
    });
    error.layer = ErrorLayer::Tool;
    if !is_executor_code(&error.code) {
        error.code = Cow::Borrowed(UNNAMED_ERROR);
    }
    if error.message_for_model.is_empty() {
        error.message_for_model = match first_text(&result.contents) {
            text if text.is_empty() => "the tool failed".to_owned(),
            text => text,
        };
    }
    cut_text(&mut error.message_for_model, limits.error_message_bytes_max);
    cut_text(&mut error.detail, limits.error_detail_bytes_max);
    cut_text(&mut error.path, limits.error_message_bytes_max);
    result.error = Some(error);
}

fn first_text(contents: &[Content]) -> String {
    contents
        .iter()
        .find_map(|part| match part {
            Content::Text(text) => Some(text.to_string()),
            Content::Json(_)
            | Content::Image(_)
            | Content::Audio(_)
            | Content::Resource(_)
            | Content::ResourceLink(_) => None,
        })
        .unwrap_or_default()
}

/// Cuts `text` to at most `bytes_max` bytes, on a character boundary.
pub fn cut_text(text: &mut String, bytes_max: u64) {
    let max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
    }
}

/// Takes `excess` bytes off the text parts, the last ones first. False: there is not enough text.
fn cut(result: &mut ToolResult, mut excess: usize) -> bool {
    let text: usize = result.contents.iter().map(text_len).sum();
    if text < excess {
        return false;
    }
    for part in result.contents.iter_mut().rev() {
        if excess == 0 {
            break;
        }
        if let Content::Text(text) = part {
            let keep = text.floor_char_boundary(text.len().saturating_sub(excess));
            excess = excess.saturating_sub(text.len() - keep);
            text.truncate(keep);
        }
    }
    true
}

fn text_len(part: &Content) -> usize {
    match part {
        Content::Text(text) => text.len(),
        Content::Json(_)
        | Content::Image(_)
        | Content::Audio(_)
        | Content::Resource(_)
        | Content::ResourceLink(_) => 0,
    }
}

/// The same results, cut so that all together fit into `budget` bytes.
///
/// The largest are cut first and say so. What only programs and operators read goes first; then parts
/// from the last one on, text at its end and any other part as a whole, with a line in its place that
/// says how much was there; the error's own words go last. Those lines stand also in a budget that has
/// no room for them.
pub fn fit(results: &[Arc<CallResult>], budget: usize) -> Vec<Arc<CallResult>> {
    let mut fitted = results.to_vec();
    let mut sizes: Vec<usize> = fitted.iter().map(|result| size_of(result)).collect();
    let mut total: usize = sizes.iter().sum();
    let mut order: Vec<usize> = (0..fitted.len()).collect();
    order.sort_by_key(|position| std::cmp::Reverse(sizes.get(*position).copied()));
    for position in order {
        if total <= budget {
            break;
        }
        let (Some(result), Some(size)) = (fitted.get_mut(position), sizes.get_mut(position)) else {
            continue;
        };
        let cut = cut_to(result, size.saturating_sub(total - budget));
        total = total - *size + size_of(&cut);
        *size = size_of(&cut);
        *result = Arc::new(cut);
    }
    fitted
}

fn size_of(result: &CallResult) -> usize {
    let error = result.error.as_ref().map_or(0, |error| {
        error.message_for_model.len() + error.detail.len() + error.path.len()
    });
    contents_size(result) + result.structured.len() + result.metadata.len() + error
}

fn contents_size(result: &CallResult) -> usize {
    result.contents.iter().map(Content::size_bytes).sum()
}

/// The result with at most about `keep` bytes.
fn cut_to(result: &CallResult, keep: usize) -> CallResult {
    let mut cut = result.clone();
    let original = contents_size(&cut) + cut.structured.len();
    // It cannot be cut in the middle.
    cut.structured = Bytes::new();
    if cut.metadata.len() > keep {
        cut.metadata = Bytes::new();
    }
    let mut excess = size_of(&cut).saturating_sub(keep);
    if let Some(error) = &mut cut.error {
        shorten(&mut error.detail, &mut excess);
    }
    for part in cut.contents.iter_mut().rev() {
        if excess == 0 {
            break;
        }
        let before = part.size_bytes();
        let shorter = match part {
            Content::Text(text) => {
                let end = text.floor_char_boundary(text.len().saturating_sub(excess));
                text.get(..end).unwrap_or_default().to_owned()
            }
            Content::Json(_)
            | Content::Image(_)
            | Content::Audio(_)
            | Content::Resource(_)
            | Content::ResourceLink(_) => format!("[{before} bytes left out]"),
        };
        // A line about a part that is smaller than the line helps nobody.
        if shorter.len() < before {
            excess = excess.saturating_sub(before - shorter.len());
            *part = Content::Text(shorter);
        }
    }
    if let Some(error) = &mut cut.error {
        shorten(&mut error.message_for_model, &mut excess);
        shorten(&mut error.path, &mut excess);
    }
    if contents_size(&cut) < original {
        cut.cut_from_bytes.get_or_insert(original as u64);
    }
    cut
}

/// Takes at most `excess` bytes off `text`, a few more where a character would break.
fn shorten(text: &mut String, excess: &mut usize) {
    let before = text.len();
    cut_text(text, before.saturating_sub(*excess) as u64);
    *excess = excess.saturating_sub(before - text.len());
}
