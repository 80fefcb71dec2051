//! How a text fails to be the JSON that Callgate accepts.
//!
//! Never holds a value of the text: a message may reach a log, arguments may not.

/// An error on its way out of the reader: one word, so that success costs nothing to return.
pub(super) type Fault = Box<JsonError>;

/// Why a text was refused. Offsets count bytes from the start of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON.
    #[error("not valid json at byte {offset}: {reason}")]
    Invalid {
        /// Where the reader stopped.
        offset: usize,
        /// What it missed there.
        reason: &'static str,
    },
    /// The text is JSON, but not an object.
    #[error("arguments must be a json object")]
    NotObject,
    /// The text ended inside a value.
    #[error("json ends early at byte {offset}")]
    Truncated {
        /// The length of the text.
        offset: usize,
    },
    /// An object holds one name twice, however the two are spelled.
    #[error("duplicate key `{key}` at {path}")]
    DuplicateKey {
        /// The name, escapes resolved.
        key: String,
        /// The `$` path of the property.
        path: String,
    },
    /// A lone surrogate escape, or bytes that are not UTF-8.
    #[error("invalid unicode at byte {offset}")]
    InvalidUnicode {
        /// The first byte of the offence.
        offset: usize,
    },
    /// `NaN`, an infinity, or a number beyond the range of a double.
    #[error("number out of range at byte {offset}")]
    NumberOutOfRange {
        /// The first byte of the number.
        offset: usize,
    },
    /// The text is longer than the limit.
    #[error("json is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        bytes_max: usize,
    },
    /// The text holds more values than the limit. Shares its code with [`JsonError::TooLarge`].
    #[error("json holds more than {nodes_max} values")]
    TooManyNodes {
        /// The limit, in values.
        nodes_max: usize,
    },
    /// Arrays and objects are nested deeper than the limit.
    #[error("json is nested deeper than {depth_max} levels at byte {offset}")]
    TooDeep {
        /// The limit, in levels; the root counts as one.
        depth_max: u16,
        /// The bracket that was one too many.
        offset: usize,
    },
}

impl JsonError {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            JsonError::Invalid { .. } => "json_invalid",
            JsonError::NotObject => "json_not_object",
            JsonError::Truncated { .. } => "json_truncated",
            JsonError::DuplicateKey { .. } => "json_duplicate_key",
            JsonError::InvalidUnicode { .. } => "json_invalid_unicode",
            JsonError::NumberOutOfRange { .. } => "json_number_out_of_range",
            JsonError::TooLarge { .. } | JsonError::TooManyNodes { .. } => "json_too_large",
            JsonError::TooDeep { .. } => "json_too_deep",
        }
    }

    /// Where in the value, as a `$` path. Empty where only a byte offset is known.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            JsonError::DuplicateKey { path, .. } => path,
            JsonError::NotObject => "$",
            JsonError::Invalid { .. }
            | JsonError::Truncated { .. }
            | JsonError::InvalidUnicode { .. }
            | JsonError::NumberOutOfRange { .. }
            | JsonError::TooLarge { .. }
            | JsonError::TooManyNodes { .. }
            | JsonError::TooDeep { .. } => "",
        }
    }
}
