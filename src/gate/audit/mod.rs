//! The audit: which record follows from which fact, how records are chained, and how that is verified.
//!
//! Pure, like all of the gate: the store keeps the chain, an operator's program verifies it without a
//! sidecar. Never changes a record that was made. The order of reading: `derive`, `calls`, `chain`,
//! `verify`, `checkpoint`.

mod calls;
mod chain;
mod checkpoint;
mod derive;
mod draft;
mod dropped;
mod filter;
mod line;
pub mod note;
mod object;
mod result;
mod verify;
mod words;

pub use chain::{Draft, GENESIS, Head, drafts, link};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use derive::derive;
pub use dropped::{SEGMENT_DROPPED, dropped_in, segment_dropped};
pub use filter::{Filter, FilterError, Members};
pub use line::{Line, LineError};
pub use object::{hex, parse_hex};
pub use result::{answer_digest, result_digest};
pub use verify::{Begin, Broken, Known, Problem, Verifier};
