//! What is granted for the session lets the same call run in later turns, and nothing else.
//!
//! Never says which grants are offered for a command: that is the command analysis's business.

use callgate::gate::approval::{Choice, Deciding};
use callgate::gate::call::CallState;
use callgate::gate::permission::{Approver, CommandSubject, GrantCandidate, Grants};
use callgate::gate::tool::{Risk, ToolDefinition};
use callgate::gate::turn::Input;

use super::asking::{grants_of, says};
use super::drive::{Turn, paper};
use super::judging::runs_commands;
use super::tools::{self, definition};

/// A turn of one call, as far as its command is understood.
fn asking(arguments: &str, tool: &ToolDefinition, grants: &Grants) -> Turn {
    let mut turn = paper(&[("a", tool.name.as_str(), arguments)]).lay();
    turn.approver = Approver::Expected;
    turn.grants = grants.clone();
    turn.register(tool.clone());
    turn.start();
    turn
}

fn running(command: &str, grants: &Grants) -> Turn {
    let arguments = serde_json::json!({ "command": command }).to_string();
    let mut turn = asking(&arguments, &runs_commands(), grants);
    let call = turn.index("a");
    let command = Box::new(CommandSubject::read(command));
    turn.give(Input::CommandAnalysed { call, command });
    turn
}

/// What the session has once that was granted.
fn granted(turn: &mut Turn, candidates: &[&GrantCandidate]) -> Grants {
    let deciding = Deciding {
        candidates: candidates.iter().map(|one| one.id.clone()).collect(),
        ..says(turn, "a", Choice::Session)
    };
    Grants::restore(grants_of(turn, "a", deciding))
}

/// The first or the last candidate of each part.
fn one_for_each_part(offered: &[GrantCandidate], last: bool) -> Vec<&GrantCandidate> {
    let mut picked: Vec<&GrantCandidate> = Vec::new();
    for candidate in offered {
        let part = |one: &GrantCandidate| one.segment.as_ref().map(|(at, _)| *at);
        match picked.last().copied().map(part) {
            Some(known) if known == part(candidate) => {
                if last {
                    picked.pop();
                    picked.push(candidate);
                }
            }
            _ => picked.push(candidate),
        }
    }
    picked
}

#[test]
fn what_was_granted_for_a_command_lets_the_same_command_run() {
    let commands = [
        "psql",
        "psql -c 'select 1'",
        "ls -la /a/b",
        "git commit -m \"two words\"",
        "timeout 5 psql -c 'a b'",
        "cargo test && cargo fmt --check",
        "grep -E 'a|b' f | wc -l",
        "echo 'a;b' \"c && d\"",
        "printf '%s\\n' x",
        "./gradlew build",
        "NAME=x ls",
        "ls *.rs",
        "docker ps",
        "rm -rf build",
        "for f in a b; do echo $f; done",
    ];
    let mut with_offers = 0;
    for command in commands {
        let mut turn = running(command, &Grants::default());
        assert_eq!(turn.state("a"), CallState::AwaitingApproval, "{command}");
        let offered = turn.approval("a").candidates.clone();
        with_offers += usize::from(!offered.is_empty());
        for last in [false, true] {
            let picked = one_for_each_part(&offered, last);
            if picked.is_empty() {
                continue;
            }
            let grants = granted(&mut turn, &picked);
            let again = running(command, &grants);
            assert_eq!(
                again.state("a"),
                CallState::Scheduled,
                "{command} {picked:?}"
            );
            let other = running("curl https://example.com", &grants);
            assert_eq!(other.state("a"), CallState::AwaitingApproval, "{command}");
            turn = running(command, &Grants::default());
        }
    }
    assert!(
        with_offers >= 10,
        "{with_offers} of the commands can be granted"
    );
}

#[test]
fn a_grant_is_for_the_tool_of_its_owner_as_it_was_and_says_so() {
    let send = ToolDefinition {
        risk: Some(Risk::Sensitive),
        ..definition("send")
    };
    let none = Grants::default();
    let mut turn = asking("{\"id\":1}", &send, &none);
    let offered = turn.approval("a").candidates.clone();
    assert_eq!(offered.len(), 1);
    assert_eq!(offered[0].rule, "send");
    let grants = granted(&mut turn, &[]);
    let state = |turn: &Turn| turn.state("a");
    let same = asking("{\"id\":2}", &send, &grants);
    assert_eq!(state(&same), CallState::Scheduled);
    let changed = ToolDefinition {
        description: "the tool send, of another kind".to_owned(),
        ..send.clone()
    };
    let changed = asking("{\"id\":1}", &changed, &grants);
    assert_eq!(state(&changed), CallState::AwaitingApproval);
    let other = ToolDefinition {
        risk: Some(Risk::Sensitive),
        ..definition("send_all")
    };
    let other = asking("{\"id\":1}", &other, &grants);
    assert_eq!(state(&other), CallState::AwaitingApproval);
    let mut foreign = paper(&[("a", "send", "{\"id\":1}")]).lay();
    foreign.approver = Approver::Expected;
    foreign.grants = grants;
    tools::register(&mut foreign.registry, "somebody else", vec![send]);
    foreign.start();
    assert_eq!(state(&foreign), CallState::AwaitingApproval);
}
