//! Known bugs of others about shell commands, each with the rules and the right answer.
//!
//! Commands are read as the sidecar reads them. Never runs one.

use callgate::cli::explain::shown;
use callgate::gate::permission::{CommandSubject, Grants, Mode, Subject};
use callgate::gate::tool::Kind;
use serde::Deserialize;

use super::build::{Written, decide, policy, situation};
use super::vectors::{NoCounterpart, read};

/// Bytes of the stack on which commands are read, as in the sidecar.
const STACK_BYTES: usize = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    cases: Vec<Case>,
    no_counterpart: Vec<NoCounterpart>,
}

/// One command and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    ask: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    mode: Option<String>,
    command: String,
    decision: String,
    /// What the explanation names.
    decided_by: Decided,
}

/// What decided a command: the stage, the rule if one did, the part of the text that it met.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Decided {
    stage: String,
    rule: String,
    segment: String,
}

impl Case {
    /// Decides it. Some: what is wrong.
    fn check(&self) -> Option<String> {
        let lists = [
            ("allow", &self.allow),
            ("ask", &self.ask),
            ("deny", &self.deny),
        ];
        let rules: Vec<Written> = lists
            .into_iter()
            .flat_map(|(list, rules)| rules.iter().map(move |rule| Written::of(list, rule)))
            .collect();
        let policy = policy(&rules);
        let grants = Grants::default();
        let mode = self.mode.as_deref().map_or(Mode::Default, |name| {
            Mode::parse(name).expect("no such mode")
        });
        let policies = [&policy];
        let situation = situation(mode, &policies, &grants);
        let subject = Subject::Command(CommandSubject::read(&self.command));
        let answer = decide("Bash", Kind::Execute, &subject, &situation);
        let shown = shown(&answer);
        if answer.verdict.as_str() != self.decision {
            return Some(format!("{}: {shown}", self.name));
        }
        let decided_by = |named: &str| shown["decided_by"][named].as_str().unwrap_or_default();
        let told = Decided {
            stage: decided_by("stage").to_owned(),
            rule: decided_by("rule").to_owned(),
            segment: decided_by("segment").to_owned(),
        };
        if told != self.decided_by {
            return Some(format!("{}: {shown}", self.name));
        }
        // A rule is never named without where it stands.
        let is_sourced = told.rule.is_empty() == decided_by("source").is_empty();
        assert!(is_sourced, "{}: no source in {shown}", self.name);
        None
    }
}

#[test]
fn known_bugs_about_commands_are_decided_rightly() {
    let rows: Rows = read("commands.json");
    assert!(rows.cases.len() > 50, "{} rows", rows.cases.len());
    assert!(rows.no_counterpart.iter().all(NoCounterpart::is_told));
    let checks = move || {
        let wrong: Vec<String> = rows.cases.iter().filter_map(Case::check).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = thread.spawn(checks).unwrap().join();
    if let Err(panic) = checked {
        std::panic::resume_unwind(panic);
    }
}
