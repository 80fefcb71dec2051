//! Questions about calls: to whom they go, and whose answers count.
//!
//! A question is asked of one process, over its stream, and is a question of that stream only: nobody
//! else can answer it, and it is lost with it. While no process that runs the tool can be reached, as
//! after a restart, it is kept for the first that comes. Takes no slot. Never measures silence: that is
//! the asker's.

use super::{Inner, Instance, Pool};
use crate::executor::{SharedMailbox, convert_inquiry};
use crate::gate::ids::{CallIndex, InstanceId, OwnerName};
use crate::gate::permission::{PathFact, ToolWord};
use crate::gate::turn::{About, Input, Inquiry};

/// What kind of answer is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Facts,
    Check,
}

/// One question that was asked and not answered.
pub(super) struct Question {
    call: CallIndex,
    mailbox: SharedMailbox,
    kind: Kind,
    /// An answer is too late from then on, in Unix milliseconds.
    until: u64,
}

impl Question {
    fn of(inquiry: &Inquiry, mailbox: SharedMailbox) -> Self {
        Self {
            call: inquiry.call,
            mailbox,
            kind: match inquiry.about {
                About::Facts { .. } => Kind::Facts,
                About::Check { .. } => Kind::Check,
            },
            until: inquiry.until.0,
        }
    }

    /// Nobody will answer it.
    pub(super) fn lose(self) {
        let call = self.call;
        self.mailbox.deliver(match self.kind {
            Kind::Facts => Input::FactsResolved {
                call,
                facts: Vec::new(),
            },
            Kind::Check => Input::ToolChecked { call, word: None },
        });
    }
}

/// A question that waits for a process to ask.
pub(super) struct Unasked {
    inquiry: Inquiry,
    question: Question,
}

impl Pool {
    /// Asks a process that runs the tool. The answer comes through the mailbox, or that there is none;
    /// nothing comes from one that stays silent, or if none comes that could be asked.
    pub fn inquire(&self, inquiry: Inquiry, mailbox: SharedMailbox) {
        let now = self.clock.now_ms();
        let question = Question::of(&inquiry, mailbox);
        let unasked = Unasked { inquiry, question };
        let mut inner = self.inner.lock();
        if inner.is_reachable(&unasked.inquiry) {
            inner.ask(unasked, now, self.limits.executor_questions_max);
            return;
        }
        inner.unasked.retain(|kept| kept.question.until > now);
        match (inner.unasked.len() as u64) < self.limits.waiting_calls_max {
            true => inner.unasked.push(unasked),
            false => unasked.question.lose(),
        }
    }

    /// The process says what a call's paths are. False: nobody waits for that from it.
    pub(crate) fn facts_resolved(
        &self,
        from: (&OwnerName, &InstanceId),
        id: &str,
        facts: Vec<PathFact>,
    ) -> bool {
        let Some(question) = self.take_question(from, id, Kind::Facts) else {
            return false;
        };
        let call = question.call;
        let input = Input::FactsResolved { call, facts };
        question.mailbox.deliver(input);
        true
    }

    /// The process says what its tool thinks of a call. False: nobody waits for that from it.
    pub(crate) fn tool_checked(
        &self,
        from: (&OwnerName, &InstanceId),
        id: &str,
        word: ToolWord,
    ) -> bool {
        let Some(question) = self.take_question(from, id, Kind::Check) else {
            return false;
        };
        let call = question.call;
        let word = Some(Box::new(word));
        question.mailbox.deliver(Input::ToolChecked { call, word });
        true
    }

    fn take_question(
        &self,
        (owner, instance): (&OwnerName, &InstanceId),
        id: &str,
        kind: Kind,
    ) -> Option<Question> {
        let now = self.clock.now_ms();
        let mut inner = self.inner.lock();
        let at = inner
            .instances
            .get_mut(&(owner.clone(), instance.clone()))?;
        // An answer of another kind leaves the question open.
        at.questions.get(id).filter(|asked| asked.kind == kind)?;
        let question = at.questions.remove(id)?;
        (question.until > now).then_some(question)
    }
}

impl Inner {
    fn is_reachable(&self, inquiry: &Inquiry) -> bool {
        let mut instances = self.instances_of(&inquiry.tool);
        instances.any(Instance::is_reachable)
    }

    /// Asks what waited for a process of this owner. `open_max`: most open questions at one process.
    pub(super) fn ask_kept(&mut self, owner: &OwnerName, now: u64, open_max: u64) {
        for unasked in std::mem::take(&mut self.unasked) {
            let is_asked =
                unasked.inquiry.tool.owner == *owner && self.is_reachable(&unasked.inquiry);
            match is_asked {
                true => self.ask(unasked, now, open_max),
                false => self.unasked.push(unasked),
            }
        }
    }

    fn ask(&mut self, unasked: Unasked, now: u64, open_max: u64) {
        let Unasked { inquiry, question } = unasked;
        if question.until <= now {
            return;
        }
        let asked = self.whom_to_ask(&inquiry, question.kind, now, open_max);
        let Some(at) = asked.and_then(|key| self.instances.get_mut(&key)) else {
            question.lose();
            return;
        };
        // Its stream is named too: an answer that comes over a later one is nobody's.
        at.asked += 1;
        let id = format!("{}.{}", at.about.link.connection, at.asked);
        let (message, size) = convert_inquiry::inquiry(&id, inquiry);
        if size > at.about.max_message_bytes || !at.about.link.lanes.control(message) {
            question.lose();
            return;
        }
        at.questions.insert(id, question);
    }

    /// The process with the fewest open questions that runs this very definition, if one has room.
    fn whom_to_ask(
        &mut self,
        inquiry: &Inquiry,
        kind: Kind,
        now: u64,
        open_max: u64,
    ) -> Option<(OwnerName, InstanceId)> {
        let tool = &inquiry.tool;
        let knows = |at: &&Instance| match kind {
            Kind::Facts => at.about.resolves_facts,
            Kind::Check => true,
        };
        let able = self.instances_of(tool).filter(|at| at.is_reachable());
        let able = able.filter(knows);
        let open = |at: &Instance| {
            let questions = at.questions.values();
            questions.filter(|question| question.until > now).count() as u64
        };
        let (open, chosen) = able
            .map(|at| (open(at), at.about.instance.clone()))
            .min_by_key(|(open, _)| *open)?;
        let key = (tool.owner.clone(), chosen);
        if let Some(at) = self.instances.get_mut(&key) {
            at.questions.retain(|_, question| question.until > now);
        }
        (open < open_max).then_some(key)
    }
}

impl Instance {
    /// Its stream is gone, and its questions with it.
    pub(super) fn lose_questions(&mut self) {
        for (_, question) in std::mem::take(&mut self.questions) {
            question.lose();
        }
    }
}
