//! `callgate call`: one tool call by hand, through every gate.
//!
//! Exit 0 if the tool did it, 1 if the result is an error.

use bytes::Bytes;
use callgate_client::pb::v1 as pb;

use super::client::{ClientArguments, block_on};
use super::output::{Outcome, data, foreign, outcome};
use super::running::{Form, all_succeeded, result_json, result_lines, run_turn};

/// Make one tool call by hand.
#[derive(Debug, clap::Args)]
pub(super) struct Call {
    /// The tool.
    tool: String,
    /// Its arguments, one JSON object; `-` reads them from standard input.
    #[arg(default_value = "{}")]
    arguments: String,
    /// The session.
    #[arg(long, default_value = "cli")]
    session: String,
    /// The turn's id. The same call sent again under the same id is not run again: what became of it is told.
    #[arg(long)]
    turn: Option<String>,
    /// Longest time for the whole call, in milliseconds.
    #[arg(long)]
    timeout_ms: Option<u32>,
    /// Print what happens meanwhile.
    #[arg(long)]
    events: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

impl Call {
    pub(super) fn run(self) -> Outcome {
        outcome(block_on(self.call()))
    }

    async fn call(&self) -> Result<(), Outcome> {
        let arguments = match self.arguments.as_str() {
            "-" => std::io::read_to_string(std::io::stdin())
                .map_err(|error| Outcome::failed(format!("standard input: {error}")))?,
            text => text.to_owned(),
        };
        let request = pb::RunTurnRequest {
            session_id: self.session.clone(),
            // A run of its own: a stop flag must not end other calls by hand.
            run_id: match &self.turn {
                Some(turn) => format!("cli-{turn}"),
                None => format!("cli-{}", uuid::Uuid::now_v7()),
            },
            turn_id: self
                .turn
                .clone()
                .unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
            calls: vec![pb::ToolCall {
                call_id: "call".to_owned(),
                name: self.tool.clone(),
                arguments_json: Bytes::from(arguments),
                truncated: false,
            }],
            timeout_ms: self.timeout_ms,
            view: Some(pb::TurnView {
                include_output: self.events,
                ..pb::TurnView::default()
            }),
            ..pb::RunTurnRequest::default()
        };
        let form = match (self.events, self.json) {
            (false, _) => Form::ResultOnly,
            (true, true) => Form::Json,
            (true, false) => Form::Lines,
        };
        let completed = run_turn(self.client.connect().await?, request, form).await?;
        let closing = completed.closing_results.iter();
        let cancelled = closing.flat_map(|closing| &closing.results);
        for result in completed.results.iter().chain(cancelled) {
            match self.json {
                true => data(&result_json(result).to_string()),
                false => result_lines(result).iter().for_each(|line| foreign(line)),
            }
        }
        match all_succeeded(&completed) {
            true => Ok(()),
            false => Err(Outcome::no("")),
        }
    }
}
