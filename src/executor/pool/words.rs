//! What instances say about executions.
//!
//! A word counts only from the instance and attempt that the execution was sent with; every other word
//! is answered and changes nothing. Never trusts an id: it must stand on the books.

use std::time::Duration;

use super::stage::Stage;
use super::{Inner, Pool};
use crate::gate::event::{Attempt, OutputChunk, Progress};
use crate::gate::ids::{ExecutionId, InstanceId, OwnerName};
use crate::gate::turn::{Input, Proof, RejectReason, Reply};

/// What becomes of a result, as its executor learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultStatus {
    /// Recorded as the call's result.
    Recorded,
    /// It was recorded before.
    AlreadyRecorded,
    /// The call had ended otherwise.
    Late,
    /// The call is in a later attempt.
    Stale,
    /// No such execution, or not this executor's.
    Unknown,
}

/// Whether a word was about an execution of the speaker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was.
    Taken,
    /// It once was, and nobody waits for it.
    TooLate,
    /// It is another executor's.
    NotYours,
    /// Nobody knows it.
    Unknown,
    /// It printed more than it may.
    WithoutCredit,
}

/// Who speaks, about what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) owner: &'a OwnerName,
    pub(crate) instance: &'a InstanceId,
    pub(crate) execution: &'a ExecutionId,
    pub(crate) attempt: u32,
}

impl Pool {
    /// The executor has the call.
    pub(crate) fn accepted(&self, word: Word<'_>, queued: bool) -> Heard {
        self.tell(word, |of| Input::ExecutorAccepted { of, queued })
    }

    /// The executor reports.
    pub(crate) fn progressed(&self, word: Word<'_>, progress: Progress) -> Heard {
        self.tell(word, |of| Input::ExecutorProgressed { of, progress })
    }

    /// The executor prints, as far as it has credit.
    pub(crate) fn printed(&self, word: Word<'_>, chunk: OutputChunk) -> Heard {
        let mut inner = self.inner.lock();
        let (mailbox, of) = match inner.find_sent(word) {
            Ok(found) => found,
            Err(heard) => return heard,
        };
        let bytes = chunk.data.len() as u64;
        if !inner.use_credit(word.execution, bytes) {
            return Heard::WithoutCredit;
        }
        mailbox.deliver(Input::ExecutorPrinted { of, chunk });
        Heard::Taken
    }

    fn tell(&self, word: Word<'_>, input: impl FnOnce(Attempt) -> Input) -> Heard {
        let inner = self.inner.lock();
        match inner.find_sent(word) {
            Ok((mailbox, of)) => {
                mailbox.deliver(input(of));
                Heard::Taken
            }
            Err(heard) => heard,
        }
    }

    /// The executor answered. None: the answer is on its way to be recorded, and is acknowledged then.
    /// Else what becomes of it, which is given back.
    pub(crate) fn replied(&self, word: Word<'_>, reply: Reply) -> Option<(ResultStatus, Reply)> {
        let mut inner = self.inner.lock();
        let found = inner.find_sent(word);
        match found {
            Ok((mailbox, of)) => {
                inner.answer(word);
                mailbox.deliver(Input::ExecutorReplied { of, reply });
                inner.pump(word.owner, self.clock.now_ms());
                None
            }
            Err(Heard::TooLate) if inner.is_answered(word) => None,
            Err(Heard::TooLate) => {
                let late = inner.late(word);
                inner.pump(word.owner, self.clock.now_ms());
                let status = match inner.is_stale(word) {
                    true => ResultStatus::Stale,
                    false => late,
                };
                Some((status, reply))
            }
            Err(_) if inner.is_stale(word) => Some((ResultStatus::Stale, reply)),
            Err(Heard::Taken | Heard::NotYours | Heard::Unknown | Heard::WithoutCredit) => {
                Some((ResultStatus::Unknown, reply))
            }
        }
    }

    /// The executor does not take the call.
    pub(crate) fn rejected(
        &self,
        word: Word<'_>,
        reason: RejectReason,
        retry_after_ms: u32,
    ) -> Heard {
        let now = self.clock.now_ms();
        let mut inner = self.inner.lock();
        if let Err(heard) = inner.find_sent(word) {
            inner.late(word);
            return heard;
        }
        if let Some(pause) = self.pause_of(reason, retry_after_ms)
            && let Some(at) = inner
                .instances
                .get_mut(&(word.owner.clone(), word.instance.clone()))
        {
            at.pause_until = now.saturating_add(duration_ms(pause));
        }
        inner.reject(word.execution, word.attempt, reason);
        inner.pump(word.owner, now);
        Heard::Taken
    }

