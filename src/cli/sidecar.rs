//! Puts the sidecar together and takes it apart again.
//!
//! The one place that knows every layer. Never serves before everything that the store had is taken up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::base::clock::Clock;
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::config::rule_files::RuleFiles;
use crate::config::{Config, DiagnosisConfig, Environment, ProcessEnvironment};
use crate::engine::{DiagnosisEndpoint, Engine, HookKeeper, Parts, RuleBook, Settings, tell};
use crate::executor::{Directory, Pool, RegistryJournal, Sessions, StreamSettings};
use crate::gate::audit::Checkpoint;
use crate::gate::hooks::RestoredHook;
use crate::gate::ids::{OwnerName, UnixMillis};
use crate::gate::permission::{Permissions, Settings as LiftSettings};
use crate::gate::record::Record;
use crate::gate::registry::Registry;
use crate::gate::tool::{self, Tool, ToolRules};
use crate::server::access::{Gatekeeper, load_tokens, private_dir, read_or_make_secret};
use crate::server::{
    Approvals, Audit, Desk, DeskParts, Drain, Executors, HEALTH_NAMES, Happenings, HookSessions,
    Hooks, Info, Listener, Policy, Served, Services, SessionsApi, Tools, Turns, listen_tcp,
    listen_unix, socket_paths,
};
use crate::store::audit::{AuditOptions, open_outside};
use crate::store::signer::Signer;
use crate::store::{Restored, SharedStore, SqliteOptions, SqliteStore, TurnFilter};

/// The store, in the data directory.
pub(super) const STORE_FILE: &str = "callgate.db";
/// The key that signs the audit's heads, in the data directory.
pub(super) const AUDIT_KEY_FILE: &str = "audit.key";

/// How long tasks may take to end after everything was told to.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// A sidecar that serves.
pub(super) struct Sidecar {
    engine: Arc<Engine>,
    store: SharedStore,
    health: HealthReporter,
    /// Asked to stop last: streams of executors.
    tasks: Tasks,
    /// Cancelled by whoever wants the sidecar to leave.
    pub(super) drain: Drain,
    /// Where it listens.
    pub(super) places: Vec<String>,
    drain_ms: u64,
}

/// Writes changes of the registry down.
struct StoreJournal {
    store: SharedStore,
}

impl RegistryJournal for StoreJournal {
    fn write(&self, records: &[Record]) {
        // A full queue takes it all the same, after what is there.
        if self.store.append(records).is_err() {
            drop(self.store.commit(records));
        }
    }
}

