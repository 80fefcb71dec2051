//! Why a rule or a file of rules is not taken.
//!
//! Each text says what to write instead. A code is never renamed; the words may improve. Never about
//! a call: how a call ends badly is `gate::refusal`.

use super::rule::{RULE_BYTES_MAX, Verdict};
use super::source::Origin;

/// Why one rule is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing there.
    #[error("the rule is empty: write `Tool` or `Tool(…)`")]
    Empty,
    /// Longer than any rule needs to be.
    #[error("the rule has more than {RULE_BYTES_MAX} bytes: use `*` for what varies")]
    TooLong,
    /// Text that a reader of the rule would not see.
    #[error("the rule holds the character U+{code:04X}, which cannot be seen: leave it out")]
    HiddenCharacter {
        /// The character's number.
        code: u32,
    },
    /// The part before `(` is no tool name.
    #[error("`{tool}` is no tool name: write letters, digits, `_`, `.`, `-`, and `*` for any text")]
    ToolInvalid {
        /// The part.
        tool: String,
    },
    /// An allow rule whose tool could be any.
    #[error(
        "an allow rule must not begin with `*`: write the tools' common beginning, like `git_*`"
    )]
    AllowGlob,
    /// `(` without `)`.
    #[error("the `(` is not closed: end the rule with `)`")]
    Unclosed,
    /// Something after the last `)`.
    #[error("there is text after the last `)`: end the rule there, and write one rule per entry")]
    TextAfterSpec,
    /// Brackets inside the specifier do not match.
    #[error(
        "the brackets inside `(…)` do not match: write one rule per entry, and `\\(` or `\\)` for a bracket that stands alone"
    )]
    Unbalanced,
    /// `Tool()`.
    #[error("there is nothing inside `()`: write `{tool}` for every call of the tool")]
    SpecEmpty {
        /// The tool part.
        tool: String,
    },
    /// What follows `domain:` is no host.
    #[error(
        "`{host}` is no host: write `domain:example.com`, or `domain:*.example.com` for all below it"
    )]
    HostInvalid {
        /// The text.
        host: String,
    },
    /// What follows `param:` is no pointer and value.
    #[error("`{text}` names no argument: write `param:/pointer=value`, with an RFC 6901 pointer")]
    ParamInvalid {
        /// The text.
        text: String,
    },
    /// `!pattern`.
    #[error("a pattern with `!` takes nothing back here: write a second rule in another list")]
    PathNegated,
    /// `..` after `**`.
    #[error("`..` after `**` names no place: write the path without `..`")]
    PathParent,
    /// Neither text nor an object.
    #[error(
        "a rule is text, or an object with `rule`, `matches`, `not_matches`, `message`, `expires`, `modes`"
    )]
    EntryInvalid,
    /// A key that rules do not have.
    #[error(
        "unknown key `{key}`: a rule has `rule`, `matches`, `not_matches`, `message`, `expires`, `modes`"
    )]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A value that its key cannot have.
    #[error("`{field}` {problem}")]
    FieldInvalid {
        /// The key.
        field: &'static str,
        /// What it must be.
        problem: &'static str,
    },
    /// An example of the rule's author comes out otherwise.
    #[error("the rule {} its example `{example}`: correct one of them", if *.matches { "matches" } else { "does not match" })]
    ExampleFails {
        /// The example.
        example: String,
        /// What the rule really does.
        matches: bool,
    },
}

impl RuleError {
    /// The stable code that people search for.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            RuleError::Empty => "rule_empty",
            RuleError::TooLong => "rule_too_long",
            RuleError::HiddenCharacter { .. } => "rule_hidden_character",
            RuleError::ToolInvalid { .. } => "rule_tool_invalid",
            RuleError::AllowGlob => "rule_allow_glob",
            RuleError::Unclosed => "rule_unclosed",
            RuleError::TextAfterSpec => "rule_text_after_spec",
            RuleError::Unbalanced => "rule_unbalanced",
            RuleError::SpecEmpty { .. } => "rule_spec_empty",
            RuleError::HostInvalid { .. } => "rule_host_invalid",
            RuleError::ParamInvalid { .. } => "rule_param_invalid",
            RuleError::PathNegated => "rule_path_negated",
            RuleError::PathParent => "rule_path_parent",
            RuleError::EntryInvalid => "rule_entry_invalid",
            RuleError::UnknownKey { .. } => "rule_unknown_key",
            RuleError::FieldInvalid { .. } => "rule_field_invalid",
            RuleError::ExampleFails { .. } => "rule_example_fails",
        }
    }
}

/// Why a whole file of rules is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Not a JSON object.
    #[error("not a JSON object: {problem}")]
    Json {
        /// What is wrong with it.
        problem: String,
    },
    /// A key that the file does not have.
    #[error("unknown key `{key}` in {place}: known are {known}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stands.
        place: &'static str,
        /// What may stand there.
        known: &'static str,
    },
    /// A value that its key cannot have.
    #[error("`{key}` {problem}")]
    ValueInvalid {
        /// The key.
        key: &'static str,
        /// What it must be.
        problem: &'static str,
    },
}

impl SettingsError {
    /// The stable code that people search for.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            SettingsError::Json { .. } => "settings_json_invalid",
            SettingsError::UnknownKey { .. } => "settings_unknown_key",
            SettingsError::ValueInvalid { .. } => "settings_value_invalid",
        }
    }
}

/// One rule that was not taken, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// Where it stands.
    pub origin: Origin,
    /// In which list.
    pub list: Verdict,
    /// As written, if it is text.
    pub text: String,
    /// What is wrong.
    pub error: RuleError,
}

/// Why no policy was made: deny or ask rules that cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} rules are invalid, deny or ask rules among them; no rule of this load holds", .problems.len())]
pub struct LoadError {
    /// All of them, in the order of the sources; allow rules too, so that one look suffices.
    pub problems: Vec<RuleProblem>,
}
