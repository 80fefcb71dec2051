//! What an executor says on its stream, message by message.
//!
//! Whatever comes, the stream goes on unless the peer makes nonsense a habit. Never waits.

use std::sync::Arc;

use super::pool::{Heard, ResultStatus, Word};
use super::session::{Session, Sessions, active, now};
use super::session_end::SessionEnd;
use super::{convert, convert_inquiry};
use crate::gate::audit::answer_digest;
use crate::gate::audit::note::{LateResult, Note};
use crate::gate::ids::{ExecutionId, ToolName};
use crate::gate::turn::Reply;
use crate::pb::v1 as pb;
use pb::connect_request::Body;

/// Most messages of one stream that may be ignored before it ends.
const NOTICES_MAX: u32 = 1_000;

impl Session {
    /// Takes one message. Whatever it is, the stream goes on unless the peer does this too often.
    pub(super) fn take(
        &mut self,
        sessions: &Sessions,
        message: pb::ConnectRequest,
    ) -> Result<(), SessionEnd> {
        let pool = &sessions.pool;
        let heard = match message.body {
            Some(Body::Accepted(accepted)) => self.about_execution(accepted.execution, |word| {
                pool.accepted(word, accepted.queued)
            }),
            Some(Body::Result(result)) => return self.take_result(sessions, result),
            Some(Body::Progress(progress)) => {
                let execution = progress.execution.clone();
                let progress = convert::progress(progress, &sessions.limits);
                self.about_execution(execution, |word| pool.progressed(word, progress))
            }
            Some(Body::Output(chunk)) => {
                if chunk.data.len() as u64 > sessions.limits.output_chunk_bytes_max {
                    return self.notice("output_too_large", "a chunk is larger than allowed", "");
                }
                let execution = chunk.execution.clone();
                let chunk = convert::output(chunk);
                self.about_execution(execution, |word| pool.printed(word, chunk))
            }
            Some(Body::Rejected(rejected)) => {
                let reason = convert::reject_reason(rejected.reason());
                let retry_after_ms = rejected.retry_after_ms;
                let (heard, about) = self.about_execution(rejected.execution, |word| {
                    pool.rejected(word, reason, retry_after_ms)
                });
                if let (Heard::Taken, Some(pause)) = (heard, pool.pause_of(reason, retry_after_ms))
                {
                    self.pause_until = Some(now() + pause);
                }
                (heard, about)
            }
            Some(Body::Abandoned(abandoned)) => {
                self.about_execution(abandoned.execution, |word| pool.gave_back(word))
            }
            Some(Body::CancelAck(ack)) if ack.unknown_execution => {
                self.about_execution(ack.execution, |word| pool.gave_back(word));
                return Ok(());
            }
            Some(Body::CancelAck(_)) => return Ok(()),
            Some(Body::PermissionCheckResult(result)) => return self.take_word(sessions, result),
            Some(Body::ResolveFactsResult(result)) => return self.take_facts(sessions, result),
            Some(Body::Ping(ping)) => {
                self.say(pb::connect_response::Body::Pong(pb::Pong {
                    nonce: ping.nonce,
                }));
                return Ok(());
            }
            Some(Body::Pong(pong)) => return self.take_pong(sessions, pong),
            Some(Body::ToolUpdate(update)) => return self.take_update(sessions, update),
            Some(Body::CapacityUpdate(update)) => {
                let slots = update.max_concurrent_executions;
                pool.set_slots(&self.about.owner, &self.about.instance, slots);
                return Ok(());
            }
            Some(Body::DrainRequest(_)) => {
                pool.drain(&self.about.owner, &self.about.instance);
                self.say(pb::connect_response::Body::DrainStarted(
                    pb::DrainStarted {},
                ));
                return Ok(());
            }
            Some(Body::Hello(_)) => {
                return Err(SessionEnd::ProtocolViolation {
                    problem: "a second hello".to_owned(),
                });
            }
            None => return self.take_unknown(),
        };
        self.answer_heard(heard)
    }

