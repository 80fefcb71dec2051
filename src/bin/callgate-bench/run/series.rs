//! Measures points on two sides in turn, A B A B … A.
//!
//! Every measurement of B stands between two of A: their geometric mean is what B is compared with, so
//! that a slow drift of the machine cancels; and each A with the next is the machine's noise. Never
//! compares measurements of different rounds.

use std::time::Duration;

use serde::Serialize;

use super::process::Process;
use super::setup::Setup;
use super::stats::Spread;
use super::stop;
use crate::drive::{Report, Shape, count};
use crate::problem::Problem;

/// How much longer than planned a driver may take.
const OVERTIME: Duration = Duration::from_secs(30);

/// What is driven how.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Point {
    pub(super) shape: Shape,
    pub(super) concurrency: usize,
    pub(super) batch: usize,
    pub(super) payload_bytes: usize,
}

/// How long and how often.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Timing {
    pub(super) warm_ms: u64,
    pub(super) ms: u64,
    pub(super) pairs: usize,
}

/// A relay or sidecar with an executor behind it.
#[derive(Debug)]
pub(super) struct Side {
    /// First, so that it ends before what it is connected to.
    pub(super) executor: Process,
    pub(super) relay: Process,
    pub(super) endpoint: String,
}

impl Side {
    /// The same on one processor, if one is named.
    pub(super) fn moved_to(self, cpu: Option<&str>) -> Result<Self, Problem> {
        if let Some(cpu) = cpu {
            self.relay.move_to(cpu)?;
            self.executor.move_to(cpu)?;
        }
        Ok(self)
    }
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) report: Report,
    /// Processor time of the relay or sidecar per call, in microseconds, what it did afterwards
    /// included.
    pub(super) relay_cpu_us: f64,
    /// Of it, what the store's threads used.
    pub(super) store_cpu_us: f64,
    /// How long it still worked after the last turn had ended.
    pub(super) afterwards_ms: f64,
    /// Processor time of the executor per call, in microseconds.
    pub(super) executor_cpu_us: f64,
}

/// Measurements of one point: one more of A than of B.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) point: Point,
    pub(super) pinned: bool,
    pub(super) a: Vec<Sample>,
    pub(super) b: Vec<Sample>,
}

impl Series {
    /// B over A, pair by pair.
    pub(super) fn ratios(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let around = self.a.windows(2).map(|pair| mean(pair, &of));
        self.b.iter().zip(around).map(|(b, a)| of(b) / a).collect()
    }

    /// B minus A, pair by pair.
    pub(super) fn differences(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let around = self.a.windows(2).map(|pair| mean(pair, &of));
        self.b.iter().zip(around).map(|(b, a)| of(b) - a).collect()
    }

    /// Each A over the one before.
    pub(super) fn noise(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let pairs = self.a.windows(2);
        pairs
            .filter_map(|pair| Some(of(pair.last()?) / of(pair.first()?)))
            .collect()
    }

    /// The medians of A and B.
    pub(super) fn medians(&self, of: impl Fn(&Sample) -> f64) -> (f64, f64) {
        let median = |samples: &[Sample]| {
            Spread::of(samples.iter().map(&of)).map_or(f64::NAN, |spread| spread.median)
        };
        (median(&self.a), median(&self.b))
    }
}

/// The geometric mean of two measurements.
fn mean(pair: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    pair.iter().map(|sample| of(sample).sqrt()).product()
}

/// Measures one point on one side.
pub(super) fn measure(
    setup: &Setup,
    side: &Side,
    point: &Point,
    timing: &Timing,
    cpu: Option<&str>,
    open_rate: Option<f64>,
) -> Result<Sample, Problem> {
    stop::check()?;
    let mut arguments: Vec<String> = [
        "drive".to_owned(),
        format!("--endpoint={}", side.endpoint),
        format!("--shape={}", point.shape.word()),
        format!("--concurrency={}", point.concurrency),
        format!("--batch={}", point.batch),
        format!("--payload-bytes={}", point.payload_bytes),
        format!("--warm-ms={}", timing.warm_ms),
        format!("--ms={}", timing.ms),
    ]
    .into();
    if let Some(rate) = open_rate {
        arguments.push(format!("--open-rate={rate}"));
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = match cpu {
        Some(cpu) => setup.pinned_helper(cpu, &words),
        None => setup.helper(&words),
    };
    let before = (side.relay.cpu(), side.executor.cpu());
    let driver = Process::start("the driver", &mut command)?;
    let planned = Duration::from_millis(timing.warm_ms + timing.ms);
    let line = driver.line(planned + OVERTIME)?;
    // Work that was put off belongs to these calls, not to what is measured next.
    let afterwards = side.relay.wait_idle(OVERTIME)?;
    let after = (side.relay.cpu(), side.executor.cpu());
    let report: Report = serde_json::from_str(&line)
        .map_err(|error| Problem::Unexpected(format!("the driver said `{line}`: {error}")))?;
    let calls = count(report.calls_total.max(1));
    let per_call = |after: u64, before: u64| count(after.saturating_sub(before)) / 1_000.0 / calls;
    Ok(Sample {
        relay_cpu_us: per_call(after.0.all_ns, before.0.all_ns),
        store_cpu_us: per_call(after.0.store_ns, before.0.store_ns),
        afterwards_ms: afterwards.as_secs_f64() * 1_000.0,
        executor_cpu_us: per_call(after.1.all_ns, before.1.all_ns),
        report,
    })
}

/// Measures points round by round: in each round all points, each on A and then on B; at the end all
/// points on A once more.
pub(super) fn interleave(
    setup: &Setup,
    (a, b): (&Side, &Side),
    points: &[(String, Point)],
    timing: &Timing,
    cpu: Option<&str>,
) -> Result<Vec<Series>, Problem> {
    let mut all: Vec<Series> = points
        .iter()
        .map(|(name, point)| Series {
            name: name.clone(),
            point: *point,
            pinned: cpu.is_some(),
            a: Vec::new(),
            b: Vec::new(),
        })
        .collect();
    for round in 0..=timing.pairs {
        for series in &mut all {
            series
                .a
                .push(measure(setup, a, &series.point, timing, cpu, None)?);
            if round < timing.pairs {
                series
                    .b
                    .push(measure(setup, b, &series.point, timing, cpu, None)?);
            }
        }
    }
    Ok(all)
}
