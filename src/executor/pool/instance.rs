//! One executor process as the pool knows it.
//!
//! Never outlives its resume window after its stream broke.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::executor::lanes::Lanes;
use crate::gate::ids::{ExecutionId, InstanceId, OwnerName, ToolName};
use crate::gate::result::Digest;
use crate::gate::tool::{SharedTool, Tool};

use super::inquire::Question;
use super::{Inner, Pool, count};

/// How many finished executions an instance remembers, to tell a repeated result from a foreign one.
const RECENT_MAX: usize = 1_024;

/// Whether an instance takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// Takes work.
    Ready,
    /// Finishes what it has.
    Draining,
    /// Its stream broke; what it had is kept for the resume window.
    Reconnecting,
}

/// The stream of an instance: where to say things, and its name against older streams.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) connection: Arc<str>,
    pub(crate) lanes: Arc<Lanes>,
}

/// What an instance says of itself when it joins.
#[derive(Debug, Clone)]
pub(crate) struct Joining {
    pub(crate) owner: OwnerName,
    pub(crate) instance: InstanceId,
    pub(crate) link: Link,
    pub(crate) slots: u32,
    pub(crate) max_message_bytes: usize,
    /// Keeps results until acknowledged and lists what it has, so that absence is proof.
    pub(crate) resumes: bool,
    /// Takes output credit.
    pub(crate) prints: bool,
    /// Says what paths are.
    pub(crate) resolves_facts: bool,
    /// Its software, for people.
    pub(crate) sdk: String,
    pub(crate) sdk_version: String,
    pub(crate) language: String,
    pub(crate) language_version: String,
}

/// One executor process.
pub(super) struct Instance {
    pub(super) about: Joining,
    pub(super) state: InstanceState,
    pub(super) slots: u32,
    /// Slots taken, those of forgotten executions included.
    pub(super) busy: u32,
    /// What it runs, in the definition that it registered.
    pub(super) tools: BTreeMap<ToolName, SharedTool>,
    /// Executions nobody waits for, whose handlers may still run: they keep their slots.
    pub(super) forgotten: BTreeMap<(ExecutionId, u32), ToolName>,
    pub(super) recent: VecDeque<(ExecutionId, u32)>,
    /// Questions that it has not answered, by id.
    pub(super) questions: BTreeMap<String, Question>,
    /// How many questions it was ever asked.
    pub(super) asked: u64,
    /// Left alone until then, in Unix milliseconds.
    pub(super) pause_until: u64,
    pub(super) connected_at: u64,
    pub(super) last_seen: u64,
    pub(super) round_trip_ms: Option<u64>,
}

impl Instance {
    pub(super) fn new(about: Joining, now: u64) -> Self {
        Self {
            slots: about.slots,
            about,
            state: InstanceState::Ready,
            busy: 0,
            tools: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            recent: VecDeque::new(),
            questions: BTreeMap::new(),
            asked: 0,
            pause_until: 0,
            connected_at: now,
            last_seen: now,
            round_trip_ms: None,
        }
    }

    pub(super) fn runs(&self, tool: &ToolName, digest: &Digest) -> bool {
        self.tools
            .get(tool)
            .is_some_and(|own| own.digest == *digest)
    }

    /// Whether its stream is up.
    pub(super) fn is_reachable(&self) -> bool {
        match self.state {
            InstanceState::Ready | InstanceState::Draining => true,
            InstanceState::Reconnecting => false,
        }
    }

    /// Whether its tools are worth showing: it is here, or may come back any moment.
    pub(super) fn is_present(&self) -> bool {
        match self.state {
            InstanceState::Ready | InstanceState::Reconnecting => true,
            InstanceState::Draining => false,
        }
    }

    pub(super) fn free_slots(&self, now: u64) -> u32 {
        if self.state != InstanceState::Ready || self.pause_until > now {
            return 0;
        }
        self.slots.saturating_sub(self.busy)
    }

    pub(super) fn remember(&mut self, execution: ExecutionId, attempt: u32) {
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((execution, attempt));
    }
}

/// One executor process, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorView {
    /// Its name.
    pub owner: OwnerName,
    /// The process.
    pub instance: InstanceId,
    /// Its stream. Empty while reconnecting.
    pub connection: String,
    /// Whether it takes work.
    pub state: InstanceState,
    /// Names of its tools.
    pub tools: Vec<ToolName>,
    /// Executions that it takes at once.
    pub slots: u32,
    /// Executions that it has.
    pub in_flight: u32,
    /// Its software: name, version, language, version of that.
    pub sdk: [String; 4],
    /// When its stream began, in Unix milliseconds.
    pub connected_at_ms: u64,
    /// When something last came, in Unix milliseconds.
    pub last_seen_at_ms: u64,
    /// Last time from ping to pong, in milliseconds.
    pub round_trip_ms: Option<u64>,
}

