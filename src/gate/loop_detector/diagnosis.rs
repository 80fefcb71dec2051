//! A model's opinion whether a run is in a loop: when it is due, and what of an answer counts.
//!
//! Whatever is no clear yes is a no. Never asks: that is an effect.

use serde::Deserialize;

use super::{Detector, LoopFound};

/// When a model is asked, and when it is believed.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagnosisSettings {
    /// First round after which it may be asked.
    pub after_rounds: u32,
    /// Least rounds between two questions.
    pub every_rounds: u32,
    /// It is believed only above this, strictly. 0 to 1.
    pub threshold: f64,
    /// How long it has for its answer, in milliseconds.
    pub timeout_ms: u64,
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

/// What the model says.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The run is in a loop.
    pub is_loop: bool,
    /// In the model's words.
    pub reason: String,
    /// How sure it is, 0 to 1.
    pub confidence: f64,
}

/// Longest reason that is kept, in characters.
const REASON_CHARS_MAX: usize = 512;

impl Diagnosis {
    /// The loop, if the model says so and is sure enough.
    pub fn verdict(&self, settings: &DiagnosisSettings) -> Option<LoopFound> {
        // No comparison with something that is no number holds.
        let is_sure = self.confidence > settings.threshold && self.confidence <= 1.0;
        if !self.is_loop || !is_sure {
            return None;
        }
        let reason: String = self.reason.chars().take(REASON_CHARS_MAX).collect();
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
        DiagnosisSettings {
            after_rounds: 30,
            every_rounds: 10,
            threshold: 0.8,
            timeout_ms: 1,
        }
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
        let text = format!(
            "{{\"is_loop\":true,\"reason\":\"{}\",\"confidence\":0.9}}",
            "ü".repeat(REASON_CHARS_MAX + 1)
        );
        let found = read_answer(&text).and_then(|answer| answer.verdict(&settings()));
        let reason = found.map(|found| found.reason).unwrap_or_default();
        assert_eq!(reason.chars().count(), REASON_CHARS_MAX);
    }

    #[test]
    fn questions_keep_their_distance() {
        assert_eq!(settings().next_round(0), 30);
        assert_eq!(settings().next_round(33), 43);
        assert_eq!(settings().next_round(5), 30);
    }
}
