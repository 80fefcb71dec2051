//! What is a loop, and who is asked for an opinion.
//!
//! Plain data: never reads a key or opens a connection.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, out_of_range};
use crate::gate::loop_detector::{
    CYCLE_LENGTH_MAX, DiagnosisSettings, LoopCheck, LoopSettings, REPEAT_MAX,
};

/// What ends a run as a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopConfig {
    /// Look for loops among calls. Default true.
    pub enabled: bool,
    /// Equal calls in a row that are a loop, 2 to 100. Default 5. Zero: not looked for.
    pub repeat: u32,
    /// Repetitions of a sequence of calls that are a loop, 2 to 100. Default 5. Zero: not looked for.
    pub cycle_repeat: u32,
    /// Longest sequence that is looked for, 2 to 5 calls. Default 5.
    pub cycle_length_max: u32,
    /// When it is looked: `before_calls`, where the last repetition neither runs nor is asked, or
    /// `after_results`. Default `before_calls`.
    pub check: LoopCheck,
    /// A repetition counts only if the result was equal too. Default false.
    pub compare_results: bool,
    /// The opinion of a hook or a model.
    pub diagnosis: DiagnosisConfig,
}

/// The opinion of the first `loop_diagnose` hook, or without one of a model, asked after rounds without
/// calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiagnosisConfig {
    /// Address of an OpenAI-compatible endpoint, such as `http://127.0.0.1:8000/v1/chat/completions`.
    /// Only `http`. Default empty: only hooks are asked.
    pub endpoint: String,
    /// Name of the model. Default empty; must be set with an endpoint.
    pub model: String,
    /// Variable of the environment that holds the key. Default empty: none.
    pub api_key_env: String,
    /// File that holds the key. Default empty: none.
    pub api_key_file: PathBuf,
    /// How long an answer of the endpoint is awaited, in milliseconds; then it is no loop. Default 10 000. Zero is
    /// refused.
    pub timeout_ms: u64,
    /// First round that may be diagnosed. Default 30. Zero is refused.
    pub after_rounds: u32,
    /// Least rounds between two diagnoses. Default 10. Zero is refused.
    pub every_rounds: u32,
    /// Only an answer that is surer than this is believed, 0 to 1. Default 0.8.
    pub threshold: f64,
}

impl Default for LoopConfig {
    fn default() -> Self {
        let settings = LoopSettings::default();
        Self {
            enabled: true,
            repeat: settings.repeat,
            cycle_repeat: settings.cycle_repeat,
            cycle_length_max: settings.cycle_length_max,
            check: settings.check,
            compare_results: settings.compare_results,
            diagnosis: DiagnosisConfig::default(),
        }
    }
}

impl Default for DiagnosisConfig {
    fn default() -> Self {
        let settings = DiagnosisSettings::default();
        Self {
            endpoint: String::new(),
            model: String::new(),
            api_key_env: String::new(),
            api_key_file: PathBuf::new(),
            timeout_ms: settings.timeout_ms,
            after_rounds: settings.after_rounds,
            every_rounds: settings.every_rounds,
            threshold: settings.threshold,
        }
    }
}

/// Longest wait for a diagnosis, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 600_000;

impl LoopConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [
            ("loop.repeat", self.repeat),
            ("loop.cycle_repeat", self.cycle_repeat),
        ] {
            if value == 1 || value > REPEAT_MAX {
                let problem = format!("must be 2 to {REPEAT_MAX}, or 0 for none");
                return Err(out_of_range(key, &problem));
            }
        }
        if !(2..=CYCLE_LENGTH_MAX).contains(&self.cycle_length_max) {
            let problem = format!("must be 2 to {CYCLE_LENGTH_MAX}");
            return Err(out_of_range("loop.cycle_length_max", &problem));
        }
        self.diagnosis.check()
    }

    /// What is a loop.
    pub(super) fn settings(&self) -> LoopSettings {
        let calls = match self.enabled {
            true => LoopSettings {
                repeat: self.repeat,
                cycle_repeat: self.cycle_repeat,
                ..LoopSettings::default()
            },
            false => LoopSettings::off(),
        };
        let diagnosis = &self.diagnosis;
        LoopSettings {
            cycle_length_max: self.cycle_length_max,
            check: self.check,
            compare_results: self.compare_results,
            diagnosis: DiagnosisSettings {
                has_endpoint: !diagnosis.endpoint.is_empty(),
                after_rounds: diagnosis.after_rounds,
                every_rounds: diagnosis.every_rounds,
                threshold: diagnosis.threshold,
                timeout_ms: diagnosis.timeout_ms,
            },
            ..calls
        }
    }
}

impl DiagnosisConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let numbers = [
            ("loop.diagnosis.timeout_ms", self.timeout_ms, TIMEOUT_MS_MAX),
            (
                "loop.diagnosis.after_rounds",
                u64::from(self.after_rounds),
                u64::from(u32::MAX),
            ),
            (
                "loop.diagnosis.every_rounds",
                u64::from(self.every_rounds),
                u64::from(u32::MAX),
            ),
        ];
        for (key, value, most) in numbers {
            if value == 0 || value > most {
                return Err(out_of_range(key, &format!("must be 1 to {most}")));
            }
        }
        if !(0.0..=1.0).contains(&self.threshold) {
            return Err(out_of_range("loop.diagnosis.threshold", "must be 0 to 1"));
        }
        if self.endpoint.is_empty() {
            return Ok(());
        }
        if self.model.is_empty() {
            return Err(out_of_range(
                "loop.diagnosis.model",
                "must be set where there is an endpoint",
            ));
        }
        if !self.api_key_env.is_empty() && !self.api_key_file.as_os_str().is_empty() {
            return Err(out_of_range(
                "loop.diagnosis.api_key_file",
                "must not be set together with `api_key_env`",
            ));
        }
        self.address().map(|_| ())
    }

    /// Where the endpoint is.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: it is no `http` address.
    pub fn address(&self) -> Result<EndpointAddress, ConfigError> {
        let wrong = || {
            let problem = "must be an address such as `http://127.0.0.1:8000/v1/chat/completions`";
            out_of_range("loop.diagnosis.endpoint", problem)
        };
        let url = url::Url::parse(&self.endpoint).map_err(|_| wrong())?;
        let has_login = !url.username().is_empty() || url.password().is_some();
        if url.scheme() != "http" || has_login {
            return Err(wrong());
        }
        let host = url.host_str().ok_or_else(wrong)?;
        let path = match url.query() {
            None => url.path().to_owned(),
            Some(query) => format!("{}?{query}", url.path()),
        };
        Ok(EndpointAddress {
            host: host.trim_matches(['[', ']']).to_owned(),
            authority: match url.port() {
                None => host.to_owned(),
                Some(port) => format!("{host}:{port}"),
            },
            port: url.port().unwrap_or(80),
            path,
        })
    }
}

/// Where an `http` endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointAddress {
    /// Name or number of the host.
    pub host: String,
    /// Host and port as a request names them.
    pub authority: String,
    /// The port.
    pub port: u16,
    /// Path, with the query if there is one.
    pub path: String,
}
