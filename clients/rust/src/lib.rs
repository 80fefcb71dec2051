//! The wire messages, client stubs and connections of Callgate.
//!
//! `pb` is generated and committed; [`Connection`](connect::Connection) finds the sidecar the way every
//! client does: argument, environment, default.

pub mod connect;
pub mod pb;
