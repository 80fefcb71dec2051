//! `callgate demo`: a sidecar, a Python executor and recorded messages, each of which must end as it
//! must.
//!
//! Exit 0 only if all of them did. Leaves nothing behind: the state is in a temporary directory.

mod approvals;
mod audit;
mod hooks;
mod loops;
mod processes;
mod scenarios;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use callgate_client::connect::{AuthorizedChannel, Target};
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::registry_service_client::RegistryServiceClient;
use callgate_client::pb::v1::turn_service_client::TurnServiceClient;
use pb::turn_event::Body;

use super::client::{block_on, failed};
use super::output::{Outcome, data, outcome};
use super::running::{event_line, result_lines};
use processes::{Running, TempDir};
use scenarios::{Expected, SCENARIOS, Scenario};

/// How long the sidecar and the executor may take to be there.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long one scenario may take.
const SCENARIO_LIMIT: Duration = Duration::from_secs(30);
/// Scenarios besides the recorded messages: one of loops, one of hooks, two of approvals, one of
/// registrations, one of the audit.
const OTHERS: usize = 6;
/// What the executor registers.
const TOOLS: usize = 7;

/// Run a sidecar, a Python executor and recorded messages, and check that each ends as it must.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// The Python that has the `callgate` package.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Directory of the example tools and messages.
    #[arg(long, default_value = "clients/python/examples")]
    examples: PathBuf,
}

impl Demo {
    pub(super) fn run(self) -> Outcome {
        outcome(block_on(self.play()))
    }

    async fn play(&self) -> Result<(), Outcome> {
        let dir = TempDir::make()?;
        data("starting a sidecar on an empty store");
        let mut sidecar = Running::sidecar(dir.path()).await?;
        let endpoint = sidecar.endpoint.clone();
        data(&format!("  {endpoint}"));
        data("starting the bakery, an executor in Python");
        let mut bakery =
            Running::python(&self.python, &self.examples, "baking_tools.py", &endpoint)?;
        let channel = Target {
            endpoint: Some(endpoint.clone()),
            token: None,
        };
        let channel = channel
            .connect()
            .await
            .map_err(|error| Outcome::failed(error.to_string()))?;
        wait_for_tools(&channel).await?;
        let mut surprises = Vec::new();
        for scenario in SCENARIOS {
            let played = self.play_one(&channel, scenario);
            surprises.extend(surprise(scenario.title, played).await);
        }
        let played = loops::play(&channel, &self.examples);
        surprises.extend(surprise("loops", played).await);
        let played = hooks::play(&channel, &self.python, &self.examples, &endpoint);
        surprises.extend(surprise("hooks", played).await);
        let played = approvals::play(&mut sidecar, dir.path(), &self.examples);
        surprises.extend(surprise("approvals", played).await);
        data("\nregistrations that must be refused");
        let bad = Running::python(&self.python, &self.examples, "bad_tools.py", &endpoint)?;
        if let Err(problem) = bad.must_succeed().await {
            surprises.push(format!("bad registrations: {}", text_of(&problem)));
        }
        bakery.stop().await?;
        sidecar.stop().await?;
        if let Err(problem) = audit::play(dir.path()) {
            let problem = format!("audit: {}", text_of(&problem));
            data(&format!("  NOT as it must: {problem}"));
            surprises.push(problem);
        }
        verdict(&surprises)
    }

    async fn play_one(
        &self,
        channel: &AuthorizedChannel,
        scenario: &Scenario,
    ) -> Result<(), Outcome> {
        data(&format!("\n{}", scenario.title));
        let request = pb::RunTurnRequest {
            run_id: scenario.file.trim_end_matches(".json").to_owned(),
            turn_id: scenario.file.to_owned(),
            ..message_request(&self.examples, scenario.file)?
        };
        let completed = run(channel, request, scenario.cancel).await?;
        let shown = match &completed.closing_results {
            Some(closing) => &closing.results,
            None => &completed.results,
        };
        show_results(shown);
        check(&completed, shown, scenario)
    }
}

/// What went otherwise than it must, if anything.
async fn surprise(
    title: &str,
    played: impl Future<Output = Result<(), Outcome>>,
) -> Option<String> {
    let ended = tokio::time::timeout(SCENARIO_LIMIT, played).await;
    let ended = ended.unwrap_or_else(|_| Err(Outcome::failed("it did not end in time")));
    let problem = format!("{title}: {}", text_of(&ended.err()?));
    data(&format!("  NOT as it must: {problem}"));
    Some(problem)
}

/// A turn of a recorded message.
fn message_request(examples: &Path, file: &str) -> Result<pb::RunTurnRequest, Outcome> {
    let message = read(&examples.join("messages").join(file))?;
    Ok(pb::RunTurnRequest {
        session_id: "demo".to_owned(),
        provider_message: Some(pb::ProviderMessage {
            format: pb::ProviderFormat::OpenaiChat as i32,
            message_json: Bytes::from(message),
            finish_reason: String::new(),
        }),
        view: Some(pb::TurnView {
            include_output: true,
            ..pb::TurnView::default()
        }),
        ..pb::RunTurnRequest::default()
    })
}

