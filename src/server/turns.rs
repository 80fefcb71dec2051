//! `TurnService`: runs turns, follows them, cancels them, looks at them.
//!
//! Translates and hands over to the engine. Never keeps state of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::access::principal;
use super::convert;
use super::convert_permission::rule_entries;
use super::events::{EventStream, TooSlow, View, completed_message};
use super::policy::request_rules;
use super::secrets;
use super::status::Failure;
use super::turn_stream::TurnStream;
use crate::base::tasks::Tasks;
use crate::engine::{CancelAnswer, Engine, Looked, TurnFilter, stored_calls};
use crate::gate::admission::TurnRule;
use crate::gate::call::CallState;
use crate::gate::event::RunSummary;
use crate::gate::ids::{CallId, TurnKey};
use crate::gate::json::{Document, JsonLimits, Kind};
use crate::gate::permission::{RuleEntry, Verdict};
use crate::gate::record::StoredTurn;
use crate::pb::v1::turn_service_server::TurnService;
use crate::pb::v1::{self as pb, ErrorReason};

/// Most rules of one turn.
const COMMAND_RULES_MAX: usize = 256;
/// Turns of a page that names no size, and the most that one may name.
const PAGE_DEFAULT: u32 = 50;
const PAGE_MAX: u32 = 500;

