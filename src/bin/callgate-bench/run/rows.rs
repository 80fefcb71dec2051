//! The goals: which number of which measurement is held against which bound.
//!
//! The only place that knows a bound. Never measures anything.

use super::series::{Sample, Series};
use super::singles::Memory;
use super::startup::Startups;
use super::stats::{Spread, slope};
use super::table::{Bound, Row, Unit};
use crate::cancel_probe::CancelReport;

type Number = fn(&Sample) -> f64;

const P50: Number = |sample| sample.report.p50_us;
const P99: Number = |sample| sample.report.p99_us;
const RATE: Number = |sample| sample.report.calls_per_s;
const CPU: Number = |sample| sample.relay_cpu_us;
const SERVING_CPU: Number = |sample| sample.relay_cpu_us - sample.store_cpu_us;
const STORE_CPU: Number = |sample| sample.store_cpu_us;
const AFTERWARDS: Number = |sample| sample.afterwards_ms;

/// Bytes of a megabyte and of a kilobyte, as the goals count them.
const MB: f64 = 1_000_000.0;
const KB: f64 = 1_000.0;

/// Rows come one by one; those without numbers are left out.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
}

impl Rows {
    pub(super) fn add(
        &mut self,
        goal: &'static str,
        what: impl Into<String>,
        sides: (String, String),
        (value, unit): (Option<Spread>, Unit),
        bound: Bound,
        noise: Option<Spread>,
    ) {
        if let Some(value) = value {
            let row = Row::judge(goal, what, sides, (value, unit), bound, noise);
            self.rows.push(row);
        }
    }

    /// One number of a series, as a ratio of the two sides.
    fn ratio(
        &mut self,
        goal: &'static str,
        series: &Series,
        (word, number, unit): (&str, Number, Unit),
        bound: Bound,
    ) {
        let (a, b) = series.medians(number);
        self.add(
            goal,
            format!("{} {word}", series.name),
            (unit.show(a), unit.show(b)),
            (Spread::of(series.ratios(number)), Unit::Times),
            bound,
            Spread::of(series.noise(number)),
        );
    }

    /// Spans of single turns on one processor.
    pub(super) fn latency(&mut self, goal: &'static str, series: &Series, p50_bound: Bound) {
        self.ratio(goal, series, ("p50", P50, Unit::Micros), p50_bound);
        self.ratio("", series, ("p99", P99, Unit::Micros), Bound::None);
    }

