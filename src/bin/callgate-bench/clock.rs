//! The clock of measurements: a monotonic instant, and a number that no other process has.
//!
//! The product reads its clock in one place of its own; measuring needs finer spans than it offers.
//! Never used by anything that is measured.

use std::time::{Duration, Instant};

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring spans is what this program does"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
