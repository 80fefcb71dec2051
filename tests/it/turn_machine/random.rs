//! Random turns: whatever happens in whatever order, what must hold holds.
//!
//! Never asserts what one input does; that is in the modules beside.

use callgate::gate::approval::{BatchPolicy, Choice};
use callgate::gate::permission::Mode;
use callgate::gate::turn::{Input, Proof, RejectReason};
use proptest::prelude::*;

use super::world::{IDS, TOOLS, World, lay};

/// One thing that the world does.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// Executors have room for these calls; the store may refuse the record.
    Claimed {
        calls: Vec<u8>,
        recorded: bool,
    },
    /// An executor speaks of a call: in the attempt that is out, or so far beside it.
    Executor {
        call: u8,
        beside: u8,
        word: Word,
    },
    CancelCall {
        call: u8,
        grace_ms: u32,
    },
    CancelTurn {
        run: bool,
        grace_ms: u32,
    },
    Later {
        span_ms: u16,
    },
    ChangeTool {
        tool: u8,
        told: bool,
    },
    /// An approver decides; without having seen it, with a digest of something else.
    Decide {
        call: u8,
        choice: Choice,
        seen: bool,
    },
    /// The session's mode changes, and the turn learns of it or not yet.
    Mode {
        mode: Mode,
        told: bool,
    },
    /// Something else ends the run.
    EndRun,
    /// The process dies; of what need not be durable this much stands.
    Crash {
        kept: u8,
    },
}

/// What an executor says.
#[derive(Debug, Clone)]
pub(super) enum Word {
    Accepted,
    Queued,
    Resumed,
    Progressed,
    Result { is_error: bool, stop_flag: bool },
    Cancelled { not_executed: bool, executed: bool },
    Empty,
    Rejected(RejectReason),
    Lost(Proof),
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        Just(Word::Accepted),
        Just(Word::Queued),
        Just(Word::Resumed),
        Just(Word::Progressed),
        (any::<bool>(), any::<bool>()).prop_map(|(is_error, stop_flag)| Word::Result {
            is_error,
            stop_flag
        }),
        (any::<bool>(), any::<bool>()).prop_map(|(not_executed, executed)| Word::Cancelled {
            not_executed,
            executed
        }),
        Just(Word::Empty),
        prop_oneof![
            Just(RejectReason::Busy),
            Just(RejectReason::UnknownTool),
            Just(RejectReason::BadArguments),
            Just(RejectReason::TooLarge),
        ]
        .prop_map(Word::Rejected),
        prop_oneof![Just(Proof::NeverStarted), Just(Proof::None)].prop_map(Word::Lost),
    ]
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        6 => Just(Choice::Once),
        1 => Just(Choice::Session),
        2 => Just(Choice::Deny),
        1 => Just(Choice::Edit),
        1 => Just(Choice::Respond),
        1 => Just(Choice::CancelTurn),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let grace = || prop_oneof![Just(0_u32), Just(40)];
    prop_oneof![
        6 => (prop::collection::vec(0_u8..5, 1..5), prop::bool::weighted(0.9))
            .prop_map(|(calls, recorded)| Op::Claimed { calls, recorded }),
        12 => (0_u8..5, prop_oneof![9 => Just(0_u8), 1 => 1_u8..4], word())
            .prop_map(|(call, beside, word)| Op::Executor { call, beside, word }),
        1 => (0_u8..5, grace()).prop_map(|(call, grace_ms)| Op::CancelCall { call, grace_ms }),
        1 => (any::<bool>(), grace()).prop_map(|(run, grace_ms)| Op::CancelTurn { run, grace_ms }),
        3 => (1_u16..2_000).prop_map(|span_ms| Op::Later { span_ms }),
        1 => (0_u8..5, any::<bool>()).prop_map(|(tool, told)| Op::ChangeTool { tool, told }),
        5 => (0_u8..5, choice(), prop::bool::weighted(0.9))
            .prop_map(|(call, choice, seen)| Op::Decide { call, choice, seen }),
        1 => (prop::sample::select(Mode::ALL.to_vec()), any::<bool>())
            .prop_map(|(mode, told)| Op::Mode { mode, told }),
        1 => Just(Op::EndRun),
        1 => any::<u8>().prop_map(|kept| Op::Crash { kept }),
    ]
}

/// A turn's calls by tool and whether the arguments fit, and its bounds.
pub(super) type Shape = (Vec<(usize, bool)>, Option<u32>, Option<u32>);

fn shape() -> impl Strategy<Value = Shape> {
    let call = (0..TOOLS.len(), prop::bool::weighted(0.9));
    let calls = prop::collection::vec(call, 0..IDS.len());
    (
        calls,
        prop::option::of(1_u32..4),
        prop::option::of(100_u32..20_000),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_call_ends_once_and_the_turn_last(
        shape in shape(),
        policy in prop::sample::select(vec![
            BatchPolicy::FreezeAtomic,
            BatchPolicy::FreezePartial,
            BatchPolicy::EagerSafe,
        ]),
        ttl_ms in prop::option::of(prop_oneof![Just(0_u64), 1..3_000_u64]),
        ops in prop::collection::vec(op(), 0..40),
    ) {
        let tools = shape.0.iter().map(|(tool, _)| TOOLS[*tool]).collect();
        let mut world = World::new(lay(&shape).batch_policy(policy), tools);
        if let Some(ttl_ms) = ttl_ms {
            world = world.with_approver(ttl_ms);
        }
        world.give(Input::Started);
        for op in &ops {
            world.apply(op);
        }
        world.run_out();
    }
}
