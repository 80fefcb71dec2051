//! Moments at which turns begin, fixed beforehand.
//!
//! A thread of its own releases them, because the runtime's clock has whole milliseconds. Never waits
//! for a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::count;
use crate::clock::now;

/// How often moments that have come are released.
const TICK: Duration = Duration::from_micros(50);

/// A row of moments, evenly spread.
pub(super) struct Pace {
    start: Instant,
    rate: f64,
    released: Arc<Semaphore>,
    taken: AtomicU64,
}

impl Pace {
    /// `rate` moments a second from `start` on.
    pub(super) fn start(start: Instant, rate: f64) -> Self {
        let released = Arc::new(Semaphore::new(0));
        let weak = Arc::downgrade(&released);
        std::thread::spawn(move || {
            let mut done = 0;
            while let Some(released) = weak.upgrade() {
                let due = moments_until(now().saturating_duration_since(start), rate);
                let more = usize::try_from(due.saturating_sub(done)).unwrap_or(0);
                // Turns that nobody takes up must not fill the semaphore.
                if more > 0 && released.available_permits() < 1 << 20 {
                    released.add_permits(more);
                }
                done = due.max(done);
                drop(released);
                std::thread::sleep(TICK);
            }
        });
        Self {
            start,
            rate,
            released,
            taken: AtomicU64::new(0),
        }
    }

    /// Waits for the next moment and names it.
    pub(super) async fn next(&self) -> Instant {
        if let Ok(permit) = self.released.acquire().await {
            permit.forget();
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        self.start + Duration::from_secs_f64(count(number) / self.rate)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a span and a rate are not negative"
)]
fn moments_until(span: Duration, rate: f64) -> u64 {
    (span.as_secs_f64() * rate) as u64
}
