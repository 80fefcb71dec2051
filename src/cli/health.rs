//! `callgate health`: asks the sidecar's health service, for people and for probes.
//!
//! Exit 0 serving, 1 not serving, 2 no answer.

use std::time::Duration;

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::client::{ClientArguments, block_on, failed, word};
use super::output::{Outcome, data, outcome};

/// Ask whether the sidecar serves.
#[derive(Debug, clap::Args)]
pub(super) struct Health {
    /// What to ask for: empty for the whole, `liveness`, `readiness`, or a service's name.
    #[arg(default_value = "")]
    name: String,
    /// How long to wait for an answer, in milliseconds.
    #[arg(long, default_value_t = 3_000)]
    timeout_ms: u64,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

impl Health {
    pub(super) fn run(self) -> Outcome {
        outcome(block_on(async {
            let limit = Duration::from_millis(self.timeout_ms);
            tokio::time::timeout(limit, self.ask())
                .await
                .unwrap_or_else(|_| Err(Outcome::failed("no answer in time")))
        }))
    }

    async fn ask(&self) -> Result<(), Outcome> {
        let mut health = HealthClient::new(self.client.connect().await?);
        let request = HealthCheckRequest {
            service: self.name.clone(),
        };
        let answer = health.check(request).await.map_err(|status| {
            match status.code() == Code::NotFound {
                true => Outcome::failed(format!("no health is told for `{}`", self.name)),
                false => failed(&status),
            }
        })?;
        let status = answer.into_inner().status();
        let text = word(status.as_str_name(), "");
        match self.json {
            true => data(&serde_json::json!({"name": self.name, "status": text}).to_string()),
            false => data(&text),
        }
        match status {
            ServingStatus::Serving => Ok(()),
            ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => {
                Err(Outcome::no(""))
            }
        }
    }
}
