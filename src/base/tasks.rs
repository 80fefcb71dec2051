//! Owns every task of the process, and how they stop.
//!
//! The only place that spawns. A task has a name, an owner that can stop it, and somebody who waits for
//! it. Never decides when to stop.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
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
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_guarded(Guarded::new(name, work));
    }

    /// Starts a task whose first part, up to where it waits, runs before this returns.
    ///
    /// For work whose first effects the caller is about to look for: it saves waking both.
    pub fn spawn_begun(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> {
        // In its box before anybody waits, so that the caller's own task does not hold it, too.
        let mut guarded = Guarded::new(name, work);
        async move {
            let begin =
                |context: &mut Context<'_>| Poll::Ready(Pin::new(&mut guarded).poll(context));
            if std::future::poll_fn(begin).await.is_pending() {
                // Polled again at once, so that nothing which woke the caller instead is missed.
                self.spawn_guarded(guarded);
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    fn spawn_guarded<F: Future<Output = ()> + Send + 'static>(&self, guarded: Guarded<F>) {
        tokio::spawn(self.tracker.track_future(guarded));
    }

    /// Does what may block on a thread of its own. None: it panicked, which is logged.
    ///
    /// Goes on when whoever waits goes away; the group waits for it when it closes.
    pub async fn block<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let done = self.tracker.spawn_blocking(work).await;
        done.map_err(|_| tracing::error!(task = name, "task panicked"))
            .ok()
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

/// Work whose panic ends it in order.
struct Guarded<F> {
    name: &'static str,
    work: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Guarded<F> {
    fn new(name: &'static str, work: F) -> Self {
        let work = Box::pin(work);
        Self { name, work }
    }
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let work = std::panic::AssertUnwindSafe(|| self.work.as_mut().poll(context));
        std::panic::catch_unwind(work).unwrap_or_else(|_| {
            tracing::error!(task = self.name, "task panicked");
            Poll::Ready(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_blocks_leaves_the_tasks_beside_it_free() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let tasks = Tasks::new();
        // On this thread it would wait for ever: what it waits for comes from here.
        let blocked = tasks.block("test", move || receiver.recv().ok());
        let sent = async { sender.send(7).ok() };
        let (received, sent) = tokio::join!(blocked, sent);
        assert_eq!((received, sent), (Some(Some(7)), Some(())));
    }

    #[tokio::test]
    #[expect(clippy::panic, reason = "as a broken reader would")]
    async fn the_panic_of_work_that_blocks_is_an_answer() {
        let tasks = Tasks::new();
        let answered: Option<()> = tasks.block("test", || panic!("as asked")).await;
        assert_eq!(answered, None);
    }
}