impl Sidecar {
    /// Opens the store, takes up what it has, and serves.
    pub(super) async fn start(config: Config) -> Result<Self, String> {
        let clock = Clock::system();
        private_dir(&config.data_dir)
            .map_err(|error| format!("`{}`: {error}", config.data_dir.display()))?;
        let secret = read_or_make_secret(&config.data_dir.join("resume.secret"))
            .map_err(|error| error.to_string())?;
        let tokens =
            load_tokens(&config.data_dir.join("tokens")).map_err(|error| error.to_string())?;
        let audit = audit_options(&config)?;
        let mut audit_keys = config.trusted_keys().map_err(|error| error.to_string())?;
        let signer = audit.signer.clone();
        audit_keys.splice(0..0, signer.iter().map(|signer| signer.public_key()));
        let (store, mut restored) = open_store(&config.data_dir, audit)?;
        if let Some(signer) = signer {
            tell_key_change(&store, &signer).await?;
        }
        let mint = Arc::new(Mint::new());
        let tasks = Tasks::new();
        let mode = config.mode().map_err(|error| error.to_string())?;
        // With a broken deny or ask rule nothing is served.
        let book = RuleBook::open(RuleFiles::of(&config), UnixMillis(clock.now_ms()))
            .map_err(|error| error.to_string())?;
        tell(&book.standing());
        let permissions = Permissions {
            policy: book.standing().policy.clone(),
            mode,
            trusted_executors: config
                .trusted_executors()
                .map_err(|error| error.to_string())?
                .into(),
            settings: LiftSettings {
                hook_allow_covers_dangerous: config.hooks.allow_covers_dangerous,
                ..LiftSettings::default()
            },
        };
        let rules = config.tool_rules().map_err(|error| error.to_string())?;
        let directory = Arc::new(restore_directory(&config, &rules, &restored, clock, &store));
        let pool = Pool::new(clock, config.limits.clone());
        let hooks = std::mem::take(&mut restored.hooks);
        let desk = desk(&config, &mint, &tasks, &store, hooks)?;
        let engine = Engine::new(Parts {
            directory: directory.clone(),
            pool: pool.clone(),
            store: store.clone(),
            clock,
            mint: mint.clone(),
            tasks: tasks.clone(),
            settings: Settings {
                diagnosis: diagnosis_endpoint(&config.loops.diagnosis, &ProcessEnvironment)?,
                ..settings(&config, audit_keys)
            },
            permissions,
            rules: book,
            hooks: desk.clone(),
        });
        let hook_sessions = Arc::new(HookSessions {
            desk,
            limits: config.limits.clone(),
            settings: stream_settings(&config),
            absent_keep_ms: config.hooks.absent_keep_ms,
            tasks: tasks.child(),
        });
        hook_sessions.await_restored();
        let sessions = Arc::new(Sessions {
            pool,
            directory,
            mint,
            limits: config.limits.clone(),
            settings: stream_settings(&config),
            secret,
            tasks: tasks.child(),
        });
        let recovered = take_up(&engine, &store, restored).await?;
        if recovered > 0 {
            tracing::info!(turns = recovered, "took up turns of the last process");
        }
        engine.start_sweeping();
        engine.watch_rules();
        let drain = Drain::default();
        let services = Services {
            turns: Turns {
                engine: engine.clone(),
                tasks: tasks.clone(),
            },
            executors: Executors { sessions },
            tools: Tools {
                engine: engine.clone(),
            },
            approvals: Approvals {
                engine: engine.clone(),
            },
            sessions: SessionsApi {
                engine: engine.clone(),
            },
            happenings: Happenings {
                engine: engine.clone(),
            },
            hooks: Hooks {
                sessions: hook_sessions,
            },
            policy: Policy {
                engine: engine.clone(),
            },
            audit: Audit {
                engine: engine.clone(),
                tasks: tasks.clone(),
            },
            info: Info {
                engine: engine.clone(),
                config: Arc::new(config.clone()),
                drain: drain.clone(),
                started_at_ms: clock.now_ms(),
            },
        };
        let (routes, health) = services.into_routes(&config)?;
        let gatekeeper = Gatekeeper::new(tokens, own_uid());
        let served = Served::new(
            routes,
            gatekeeper,
            config.server.clone(),
            config.limits.clone(),
            engine.clone(),
            tasks.clone(),
        );
        let places = listen(&config, &served).await?;
        let sidecar = Self {
            engine,
            store,
            health,
            tasks,
            drain,
            places,
            drain_ms: config.server.drain_ms,
        };
        sidecar.watch_health().await;
        Ok(sidecar)
    }

    /// Keeps health true to the store.
    async fn watch_health(&self) {
        let mut availability = self.store.availability();
        tell_health(&self.health, *availability.borrow_and_update()).await;
        self.health
            .set_service_status("liveness", ServingStatus::Serving)
            .await;
        let (health, engine, tasks) =
            (self.health.clone(), self.engine.clone(), self.tasks.clone());
        self.tasks.spawn("health", async move {
            loop {
                tokio::select! {
                    () = tasks.stopped() => return,
                    changed = availability.changed() => if changed.is_err() { return },
                }
                let available = *availability.borrow_and_update();
                tracing::warn!(available, "store availability changed");
                tell_health(&health, available && !engine.is_draining()).await;
            }
        });
    }

    /// Refuses new turns, lets what runs end, then leaves. Returns how many turns were left for the
    /// next process.
    pub(super) async fn leave(self) -> usize {
        self.engine.start_drain();
        tell_health(&self.health, false).await;
        self.drain_turns().await;
        let left = self.engine.running();
        let stuck = self.tasks.close(CLOSE_GRACE).await;
        if stuck > 0 {
            tracing::warn!(tasks = stuck, "tasks did not end in time");
        }
        // What waits to be written is written; a store that fails has said so already.
        let _ = self.store.close().await;
        left
    }

    async fn drain_turns(&self) {
        let all_ended = async {
            let mut looks = tokio::time::interval(Duration::from_millis(20));
            // Whoever decides may take days: a suspended turn is the next process's.
            while self.engine.running() > self.engine.suspended() {
                looks.tick().await;
            }
        };
        let limit = Duration::from_millis(self.drain.span_ms().unwrap_or(self.drain_ms));
        if tokio::time::timeout(limit, all_ended).await.is_err() {
            let turns = self.engine.running();
            tracing::warn!(turns, "turns still run; the next process takes them up");
        }
    }
}

