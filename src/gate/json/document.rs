//! A text together with its arena: the arguments of one call, or a schema.
//!
//! Never changes after it was read, so it can be shared.

use bytes::Bytes;

use super::arena::Arena;
use super::error::JsonError;
use super::limits::JsonLimits;
use super::reader;
use super::value::{Kind, Value};
use super::writer::{self, Form};

/// JSON that was read exactly: no duplicate keys, every number token kept.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) arena: Arena,
    /// The text already is its own dispatch form.
    canonical: bool,
}

impl Document {
    /// Reads one JSON value of any kind.
    ///
    /// # Errors
    /// Any [`JsonError`] except `NotObject`; the earliest offence in the text, except that bad
    /// UTF-8 anywhere comes first and a duplicate key is found where its object closes.
    pub fn parse(text: &Bytes, limits: &JsonLimits) -> Result<Document, JsonError> {
        let (arena, canonical) = reader::read(text, limits).map_err(|fault| *fault)?;
        Ok(Document { arena, canonical })
    }

    /// Reads one JSON object. A text that is empty or blank is the object without entries.
    ///
    /// # Errors
    /// As [`Document::parse`], and `NotObject` for any other kind of value.
    pub fn parse_object(text: &Bytes, limits: &JsonLimits) -> Result<Document, JsonError> {
        let blank = text
            .iter()
            .all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        if blank && text.len() <= limits.bytes_max {
            return Document::parse(&Bytes::from_static(b"{}"), &JsonLimits::default());
        }
        let document = Document::parse(text, limits)?;
        match document.root().kind() {
            Kind::Object => Ok(document),
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String | Kind::Array => {
                Err(JsonError::NotObject)
            }
        }
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Value<'_> {
        Value {
            document: self,
            index: 0,
        }
    }

    /// The text as it was read.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.arena.text
    }

    /// The form that is digested, audited, shown and sent.
    ///
    /// Keys sorted by code point, no blanks, number tokens as written, one escape form. Does not
    /// copy if the text already has this form.
    #[must_use]
    pub fn dispatch_form(&self) -> Bytes {
        if self.canonical {
            return self.arena.text.clone();
        }
        Bytes::from(writer::write(&self.arena, Form::Dispatch))
    }

    /// The form that the loop window compares: the dispatch form with numbers by exact value.
    #[must_use]
    pub fn signature_form(&self) -> Vec<u8> {
        writer::write(&self.arena, Form::Signature)
    }
}
