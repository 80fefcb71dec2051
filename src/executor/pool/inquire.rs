//! Questions about calls: to whom they go, and whose answers count.
//!
//! A question is asked of one process, over its stream, and is a question of that stream only: nobody
//! else can answer it, and it is lost with it. Takes no slot. Never waits: silence is the asker's to
//! measure.

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

impl Pool {
    /// Asks a process that runs the tool. The answer comes through the mailbox, or that there is none;
    /// nothing comes from one that stays silent.
    pub fn inquire(&self, inquiry: Inquiry, mailbox: SharedMailbox) {
        let now = self.clock.now_ms();
        let question = Question::of(&inquiry, mailbox);
        let mut inner = self.inner.lock();
        let asked = self.whom_to_ask(&mut inner, &inquiry, question.kind, now);
        let Some(at) = asked.and_then(|key| inner.instances.get_mut(&key)) else {
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
        &self,
        inner: &mut Inner,
        inquiry: &Inquiry,
        kind: Kind,
        now: u64,
    ) -> Option<(OwnerName, InstanceId)> {
        let tool = &inquiry.tool;
        let knows = |at: &&Instance| match kind {
            Kind::Facts => at.about.resolves_facts,
            Kind::Check => true,
        };
        let able = inner.instances_of(tool).filter(|at| at.is_reachable());
        let able = able.filter(knows);
        let open = |at: &Instance| {
            let questions = at.questions.values();
            questions.filter(|question| question.until > now).count() as u64
        };
        let (open, chosen) = able
            .map(|at| (open(at), at.about.instance.clone()))
            .min_by_key(|(open, _)| *open)?;
        let key = (tool.owner.clone(), chosen);
        if let Some(at) = inner.instances.get_mut(&key) {
            at.questions.retain(|_, question| question.until > now);
        }
        (open < self.limits.executor_questions_max).then_some(key)
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

impl Instance {
    /// Its stream is gone, and its questions with it.
    pub(super) fn lose_questions(&mut self) {
        for (_, question) in std::mem::take(&mut self.questions) {
            question.lose();
        }
    }
}
