//! All hooks of one sidecar, who is behind each, and the questions on their way.
//!
//! Whoever wants the list takes a snapshot of it; every change makes a new one. A hook whose process is
//! gone stays and fails until it returns, is removed, or its time is over, also over a restart: then it is
//! waited for a little first. Never decides what a failure means.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::asking::{self, Answerer, Connection};
use super::convert;
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::engine::{HookDesk, HookKeeper, HookQuestion};
use crate::executor::SharedMailbox;
use crate::gate::hooks::{
    Body, BuiltInHook, Hook, HookList, HookPlace, KeptHook, Matcher, OnFailure, Point,
    RequiredHook, RestoredHook, RunStatus, TIMEOUT_DEFAULT_MS,
};
use crate::gate::ids::{BatchId, HookId};
use crate::gate::permission::Aliases;
use crate::gate::record::Record;
use crate::gate::turn::{HookRun, HookTicket};
use crate::pb::v1::{self as pb, ErrorReason};
use crate::server::status::Failure;

/// What a desk is made of.
pub struct DeskParts {
    /// Hooks that need no process.
    pub built_in: Vec<BuiltInHook>,
    /// Hooks that fail while they are absent.
    pub required: Vec<RequiredHook>,
    /// Hooks of processes as the store has them.
    pub restored: Vec<RestoredHook>,
    /// Remembers hooks of processes.
    pub keeper: HookKeeper,
    /// Names that rules may use for tools.
    pub aliases: Aliases,
    /// Mints invocation ids.
    pub mint: Arc<Mint>,
    /// Owns the questions on their way.
    pub tasks: Tasks,
}

/// One hook and who is behind it.
struct Entry {
    hook: Arc<Hook>,
    /// Where the configuration requires it. None: it does not; empty: wherever it wants to be asked.
    required: Option<Vec<Point>>,
    /// The process that registered it last. Empty: none did.
    instance: String,
    /// Its stream. None: it is gone, or there is none.
    connection: Option<Arc<Connection>>,
    /// The stream that broke last, as long as nothing came after it.
    lost: Option<Arc<Connection>>,
    /// Tells those who wait that the process is back after a restart of the sidecar. None: it was, or
    /// nobody is waited for.
    returning: Option<watch::Sender<Option<Arc<Connection>>>>,
    /// What the store has. None: nothing.
    kept: Option<(String, Bytes)>,
    runs: u64,
    failures: u64,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<HookId, Entry>,
    /// Registrations so far.
    registered: u64,
}

type Question = (BatchId, HookTicket);

/// The hooks of one sidecar.
pub struct Desk {
    list: ArcSwap<HookList>,
    inner: Mutex<Inner>,
    /// Dropping one ends its question.
    asked: Mutex<BTreeMap<Question, oneshot::Sender<()>>>,
    pub(super) keeper: HookKeeper,
    pub(super) aliases: Aliases,
    pub(super) mint: Arc<Mint>,
    tasks: Tasks,
    own: Weak<Desk>,
}

impl Desk {
    /// The hooks that the configuration declares, and those that it requires, absent.
    #[must_use]
    pub fn new(parts: DeskParts) -> Arc<Self> {
        let mut inner = Inner::default();
        for declared in parts.built_in {
            let place = inner.next_place(declared.order);
            let hook = Hook {
                id: declared.id,
                place,
                points: vec![Point::BeforeToolCall],
                matcher: declared.matcher,
                timeout_ms: 0,
                on_failure: OnFailure::Deny,
                observes: false,
                withholds: false,
                description: declared.description,
                body: Body::BuiltIn(declared.body),
            };
            inner.put(hook, String::new(), None);
        }
        for RequiredHook { id, points } in parts.required {
            let place = inner.next_place(0);
            let entry = inner.put(absent(id, place, &points), String::new(), None);
            entry.required = Some(points);
        }
        for restored in parts.restored {
            inner.restore(restored, &parts.aliases);
        }
        let desk = Arc::new_cyclic(|own| Self {
            list: ArcSwap::from_pointee(HookList::default()),
            inner: Mutex::new(inner),
            asked: Mutex::default(),
            keeper: parts.keeper,
            aliases: parts.aliases,
            mint: parts.mint,
            tasks: parts.tasks,
            own: own.clone(),
        });
        desk.renew(&desk.inner.lock());
        desk
    }

    /// Makes what everybody sees anew.
    fn renew(&self, inner: &Inner) {
        let hooks = inner.entries.values().map(|entry| entry.hook.clone());
        self.list.store(Arc::new(HookList::new(hooks.collect())));
    }