/// Serves turns.
#[derive(Clone)]
pub struct Turns {
    /// Does the work.
    pub engine: Arc<Engine>,
    /// Owns what outlives a request.
    pub tasks: Tasks,
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Turns {
    /// Starts or repeats a turn.
    pub(super) async fn run(
        &self,
        mut request: pb::RunTurnRequest,
        principal: Arc<str>,
    ) -> Result<Followed, Failure> {
        let view = View::read(request.view.as_ref())?.until_suspended(request.on_suspend);
        let cancel = pb::OnDisconnect::try_from(request.on_disconnect)
            .is_ok_and(|meaning| meaning == pb::OnDisconnect::Cancel);
        let allowed = self.engine.limits().model_message_bytes_max;
        at_most(
            "model_message_bytes_max",
            request.model_message.len(),
            allowed,
        )?;
        let history = std::mem::take(&mut request.history_json);
        self.check_history(&history)?;
        let rules = rule_entries(
            std::mem::take(&mut request.command_rules),
            "command_rules",
            COMMAND_RULES_MAX,
        )?;
        if !rules.is_empty() {
            // Whoever sends a rule wants it to count: a broken one refuses the turn.
            request_rules(&self.engine, rules.clone(), "command_rules")?;
        }
        let mut request = convert::turn_request(request, || self.engine.mint_turn_id())?;
        request.command_rules = rules.into_iter().filter_map(turn_rule).collect();
        let started = self
            .engine
            .start_turn(request, principal, history, view.output);
        let attached = started.await?;
        Ok(Followed {
            events: EventStream::new(attached, view),
            cancel_on_drop: cancel.then(|| self.clone()),
        })
    }

    /// A conversation goes to a model as it is; what is no array cannot be one.
    fn check_history(&self, history: &Bytes) -> Result<(), Failure> {
        if history.is_empty() {
            return Ok(());
        }
        let limits = self.engine.limits();
        at_most("history_bytes_max", history.len(), limits.history_bytes_max)?;
        let as_json = JsonLimits {
            bytes_max: usize::MAX,
            depth_max: u16::try_from(limits.json_depth_max).unwrap_or(u16::MAX),
            nodes_max: usize::MAX,
        };
        let document = Document::parse(history, &as_json)
            .map_err(|error| Failure::field("history_json", error.to_string()))?;
        match document.root().kind() {
            Kind::Array => Ok(()),
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String | Kind::Object => {
                Err(Failure::field("history_json", "must be an array"))
            }
        }
    }

    /// Follows a turn.
    pub(super) async fn attach(&self, request: pb::AttachTurnRequest) -> Result<Followed, Failure> {
        let view = View::read(request.view.as_ref())?.until_suspended(request.on_suspend);
        let turn = convert::turn_id(&request.turn_id)?;
        let session = convert::optional_session(&request.session_id)?;
        let attached = self
            .engine
            .attach_turn(
                &turn,
                session.as_ref(),
                request.epoch,
                request.after_sequence,
                view.output,
            )
            .await?;
        Ok(Followed {
            events: EventStream::new(attached, view),
            cancel_on_drop: None,
        })
    }

    pub(super) async fn cancel(
        &self,
        request: pb::CancelTurnRequest,
    ) -> Result<CancelAnswer, Failure> {
        let turn = convert::turn_id(&request.turn_id)?;
        let session = convert::optional_session(&request.session_id)?;
        let reason = self.reason(request.reason)?;
        let cancelled = self
            .engine
            .cancel_turn(turn, session.as_ref(), reason, request.grace_ms);
        Ok(cancelled.await?)
    }

    pub(super) async fn cancel_one(
        &self,
        request: pb::CancelCallRequest,
    ) -> Result<CallState, Failure> {
        let turn = convert::turn_id(&request.turn_id)?;
        let session = convert::optional_session(&request.session_id)?;
        let call =
            CallId::parse(&request.call_id).map_err(|error| Failure::id("call_id", error))?;
        let reason = self.reason(request.reason)?;
        let cancelled =
            self.engine
                .cancel_call(&turn, session.as_ref(), &call, reason, request.grace_ms);
        Ok(cancelled.await?)
    }

    fn reason(&self, reason: String) -> Result<String, Failure> {
        let allowed = self.engine.limits().reason_bytes_max;
        at_most("reason_bytes_max", reason.len(), allowed)?;
        Ok(reason)
    }

    async fn look(&self, turn_id: &str, session_id: &str) -> Result<Looked, Failure> {
        let turn = convert::turn_id(turn_id)?;
        let session = convert::optional_session(session_id)?;
        Ok(self.engine.look_up(&turn, session.as_ref()).await?)
    }

    async fn list(&self, request: pb::ListTurnsRequest) -> Result<pb::ListTurnsResponse, Failure> {
        let session = convert::optional_session(&request.session_id)?;
        let run = match (request.run_id.is_empty(), &session) {
            (true, _) => None,
            (false, Some(session)) => Some(convert::run_id(&request.run_id, session)?),
            (false, None) => {
                return Err(Failure::field(
                    "session_id",
                    "must be set together with `run_id`",
                ));
            }
        };
        let page = page_size(request.page_size)?;
        let before = page_token(&request.page_token)?;
        let ended = match pb::TurnState::try_from(request.state) {
            Ok(pb::TurnState::Unspecified) => None,
            Ok(pb::TurnState::Completed) => Some(true),
            Ok(pb::TurnState::Running | pb::TurnState::Suspended) | Err(_) => Some(false),
        };
        let filter = TurnFilter {
            session,
            run,
            ended,
            before,
            limit: page,
        };
        let listed = self.engine.list_turns(filter).await?;
        let turns = listed.turns.iter().map(|stored| self.listed(stored));
        // What waits for people is told apart in memory, not in the store.
        let is_any = request.state == pb::TurnState::Unspecified as i32;
        let turns = turns.filter(|turn| is_any || turn.state == request.state);
        Ok(pb::ListTurnsResponse {
            turns: turns.collect(),
            next_page_token: listed
                .next
                .map_or_else(String::new, |next| next.to_string()),
        })
    }

    /// A turn of a list: without contents, as fresh as memory has it.
    fn listed(&self, stored: &StoredTurn) -> pb::Turn {
        let key = TurnKey {
            session: stored.spec.request.session.clone(),
            turn: stored.spec.request.turn.clone(),
        };
        let mut turn = match self.engine.turn_in_memory(&key) {
            Some(live) => {
                let standing = live.log.standing();
                let fresh = live.as_stored();
                convert::turn(&fresh, &standing.calls, standing.last_sequence, None)
            }
            None => convert::turn(stored, &stored_calls(stored), 1, None),
        };
        turn.model_message.clear();
        turn
    }
}

fn turn_rule((list, entry): (Verdict, RuleEntry)) -> Option<TurnRule> {
    Some(TurnRule {
        list,
        text: entry.text,
        extras: entry.extras.ok()?,
    })
}

fn at_most(limit: &'static str, actual: usize, allowed: u64) -> Result<(), Failure> {
    match actual as u64 > allowed {
        true => Err(Failure::limit(limit, allowed, actual as u64, false)),
        false => Ok(()),
    }
}

fn page_size(named: u32) -> Result<usize, Failure> {
    let size = match named {
        0 => PAGE_DEFAULT,
        1..=PAGE_MAX => named,
        _ => {
            return Err(Failure::field(
                "page_size",
                format!("must be at most {PAGE_MAX}"),
            ));
        }
    };
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

fn page_token(token: &str) -> Result<Option<u64>, Failure> {
    match token.is_empty() {
        true => Ok(None),
        false => token
            .parse()
            .map(Some)
            .map_err(|_| Failure::field("page_token", "is none of ours")),
    }
}

/// One turn that is followed, with what its reader's going away means.
pub(super) struct Followed {
    pub(super) events: EventStream,
    cancel_on_drop: Option<Turns>,
}

impl Followed {
    /// The reader's going away means nothing from now on.
    pub(super) fn keep(&mut self) {
        self.cancel_on_drop = None;
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let Some(turns) = self.cancel_on_drop.take() else {
            return;
        };
        // Who left a suspended turn comes back for it.
        if self.events.is_complete() || self.events.has_left() {
            return;
        }
        let spec = self.events.spec().clone();
        let engine = turns.engine.clone();
        turns.tasks.spawn("cancel on disconnect", async move {
            let session = Some(spec.session());
            let reason = "the orchestrator's stream broke".to_owned();
            let turn = spec.request.turn.clone();
            if let Err(error) = engine.cancel_turn(turn, session, reason, None).await {
                tracing::warn!(%error, "turn not cancelled after its stream broke");
            }
        });
    }
}

impl Stream for Followed {
    type Item = Result<pb::TurnEvents, TooSlow>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.events).poll_next(context)
    }
}

