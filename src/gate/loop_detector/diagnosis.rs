//! The opinion of a hook or a model whether a run is in a loop: when it is due, and what of an answer counts.
//!
//! Whatever is no clear yes is a no. Never asks: that is an effect.

use serde::Deserialize;

use super::{Detector, LoopFound};
use crate::gate::result::cut_text;

/// When somebody is asked, and when it is believed.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagnosisSettings {
    /// An endpoint is asked where no hook is.
    pub has_endpoint: bool,
    /// First round after which somebody may be asked.
    pub after_rounds: u32,
    /// Least rounds between two questions.
    pub every_rounds: u32,
    /// It is believed only above this, strictly. 0 to 1.
    pub threshold: f64,
    /// How long the endpoint has for its answer, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for DiagnosisSettings {
    fn default() -> Self {
        Self {
            has_endpoint: false,
            after_rounds: 30,
            every_rounds: 10,
            threshold: 0.8,
            timeout_ms: 10_000,
        }
    }
}

impl DiagnosisSettings {
    /// The first round that may be diagnosed after the one that was last. Zero: none was.
    pub fn next_round(&self, diagnosed: u32) -> u32 {
        match diagnosed {
            0 => self.after_rounds,
            _ => self
                .after_rounds
                .max(diagnosed.saturating_add(self.every_rounds)),
        }
    }
}

/// What it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The run is in a loop.
    pub is_loop: bool,
    /// In its words.
    pub reason: String,
    /// How sure it is, 0 to 1.
    pub confidence: f64,
}

/// Longest reason that is kept, in bytes; the rest is cut.
const REASON_BYTES_MAX: u64 = 1 << 10;

impl Diagnosis {
    /// The loop, if it says so and is sure enough.
    pub fn verdict(&self, settings: &DiagnosisSettings) -> Option<LoopFound> {
        // No comparison with something that is no number holds.
        let is_sure = self.confidence > settings.threshold && self.confidence <= 1.0;
        if !self.is_loop || !is_sure {
            return None;
        }
        let mut reason = self.reason.clone();
        cut_text(&mut reason, REASON_BYTES_MAX);
        Some(LoopFound {
            detector: Detector::Llm,
            reason: match reason.trim().is_empty() {
                true => "a diagnosis says that the run is in a loop".to_owned(),
                false => reason,
            },
            calls: Vec::new(),
            period: 0,
            repetitions: 0,
            confidence: Some(self.confidence),
        })
    }
}

/// The answer as models write it.
#[derive(Deserialize)]
struct Answer {
    is_loop: bool,
    #[serde(default)]
    reason: String,
    confidence: f64,
}

/// Reads the first `{…}` of a text. None: there is none, or it is no answer.
pub fn read_answer(text: &str) -> Option<Diagnosis> {
    let start = text.find('{')?;
    let object = balanced(text.get(start..)?)?;
    let answer: Answer = serde_json::from_str(object).ok()?;
    Some(Diagnosis {
        is_loop: answer.is_loop,
        reason: answer.reason,
        confidence: answer.confidence,
    })
}

/// The text up to the brace that closes the first one.
fn balanced(text: &str) -> Option<&str> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return text.get(..=at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> DiagnosisSettings {
        DiagnosisSettings::default()
    }

    fn is_loop(text: &str) -> bool {
        read_answer(text).is_some_and(|answer| answer.verdict(&settings()).is_some())
    }

    #[test]
    fn only_what_is_surer_than_the_threshold_counts() {
        let says = |confidence: &str| format!("{{\"is_loop\":true,\"confidence\":{confidence}}}");
        assert!(is_loop(&says("0.81")));
        assert!(is_loop(&says("1")));
        for no in [
            "0.8", "0.80", "0", "-1", "1.01", "NaN", "\"0.9\"", "null", "1e400",
        ] {
            assert!(!is_loop(&says(no)), "{no}");
        }
        assert!(!is_loop("{\"is_loop\":false,\"confidence\":0.99}"));
    }

    #[test]
    fn the_first_object_in_the_text_is_the_answer() {
        let yes = "{\"is_loop\":true,\"reason\":\"a } in it \\\" {\",\"confidence\":0.9}";
        assert!(is_loop(&format!(
            "Well.\n```json\n{yes}\n```\nThat is all {{}}"
        )));
        for no in [
            "",
            "no object",
            "{",
            "{}",
            &format!("{{\"a\":1}} {yes}"),
            "[true]",
        ] {
            assert!(!is_loop(no), "{no}");
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        let kept = |reason: &str| {
            let said = Diagnosis {
                is_loop: true,
                reason: reason.to_owned(),
                confidence: 0.9,
            };
            let found = said.verdict(&settings());
            found.map(|found| found.reason).unwrap_or_default()
        };
        let longest = "ü".repeat(512);
        assert_eq!(longest.len() as u64, REASON_BYTES_MAX);
        assert_eq!(kept(&longest), longest);
        assert_eq!(kept(&format!("{longest}x")), longest);
        assert_eq!(kept(&format!("x{longest}")).len(), 1_023);
    }

    #[test]
    fn questions_keep_their_distance() {
        assert_eq!(settings().next_round(0), 30);
        assert_eq!(settings().next_round(33), 43);
        assert_eq!(settings().next_round(5), 30);
    }
}
