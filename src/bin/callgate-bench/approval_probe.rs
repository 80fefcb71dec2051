//! `approval-probe`: what a grant costs a call, and what a page of many approvals costs.
//!
//! Safe and granted turns take turns, and so do commits of the disk itself, so that a drift of the
//! machine meets all three. Bounded in number and time. Prints one JSON line.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use callgate::base::mint::Mint;
use callgate::pb::v1 as pb;
use callgate_client::connect::{AuthorizedChannel, Target};
use pb::approval_service_client::ApprovalServiceClient;
use pb::turn_service_client::TurnServiceClient;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::clock::{nanos, now};
use crate::connect::Place;
use crate::drive::{Shape, Worker, micros};
use crate::histogram::Histogram;
use crate::output::data;
use crate::payload::{ASKED_TOOL, Payload, TOOL};
use crate::problem::{Problem, io};

/// Longest time for everything.
const LIMIT: Duration = Duration::from_secs(240);
/// Size of arguments, in bytes.
const ARGUMENTS: usize = 200;
/// What one commit of the disk writes: a page of the store.
const COMMIT: [u8; 4_096] = [0; 4_096];
/// Turns on each side in one group.
const GROUP: u32 = 100;
/// Calls that wait, of one turn: half of what one session may have.
const CALLS: u32 = 125;
/// Turns that are sent at once.
const AT_ONCE: usize = 16;
/// Approvals on a page, and pages that are timed.
const PAGE: u32 = 100;
const PAGES: u32 = 50;

/// Measures grants and lists of approvals.
#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalProbe {
    #[command(flatten)]
    place: Place,
    /// The socket of approvers.
    #[arg(long, value_name = "URL")]
    approvers: String,
    /// A directory on the disk of the sidecar's store.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How often spans are measured.
    #[arg(long, default_value_t = 7)]
    groups: u32,
    /// Calls that wait when pages are measured first.
    #[arg(long, default_value_t = 1_000)]
    few: u32,
    /// And then.
    #[arg(long, default_value_t = 100_000)]
    many: u32,
}

/// Medians of one group, in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GrantSpans {
    /// A turn of one call that nobody need be asked about.
    pub(crate) safe: f64,
    /// The same, of a call that a session's grant allows.
    pub(crate) granted: f64,
    /// A page written to the disk and flushed.
    pub(crate) commit: f64,
}

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApprovalReport {
    /// Group by group.
    pub(crate) grants: Vec<GrantSpans>,
    /// A page while few wait, in microseconds, page by page.
    pub(crate) few_us: Vec<f64>,
    /// The same while many wait.
    pub(crate) many_us: Vec<f64>,
}

impl ApprovalProbe {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let measured = tokio::time::timeout(LIMIT, self.measure()).await;
        let report = measured.map_err(|_| Problem::Late {
            what: "the probe".to_owned(),
            limit: LIMIT,
        })??;
        let line = serde_json::to_string(&report)
            .map_err(|error| Problem::Unexpected(error.to_string()))?;
        data(&line);
        Ok(())
    }

    async fn measure(&self) -> Result<ApprovalReport, Problem> {
        let channel = self.place.connect().await?;
        let target = Target {
            endpoint: Some(self.approvers.clone()),
            token: None,
        };
        let approvals = ApprovalServiceClient::new(target.connect().await?);
        let grants = self.grants(&channel, approvals.clone()).await?;
        let turns = TurnServiceClient::new(channel);
        fill(&turns, 0..self.few / CALLS).await?;
        let few_us = pages(approvals.clone()).await?;
        fill(&turns, self.few / CALLS..self.many / CALLS).await?;
        let many_us = pages(approvals).await?;
        Ok(ApprovalReport {
            grants,
            few_us,
            many_us,
        })
    }

    async fn grants(
        &self,
        channel: &AuthorizedChannel,
        approvals: ApprovalServiceClient<AuthorizedChannel>,
    ) -> Result<Vec<GrantSpans>, Problem> {
        let mint = Mint::new();
        let worker = |tool| {
            let payload = Payload::new(ARGUMENTS, 1);
            Worker::start(channel.clone(), Shape::Run, (mint.id(), tool), 1, payload)
        };
        let mut safe = worker(TOOL).await?;
        let mut granted = worker(ASKED_TOOL).await?;
        let (asked, answered) = tokio::join!(granted.turn(), grant_what_waits(approvals));
        answered?;
        asked?;
        let mut disk = File::create(self.dir.join("probe")).map_err(io("cannot make a file"))?;
        let mut groups = Vec::new();
        for _ in 0..self.groups {
            let (mut on_safe, mut on_granted) = (Histogram::new(), Histogram::new());
            let mut on_disk = Histogram::new();
            for _ in 0..GROUP {
                on_safe.record(turn(&mut safe).await?);
                on_granted.record(turn(&mut granted).await?);
                on_disk.record(commit(&mut disk).map_err(io("cannot write a page"))?);
            }
            groups.push(GrantSpans {
                safe: micros(on_safe.at(0.5)),
                granted: micros(on_granted.at(0.5)),
                commit: micros(on_disk.at(0.5)),
            });
        }
        Ok(groups)
    }
}

