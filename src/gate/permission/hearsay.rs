//! What others say of a call before it is decided: its tool, and the machine that the tool runs on.
//!
//! Plain data, kept with the call and used at every decision. Never believed beyond what it is about.

use std::collections::BTreeMap;

use super::order::Check;

/// What a tool itself says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolWord {
    /// What it says.
    pub check: Check,
    /// For the approver. Empty: nothing.
    pub for_user: String,
    /// For the model, with [`Check::Deny`]. Empty: nothing.
    pub for_model: String,
}

/// What an argument means on the executor's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFact {
    /// Where in the arguments.
    pub pointer: String,
    /// The path found there, as in the arguments.
    pub value: String,
    /// Absolute, links followed.
    pub canonical: String,
    /// Whether it exists. None: nobody looked.
    pub exists: Option<bool>,
}

/// What is known of a call's paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    cwd: Option<String>,
    paths: BTreeMap<String, PathFact>,
}

impl Facts {
    /// Facts that were asked for with that working directory. Of two about one argument the first counts.
    #[must_use]
    pub fn new(cwd: Option<&str>, facts: Vec<PathFact>) -> Self {
        let mut paths = BTreeMap::new();
        for fact in facts {
            if !fact.canonical.is_empty() {
                paths.entry(fact.pointer.clone()).or_insert(fact);
            }
        }
        Self {
            cwd: cwd.map(str::to_owned),
            paths,
        }
    }

    /// What the path at `pointer` really is, if it is still the one that was asked about, from where.
    #[must_use]
    pub fn canonical(&self, cwd: Option<&str>, pointer: &str, value: &str) -> Option<&str> {
        let fact = self.paths.get(pointer)?;
        let holds = fact.value == value && self.cwd.as_deref() == cwd;
        holds.then_some(fact.canonical.as_str())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &PathFact> {
        self.paths.values()
    }
}
