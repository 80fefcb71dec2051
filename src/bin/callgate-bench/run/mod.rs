//! `run`: starts everything, measures what the goals are about, prints the table.
//!
//! Spans are measured with all processes on one processor, rates without; see `series` for how two
//! sides are compared. Every process ends with it, whatever happens. Never leaves the machine.

mod approvals;
mod decisions;
mod hooks;
mod machine;
mod process;
mod rows;
mod series;
mod setup;
mod singles;
mod startup;
mod stats;
mod stop;
mod table;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::clock::now;
use crate::drive::Shape;
use crate::output::{data, note};
use crate::problem::{Problem, io};
use machine::{Machine, allowed_cpus, last_cpu, load};
use rows::Rows;
use series::{Point, Series, Side, Timing, interleave};
use setup::{Scratch, Setup};
use table::{Bound, Row, Verdict};

/// The two sizes of arguments, in bytes.
const SMALL: usize = 200;
const LARGE: usize = 10_240;

/// Measures Callgate beside the bare relay and prints what the goals say.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Fewer and shorter measurements, for a first look.
    #[arg(long)]
    quick: bool,
    /// Where everything goes that was measured, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The sidecar's program. Default: `callgate` beside this one.
    #[arg(long, value_name = "PATH")]
    callgate: Option<PathBuf>,
    /// Where data directories are made; a real disk. Default: the temporary directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Pairs of measurements per point.
    #[arg(long)]
    pairs: Option<usize>,
    /// Time of one measurement.
    #[arg(long)]
    ms: Option<u64>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    #[command(flatten)]
    python: hooks::PythonHook,
    /// Exit with 1 if a goal is missed.
    #[arg(long)]
    strict: bool,
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Spans of single turns.
    Latency,
    /// Calls a second.
    Throughput,
    /// Turns of many calls.
    Batches,
    /// Calls a second with the audit and without it.
    Audit,
    /// Turns with hooks and without them.
    Hooks,
    /// Many tools in the registry.
    Tools,
    /// Spreads under steady load.
    Tail,
    /// Memory and size of the program.
    Memory,
    /// Time to the first answer.
    Startup,
    /// Cancellations.
    Cancel,
    /// Turns over TCP.
    Tcp,
    /// Rules and commands, without a sidecar.
    Decisions,
    /// Grants, and lists of approvals.
    Approvals,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Findings {
    machine: Machine,
    load_after: String,
    seconds: f64,
    timing: Timing,
    rows: Vec<Row>,
    series: Vec<Series>,
    #[serde(flatten)]
    singles: serde_json::Map<String, serde_json::Value>,
}

impl Run {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(io("no signal handler"))?;
        let measured = tokio::task::spawn_blocking(move || self.measure());
        tokio::pin!(measured);
        loop {
            tokio::select! {
                ended = &mut measured => {
                    return ended.map_err(|error| Problem::Unexpected(error.to_string()))?;
                }
                _ = tokio::signal::ctrl_c() => stop::ask(),
                _ = terminate.recv() => stop::ask(),
            }
        }
    }

    fn timing(&self) -> Timing {
        let (warm_ms, ms, pairs) = match self.quick {
            true => (100, 250, 3),
            false => (250, 1_000, 7),
        };
        Timing {
            warm_ms,
            ms: self.ms.unwrap_or(ms).max(10),
            pairs: self.pairs.unwrap_or(pairs).max(1),
        }
    }

    fn setup(&self) -> Result<Setup, Problem> {
        let bench = std::env::current_exe().map_err(io("no program of our own"))?;
        let callgate = match &self.callgate {
            Some(named) => named.clone(),
            None => bench.with_file_name("callgate"),
        };
        let callgate = std::fs::canonicalize(&callgate)
            .map_err(io(format!("no sidecar at `{}`", callgate.display())))?;
        Ok(Setup {
            scratch: Scratch::make(self.dir.as_deref())?,
            bench,
            callgate,
        })
    }

    fn measure(self) -> Result<(), Problem> {
        let started = now();
        let setup = self.setup()?;
        let machine = Machine::look(&setup.scratch.path);
        if machine.data_disk == "tmpfs" {
            note("the data directory is in memory, not on a disk: see --dir");
        }
        let mut bench = Bench {
            quick: self.quick,
            timing: self.timing(),
            only: self.only.clone(),
            cpus: allowed_cpus(),
            hook_programs: self.python.programs(),
            setup,
            rows: Rows::default(),
            series: Vec::new(),
            singles: serde_json::Map::new(),
        };
        bench.all()?;
        let findings = Findings {
            machine,
            load_after: load(),
            seconds: started.elapsed().as_secs_f64(),
            timing: bench.timing,
            rows: bench.rows.rows,
            series: bench.series,
            singles: bench.singles,
        };
        print(&findings);
        if let Some(file) = &self.json {
            write(&findings, file)?;
        }
        let missed = findings
            .rows
            .iter()
            .filter(|row| row.verdict == Verdict::Missed)
            .count();
        match self.strict && missed > 0 {
            true => Err(Problem::Missed(missed)),
            false => Ok(()),
        }
    }
}

