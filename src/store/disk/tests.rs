//! Every record survives the disk, and what version 1 wrote stays readable.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::gate::admission::{RequestedCall, Trace as GateTrace, TurnRequest, TurnRule};
use crate::gate::approval::BatchPolicy;
use crate::gate::call::ToolCall;
use crate::gate::event::{RunState, RunSummary, StopReason, TurnCompleted, TurnOutcome};
use crate::gate::hooks::{Body, Hook, HookPlace, KeptHook, Matcher, OnFailure};
use crate::gate::ids::{
    ApprovalId, BatchId, CallId, CallIndex, HookId, InstanceId, OwnerName, RunId, SessionId,
    ToolName, TurnId, UnixMillis,
};
use crate::gate::permission::{Extras, Mode, Verdict};
use crate::gate::provider::ProviderFormat;
use crate::gate::record::{DispatchIntent, Fresh, Record, TurnSpec};
use crate::gate::refusal::{CallError as GateError, ErrorLayer};
use crate::gate::result::{
    CallEffect, CallOutcome, CallResult as GateResult, CallTiming, Content as GateContent, Digest,
    Media, NotExecuted, Resource, ResourceBody, ResourceLink,
};
use crate::gate::schema::{Schema, SchemaDialect, SchemaOptions};
use crate::gate::snapshot::Seen;
use crate::gate::tool::{
    DeclaredSubject, Kind as ToolKind, Risk, SubjectKind, Tool as GateTool, ToolDefinition,
};
use crate::gate::toolset::Toolset as GateToolset;
use crate::store::fold::Fact;
use crate::store::frame;

/// Makes values out of bytes; with no bytes left, the plainest ones.
struct Source<'a> {
    bytes: &'a [u8],
    /// Draws what the frozen file does not have, too.
    newest: bool,
}

