//! Decides, and never waits.
//!
//! No clock, no random, no files, no tasks, no protobuf: time and ids come in as arguments, and what
//! should happen goes out as data. In the order in which a call meets them: `admission`, `provider`,
//! `json`, `registry`, `schema`, `loop_detector`, `command`, `session`, `permission`, `hooks`, `approval`,
//! `turn`, `result`, `event`, `record`.

pub mod admission;
pub mod approval;
pub mod audit;
pub mod call;
pub mod command;
mod definition_digest;
pub mod event;
pub mod hooks;
pub mod ids;
pub mod json;
pub mod limits;
pub mod loop_detector;
pub mod mask;
pub mod permission;
pub mod provider;
pub mod record;
pub mod refusal;
pub mod registry;
pub mod result;
pub mod schema;
pub mod session;
pub mod snapshot;
pub mod stable_hash;
pub mod tool;
pub mod toolset;
pub mod turn;