fn print(findings: &Findings) {
    let machine = &findings.machine;
    let changed = if machine.changed_since_revision {
        ", changed"
    } else {
        ""
    };
    data(&format!(
        "revision {}{changed}; {} × {}; Linux {}; data on {}; load {} → {}; {} pairs of {} ms; {:.0} s",
        machine.revision,
        machine.cpus,
        machine.cpu_model,
        machine.kernel,
        machine.data_disk,
        machine.load_before,
        findings.load_after,
        findings.timing.pairs,
        findings.timing.ms,
        findings.seconds,
    ));
    data("");
    for line in table::lines(&findings.rows) {
        data(&line);
    }
    data("");
    data("judged: median over pairs; floor/floor: the floor against itself, pair by pair.");
    data("noisy: the middle half of floor/floor leaves 0.90–1.10, so the row is not judged.");
}

fn write(findings: &Findings, file: &Path) -> Result<(), Problem> {
    let text = serde_json::to_vec_pretty(findings)
        .map_err(|error| Problem::Unexpected(error.to_string()))?;
    std::fs::write(file, text).map_err(io(format!("cannot write `{}`", file.display())))
}

/// A benchmark under way.
struct Bench {
    quick: bool,
    timing: Timing,
    only: Vec<Part>,
    cpus: Option<String>,
    hook_programs: Vec<hooks::Program>,
    setup: Setup,
    rows: Rows,
    series: Vec<Series>,
    singles: serde_json::Map<String, serde_json::Value>,
}

impl Bench {
    fn wants_any(&self, parts: &[Part]) -> bool {
        self.only.is_empty() || parts.iter().any(|part| self.only.contains(part))
    }

    /// Whether a part is wanted; says so if it is.
    fn wants(&self, part: Part) -> bool {
        let wanted = self.wants_any(&[part]);
        if wanted {
            note(&format!("measuring {part:?}").to_lowercase());
        }
        wanted
    }

    fn all(&mut self) -> Result<(), Problem> {
        if self.wants(Part::Decisions) {
            let found = decisions::measure(self.timing.pairs, self.timing.ms)?;
            found.add_rows(&mut self.rows);
            self.keep("decisions", &found)?;
        }
        let (relay, endpoint) = self.setup.floor()?;
        let floor = Side {
            executor: self.setup.executor(&endpoint, &[])?,
            relay,
            endpoint,
        };
        if self.wants_any(&[Part::Latency, Part::Tools]) {
            self.beside(&floor, "latency", Self::on_one_processor)?;
        }
        if self.wants(Part::Throughput) {
            // A store of its own for each size: what the large one leaves is large.
            self.beside(&floor, "small", |bench, sides| {
                bench.throughput(sides, SMALL)
            })?;
            self.beside(&floor, "large", |bench, sides| {
                bench.throughput(sides, LARGE)
            })?;
        }
        if self.wants(Part::Batches) {
            self.beside(&floor, "batches", Self::batches)?;
        }
        if self.wants(Part::Tail) {
            self.beside(&floor, "tail", Self::tail)?;
        }
        if self.wants(Part::Cancel) {
            self.beside(&floor, "cancel", Self::cancel)?;
        }
        drop(floor);
        if self.wants(Part::Audit) {
            self.audit()?;
        }
        if self.wants(Part::Hooks) {
            self.hooks()?;
        }
        self.alone()
    }

    /// What the audit costs: two sidecars, which differ in nothing else.
    fn audit(&mut self) -> Result<(), Problem> {
        let without = self.sidecar_with("unaudited", 10, &["audit.enabled=false"])?;
        let with = self.sidecar("audited", 10)?;
        let points = [Shape::Run, Shape::Stream].map(|shape| point(shape, 64, SMALL, 1));
        for mut series in self.pairs((&without, &with), &points, None)? {
            series.name = format!("audit over none, {}", series.name);
            self.rows.audit(&series);
            self.series.push(series);
        }
        drop((without, with));
        for name in ["unaudited", "audited"] {
            let bytes = self.setup.forget(name)?;
            self.keep(&format!("store_bytes_{name}"), &bytes)?;
        }
        Ok(())
    }

