//! Records of turns and tools that tests write.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::admission::{RequestedCall, TurnRequest};
use callgate::gate::approval::BatchPolicy;
use callgate::gate::call::ToolCall;
use callgate::gate::event::{RunState, RunSummary, TurnCompleted, TurnOutcome};
use callgate::gate::ids::{
    BatchId, CallId, CallIndex, InstanceId, OwnerName, RunId, SessionId, ToolName, TurnId, TurnKey,
    UnixMillis,
};
use callgate::gate::limits::Limits;
use callgate::gate::record::{DispatchIntent, Fresh, Record, StoredTurn, TurnSpec};
use callgate::gate::registry::{Registration, Registry};
use callgate::gate::result::{CallEffect, CallOutcome, CallResult, CallTiming, Content};
use callgate::gate::schema::{SchemaDialect, SchemaOptions};
use callgate::gate::tool::{Kind, Risk, ToolDefinition, ToolRules};
use callgate::gate::toolset::Toolset;
use callgate::store::{Answer, Restored, SqliteOptions, SqliteStore, Store, StoreError};

/// A directory with a store in it.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("callgate.db")
    }

    pub(crate) fn open(&self) -> (SqliteStore, Restored) {
        SqliteStore::open(&self.path(), SqliteOptions::default()).unwrap()
    }

    pub(crate) fn problem(&self) -> StoreError {
        SqliteStore::open(&self.path(), SqliteOptions::default()).unwrap_err()
    }
}

/// Waits for an answer that must be good.
pub(crate) fn good<T: std::fmt::Debug>(answer: Answer<T>) -> T {
    answer.blocking_recv().unwrap().unwrap()
}

/// Has the store move everything out of its journal.
pub(crate) fn settle(store: &dyn Store) {
    assert_eq!(good(store.forget_turns(UnixMillis(0))), 0);
}

pub(crate) fn key(session: &str, turn: &str) -> TurnKey {
    TurnKey {
        session: SessionId::trusted(session),
        turn: TurnId::trusted(turn),
    }
}

pub(crate) fn read(store: &dyn Store, session: &str, turn: &str) -> Option<StoredTurn> {
    good(store.read_turn(key(session, turn)))
}

/// A turn with two calls in run `run`, accepted at `at`.
pub(crate) fn spec(session: &str, turn: &str, run: &str, at: u64) -> Arc<TurnSpec> {
    let call = |id: &str| RequestedCall {
        call: ToolCall {
            call_id: CallId::trusted(id),
            name: ToolName::trusted("read_file"),
            arguments: Bytes::from(format!("{{\"path\":\"{turn}\"}}")),
            truncated: false,
        },
        minted: false,
        seen: None,
    };
    Arc::new(TurnSpec {
        request: TurnRequest {
            session: SessionId::trusted(session),
            turn: TurnId::trusted(turn),
            run: RunId::trusted(run),
            calls: vec![call("one"), call("two")],
            format: None,
            toolset: None,
            snapshot: None,
            max_parallel: None,
            batch_policy: None,
            command_rules: Vec::new(),
            timeout_ms: Some(1_000),
            model_message: Bytes::from_static(b"message"),
            trace: None,
        },
        batch: BatchId::trusted(format!("batch-{turn}")),
        batch_policy: BatchPolicy::FreezeAtomic,
        session_toolset: None,
        session_max_parallel: None,
        round: 1,
        run_started_at: UnixMillis(at),
        accepted_at: UnixMillis(at),
        principal: Arc::from(""),
    })
}

pub(crate) fn result(call: &str, at: u64) -> Arc<CallResult> {
    Arc::new(CallResult {
        call_id: CallId::trusted(call),
        tool: ToolName::trusted("read_file"),
        outcome: CallOutcome::Success,
        stop_flag: false,
        error: None,
        contents: vec![Content::Text("text".to_owned())],
        structured: Bytes::new(),
        metadata: Bytes::new(),
        not_executed: None,
        effect: CallEffect::Executed,
        cut_from_bytes: None,
        sanitised: false,
        attempts: 1,
        timing: CallTiming {
            received_at: UnixMillis(at),
            started_at: None,
            finished_at: UnixMillis(at),
            queue_ms: 0,
            approval_ms: 0,
        },
        arguments_digest: None,
        hooks: None,
        approval: None,
    })
}

