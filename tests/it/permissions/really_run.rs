//! Whatever an allowed command really runs, a rule allows.
//!
//! Generated commands are decided; those that are allowed run in a sandbox, where programs are stand-ins,
//! and every program that ran is decided by its own arguments. Never runs anything outside the sandbox.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use callgate::gate::command::Opaque;
use callgate::gate::permission::{Answer, CommandSubject, Grants, Mode, Policy, Subject, Verdict};
use callgate::gate::tool::Kind;

use super::build::{Written, decide, policy, situation};
use crate::support::sandbox::Sandbox;
use crate::support::shell_text::{Dice, around, broken, simple};

/// Bytes of the stack on which commands are read, as in the sidecar.
const STACK_BYTES: usize = 16 << 20;
/// How many allowed commands run.
const RUNS: usize = 120;
/// How many are decided at most until so many were allowed.
const ROUNDS_MAX: usize = 40_000;

/// What a rule allows.
const ALLOWED: &[&str] = &[
    "ls",
    "cat",
    "wc",
    "make",
    "id",
    "pwd",
    "echo",
    "printf",
    "diff",
    "tr",
    "git status",
    "git log",
    "printenv",
    "test",
    "[",
    ":",
    "true",
    "false",
    "cd",
];
/// What no rule allows, and must not run.
const OTHERS: &[&str] = &["rm", "curl", "git push"];

/// Ways in which the name of a program that is not allowed is only data.
const DATA: &[&str] = &[
    "echo 'rm x'",
    "echo \"rm x; rm y\"",
    "echo a # rm x",
    "cat <<E\nrm x\nE\n",
    "cat <<'E'\nrm x\nE\n",
    "cat <<-E\n\trm x\n\tE\n",
    "cat <<E <<F\nrm x\nE\nrm y\nF\n",
    "case a in rm) ls;; esac",
    "case a in b|rm) ls;; (c) echo rm x;; esac",
    "for i in rm x; do ls; done",
    "echo $'a\\nrm x'",
    "ls \\\nrm x",
    "echo a\\;rm x",
    "if ls; then echo rm x; else ls; fi",
    "echo \"a\nrm x\n\"",
    "cat <<<'rm x'",
    "while ls; do echo rm x; break; done",
    "(ls; echo rm x)",
    "echo $'\\'; rm x'",
    "[ a = rm ] && ls",
    "case rm in *) ls;;& x) ls;& rm) ls ;; esac",
    "timeout 5 ls rm x",
    "xargs ls rm <<< a",
    "env A=rm ls",
    "find . -name rm",
    "nice ls rm",
    "git status rm",
    "! ls rm x",
    "echo $((rm + 1))",
    "test rm = rm",
    "bash -c 'ls rm'",
    "time ls rm x",
    "ls &\necho rm x",
];

struct Gate {
    policy: Policy,
    grants: Grants,
}

impl Gate {
    fn new() -> Self {
        let rules: Vec<Written> = ALLOWED
            .iter()
            .map(|allowed| Written::of("allow", &format!("sh({allowed}:*)")))
            .collect();
        Self {
            policy: policy(&rules),
            grants: Grants::default(),
        }
    }

    fn answer(&self, text: &str) -> Answer {
        let policies = [&self.policy];
        let situation = situation(Mode::Default, &policies, &self.grants);
        let read = catch_unwind(AssertUnwindSafe(|| CommandSubject::read(text)));
        let unread = |_| CommandSubject::unread(text, Opaque::ParserCrashed);
        let subject = Subject::Command(read.unwrap_or_else(unread));
        decide("sh", Kind::Execute, &subject, &situation)
    }

    fn allows(&self, text: &str) -> bool {
        self.answer(text).verdict == Verdict::Allow
    }
}

/// A command that often is allowed, and sometimes should not be.
fn command(dice: &mut Dice) -> String {
    let mut text = match dice.roll(3) {
        0 => simple(dice),
        _ => dice.pick(DATA).to_owned(),
    };
    if dice.roll(3) == 0 {
        let depth = dice.roll(3);
        text = around(dice, depth, &text);
    }
    if dice.roll(3) > 0 {
        text = broken(dice, &text);
    }
    text
}

fn hold() {
    let gate = Gate::new();
    let names = ALLOWED.iter().chain(OTHERS);
    let names: BTreeSet<&str> = names.filter_map(|name| name.split(' ').next()).collect();
    let sandbox = Sandbox::new(names);
    assert_eq!(sandbox.run("rm x"), ["rm x"], "a stand-in says that it ran");

    let mut dice = Dice(0x5eed_0003);
    let (mut runs, mut programs) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        let text = command(&mut dice);
        if runs == RUNS || text.contains('\0') || !gate.allows(&text) {
            continue;
        }
        runs += 1;
        for ran in sandbox.run(&text) {
            programs += 1;
            assert!(gate.allows(&ran), "`{ran}` ran, of {text:?}");
        }
    }
    assert_eq!(runs, RUNS, "too few commands were allowed");
    assert!(programs > RUNS / 4, "too few programs ran: {programs}");
}

#[test]
fn every_program_that_an_allowed_command_runs_is_allowed() {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(hold).unwrap().join().unwrap();
}
