//! Generated from `proto/`. No hand edits below.

/// Package `callgate.v1`.
#[rustfmt::skip]
#[expect(clippy::allow_attributes_without_reason, clippy::large_enum_variant, reason = "generated")]
#[path = "callgate.v1.rs"]
pub mod v1;