pub(super) fn too_slow(cut: TooSlow) -> Failure {
    let after = cut.last_sequence;
    Failure::new(
        ErrorReason::SlowReader,
        format!("the reader was too slow; attach after sequence {after}"),
    )
}

fn run_answer(run: &RunSummary) -> Option<pb::Run> {
    Some(convert::run(run))
}

#[tonic::async_trait]
impl TurnService for Turns {
    type RunTurnStream = Boxed<pb::RunTurnResponse>;

    async fn run_turn(
        &self,
        request: Request<pb::RunTurnRequest>,
    ) -> Result<Response<Self::RunTurnStream>, Status> {
        let principal = principal(&request);
        let followed = self.run(request.into_inner(), principal).await?;
        let events = followed.map(|events| match events {
            Ok(turn) => Ok(pb::RunTurnResponse { turn: Some(turn) }),
            Err(cut) => Err(too_slow(cut).into()),
        });
        Ok(Response::new(Box::pin(events)))
    }

    type StreamTurnsStream = TurnStream;

    async fn stream_turns(
        &self,
        request: Request<Streaming<pb::StreamTurnsRequest>>,
    ) -> Result<Response<Self::StreamTurnsStream>, Status> {
        let principal = principal(&request);
        Ok(Response::new(TurnStream::new(
            self.clone(),
            principal,
            request.into_inner(),
        )))
    }

    type AttachTurnStream = Boxed<pb::AttachTurnResponse>;