fn newest(bytes: &[u8]) -> Source<'_> {
    Source {
        bytes,
        newest: true,
    }
}

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        *byte
    }

    /// A field that came after the frozen file.
    fn later<T: Default>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> T {
        match self.newest {
            true => draw(self),
            false => T::default(),
        }
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Small, and now and then as large as can be.
    fn number(&mut self) -> u64 {
        match self.byte() {
            0 => 0,
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            byte => u64::from(byte) << (self.byte() % 56),
        }
    }

    fn number32(&mut self) -> u32 {
        self.number() as u32
    }

    fn text(&mut self) -> String {
        let length = self.byte() % 12;
        (0..length)
            .map(|_| char::from_u32(u32::from(self.byte()) * 7).unwrap_or('\u{1F600}'))
            .collect()
    }

    fn bytes(&mut self) -> Bytes {
        let length = match self.byte() {
            255 => 70_000,
            byte => usize::from(byte % 40),
        };
        (0..length).map(|_| self.byte()).collect()
    }

    fn option<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    fn list<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length = self.byte() % 4;
        (0..length).map(|_| make(self)).collect()
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    fn millis(&mut self) -> UnixMillis {
        UnixMillis(self.number())
    }

    fn spec(&mut self) -> Arc<TurnSpec> {
        Arc::new(TurnSpec {
            request: TurnRequest {
                session: SessionId::trusted(self.text()),
                turn: TurnId::trusted(self.text()),
                run: RunId::trusted(self.text()),
                calls: self.list(|source| RequestedCall {
                    call: ToolCall {
                        call_id: CallId::trusted(source.text()),
                        name: ToolName::trusted(source.text()),
                        arguments: source.bytes(),
                        truncated: source.flag(),
                    },
                    minted: source.flag(),
                    // Younger than the frozen bytes, whose noise must not shift: see its own test.
                    seen: None,
                }),
                format: self.option(|_| ProviderFormat::OpenAiChat),
                toolset: self.option(Self::text),
                snapshot: self.option(Self::text),
                max_parallel: self.option(Self::number32),
                batch_policy: self.later(|source| source.option(Self::policy)),
                command_rules: self.later(|source| source.list(Self::turn_rule)),
                timeout_ms: self.option(Self::number32),
                model_message: self.bytes(),
                trace: self.option(|source| GateTrace {
                    parent: source.text(),
                    state: source.text(),
                }),
            },
            batch: BatchId::trusted(self.text()),
            batch_policy: self.later(Self::policy),
            session_toolset: self.later(|source| source.option(Self::text)),
            session_max_parallel: self.later(|source| source.option(Self::number32)),
            round: self.number32(),
            run_started_at: self.millis(),
            accepted_at: self.millis(),
            principal: Arc::from(""),
        })
    }

    fn turn_rule(&mut self) -> TurnRule {
        TurnRule {
            list: self.pick(&[Verdict::Allow, Verdict::Ask, Verdict::Deny]),
            text: self.text(),
            extras: Extras {
                matches: self.list(Self::text),
                not_matches: self.list(Self::text),
                message: self.option(|source| Arc::from(source.text())),
                expires: self.option(Self::millis),
                modes: self
                    .list(|source| source.pick(&Mode::ALL))
                    .into_iter()
                    .collect(),
            },
        }
    }

    fn policy(&mut self) -> BatchPolicy {
        self.pick(&[
            BatchPolicy::FreezeAtomic,
            BatchPolicy::FreezePartial,
            BatchPolicy::EagerSafe,
        ])
    }

    fn intent(&mut self) -> DispatchIntent {
        DispatchIntent {
            call: CallIndex(self.number() as u16),
            attempt: self.number32(),
            instance: InstanceId::trusted(self.text()),
        }
    }

    fn error(&mut self) -> GateError {
        GateError {
            code: match self.flag() {
                true => Cow::Borrowed("tool_timeout"),
                false => Cow::Owned(self.text()),
            },
            layer: self.pick(&[
                ErrorLayer::Config,
                ErrorLayer::Decode,
                ErrorLayer::Tool,
                ErrorLayer::Permission,
                ErrorLayer::Cancelled,
                ErrorLayer::Runtime,
                ErrorLayer::Transport,
                ErrorLayer::Store,
            ]),
            message_for_model: self.text(),
            detail: self.text(),
            path: self.text(),
            retryable: self.flag(),
            retry_after_ms: self.option(Self::number32),
        }
    }

    fn content(&mut self) -> GateContent {
        let media = |source: &mut Self| Media {
            data: source.bytes(),
            mime_type: source.text(),
        };
        match self.byte() % 6 {
            0 => GateContent::Text(self.text()),
            1 => GateContent::Json(self.bytes()),
            2 => GateContent::Image(media(self)),
            3 => GateContent::Audio(media(self)),
            4 => GateContent::Resource(Resource {
                uri: self.text(),
                mime_type: self.text(),
                body: match self.flag() {
                    true => ResourceBody::Text(self.text()),
                    false => ResourceBody::Blob(self.bytes()),
                },
            }),
            _ => GateContent::ResourceLink(ResourceLink {
                uri: self.text(),
                name: self.text(),
                title: self.text(),
                description: self.text(),
                mime_type: self.text(),
                size_bytes: self.option(Self::number),
            }),
        }
    }

    fn result(&mut self) -> Arc<GateResult> {
        Arc::new(GateResult {
            call_id: CallId::trusted(self.text()),
            tool: ToolName::trusted(self.text()),
            outcome: self.pick(&[
                CallOutcome::Success,
                CallOutcome::Error,
                CallOutcome::Cancelled,
            ]),
            stop_flag: self.flag(),
            error: self.option(Self::error),
            contents: self.list(Self::content),
            structured: self.bytes(),
            metadata: self.bytes(),
            not_executed: self.option(|source| {
                let first = [
                    NotExecuted::ApprovalUnavailable,
                    NotExecuted::InvalidCall,
                    NotExecuted::NotFound,
                    NotExecuted::CancelledBeforeStart,
                    NotExecuted::ToolUnavailable,
                ];
                let later = [
                    NotExecuted::DeniedByRule,
                    NotExecuted::DeniedByMode,
                    NotExecuted::DeniedByUser,
                    NotExecuted::ApprovalExpired,
                    NotExecuted::BatchRejected,
                    NotExecuted::AnsweredByApprover,
                    NotExecuted::DeniedByTool,
                    NotExecuted::Loop,
                ];
                match source.newest && source.flag() {
                    true => source.pick(&later),
                    false => source.pick(&first),
                }
            }),
            effect: self.pick(&[
                CallEffect::NotExecuted,
                CallEffect::Executed,
                CallEffect::Unknown,
            ]),
            cut_from_bytes: self.option(Self::number),
            sanitised: self.flag(),
            attempts: self.number32(),
            timing: CallTiming {
                received_at: self.millis(),
                started_at: self.option(Self::millis),
                finished_at: self.millis(),
                queue_ms: self.number(),
                approval_ms: self.later(Self::number),
            },
            approval: self
                .later(|source| source.option(|source| ApprovalId::trusted(source.text()))),
            arguments_digest: self.option(|source| Digest::of(&source.bytes())),
            // Read back in a test of its own.
            hooks: None,
        })
    }

    fn run(&mut self, session: &SessionId, run: &RunId) -> RunSummary {
        RunSummary {
            session: session.clone(),
            run: run.clone(),
            state: self.pick(&[
                RunState::Active,
                RunState::Completed,
                RunState::Cancelled,
                RunState::Error,
            ]),
            rounds: self.number32(),
            end_code: self.text(),
            end_reason: self.text(),
            started_at: self.millis(),
            ended_at: self.option(Self::millis),
        }
    }

    fn completed(&mut self, turn: &TurnSpec) -> Arc<TurnCompleted> {
        Arc::new(TurnCompleted {
            outcome: self.pick(&[
                TurnOutcome::Completed,
                TurnOutcome::Cancelled,
                TurnOutcome::Error,
            ]),
            results: self.list(Self::result),
            stop: self.option(|source| source.pick(&[StopReason::Tool, StopReason::RunEnded])),
            run: self.run(turn.session(), turn.run()),
            error: self.option(Self::error),
        })
    }

    fn tool(&mut self) -> Arc<GateTool> {
        let dialect = self.pick(&[SchemaDialect::Core, SchemaDialect::JsonSchema202012]);
        let schema = Bytes::from_static(b"{\"type\":\"object\"}");
        let compiled = Schema::compile(&schema, dialect, &SchemaOptions::default()).unwrap();
        Arc::new(GateTool {
            definition: ToolDefinition {
                name: ToolName::trusted(self.text()),
                description: self.text(),
                parameters: self.bytes(),
                dialect,
                risk: self
                    .option(|source| source.pick(&[Risk::Safe, Risk::Sensitive, Risk::Dangerous])),
                kind: self.pick(&[
                    ToolKind::Read,
                    ToolKind::Fetch,
                    ToolKind::Edit,
                    ToolKind::Delete,
                    ToolKind::Execute,
                    ToolKind::Interact,
                    ToolKind::Other,
                ]),
                subject: self.later(|source| {
                    source.option(|source| DeclaredSubject {
                        pointer: source.text(),
                        kind: source.option(|source| {
                            source.pick(&[
                                SubjectKind::Command,
                                SubjectKind::Path,
                                SubjectKind::Url,
                                SubjectKind::Text,
                            ])
                        }),
                        dialect: source.text(),
                    })
                }),
                skip_permission: self.later(Self::flag),
                loop_exempt: self.later(Self::flag),
                loop_key: self.later(|source| source.list(Self::text)),
                idempotent: self.flag(),
                exclusive: self.flag(),
                timeout_ms: self.option(Self::number32),
                max_concurrency: self.number32(),
                supports_cancellation: self.flag(),
                has_permission_check: self.later(Self::flag),
                secret_pointers: self.later(|source| source.list(Self::text)),
                services: self.list(Self::text),
                version: self.text(),
                annotations: self.bytes(),
            },
            owner: OwnerName::trusted(self.text()),
            digest: Digest::of(b""),
            schema: compiled.schema,
            risk: Risk::Safe,
            timeout_ms: 1,
            warnings: Vec::new(),
            generation: self.number32(),
            changed_fields: Vec::new(),
            registered_at: self.millis(),
        })
    }

    fn hook(&mut self) -> Arc<KeptHook> {
        let hook = Hook {
            id: HookId::trusted(format!("h{}", self.text())),
            place: HookPlace::default(),
            points: Vec::new(),
            matcher: Matcher::default(),
            timeout_ms: self.number32(),
            on_failure: OnFailure::Deny,
            observes: false,
            withholds: false,
            description: self.text(),
            body: Body::Remote,
        };
        Arc::new(KeptHook {
            hook: Arc::new(hook),
            instance: self.text(),
            registration: Bytes::from(self.text()),
        })
    }

    fn record(&mut self, kind: u8) -> Record {
        let turn = self.spec();
        match kind % 11 {
            0 => Record::TurnAccepted(turn),
            1 => Record::CallsDispatched {
                turn,
                calls: self.list(Self::intent),
                decided: Vec::new(),
            },
            2 => Record::CallsEnded {
                turn,
                results: self.list(|source| (CallIndex(source.number() as u16), source.result())),
                decided: Vec::new(),
            },
            3 => Record::TurnCancelling {
                run: self.run(turn.session(), turn.run()),
                turn,
                reason: self.text(),
            },
            4 => Record::TurnEnded {
                completed: self.completed(&turn),
                turn,
                fresh: Fresh::default(),
            },
            5 => Record::TurnRecovered {
                turn,
                epoch: self.number32(),
            },
            6 => Record::RunEnded(self.run(turn.session(), turn.run())),
            7 => Record::ToolRegistered(self.tool()),
            8 => Record::ToolRemoved(ToolName::trusted(self.text())),
            9 => Record::ToolsetPut(Arc::new(GateToolset {
                name: self.text(),
                base: self.text(),
                include: self.list(Self::text),
                exclude: self.list(Self::text),
                version: self.number(),
            })),
            _ => Record::ToolsetDeleted(self.text()),
        }
    }
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(record, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn every_record_comes_back_as_it_was(
        kind in 0_u8..11,
        bytes in proptest::collection::vec(any::<u8>(), 0..1500),
    ) {
        let record = newest(&bytes).record(kind);
        let encoded = encoded(&record);
        prop_assert_eq!(decode(&encoded).ok(), Fact::of(&record));
    }

    #[test]
    fn the_head_says_what_the_body_says(
        kind in 0_u8..11,
        bytes in proptest::collection::vec(any::<u8>(), 0..1500),
    ) {
        let record = newest(&bytes).record(kind);
        let encoded = encoded(&record);
        let head = frame::Head::read(&encoded).unwrap();
        let fact = Fact::of(&record).unwrap();
        let run = head.run_state.map(|run| {
            let text = |name| frame::text(name).unwrap();
            run_summary(run, text(head.session), text(head.run)).unwrap()
        });
        prop_assert_eq!(&run, &fact.run());
        let progress = run.map(|run| (run.state == RunState::Active, run.rounds));
        prop_assert_eq!(head.run_state.and_then(frame::run_progress), progress);
        if let Fact::Turn { key, at, .. } = fact {
            prop_assert_eq!(frame::text(head.session), Some(key.session.as_str()));
            prop_assert_eq!(frame::text(head.turn), Some(key.turn.as_str()));
            prop_assert_eq!(head.at, at.0);
        }
    }

    #[test]
    fn broken_bytes_are_refused_and_harm_nothing(
        kind in 0_u8..11,
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        at in any::<prop::sample::Index>(),
        by in 1_u8..,
    ) {
        let mut encoded = encoded(&newest(&bytes).record(kind));
        let at = at.index(encoded.len());
        encoded[at] ^= by;
        let _ = decode(&encoded);
        let _ = frame::Head::read(&encoded);
        let _ = decode(&encoded[..at]);
    }

    #[test]
    fn hooks_come_back_as_they_were(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let kept = newest(&bytes).hook();
        let record = Record::HookRegistered(kept.clone());
        prop_assert_eq!(decode(&encoded(&record)).ok(), Fact::of(&record));
        let hook = as_restored_hook(&kept);
        prop_assert_eq!(restored_hook(&hook_bytes(&hook)), Ok(hook));
    }

    #[test]
    fn tools_and_toolsets_come_back_as_they_were(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut source = newest(&bytes);
        let tool = as_restored(&source.tool());
        prop_assert_eq!(restored_tool(&tool_bytes(&tool)), Ok(tool));
        if let Record::ToolsetPut(toolset) = source.record(9) {
            prop_assert_eq!(restored_toolset(&toolset_bytes(&toolset)), Ok((*toolset).clone()));
        }
    }
}

#[test]
fn what_a_name_stood_for_comes_back_as_it_was() {
    let noise = noise();
    let mut spec = (*newest(&noise).spec()).clone();
    let call = ToolCall {
        call_id: CallId::trusted("c"),
        name: ToolName::trusted("fs_write"),
        arguments: Bytes::new(),
        truncated: false,
    };
    let seen = Seen {
        tool: ToolName::trusted("fs.write"),
        digest: Digest::of(b"definition"),
    };
    spec.request.calls.push(RequestedCall {
        call,
        minted: false,
        seen: Some(seen),
    });
    let record = Record::TurnAccepted(Arc::new(spec));
    assert_eq!(decode(&encoded(&record)).ok(), Fact::of(&record));
}

/// Bytes that stand for no particular value, the same on every machine.
fn noise() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    // No length of 70 000 bytes in a file of the repository.
    next.map(|byte| byte.min(253)).take(40_000).collect()
}

#[test]
fn what_version_1_wrote_stays_readable() {
    let noise = noise();
    let mut source = Source {
        bytes: &noise,
        newest: false,
    };
    let records: Vec<Record> = (0..44).map(|kind| source.record(kind)).collect();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/vectors/store/records-v1.bin"
    );
    let frozen = std::fs::read(path).unwrap();
    let facts: Vec<_> = frame::frames(&frozen)
        .map(|frame| decode(frame.unwrap()))
        .collect();
    let expected: Vec<_> = records
        .iter()
        .map(|record| Ok(Fact::of(record).unwrap()))
        .collect();
    assert_eq!(facts, expected);
}