    fn about_execution(
        &self,
        execution: Option<pb::ExecutionRef>,
        tell: impl FnOnce(Word<'_>) -> Heard,
    ) -> (Heard, String) {
        let reference = execution.unwrap_or_default();
        let execution = ExecutionId::trusted(reference.execution_id.as_str());
        let heard = tell(Word {
            owner: &self.about.owner,
            instance: &self.about.instance,
            execution: &execution,
            attempt: reference.attempt,
        });
        (heard, reference.execution_id)
    }

    fn answer_heard(&mut self, (heard, about): (Heard, String)) -> Result<(), SessionEnd> {
        match heard {
            // Words that cross an end on their way are nobody's fault.
            Heard::Taken | Heard::TooLate => Ok(()),
            Heard::NotYours => self.notice(
                "execution_not_yours",
                "the execution is not at this executor",
                &about,
            ),
            Heard::Unknown => self.notice("execution_unknown", "no such execution here", &about),
            Heard::WithoutCredit => self.notice(
                "output_without_credit",
                "output beyond its credit is dropped",
                &about,
            ),
        }
    }

    fn take_result(
        &mut self,
        sessions: &Sessions,
        result: pb::ExecuteResult,
    ) -> Result<(), SessionEnd> {
        let reference = result.execution.clone().unwrap_or_default();
        let execution = ExecutionId::trusted(reference.execution_id.as_str());
        let word = Word {
            owner: &self.about.owner,
            instance: &self.about.instance,
            execution: &execution,
            attempt: reference.attempt,
        };
        let reply = convert::reply(result.outcome);
        let Some((status, reply)) = sessions.pool.replied(word, reply) else {
            return Ok(());
        };
        if matches!(status, ResultStatus::Late | ResultStatus::Stale) {
            sessions
                .directory
                .note(Note::LateResult(Box::new(LateResult {
                    execution: execution.clone(),
                    attempt: reference.attempt,
                    executor: self.about.owner.clone(),
                    answer: match &reply {
                        Reply::Result(answer) => Some(answer_digest(answer)),
                        Reply::Cancelled { .. } | Reply::Empty => None,
                    },
                })));
        }
        self.lanes
            .control(convert::result_ack(&execution, reference.attempt, status));
        match status {
            ResultStatus::Unknown => self.notice(
                "execution_unknown",
                "no such execution here",
                &reference.execution_id,
            ),
            ResultStatus::Recorded
            | ResultStatus::AlreadyRecorded
            | ResultStatus::Late
            | ResultStatus::Stale => Ok(()),
        }
    }

    /// What a tool says of a call.
    fn take_word(
        &mut self,
        sessions: &Sessions,
        mut result: pb::PermissionCheckResult,
    ) -> Result<(), SessionEnd> {
        let id = std::mem::take(&mut result.check_id);
        let word = convert_inquiry::tool_word(result, &sessions.limits);
        let from = (&self.about.owner, &self.about.instance);
        match sessions.pool.tool_checked(from, &id, word) {
            true => Ok(()),
            false => self.nobody_waits(&id),
        }
    }

    /// What a call's paths are.
    fn take_facts(
        &mut self,
        sessions: &Sessions,
        result: pb::ResolveFactsResult,
    ) -> Result<(), SessionEnd> {
        let facts = convert_inquiry::facts(result.facts, &sessions.limits);
        let from = (&self.about.owner, &self.about.instance);
        match sessions
            .pool
            .facts_resolved(from, &result.request_id, facts)
        {
            true => Ok(()),
            false => self.nobody_waits(&result.request_id),
        }
    }

    fn nobody_waits(&mut self, id: &str) -> Result<(), SessionEnd> {
        self.notice("answer_unknown", "nobody waits for this answer", id)
    }

    fn take_pong(&mut self, sessions: &Sessions, pong: pb::Pong) -> Result<(), SessionEnd> {
        let behind = self.ping.nonce.wrapping_sub(pong.nonce);
        if behind >= self.ping.unanswered {
            return Ok(());
        }
        // A late answer is one: only the pings after it are still open.
        self.ping.unanswered = behind;
        let sent_at = self.ping.sent_at.filter(|_| behind == 0);
        let round_trip =
            sent_at.map(|sent| u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX));
        sessions
            .pool
            .seen(&self.about.owner, &self.about.instance, round_trip);
        Ok(())
    }

    fn take_update(
        &mut self,
        sessions: &Sessions,
        update: pb::ToolUpdate,
    ) -> Result<(), SessionEnd> {
        let allowed = sessions.limits.tools_per_message_max;
        let actual = (update.upsert.len() + update.remove.len()) as u64;
        if actual > allowed {
            return Err(SessionEnd::LimitExceeded {
                limit: "tools_per_message_max",
                allowed,
                actual,
            });
        }
        let registrations = sessions.register(&self.about, update.upsert);
        let removed: Vec<ToolName> = update
            .remove
            .iter()
            .map(|name| ToolName::trusted(name.as_str()))
            .collect();
        sessions.pool.set_tools(
            &self.about.owner,
            &self.about.instance,
            active(&registrations),
            &removed,
        );
        sessions.hand_back(&self.about.owner);
        self.unregister_orphans(sessions, &removed);
        let removals = update.remove.iter().map(|name| convert::removal(name));
        let answer = pb::ToolUpdateResult {
            update_id: update.update_id,
            registrations: registrations
                .iter()
                .map(convert::registration)
                .chain(removals)
                .collect(),
        };
        self.say(pb::connect_response::Body::ToolUpdateResult(answer));
        Ok(())
    }

    /// A tool that its owner takes back, and that no other instance runs, leaves the registry.
    fn unregister_orphans(&self, sessions: &Sessions, removed: &[ToolName]) {
        let registry = sessions.directory.registry();
        let by = Arc::from(self.about.owner.as_str());
        for name in removed {
            let orphaned = registry
                .get(name)
                .is_some_and(|tool| tool.owner == self.about.owner && !sessions.pool.is_held(tool));
            if orphaned {
                sessions.directory.unregister(name, &by);
            }
        }
    }

    /// A message of a newer protocol, or none at all: noted once, and counted.
    fn take_unknown(&mut self) -> Result<(), SessionEnd> {
        let message = "a message without a known body";
        match std::mem::replace(&mut self.unknown_noted, true) {
            false => self.notice("body_unknown", message, ""),
            true => self.count_ignored(message),
        }
    }

    /// Says that a message was ignored.
    fn notice(&mut self, code: &str, message: &str, about: &str) -> Result<(), SessionEnd> {
        self.count_ignored(message)?;
        self.say(pb::connect_response::Body::Notice(pb::Notice {
            code: code.to_owned(),
            message: message.to_owned(),
            about: about.to_owned(),
        }));
        Ok(())
    }

    /// Ends a stream that makes it a habit.
    fn count_ignored(&mut self, message: &str) -> Result<(), SessionEnd> {
        self.ignored += 1;
        match self.ignored > NOTICES_MAX {
            true => Err(SessionEnd::ProtocolViolation {
                problem: message.to_owned(),
            }),
            false => Ok(()),
        }
    }
}