    async fn attach_turn(
        &self,
        request: Request<pb::AttachTurnRequest>,
    ) -> Result<Response<Self::AttachTurnStream>, Status> {
        let hidden = secrets::are_hidden_from(&request).then(|| self.engine.clone());
        let followed = self.attach(request.into_inner()).await?;
        let events = followed.map(move |events| match events {
            Ok(mut turn) => {
                if let (Some(engine), Some(snapshot)) = (&hidden, &mut turn.snapshot) {
                    secrets::hide(snapshot, engine);
                }
                Ok(pb::AttachTurnResponse { turn: Some(turn) })
            }
            Err(cut) => Err(too_slow(cut).into()),
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn cancel_turn(
        &self,
        request: Request<pb::CancelTurnRequest>,
    ) -> Result<Response<pb::CancelTurnResponse>, Status> {
        let state = match self.cancel(request.into_inner()).await? {
            CancelAnswer::Running => pb::TurnState::Running,
            CancelAnswer::Ended => pb::TurnState::Completed,
            CancelAnswer::Remembered => pb::TurnState::Unspecified,
        };
        Ok(Response::new(pb::CancelTurnResponse {
            state: state as i32,
        }))
    }

    async fn cancel_call(
        &self,
        request: Request<pb::CancelCallRequest>,
    ) -> Result<Response<pb::CancelCallResponse>, Status> {
        let state = self.cancel_one(request.into_inner()).await?;
        Ok(Response::new(pb::CancelCallResponse {
            state: convert::call_state(state),
        }))
    }

    async fn get_turn(
        &self,
        request: Request<pb::GetTurnRequest>,
    ) -> Result<Response<pb::GetTurnResponse>, Status> {
        let hides = secrets::are_hidden_from(&request);
        let request = request.into_inner();
        let looked = self.look(&request.turn_id, &request.session_id).await?;
        let (stored, calls, last_sequence) = match looked {
            Looked::Live(turn) => {
                let standing = turn.log.standing();
                (turn.as_stored(), standing.calls, standing.last_sequence)
            }
            Looked::Stored(stored) => {
                let calls = stored_calls(&stored);
                (*stored, calls, 1)
            }
        };
        let view = View::read(None)?;
        let completed = stored
            .completed
            .as_ref()
            .map(|completed| completed_message(completed, &stored.spec, &view));
        let mut turn = convert::turn(&stored, &calls, last_sequence, completed);
        if hides {
            secrets::hide(&mut turn, &self.engine);
        }
        Ok(Response::new(pb::GetTurnResponse { turn: Some(turn) }))
    }

    async fn list_turns(
        &self,
        request: Request<pb::ListTurnsRequest>,
    ) -> Result<Response<pb::ListTurnsResponse>, Status> {
        let hides = secrets::are_hidden_from(&request);
        let mut listed = self.list(request.into_inner()).await?;
        if hides {
            let turns = listed.turns.iter_mut();
            turns.for_each(|turn| secrets::hide(turn, &self.engine));
        }
        Ok(Response::new(listed))
    }

    async fn get_call_result(
        &self,
        request: Request<pb::GetCallResultRequest>,
    ) -> Result<Response<pb::GetCallResultResponse>, Status> {
        let request = request.into_inner();
        let looked = self.look(&request.turn_id, &request.session_id).await?;
        let calls = match looked {
            Looked::Live(turn) => turn.log.standing().calls,
            Looked::Stored(stored) => stored_calls(&stored),
        };
        let result = calls
            .iter()
            .filter_map(|call| call.result.as_ref())
            .find(|result| result.call_id.as_str() == request.call_id)
            .ok_or_else(|| Failure::not_found("call", &request.call_id))?;
        Ok(Response::new(pb::GetCallResultResponse {
            result: Some(convert::call_result(result, true)),
        }))
    }

    async fn end_run(
        &self,
        request: Request<pb::EndRunRequest>,
    ) -> Result<Response<pb::EndRunResponse>, Status> {
        let by = principal(&request);
        let request = request.into_inner();
        let session = convert::session_id(&request.session_id)?;
        let run = convert::run_id(&request.run_id, &session)?;
        let ended = self
            .engine
            .end_run(&session, &run, &by)
            .await
            .map_err(Failure::from)?;
        Ok(Response::new(pb::EndRunResponse {
            run: run_answer(&ended),
        }))
    }

    async fn get_run(
        &self,
        request: Request<pb::GetRunRequest>,
    ) -> Result<Response<pb::GetRunResponse>, Status> {
        let request = request.into_inner();
        let session = convert::session_id(&request.session_id)?;
        let run = convert::run_id(&request.run_id, &session)?;
        let found = self.engine.get_run(&session, &run).await;
        let found = found.map_err(Failure::from)?;
        Ok(Response::new(pb::GetRunResponse {
            run: run_answer(&found),
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        let by = principal(&request);
        let request = request.into_inner();
        let session = convert::session_id(&request.session_id)?;
        let run = convert::run_id(&request.run_id, &session)?;
        let reason = self.reason(request.reason)?;
        let cancelled = self
            .engine
            .cancel_run(&session, &run, reason, request.grace_ms, &by)
            .await
            .map_err(Failure::from)?;
        Ok(Response::new(pb::CancelRunResponse {
            run: run_answer(&cancelled),
        }))
    }
}
