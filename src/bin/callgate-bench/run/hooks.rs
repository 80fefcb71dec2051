//! What hooks cost a turn: built-in ones, and remote ones beside a bare stream to the same program.
//!
//! All processes on one processor, since these are spans of single turns. Never judges a span that is
//! within the noise of the machine.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::process::Process;
use super::rows::Rows;
use super::series::{Sample, Series, Side, Timing, measure};
use super::setup::Setup;
use super::stats::Spread;
use super::table::{Bound, Unit};
use super::{SMALL, point};
use crate::drive::Shape;
use crate::hook_ping::PingReport;
use crate::problem::{Problem, io};

/// Built-in hooks at once; what one costs is a tenth.
pub(super) const BUILT_IN: u32 = 10;
/// How much longer than planned the pings may take.
const OVERTIME: Duration = Duration::from_secs(40);
const READY: Duration = Duration::from_secs(30);

/// A hook process in Python.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PythonHook {
    /// An interpreter that has the Python SDK. None: hooks in Python are not measured.
    #[arg(long, value_name = "PATH", requires = "python_hook")]
    python: Option<PathBuf>,
    /// The program: `clients/python/bench/hook.py`.
    #[arg(long, value_name = "FILE")]
    python_hook: Option<PathBuf>,
}

/// The program of a hook process.
#[derive(Debug, Clone)]
pub(super) enum Program {
    Rust,
    Python {
        interpreter: PathBuf,
        script: PathBuf,
    },
}

/// Turns with and without a remote hook, and bare round trips to the same program, round by round.
#[derive(Debug, Serialize)]
pub(super) struct RemoteSpans {
    language: &'static str,
    without: Vec<Sample>,
    with: Vec<Sample>,
    pings: Vec<PingReport>,
}

impl PythonHook {
    /// All programs that can be measured.
    pub(super) fn programs(&self) -> Vec<Program> {
        let mut programs = vec![Program::Rust];
        if let (Some(interpreter), Some(script)) = (&self.python, &self.python_hook) {
            programs.push(Program::Python {
                interpreter: interpreter.clone(),
                script: script.clone(),
            });
        }
        programs
    }
}

impl Program {
    fn language(&self) -> &'static str {
        match self {
            Program::Rust => "Rust",
            Program::Python { .. } => "Python",
        }
    }

    /// A process that is connected to the endpoint. `bare`: to a bare stream, without an SDK.
    fn start(
        &self,
        setup: &Setup,
        endpoint: &str,
        bare: bool,
        cpu: Option<&str>,
    ) -> Result<Process, Problem> {
        let mut command = match self {
            Program::Rust => setup.helper(&["hook", "--lifeline", "--endpoint", endpoint]),
            Program::Python {
                interpreter,
                script,
            } => {
                let mut command = Command::new(interpreter);
                command.arg(script).arg(endpoint);
                if bare {
                    command.arg("--bare");
                }
                command
            }
        };
        let process = Process::start("a hook", &mut command)?;
        if let Some(cpu) = cpu {
            process.move_to(cpu)?;
        }
        process.wait_ready(READY)?;
        Ok(process)
    }
}

/// The configuration of ten hooks that each allow every call that has a path.
pub(super) fn built_in() -> String {
    let hook = r#"{tools = ["e*"], argument_pointers = ["/path"], then = "allow"}"#;
    let hooks = vec![hook; BUILT_IN as usize];
    format!("hooks.builtin=[{}]", hooks.join(", "))
}

/// Measures turns on two sidecars that differ in one remote hook, and bare round trips.
pub(super) fn remote(
    setup: &Setup,
    (without, with): (&Side, &Side),
    control: &str,
    program: &Program,
    timing: &Timing,
    cpu: Option<&str>,
) -> Result<RemoteSpans, Problem> {
    let _hook = program.start(setup, control, false, cpu)?;
    let (_, at) = point(Shape::Run, 1, SMALL, 1);
    let mut spans = RemoteSpans {
        language: program.language(),
        without: Vec::new(),
        with: Vec::new(),
        pings: Vec::new(),
    };
    for round in 0..=timing.pairs {
        let sample = measure(setup, without, &at, timing, cpu, None)?;
        spans.without.push(sample);
        if round < timing.pairs {
            spans
                .with
                .push(measure(setup, with, &at, timing, cpu, None)?);
            spans.pings.push(ping(setup, program, timing, cpu)?);
        }
    }
    Ok(spans)
}

fn ping(
    setup: &Setup,
    program: &Program,
    timing: &Timing,
    cpu: Option<&str>,
) -> Result<PingReport, Problem> {
    let socket = setup.scratch.path.join("ping.sock");
    let arguments = [
        "hook-ping".to_owned(),
        format!("--socket={}", socket.display()),
        format!("--warm-ms={}", timing.warm_ms),
        format!("--ms={}", timing.ms),
    ];
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = match cpu {
        Some(cpu) => setup.pinned_helper(cpu, &words),
        None => setup.helper(&words),
    };
    let pings = Process::start("the pings", &mut command)?;
    pings.wait_ready(READY)?;
    let endpoint = format!("unix://{}", socket.display());
    let _hook = program.start(setup, &endpoint, true, cpu)?;
    let line = pings.line(Duration::from_millis(timing.warm_ms + timing.ms) + OVERTIME)?;
    std::fs::remove_file(&socket).map_err(io("cannot remove a socket"))?;
    serde_json::from_str(&line)
        .map_err(|error| Problem::Unexpected(format!("the pings said `{line}`: {error}")))
}

/// One built-in hook of ten.
pub(super) fn add_built_in(rows: &mut Rows, series: &Series) {
    let p50 = |sample: &Sample| sample.report.p50_us;
    let each = series.differences(p50).into_iter();
    let (without, with) = series.medians(p50);
    rows.add(
        "hooks",
        "one built-in hook of ten, RunTurn 200 B p50",
        (Unit::Micros.show(without), Unit::Micros.show(with)),
        (
            Spread::of(each.map(|span| span / f64::from(BUILT_IN))),
            Unit::Micros,
        ),
        Bound::AtMost(5.0),
        Spread::of(series.noise(p50)),
    );
}

impl RemoteSpans {
    pub(super) fn add_rows(&self, rows: &mut Rows) {
        let p50 = |sample: &Sample| sample.report.p50_us;
        let around = self.without.windows(2).map(|pair| {
            let both: f64 = pair.iter().map(p50).sum();
            both / 2.0
        });
        let added = self
            .with
            .iter()
            .zip(around)
            .map(|(with, without)| p50(with) - without);
        let added: Vec<f64> = added.collect();
        let shown = |spans: Option<Spread>| {
            spans.map_or_else(String::new, |spans| Unit::Micros.show(spans.median))
        };
        let pings: Vec<f64> = self.pings.iter().map(|ping| ping.p50_us).collect();
        let ratios = added.iter().zip(&pings).map(|(added, ping)| added / ping);
        let noise = pings
            .windows(2)
            .filter_map(|pair| Some(pair.last()? / pair.first()?));
        rows.add(
            "hooks",
            format!(
                "one hook in {}, RunTurn 200 B p50, over a bare round trip",
                self.language
            ),
            (
                shown(Spread::of(pings.iter().copied())),
                shown(Spread::of(added.iter().copied())),
            ),
            (Spread::of(ratios), Unit::Times),
            Bound::AtMost(1.3),
            Spread::of(noise),
        );
    }
}
