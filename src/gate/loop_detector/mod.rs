//! Whether a run does the same again and again.
//!
//! Signatures of calls stand in a window of the run, across its turns; equal ones in a row, or a
//! sequence that repeats, are a loop. Plain data: what it holds can be made again from the calls and
//! results of the run's turns. Never keeps arguments, only hashes of them.

mod diagnosis;
mod signature;
mod window;

use serde::{Deserialize, Serialize};

pub use diagnosis::{Diagnosis, DiagnosisSettings, read_answer};
pub use signature::{ResultMark, Signature};
pub use window::{LoopWindow, Round, Step};

use super::ids::CallIndex;

/// Longest sequence whose repetition is looked for, in calls.
pub const CYCLE_LENGTH_MAX: u32 = 5;
/// Most repetitions that a config may ask for.
pub const REPEAT_MAX: u32 = 100;

/// When loops are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopCheck {
    /// Before anybody is asked: the last repetition neither runs nor is asked.
    #[default]
    BeforeCalls,
    /// When the results stand: the last repetition still runs.
    AfterResults,
}

/// What counts as a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopSettings {
    /// Equal calls in a row. Zero: not looked for.
    pub repeat: u32,
    /// Repetitions of a sequence. Zero: not looked for.
    pub cycle_repeat: u32,
    /// Longest sequence, in calls.
    pub cycle_length_max: u32,
    /// When it is looked.
    pub check: LoopCheck,
    /// A repetition counts only if the result was equal too.
    pub compare_results: bool,
    /// When others are asked for an opinion.
    pub diagnosis: DiagnosisSettings,
}

impl Default for LoopSettings {
    fn default() -> Self {
        Self {
            repeat: 5,
            cycle_repeat: 5,
            cycle_length_max: CYCLE_LENGTH_MAX,
            check: LoopCheck::BeforeCalls,
            compare_results: false,
            diagnosis: DiagnosisSettings::default(),
        }
    }
}

impl LoopSettings {
    /// Nothing is a loop.
    pub fn off() -> Self {
        Self {
            repeat: 0,
            cycle_repeat: 0,
            ..Self::default()
        }
    }

    /// Whether calls are compared at all.
    pub fn compares_calls(&self) -> bool {
        self.repeat > 0 || self.cycle_repeat > 0
    }

    /// How many different calls must be remembered.
    pub fn window_steps(&self) -> usize {
        let longest = self.cycle_length_max.saturating_mul(self.cycle_repeat);
        self.repeat.max(longest) as usize
    }
}

/// What found a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detector {
    /// The same call in a row.
    ToolSignature,
    /// The same sequence of calls in a row.
    Cycle,
    /// A model that was asked.
    Llm,
}

impl Detector {
    /// The word that people see.
    pub fn as_str(self) -> &'static str {
        match self {
            Detector::ToolSignature => "tool_signature",
            Detector::Cycle => "cycle",
            Detector::Llm => "llm",
        }
    }
}

/// A loop, as it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopFound {
    /// What found it.
    pub detector: Detector,
    /// For people.
    pub reason: String,
    /// The calls of the turn that belong to it, in call order. Empty: a model found it.
    pub calls: Vec<CallIndex>,
    /// Length of the repeated sequence, in calls. Zero: a model found it.
    pub period: u32,
    /// How often it stands there, the last one included. Zero: a model found it.
    pub repetitions: u32,
    /// How sure the model is, 0 to 1.
    pub confidence: Option<f64>,
}