async fn tell_health(health: &HealthReporter, serving: bool) {
    let status = match serving {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    };
    for name in HEALTH_NAMES.iter().filter(|name| **name != "liveness") {
        health.set_service_status(*name, status).await;
    }
    health.set_service_status("", status).await;
}

/// How the audit is kept, and who signs it.
fn audit_options(config: &Config) -> Result<AuditOptions, String> {
    let signer = Signer::open(&config.data_dir.join(AUDIT_KEY_FILE));
    let signer = signer.map_err(|error| format!("the audit's key: {error}"))?;
    let set = &config.audit;
    let file = Some(set.checkpoint_file.clone()).filter(|file| !file.as_os_str().is_empty());
    if let Some(file) = &file {
        let problem = |error| format!("`audit.checkpoint_file`: `{}`: {error}", file.display());
        open_outside(file).map_err(problem)?;
    }
    Ok(AuditOptions {
        enabled: set.enabled,
        segment_bytes_max: set.segment_bytes_max,
        segment_records_max: set.segment_records_max,
        checkpoint_records: set.checkpoint_records,
        checkpoint_interval: Duration::from_secs(set.checkpoint_secs),
        checkpoint_file: file,
        signer: Some(Arc::new(signer)),
    })
}

/// Warns if the last process signed with another key: what that one signed may not be told any more.
async fn tell_key_change(store: &SharedStore, signer: &Signer) -> Result<(), String> {
    let last = store.read_checkpoints(u64::MAX, 1).await;
    let last = last.map_err(|error| error.to_string())?;
    let last = last.map_err(|error| error.to_string())?.pop();
    if let Some(former) = last.filter(|last| last.public_key != signer.public_key()) {
        let key = Checkpoint::key_id_of(&signer.public_key());
        let made = match signer.is_new() {
            true => "a new audit key was made",
            false => "the audit key is another one",
        };
        tracing::warn!(
            key,
            former = former.key_id(),
            signed_to = former.head.sequence,
            "{made} while the store holds checkpoints of a former key: they hold only with its public half \
             in `audit.trusted_keys`"
        );
    }
    Ok(())
}

fn open_store(dir: &Path, audit: AuditOptions) -> Result<(SharedStore, Restored), String> {
    let path = dir.join(STORE_FILE);
    let options = SqliteOptions {
        audit,
        ..SqliteOptions::default()
    };
    let (store, restored) = SqliteStore::open(&path, options)
        .map_err(|error| format!("{error}: `{}`", path.display()))?;
    Ok((Arc::new(store), restored))
}

/// The hooks that the configuration declares or requires, and those that the store has.
pub(super) fn desk(
    config: &Config,
    mint: &Arc<Mint>,
    tasks: &Tasks,
    store: &SharedStore,
    restored: Vec<RestoredHook>,
) -> Result<Arc<Desk>, String> {
    let aliases = &config.permissions.aliases;
    let built_in = config.hooks.built_in(aliases);
    let required = config.hooks.required();
    Ok(Desk::new(DeskParts {
        built_in: built_in.map_err(|error| error.to_string())?,
        required: required.map_err(|error| error.to_string())?,
        restored,
        keeper: HookKeeper::new(store.clone()),
        aliases: aliases.clone(),
        mint: mint.clone(),
        tasks: tasks.clone(),
    }))
}

fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    // Who owns what this process makes: no system call of our own is needed.
    std::fs::metadata("/proc/self").map_or(0, |entry| entry.uid())
}

fn restore_directory(
    config: &Config,
    rules: &ToolRules,
    restored: &Restored,
    clock: Clock,
    store: &SharedStore,
) -> Directory {
    let mut registry = Registry::default();
    for known in &restored.tools {
        let name = known.definition.name.clone();
        match tool::check_definition(known.definition.clone(), rules, &config.limits) {
            Ok(checked) => registry.insert(Arc::new(Tool {
                owner: OwnerName::trusted(known.owner.as_str()),
                generation: known.generation,
                changed_fields: Vec::new(),
                registered_at: known.registered_at,
                digest: checked.digest,
                schema: checked.schema,
                risk: checked.risk,
                timeout_ms: checked.timeout_ms,
                warnings: checked.warnings,
                definition: checked.definition,
            })),
            Err(error) => tracing::warn!(tool = %name, %error, "stored tool is not taken any more"),
        }
    }
    for toolset in &restored.toolsets {
        if let Err(error) = registry.toolsets.put(toolset.clone(), None) {
            tracing::warn!(toolset = toolset.name, %error, "stored toolset is not taken any more");
        }
    }
    let journal = Arc::new(StoreJournal {
        store: store.clone(),
    });
    Directory::new(
        registry,
        rules.clone(),
        config.limits.clone(),
        clock,
        journal,
    )
}