fn show_results(results: &[pb::CallResult]) {
    for result in results {
        for line in result_lines(result) {
            data(&format!("  → {}: {line}", result.tool));
        }
    }
}

fn text_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Fine => "",
        Outcome::No(text) | Outcome::Failed(text) | Outcome::Usage(text) => text,
    }
}

fn read(file: &Path) -> Result<String, Outcome> {
    std::fs::read_to_string(file)
        .map_err(|error| Outcome::failed(format!("`{}`: {error}", file.display())))
}

fn read_bytes(file: &Path) -> Result<Vec<u8>, Outcome> {
    std::fs::read(file).map_err(|error| Outcome::failed(format!("`{}`: {error}", file.display())))
}

async fn wait_for_tools(channel: &AuthorizedChannel) -> Result<(), Outcome> {
    let mut registry = RegistryServiceClient::new(channel.clone());
    let watch = pb::WatchToolsRequest::default();
    let mut changes = registry
        .watch_tools(watch)
        .await
        .map_err(|status| failed(&status))?
        .into_inner();
    let seen = async {
        let mut seen = 0;
        while seen < TOOLS {
            let change = changes.message().await.map_err(|status| failed(&status))?;
            let Some(change) = change else {
                return Err(Outcome::failed("the sidecar ended"));
            };
            for tool in change.tools {
                let definition = tool.definition.unwrap_or_default();
                data(&format!("  registered {}", definition.name));
                seen += 1;
            }
        }
        Ok(())
    };
    tokio::time::timeout(START_LIMIT, seen)
        .await
        .unwrap_or_else(|_| Err(Outcome::failed("the executor did not register in time")))
}

/// Runs one turn and prints its events; with `cancel`, cancels it once a call executes.
async fn run(
    channel: &AuthorizedChannel,
    request: pb::RunTurnRequest,
    cancel: bool,
) -> Result<pb::TurnCompleted, Outcome> {
    let mut turns = TurnServiceClient::new(channel.clone());
    let mut canceller = turns.clone();
    let cancellation = pb::CancelTurnRequest {
        turn_id: request.turn_id.clone(),
        session_id: request.session_id.clone(),
        reason: "nobody wants bread any more".to_owned(),
        grace_ms: None,
    };
    let mut wants_cancel = cancel;
    let mut events = turns
        .run_turn(request)
        .await
        .map_err(|status| failed(&status))?
        .into_inner();
    while let Some(message) = events.message().await.map_err(|status| failed(&status))? {
        for event in message.turn.unwrap_or_default().events {
            if let Some(line) = event_line(&event) {
                data(&format!("  {line}"));
            }
            match event.body {
                Some(Body::TurnCompleted(completed)) => return Ok(completed),
                Some(Body::CallProgress(_)) if wants_cancel => {
                    wants_cancel = false;
                    data("  (the orchestrator cancels)");
                    canceller
                        .cancel_turn(cancellation.clone())
                        .await
                        .map_err(|status| failed(&status))?;
                }
                _ => {}
            }
        }
    }
    Err(Outcome::failed("the stream ended before the turn did"))
}

fn check(
    completed: &pb::TurnCompleted,
    results: &[pb::CallResult],
    scenario: &Scenario,
) -> Result<(), Outcome> {
    if completed.stop != scenario.stop {
        let wanted = scenario.stop;
        return Err(Outcome::failed(format!("stop is not {wanted}")));
    }
    if results.len() != scenario.expected.len() {
        return Err(Outcome::failed(format!("{} results", results.len())));
    }
    for (result, expected) in results.iter().zip(scenario.expected) {
        let code = result
            .error
            .as_ref()
            .map_or("", |error| error.code.as_str());
        let fits = match expected {
            Expected::Success => result.outcome() == pb::CallOutcome::Success,
            Expected::Error(wanted) => {
                result.outcome() == pb::CallOutcome::Error && code == *wanted
            }
            Expected::Cancelled => result.outcome() == pb::CallOutcome::Cancelled,
        };
        if !fits {
            return Err(Outcome::failed(format!(
                "`{}` ended {:?} {code} instead of {expected:?}",
                result.tool,
                result.outcome()
            )));
        }
    }
    Ok(())
}

fn verdict(surprises: &[String]) -> Result<(), Outcome> {
    match surprises {
        [] => {
            data(&format!(
                "\nall {} scenarios ended as they must",
                SCENARIOS.len() + OTHERS
            ));
            Ok(())
        }
        surprises => Err(Outcome::no(format!(
            "{} scenario(s) did not end as they must:\n  {}",
            surprises.len(),
            surprises.join("\n  ")
        ))),
    }
}
