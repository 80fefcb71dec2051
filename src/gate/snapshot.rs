//! A tool list as one model saw it, so that names and definitions can be held to it.
//!
//! Named by its content: the same list has the same id, also after a restart. Never holds a schema.

use std::collections::BTreeMap;

use super::ids::ToolName;
use super::result::Digest;
use super::tool::SharedTool;

/// What one name stood for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The tool.
    pub tool: ToolName,
    /// Its definition then.
    pub digest: Digest,
}

/// A tool list as one model saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSnapshot {
    /// Lower-case hex, made from the content.
    pub id: String,
    by_name: BTreeMap<ToolName, Seen>,
}

impl ToolSnapshot {
    /// The snapshot of `tools`, each under the name that the model sees.
    pub fn new(tools: impl IntoIterator<Item = (ToolName, SharedTool)>) -> Self {
        let by_name: BTreeMap<_, _> = tools
            .into_iter()
            .map(|(seen_as, tool)| {
                let seen = Seen {
                    tool: tool.definition.name.clone(),
                    digest: tool.digest,
                };
                (seen_as, seen)
            })
            .collect();
        let mut text = String::new();
        for (seen_as, seen) in &by_name {
            text.push_str(&format!("{seen_as}\n{}\n{}\n", seen.tool, seen.digest));
        }
        Self {
            id: Digest::of(text.as_bytes()).to_string(),
            by_name,
        }
    }

    /// What the model's name stood for. Only by table, never by a rule.
    pub fn resolve(&self, seen_as: &ToolName) -> Option<&Seen> {
        self.by_name.get(seen_as)
    }
}
