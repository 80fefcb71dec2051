//! All integration tests, in one binary.
//!
//! Vectors and properties first; then what goes over the wire, against a sidecar of its own per test.
//! Never reaches beyond this machine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod access;
mod approvals;
mod approvals_cli;
pub(crate) mod audit;
mod bfcl;
mod cancelling;
mod cases;
mod cli;
mod command_properties;
mod commands;
mod config;
mod executors;
mod finished_turns;
mod generated;
mod goldens;
mod hooks;
mod inputs;
mod json_properties;
mod json_schema_suite;
mod limits;
mod loops;
mod panel;
mod panel_desk;
mod permission_checks;
mod permissions;
mod policy;
mod provider;
mod registry;
mod restart;
mod results;
mod retention;
mod rules;
mod rules_of_turns;
mod small_stacks;
mod store;
mod streams;
mod support;
mod tidy;
mod toolsets;
mod turn_machine;
mod turns;
mod vectors_json;
