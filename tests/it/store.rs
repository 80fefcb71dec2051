//! The store: what goes in comes out, after a restart, a full disk or a kill, too.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod audit;
mod failure;
mod model;
mod open;
mod reads;
pub(crate) mod samples;
mod soak;
