//! `drive`: an orchestrator that keeps a number of turns going, and measures them.
//!
//! Closed loop: each session begins a turn when its last has ended. Open loop: turns begin at moments
//! fixed beforehand, and a span counts from that moment, so that a wait in line is not hidden. Bounded
//! in time and in number. Prints one JSON line.

mod pace;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use callgate::base::mint::Mint;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::clock::{nanos, now};
use crate::connect::Place;
use crate::histogram::Histogram;
use crate::output::data;
use crate::payload::{Payload, TOOL};
use crate::problem::Problem;
use pace::Pace;
pub(crate) use worker::Worker;

/// How much longer than planned a measurement may take.
const OVERTIME: Duration = Duration::from_secs(30);

/// How turns are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// An rpc per turn.
    Run,
    /// A long stream per session.
    Stream,
}

impl Shape {
    /// The method's name.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Shape::Run => "RunTurn",
            Shape::Stream => "StreamTurns",
        }
    }

    /// As the command line has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Shape::Run => "run",
            Shape::Stream => "stream",
        }
    }
}

/// Runs turns and measures them.
#[derive(Debug, clap::Args)]
pub(crate) struct Drive {
    #[command(flatten)]
    place: Place,
    /// How turns are asked for.
    #[arg(long, value_enum, default_value = "run")]
    shape: Shape,
    /// Sessions, each with one turn at a time.
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// Calls of a turn.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Size of a call's arguments.
    #[arg(long, default_value_t = 200)]
    payload_bytes: usize,
    /// Time before anything counts.
    #[arg(long, default_value_t = 300)]
    warm_ms: u64,
    /// Time that counts.
    #[arg(long, default_value_t = 1_000)]
    ms: u64,
    /// Most turns, those before anything counts included.
    #[arg(long, default_value_t = 20_000_000)]
    turns: u64,
    /// Begin so many turns a second, whatever becomes of them; `concurrency` bounds those under way.
    #[arg(long, value_name = "TURNS_PER_SECOND")]
    open_rate: Option<f64>,
    /// Seed of the arguments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Calls of the turns that count.
    pub(crate) calls: u64,
    /// All calls that were made.
    pub(crate) calls_total: u64,
    /// Time that counts, in seconds.
    pub(crate) seconds: f64,
    /// Calls a second.
    pub(crate) calls_per_s: f64,
    /// Span of a turn, in microseconds.
    pub(crate) p50_us: f64,
    /// The same, at 90 %.
    pub(crate) p90_us: f64,
    /// The same, at 99 %.
    pub(crate) p99_us: f64,
    /// The same, at 99.9 %.
    pub(crate) p999_us: f64,
    /// The longest.
    pub(crate) max_us: f64,
}

/// What every session needs to know.
struct Plan {
    begin: Instant,
    end: Instant,
    turns_left: AtomicU64,
    pace: Option<Pace>,
}

/// What one session saw.
struct Seen {
    spans: Histogram,
    turns: u64,
    last: Option<Instant>,
}

impl Drive {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let planned = Duration::from_millis(self.warm_ms + self.ms);
        let limit = planned + OVERTIME;
        let measured = tokio::time::timeout(limit, self.measure()).await;
        let report = measured.map_err(|_| Problem::Late {
            what: "the measurement".to_owned(),
            limit,
        })??;
        let line = serde_json::to_string(&report)
            .map_err(|error| Problem::Unexpected(error.to_string()))?;
        data(&line);
        Ok(())
    }

    async fn measure(&self) -> Result<Report, Problem> {
        let channel = self.place.connect().await?;
        let mint = Mint::new();
        let mut workers = Vec::with_capacity(self.concurrency);
        for number in 0..self.concurrency {
            let payload = Payload::new(self.payload_bytes, self.seed + number as u64);
            let session = mint.id();
            let worker = Worker::start(
                channel.clone(),
                self.shape,
                (session, TOOL),
                self.batch,
                payload,
            )
            .await?;
            workers.push(worker);
        }
        let start = now();
        let begin = start + Duration::from_millis(self.warm_ms);
        let plan = Arc::new(Plan {
            begin,
            end: begin + Duration::from_millis(self.ms),
            turns_left: AtomicU64::new(self.turns),
            pace: self.open_rate.map(|rate| Pace::start(start, rate)),
        });
        let mut sessions = JoinSet::new();
        for worker in workers {
            sessions.spawn(session(worker, plan.clone()));
        }
        let mut all = Seen::nothing();
        while let Some(joined) = sessions.join_next().await {
            let seen = joined.map_err(|error| Problem::Unexpected(error.to_string()))??;
            all.spans.add(&seen.spans);
            all.turns += seen.turns;
            all.last = all.last.max(seen.last);
        }
        Ok(self.report(&all, &plan))
    }

    fn report(&self, all: &Seen, plan: &Plan) -> Report {
        let batch = self.batch as u64;
        let calls = all.spans.len() * batch;
        let ended = all.last.map_or(plan.end, |last| last.max(plan.begin));
        // A run that used up its turns is as long as it took.
        let used_up = plan.turns_left.load(Ordering::Relaxed) == 0;
        let until = if used_up { ended } else { plan.end };
        let seconds = until.duration_since(plan.begin).as_secs_f64();
        let us = |quantile| micros(all.spans.at(quantile));
        Report {
            calls,
            calls_total: all.turns * batch,
            seconds,
            calls_per_s: count(calls) / seconds.max(1e-9),
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: micros(all.spans.max()),
        }
    }
}

impl Seen {
    fn nothing() -> Self {
        Self {
            spans: Histogram::new(),
            turns: 0,
            last: None,
        }
    }
}

/// One session until the plan ends.
async fn session(mut worker: Worker, plan: Arc<Plan>) -> Result<Seen, Problem> {
    let mut seen = Seen::nothing();
    loop {
        let meant = match &plan.pace {
            Some(pace) => pace.next().await,
            None => now(),
        };
        if meant >= plan.end || !plan.take_turn() {
            return Ok(seen);
        }
        worker.turn().await?;
        let ended = now();
        seen.turns += 1;
        if meant >= plan.begin {
            seen.spans.record(nanos(ended.duration_since(meant)));
            seen.last = Some(ended);
        }
    }
}

impl Plan {
    fn take_turn(&self) -> bool {
        let taken = self
            .turns_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        taken.is_ok()
    }
}

/// Nanoseconds as microseconds.
pub(crate) fn micros(nanoseconds: u64) -> f64 {
    count(nanoseconds) / 1_000.0
}

/// A count as a number to divide.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts here stay far below 2^53"
)]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}