    /// What hooks cost a turn: sidecars which differ in nothing else.
    fn hooks(&mut self) -> Result<(), Problem> {
        let cpu = self.cpus.as_deref().and_then(last_cpu);
        let cpu = cpu.as_deref();
        let without = self.sidecar("unhooked", 10)?.moved_to(cpu)?;
        let built_in = self.sidecar_with("built-in", 10, &[&hooks::built_in()])?;
        let built_in = built_in.moved_to(cpu)?;
        let points = [point(Shape::Run, 1, SMALL, 1)];
        for series in self.pairs((&without, &built_in), &points, cpu)? {
            hooks::add_built_in(&mut self.rows, &series);
            self.series.push(series);
        }
        drop(built_in);
        let mut all = Vec::new();
        for program in &self.hook_programs {
            // A hook that is killed stays, and fails: the next one needs a sidecar of its own.
            let with = self.sidecar("hooked", 10)?.moved_to(cpu)?;
            let control = self.setup.control_socket("hooked");
            let control = format!("unix://{}", control.display());
            let sides = (&without, &with);
            let spans = hooks::remote(&self.setup, sides, &control, program, &self.timing, cpu)?;
            spans.add_rows(&mut self.rows);
            all.push(spans);
            drop(with);
            self.setup.forget("hooked")?;
        }
        drop(without);
        for name in ["unhooked", "built-in"] {
            self.setup.forget(name)?;
        }
        self.keep("hooks", &all)
    }

    /// Does `work` with a sidecar that has done nothing before, and removes what it leaves.
    fn beside(
        &mut self,
        floor: &Side,
        name: &str,
        work: impl FnOnce(&mut Self, (&Side, &Side)) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let callgate = self.sidecar(name, 10)?;
        work(self, (floor, &callgate))?;
        drop(callgate);
        let bytes = self.setup.forget(name)?;
        self.keep(&format!("store_bytes_{name}"), &bytes)
    }

    fn batches(&mut self, sides: (&Side, &Side)) -> Result<(), Problem> {
        let points = [1, 8, 64].map(|calls| point(Shape::Run, 1, SMALL, calls));
        let all = self.pairs(sides, &points, None)?;
        self.rows.batches(&all);
        self.series.extend(all);
        Ok(())
    }

    fn cancel(&mut self, (_, callgate): (&Side, &Side)) -> Result<(), Problem> {
        let (rounds, repeats) = if self.quick { (200, 1) } else { (500, 5) };
        let reports = singles::cancel(&self.setup, callgate, rounds, repeats)?;
        self.rows.cancels(&reports);
        self.keep("cancel", &reports)
    }

    fn sidecar(&self, name: &str, tools: usize) -> Result<Side, Problem> {
        self.sidecar_with(name, tools, &[])
    }

    fn sidecar_with(&self, name: &str, tools: usize, set: &[&str]) -> Result<Side, Problem> {
        let sidecar = self.setup.sidecar_with(name, set)?;
        let tools = format!("--tools={tools}");
        Ok(Side {
            executor: self.setup.executor(&sidecar.socket, &[&tools])?,
            relay: sidecar.process,
            endpoint: sidecar.socket,
        })
    }

    fn pairs(
        &self,
        sides: (&Side, &Side),
        points: &[(String, Point)],
        cpu: Option<&str>,
    ) -> Result<Vec<Series>, Problem> {
        interleave(&self.setup, sides, points, &self.timing, cpu)
    }

    fn keep(&mut self, name: &str, found: &impl Serialize) -> Result<(), Problem> {
        let value =
            serde_json::to_value(found).map_err(|error| Problem::Unexpected(error.to_string()))?;
        self.singles.insert(name.to_owned(), value);
        Ok(())
    }

    /// Spans of single turns, everything on one processor.
    fn on_one_processor(&mut self, (floor, callgate): (&Side, &Side)) -> Result<(), Problem> {
        let (latency, tools) = (self.wants(Part::Latency), self.wants(Part::Tools));
        let all = self.cpus.clone();
        let cpu = all.as_deref().and_then(last_cpu);
        let many = match tools {
            true => Some(self.sidecar("many", 10_000)?),
            false => None,
        };
        let pin = |cpus: Option<&str>| {
            let sides = [Some(floor), Some(callgate), many.as_ref()];
            for side in sides.into_iter().flatten() {
                if let Some(cpus) = cpus {
                    side.relay.move_to(cpus)?;
                    side.executor.move_to(cpus)?;
                }
            }
            Ok::<_, Problem>(())
        };
        pin(cpu.as_deref())?;
        let cpu = cpu.as_deref();
        if latency {
            for (shape, bytes, goal, most) in [
                (Shape::Run, SMALL, "G1", Some(1.15)),
                (Shape::Run, LARGE, "G3", Some(1.25)),
                (Shape::Stream, SMALL, "", None),
                (Shape::Stream, LARGE, "", None),
            ] {
                let bound = most.map_or(Bound::None, Bound::AtMost);
                let points = [point(shape, 1, bytes, 1)];
                for series in self.pairs((floor, callgate), &points, cpu)? {
                    self.rows.latency(goal, &series, bound);
                    self.series.push(series);
                }
            }
        }
        if let Some(many) = &many {
            let (_, at) = point(Shape::Run, 1, SMALL, 1);
            let points = [("10 000 tools over 10, RunTurn 200 B".to_owned(), at)];
            for series in self.pairs((callgate, many), &points, cpu)? {
                self.rows.tools(&series);
                self.series.push(series);
            }
        }
        pin(all.as_deref())
    }

