//! `AuditService`: reads, follows, verifies and exports the audit.
//!
//! Pages and messages are bounded; whoever reads slowly holds up nobody. Never changes a record.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::sessions::page_size;
use super::status::Failure;
use crate::base::tasks::Tasks;
use crate::engine::{AuditAsk, AuditRow, Engine, EngineError, Range};
use crate::gate::audit::{Checkpoint, Filter, Head, Problem};
use crate::gate::ids::UnixMillis;
use crate::gate::result::Digest;
use crate::pb::v1::audit_service_server::AuditService;
use crate::pb::v1::{self as pb, ErrorReason};

const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;
/// Bytes of records after which a page or a message ends.
const PAGE_BYTES: usize = 3 << 20;
/// Bytes of records after which a message of a stream ends.
const MESSAGE_BYTES: usize = 1 << 20;
/// Records of one message of a stream.
const MESSAGE_RECORDS: usize = 1_000;
/// Silence after which watchers get an empty message.
const SILENCE: Duration = Duration::from_secs(15);

/// The service.
#[derive(Clone)]
pub struct Audit {
    /// Answers.
    pub engine: Arc<Engine>,
    /// Asked to stop when the sidecar leaves: streams end then.
    pub tasks: Tasks,
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Audit {
    async fn list(
        &self,
        request: pb::ListAuditRecordsRequest,
    ) -> Result<pb::ListAuditRecordsResponse, Failure> {
        let limit = page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX)?;
        let ask = AuditAsk {
            from: token(&request.page_token)?.unwrap_or(0),
            newest_first: true,
            filter: filter(request.filter)?,
            limit,
            bytes_max: PAGE_BYTES,
            ..AuditAsk::default()
        };
        let page = self.engine.list_audit(ask).await?;
        Ok(pb::ListAuditRecordsResponse {
            records: page.rows.iter().map(record).collect(),
            next_page_token: page.next.map_or_else(String::new, |next| next.to_string()),
        })
    }

    async fn verify(
        &self,
        request: pb::VerifyAuditRequest,
    ) -> Result<pb::VerifyAuditResponse, Failure> {
        let range = range(request.first_sequence, request.last_sequence)?;
        let extra = request.checkpoint.map(|one| self.checkpoint(&one));
        let report = self.engine.verify_audit(range, extra.transpose()?).await?;
        Ok(pb::VerifyAuditResponse {
            intact: report.broken.is_none() && report.untold().is_none(),
            first_bad_sequence: report.broken.map_or(0, |broken| broken.sequence),
            problem: report
                .broken
                .map_or(pb::AuditProblem::Unspecified, |broken| {
                    problem(broken.problem)
                }) as i32,
            checked_records: report.checked,
            head_sequence: report.head.sequence,
            head_hash: report.head.hash.0.to_vec().into(),
            first_kept_sequence: report.first,
            signed_to_sequence: report.signed_to,
        })
    }

    /// A checkpoint that came from outside. Its key must be one of those that are trusted here.
    fn checkpoint(&self, given: &pb::AuditCheckpoint) -> Result<Checkpoint, Failure> {
        let wrong = |field, problem| Failure::field(field, problem);
        let key = self
            .engine
            .audit_keys()
            .iter()
            .find(|key| Checkpoint::key_id_of(key) == given.key_id)
            .ok_or_else(|| wrong("checkpoint.key_id", "names no key that is trusted here"))?;
        let hash = Digest::from_slice(&given.record_hash)
            .ok_or_else(|| wrong("checkpoint.record_hash", "must have 32 bytes"))?;
        let signature = given.signature.as_ref().try_into();
        Ok(Checkpoint {
            head: Head {
                sequence: given.sequence,
                hash,
            },
            signed_at: UnixMillis(given.signed_at_ms),
            public_key: *key,
            signature: signature
                .map_err(|_| wrong("checkpoint.signature", "must have 64 bytes"))?,
        })
    }

    async fn checkpoints(
        &self,
        request: pb::ListAuditCheckpointsRequest,
    ) -> Result<pb::ListAuditCheckpointsResponse, Failure> {
        let limit = page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX)?;
        let up_to = token(&request.page_token)?.unwrap_or(u64::MAX);
        let found = self.engine.list_checkpoints(up_to, limit).await?;
        let last = found.last().filter(|_| found.len() == limit);
        let next = last.and_then(|last| last.head.sequence.checked_sub(1));
        let key = self.engine.audit_keys().first();
        Ok(pb::ListAuditCheckpointsResponse {
            checkpoints: found.iter().map(checkpoint).collect(),
            next_page_token: next.map_or_else(String::new, |next| next.to_string()),
            public_key: key.map_or_else(Bytes::new, |key| Bytes::copy_from_slice(key)),
        })
    }
}