async fn turn(worker: &mut Worker) -> Result<u64, Problem> {
    let started = now();
    worker.turn().await?;
    Ok(nanos(started.elapsed()))
}

fn commit(disk: &mut File) -> std::io::Result<u64> {
    let started = now();
    disk.write_all(&COMMIT)?;
    disk.sync_data()?;
    Ok(nanos(started.elapsed()))
}

/// Waits for the first approval, and grants it for its session.
async fn grant_what_waits(
    mut approvals: ApprovalServiceClient<AuthorizedChannel>,
) -> Result<(), Problem> {
    let all = pb::WatchApprovalsRequest::default();
    let mut watched = approvals.watch_approvals(all).await?.into_inner();
    while let Some(told) = watched.message().await? {
        let Some(approval) = told.approvals.into_iter().next() else {
            continue;
        };
        let decision = pb::ApprovalDecision {
            approval_id: approval.approval_id,
            approval_digest: approval.approval_digest,
            etag: approval.etag,
            choice: pb::ApprovalChoice::Session as i32,
            grant_candidate_ids: approval
                .grant_candidates
                .into_iter()
                .take(1)
                .map(|candidate| candidate.candidate_id)
                .collect(),
            ..pb::ApprovalDecision::default()
        };
        let request = pb::DecideApprovalsRequest {
            decisions: vec![decision],
        };
        let decided = approvals.decide_approvals(request).await?.into_inner();
        let taken = decided.outcomes.first();
        return match taken.map(pb::DecisionOutcome::status) {
            Some(pb::DecisionStatus::Taken) => Ok(()),
            other => Err(Problem::Unexpected(format!("no grant: {other:?}"))),
        };
    }
    Err(Problem::Unexpected("nothing was asked".to_owned()))
}

/// Lets the calls of these turns wait.
async fn fill(
    turns: &TurnServiceClient<AuthorizedChannel>,
    numbers: std::ops::Range<u32>,
) -> Result<(), Problem> {
    let mut sent = JoinSet::new();
    let ended = |joined: Result<Result<(), Problem>, tokio::task::JoinError>| {
        joined.map_err(|error| Problem::Unexpected(error.to_string()))?
    };
    for number in numbers {
        let mut turns = turns.clone();
        sent.spawn(async move {
            let mut events = turns.run_turn(waiting(number)).await?.into_inner();
            while events.message().await?.is_some() {}
            Ok(())
        });
        if sent.len() >= AT_ONCE
            && let Some(joined) = sent.join_next().await
        {
            ended(joined)?;
        }
    }
    while let Some(joined) = sent.join_next().await {
        ended(joined)?;
    }
    Ok(())
}

/// A turn of calls that wait, in a session of its own; nobody stays to see what becomes of them.
fn waiting(number: u32) -> pb::RunTurnRequest {
    let mut payload = Payload::new(ARGUMENTS, u64::from(number));
    let calls = (0..CALLS).map(|position| pb::ToolCall {
        call_id: format!("call_{position}"),
        name: ASKED_TOOL.to_owned(),
        arguments_json: payload.next(),
        truncated: false,
    });
    pb::RunTurnRequest {
        session_id: format!("waiting-{number}"),
        turn_id: "1".to_owned(),
        calls: calls.collect(),
        batch_policy: pb::BatchPolicy::FreezePartial as i32,
        on_suspend: pb::OnSuspend::End as i32,
        ..pb::RunTurnRequest::default()
    }
}

/// How long pages take, from the first on, beginning again at the end.
async fn pages(
    mut approvals: ApprovalServiceClient<AuthorizedChannel>,
) -> Result<Vec<f64>, Problem> {
    let mut spans = Vec::new();
    let mut token = String::new();
    for _ in 0..PAGES {
        let request = pb::ListApprovalsRequest {
            page_size: PAGE,
            page_token: token,
            ..pb::ListApprovalsRequest::default()
        };
        let started = now();
        let page = approvals.list_approvals(request).await?.into_inner();
        spans.push(micros(nanos(started.elapsed())));
        if page.approvals.is_empty() {
            return Err(Problem::Unexpected("an empty page".to_owned()));
        }
        token = page.next_page_token;
    }
    Ok(spans)
}
