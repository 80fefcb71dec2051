//! What makes two calls, or two results, the same.
//!
//! Keys in any order and numbers in any spelling are the same; everything else is exact. Never keeps
//! what was hashed.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::gate::json::Document;
use crate::gate::result::{CallOutcome, CallResult, Content, Digest, ResourceBody};
use crate::gate::tool::Tool;

/// Bytes kept of a hash: enough that no two calls are ever the same by chance.
const MARK_BYTES: usize = 16;

/// A call's tool and arguments, as one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature([u8; MARK_BYTES]);

/// What a result says, as one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultMark([u8; MARK_BYTES]);

/// What of the arguments is hashed. The numbers keep one kind from standing for another.
#[derive(Clone, Copy)]
enum Form {
    Whole = 1,
    Keys = 2,
    Raw = 3,
}

impl Signature {
    /// The signature of a call whose arguments parse. None: the tool is exempt.
    ///
    /// `known`: the digest of the dispatch form, which most calls have already.
    pub fn of_call(
        name: &str,
        tool: Option<&Tool>,
        arguments: &Document,
        known: Option<(&Bytes, &Digest)>,
    ) -> Option<Self> {
        let definition = tool.map(|tool| &tool.definition);
        if definition.is_some_and(|definition| definition.loop_exempt) {
            return None;
        }
        let keys = definition.map_or(&[][..], |definition| &definition.loop_key);
        if !keys.is_empty() {
            return Some(Self::of(name, Form::Keys, &keyed(arguments, keys)));
        }
        let form = arguments.signature_form();
        let digest = match known {
            // Mostly no number is written in two ways, and the long text is hashed only once.
            Some((dispatch, digest)) if form == **dispatch => *digest,
            Some(_) | None => Digest::of(&form),
        };
        Some(Self::of(name, Form::Whole, &digest))
    }

    /// The signature of a call whose arguments do not parse. None: the tool is exempt.
    pub fn of_raw(name: &str, tool: Option<&Tool>, text: &[u8]) -> Option<Self> {
        let is_exempt = tool.is_some_and(|tool| tool.definition.loop_exempt);
        (!is_exempt).then(|| Self::of(name, Form::Raw, &Digest::of(text)))
    }

    fn of(name: &str, form: Form, digest: &Digest) -> Self {
        let mut hash = Sha256::new();
        hash.update([form as u8]);
        hash.update(digest.0);
        // Last, so that no length is needed.
        hash.update(name);
        Self(shortened(hash))
    }
}

/// The members that the tool names, in its order; one that is absent differs from every value.
fn keyed(arguments: &Document, keys: &[String]) -> Digest {
    let mut hash = Sha256::new();
    for key in keys {
        match arguments.root().pointer(key) {
            None => hash.update([0]),
            Some(value) => {
                let form = value.signature_form();
                hash.update([1]);
                hash.update((form.len() as u64).to_le_bytes());
                hash.update(form);
            }
        }
    }
    Digest(hash.finalize().into())
}

fn shortened(hash: Sha256) -> [u8; MARK_BYTES] {
    let whole: [u8; 32] = hash.finalize().into();
    let mut short = [0; MARK_BYTES];
    for (to, from) in short.iter_mut().zip(whole) {
        *to = from;
    }
    short
}

impl ResultMark {
    /// The mark of what the model reads of a result; ids and moments say nothing.
    pub fn of(result: &CallResult) -> Self {
        let mut hash = Sha256::new();
        let outcome = match result.outcome {
            CallOutcome::Success => 1_u8,
            CallOutcome::Error => 2,
            CallOutcome::Cancelled => 3,
        };
        hash.update([outcome]);
        let mut part = |kind: u8, bytes: &[u8]| {
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        if let Some(error) = &result.error {
            part(1, error.code.as_bytes());
            part(2, error.message_for_model.as_bytes());
        }
        for content in &result.contents {
            match content {
                Content::Text(text) => part(3, text.as_bytes()),
                Content::Json(text) => part(4, text),
                Content::Image(media) => part(5, &media.data),
                Content::Audio(media) => part(6, &media.data),
                Content::Resource(resource) => {
                    part(7, resource.uri.as_bytes());
                    match &resource.body {
                        ResourceBody::Text(text) => part(8, text.as_bytes()),
                        ResourceBody::Blob(blob) => part(9, blob),
                    }
                }
                Content::ResourceLink(link) => part(10, link.uri.as_bytes()),
            }
        }
        part(11, &result.structured);
        Self(shortened(hash))
    }
}
