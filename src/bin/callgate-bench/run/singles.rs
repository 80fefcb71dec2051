//! What is measured on the sidecar alone: memory, cancellation, TCP, spread under load.
//!
//! Each on a sidecar of its own where the state of another would disturb. Never a ratio to the floor.

use std::time::Duration;

use super::process::Process;
use super::series::{Point, Sample, Side, Timing, measure};
use super::setup::Setup;
use super::stop;
use crate::cancel_probe::CancelReport;
use crate::drive::{Shape, count};
use crate::problem::Problem;

/// Streams whose memory is measured.
const STREAMS: u32 = 200;
/// Time for memory to settle.
const SETTLE: Duration = Duration::from_millis(1_000);

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct Memory {
    pub(super) idle: f64,
    /// Per executor stream on a connection of its own.
    pub(super) per_stream: f64,
    /// The same, all on one connection.
    pub(super) per_shared_stream: f64,
}

/// Measures memory on a sidecar of its own.
pub(super) fn memory(setup: &Setup) -> Result<Memory, Problem> {
    let sidecar = setup.sidecar("memory")?;
    stop::sleep(SETTLE)?;
    let idle = sidecar.process.rss_bytes()?;
    // The first streams pay for what all share.
    let _first = setup.executor(&sidecar.socket, &["--streams=20", "--tools=1"])?;
    let streams = format!("--streams={STREAMS}");
    let grown = |more: &[&str]| {
        stop::sleep(SETTLE)?;
        let before = sidecar.process.rss_bytes()?;
        let executor = setup.executor(&sidecar.socket, more)?;
        stop::sleep(SETTLE)?;
        let after = sidecar.process.rss_bytes()?;
        Ok::<_, Problem>((
            count(after.saturating_sub(before)) / f64::from(STREAMS),
            executor,
        ))
    };
    let (per_stream, _own) = grown(&[&streams, "--tools=1"])?;
    let (per_shared_stream, _shared) = grown(&[&streams, "--tools=1", "--share-connection"])?;
    Ok(Memory {
        idle: count(idle),
        per_stream,
        per_shared_stream,
    })
}

/// Cancellations beside pings while 64 turns are under way.
pub(super) fn cancel(
    setup: &Setup,
    side: &Side,
    rounds: u32,
    repeats: usize,
) -> Result<Vec<CancelReport>, Problem> {
    let endpoint = format!("--endpoint={}", side.endpoint);
    let load = [
        "drive",
        &endpoint,
        "--concurrency=64",
        "--warm-ms=0",
        "--ms=60000",
    ];
    let rounds = format!("--rounds={rounds}");
    let mut reports = Vec::new();
    for _ in 0..repeats {
        let load = Process::start("the load", &mut setup.helper(&load))?;
        stop::sleep(Duration::from_millis(300))?;
        let mut command = setup.helper(&["cancel-probe", &endpoint, &rounds]);
        let probe = Process::start("the probe", &mut command)?;
        let line = probe.line(Duration::from_secs(70))?;
        drop(load);
        let report = serde_json::from_str(&line)
            .map_err(|error| Problem::Unexpected(format!("the probe said `{line}`: {error}")))?;
        reports.push(report);
    }
    Ok(reports)
}

/// Turns over TCP on both legs: the span of a turn, in milliseconds, by shape and calls.
pub(super) fn tcp(setup: &Setup, timing: &Timing) -> Result<Vec<(String, f64)>, Problem> {
    let sidecar = setup.sidecar("tcp")?;
    let token_of = |role: &str| format!("--token-file={}", sidecar.token(role).display());
    let _executor = setup.executor(&sidecar.tcp, &[&token_of("executor")])?;
    let token = token_of("orchestrator");
    let mut spans = Vec::new();
    for (shape, batch) in [
        (Shape::Run, 1),
        (Shape::Run, 4),
        (Shape::Stream, 1),
        (Shape::Stream, 4),
    ] {
        let arguments = [
            "drive".to_owned(),
            format!("--endpoint={}", sidecar.tcp),
            token.clone(),
            format!("--shape={}", shape.word()),
            format!("--batch={batch}"),
            "--warm-ms=100".to_owned(),
            format!("--ms={}", timing.ms.min(500)),
        ];
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let driver = Process::start("the driver", &mut setup.helper(&words))?;
        let line = driver.line(Duration::from_secs(40))?;
        let report: crate::drive::Report = serde_json::from_str(&line)
            .map_err(|error| Problem::Unexpected(format!("the driver said `{line}`: {error}")))?;
        spans.push((
            format!("{} of {batch}", shape.method()),
            report.p50_us / 1_000.0,
        ));
    }
    Ok(spans)
}

/// One longer measurement on each side.
pub(super) fn steady(
    setup: &Setup,
    (a, b): (&Side, &Side),
    point: &Point,
    ms: u64,
    open_rate: Option<f64>,
) -> Result<(Sample, Sample), Problem> {
    let timing = Timing {
        warm_ms: 300,
        ms,
        pairs: 1,
    };
    let one = |side| measure(setup, side, point, &timing, None, open_rate);
    Ok((one(a)?, one(b)?))
}