/// Somebody who follows the audit.
struct Follower {
    audit: Audit,
    head: watch::Receiver<u64>,
    filter: Filter,
    /// The last sequence that was looked at.
    seen: u64,
}

impl Follower {
    /// The next message. None: the sidecar leaves.
    async fn next(&mut self) -> Option<Result<pb::WatchAuditRecordsResponse, Status>> {
        loop {
            let head = *self.head.borrow_and_update();
            if head > self.seen {
                match self.read(head).await {
                    Ok(message) if message.records.is_empty() => {}
                    Ok(message) => return Some(Ok(message)),
                    Err(error) => return Some(Err(Failure::from(error).into())),
                }
                continue;
            }
            let told = tokio::select! {
                () = self.audit.tasks.stopped() => return None,
                changed = self.head.changed() => changed.map(|()| true).unwrap_or(false),
                () = tokio::time::sleep(SILENCE) => {
                    return Some(Ok(pb::WatchAuditRecordsResponse {
                        records: Vec::new(),
                        last_sequence: self.seen,
                    }));
                }
            };
            if !told {
                return None;
            }
        }
    }

    async fn read(&mut self, head: u64) -> Result<pb::WatchAuditRecordsResponse, EngineError> {
        let ask = AuditAsk {
            from: self.seen + 1,
            to: head,
            filter: self.filter.clone(),
            limit: MESSAGE_RECORDS,
            bytes_max: MESSAGE_BYTES,
            ..AuditAsk::default()
        };
        let page = self.audit.engine.list_audit(ask).await?;
        self.seen = page.next.map_or(head, |next| next - 1);
        Ok(pb::WatchAuditRecordsResponse {
            records: page.rows.iter().map(record).collect(),
            last_sequence: self.seen,
        })
    }
}

/// An export that is going on.
struct Export {
    audit: Audit,
    filter: Filter,
    next: Option<u64>,
    last: u64,
    /// What follows the last line.
    checkpoint: Option<pb::AuditCheckpoint>,
    ready: VecDeque<pb::ExportAuditResponse>,
    done: bool,
}

impl Export {
    /// Reads what it begins with, and then signs: the record that says what retention dropped before that
    /// is among what is exported and signed, whenever retention came.
    async fn begin(&mut self) -> Result<(), EngineError> {
        let first = self.next;
        self.read().await?;
        let signed = self.audit.engine.sign_audit().await?;
        // What is written from now on is not signed: it is not exported either.
        let head = match &signed {
            Some(signed) => signed.head.sequence,
            None => *self.audit.engine.audit_head().borrow(),
        };
        if self.last == 0 || self.last > head {
            self.last = head;
        }
        let read = self.ready.back().map(|ready| ready.last_sequence + 1);
        let next = self.next.or(read).or(first);
        self.next = next.filter(|next| self.last > 0 && *next <= self.last);
        // One that covers more than was exported could not be compared with it.
        self.checkpoint = signed
            .filter(|signed| signed.head.sequence <= self.last)
            .map(|signed| checkpoint(&signed));
        Ok(())
    }

