//! What deciding costs, in this process: rules by number, commands, and the signatures of calls.
//!
//! No sidecar and no wire: only the gate's own code.

use std::hint::black_box;
use std::sync::Arc;

use callgate::gate::ids::{OwnerName, ToolName, UnixMillis};
use callgate::gate::json::{Document, JsonLimits};
use callgate::gate::loop_detector::Signature;
use callgate::gate::permission::{
    Aliases, Answer, Approver, Call, Check, CommandSubject, GrantedTool, Grants, Hook, LoadOptions,
    Mode, ModeBounds, Place, Policy, RuleEntry, Settings, Situation, Source, SourceRules,
    SourceText, Subject, Trust, Verdict, decide_call,
};
use callgate::gate::result::Digest;
use callgate::gate::tool::{Kind, Risk};
use serde::Serialize;

use super::table::{Bound, Unit};
use super::{Rows, stats::Spread};
use crate::clock::now;
use crate::payload::{Payload, TOOL};
use crate::problem::{Problem, io};

/// The few rules and the many.
const FEW: usize = 10;
const MANY: usize = 10_000;
/// A command of 100 bytes that both parsers read.
const COMMAND: &str = "git log --oneline --since=yesterday | grep -v 'merge' | head -n 20 && \
                       cargo build --release --locked";

/// Spans of one decision, in microseconds, pair by pair.
#[derive(Debug, Serialize)]
pub(super) struct Decisions {
    few_us: Vec<f64>,
    many_us: Vec<f64>,
    command_us: Vec<f64>,
    signature_us: Vec<f64>,
}

/// Size of the arguments that are signed, in bytes.
const SIGNED_BYTES: usize = 1_024;

/// Bytes of the stack on which commands are read, as in the sidecar.
const STACK_BYTES: usize = 16 << 20;

/// Measures `pairs` times about `ms` milliseconds each, on a thread with room for the parsers.
pub(super) fn measure(pairs: usize, ms: u64) -> Result<Decisions, Problem> {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let thread = thread.spawn(move || measure_here(pairs, ms));
    let thread = thread.map_err(io("no thread"))?;
    thread
        .join()
        .map_err(|_| Problem::Unexpected("deciding panicked".to_owned()))?
}

fn measure_here(pairs: usize, ms: u64) -> Result<Decisions, Problem> {
    let (few, many) = (policy(FEW)?, policy(MANY)?);
    let text = Subject::Text("nothing that a rule means".to_owned());
    let mut found = Decisions {
        few_us: Vec::new(),
        many_us: Vec::new(),
        command_us: Vec::new(),
        signature_us: Vec::new(),
    };
    let mut payload = Payload::new(SIGNED_BYTES, 7);
    for _ in 0..pairs {
        found
            .few_us
            .push(span_us(ms, || drop(black_box(decide(&few, &text)))));
        found
            .many_us
            .push(span_us(ms, || drop(black_box(decide(&many, &text)))));
        let command = || {
            let subject = Subject::Command(CommandSubject::read(black_box(COMMAND)));
            drop(black_box(decide(&many, &subject)));
        };
        found.command_us.push(span_us(ms, command));
        let signature = || {
            let text = payload.next();
            let document = Document::parse_object(&text, &JsonLimits::default());
            let signature = document.map(|one| Signature::of_call(TOOL, None, &one, None));
            black_box(signature).ok();
        };
        found.signature_us.push(span_us(ms, signature));
    }
    Ok(found)
}

impl Decisions {
    pub(super) fn add_rows(&self, rows: &mut Rows) {
        let ratios = self
            .many_us
            .iter()
            .zip(&self.few_us)
            .map(|(many, few)| many / few);
        let show = |spans: &[f64]| {
            let spread = Spread::of(spans.iter().copied());
            spread.map_or_else(String::new, |spread| Unit::Micros.show(spread.median))
        };
        rows.add(
            "",
            "a decision with 10 000 rules over 10",
            (show(&self.few_us), show(&self.many_us)),
            (Spread::of(ratios), Unit::Times),
            Bound::AtMost(2.0),
            None,
        );
        for (what, spans, bound) in [
            ("a decision by rules and mode", &self.few_us, 2.0),
            (
                "a decision about a command of 100 bytes",
                &self.command_us,
                200.0,
            ),
            (
                "reading and signing arguments of 1 KiB for the loop window",
                &self.signature_us,
                10.0,
            ),
        ] {
            let value = Spread::of(spans.iter().copied());
            let sides = (String::new(), show(spans));
            rows.add(
                "",
                what,
                sides,
                (value, Unit::Micros),
                Bound::AtMost(bound),
                None,
            );
        }
    }
}

fn span_us(ms: u64, mut work: impl FnMut()) -> f64 {
    const AT_ONCE: u32 = 64;
    let started = now();
    let mut done = 0_u32;
    while started.elapsed().as_millis() < u128::from(ms) {
        (0..AT_ONCE).for_each(|_| work());
        done += AT_ONCE;
    }
    started.elapsed().as_secs_f64() * 1_000_000.0 / f64::from(done)
}

/// `count` rules of each kind that mean other calls than the one decided.
fn policy(count: usize) -> Result<Policy, Problem> {
    let lists = [Verdict::Deny, Verdict::Ask, Verdict::Allow];
    let entries = (0..count)
        .zip(lists.into_iter().cycle())
        .map(|(number, list)| {
            let rule = match number % 2 {
                0 => format!("run(tool{number} *)"),
                _ => format!("tool_{number}"),
            };
            (list, RuleEntry::of_text(rule))
        });
    let text = SourceText {
        source: Source::User,
        file: None,
        root: None,
        rules: SourceRules {
            entries: entries.collect(),
            max_mode: None,
        },
    };
    let options = LoadOptions {
        aliases: &Aliases::default(),
        trust: Trust::Trusted,
        subject_of: &|_| None,
        read_command: &CommandSubject::plain,
    };
    let loaded = Policy::load(vec![text], &options, 1);
    let loaded = loaded.map_err(|error| Problem::Unexpected(format!("{error:?}")))?;
    Ok(loaded.policy)
}

fn decide(policy: &Policy, subject: &Subject) -> Answer {
    let tool = GrantedTool {
        name: ToolName::trusted("run"),
        owner: OwnerName::trusted(Arc::from("bench")),
        digest: Digest([0; 32]),
    };
    let call = Call {
        tool: &tool,
        kind: Kind::Execute,
        risk: Risk::Sensitive,
        skip_permission: false,
        arguments: None,
        subject,
        place: &Place::default(),
    };
    let situation = Situation {
        now: UnixMillis(1),
        mode: ModeBounds::of(Mode::Default),
        policies: &[policy],
        grants: &Grants::default(),
        hook: Hook::default(),
        check: Check::default(),
        approver: Approver::Expected,
        settings: Settings::default(),
    };
    decide_call(&call, &situation)
}
