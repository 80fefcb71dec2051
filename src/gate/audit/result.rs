//! The digest of a result: SHA-256 over its canonical JSON.
//!
//! Covers everything that the tool said, the part for programs and the metadata included. Never
//! covers what only this sidecar measured, such as timing.

use std::borrow::Cow;

use super::object::Object;
use super::words;
use crate::gate::json::write_string;
use crate::gate::refusal::CallError;
use crate::gate::result::{CallResult, Content, Digest, ResourceBody, ToolResult};

/// A result before a hook kept it from the model. Owned: one did.
pub(super) fn as_it_came(result: &CallResult) -> Cow<'_, CallResult> {
    let kept_back = result
        .hooks
        .as_ref()
        .and_then(|words| words.kept_back.as_ref());
    let Some(kept_back) = kept_back else {
        return Cow::Borrowed(result);
    };
    let mut came = result.clone();
    came.contents.clone_from(&kept_back.contents);
    came.structured.clone_from(&kept_back.structured);
    if let Some(error) = &mut came.error {
        error.message_for_model.clone_from(&kept_back.message);
    }
    Cow::Owned(came)
}

/// The digest of a call's result.
pub fn result_digest(result: &CallResult) -> Digest {
    let mut out = Vec::with_capacity(256);
    write_result(result, &mut out);
    Digest::of(&out)
}

/// The canonical form of a result.
pub(super) fn write_result(result: &CallResult, out: &mut Vec<u8>) {
    Object::write(out, |object| {
        if !result.contents.is_empty() {
            write_contents(&result.contents, object.member("contents"));
        }
        write_error(result.error.as_ref(), object);
        text_of(object, "metadata", &result.metadata);
        object.text("outcome", words::outcome(result.outcome));
        text_of(object, "structured", &result.structured);
    });
}

/// The digest of what a tool, or an approver in its place, said, before the gate looked at it.
pub fn answer_digest(answer: &ToolResult) -> Digest {
    let mut out = Vec::with_capacity(256);
    Object::write(&mut out, |object| {
        if !answer.contents.is_empty() {
            write_contents(&answer.contents, object.member("contents"));
        }
        write_error(answer.error.as_ref(), object);
        object.flag("is_error", answer.is_error);
        text_of(object, "metadata", &answer.metadata);
        if answer.stop_flag {
            object.flag("stop_flag", true);
        }
        text_of(object, "structured", &answer.structured);
    });
    Digest::of(&out)
}

fn write_error(error: Option<&CallError>, object: &mut Object<'_>) {
    if let Some(error) = error {
        object.object("error", |object| {
            object.text("code", &error.code);
            object.text_if("detail", &error.detail);
            object.text("message", &error.message_for_model);
        });
    }
}

/// JSON of a tool goes in as the text that it sent, which need not be canonical.
fn text_of(object: &mut Object<'_>, name: &'static str, text: &[u8]) {
    if !text.is_empty() {
        object.text(name, &String::from_utf8_lossy(text));
    }
}

fn write_contents(contents: &[Content], out: &mut Vec<u8>) {
    for (number, content) in (0_usize..).zip(contents) {
        out.push(if number == 0 { b'[' } else { b',' });
        Object::write(out, |object| write_content(content, object));
    }
    out.push(b']');
}

/// Binary data goes in as its own digest.
fn write_content(content: &Content, object: &mut Object<'_>) {
    match content {
        Content::Text(text) => object.text("text", text),
        Content::Json(text) => text_of(object, "json", text),
        Content::Image(media) => object.object("image", |object| {
            object.hex("data_digest", &Digest::of(&media.data).0);
            object.text("mime_type", &media.mime_type);
        }),
        Content::Audio(media) => object.object("audio", |object| {
            object.hex("data_digest", &Digest::of(&media.data).0);
            object.text("mime_type", &media.mime_type);
        }),
        Content::Resource(resource) => object.object("resource", |object| {
            match &resource.body {
                ResourceBody::Blob(blob) => object.hex("data_digest", &Digest::of(blob).0),
                ResourceBody::Text(_) => {}
            }
            object.text("mime_type", &resource.mime_type);
            match &resource.body {
                ResourceBody::Text(text) => object.text("text", text),
                ResourceBody::Blob(_) => {}
            }
            object.text("uri", &resource.uri);
        }),
        Content::ResourceLink(link) => {
            let out = object.member("resource_link");
            let texts = [
                &link.uri,
                &link.name,
                &link.title,
                &link.description,
                &link.mime_type,
            ];
            for (number, text) in (0_usize..).zip(texts) {
                out.push(if number == 0 { b'[' } else { b',' });
                write_string(text, out);
            }
            out.push(b']');
        }
    }
}
