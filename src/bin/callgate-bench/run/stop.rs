//! A signal ends the benchmark at the next wait, so that every process it started ends with it.
//!
//! Never ends anything itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::problem::Problem;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Longest time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Asks the benchmark to end.
pub(super) fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Fails if the benchmark was asked to end.
pub(super) fn check() -> Result<(), Problem> {
    match ASKED.load(Ordering::Relaxed) {
        true => Err(Problem::Interrupted),
        false => Ok(()),
    }
}

/// Waits, unless the benchmark is asked to end.
pub(super) fn sleep(span: Duration) -> Result<(), Problem> {
    let until = now() + span;
    loop {
        check()?;
        let left = until.saturating_duration_since(now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// A moment by which something must have happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self {
            at: now() + limit,
            limit,
        }
    }

    /// How long to wait before the next look.
    ///
    /// # Errors
    /// [`Problem::Late`] once it has passed, [`Problem::Interrupted`] after a signal.
    pub(super) fn next_look(&self, what: &str) -> Result<Duration, Problem> {
        check()?;
        let left = self.at.saturating_duration_since(now());
        if left.is_zero() {
            return Err(Problem::Late {
                what: what.to_owned(),
                limit: self.limit,
            });
        }
        Ok(left.min(LOOK))
    }
}
