//! `EventService`: what happens over all turns and sessions, for panels and monitors.
//!
//! A listener that is too slow is told and cut. Never holds up what it tells of.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::access::{Caller, Role};
use super::approvals::read_cursor;
use super::convert_approval::{self as convert, Shown};
use super::events::{View, turn_event};
use super::secrets;
use super::status::Failure;
use crate::engine::{Engine, EventRecord, Happened, Heard, Listener, Wanted};
use crate::pb::v1::event_service_server::EventService;
use crate::pb::v1::{self as pb, ErrorReason};
use pb::event_record::Body;

/// Silence after which a listener gets an empty message.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events in one message.
const AT_ONCE: usize = 256;

/// Serves events.
#[derive(Clone)]
pub struct Happenings {
    /// Does the work.
    pub engine: Arc<Engine>,
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// One subscriber.
struct Subscriber {
    engine: Arc<Engine>,
    listener: Listener,
    filter: pb::EventFilter,
    /// How much of approvals it may see.
    how: Shown,
    /// Made and not sent; inside a snapshot while `in_snapshot`.
    ready: std::collections::VecDeque<pb::EventRecord>,
    in_snapshot: bool,
    ended: bool,
}

impl Subscriber {
    fn takes(&self, kind: pb::EventKind, session: Option<(&str, &str)>) -> bool {
        let filter = &self.filter;
        let kinds = filter.kinds.is_empty() || filter.kinds.contains(&(kind as i32));
        let roots = match session {
            _ if filter.root_session_ids.is_empty() => true,
            None => false,
            Some((_, root)) => filter.root_session_ids.iter().any(|one| one == root),
        };
        let own = match session {
            _ if filter.session_id.is_empty() => true,
            None => false,
            Some((session, _)) => session == filter.session_id,
        };
        kinds && roots && own
    }

    /// What is there: unfinished turns and waiting approvals.
    fn fill_snapshot(&mut self) {
        for turn in self.engine.unfinished_turns() {
            let (session, root) = (turn.spec.session().to_string(), turn.session.root());
            if !self.takes(pb::EventKind::Turn, Some((&session, root.as_str()))) {
                continue;
            }
            let standing = turn.log.standing();
            let stored = turn.as_stored();
            let mut shown =
                super::convert::turn(&stored, &standing.calls, standing.last_sequence, None);
            shown.model_message.clear();
            match self.how {
                Shown::Bare => strip(&mut shown),
                Shown::Whole | Shown::Cut => secrets::hide(&mut shown, &self.engine),
            }
            self.ready.push_back(pb::EventRecord {
                occurred_at_ms: standing.updated_at.0,
                session_id: session,
                root_session_id: root.to_string(),
                body: Some(Body::TurnSnapshot(shown)),
            });
        }
        let (pending, _) = self.engine.pending_approvals(None, usize::MAX, Wanted::All);
        for shown in &pending {
            let session = shown.spec.session().as_str();
            if self.takes(
                pb::EventKind::Approval,
                Some((session, shown.root.as_str())),
            ) {
                self.ready.push_back(pb::EventRecord {
                    occurred_at_ms: shown.approval.created_at.0,
                    session_id: session.to_owned(),
                    root_session_id: shown.root.to_string(),
                    body: Some(Body::ApprovalChanged(pb::ApprovalChanged {
                        approval: Some(convert::approval(shown, self.how)),
                    })),
                });
            }
        }
    }

    fn record(&self, event: EventRecord) -> Option<pb::EventRecord> {
        let (kind, body) = match &event.body {
            Happened::Turn(spec, epoch, stamped) => {
                let view = View::bare();
                let event = turn_event(spec, &view, stamped.clone())?;
                let record = pb::TurnEventRecord {
                    turn_id: spec.request.turn.to_string(),
                    run_id: spec.run().to_string(),
                    epoch: *epoch,
                    event: Some(event),
                };
                (pb::EventKind::Turn, Body::Turn(record))
            }
            Happened::HookRan(spec, run) => (
                pb::EventKind::Hook,
                Body::HookRan(super::hooks::hook_ran(spec, run)),
            ),
            Happened::Session(session) => {
                let changed = pb::SessionChanged {
                    session: Some(convert::session(&self.engine, session)),
                };
                (pb::EventKind::Session, Body::SessionChanged(changed))
            }
            Happened::Approval(shown) => {
                let changed = pb::ApprovalChanged {
                    approval: Some(convert::approval(shown, self.how)),
                };
                (pb::EventKind::Approval, Body::ApprovalChanged(changed))
            }
            Happened::Grant(session, grant) => {
                let changed = pb::GrantChanged {
                    grant: Some(convert::grant(grant, session, event.at)),
                };
                (pb::EventKind::Grant, Body::GrantChanged(changed))
            }
            Happened::Policy { revision } => {
                let changed = pb::PolicyChanged {
                    policy_revision: *revision,
                };
                (pb::EventKind::Policy, Body::PolicyChanged(changed))
            }
        };
        let session = event.session.as_ref();
        let named = session.map(|(session, root)| (session.as_str(), root.as_str()));
        self.takes(kind, named).then(|| pb::EventRecord {
            occurred_at_ms: event.at.0,
            session_id: named
                .map(|(session, _)| session.to_owned())
                .unwrap_or_default(),
            root_session_id: named.map(|(_, root)| root.to_owned()).unwrap_or_default(),
            body: Some(body),
        })
    }

