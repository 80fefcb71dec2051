//! `callgate approvals`: which calls wait for a person, one of them whole, and what a person says.
//!
//! Exit 0 if the decision holds, 1 if it was not taken. A decision carries what was read right before it.
//! Never decides by itself and never shows text of others as it came.

use bytes::Bytes;
use callgate_client::pb::v1 as pb;
use clap::Subcommand;
use tonic::{Code, Status};

use super::approval_text::{
    age, approval_json, candidate_lines, choice_word, lines, risk_word, why,
};
use super::client::{ClientArguments, block_on, failed};
use super::deciding::{Desk, Surface, decision_on, desk, refusal, send};
use super::output::{Outcome, data, outcome, table};
use super::panel;
use super::visible::{visible, visible_json};
use crate::base::clock::Clock;

/// See and decide what waits for a person.
#[derive(Debug, Subcommand)]
pub(super) enum Approvals {
    /// List what waits, oldest first.
    List(List),
    /// Show one approval whole.
    Show(Show),
    /// Let a call run.
    Approve(Approve),
    /// Do not let a call run.
    Deny(Deny),
    /// Answer in place of the tool.
    Respond(Respond),
    /// Watch and decide in a panel.
    Watch(panel::Watch),
}

/// List what waits, oldest first.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Only of this session.
    #[arg(long, value_name = "SESSION", default_value = "")]
    session: String,
    /// Only of this session and its child sessions.
    #[arg(long, value_name = "SESSION")]
    root: Vec<String>,
    /// Only of this turn.
    #[arg(long, value_name = "TURN", default_value = "")]
    turn: String,
    /// Decided ones as well; needs --session or --turn.
    #[arg(long)]
    all: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Show one approval whole.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// The approval.
    id: String,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Let a call run.
