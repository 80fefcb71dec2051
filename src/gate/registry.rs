//! The tools that are registered, as one value that is copied on change.
//!
//! Readers hold an `Arc<Registry>` and see one state of it, whatever registers meanwhile. Never knows
//! which executor is connected.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::definition_digest::changed_fields;
use super::ids::{OwnerName, ToolName, UnixMillis};
use super::limits::Limits;
use super::result::Digest;
use super::tool::{
    self, CheckedDefinition, DefinitionError, SharedTool, Tool, ToolDefinition, ToolRules,
};
use super::toolset::Toolsets;

/// All tools and toolsets at one moment.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    tools: BTreeMap<ToolName, SharedTool>,
    /// Views over the tools.
    pub toolsets: Toolsets,
    /// Grows with every change.
    pub revision: u64,
}

/// What became of one tool at registration.
#[derive(Debug, Clone)]
pub enum Registration {
    /// Registered, or registered before with the same definition.
    Active {
        /// The tool.
        tool: SharedTool,
        /// It is new or its definition changed.
        changed: bool,
    },
    /// Not registered.
    Refused {
        /// As sent.
        name: ToolName,
        /// The earliest check that failed.
        error: DefinitionError,
    },
}

impl Registry {
    /// The tool of that name.
    pub fn get(&self, name: &ToolName) -> Option<&SharedTool> {
        self.tools.get(name)
    }

    /// Every tool, by name.
    pub fn iter(&self) -> impl Iterator<Item = &SharedTool> {
        self.tools.values()
    }

    /// Whether any tool calls arguments secret.
    pub fn names_secrets(&self) -> bool {
        let mut tools = self.iter();
        tools.any(|tool| !tool.definition.secret_pointers.is_empty())
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Registers `definitions` for `owner`, in order; a refused one does not refuse the others.
    ///
    /// The checks, the earliest first: a name, a name that no other owner holds, a legal definition.
    /// A name twice in one message is a duplicate. `is_held` says whether another owner's tool still
    /// has somebody to run it; a tool that nobody runs gives its name up.
    pub fn register(
        &mut self,
        owner: &OwnerName,
        definitions: Vec<ToolDefinition>,
        now: UnixMillis,
        rules: &ToolRules,
        limits: &Limits,
        is_held: &dyn Fn(&Tool) -> bool,
    ) -> Vec<Registration> {
        let mut seen: BTreeMap<ToolName, ()> = BTreeMap::new();
        let mut outcomes = Vec::with_capacity(definitions.len());
        for definition in definitions {
            let name = definition.name.clone();
            let outcome = match seen.contains_key(&name) {
                true => Err(duplicate(&name)),
                false => self.register_one(owner, definition, now, rules, limits, is_held),
            };
            outcomes.push(match outcome {
                Ok(registration) => {
                    seen.insert(name, ());
                    registration
                }
                Err(error) => Registration::Refused { name, error },
            });
        }
        outcomes
    }

    fn register_one(
        &mut self,
        owner: &OwnerName,
        definition: ToolDefinition,
        now: UnixMillis,
        rules: &ToolRules,
        limits: &Limits,
        is_held: &dyn Fn(&Tool) -> bool,
    ) -> Result<Registration, DefinitionError> {
        tool::check_name_present(&definition.name)?;
        let before = self.tools.get(&definition.name).cloned();
        if let Some(before) = &before
            && before.owner != *owner
            && is_held(before)
        {
            return Err(duplicate(&definition.name));
        }
        if before.is_none() && self.tools.len() as u64 >= limits.tools_max {
            return Err(DefinitionError::FieldInvalid {
                field: "name",
                problem: format!("is one more than the {} tools taken here", limits.tools_max),
            });
        }
        let checked = tool::check_definition(definition, rules, limits)?;
        if let Some(before) = &before
            && before.owner == *owner
            && before.digest == checked.digest
        {
            return Ok(Registration::Active {
                tool: before.clone(),
                changed: false,
            });
        }
        let tool = Arc::new(next_generation(owner, checked, before.as_deref(), now));
        self.insert(tool.clone());
        Ok(Registration::Active {
            tool,
            changed: true,
        })
    }

    /// Puts a tool in the place of any other of its name.
    pub fn insert(&mut self, tool: SharedTool) {
        self.revision += 1;
        self.tools.insert(tool.definition.name.clone(), tool);
    }

    /// Removes a tool; None if there is none of that name.
    pub fn unregister(&mut self, name: &ToolName) -> Option<SharedTool> {
        let removed = self.tools.remove(name)?;
        self.revision += 1;
        Some(removed)
    }

    /// The tool that a call names, seen through a toolset.
    pub fn look_up(&self, name: &ToolName, toolset: Option<&str>) -> Option<&SharedTool> {
        let tool = self.tools.get(name)?;
        match toolset {
            None => Some(tool),
            Some(toolset) => self.toolsets.shows(toolset, name).then_some(tool),
        }
    }

    /// What a toolset shows, by name; None for the whole registry.
    pub fn visible(&self, toolset: Option<&str>) -> Vec<&SharedTool> {
        self.tools
            .values()
            .filter(|tool| match toolset {
                None => true,
                Some(toolset) => self.toolsets.shows(toolset, &tool.definition.name),
            })
            .collect()
    }

    /// Whether another definition stands where the one with `digest` stood. One that is gone may come
    /// back as it was.
    pub fn is_replaced(&self, name: &ToolName, digest: &Digest) -> bool {
        self.tools
            .get(name)
            .is_some_and(|tool| tool.digest != *digest)
    }

    /// Whether the tool is still the one with `digest`.
    pub fn is_unchanged(&self, name: &ToolName, digest: &Digest) -> bool {
        self.tools
            .get(name)
            .is_some_and(|tool| tool.digest == *digest)
    }
}

fn duplicate(name: &ToolName) -> DefinitionError {
    DefinitionError::NameDuplicate {
        name: name.to_string(),
    }
}

fn next_generation(
    owner: &OwnerName,
    checked: CheckedDefinition,
    before: Option<&Tool>,
    now: UnixMillis,
) -> Tool {
    Tool {
        changed_fields: before.map_or_else(Vec::new, |before| {
            let mut fields = changed_fields(&before.definition, &checked.definition);
            if before.owner != *owner {
                fields.push("owner");
            }
            fields
        }),
        generation: before.map_or(1, |before| before.generation.saturating_add(1)),
        owner: owner.clone(),
        digest: checked.digest,
        schema: checked.schema,
        risk: checked.risk,
        timeout_ms: checked.timeout_ms,
        warnings: checked.warnings,
        definition: checked.definition,
        registered_at: now,
    }
}
