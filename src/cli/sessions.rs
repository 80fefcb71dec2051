//! `callgate sessions`: which sessions there are, how much runs unasked in one, what was granted there.
//!
//! A change carries the etag that was read right before it. Never makes or closes a session.

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::session_service_client::SessionServiceClient;
use clap::Subcommand;
use serde_json::{Value, json};
use tonic::Code;

use super::approval_text::{age, grant_json, grant_kind_word, mode_word};
use super::approvals::refused;
use super::client::{ClientArguments, block_on, word};
use super::output::{Outcome, data, outcome, table};
use super::visible::{visible, visible_json};
use crate::base::clock::Clock;

/// See sessions, change their mode, take grants back.
#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List sessions, last used first.
    List(List),
    /// Show one session.
    Show(Show),
    /// Say how much runs unasked in a session, or change it.
    Mode(ModeOf),
    /// List what was granted in a session, newest first.
    Grants(Grants),
    /// Take grants back.
    Revoke(Revoke),
}

/// List sessions, last used first.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Only this session and its line.
    #[arg(long, value_name = "SESSION", default_value = "")]
    root: String,
    /// Closed ones as well.
    #[arg(long)]
    all: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Show one session.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// The session.
    id: String,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Say how much runs unasked in a session, or change it.
#[derive(Debug, clap::Args)]
pub(super) struct ModeOf {
    /// The session.
    id: String,
    /// The new mode. Everything that waits is decided again with it.
    #[arg(value_parser = ["plan", "default", "accept_edits", "auto"])]
    mode: Option<String>,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// List what was granted in a session, newest first.
#[derive(Debug, clap::Args)]
pub(super) struct Grants {
    /// The session.
    id: String,
    /// Ended ones as well.
    #[arg(long)]
    all: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

/// Take grants back.
#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// The session.
    id: String,
    /// The grants.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    grants: Vec<String>,
    /// Every grant of the session.
    #[arg(long)]
    all: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArguments,
}

type Client = SessionServiceClient<AuthorizedChannel>;

impl Sessions {
    pub(super) fn run(self) -> Outcome {
        outcome(block_on(async {
            match self {
                Sessions::List(command) => command.list().await,
                Sessions::Show(command) => command.show().await,
                Sessions::Mode(command) => command.mode().await,
                Sessions::Grants(command) => command.list().await,
                Sessions::Revoke(command) => command.revoke().await,
            }
        }))
    }
}

async fn connect(client: &ClientArguments) -> Result<Client, Outcome> {
    Ok(SessionServiceClient::new(client.connect_control().await?))
}

/// What a failed request about one session means.
fn unless_unknown(status: &tonic::Status, id: &str) -> Outcome {
    match status.code() == Code::NotFound {
        true => Outcome::no(format!("not_found: `{}`", visible(id))),
        false => refused(status),
    }
}

async fn read(client: &mut Client, id: &str) -> Result<pb::Session, Outcome> {
    let request = pb::GetSessionRequest {
        session_id: id.to_owned(),
    };
    let answer = client.get_session(request).await;
    let session = answer.map_err(|status| unless_unknown(&status, id))?;
    let session = session.into_inner().session;
    session.ok_or_else(|| Outcome::failed("an answer without a session"))
}

fn mode_of(session: &pb::Session) -> String {
    mode_word(session.settings.as_ref().map_or(0, |set| set.mode))
}

fn session_json(session: &pb::Session) -> Value {
    let settings = session.settings.clone().unwrap_or_default();
    json!({
        "session_id": session.session_id,
        "parent_session_id": session.parent_session_id,
        "root_session_id": session.root_session_id,
        "depth": session.depth,
        "mode": mode_of(session),
        "max_mode": mode_word(session.max_mode),
        "batch_policy": word(settings.batch_policy().as_str_name(), "BATCH_POLICY_"),
        "max_parallel": settings.max_parallel,
        "toolset": settings.toolset,
        "cwd": settings.cwd,
        "approvers": word(settings.approvers().as_str_name(), "APPROVER_AVAILABILITY_"),
        "approval_ttl_ms": settings.approval_ttl_ms,
        "pending_approvals": session.pending_approvals,
        "created_at_ms": session.created_at_ms,
        "used_at_ms": session.used_at_ms,
        "closed_at_ms": session.closed_at_ms,
        "etag": session.etag,
    })
}

/// Every field, a line each.
fn session_lines(session: &pb::Session, now_ms: u64) -> Vec<String> {
    let settings = session.settings.clone().unwrap_or_default();
    let text = |text: Option<&str>| match text {
        None | Some("") => "-".to_owned(),
        Some(text) => visible(text),
    };
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let ago = |at_ms: u64| format!("{} ago", age(at_ms, now_ms));
    [
        ("session", visible(&session.session_id)),
        ("parent", text(Some(&session.parent_session_id))),
        ("root", visible(&session.root_session_id)),
        ("mode", mode_of(session)),
        ("max mode", mode_word(session.max_mode)),
        (
            "batch policy",
            word(settings.batch_policy().as_str_name(), "BATCH_POLICY_"),
        ),
        ("max parallel", number(settings.max_parallel.map(u64::from))),
        ("toolset", text(settings.toolset.as_deref())),
        ("cwd", text(settings.cwd.as_deref())),
        (
            "approvers",
            word(settings.approvers().as_str_name(), "APPROVER_AVAILABILITY_"),
        ),
        ("approval ttl ms", number(settings.approval_ttl_ms)),
        ("waiting", session.pending_approvals.to_string()),
        ("created", ago(session.created_at_ms)),
        ("used", ago(session.used_at_ms)),
        ("closed", session.closed_at_ms.map_or("no".to_owned(), ago)),
    ]
    .map(|(name, value)| format!("{name:<16} {value}"))
    .to_vec()
}

impl List {
    async fn list(&self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        let now_ms = Clock::system().now_ms();
        let header = ["session", "mode", "waiting", "used", "parent"].map(str::to_owned);
        let mut rows = vec![header.to_vec()];
        let mut page_token = String::new();
        loop {
            let request = pb::ListSessionsRequest {
                root_session_id: self.root.clone(),
                include_closed: self.all,
                page_size: 0,
                page_token,
            };
            let answer = client.list_sessions(request).await;
            let answer = answer.map_err(|status| refused(&status))?.into_inner();
            for session in answer.sessions {
                match self.json {
                    true => data(&visible_json(&session_json(&session))),
                    false => rows.push(vec![
                        visible(&session.session_id),
                        match session.closed_at_ms {
                            None => mode_of(&session),
                            Some(_) => "closed".to_owned(),
                        },
                        session.pending_approvals.to_string(),
                        format!("{} ago", age(session.used_at_ms, now_ms)),
                        visible(&session.parent_session_id),
                    ]),
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

impl Show {
    async fn show(&self) -> Result<(), Outcome> {
        let session = read(&mut connect(&self.client).await?, &self.id).await?;
        if self.json {
            data(&visible_json(&session_json(&session)));
            return Ok(());
        }
        let lines = session_lines(&session, Clock::system().now_ms());
        lines.iter().for_each(|line| data(line));
        Ok(())
    }
}

impl ModeOf {
    async fn mode(&self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        let session = read(&mut client, &self.id).await?;
        let before = mode_of(&session);
        let Some(mode) = self.mode.as_deref().and_then(parse_mode) else {
            match self.json {
                true => data(&visible_json(&session_json(&session))),
                false => data(&before),
            }
            return Ok(());
        };
        let request = mode_change(&session, mode);
        let answer = client.update_session(request).await;
        let answer = answer.map_err(|status| not_changed(&status, &self.id))?;
        let answer = answer.into_inner();
        let after = answer.session.unwrap_or_default();
        let (released, denied) = (answer.released, answer.denied);
        match self.json {
            true => data(&visible_json(&json!({
                "session": session_json(&after), "released": released, "denied": denied,
            }))),
            false => data(&format!(
                "{before} to {}; {released} released, {denied} denied",
                mode_of(&after)
            )),
        }
        Ok(())
    }
}

/// The mode of a word. None: there is no such mode.
pub(super) fn parse_mode(word: &str) -> Option<pb::Mode> {
    pb::Mode::from_str_name(&format!("MODE_{}", word.to_uppercase()))
}

/// The request that gives a session, as it was seen, another mode.
pub(super) fn mode_change(seen: &pb::Session, mode: pb::Mode) -> pb::UpdateSessionRequest {
    pb::UpdateSessionRequest {
        session_id: seen.session_id.clone(),
        etag: seen.etag.clone(),
        settings: Some(pb::SessionSettings {
            mode: mode as i32,
            ..pb::SessionSettings::default()
        }),
    }
}

/// What a change that was not taken means: the sidecar said no, or could not be asked.
fn not_changed(status: &tonic::Status, id: &str) -> Outcome {
    match status.code() == Code::FailedPrecondition || status.code() == Code::Aborted {
        true => Outcome::no(visible(status.message())),
        false => unless_unknown(status, id),
    }
}

impl Grants {
    async fn list(&self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        let state = match self.all {
            true => pb::GrantState::Unspecified,
            false => pb::GrantState::Active,
        };
        let mut grants = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = pb::ListGrantsRequest {
                session_id: self.id.clone(),
                state: state as i32,
                page_size: 0,
                page_token,
            };
            let answer = client.list_grants(request).await;
            let answer = answer.map_err(|status| unless_unknown(&status, &self.id))?;
            let answer = answer.into_inner();
            grants.extend(answer.grants);
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        print_grants(&grants, self.json);
        Ok(())
    }
}

fn print_grants(grants: &[pb::Grant], json: bool) {
    if json {
        let objects = grants.iter().map(grant_json);
        objects.for_each(|object| data(&visible_json(&object)));
        return;
    }
    let now_ms = Clock::system().now_ms();
    let header = [
        "grant", "kind", "rule", "tool", "uses", "age", "state", "by",
    ]
    .map(str::to_owned);
    let rows = grants.iter().map(|grant| {
        vec![
            visible(&grant.grant_id),
            grant_kind_word(grant.kind),
            visible(&grant.rule),
            visible(&grant.tool),
            grant.uses.to_string(),
            age(grant.granted_at_ms, now_ms),
            word(grant.state().as_str_name(), "GRANT_STATE_"),
            visible(&grant.granted_by),
        ]
    });
    let rows: Vec<_> = std::iter::once(header.to_vec()).chain(rows).collect();
    table(&rows).iter().for_each(|line| data(line));
}

impl Revoke {
    async fn revoke(&self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        // An empty list means all of them: it is never sent by mistake, the arguments see to that.
        let request = pb::RevokeGrantsRequest {
            session_id: self.id.clone(),
            grant_ids: self.grants.clone(),
        };
        let answer = client.revoke_grants(request).await;
        // The session, or one of the grants: the sidecar says which.
        let unknown = |status: &tonic::Status| status.code() == Code::NotFound;
        let answer = answer.map_err(|status| match unknown(&status) {
            true => Outcome::no(format!("not_found: {}", visible(status.message()))),
            false => refused(&status),
        })?;
        let answer = answer.into_inner();
        print_grants(&answer.grants, self.json);
        if !self.json {
            super::output::note(&format!("the mode is {}", mode_word(answer.mode)));
        }
        Ok(())
    }
}