#[derive(Debug, clap::Args)]
pub(super) struct Approve {
    /// The approval.
    id: String,
    /// Store what was proposed, so that calls like this one run unasked in the session.
    #[arg(long)]
    session: bool,
    /// With --session: which proposal, one per undecided part of a command. May be repeated.
    #[arg(long, value_name = "CANDIDATE", requires = "session")]
    grant: Vec<String>,
    /// Run it with these arguments in place of the model's: one JSON object, a file with one, or `-`.
    #[arg(long, value_name = "FILE|JSON", conflicts_with = "session")]
    edit: Option<String>,
    /// For the record.
    #[arg(long, default_value = "")]
    message: String,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Do not let a call run.
#[derive(Debug, clap::Args)]
pub(super) struct Deny {
    /// The approval.
    id: String,
    /// Why, for the model and the record.
    #[arg(long, default_value = "")]
    message: String,
    /// Cancel the whole turn.
    #[arg(long)]
    cancel_turn: bool,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Answer in place of the tool.
#[derive(Debug, clap::Args)]
pub(super) struct Respond {
    /// The approval.
    id: String,
    /// What the model reads as the call's result; `-` reads it from standard input.
    text: String,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

impl Approvals {
    pub(super) fn run(self) -> Outcome {
        outcome(match self {
            Approvals::List(command) => block_on(command.list()),
            Approvals::Show(command) => block_on(command.show()),
            Approvals::Approve(command) => block_on(command.approve()),
            Approvals::Deny(command) => block_on(command.deny()),
            Approvals::Respond(command) => block_on(command.respond()),
            Approvals::Watch(command) => command.run(),
        })
    }
}

impl List {
    async fn list(&self) -> Result<(), Outcome> {
        if self.all && self.session.is_empty() && self.turn.is_empty() {
            return Err(Outcome::usage("--all needs --session or --turn"));
        }
        let states = match self.all {
            true => vec![pb::ApprovalState::Unspecified as i32],
            false => Vec::new(),
        };
        let filter = pb::ApprovalFilter {
            root_session_ids: self.root.clone(),
            session_id: self.session.clone(),
            turn_id: self.turn.clone(),
            states,
            ..pb::ApprovalFilter::default()
        };
        let mut desk = desk(self.client.connect_control().await?);
        let now_ms = Clock::system().now_ms();
        let header = ["approval", "age", "session", "tool", "risk", "why"].map(str::to_owned);
        let mut rows = vec![header.to_vec()];
        let mut page_token = String::new();
        loop {
            let request = pb::ListApprovalsRequest {
                filter: Some(filter.clone()),
                page_size: 0,
                page_token,
            };
            let answer = desk.list_approvals(request).await;
            let answer = answer.map_err(|status| refused(&status))?.into_inner();
            for approval in answer.approvals {
                match self.json {
                    true => data(&visible_json(&approval_json(&approval))),
                    false => rows.push(row(&approval, now_ms)),
                }
            }
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if !self.json {
            table(&rows).iter().for_each(|line| data(line));
        }
        Ok(())
    }
}

fn row(approval: &pb::Approval, now_ms: u64) -> Vec<String> {
    vec![
        visible(&approval.approval_id),
        age(approval.created_at_ms, now_ms),
        visible(&approval.session_id),
        visible(&approval.tool),
        risk_word(approval.risk_level),
        match approval.state() {
            pb::ApprovalState::Unspecified | pb::ApprovalState::Pending => why(approval),
            pb::ApprovalState::Approved
            | pb::ApprovalState::Denied
            | pb::ApprovalState::Answered
            | pb::ApprovalState::Expired
            | pb::ApprovalState::Cancelled
            | pb::ApprovalState::Withdrawn
            | pb::ApprovalState::Superseded => {
                super::approval_text::approval_state_word(approval.state)
            }
        },
    ]
}

impl Show {
    async fn show(&self) -> Result<(), Outcome> {
        let mut desk = desk(self.client.connect_control().await?);
        let approval = read(&mut desk, &self.id).await?;
        if self.json {
            data(&visible_json(&approval_json(&approval)));
            return Ok(());
        }
        for line in lines(&approval, Clock::system().now_ms()) {
            data(&line.to_string());
        }
        let choices: Vec<_> = approval
            .allowed_choices
            .iter()
            .map(|choice| choice_word(*choice))
            .collect();
        data(&format!("choices   {}", choices.join(", ")));
        Ok(())
    }
}

impl Approve {
    async fn approve(&self) -> Result<(), Outcome> {
        let edited = self.edit.as_deref().map(edited_arguments).transpose()?;
        let mut desk = desk(self.client.connect_control().await?);
        let approval = read(&mut desk, &self.id).await?;
        let choice = match (self.session, &edited) {
            (true, _) => pb::ApprovalChoice::Session,
            (false, Some(_)) => pb::ApprovalChoice::Edit,
            (false, None) => pb::ApprovalChoice::Once,
        };
        if self.session && self.grant.is_empty() && approval.grant_candidates.len() > 1 {
            return Err(Outcome::usage(which_grant(&approval)));
        }
        let decision = pb::ApprovalDecision {
            grant_candidate_ids: self.grant.clone(),
            edited_arguments_json: edited.unwrap_or_default(),
            ..decision_on(&approval, choice, &self.message)
        };
        decide(&mut desk, decision, self.json).await
    }
}

/// The whole new arguments: what stands there, or what the file has.
fn edited_arguments(text: &str) -> Result<Bytes, Outcome> {
    let read = match text {
        "-" => std::io::read_to_string(std::io::stdin()),
        json if json.trim_start().starts_with('{') => Ok(json.to_owned()),
        file => std::fs::read_to_string(file),
    };
    read.map(Bytes::from)
        .map_err(|error| Outcome::usage(format!("`{text}`: {error}")))
}

/// What can be chosen from, for somebody who has not.
fn which_grant(approval: &pb::Approval) -> String {
    let mut text = "say which grant to store with --grant, one per part of the command:".to_owned();
    for candidate in &approval.grant_candidates {
        let lines = candidate_lines(candidate).join("\n    ");
        text.push_str(&format!("\n  {} {lines}", visible(&candidate.candidate_id)));
    }
    text
}

impl Deny {
    async fn deny(&self) -> Result<(), Outcome> {
        let mut desk = desk(self.client.connect_control().await?);
        let approval = read(&mut desk, &self.id).await?;
        let choice = match self.cancel_turn {
            true => pb::ApprovalChoice::CancelTurn,
            false => pb::ApprovalChoice::Deny,
        };
        let decision = decision_on(&approval, choice, &self.message);
        decide(&mut desk, decision, self.json).await
    }
}

impl Respond {
    async fn respond(&self) -> Result<(), Outcome> {
        let text = match self.text.as_str() {
            "-" => std::io::read_to_string(std::io::stdin())
                .map_err(|error| Outcome::usage(format!("standard input: {error}")))?,
            text => text.to_owned(),
        };
        let mut desk = desk(self.client.connect_control().await?);
        let approval = read(&mut desk, &self.id).await?;
        let response = pb::ToolResult {
            contents: vec![pb::ContentPart {
                content: Some(pb::content_part::Content::Text(text)),
            }],
            ..pb::ToolResult::default()
        };
        let decision = pb::ApprovalDecision {
            response: Some(response),
            ..decision_on(&approval, pb::ApprovalChoice::Respond, "")
        };
        decide(&mut desk, decision, self.json).await
    }
}

async fn read(desk: &mut Desk, id: &str) -> Result<pb::Approval, Outcome> {
    let request = pb::GetApprovalRequest {
        approval_id: id.to_owned(),
    };
    let answer = desk.get_approval(request).await;
    let answer = answer.map_err(|status| match status.code() == Code::NotFound {
        true => Outcome::no(format!("approval_not_found: `{}`", visible(id))),
        false => refused(&status),
    })?;
    let approval = answer.into_inner().approval;
    approval.ok_or_else(|| Outcome::failed("an answer without an approval"))
}

async fn decide(
    desk: &mut Desk,
    decision: pb::ApprovalDecision,
    json: bool,
) -> Result<(), Outcome> {
    let choice = choice_word(decision.choice);
    let sent = send(desk, decision, Surface::Command).await;
    let outcome = sent.map_err(|status| refused(&status))?;
    let refusal = refusal(&outcome);
    let status = super::client::word(outcome.status().as_str_name(), "DECISION_STATUS_");
    let id = visible(&outcome.approval_id);
    if json {
        let detail = outcome
            .error
            .as_ref()
            .and_then(|error| error.detail.as_ref());
        let object = serde_json::json!({
            "approval_id": outcome.approval_id,
            "status": status,
            "code": detail.map(|detail| detail.code.as_str()),
            "message": outcome.error.as_ref().map(|error| error.message.as_str()),
            "approval": outcome.approval.as_ref().map(approval_json),
        });
        data(&visible_json(&object));
    } else if refusal.is_none() {
        data(&format!("{status}  {id}  {choice}"));
    }
    match refusal {
        None => Ok(()),
        Some(refusal) => Err(Outcome::no(format!("`{id}`: {refusal}"))),
    }
}

/// What a failed request means, with a hint for whoever is not let in.
pub(super) fn refused(status: &Status) -> Outcome {
    match status.code() == Code::PermissionDenied || status.code() == Code::Unauthenticated {
        false => failed(status),
        true => Outcome::failed(format!(
            "{:?}: {}\n\nhint: people decide over control.sock, or with a token of role approver",
            status.code(),
            visible(status.message())
        )),
    }
}
