//! All integration tests, in one binary.
//!
//! Never starts a process or opens a socket.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod bfcl;
mod inputs;
mod json_properties;
mod json_schema_suite;
mod small_stacks;
mod vectors_json;