pub(crate) fn run(turn: &TurnSpec, state: RunState, at: u64) -> RunSummary {
    let ended = state != RunState::Active;
    RunSummary {
        session: turn.session().clone(),
        run: turn.run().clone(),
        state,
        rounds: turn.round,
        end_code: String::new(),
        end_reason: if ended {
            format!("at {at}")
        } else {
            String::new()
        },
        started_at: turn.run_started_at,
        ended_at: ended.then_some(UnixMillis(at)),
    }
}

pub(crate) fn accepted(turn: &Arc<TurnSpec>) -> Record {
    Record::TurnAccepted(turn.clone())
}

pub(crate) fn dispatched(turn: &Arc<TurnSpec>, call: u16, attempt: u32) -> Record {
    Record::CallsDispatched {
        turn: turn.clone(),
        calls: vec![DispatchIntent {
            call: CallIndex(call),
            attempt,
            instance: InstanceId::trusted("executor-1"),
        }],
        decided: Vec::new(),
    }
}

pub(crate) fn call_ended(turn: &Arc<TurnSpec>, call: u16, at: u64) -> Record {
    Record::CallsEnded {
        turn: turn.clone(),
        results: vec![(CallIndex(call), result("one", at))],
        decided: Vec::new(),
    }
}

pub(crate) fn cancelling(turn: &Arc<TurnSpec>, reason: &str, at: u64) -> Record {
    Record::TurnCancelling {
        turn: turn.clone(),
        reason: reason.to_owned(),
        run: run(turn, RunState::Cancelled, at),
    }
}

pub(crate) fn completed(turn: &TurnSpec, state: RunState, at: u64) -> Arc<TurnCompleted> {
    Arc::new(TurnCompleted {
        outcome: TurnOutcome::Completed,
        results: vec![result("one", at), result("two", at)],
        stop: None,
        run: run(turn, state, at),
        error: None,
    })
}

pub(crate) fn ended(turn: &Arc<TurnSpec>, at: u64) -> Record {
    ended_with(turn, RunState::Active, at)
}

pub(crate) fn ended_with(turn: &Arc<TurnSpec>, state: RunState, at: u64) -> Record {
    Record::TurnEnded {
        turn: turn.clone(),
        completed: completed(turn, state, at),
        fresh: Fresh {
            decided: Vec::new(),
            ended: vec![CallIndex(0), CallIndex(1)],
        },
    }
}

/// Records of `names` as they are registered one after the other, `description` in each.
pub(crate) fn tools(registry: &mut Registry, names: &[&str], description: &str) -> Vec<Record> {
    let definition = |name: &&str| ToolDefinition {
        name: ToolName::trusted(*name),
        description: description.to_owned(),
        parameters: Bytes::new(),
        dialect: SchemaDialect::Core,
        risk: Some(Risk::Safe),
        kind: Kind::Read,
        idempotent: true,
        exclusive: false,
        timeout_ms: None,
        max_concurrency: 0,
        supports_cancellation: true,
        has_permission_check: false,
        loop_exempt: false,
        loop_key: Vec::new(),
        secret_pointers: Vec::new(),
        services: vec![String::from("files")],
        version: String::from("1"),
        annotations: Bytes::new(),
        subject: None,
        skip_permission: false,
    };
    let rules = ToolRules {
        unspecified_risk: Risk::Sensitive,
        default_timeout_ms: 1_000,
        dialects: vec![SchemaDialect::Core],
        schema: SchemaOptions::default(),
    };
    let registered = registry.register(
        &OwnerName::trusted("executor"),
        names.iter().map(definition).collect(),
        UnixMillis(7),
        &rules,
        &Limits::default(),
        &|_| true,
    );
    registered
        .into_iter()
        .filter_map(|registration| match registration {
            Registration::Active { tool, .. } => Some(Record::ToolRegistered(tool)),
            Registration::Refused { .. } => None,
        })
        .collect()
}

pub(crate) fn toolset(name: &str, base: &str, version: u64) -> Record {
    Record::ToolsetPut(Arc::new(Toolset {
        name: name.to_owned(),
        base: base.to_owned(),
        include: vec![String::from("read_*"), String::new()],
        exclude: Vec::new(),
        version,
    }))
}