    /// Takes a process's hook in. Its place stays if it was there before.
    ///
    /// Some: what the store must be told of it. `registration`: as the process sent it.
    pub(super) fn register(
        &self,
        mut hook: Hook,
        registration: Bytes,
        connection: &Arc<Connection>,
    ) -> Result<Option<Record>, Failure> {
        let mut inner = self.inner.lock();
        let known = inner.entries.get(&hook.id);
        if let Some(known) = known {
            let is_live = known.connection.is_some() && known.instance != connection.instance;
            if is_live || known.is_built_in() {
                let problem = format!("the hook `{}` is somebody else's", hook.id);
                return Err(Failure::new(ErrorReason::NameForbidden, problem));
            }
            if let Some(point) = known.required_beyond(&hook) {
                let problem = format!("must hold `{}`: it is required there", point.as_str());
                return Err(Failure::field("points", problem));
            }
            hook.place.number = known.hook.place.number;
        } else {
            hook.place = inner.next_place(hook.place.order);
        }
        let instance = connection.instance.clone();
        let entry = inner.put(hook, instance, Some(connection.clone()));
        let record = entry.keep(registration);
        self.renew(&inner);
        Ok(record)
    }

    /// A stream ended in order: its hooks go. Required ones stay and fail.
    pub(super) fn unregister(&self, connection: &Arc<Connection>) {
        self.drop_where(|entry| {
            let is_own = entry.is_at(connection);
            if is_own {
                entry.connection = None;
            }
            is_own
        });
        connection.close();
    }

    /// Takes hooks away; required ones stay. The store forgets both: those are in the config.
    fn drop_where(&self, mut is_gone: impl FnMut(&mut Entry) -> bool) {
        let mut inner = self.inner.lock();
        let mut records = Vec::new();
        inner.entries.retain(|id, entry| {
            if !is_gone(entry) {
                return true;
            }
            entry.returning = None;
            if entry.kept.take().is_some() {
                records.push(Record::HookRemoved(id.clone()));
            }
            entry.required.is_some()
        });
        self.renew(&inner);
        self.keeper.forget(&records);
    }

    /// A stream broke: its hooks stay and fail.
    pub(super) fn lose(&self, connection: &Arc<Connection>) {
        let mut inner = self.inner.lock();
        let own = inner.entries.values_mut();
        for entry in own.filter(|entry| entry.is_at(connection)) {
            entry.lost = entry.connection.take();
        }
        connection.close();
    }

    /// The time of a process that did not return since this stream broke is over. Required hooks stay.
    pub(super) fn expire(&self, lost: &Arc<Connection>) {
        self.drop_where(|entry| {
            let last = entry.lost.as_ref();
            last.is_some_and(|last| Arc::ptr_eq(last, lost))
        });
    }

    /// The time of the processes that did not return since the sidecar started is over.
    pub(super) fn expire_restored(&self) {
        self.drop_where(|entry| entry.returning.is_some());
    }

    /// Whether processes are waited for since the sidecar started.
    pub(super) fn awaits_restored(&self) -> bool {
        let inner = self.inner.lock();
        inner
            .entries
            .values()
            .any(|entry| entry.returning.is_some())
    }

    /// Takes a hook away whose process is gone.
    pub(super) fn remove(&self, id: &str) -> Result<(), Failure> {
        let mut inner = self.inner.lock();
        let key = HookId::trusted(id);
        let Some(entry) = inner.entries.get_mut(&key) else {
            return Err(Failure::not_found("hook", id));
        };
        if entry.connection.is_some() || entry.is_built_in() {
            let problem = "is connected or declared in the configuration";
            return Err(Failure::field("hook_id", problem));
        }
        entry.returning = None;
        let was_kept = entry.kept.take().is_some();
        if let Some(points) = &entry.required {
            // What it said of itself does not hold any more; it fails for every call.
            entry.hook = Arc::new(absent(key, entry.hook.place, points));
            entry.instance.clear();
        } else {
            inner.entries.remove(&key);
        }
        self.renew(&inner);
        if was_kept {
            self.keeper
                .forget(&[Record::HookRemoved(HookId::trusted(id))]);
        }
        Ok(())
    }

    /// All hooks as they stand, in the order in which they are asked.
    pub(super) fn infos(&self) -> Vec<pb::HookInfo> {
        let inner = self.inner.lock();
        let mut entries: Vec<&Entry> = inner.entries.values().collect();
        entries.sort_by_key(|entry| entry.hook.place);
        let infos = entries.into_iter().map(|entry| pb::HookInfo {
            registration: Some(convert::registration(&entry.hook)),
            built_in: entry.is_built_in(),
            connected: entry.is_built_in() || entry.connection.is_some(),
            required: entry.required.is_some(),
            runs: entry.runs,
            failures: entry.failures,
        });
        infos.collect()
    }

    fn who_answers(&self, hook: &HookId) -> Answerer {
        let inner = self.inner.lock();
        match inner.entries.get(hook) {
            Some(Entry {
                connection: Some(connection),
                ..
            }) => Answerer::Here(connection.clone()),
            Some(Entry {
                returning: Some(returning),
                ..
            }) => Answerer::Returning(returning.subscribe()),
            Some(_) | None => Answerer::Gone,
        }
    }
}

impl HookDesk for Desk {
    fn list(&self) -> Arc<HookList> {
        self.list.load_full()
    }