impl Pool {
    /// Every instance, by name, then process.
    pub fn executors(&self) -> Vec<ExecutorView> {
        let inner = self.inner.lock();
        inner.instances.values().map(view).collect()
    }

    /// How many instances there are.
    pub fn len(&self) -> usize {
        self.inner.lock().instances.len()
    }

    /// Whether the instance is connected, or may come back.
    pub(crate) fn knows(&self, owner: &OwnerName, instance: &InstanceId) -> bool {
        let key = (owner.clone(), instance.clone());
        self.inner.lock().instances.contains_key(&key)
    }

    /// Whether there is no instance.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says what the instance runs now.
    pub(crate) fn set_tools(
        &self,
        owner: &OwnerName,
        instance: &InstanceId,
        add: Vec<SharedTool>,
        remove: &[ToolName],
    ) {
        let mut inner = self.inner.lock();
        if let Some(instance) = inner.instances.get_mut(&(owner.clone(), instance.clone())) {
            let named = add
                .into_iter()
                .map(|tool| (tool.definition.name.clone(), tool));
            instance.tools.extend(named);
            for name in remove {
                instance.tools.remove(name);
            }
        }
        let now = self.clock.now_ms();
        inner.pump(owner, now);
        inner.ask_kept(owner, now, self.limits.executor_questions_max);
    }

    /// What the owner's instances run; of several definitions of a name, the last is of the instance that
    /// came last.
    pub(crate) fn tools_of(&self, owner: &OwnerName) -> Vec<SharedTool> {
        let inner = self.inner.lock();
        inner
            .at_owner(owner)
            .filter(|instance| instance.is_present())
            .flat_map(|instance| instance.tools.values().cloned())
            .collect()
    }

    /// Whether another instance of the owner runs the tool in another definition.
    pub(crate) fn is_outdone(&self, tool: &Tool, by: &InstanceId) -> bool {
        let inner = self.inner.lock();
        inner
            .at_owner(&tool.owner)
            .filter(|instance| instance.about.instance != *by)
            .filter(|instance| instance.is_present())
            .filter_map(|instance| instance.tools.get(&tool.definition.name))
            .any(|other| other.digest != tool.digest)
    }

    /// Says how many executions the instance takes from now on.
    pub(crate) fn set_slots(&self, owner: &OwnerName, instance: &InstanceId, slots: u32) {
        let mut inner = self.inner.lock();
        if let Some(instance) = inner.instances.get_mut(&(owner.clone(), instance.clone())) {
            instance.slots = slots.min(count(
                usize::try_from(self.limits.executor_slots_max).unwrap_or(usize::MAX),
            ));
        }
        inner.pump(owner, self.clock.now_ms());
    }

    /// The instance takes nothing new.
    pub(crate) fn drain(&self, owner: &OwnerName, instance: &InstanceId) {
        let mut inner = self.inner.lock();
        if let Some(instance) = inner.instances.get_mut(&(owner.clone(), instance.clone())) {
            instance.state = InstanceState::Draining;
        }
    }

    /// Something came from the instance; with a pong, how long it took.
    pub(crate) fn seen(
        &self,
        owner: &OwnerName,
        instance: &InstanceId,
        round_trip_ms: Option<u64>,
    ) {
        let now = self.clock.now_ms();
        let mut inner = self.inner.lock();
        if let Some(instance) = inner.instances.get_mut(&(owner.clone(), instance.clone())) {
            instance.last_seen = now;
            if round_trip_ms.is_some() {
                instance.round_trip_ms = round_trip_ms;
            }
        }
        // A pause may have ended meanwhile.
        inner.pump(owner, now);
    }
}

impl Inner {
    pub(super) fn link(&self, owner: &OwnerName, instance: &InstanceId) -> Option<Link> {
        let instance = self.instances.get(&(owner.clone(), instance.clone()))?;
        instance.is_reachable().then(|| instance.about.link.clone())
    }
}

fn view(instance: &Instance) -> ExecutorView {
    let about = &instance.about;
    ExecutorView {
        owner: about.owner.clone(),
        instance: about.instance.clone(),
        connection: match instance.is_reachable() {
            true => about.link.connection.to_string(),
            false => String::new(),
        },
        state: instance.state,
        tools: instance.tools.keys().cloned().collect(),
        slots: instance.slots,
        in_flight: instance.busy,
        sdk: [
            about.sdk.clone(),
            about.sdk_version.clone(),
            about.language.clone(),
            about.language_version.clone(),
        ],
        connected_at_ms: instance.connected_at,
        last_seen_at_ms: instance.last_seen,
        round_trip_ms: instance.round_trip_ms,
    }
}
