//! The time, as something that tests can set.
//!
//! Wall time names moments that outlive the process; waiting is tokio's business, so that a test that
//! pauses tokio's clock moves both. Never sleeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Wall time that never runs backward within a process.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_unix: Duration,
}

impl Clock {
    /// The system's clock, read once; from then on time is counted, so that a step of the system's
    /// clock moves no deadline.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    pub fn system() -> Self {
        Self {
            started: Instant::now(),
            started_unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// Milliseconds of Unix time.
    pub fn now_ms(&self) -> u64 {
        let unix = self.started_unix + self.started.elapsed();
        u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)
    }

    /// The instant at which `unix_ms` is reached. Now, if it is past.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    pub fn instant_of(&self, unix_ms: u64) -> Instant {
        let ahead = unix_ms.saturating_sub(self.now_ms());
        // Longer waits than a month are cut: the waiter asks again.
        Instant::now() + Duration::from_millis(ahead.min(31 * 24 * 3_600_000))
    }
}
