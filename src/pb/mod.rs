//! The wire: messages from the client package, server traits from here. No hand edits below.

/// Package `callgate.v1`: messages, client stubs and server traits.
pub mod v1 {
    pub use callgate_client::pb::v1::*;

    pub use super::traits::*;
}

#[rustfmt::skip]
#[expect(clippy::allow_attributes, clippy::allow_attributes_without_reason, reason = "generated")]
#[path = "callgate.v1.rs"]
mod traits;

/// Every file of the package, for reflection and for the table of methods and roles.
pub const DESCRIPTORS: &[u8] = include_bytes!("callgate.v1.binpb");
