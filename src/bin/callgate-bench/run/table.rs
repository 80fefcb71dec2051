//! Rows with their bounds and verdicts, and the table of them.
//!
//! Never measures anything.

use serde::Serialize;

use super::stats::Spread;

/// What a row must hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// For information.
    None,
}

/// Whether it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Missed,
    /// The floor does not agree with itself.
    Noisy,
    /// There is no bound.
    Info,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Missed => "missed",
            Verdict::Noisy => "noisy",
            Verdict::Info => "",
        }
    }
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Times,
    Micros,
    Millis,
    Megabytes,
    Kilobytes,
    PerSecond,
}

impl Unit {
    /// A number as text.
    pub(super) fn show(self, number: f64) -> String {
        match self {
            Unit::Times => format!("{number:.2}×"),
            Unit::Micros if number.abs() >= 10_000.0 => format!("{:.1} ms", number / 1_000.0),
            Unit::Micros if number.abs() >= 100.0 => format!("{number:.0} µs"),
            Unit::Micros => format!("{number:.2} µs"),
            Unit::Millis => format!("{number:.1} ms"),
            Unit::Megabytes => format!("{number:.1} MB"),
            Unit::Kilobytes => format!("{number:.1} KB"),
            Unit::PerSecond if number >= 10_000.0 => format!("{:.1} k/s", number / 1_000.0),
            Unit::PerSecond => format!("{number:.0} /s"),
        }
    }
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    /// Which goal it belongs to. Empty: none.
    pub(super) goal: &'static str,
    pub(super) what: String,
    /// What the other side has, as text. Empty: there is none.
    pub(super) floor: String,
    /// What Callgate has, as text.
    pub(super) callgate: String,
    /// What is judged.
    pub(super) value: Spread,
    pub(super) unit: Unit,
    pub(super) bound: Bound,
    /// The other side against itself. None: there is no such ratio.
    pub(super) noise: Option<Spread>,
    pub(super) verdict: Verdict,
}

impl Row {
    /// A row, judged by its median.
    pub(super) fn judge(
        goal: &'static str,
        what: impl Into<String>,
        sides: (String, String),
        (value, unit): (Spread, Unit),
        bound: Bound,
        noise: Option<Spread>,
    ) -> Self {
        let holds = match bound {
            Bound::AtMost(most) => Some(value.median <= most),
            Bound::AtLeast(least) => Some(value.median >= least),
            Bound::None => None,
        };
        let verdict = match holds {
            None => Verdict::Info,
            Some(_) if noise.is_some_and(|noise| noise.is_noise()) => Verdict::Noisy,
            Some(true) => Verdict::Ok,
            Some(false) => Verdict::Missed,
        };
        let (floor, callgate) = sides;
        Self {
            goal,
            what: what.into(),
            floor,
            callgate,
            value,
            unit,
            bound,
            noise,
            verdict,
        }
    }

    fn cells(&self) -> [String; 8] {
        let value = &self.value;
        let spread = match value.min == value.max {
            true => self.unit.show(value.median),
            false => format!(
                "{} ({}–{})",
                self.unit.show(value.median),
                bare(self.unit, value.min),
                bare(self.unit, value.max)
            ),
        };
        let noise = self.noise.map_or_else(String::new, |noise| {
            format!("{:.2}–{:.2}", noise.min, noise.max)
        });
        let bound = match self.bound {
            Bound::AtMost(most) => format!("≤ {}", self.unit.show(most)),
            Bound::AtLeast(least) => format!("≥ {}", self.unit.show(least)),
            Bound::None => String::new(),
        };
        [
            self.goal.to_owned(),
            self.what.clone(),
            self.floor.clone(),
            self.callgate.clone(),
            spread,
            noise,
            bound,
            self.verdict.word().to_owned(),
        ]
    }
}

fn bare(unit: Unit, number: f64) -> String {
    let text = unit.show(number);
    text.trim_end_matches('×').to_owned()
}

const HEAD: [&str; 8] = [
    "goal",
    "what",
    "floor",
    "callgate",
    "judged (min–max)",
    "floor/floor",
    "bound",
    "verdict",
];

/// The table as lines, columns aligned.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    let mut cells = vec![HEAD.map(str::to_owned)];
    cells.extend(rows.iter().map(Row::cells));
    let mut widths = [0_usize; 8];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    cells
        .iter()
        .map(|row| {
            let columns = row.iter().zip(widths).map(|(cell, width)| {
                let blanks = " ".repeat(width - cell.chars().count());
                format!("{cell}{blanks}")
            });
            let line = columns.collect::<Vec<_>>().join("  ");
            line.trim_end().to_owned()
        })
        .collect()
}
