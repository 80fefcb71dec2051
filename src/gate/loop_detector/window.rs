//! The last calls of a run, and whether they repeat.
//!
//! A call is known by its turn and its place there, so that hearing of it twice counts once; calls of
//! one turn that are the same count once. Never grows: what no verdict can need is forgotten.

use std::collections::{BTreeSet, VecDeque};

use super::{Detector, LoopCheck, LoopFound, LoopSettings, ResultMark, Signature};
use crate::gate::ids::CallIndex;

/// One call of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its position in the turn.
    pub call: CallIndex,
    /// What was called.
    pub signature: Signature,
    /// What came of it. None: nothing yet, or results are not compared.
    pub result: Option<ResultMark>,
}

/// The calls of one turn that count, in call order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Which turn of its run it is, from 1.
    pub number: u32,
    /// Its calls; those of exempt tools are left out.
    pub steps: Vec<Step>,
}

impl Round {
    /// A turn without calls.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            steps: Vec::new(),
        }
    }

    /// Takes a call in, or what it says now if it was heard of before.
    pub fn observe(&mut self, call: CallIndex, signature: Signature) {
        let known = self.steps.iter_mut().find(|step| step.call == call);
        match known {
            Some(step) => step.signature = signature,
            None => self.steps.push(Step {
                call,
                signature,
                result: None,
            }),
        }
    }

    /// Its different calls.
    fn different(&self) -> impl Iterator<Item = &Step> {
        // Nearly always one: looking back costs less than a set.
        self.steps.iter().enumerate().filter_map(|(at, step)| {
            let mut before = self.steps.iter().take(at);
            let is_first = before.all(|earlier| earlier.signature != step.signature);
            is_first.then_some(step)
        })
    }
}

/// What is remembered of a run's calls. By default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopWindow {
    /// By number, each with different calls only.
    rounds: VecDeque<Round>,
    /// The last round after which a model was asked. Zero: none was.
    diagnosed: u32,
}

/// A step in the order of the run.
struct Placed<'a> {
    step: &'a Step,
    /// It belongs to the turn that is judged.
    is_own: bool,
}

impl LoopWindow {
    /// Takes in what a turn called, in place of what was known of that turn.
    pub fn put(&mut self, mut round: Round, settings: &LoopSettings) {
        if round.steps.len() > 1 {
            round.steps = round.different().cloned().collect();
        }
        let after = self
            .rounds
            .iter()
            .rposition(|known| known.number <= round.number);
        match after.and_then(|at| self.rounds.get_mut(at)) {
            Some(known) if known.number == round.number => *known = round,
            _ if round.steps.is_empty() => {}
            _ => self.rounds.insert(after.map_or(0, |at| at + 1), round),
        }
        self.forget_oldest(settings.window_steps());
    }

    /// Leaves as many steps as a verdict can need, in whole turns.
    fn forget_oldest(&mut self, needed: usize) {
        let mut kept: usize = self.rounds.iter().map(|round| round.steps.len()).sum();
        while let Some(oldest) = self.rounds.front() {
            kept -= oldest.steps.len();
            if kept < needed {
                return;
            }
            self.rounds.pop_front();
        }
    }

    /// Whether it has something of that turn.
    pub fn has(&self, round: u32) -> bool {
        self.rounds.iter().any(|known| known.number == round)
    }

    /// How many calls it remembers.
    pub fn steps(&self) -> usize {
        self.rounds.iter().map(|round| round.steps.len()).sum()
    }

    /// A model was asked after that round.
    pub fn note_diagnosis(&mut self, round: u32) {
        self.diagnosed = self.diagnosed.max(round);
    }

    /// The last round after which a model was asked. Zero: none was.
    pub fn diagnosed(&self) -> u32 {
        self.diagnosed
    }

    /// Whether the run is in a loop with this turn, which need not be in the window.
    ///
    /// The turn is judged by the ones before it. The earliest of its calls that makes a loop counts.
    pub fn judge(&self, own: &Round, settings: &LoopSettings) -> Option<LoopFound> {
        let before = self.rounds.iter().filter(|one| one.number < own.number);
        let before = before.flat_map(|round| &round.steps);
        let before = before.map(|step| Placed {
            step,
            is_own: false,
        });
        let steps: Vec<Placed<'_>> = before
            .chain(own.different().map(|step| Placed { step, is_own: true }))
            .collect();
        let first_own = steps.iter().position(|placed| placed.is_own)?;
        let ends = (first_own..steps.len()).filter_map(|last| steps.get(..=last));
        ends.into_iter()
            .find_map(|until| judge_end(until, own, settings))
    }
}

/// Whether the steps end in a loop: one call again and again, else a sequence.
fn judge_end(steps: &[Placed<'_>], own: &Round, settings: &LoopSettings) -> Option<LoopFound> {
    let same = repeats(steps, 1, settings.repeat, settings).then_some((1, settings.repeat));
    let cycle = || {
        let lengths = 2..=settings.cycle_length_max;
        let mut cycles = lengths.map(|length| (length, settings.cycle_repeat));
        cycles.find(|(length, times)| {
            repeats(steps, *length as usize, *times, settings) && !is_uniform(steps, *length)
        })
    };
    let (period, repetitions) = same.or_else(cycle)?;
    let in_loop: BTreeSet<Signature> = steps
        .iter()
        .rev()
        .take(period as usize)
        .map(|placed| placed.step.signature)
        .collect();
    let calls = own.steps.iter();
    let calls = calls.filter(|step| in_loop.contains(&step.signature));
    let (detector, reason) = match period {
        1 => (
            Detector::ToolSignature,
            format!("the same call came {repetitions} times in a row"),
        ),
        _ => (
            Detector::Cycle,
            format!("the same {period} calls came {repetitions} times in a row"),
        ),
    };
    Some(LoopFound {
        detector,
        reason,
        calls: calls.map(|step| step.call).collect(),
        period,
        repetitions,
        confidence: None,
    })
}

/// Whether the last steps are one sequence of `length`, `times` times.
fn repeats(steps: &[Placed<'_>], length: usize, times: u32, settings: &LoopSettings) -> bool {
    let span = length.saturating_mul(times as usize);
    if times == 0 || span > steps.len() {
        return false;
    }
    let last = steps.get(steps.len() - span..).unwrap_or_default();
    let pairs = last.iter().zip(last.iter().skip(length));
    pairs
        .into_iter()
        .all(|(one, other)| is_repetition(one, other, settings))
}

fn is_repetition(one: &Placed<'_>, other: &Placed<'_>, settings: &LoopSettings) -> bool {
    if one.step.signature != other.step.signature {
        return false;
    }
    // Nobody knows yet what would come of the calls that are being judged.
    let is_open = other.is_own && settings.check == LoopCheck::BeforeCalls;
    !settings.compare_results
        || is_open
        || one.step.result.is_some() && one.step.result == other.step.result
}

/// Whether the last `length` steps are all the same: then it is no sequence, but one call in a row.
fn is_uniform(steps: &[Placed<'_>], length: u32) -> bool {
    let mut last = steps.iter().rev().take(length as usize);
    let first = last.next().map(|placed| placed.step.signature);
    last.all(|placed| Some(placed.step.signature) == first)
}
