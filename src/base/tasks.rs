//! Owns every task of the process, and how they stop.
//!
//! The only place that spawns. A task has a name, an owner that can stop it, and somebody who waits for
//! it. Never decides when to stop.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Tasks that stop together. Cheap to clone; clones are the same group.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Tasks {
    /// A group of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// A group that stops with this one and is waited for with it.
    pub fn child(&self) -> Self {
        Self {
            stop: self.stop.child_token(),
            tracker: self.tracker.clone(),
        }
    }

    /// Starts a task. Its panic is logged and ends nothing else.
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let guarded = async move {
            let outcome = CatchUnwind {
                work: Box::pin(work),
            }
            .await;
            if outcome.is_err() {
                tracing::error!(task = name, "task panicked");
            }
        };
        tokio::spawn(self.tracker.track_future(guarded));
    }

    /// Resolves when the group is asked to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether the group was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Asks every task of the group to stop.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Asks every task to end and waits for them, at most `grace`.
    ///
    /// Returns how many had not ended when the grace ran out.
    pub async fn close(&self, grace: Duration) -> usize {
        self.stop.cancel();
        self.tracker.close();
        let waited = tokio::time::timeout(grace, self.tracker.wait()).await;
        match waited {
            Ok(()) => 0,
            Err(_) => self.tracker.len(),
        }
    }
}

/// Turns a panic of the work into a value, so that the task ends in order.
struct CatchUnwind<F> {
    work: std::pin::Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for CatchUnwind<F> {
    type Output = Result<(), ()>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let work = std::panic::AssertUnwindSafe(|| self.work.as_mut().poll(context));
        match std::panic::catch_unwind(work) {
            Ok(poll) => poll.map(Ok),
            Err(_) => std::task::Poll::Ready(Err(())),
        }
    }
}
