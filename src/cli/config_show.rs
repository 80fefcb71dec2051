//! `callgate config show`: what holds here, and every limit with its ceiling.
//!
//! Never prints a secret: there is none in the configuration.

use super::ConfigArguments;
use super::output::{Outcome, data, outcome, table};
use crate::config::Config;

/// Print the configuration that holds here, with every limit.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    #[command(flatten)]
    config: ConfigArguments,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    /// Only the limits, with unit and ceiling.
    #[arg(long)]
    limits: bool,
}

impl Show {
    pub(super) fn run(self) -> Outcome {
        outcome(self.config.load().and_then(|config| self.show(&config)))
    }

    fn show(&self, config: &Config) -> Result<(), Outcome> {
        if self.limits {
            return self.show_limits(config);
        }
        let text = match self.json {
            true => serde_json::to_string_pretty(config).map_err(|error| error.to_string()),
            false => toml::to_string_pretty(config).map_err(|error| error.to_string()),
        };
        data(text.map_err(Outcome::failed)?.trim_end());
        Ok(())
    }

    fn show_limits(&self, config: &Config) -> Result<(), Outcome> {
        let rows = config.limits.rows();
        if self.json {
            let list: Vec<_> = rows
                .iter()
                .map(|row| {
                    serde_json::json!({
                        "name": row.name, "value": row.value,
                        "unit": row.unit, "ceiling": row.ceiling,
                    })
                })
                .collect();
            data(&serde_json::Value::from(list).to_string());
            return Ok(());
        }
        let header = ["limit", "value", "unit", "ceiling"]
            .map(str::to_owned)
            .to_vec();
        let cells = rows.iter().map(|row| {
            vec![
                row.name.to_owned(),
                row.value.to_string(),
                row.unit.to_owned(),
                row.ceiling.to_string(),
            ]
        });
        let rows: Vec<_> = std::iter::once(header).chain(cells).collect();
        for line in table(&rows) {
            data(&line);
        }
        Ok(())
    }
}