    fn ask(&self, question: HookQuestion, mailbox: SharedMailbox) {
        let answerer = self.who_answers(&question.ask.hook.id);
        let invocation_id = self.mint.id();
        if !question.ask.is_awaited {
            if let Answerer::Here(connection) = answerer {
                connection.tell(convert::invocation(&question, invocation_id));
            }
            return;
        }
        let key = (question.ask.turn.batch.clone(), question.ask.ticket);
        let (keep, forgotten) = oneshot::channel();
        self.asked.lock().insert(key.clone(), keep);
        let desk = self.own.clone();
        self.tasks.spawn("hook", async move {
            let asked = asking::ask(answerer, question, invocation_id, mailbox);
            tokio::select! {
                () = asked => {}
                _ = forgotten => {}
            }
            if let Some(desk) = desk.upgrade() {
                desk.asked.lock().remove(&key);
            }
        });
    }

    fn forget(&self, batch: &BatchId, ticket: HookTicket) {
        self.asked.lock().remove(&(batch.clone(), ticket));
    }

    fn ran(&self, run: &HookRun) {
        let mut inner = self.inner.lock();
        if let Some(entry) = inner.entries.get_mut(&run.hook) {
            entry.runs += 1;
            let is_failure = !matches!(run.status, RunStatus::Answered | RunStatus::Cancelled);
            entry.failures += u64::from(is_failure);
        }
    }
}

impl Entry {
    fn new(hook: Arc<Hook>) -> Self {
        Self {
            hook,
            required: None,
            instance: String::new(),
            connection: None,
            lost: None,
            returning: None,
            kept: None,
            runs: 0,
            failures: 0,
        }
    }

    fn is_built_in(&self) -> bool {
        matches!(self.hook.body, Body::BuiltIn(_))
    }

    /// Some: what the store must be told, which it was not before.
    fn keep(&mut self, registration: Bytes) -> Option<Record> {
        let kept = (self.instance.clone(), registration);
        if self.kept.as_ref() == Some(&kept) {
            return None;
        }
        let record = KeptHook {
            hook: self.hook.clone(),
            instance: kept.0.clone(),
            registration: kept.1.clone(),
        };
        self.kept = Some(kept);
        Some(Record::HookRegistered(Arc::new(record)))
    }

    /// The first point at which the hook is required and would not be asked.
    fn required_beyond(&self, hook: &Hook) -> Option<Point> {
        let mut required = self.required.iter().flatten().copied();
        required.find(|point| !hook.is_at(*point))
    }

    fn is_at(&self, connection: &Arc<Connection>) -> bool {
        let own = self.connection.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, connection))
    }
}

impl Inner {
    fn next_place(&mut self, order: u32) -> HookPlace {
        self.registered += 1;
        HookPlace {
            order,
            number: self.registered,
        }
    }

    /// Puts a hook in the place of the one with its id. Whoever waited for that one's process learns of it.
    fn put(
        &mut self,
        hook: Hook,
        instance: String,
        connection: Option<Arc<Connection>>,
    ) -> &mut Entry {
        let hook = Arc::new(hook);
        let entry = self
            .entries
            .entry(hook.id.clone())
            .or_insert_with(|| Entry::new(hook.clone()));
        if let Some(returning) = entry.returning.take() {
            returning.send_replace(connection.clone());
        }
        entry.hook = hook;
        entry.instance = instance;
        entry.connection = connection;
        entry.lost = None;
        entry
    }

    /// Takes up a hook whose process was there before the sidecar restarted.
    fn restore(&mut self, restored: RestoredHook, aliases: &Aliases) {
        let known = self.entries.get(&restored.id);
        if known.is_some_and(Entry::is_built_in) {
            tracing::warn!(hook = %restored.id, "a hook of a process has the id of a built-in one now");
            return;
        }
        self.registered = self.registered.max(restored.number);
        let mut hook = convert::restored(&restored.registration, aliases).unwrap_or_else(|error| {
            let id = &restored.id;
            tracing::warn!(hook = %id, error, "what a hook said is not understood; it is asked about every call");
            absent(id.clone(), HookPlace::default(), &[])
        });
        hook.place.number = restored.number;
        if known
            .and_then(|known| known.required_beyond(&hook))
            .is_some()
        {
            // It is absent until it comes with what the config wants of it.
            return;
        }
        let entry = self.put(hook, restored.instance.clone(), None);
        entry.returning = Some(watch::Sender::new(None));
        entry.kept = Some((restored.instance, restored.registration));
    }
}

/// A hook that must be there and is not: it is asked about every call, and fails. What it does not see after a
/// call nobody sees.
fn absent(id: HookId, place: HookPlace, required: &[Point]) -> Hook {
    Hook {
        id,
        place,
        points: match required {
            [] => vec![Point::BeforeToolCall],
            points => points.to_vec(),
        },
        matcher: Matcher::default(),
        timeout_ms: TIMEOUT_DEFAULT_MS,
        on_failure: OnFailure::Deny,
        observes: false,
        withholds: true,
        description: String::new(),
        body: Body::Remote,
    }
}
