//! Hooks that need no program: a condition and a verdict, declared in the configuration.
//!
//! Judged in the gate, without a round trip. Never answers after a call.

use bytes::Bytes;

use super::matcher::Matcher;
use super::path::is_inside;
use super::rewrite::with_default;
use super::verdict::{BeforeAction, BeforeVerdict};
use crate::gate::ids::HookId;
use crate::gate::json::{Document, JsonLimits, Value};

/// Why a built-in hook is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuiltinError {
    /// The value is not JSON.
    #[error("the value is not JSON: {0}")]
    Value(String),
    /// No pointer into arguments.
    #[error("`{0}` is no pointer to an argument")]
    Pointer(String),
    /// A directory that is not absolute.
    #[error("`{0}` is no absolute directory")]
    Directory(String),
    /// Something that the verdict needs is missing.
    #[error("{0} must not be empty")]
    Missing(&'static str),
}

/// What a built-in hook says of the calls that it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuiltinVerdict {
    /// DENY.
    Deny,
    /// ASK.
    Ask,
    /// ALLOW.
    Allow,
    /// A context for the conversation.
    Context(String),
    /// The model does not see the result.
    Suppress,
    /// An argument, where the model left it out.
    SetDefaultArgument {
        /// Where.
        pointer: String,
        /// What, as JSON.
        value: Bytes,
    },
    /// DENY, unless these arguments are paths inside these directories.
    RequirePathInside {
        /// Where the paths stand. One that is not there is no path.
        pointers: Vec<String>,
        /// The directories.
        directories: Vec<String>,
    },
}

/// One built-in hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builtin {
    verdict: BuiltinVerdict,
    reason: String,
}

/// A built-in hook with its name, its place and the calls that it means.
#[derive(Debug, Clone)]
pub struct BuiltInHook {
    /// What names it.
    pub id: HookId,
    /// Lower ones are asked first.
    pub order: u32,
    /// For which calls.
    pub matcher: Matcher,
    /// What it says.
    pub body: Builtin,
    /// For people.
    pub description: String,
}

/// A call, as far as built-in hooks see it.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The arguments. None: they cannot be read.
    pub arguments: Option<&'a Document>,
    /// From where paths are meant.
    pub cwd: Option<&'a str>,
}

impl Builtin {
    /// Checks what is declared. `reason`: for people and the model; empty: a sentence of ours.
    ///
    /// # Errors
    /// [`BuiltinError`].
    pub fn new(verdict: BuiltinVerdict, reason: String) -> Result<Self, BuiltinError> {
        let pointers = match &verdict {
            BuiltinVerdict::SetDefaultArgument { pointer, value } => {
                let read = Document::parse(value, &JsonLimits::default());
                read.map_err(|error| BuiltinError::Value(error.to_string()))?;
                vec![pointer]
            }
            BuiltinVerdict::RequirePathInside {
                pointers,
                directories,
            } => {
                if pointers.is_empty() || directories.is_empty() {
                    return Err(BuiltinError::Missing("pointers and directories"));
                }
                let mut all = directories.iter();
                if let Some(wrong) = all.find(|directory| !directory.starts_with('/')) {
                    return Err(BuiltinError::Directory(wrong.clone()));
                }
                pointers.iter().collect()
            }
            BuiltinVerdict::Context(text) if text.is_empty() => {
                return Err(BuiltinError::Missing("the context"));
            }
            BuiltinVerdict::Deny
            | BuiltinVerdict::Ask
            | BuiltinVerdict::Allow
            | BuiltinVerdict::Context(_)
            | BuiltinVerdict::Suppress => Vec::new(),
        };
        match pointers.into_iter().find(|text| !text.starts_with('/')) {
            Some(wrong) => Err(BuiltinError::Pointer(wrong.clone())),
            None => Ok(Self { verdict, reason }),
        }
    }

    /// What it says of one call.
    #[must_use]
    pub fn judge(&self, call: &Judged<'_>) -> BeforeVerdict {
        let says = |action| BeforeVerdict {
            action,
            reason_for_user: self.reason.clone(),
            ..BeforeVerdict::default()
        };
        match &self.verdict {
            BuiltinVerdict::Deny => says(BeforeAction::Deny),
            BuiltinVerdict::Ask => says(BeforeAction::Ask),
            BuiltinVerdict::Allow => says(BeforeAction::Allow),
            BuiltinVerdict::Context(text) => BeforeVerdict {
                context: text.clone(),
                ..BeforeVerdict::default()
            },
            BuiltinVerdict::Suppress => BeforeVerdict {
                suppress: true,
                ..BeforeVerdict::default()
            },
            BuiltinVerdict::SetDefaultArgument { pointer, value } => {
                let rewritten = call
                    .arguments
                    .and_then(|arguments| with_default(arguments, pointer, value));
                BeforeVerdict {
                    modified: rewritten.unwrap_or_default(),
                    ..BeforeVerdict::default()
                }
            }
            BuiltinVerdict::RequirePathInside {
                pointers,
                directories,
            } => match self.first_outside(call, pointers, directories) {
                Some(reason) => BeforeVerdict {
                    reason_for_user: reason,
                    ..says(BeforeAction::Deny)
                },
                None => BeforeVerdict::default(),
            },
        }
    }

    /// Whether it asks where paths lead.
    #[must_use]
    pub fn confines(&self) -> bool {
        matches!(self.verdict, BuiltinVerdict::RequirePathInside { .. })
    }

    /// Why the call is denied once its executor has said that a path of it is really `canonical`.
    #[must_use]
    pub fn outside(&self, pointer: &str, canonical: &str) -> Option<String> {
        let BuiltinVerdict::RequirePathInside {
            pointers,
            directories,
        } = &self.verdict
        else {
            return None;
        };
        let is_meant = pointers.iter().any(|own| {
            // The items of a list stand below it.
            pointer
                .strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let outside = is_meant && !is_inside(canonical, directories, None);
        outside.then(|| self.words(canonical, directories))
    }

    fn first_outside(
        &self,
        call: &Judged<'_>,
        pointers: &[String],
        directories: &[String],
    ) -> Option<String> {
        // What cannot be read runs nowhere; its own error says so.
        let root = call.arguments?.root();
        let values = pointers.iter().filter_map(|pointer| root.pointer(pointer));
        let mut paths = values.flat_map(each_text);
        let outside =
            paths.find(|path| path.is_none_or(|path| !is_inside(path, directories, call.cwd)))?;
        Some(self.words(outside.unwrap_or("?"), directories))
    }

    fn words(&self, path: &str, directories: &[String]) -> String {
        match self.reason.is_empty() {
            false => self.reason.clone(),
            true => format!(
                "access to `{path}` is not permitted; allowed directories: {}",
                directories.join(", ")
            ),
        }
    }
}

/// The text, or those of a list. None: something else, which may be any path.
fn each_text(value: Value<'_>) -> Vec<Option<&str>> {
    use crate::gate::json::Kind;
    match value.kind() {
        Kind::Array => value.items().map(|item| item.as_str()).collect(),
        Kind::Null => Vec::new(),
        Kind::String | Kind::Boolean | Kind::Number | Kind::Object => vec![value.as_str()],
    }
}
