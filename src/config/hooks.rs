//! Hooks in the configuration: those that need no process, and those that must be there.
//!
//! Plain data and its checks. Never asks a hook.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{ConfigError, out_of_range};
use crate::gate::hooks::{
    BuiltInHook, Builtin, BuiltinVerdict, HOOKS_MAX, Matcher, MatcherParts, Point, RequiredHook,
};
use crate::gate::ids::HookId;
use crate::gate::permission::Aliases;
use crate::gate::tool::{Kind, Risk};

/// Hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HooksConfig {
    /// A hook's ALLOW also lifts the ask of a dangerous tool. Default false.
    pub allow_covers_dangerous: bool,
    /// Ids of hooks without which no call runs: each fails while it is absent. Default none.
    pub required: Vec<String>,
    /// Of hooks in `required`, the points at which each must be asked, e.g.
    /// `one = ["before_tool_call", "after_tool_call"]`: it fails at those while it is absent, and is refused
    /// if it wants to be asked at others only. Default none: a required hook fails before every call while
    /// it is absent, and may be asked wherever it wants to.
    pub required_points: BTreeMap<String, Vec<String>>,
    /// How long the hooks of a broken stream stay and fail, in milliseconds. Default 3 600 000: an
    /// hour.
    pub absent_keep_ms: u64,
    /// Hooks that need no process, at most 64. Default none.
    pub builtin: Vec<BuiltinConfig>,
}

impl Default for HooksConfig {
    fn default() -> Self {
        Self {
            allow_covers_dangerous: false,
            required: Vec::new(),
            required_points: BTreeMap::new(),
            absent_keep_ms: 3_600_000,
            builtin: Vec::new(),
        }
    }
}

/// One hook that needs no process: for these calls, that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltinConfig {
    /// Names it in events. Default: `builtin-` and its position, from 1.
    #[serde(default)]
    pub id: String,
    /// Lower ones are asked first, equal ones as they stand. Default 0.
    #[serde(default)]
    pub order: u32,
    /// Tool names or forms, e.g. `mcp__*`. Default: all.
    #[serde(default)]
    pub tools: Vec<String>,
    /// `safe`, `sensitive`, `dangerous`. Default: all.
    #[serde(default)]
    pub risk_levels: Vec<Risk>,
    /// `read`, `fetch`, `edit`, `delete`, `execute`, `interact`, `other`. Default: all.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Rules, one of which must mean the call, e.g. `Bash(git push *)`. Default: all calls.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Pointers to arguments that must be there. Default none.
    #[serde(default)]
    pub argument_pointers: Vec<String>,
    /// What it says.
    pub then: Then,
    /// For people and, of a denial, for the model. Default: a sentence of the sidecar.
    #[serde(default)]
    pub reason: String,
    /// For people who list hooks. Default none.
    #[serde(default)]
    pub description: String,
}

/// What a built-in hook says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Then {
    /// The call does not run.
    Deny,
    /// An approver must be asked.
    Ask,
    /// An ordinary ask is not needed.
    Allow,
    /// This text goes into the conversation.
    Context(String),
    /// The model does not see the result.
    Suppress,
    /// An argument where the model left it out.
    SetDefaultArgument {
        /// Where.
        pointer: String,
        /// What, as JSON text.
        value_json: String,
    },
    /// The call does not run unless these arguments are paths inside these directories.
    RequirePathInside {
        /// Where the paths stand.
        pointers: Vec<String>,
        /// The directories, absolute.
        directories: Vec<String>,
    },
}

impl HooksConfig {
    /// The hooks that need no process.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: one of them cannot be.
    pub fn built_in(&self, aliases: &Aliases) -> Result<Vec<BuiltInHook>, ConfigError> {
        if self.builtin.len() > HOOKS_MAX {
            let problem = format!("must have at most {HOOKS_MAX} entries");
            return Err(out_of_range("hooks.builtin", &problem));
        }
        let mut hooks: Vec<BuiltInHook> = Vec::with_capacity(self.builtin.len());
        for (declared, number) in self.builtin.iter().zip(1..) {
            let wrong =
                |problem: String| out_of_range(&format!("hooks.builtin[{number}]"), &problem);
            let id = match declared.id.is_empty() {
                true => format!("builtin-{number}"),
                false => declared.id.clone(),
            };
            let id = HookId::parse(&id).map_err(|error| wrong(error.to_string()))?;
            if hooks.iter().any(|other| other.id == id) {
                return Err(wrong(format!("`{id}` is there twice")));
            }
            hooks.push(BuiltInHook {
                id,
                order: declared.order,
                matcher: declared.matcher(aliases).map_err(wrong)?,
                body: declared.body().map_err(wrong)?,
                description: declared.description.clone(),
            });
        }
        Ok(hooks)
    }

    /// Hooks that fail while they are absent.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: a text is no id or no point, or points are of a hook that is not required.
    pub fn required(&self) -> Result<Vec<RequiredHook>, ConfigError> {
        let stray = self
            .required_points
            .keys()
            .find(|id| !self.required.contains(id));
        if let Some(id) = stray {
            let problem = format!("`{id}` is not in `hooks.required`");
            return Err(out_of_range("hooks.required_points", &problem));
        }
        let hooks = self.required.iter().map(|id| {
            let parsed = HookId::parse(id);
            Ok(RequiredHook {
                id: parsed.map_err(|error| out_of_range("hooks.required", &error.to_string()))?,
                points: self.points_of(id)?,
            })
        });
        hooks.collect()
    }

    fn points_of(&self, id: &str) -> Result<Vec<Point>, ConfigError> {
        let wrong = |problem: &str| out_of_range(&format!("hooks.required_points.{id}"), problem);
        let Some(words) = self.required_points.get(id) else {
            return Ok(Vec::new());
        };
        if words.is_empty() {
            return Err(wrong("must not be empty"));
        }
        let points = words.iter().map(|word| {
            Point::parse(word).ok_or_else(|| wrong(&format!("`{word}` is no point of hooks")))
        });
        points.collect()
    }
}

impl BuiltinConfig {
    fn matcher(&self, aliases: &Aliases) -> Result<Matcher, String> {
        let parts = MatcherParts {
            tools: self.tools.clone(),
            risks: self.risk_levels.clone(),
            kinds: self.kinds.clone(),
            rules: self.rules.clone(),
            pointers: self.argument_pointers.clone(),
        };
        Matcher::new(parts, aliases).map_err(|error| error.to_string())
    }

    fn body(&self) -> Result<Builtin, String> {
        let verdict = match self.then.clone() {
            Then::Deny => BuiltinVerdict::Deny,
            Then::Ask => BuiltinVerdict::Ask,
            Then::Allow => BuiltinVerdict::Allow,
            Then::Context(text) => BuiltinVerdict::Context(text),
            Then::Suppress => BuiltinVerdict::Suppress,
            Then::SetDefaultArgument {
                pointer,
                value_json,
            } => BuiltinVerdict::SetDefaultArgument {
                pointer,
                value: Bytes::from(value_json),
            },
            Then::RequirePathInside {
                pointers,
                directories,
            } => BuiltinVerdict::RequirePathInside {
                pointers,
                directories,
            },
        };
        Builtin::new(verdict, self.reason.clone()).map_err(|error| error.to_string())
    }
}