    /// Calls a second with arguments of one size.
    fn throughput(&mut self, sides: (&Side, &Side), bytes: usize) -> Result<(), Problem> {
        for concurrency in [64, 16] {
            let (goal, bound) = match (concurrency, bytes) {
                (64, SMALL) => ("G2", Bound::AtLeast(0.85)),
                (64, _) => ("G3", Bound::AtLeast(0.80)),
                _ => ("", Bound::None),
            };
            let points = [
                point(Shape::Run, concurrency, bytes, 1),
                point(Shape::Stream, concurrency, bytes, 1),
            ];
            let both = self.pairs(sides, &points, None)?;
            let judged = concurrency == 64 && bytes == SMALL;
            if let [run, stream] = both.as_slice() {
                let cpu = match judged {
                    true => ("G5", Bound::AtMost(1.5)),
                    false => ("", Bound::None),
                };
                self.rows.throughput(goal, run, bound, cpu);
                self.rows
                    .throughput("", stream, Bound::None, ("", Bound::None));
                if concurrency == 64 {
                    let (goal, least) = match judged {
                        true => ("G4", Bound::AtLeast(1.6)),
                        false => ("", Bound::None),
                    };
                    self.rows.stream_over_run(goal, (run, stream), least);
                }
            }
            self.series.extend(both);
        }
        Ok(())
    }

    /// Spreads: sixteen turns at a time, and turns that begin at fixed moments.
    fn tail(&mut self, sides: (&Side, &Side)) -> Result<(), Problem> {
        let ms = if self.quick { 2_000 } else { 10_000 };
        let (name, at) = point(Shape::Run, 16, SMALL, 1);
        let (floor, callgate) = singles::steady(&self.setup, sides, &at, ms, None)?;
        let what = format!("{name} p99 over p50, {} s", ms / 1_000);
        self.rows.tail(what, (&floor, &callgate));
        let mut kept = vec![(name, floor, callgate)];
        for shape in [Shape::Run, Shape::Stream] {
            let (_, at) = point(shape, 64, SMALL, 1);
            let (_, capacity) = singles::steady(&self.setup, sides, &at, ms / 4, None)?;
            let rate = capacity.report.calls_per_s / 2.0;
            let (floor, callgate) = singles::steady(&self.setup, sides, &at, ms / 2, Some(rate))?;
            let name = format!(
                "{} 200 B, {:.1} k turns/s begun at fixed moments",
                shape.method(),
                rate / 1_000.0
            );
            self.rows
                .open_loop(format!("{name} p99"), (&floor, &callgate));
            kept.push((name, floor, callgate));
        }
        self.keep("steady", &kept)
    }

    /// What needs a sidecar of its own.
    fn alone(&mut self) -> Result<(), Problem> {
        if self.wants(Part::Memory) {
            let memory = singles::memory(&self.setup)?;
            self.rows.memory(&memory);
            self.keep("memory", &memory)?;
            let program = std::fs::metadata(&self.setup.callgate).map_err(io("no program"))?;
            self.rows.binary(program.len());
        }
        if self.wants(Part::Approvals) {
            let many = if self.quick { 10_000 } else { 100_000 };
            let report = approvals::measure(&self.setup, self.timing.pairs, many)?;
            report.add_rows(&mut self.rows, many);
            self.keep("approvals", &report)?;
        }
        if self.wants(Part::Startup) {
            let startups = startup::measure(&self.setup, if self.quick { 3 } else { 7 })?;
            self.rows.startups(&startups);
            self.keep("startup", &startups)?;
        }
        if self.wants(Part::Tcp) {
            let spans = singles::tcp(&self.setup, &self.timing)?;
            self.rows.tcp(&spans);
            self.keep("tcp", &spans)?;
        }
        Ok(())
    }
}

/// A point and its name.
fn point(shape: Shape, concurrency: usize, payload_bytes: usize, batch: usize) -> (String, Point) {
    let size = match payload_bytes {
        SMALL => "200 B",
        _ => "10 KB",
    };
    let calls = match batch {
        1 => String::new(),
        calls => format!(", {calls} calls a turn"),
    };
    let name = format!("{} {size}, {concurrency} at a time{calls}", shape.method());
    let point = Point {
        shape,
        concurrency,
        batch,
        payload_bytes,
    };
    (name, point)
}
