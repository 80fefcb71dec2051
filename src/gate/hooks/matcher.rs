//! For which calls a hook is asked.
//!
//! All given conditions must hold, and one that cannot be told holds: a hook is asked once too often
//! rather than once too seldom. Never asks anybody about a call.

use crate::gate::json::{Document, Value};
use crate::gate::permission::{self, Aliases, CallPattern, CommandSubject, LoadError, Subject};
use crate::gate::tool::{Kind, Risk, Tool};

/// Most entries of each list.
const ENTRIES_MAX: usize = 256;
/// Longest pointer, in bytes.
const POINTER_BYTES_MAX: usize = 256;

/// Why a matcher is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatcherError {
    /// A name or form of a tool cannot be read.
    #[error("`tools`: {0}")]
    Tools(LoadError),
    /// A rule cannot be read.
    #[error("`rules`: {0}")]
    Rules(LoadError),
    /// No pointer into arguments.
    #[error("`{0}` is no pointer to an argument")]
    Pointer(String),
    /// A list is too long.
    #[error("`{list}` has {actual} entries; at most {ENTRIES_MAX} are taken")]
    TooMany {
        /// The list.
        list: &'static str,
        /// What came.
        actual: usize,
    },
}

/// The conditions as they are written. An empty list: no condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MatcherParts {
    /// Names or forms of tools.
    pub tools: Vec<String>,
    /// How much harm the tool can do.
    pub risks: Vec<Risk>,
    /// What the tool does.
    pub kinds: Vec<Kind>,
    /// Rules, one of which must mean the call.
    pub rules: Vec<String>,
    /// Arguments that must be there.
    pub pointers: Vec<String>,
}

/// The conditions of one hook.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matcher {
    tools: CallPattern,
    risks: Vec<Risk>,
    kinds: Vec<Kind>,
    rules: CallPattern,
    pointers: Vec<String>,
}

/// A call, as far as conditions see it.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'a> {
    /// The tool as the model named it, aliases resolved.
    pub name: &'a str,
    /// The tool. None: there is none of that name.
    pub tool: Option<&'a Tool>,
    /// The arguments. None: they cannot be read.
    pub arguments: Option<&'a Document>,
    /// What its command would run. None: it has none, or it is not cut up.
    pub command: Option<&'a CommandSubject>,
    /// From where paths are meant.
    pub cwd: Option<&'a str>,
}

impl Matcher {
    /// Reads the conditions.
    ///
    /// # Errors
    /// [`MatcherError`].
    pub fn new(parts: MatcherParts, aliases: &Aliases) -> Result<Self, MatcherError> {
        let lists = [
            ("tools", parts.tools.len()),
            ("risk_levels", parts.risks.len()),
            ("kinds", parts.kinds.len()),
            ("rules", parts.rules.len()),
            ("argument_pointers", parts.pointers.len()),
        ];
        for (list, actual) in lists {
            if actual > ENTRIES_MAX {
                return Err(MatcherError::TooMany { list, actual });
            }
        }
        let is_pointer = |text: &&String| text.starts_with('/') && text.len() <= POINTER_BYTES_MAX;
        if let Some(wrong) = parts.pointers.iter().find(|text| !is_pointer(text)) {
            return Err(MatcherError::Pointer(wrong.clone()));
        }
        let nothing = Aliases::default();
        Ok(Self {
            tools: CallPattern::parse(&parts.tools, &nothing).map_err(MatcherError::Tools)?,
            rules: CallPattern::parse(&parts.rules, aliases).map_err(MatcherError::Rules)?,
            risks: parts.risks,
            kinds: parts.kinds,
            pointers: parts.pointers,
        })
    }

    /// The conditions as they are written.
    #[must_use]
    pub fn parts(&self) -> MatcherParts {
        MatcherParts {
            tools: self.tools.texts().to_vec(),
            risks: self.risks.clone(),
            kinds: self.kinds.clone(),
            rules: self.rules.texts().to_vec(),
            pointers: self.pointers.clone(),
        }
    }

    /// Whether the arguments matter, so that they must be read.
    #[must_use]
    pub fn reads_arguments(&self) -> bool {
        !self.rules.texts().is_empty() || !self.pointers.is_empty()
    }

    /// Whether there are rules about such a tool, which see what a command of it would run.
    #[must_use]
    pub fn has_rules_about(&self, tool: &str) -> bool {
        self.rules.is_about(tool)
    }

    /// Whether the call is meant, or nobody can tell.
    #[must_use]
    pub fn may_mean(&self, call: &Matched<'_>) -> bool {
        let by_name = self.tools.texts().is_empty() || self.tools.means_tool(call.name);
        let by_risk = call.tool.is_none_or(|tool| fits(&self.risks, &tool.risk));
        let by_kind = call
            .tool
            .is_none_or(|tool| fits(&self.kinds, &tool.definition.kind));
        by_name && by_risk && by_kind && self.arguments_fit(call) && self.rules_fit(call)
    }

    fn arguments_fit(&self, call: &Matched<'_>) -> bool {
        call.arguments.is_none_or(|arguments| {
            let mut pointers = self.pointers.iter();
            pointers.all(|pointer| arguments.root().pointer(pointer).is_some())
        })
    }

    fn rules_fit(&self, call: &Matched<'_>) -> bool {
        if self.rules.texts().is_empty() {
            return true;
        }
        let Some(tool) = call.tool else {
            return self.rules.is_about(call.name);
        };
        let Some(arguments) = call.arguments else {
            return self.rules.is_about(call.name);
        };
        let root = arguments.root();
        let granted = permission::GrantedTool {
            name: tool.definition.name.clone(),
            owner: tool.owner.clone(),
            digest: tool.digest,
        };
        if call.command.is_none() && has_command(tool, root) {
            return self.rules.is_about(call.name);
        }
        let subject = Subject::of_call(tool.definition.subject.as_ref(), Some(root), call.command);
        let place = permission::Place {
            cwd: call.cwd.map(str::to_owned),
            ..permission::Place::default()
        };
        self.rules.may_mean(&permission::Call {
            tool: &granted,
            kind: tool.definition.kind,
            risk: tool.risk,
            skip_permission: tool.definition.skip_permission,
            arguments: Some(root),
            subject: &subject,
            place: &place,
        })
    }
}

/// Whether there is a command that could be cut up.
fn has_command(tool: &Tool, arguments: Value<'_>) -> bool {
    let declared = tool.definition.subject.as_ref();
    declared.is_some_and(|declared| {
        let text = arguments.pointer(&declared.pointer);
        declared.is_readable_command() && text.is_some_and(|text| text.as_str().is_some())
    })
}

fn fits<T: PartialEq>(wanted: &[T], actual: &T) -> bool {
    wanted.is_empty() || wanted.contains(actual)
}
