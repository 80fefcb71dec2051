//! What the demo plays and how each scenario must end.
//!
//! Data only.

/// How one call must end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// With a result that is no error.
    Success,
    /// With an error of this code.
    Error(&'static str),
    /// Cancelled.
    Cancelled,
}

/// One recorded message.
#[derive(Debug)]
pub(super) struct Scenario {
    /// For people.
    pub(super) title: &'static str,
    /// Its file below `messages`.
    pub(super) file: &'static str,
    /// How each of its calls must end.
    pub(super) expected: &'static [Expected],
    /// Whether the loop must stop.
    pub(super) stop: bool,
    /// The turn is cancelled once a call reports progress.
    pub(super) cancel: bool,
}

const fn plain(title: &'static str, file: &'static str, expected: &'static [Expected]) -> Scenario {
    Scenario {
        title,
        file,
        expected,
        stop: false,
        cancel: false,
    }
}

use Expected::{Cancelled, Error, Success};

/// Every scenario, in order.
pub(super) const SCENARIOS: &[Scenario] = &[
    plain("a good call", "good_call.json", &[Success]),
    plain(
        "an argument of the wrong type never reaches the tool",
        "wrong_type.json",
        &[Error("tool_argument_type_mismatch")],
    ),
    plain(
        "nor does a call without a required argument",
        "missing_argument.json",
        &[Error("tool_argument_required")],
    ),
    plain(
        "1.5 is no integer",
        "fraction_for_integer.json",
        &[Error("tool_argument_type_mismatch")],
    ),
    plain(
        "broken JSON",
        "broken_json.json",
        &[Error("json_truncated")],
    ),
    plain(
        "a tool that does not exist",
        "unknown_tool.json",
        &[Error("tool_not_found")],
    ),
    plain(
        "a tool that throws is a result, not a crash",
        "thrown_exception.json",
        &[Error("tool_execution_failed")],
    ),
    plain(
        "a tool's own error keeps its code",
        "domain_error.json",
        &[Error("record_not_found")],
    ),
    plain(
        "a batch of three runs at once",
        "batch_of_three.json",
        &[Success, Success, Success],
    ),
    Scenario {
        title: "a slow tool is cancelled, and no result goes back to the model",
        file: "slow_call.json",
        expected: &[Cancelled],
        stop: true,
        cancel: true,
    },
    Scenario {
        title: "a tool that says that everything is done ends the run",
        file: "stop_flag.json",
        expected: &[Success],
        stop: true,
        cancel: false,
    },
];
