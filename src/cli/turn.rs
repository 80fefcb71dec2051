//! `callgate turn`: the calls of a provider's message from a file, events as lines or JSON.
//!
//! Exit 0 if every call succeeded, 1 if one did not.

use std::path::PathBuf;

use bytes::Bytes;
use callgate_client::pb::v1 as pb;

use super::client::{ClientArguments, block_on};
use super::output::{Outcome, foreign, outcome};
use super::running::{Form, all_succeeded, result_lines, run_turn};

/// Run the calls of a provider's message from a file.
#[derive(Debug, clap::Args)]
pub(super) struct Turn {
    /// The message, as the provider's API returned it; `-` reads it from standard input.
    file: PathBuf,
    /// Whose form it has.
    #[arg(long, default_value = "openai_chat", value_parser = ["openai_chat"])]
    format: String,
    /// The provider's word for why the model stopped, e.g. `length`.
    #[arg(long, default_value = "")]
    finish_reason: String,
    /// The session.
    #[arg(long, default_value = "cli")]
    session: String,
    /// The run, which a cancelled turn ends. Default: one of this turn's own.
    #[arg(long, default_value = "")]
    run: String,
    /// The turn's id; the same one attaches instead of running twice. Default: a new one.
    #[arg(long)]
    turn: Option<String>,
    /// The toolset.
    #[arg(long, default_value = "")]
    toolset: String,
    /// Print events as JSON, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

impl Turn {
    pub(super) fn run(self) -> Outcome {
        outcome(block_on(self.run_file()))
    }

    async fn run_file(&self) -> Result<(), Outcome> {
        let message = match self.file.as_os_str() == "-" {
            true => std::io::read_to_string(std::io::stdin()),
            false => std::fs::read_to_string(&self.file),
        };
        let message = message
            .map_err(|error| Outcome::failed(format!("`{}`: {error}", self.file.display())))?;
        let turn_id = self
            .turn
            .clone()
            .unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let request = pb::RunTurnRequest {
            session_id: self.session.clone(),
            run_id: match self.run.is_empty() {
                // Not a new id each time: the same turn must be the same request.
                true => turn_id.clone(),
                false => self.run.clone(),
            },
            turn_id,
            toolset: self.toolset.clone(),
            provider_message: Some(pb::ProviderMessage {
                format: pb::ProviderFormat::OpenaiChat as i32,
                message_json: Bytes::from(message),
                finish_reason: self.finish_reason.clone(),
            }),
            view: Some(pb::TurnView {
                include_output: true,
                ..pb::TurnView::default()
            }),
            ..pb::RunTurnRequest::default()
        };
        let form = if self.json { Form::Json } else { Form::Lines };
        let completed = run_turn(self.client.connect().await?, request, form).await?;
        if !self.json {
            for result in &completed.results {
                for line in result_lines(result) {
                    foreign(&format!("result      {}  {line}", result.call_id));
                }
            }
        }
        match all_succeeded(&completed) {
            true => Ok(()),
            false => Err(Outcome::no("")),
        }
    }
}
