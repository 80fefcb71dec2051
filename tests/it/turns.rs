//! Turns over the wire: what a well-behaved orchestrator and executor see of every kind of call.
//!
//! Never looks into the sidecar: only at what it says.

mod batches;
mod changed_tools;
mod identity;
mod provider_messages;
mod reading;
mod runs;
