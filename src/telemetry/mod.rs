//! Logs, to standard error.
//!
//! Arguments and results are never logged: names, sizes and codes are. Never decides anything.

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Where the parser of commands logs the words that it reads.
const LEAKY_TARGETS: [&str; 3] = ["tokenize", "parse", "expansion"];

/// Starts logging. Call once; a second call changes nothing.
///
/// # Errors
/// The filter cannot be read.
pub fn start(config: &LogConfig) -> Result<(), String> {
    let mut filter = EnvFilter::try_new(&config.filter)
        .map_err(|error| format!("`log.filter` cannot be read: {error}"))?;
    for target in LEAKY_TARGETS {
        let off = format!("{target}=off").parse();
        filter = filter.add_directive(off.map_err(|error| format!("`{target}`: {error}"))?);
    }
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    // A second start in one process (tests) keeps the first.
    drop(started);
    Ok(())
}
