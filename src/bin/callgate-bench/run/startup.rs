//! From the start of the sidecar's program to its first SERVING, with stores of several sizes.
//!
//! Asks as a client would, over the socket. Never counts a sidecar that only listens.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use callgate_client::connect::Target;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::process::Process;
use super::series::{Point, Side};
use super::setup::Setup;
use super::stop::Deadline;
use crate::clock::now;
use crate::drive::Shape;
use crate::problem::{Problem, io};

/// Turns that make 100 000 records: each turn is accepted and ends.
const TURNS: u64 = 50_000;
/// Longest time for a sidecar to serve.
const SERVE: Duration = Duration::from_secs(30);

/// Spans in milliseconds.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub(super) struct Startups {
    /// With no data directory at all.
    pub(super) first: Vec<f64>,
    /// With a store that holds nothing.
    pub(super) empty: Vec<f64>,
    /// With 100 000 records, after an orderly end.
    pub(super) full: Vec<f64>,
    /// With 100 000 records, after a kill in the middle of writing them.
    pub(super) killed: Vec<f64>,
}

/// Measures all of them.
pub(super) fn measure(setup: &Setup, rounds: usize) -> Result<Startups, Problem> {
    let mut startups = Startups::default();
    for round in 0..rounds {
        let name = format!("start-{round}");
        let (first, sidecar) = start(setup, &name)?;
        startups.first.push(first);
        sidecar.terminate(SERVE)?;
        let (empty, sidecar) = start(setup, &name)?;
        startups.empty.push(empty);
        sidecar.terminate(SERVE)?;
    }
    fill(setup, "full", true)?;
    for _ in 0..rounds {
        let (full, sidecar) = start(setup, "full")?;
        startups.full.push(full);
        sidecar.terminate(SERVE)?;
    }
    fill(setup, "killed", false)?;
    let (killed, sidecar) = start(setup, "killed")?;
    startups.killed.push(killed);
    drop(sidecar);
    Ok(startups)
}

/// Starts a sidecar and returns how long it took, in milliseconds.
fn start(setup: &Setup, name: &str) -> Result<(f64, Process), Problem> {
    let socket = setup.socket(name);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io("no runtime"))?;
    let mut command = setup.serve(name)?;
    let deadline = Deadline::after(SERVE);
    let started = now();
    let process = Process::start("a sidecar", &mut command)?;
    loop {
        // A socket of the last process may still lie there: only an answer counts.
        if UnixStream::connect(&socket).is_ok() && runtime.block_on(serves(&socket)) {
            let span = started.elapsed().as_secs_f64() * 1_000.0;
            return Ok((span, process));
        }
        deadline.next_look("SERVING")?;
        std::thread::sleep(Duration::from_micros(200));
    }
}

async fn serves(socket: &Path) -> bool {
    let target = Target {
        endpoint: Some(format!("unix://{}", socket.display())),
        token: None,
    };
    let Ok(channel) = target.connect().await else {
        return false;
    };
    let asked = HealthClient::new(channel)
        .check(HealthCheckRequest::default())
        .await;
    asked.is_ok_and(|answer| answer.into_inner().status() == ServingStatus::Serving)
}

/// Runs turns until the store holds 100 000 records; ends the sidecar in order or at once.
fn fill(setup: &Setup, name: &str, in_order: bool) -> Result<(), Problem> {
    let sidecar = setup.sidecar(name)?;
    let executor = setup.executor(&sidecar.socket, &[])?;
    let side = Side {
        relay: sidecar.process,
        executor,
        endpoint: sidecar.socket,
    };
    let point = Point {
        shape: Shape::Stream,
        concurrency: 64,
        batch: 1,
        payload_bytes: 200,
    };
    run_turns(setup, &side, &point)?;
    drop(side.executor);
    match in_order {
        true => side.relay.terminate(SERVE),
        false => Ok(()),
    }
}

fn run_turns(setup: &Setup, side: &Side, point: &Point) -> Result<(), Problem> {
    let most = Duration::from_secs(60);
    let arguments = [
        "drive".to_owned(),
        format!("--endpoint={}", side.endpoint),
        format!("--shape={}", point.shape.word()),
        format!("--concurrency={}", point.concurrency),
        format!("--payload-bytes={}", point.payload_bytes),
        format!("--turns={TURNS}"),
        "--warm-ms=0".to_owned(),
        format!("--ms={}", most.as_millis()),
    ];
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let driver = Process::start("the driver", &mut setup.helper(&words))?;
    driver.line(most * 2).map(drop)
}