    fn cursor(&self) -> String {
        match self.in_snapshot {
            true => String::new(),
            false => format!("{}.{}", self.engine.process_id(), self.listener.position()),
        }
    }

    async fn next(&mut self) -> Option<pb::SubscribeResponse> {
        loop {
            if self.ended {
                return None;
            }
            if !self.ready.is_empty() || self.in_snapshot {
                return Some(self.message());
            }
            match self.listener.take() {
                Heard::Missed(dropped) => {
                    self.ended = true;
                    return Some(pb::SubscribeResponse {
                        lagged: Some(pb::Lagged {
                            dropped_events: dropped,
                            resume_cursor: String::new(),
                        }),
                        ..pb::SubscribeResponse::default()
                    });
                }
                Heard::Events(events) => {
                    let records = events.into_iter().filter_map(|event| self.record(event));
                    let records: Vec<_> = records.collect();
                    self.ready.extend(records);
                }
            }
            if self.ready.is_empty() {
                let waited = tokio::time::timeout(HEARTBEAT, self.listener.changed()).await;
                if waited.is_err() {
                    return Some(self.message());
                }
            }
        }
    }

    fn message(&mut self) -> pb::SubscribeResponse {
        let count = self.ready.len().min(AT_ONCE);
        let events: Vec<_> = self.ready.drain(..count).collect();
        let complete = self.in_snapshot && self.ready.is_empty();
        if complete {
            self.in_snapshot = false;
        }
        // Inside a batch a cursor would skip what is still to be sent.
        let cursor = match self.ready.is_empty() {
            true => self.cursor(),
            false => String::new(),
        };
        pb::SubscribeResponse {
            events,
            snapshot_complete: complete,
            cursor,
            lagged: None,
        }
    }
}

/// Leaves arguments out for who may not see them.
fn strip(turn: &mut pb::Turn) {
    for call in &mut turn.calls {
        if let Some(call) = &mut call.call {
            call.arguments_json.clear();
        }
        call.effective_arguments_json.clear();
    }
}

#[tonic::async_trait]
impl EventService for Happenings {
    type SubscribeStream = Boxed<pb::SubscribeResponse>;

    async fn subscribe(
        &self,
        request: Request<pb::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let caller = request.extensions().get::<Caller>();
        let sees = |role: &Role| matches!(role, Role::Approver | Role::Admin | Role::Observer);
        let how = match caller.is_some_and(|caller| caller.roles.iter().any(sees)) {
            true => Shown::Cut,
            false => Shown::Bare,
        };
        let request = request.into_inner();
        if request.include_snapshot && !request.after_cursor.is_empty() {
            let problem = "must not come together with `after_cursor`";
            return Err(Failure::field("include_snapshot", problem).into());
        }
        let expired = || {
            let problem = "the cursor is too old; start from a snapshot";
            Status::from(Failure::new(ErrorReason::CursorExpired, problem))
        };
        let after = match request.after_cursor.as_str() {
            "" => None,
            cursor => Some(read_cursor(cursor, self.engine.process_id()).ok_or_else(expired)?),
        };
        let listener = self.engine.listen(after).ok_or_else(expired)?;
        let mut subscriber = Subscriber {
            engine: self.engine.clone(),
            listener,
            filter: request.filter.unwrap_or_default(),
            how,
            ready: std::collections::VecDeque::new(),
            in_snapshot: request.include_snapshot,
            ended: false,
        };
        if request.include_snapshot {
            subscriber.fill_snapshot();
        }
        let stream = futures_util::stream::unfold(subscriber, |mut subscriber| async move {
            let next = subscriber.next().await?;
            Some((Ok(next), subscriber))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
