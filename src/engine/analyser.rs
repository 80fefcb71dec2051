//! A thread that cuts commands up, and what becomes of those that are too much for it.
//!
//! A parser may use more stack than a task has, panic, or take long: it gets a thread with a stack of
//! its own, and a command that breaks it or is not done in time is one that nobody can read. Never
//! waits for a command longer than its budget.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::gate::command::Opaque;
use crate::gate::permission::CommandSubject;

/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 16 << 20;
/// Longest time for one command, looked at in steps of this.
pub(super) const BUDGET: Duration = Duration::from_millis(50);
/// Most threads at once: the working one, and those that are still busy with what they were given up
/// for.
const THREADS_MAX: usize = 4;

/// Reads a command. May panic and may recurse deeply.
pub(super) type ReadCommand = fn(&str) -> CommandSubject;

struct Job {
    started: Arc<AtomicBool>,
    /// Reads and replies. A panic in it drops the reply.
    work: Box<dyn FnOnce() + Send>,
}

/// Cuts commands up, one after the other. May be asked from any task.
pub(super) struct Analyser {
    read: ReadCommand,
    budget: Duration,
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Arc<AtomicUsize>,
}

impl Analyser {
    /// Commands are read by `read`, in at most twice `budget` each.
    pub(super) fn new(read: ReadCommand, budget: Duration) -> Self {
        Self {
            read,
            budget,
            jobs: Mutex::default(),
            threads: Arc::default(),
        }
    }

    /// What the command would run, or that nobody can tell.
    pub(super) async fn read(&self, text: String) -> CommandSubject {
        self.read_as(text, self.read, CommandSubject::unread).await
    }

    /// What `read` makes of a text, or `unread` where it panics or takes too long.
    pub(super) async fn read_as<T: Send + 'static>(
        &self,
        text: String,
        read: fn(&str) -> T,
        unread: fn(&str, Opaque) -> T,
    ) -> T {
        let started = Arc::new(AtomicBool::new(false));
        let (reply, mut answer) = oneshot::channel();
        let own = text.clone();
        let job = Job {
            started: started.clone(),
            work: Box::new(move || {
                // Whoever asked may be gone.
                let _ = reply.send(read(&own));
            }),
        };
        if !self.hand_over(job) {
            return unread(&text, Opaque::TooMuch);
        }
        let mut was_running = false;
        loop {
            match tokio::time::timeout(self.budget, &mut answer).await {
                Ok(Ok(command)) => return command,
                Ok(Err(_)) => return unread(&text, Opaque::ParserCrashed),
                Err(_) if was_running => {
                    // Whoever comes next gets a thread that is not busy with this.
                    *self.jobs.lock() = None;
                    return unread(&text, Opaque::TimedOut);
                }
                Err(_) => was_running = started.load(Ordering::Relaxed),
            }
        }
    }

    /// Gives the job to the thread, which is started if there is none. False: there are too many.
    fn hand_over(&self, job: Job) -> bool {
        let mut jobs = self.jobs.lock();
        let job = match jobs.as_ref() {
            None => job,
            Some(jobs) => match jobs.send(job) {
                Ok(()) => return true,
                Err(unsent) => unsent.0,
            },
        };
        let Some(started) = self.start() else {
            return false;
        };
        let sent = started.send(job).is_ok();
        *jobs = Some(started);
        sent
    }

    fn start(&self) -> Option<Sender<Job>> {
        if self.threads.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (sender, jobs) = channel();
        let threads = self.threads.clone();
        let thread = std::thread::Builder::new()
            .name(String::from("callgate-read-command"))
            .stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            work(&jobs);
            threads.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread for the analysis of commands");
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(sender)
    }
}

/// Works until nobody can ask any more.
fn work(jobs: &Receiver<Job>) {
    for job in jobs {
        job.started.store(true, Ordering::Relaxed);
        if catch_unwind(AssertUnwindSafe(job.work)).is_err() {
            tracing::warn!("the analysis of a command panicked; the command counts as unreadable");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CommandSubject {
        assert!(text != "panic", "as asked");
        if text == "slow" {
            let (_sender, nothing) = channel::<()>();
            // Longer than any test waits for it.
            let _ = nothing.recv_timeout(Duration::from_secs(2));
        }
        CommandSubject::plain(text)
    }

    fn why(command: &CommandSubject) -> &str {
        command
            .segments_for_allow
            .as_ref()
            .err()
            .map_or("", |uncovered| uncovered.why.as_str())
    }

    #[tokio::test]
    async fn a_command_that_breaks_the_reader_is_unreadable_and_the_next_is_read() {
        // Telling of the panic takes its time.
        let analyser = Analyser::new(read, Duration::from_secs(5));
        let broken = analyser.read("panic".to_owned()).await;
        assert_eq!(why(&broken), Opaque::ParserCrashed.to_string());
        assert_eq!(broken.text, "panic");
        let good = analyser.read("git status".to_owned()).await;
        assert_eq!(why(&good), "");
    }

    #[tokio::test]
    async fn slow_commands_are_given_up_and_bounded_in_number() {
        let analyser = Analyser::new(read, Duration::from_millis(10));
        for _ in 0..THREADS_MAX {
            let slow = analyser.read("slow".to_owned()).await;
            assert_eq!(why(&slow), Opaque::TimedOut.to_string());
        }
        let beyond = analyser.read("git status".to_owned()).await;
        assert_eq!(why(&beyond), Opaque::TooMuch.to_string());
    }
}
