//! Exact JSON: one reader, one flat tree, two ways to write it.
//!
//! Never goes through `serde_json::Value`, which rounds numbers and keeps the last of two equal
//! keys. The order of reading: `document`, `reader`, `value`, `writer`, `number`.

mod arena;
mod document;
mod error;
mod escape;
mod limits;
mod number;
pub(crate) mod path;
mod reader;
mod scan;
mod value;
mod writer;

pub use document::Document;
pub use error::JsonError;
pub use limits::JsonLimits;
pub use number::Number;
pub(crate) use value::pointer_name;
pub use value::{Entries, Entry, Items, Kind, Value};
pub(crate) use writer::write_string;
