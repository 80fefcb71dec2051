//! The gRPC sidecar through which every tool call of an AI agent passes.

pub mod base;
pub mod cli;
pub mod config;
pub mod engine;
pub mod executor;
pub mod gate;
pub mod pb;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod tool_import;