async fn take_up(
    engine: &Arc<Engine>,
    store: &SharedStore,
    restored: Restored,
) -> Result<usize, String> {
    let any = TurnFilter {
        limit: 1,
        ..TurnFilter::default()
    };
    let listed = store
        .list_turns(any)
        .await
        .map_err(|error| error.to_string())?;
    if restored.has_sessions {
        engine.know_sessions();
    }
    let has_history = listed.is_ok_and(|page| !page.turns.is_empty());
    engine
        .recover(restored.open_turns, has_history)
        .await
        .map_err(|error| error.to_string())
}

fn settings(config: &Config, audit_keys: Vec<[u8; 32]>) -> Settings {
    const HOUR_MS: u64 = 3_600_000;
    let attach_ms = u64::from(config.retention.attach_hours) * HOUR_MS;
    Settings {
        limits: config.limits.clone(),
        turn: config.turn_settings(),
        mint_call_ids: config.turn.mint_call_ids,
        early_cancel_ms: config.turn.early_cancel_ms,
        heartbeat_ms: config.turn.heartbeat_ms,
        snapshot_keep_ms: attach_ms,
        attach_ms,
        turns_keep_ms: u64::from(config.retention.turns_days) * 24 * HOUR_MS,
        audit_keys,
        audit_keep_ms: u64::from(config.retention.audit_days) * 24 * HOUR_MS,
        cancel_grace_ms: config.turn.cancel_grace_ms,
        batch_policy: config.approvals.batch_policy,
        approvers: config.approvals.approvers,
        approval_ttl_ms: config.approvals.ttl_ms,
        diagnosis: None,
    }
}

/// The model that is asked whether a run is in a loop, with its key.
fn diagnosis_endpoint(
    config: &DiagnosisConfig,
    environment: &dyn Environment,
) -> Result<Option<DiagnosisEndpoint>, String> {
    if config.endpoint.is_empty() {
        return Ok(None);
    }
    let from_env = match config.api_key_env.as_str() {
        "" => None,
        name => {
            let key = environment.get(name);
            Some(key.ok_or_else(|| format!("`loop.diagnosis.api_key_env`: `{name}` is not set"))?)
        }
    };
    let file = &config.api_key_file;
    let from_file = match file.as_os_str().is_empty() {
        true => None,
        false => {
            let key = std::fs::read_to_string(file)
                .map_err(|error| format!("`{}`: {error}", file.display()))?;
            Some(key)
        }
    };
    let key = from_env.or(from_file);
    Ok(Some(DiagnosisEndpoint {
        address: config.address().map_err(|error| error.to_string())?,
        model: config.model.clone(),
        api_key: key.map(|key| key.trim().into()),
    }))
}

fn stream_settings(config: &Config) -> StreamSettings {
    let stream = &config.stream;
    StreamSettings {
        ping_interval_ms: stream.ping_interval_ms,
        ping_misses: stream.ping_misses,
        hello_timeout_ms: stream.hello_timeout_ms,
        accept_timeout_ms: stream.accept_timeout_ms,
        resume_window_ms: stream.resume_window_ms,
        send_stall_ms: stream.send_stall_ms,
        drain_ms: config.server.drain_ms,
    }
}

async fn listen(config: &Config, served: &Arc<Served>) -> Result<Vec<String>, String> {
    let mut places = Vec::new();
    let mut listeners = Vec::new();
    if config.server.unix {
        private_dir(&config.socket_dir)
            .map_err(|error| format!("`{}`: {error}", config.socket_dir.display()))?;
        let (local, control) = socket_paths(&config.socket_dir);
        for (path, wrap) in [
            (local, Listener::Local as fn(_) -> _),
            (control, Listener::Control as fn(_) -> _),
        ] {
            let listener = listen_unix(&path)
                .await
                .map_err(|error| error.to_string())?;
            listeners.push(wrap(listener));
            places.push(format!("unix://{}", path.display()));
        }
    }
    if !config.server.tcp.is_empty() {
        let (listener, address) = listen_tcp(&config.server.tcp)
            .await
            .map_err(|error| error.to_string())?;
        listeners.push(listener);
        places.push(format!("http://{address}"));
    }
    for listener in listeners {
        served.serve(listener);
    }
    Ok(places)
}
