//! A hook of a process as it outlives the sidecar, so that none is forgotten by a restart.
//!
//! Never says whether its process is there.

use std::sync::Arc;

use bytes::Bytes;

use super::hook::Hook;
use crate::gate::ids::HookId;

/// A hook, who registered it, and its own words.
#[derive(Debug, Clone)]
pub struct KeptHook {
    /// As it holds.
    pub hook: Arc<Hook>,
    /// The process that registered it.
    pub instance: String,
    /// As it was sent, for who reads it again.
    pub registration: Bytes,
}

/// A hook as its process last registered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredHook {
    /// Its id.
    pub id: HookId,
    /// The process.
    pub instance: String,
    /// Its place among hooks of the same order.
    pub number: u64,
    /// Its words, as they were sent.
    pub registration: Bytes,
}