    async fn next(&mut self) -> Option<Result<pb::ExportAuditResponse, Status>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(ready));
            }
            if self.done || self.audit.tasks.is_stopping() {
                return None;
            }
            if let Err(error) = self.read().await {
                self.done = true;
                return Some(Err(Failure::from(error).into()));
            }
        }
    }

    async fn read(&mut self) -> Result<(), EngineError> {
        let Some(from) = self.next else {
            self.done = true;
            self.ready.push_back(pb::ExportAuditResponse {
                lines: Bytes::new(),
                last_sequence: self.last,
                checkpoint: self.checkpoint.take(),
            });
            return Ok(());
        };
        let ask = AuditAsk {
            from,
            to: self.last,
            filter: self.filter.clone(),
            limit: MESSAGE_RECORDS,
            bytes_max: MESSAGE_BYTES,
            ..AuditAsk::default()
        };
        let page = self.audit.engine.list_audit(ask).await?;
        self.next = page.next;
        if let Some(last) = page.rows.last() {
            let mut lines = Vec::new();
            for row in &page.rows {
                row.line().write(&mut lines);
            }
            self.ready.push_back(pb::ExportAuditResponse {
                lines: lines.into(),
                last_sequence: last.place,
                checkpoint: None,
            });
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl AuditService for Audit {
    async fn list_audit_records(
        &self,
        request: Request<pb::ListAuditRecordsRequest>,
    ) -> Result<Response<pb::ListAuditRecordsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    type WatchAuditRecordsStream = Boxed<pb::WatchAuditRecordsResponse>;

    async fn watch_audit_records(
        &self,
        request: Request<pb::WatchAuditRecordsRequest>,
    ) -> Result<Response<Self::WatchAuditRecordsStream>, Status> {
        let request = request.into_inner();
        let head = self.engine.audit_head();
        let now = *head.borrow();
        let seen = request.after_sequence.unwrap_or(now);
        if seen > now {
            let problem = "is a sequence that is not written yet";
            return Err(Failure::field("after_sequence", problem).into());
        }
        let follower = Follower {
            audit: self.clone(),
            head,
            filter: filter(request.filter)?,
            seen,
        };
        let messages = futures_util::stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            Some((next, follower))
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn verify_audit(
        &self,
        request: Request<pb::VerifyAuditRequest>,
    ) -> Result<Response<pb::VerifyAuditResponse>, Status> {
        Ok(Response::new(self.verify(request.into_inner()).await?))
    }

    type ExportAuditStream = Boxed<pb::ExportAuditResponse>;

    async fn export_audit(
        &self,
        request: Request<pb::ExportAuditRequest>,
    ) -> Result<Response<Self::ExportAuditStream>, Status> {
        let request = request.into_inner();
        let range = range(request.first_sequence, request.last_sequence)?;
        let filter = filter(request.filter)?;
        let mut export = Export {
            audit: self.clone(),
            filter,
            next: Some(range.first),
            last: range.last,
            checkpoint: None,
            ready: VecDeque::new(),
            done: false,
        };
        export.begin().await.map_err(Failure::from)?;
        let messages = futures_util::stream::unfold(export, |mut export| async move {
            let next = export.next().await?;
            Some((next, export))
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn list_audit_checkpoints(
        &self,
        request: Request<pb::ListAuditCheckpointsRequest>,
    ) -> Result<Response<pb::ListAuditCheckpointsResponse>, Status> {
        Ok(Response::new(self.checkpoints(request.into_inner()).await?))
    }
}

fn record(row: &AuditRow) -> pb::AuditRecord {
    // One that cannot be read is shown as it is.
    let members = row.members().unwrap_or_default();
    pb::AuditRecord {
        sequence: row.place,
        recorded_at_ms: members.recorded_at.0,
        kind: members.kind,
        principal: members.principal,
        session_id: members.session,
        run_id: members.run,
        turn_id: members.turn,
        call_id: members.call,
        tool: members.tool,
        record_json: row.record_json.clone(),
        previous_hash: Bytes::copy_from_slice(&row.previous.0),
        record_hash: Bytes::copy_from_slice(&row.hash.0),
    }
}

fn checkpoint(signed: &Checkpoint) -> pb::AuditCheckpoint {
    pb::AuditCheckpoint {
        sequence: signed.head.sequence,
        record_hash: Bytes::copy_from_slice(&signed.head.hash.0),
        signed_at_ms: signed.signed_at.0,
        key_id: signed.key_id(),
        signature: Bytes::copy_from_slice(&signed.signature),
    }
}

fn problem(problem: Problem) -> pb::AuditProblem {
    match problem {
        Problem::Altered => pb::AuditProblem::Altered,
        Problem::Gap => pb::AuditProblem::Gap,
        Problem::Unlinked => pb::AuditProblem::Unlinked,
        Problem::Truncated => pb::AuditProblem::Truncated,
        Problem::CheckpointMismatch => pb::AuditProblem::CheckpointMismatch,
    }
}

fn filter(given: Option<pb::AuditFilter>) -> Result<Filter, Failure> {
    let given = given.unwrap_or_default();
    let filter = Filter {
        session: given.session_id,
        run: given.run_id,
        turn: given.turn_id,
        call: given.call_id,
        tool: given.tool,
        principal: given.principal,
        kinds: given.kinds,
        since: given.since_ms.map(UnixMillis),
        until: given.until_ms.map(UnixMillis),
        text: given.text,
    };
    filter
        .check()
        .map_err(|error| Failure::new(ErrorReason::InvalidRequest, error.to_string()))?;
    Ok(filter)
}

fn range(first: u64, last: u64) -> Result<Range, Failure> {
    match last > 0 && last < first {
        true => {
            let problem = "must not be before `first_sequence`";
            Err(Failure::field("last_sequence", problem))
        }
        false => Ok(Range { first, last }),
    }
}

fn token(text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = text.parse().ok().filter(|number| *number > 0);
    let read = read.ok_or_else(|| Failure::field("page_token", "is none of ours"))?;
    Ok(Some(read))
}