    /// Calls a second, the spans behind them, and what a call costs the processor.
    pub(super) fn throughput(
        &mut self,
        goal: &'static str,
        series: &Series,
        rate_bound: Bound,
        cpu_goal: (&'static str, Bound),
    ) {
        self.ratio(goal, series, ("calls/s", RATE, Unit::PerSecond), rate_bound);
        self.ratio("", series, ("p99", P99, Unit::Micros), Bound::None);
        let (a, b) = series.medians(SERVING_CPU);
        self.add(
            cpu_goal.0,
            format!("{} CPU per call above the floor", series.name),
            (Unit::Micros.show(a), Unit::Micros.show(b)),
            (Spread::of(series.differences(SERVING_CPU)), Unit::Micros),
            cpu_goal.1,
            Spread::of(series.noise(CPU)),
        );
        for (word, number, unit) in [
            ("CPU per call of the store", STORE_CPU, Unit::Micros),
            ("work left after the last turn", AFTERWARDS, Unit::Millis),
        ] {
            let what = format!("{} {word}", series.name);
            self.single("", &what, series.b.iter().map(number), unit, Bound::None);
        }
    }

    /// Calls a second with the audit against those without it, and what it costs the processor.
    pub(super) fn audit(&mut self, series: &Series) {
        let bound = Bound::AtLeast(0.95);
        self.ratio("audit", series, ("calls/s", RATE, Unit::PerSecond), bound);
        let (a, b) = series.medians(CPU);
        self.add(
            "",
            format!("{} CPU per call", series.name),
            (Unit::Micros.show(a), Unit::Micros.show(b)),
            (Spread::of(series.differences(CPU)), Unit::Micros),
            Bound::None,
            Spread::of(series.noise(CPU)),
        );
    }

    /// The long stream against an rpc per turn, both on Callgate.
    pub(super) fn stream_over_run(
        &mut self,
        goal: &'static str,
        (run, stream): (&Series, &Series),
        bound: Bound,
    ) {
        let ratios = run.b.iter().zip(&stream.b);
        let floor = Spread::of(
            run.a
                .iter()
                .zip(&stream.a)
                .map(|(run, stream)| RATE(stream) / RATE(run)),
        );
        let (_, run_rate) = run.medians(RATE);
        let (_, stream_rate) = stream.medians(RATE);
        let noise = run.noise(RATE).into_iter().chain(stream.noise(RATE));
        self.add(
            goal,
            format!("{} over RunTurn calls/s", stream.name),
            (
                floor.map_or_else(String::new, |floor| Unit::Times.show(floor.median)),
                format!(
                    "{} / {}",
                    Unit::PerSecond.show(stream_rate),
                    Unit::PerSecond.show(run_rate)
                ),
            ),
            (
                Spread::of(ratios.map(|(run, stream)| RATE(stream) / RATE(run))),
                Unit::Times,
            ),
            bound,
            Spread::of(noise),
        );
    }

    /// What one more call in a turn costs.
    pub(super) fn batches(&mut self, all: &[Series]) {
        let slopes = |samples: fn(&Series) -> &Vec<Sample>| -> Vec<f64> {
            let rounds = all
                .iter()
                .map(|series| samples(series).len())
                .min()
                .unwrap_or(0);
            let of_round = |round: usize| {
                let points = all.iter().filter_map(|series| {
                    let calls = u32::try_from(series.point.batch).ok()?;
                    Some((f64::from(calls), P50(samples(series).get(round)?)))
                });
                slope(&points.collect::<Vec<_>>())
            };
            (0..rounds).map(of_round).collect()
        };
        let (floor, callgate) = (slopes(|series| &series.a), slopes(|series| &series.b));
        let noise = floor
            .windows(2)
            .filter_map(|pair| Some(pair.last()? / pair.first()?));
        let noise = Spread::of(noise);
        let show = |numbers: &[f64]| {
            let spread = Spread::of(numbers.iter().copied());
            spread.map_or_else(String::new, |spread| Unit::Micros.show(spread.median))
        };
        self.add(
            "5.1",
            "one more call in a turn, 1 to 64",
            (show(&floor), show(&callgate)),
            (Spread::of(callgate), Unit::Micros),
            Bound::AtMost(3.0),
            noise,
        );
        for series in all.iter().filter(|series| series.point.batch > 1) {
            self.ratio("", series, ("p50", P50, Unit::Micros), Bound::None);
            self.ratio("", series, ("CPU per call", CPU, Unit::Micros), Bound::None);
        }
    }

    /// Ten tools in the registry against ten thousand, both on Callgate.
    pub(super) fn tools(&mut self, series: &Series) {
        self.ratio(
            "5.1",
            series,
            ("p50", P50, Unit::Micros),
            Bound::AtMost(1.05),
        );
    }

    /// The end of the spread against its middle. The floor's own says how quiet the machine is.
    pub(super) fn tail(&mut self, what: String, (floor, callgate): (&Sample, &Sample)) {
        const MOST: f64 = 3.0;
        let tail = |sample: &Sample| P99(sample) / P50(sample);
        let noise = match tail(floor) > MOST {
            true => Spread::of([tail(floor)]),
            false => None,
        };
        self.add(
            "G6",
            what,
            (
                Unit::Times.show(tail(floor)),
                Unit::Times.show(tail(callgate)),
            ),
            (Spread::of([tail(callgate)]), Unit::Times),
            Bound::AtMost(MOST),
            noise,
        );
    }

    /// Spans when turns begin at fixed moments.
    pub(super) fn open_loop(&mut self, what: String, (floor, callgate): (&Sample, &Sample)) {
        self.add(
            "",
            what,
            (
                Unit::Micros.show(P99(floor)),
                Unit::Micros.show(P99(callgate)),
            ),
            (Spread::of([P99(callgate) / P99(floor)]), Unit::Times),
            Bound::None,
            None,
        );
    }

    /// A number of the sidecar alone.
    fn single(
        &mut self,
        goal: &'static str,
        what: &str,
        numbers: impl IntoIterator<Item = f64>,
        unit: Unit,
        bound: Bound,
    ) {
        let value = Spread::of(numbers);
        let text = value.map_or_else(String::new, |value| unit.show(value.median));
        self.add(
            goal,
            what,
            (String::new(), text),
            (value, unit),
            bound,
            None,
        );
    }

    pub(super) fn memory(&mut self, memory: &Memory) {
        let (idle, own) = (memory.idle / MB, memory.per_stream / KB);
        self.single(
            "G13",
            "resident, idle",
            [idle],
            Unit::Megabytes,
            Bound::AtMost(16.0),
        );
        self.single(
            "G13",
            "resident per executor stream",
            [own],
            Unit::Kilobytes,
            Bound::AtMost(64.0),
        );
        let shared = memory.per_shared_stream / KB;
        let what = "resident per executor stream, one connection";
        self.single("", what, [shared], Unit::Kilobytes, Bound::None);
    }

    pub(super) fn startups(&mut self, startups: &Startups) {
        let rows = [
            ("exec to SERVING, no data directory", &startups.first, 30.0),
            ("exec to SERVING, empty store", &startups.empty, 30.0),
            ("exec to SERVING, 100 k records", &startups.full, 250.0),
            (
                "exec to SERVING, 100 k records, after a kill",
                &startups.killed,
                250.0,
            ),
        ];
        for (what, spans, most) in rows {
            self.single(
                "G14",
                what,
                spans.iter().copied(),
                Unit::Millis,
                Bound::AtMost(most),
            );
        }
    }

    pub(super) fn binary(&mut self, bytes: u64) {
        let size = crate::drive::count(bytes) / MB;
        self.single(
            "G15",
            "program",
            [size],
            Unit::Megabytes,
            Bound::AtMost(15.0),
        );
    }

    pub(super) fn cancels(&mut self, reports: &[CancelReport]) {
        let ping = Spread::of(reports.iter().map(|report| report.ping_p99_us));
        let cancel = Spread::of(reports.iter().map(|report| report.cancel_p99_us));
        let show = |spread: Option<Spread>| {
            spread.map_or_else(String::new, |spread| Unit::Micros.show(spread.median))
        };
        let ratios = reports
            .iter()
            .map(|report| report.cancel_p99_us / report.ping_p99_us);
        self.add(
            "G16",
            "cancel p99 over ping p99 at the executor, 64 turns beside",
            (show(ping), show(cancel)),
            (Spread::of(ratios), Unit::Times),
            Bound::AtMost(2.0),
            None,
        );
    }

    pub(super) fn tcp(&mut self, spans: &[(String, f64)]) {
        for (what, span) in spans {
            let what = format!("{what} over TCP p50");
            self.single("G17", &what, [*span], Unit::Millis, Bound::AtMost(5.0));
        }
    }
}
