//! A process that the benchmark started: its lines, its processor time, its memory, its processors.
//!
//! Killed when it is dropped, so that no error leaves one behind. Never reads what it writes to
//! standard error.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::stop::Deadline;
use crate::clock::now;
use crate::problem::{Problem, io};

/// Names of the threads of the sidecar's store.
const STORE_THREADS: [&str; 2] = ["callgate-write", "callgate-read"];
/// How long a process must do nothing to count as idle, and how often that is looked at.
const IDLE: Duration = Duration::from_millis(30);
const IDLE_LOOK: Duration = Duration::from_millis(10);

/// Processor time of a process, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cpu {
    pub(super) all_ns: u64,
    /// Of it, what the store's threads used.
    pub(super) store_ns: u64,
}

/// Lines that wait to be read.
const LINES_MAX: usize = 1_024;

/// A process of ours.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts it with standard input held open: helpers end when it is closed.
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Self, Problem> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io(format!("cannot start {name}")))?;
        let (say, lines) = sync_channel(LINES_MAX);
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if say.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            name: name.to_owned(),
            child,
            lines,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line on its standard output.
    pub(super) fn line(&self, within: Duration) -> Result<String, Problem> {
        let deadline = Deadline::after(within);
        let what = format!("a line of {}", self.name);
        loop {
            match self.lines.recv_timeout(deadline.next_look(&what)?) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Problem::Unexpected(format!("{} ended early", self.name)));
                }
            }
        }
    }

    /// The lines before `ready`.
    pub(super) fn wait_ready(&self, within: Duration) -> Result<Vec<String>, Problem> {
        let mut before = Vec::new();
        loop {
            let line = self.line(within)?;
            if line == "ready" {
                return Ok(before);
            }
            before.push(line);
        }
    }

    /// Processor time of its threads so far.
    pub(super) fn cpu(&self) -> Cpu {
        let mut cpu = Cpu::default();
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.pid())) else {
            return cpu;
        };
        for thread in threads.filter_map(Result::ok) {
            let read = |name: &str| std::fs::read_to_string(thread.path().join(name)).ok();
            let used = read("schedstat")
                .and_then(|text| {
                    text.split(' ')
                        .next()
                        .and_then(|used| used.parse::<u64>().ok())
                })
                .unwrap_or(0);
            cpu.all_ns += used;
            if read("comm").is_some_and(|name| STORE_THREADS.contains(&name.trim())) {
                cpu.store_ns += used;
            }
        }
        cpu
    }

    /// Waits until it does nothing any more, and says how long that took.
    pub(super) fn wait_idle(&self, within: Duration) -> Result<Duration, Problem> {
        let deadline = Deadline::after(within);
        let started = now();
        let what = format!("quiet of {}", self.name);
        let mut idle = Duration::ZERO;
        let mut before = self.cpu().all_ns;
        while idle < IDLE {
            deadline.next_look(&what)?;
            std::thread::sleep(IDLE_LOOK);
            let after = self.cpu().all_ns;
            // Timers and pings are no work.
            let busy = Duration::from_nanos(after.saturating_sub(before)) > IDLE_LOOK / 20;
            idle = if busy {
                Duration::ZERO
            } else {
                idle + IDLE_LOOK
            };
            before = after;
        }
        Ok(started.elapsed().saturating_sub(IDLE))
    }

    /// Resident memory, in bytes.
    pub(super) fn rss_bytes(&self) -> Result<u64, Problem> {
        let path = format!("/proc/{}/status", self.pid());
        let text = std::fs::read_to_string(&path).map_err(io(format!("cannot read `{path}`")))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1_024)
            .ok_or_else(|| Problem::Unexpected(format!("no resident size in `{path}`")))
    }

    /// Moves all its threads to these processors.
    pub(super) fn move_to(&self, cpus: &str) -> Result<(), Problem> {
        let pid = self.pid().to_string();
        let moved = Command::new("taskset")
            .args(["-a", "-p", "-c", cpus, &pid])
            .stdout(Stdio::null())
            .status()
            .map_err(io("cannot run taskset"))?;
        match moved.success() {
            true => Ok(()),
            false => Err(Problem::Unexpected(format!(
                "taskset of {} failed",
                self.name
            ))),
        }
    }

    /// Asks it to end and waits for that.
    pub(super) fn terminate(mut self, within: Duration) -> Result<(), Problem> {
        let pid = self.pid().to_string();
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .map_err(io("cannot run kill"))?;
        let deadline = Deadline::after(within);
        loop {
            let ended = self.child.try_wait().map_err(io("cannot wait"))?;
            if ended.is_some() {
                return Ok(());
            }
            let wait = deadline.next_look(&format!("the end of {}", self.name))?;
            std::thread::sleep(wait.min(Duration::from_millis(2)));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