    /// How long a full executor is left alone. None: it is not full.
    pub(crate) fn pause_of(&self, reason: RejectReason, retry_after_ms: u32) -> Option<Duration> {
        let pause_ms = u64::from(retry_after_ms).max(self.busy_pause_ms);
        (reason == RejectReason::Busy).then(|| Duration::from_millis(pause_ms))
    }

    /// An executor that was left alone may be asked again.
    pub(crate) fn pause_ended(&self, owner: &OwnerName) {
        self.inner.lock().pump(owner, self.clock.now_ms());
    }

    /// The executor gives the call back, or never had it: its handler surely did not begin.
    pub(crate) fn gave_back(&self, word: Word<'_>) -> Heard {
        let mut inner = self.inner.lock();
        if let Err(heard) = inner.find_sent(word) {
            inner.late(word);
            return heard;
        }
        inner.lose(word.execution, Proof::NeverStarted);
        inner.pump(word.owner, self.clock.now_ms());
        Heard::Taken
    }
}

fn duration_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Inner {
    /// Takes printed bytes off the credit. False: there is not enough.
    fn use_credit(&mut self, execution: &ExecutionId, bytes: u64) -> bool {
        let credit = self
            .executions
            .get_mut(execution)
            .map(|execution| &mut execution.output_credit);
        let left = credit.as_ref().and_then(|credit| credit.checked_sub(bytes));
        match (credit, left) {
            (Some(credit), Some(left)) => {
                *credit = left;
                true
            }
            (Some(_) | None, _) => false,
        }
    }

    /// The mailbox of an execution that the speaker has in this attempt.
    fn find_sent(
        &self,
        word: Word<'_>,
    ) -> Result<(crate::executor::SharedMailbox, Attempt), Heard> {
        let Some(execution) = self.executions.get(word.execution) else {
            return Err(match self.knew(word) {
                true => Heard::TooLate,
                false => Heard::Unknown,
            });
        };
        if execution.owner != *word.owner {
            return Err(Heard::NotYours);
        }
        if execution.stage.is_sent(word.instance, word.attempt) {
            let of = Attempt {
                call: execution.call,
                attempt: word.attempt,
            };
            return Ok((execution.mailbox.clone(), of));
        }
        if self.is_answered(word) || self.knew(word) {
            return Err(Heard::TooLate);
        }
        Err(Heard::NotYours)
    }

    /// Whether the speaker once had it.
    fn knew(&self, word: Word<'_>) -> bool {
        let key = (word.execution.clone(), word.attempt);
        self.instances
            .get(&(word.owner.clone(), word.instance.clone()))
            .is_some_and(|at| at.forgotten.contains_key(&key) || at.recent.contains(&key))
    }

    /// Whether the word is about an earlier attempt than the one that runs.
    fn is_stale(&self, word: Word<'_>) -> bool {
        self.executions
            .get(word.execution)
            .filter(|execution| execution.owner == *word.owner)
            .and_then(|execution| execution.stage.attempt())
            .is_some_and(|attempt| word.attempt < attempt)
    }

    fn is_answered(&self, word: Word<'_>) -> bool {
        let answered = Stage::Answered {
            instance: word.instance.clone(),
            attempt: word.attempt,
        };
        self.executions
            .get(word.execution)
            .is_some_and(|execution| execution.stage == answered)
    }

    /// The answer is taken: its slot is free, its record pending.
    fn answer(&mut self, word: Word<'_>) {
        let Some(execution) = self.executions.get_mut(word.execution) else {
            return;
        };
        execution.stage = Stage::Answered {
            instance: word.instance.clone(),
            attempt: word.attempt,
        };
        let (owner, tool) = (execution.owner.clone(), execution.tool.clone());
        self.free_slot(&owner, Some(word.instance), &tool);
    }

    /// A last word about an execution that nobody waits for: its slot is free at last.
    fn late(&mut self, word: Word<'_>) -> ResultStatus {
        let key = (word.execution.clone(), word.attempt);
        let instance = (word.owner.clone(), word.instance.clone());
        let Some(at) = self.instances.get_mut(&instance) else {
            return ResultStatus::Unknown;
        };
        match at.forgotten.remove(&key) {
            Some(tool) => {
                at.remember(key.0, key.1);
                self.free_slot(word.owner, Some(word.instance), &tool);
                ResultStatus::Late
            }
            None if at.recent.contains(&key) => ResultStatus::AlreadyRecorded,
            None => ResultStatus::Unknown,
        }
    }
}
