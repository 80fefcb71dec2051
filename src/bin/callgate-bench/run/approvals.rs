//! What approvals cost: a call under a grant, and pages while many calls wait.
//!
//! On a sidecar of its own, since what waits stays. Never a ratio to the floor.

use std::time::Duration;

use super::process::Process;
use super::rows::Rows;
use super::setup::Setup;
use super::stats::Spread;
use super::table::{Bound, Unit};
use crate::approval_probe::{ApprovalReport, GrantSpans};
use crate::problem::Problem;

/// Longest time for the probe.
const PROBE: Duration = Duration::from_secs(250);

/// Measures with `groups` groups, and `many` calls that wait in the end.
pub(super) fn measure(setup: &Setup, groups: usize, many: u32) -> Result<ApprovalReport, Problem> {
    let name = "approvals";
    let sidecar = setup.sidecar(name)?;
    let executor = setup.executor(&sidecar.socket, &["--asked"])?;
    let arguments = [
        "approval-probe".to_owned(),
        format!("--endpoint={}", sidecar.socket),
        format!(
            "--approvers=unix://{}",
            setup.control_socket(name).display()
        ),
        format!("--dir={}", setup.scratch.path.join(name).display()),
        format!("--groups={groups}"),
        format!("--many={many}"),
    ];
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let probe = Process::start("the probe", &mut setup.helper(&words))?;
    let line = probe.line(PROBE)?;
    drop(executor);
    drop(sidecar);
    setup.forget(name)?;
    serde_json::from_str(&line)
        .map_err(|error| Problem::Unexpected(format!("the probe said `{line}`: {error}")))
}

impl ApprovalReport {
    pub(super) fn add_rows(&self, rows: &mut Rows, many: u32) {
        let of = |number: fn(&GrantSpans) -> f64| Spread::of(self.grants.iter().map(number));
        let commits = of(|spans| (spans.granted - spans.safe) / spans.commit);
        rows.add(
            "",
            "a granted call over a safe one, in commits of the disk",
            (
                shown(of(|spans| spans.commit)),
                shown(of(|spans| spans.granted - spans.safe)),
            ),
            (commits, Unit::Times),
            // More would be two commits.
            Bound::AtMost(2.0),
            None,
        );
        let pages = self.many_us.iter().zip(&self.few_us);
        rows.add(
            "",
            format!("a page of what waits, {many} over 1000 calls"),
            (
                shown(Spread::of(self.few_us.iter().copied())),
                shown(Spread::of(self.many_us.iter().copied())),
            ),
            (Spread::of(pages.map(|(many, few)| many / few)), Unit::Times),
            Bound::AtMost(2.0),
            None,
        );
    }
}

fn shown(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| Unit::Micros.show(spread.median))
}
