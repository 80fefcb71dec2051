//! Generated commands: the analysis never ends the process, and a denied program stays visible.
//!
//! Runs on a thread as the engine has it. Never runs a command.

use std::panic::{AssertUnwindSafe, catch_unwind};

use callgate::gate::command::{Analysis, Opaque, analyse, limits};
use callgate::gate::permission::{CommandSubject, Grants, Mode, Subject};
use callgate::gate::tool::Kind;

use crate::permissions::build::{Written, decide, policy, situation};
use crate::support::shell_text::{Dice, around, broken, simple};

const STACK_BYTES: usize = 16 << 20;

fn on_analysis_thread(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(work).unwrap().join().unwrap();
}

/// As the engine does it: a crash of a parser is an answer too.
fn guarded(text: &str) -> Analysis {
    let found = catch_unwind(AssertUnwindSafe(|| analyse(text)));
    found.unwrap_or_else(|_| Analysis::raw_only(text, Opaque::ParserCrashed))
}

/// Whether a deny rule about these words stops the command.
fn stops(rule: &str, text: &str) -> bool {
    let policy = policy(&[Written::of("deny", rule)]);
    let command = CommandSubject::of(text, &guarded(text));
    let (policies, grants) = ([&policy], Grants::default());
    let situation = situation(Mode::Auto, &policies, &grants);
    let answer = decide(
        "Bash",
        Kind::Execute,
        &Subject::Command(command),
        &situation,
    );
    answer.verdict.as_str() == "deny"
}

/// A build without optimisation needs a millisecond for each.
const ROUNDS: usize = if cfg!(debug_assertions) {
    10_000
} else {
    100_000
};

#[test]
fn generated_commands_end_in_an_answer() {
    on_analysis_thread(|| {
        let mut dice = Dice(0x5eed_0001);
        for round in 0..ROUNDS {
            let depth = dice.roll(4);
            let leaf = simple(&mut dice);
            let mut text = around(&mut dice, depth, &leaf);
            if dice.roll(10) == 0 {
                text = format!("cat <<E\n{text}\n$({leaf})\nE\n{text}");
            }
            if dice.roll(2) == 0 {
                text = broken(&mut dice, &text);
            }
            let analysis = guarded(&text);
            let views = analysis.views().count();
            assert!(views <= limits::VIEWS_MAX + 1, "{round}: {text}");
            let understood = analysis.understood.is_ok();
            assert!(
                !understood || !analysis.segments.is_empty(),
                "{round}: {text}"
            );
            assert!(!understood || analysis.others.is_empty(), "{round}: {text}");
        }
    });
}

#[test]
fn a_denied_program_is_visible_in_generated_commands() {
    on_analysis_thread(|| {
        let mut dice = Dice(0x5eed_0002);
        let names = [
            "rm",
            "'rm'",
            "r\\m",
            "\"r\"m",
            "$'\\162m'",
            "/bin/rm",
            "sudo rm",
            "env A=b rm",
        ];
        let flags = [
            "-rf /x",
            "-fr /x",
            "-r -f '/x'",
            "--recursive --force /x",
            "/x -rf",
            "-v -f --one-file-system -r /x",
        ];
        for round in 0..5_000 {
            let leaf = format!("{} {}", dice.pick(&names), dice.pick(&flags));
            let depth = dice.roll(5);
            let text = around(&mut dice, depth, &leaf);
            assert!(stops("Bash(rm -rf /x)", &text), "{round}: {text}");
        }
    });
}

#[test]
fn nesting_bombs_end_in_an_answer() {
    on_analysis_thread(|| {
        let openers = [
            "(",
            "( ",
            "$(",
            "\"$(",
            "echo $(",
            "{ ",
            "`",
            "${a:-",
            "$((",
            "[[ ( ",
            "((",
            "if ",
            "while ",
            "case a in a) ",
            "<(",
            "a=(",
            "f() { ",
            "a[",
            "@(",
            "$(echo ')' ",
            "( : ')'\n",
            "\"$(: ')' ",
            "${a:-'}' ",
            "if : fi;then ",
            "{a,",
            "! ",
            "time ",
            "eval ",
            "sudo -Z ",
            "xargs -I ",
            "$[",
        ];
        for opener in openers {
            for levels in [1, 8, 31, 100, 150, 3_000] {
                let analysis = guarded(&format!("{}ls", opener.repeat(levels)));
                assert!(analysis.views().count() > 0, "{opener}");
            }
        }
    });
}
