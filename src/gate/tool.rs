//! A tool's definition, and the form in which the registry keeps it.
//!
//! [`Tool::check`] is the only way from a definition to a [`Tool`]. Never knows who runs the tool:
//! that is the executors' pool.

use std::sync::Arc;

use bytes::Bytes;

use super::definition_digest::{annotation_limits, digest_of};
use super::ids::{OwnerName, ToolName, UnixMillis};
use super::json::{Document, JsonError, pointer_name};
use super::limits::Limits;
use super::result::Digest;
use super::schema::{Schema, SchemaDialect, SchemaError, SchemaOptions};

/// How much harm a tool can do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Reads only.
    Safe,
    /// Has side effects that can be undone.
    Sensitive,
    /// Cannot be undone, or costs much.
    Dangerous,
}

impl Risk {
    /// The word that people and digests see.
    pub fn as_str(self) -> &'static str {
        match self {
            Risk::Safe => "safe",
            Risk::Sensitive => "sensitive",
            Risk::Dangerous => "dangerous",
        }
    }
}

/// What a tool does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads local data.
    Read,
    /// Reads from a network.
    Fetch,
    /// Changes files or records.
    Edit,
    /// Deletes files or records.
    Delete,
    /// Runs commands or programs.
    Execute,
    /// Asks or shows something to a person.
    Interact,
    /// Anything else.
    Other,
}

impl Kind {
    /// The word that people and digests see.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Fetch => "fetch",
            Kind::Edit => "edit",
            Kind::Delete => "delete",
            Kind::Execute => "execute",
            Kind::Interact => "interact",
            Kind::Other => "other",
        }
    }

    /// Whether a tool of this kind only reads.
    pub fn only_reads(self) -> bool {
        matches!(self, Kind::Read | Kind::Fetch)
    }

    /// Whether a safe tool of this kind is worth a warning.
    fn is_dubious_when_safe(self) -> bool {
        matches!(self, Kind::Edit | Kind::Delete | Kind::Execute)
    }
}

/// How a rule's `(…)` reads the argument that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectKind {
    /// A shell command.
    Command,
    /// A path, or several.
    Path,
    /// An address.
    Url,
    /// Any other text.
    Text,
}

impl SubjectKind {
    /// The word that people and digests see.
    pub fn as_str(self) -> &'static str {
        match self {
            SubjectKind::Command => "command",
            SubjectKind::Path => "path",
            SubjectKind::Url => "url",
            SubjectKind::Text => "text",
        }
    }
}

/// The argument that a rule's `(…)` is matched against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredSubject {
    /// Where it stands in the arguments, an RFC 6901 pointer.
    pub pointer: String,
    /// How it is read. None: the executor named no type.
    pub kind: Option<SubjectKind>,
    /// For commands: the shell that runs them. Empty: `bash`.
    pub dialect: String,
}

/// Longest pointer to a subject, in bytes.
pub const SUBJECT_POINTER_BYTES_MAX: usize = 256;
/// Most pointers of a tool's loop key. Each is as long as one to a subject at most.
pub const LOOP_KEY_MAX: usize = 16;
/// Longest name of a shell, in bytes.
pub const DIALECT_BYTES_MAX: usize = 32;

/// A tool as its executor describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    /// What the model calls.
    pub name: ToolName,
    /// For the model.
    pub description: String,
    /// Schema of the arguments. Empty: any object.
    pub parameters: Bytes,
    /// How the schema is read.
    pub dialect: SchemaDialect,
    /// As sent; None: the configured default.
    pub risk: Option<Risk>,
    /// What it does.
    pub kind: Kind,
    /// What its rules are about. None: only rules about the whole tool or a parameter match.
    pub subject: Option<DeclaredSubject>,
    /// Lifts an ask that comes from mode or risk, but for a dangerous tool and in plan mode.
    pub skip_permission: bool,
    /// The loop detector does not see its calls.
    pub loop_exempt: bool,
    /// Pointers to the only arguments that the loop detector compares. Empty: all of them.
    pub loop_key: Vec<String>,
    /// A second execution does no harm.
    pub idempotent: bool,
    /// Runs alone in its batch.
    pub exclusive: bool,
    /// Longest execution, in milliseconds. None: the configured default.
    pub timeout_ms: Option<u32>,
    /// Most executions at once, per executor name. Zero: no limit.
    pub max_concurrency: u32,
    /// Stops early when told to.
    pub supports_cancellation: bool,
    /// Wants to be asked before each call.
    pub has_permission_check: bool,
    /// JSON pointers to arguments that nobody but the executor may see.
    pub secret_pointers: Vec<String>,
    /// Ids of services that the handler may use.
    pub services: Vec<String>,
    /// The author's version.
    pub version: String,
    /// Free data of the author. Empty: none.
    pub annotations: Bytes,
}

/// Most secret pointers of one tool.
pub const SECRET_POINTERS_MAX: usize = 64;

/// Longest execution that a definition may ask for: a day.
pub const TIMEOUT_MS_MAX: u32 = 24 * 60 * 60 * 1000;

/// Which dialects a deployment admits, and what unspecified fields mean.
#[derive(Debug, Clone)]
pub struct ToolRules {
    /// Risk of a tool that names none.
    pub unspecified_risk: Risk,
    /// Longest execution of a tool that names none, in milliseconds.
    pub default_timeout_ms: u32,
    /// Dialects that tools may use.
    pub dialects: Vec<SchemaDialect>,
    /// How schemas are compiled.
    pub schema: SchemaOptions,
}

/// Why a definition is refused; the earliest check counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// Blank name.
    #[error("tool name must not be empty")]
    NameEmpty,
    /// The name stands for a tool already.
    #[error("tool already registered: `{name}`")]
    NameDuplicate {
        /// The name.
        name: String,
    },
    /// The name has other characters or is too long.
    #[error("tool name `{name}` must be 1 to {bytes_max} of `A-Za-z0-9_.-`")]
    NameInvalid {
        /// The name, cut.
        name: String,
        /// Longest name.
        bytes_max: u64,
    },
    /// Another field is out of its range.
    #[error("`{field}` {problem}")]
    FieldInvalid {
        /// The field's name.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The dialect is not admitted here.
    #[error("schema dialect `{dialect}` is not admitted here")]
    DialectNotAdmitted {
        /// The dialect's name.
        dialect: &'static str,
    },
    /// The schema is refused.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl DefinitionError {
    /// The stable code that clients match on.
    pub fn code(&self) -> &'static str {
        match self {
            DefinitionError::NameEmpty => "tool_name_empty",
            DefinitionError::NameDuplicate { .. } => "tool_name_duplicate",
            DefinitionError::NameInvalid { .. } => "tool_name_invalid",
            DefinitionError::FieldInvalid { .. } => "tool_definition_invalid",
            DefinitionError::DialectNotAdmitted { .. } => "schema_dialect_not_admitted",
            DefinitionError::Schema(error) => error.code(),
        }
    }

    /// Where in the schema, from `$`. Empty: nowhere in particular.
    pub fn path(&self) -> &str {
        match self {
            DefinitionError::Schema(error) => error.path(),
            DefinitionError::NameEmpty
            | DefinitionError::NameDuplicate { .. }
            | DefinitionError::NameInvalid { .. }
            | DefinitionError::FieldInvalid { .. }
            | DefinitionError::DialectNotAdmitted { .. } => "",
        }
    }
}

/// Something dubious in a definition that was taken all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolWarning {
    /// Stable code.
    pub code: &'static str,
    /// Where in the schema, from `$`. Empty: nowhere in particular.
    pub path: String,
    /// For people.
    pub message: String,
}

/// A checked definition under its owner.
#[derive(Debug)]
pub struct Tool {
    /// As sent.
    pub definition: ToolDefinition,
    /// Who owns it.
    pub owner: OwnerName,
    /// Digest of the definition.
    pub digest: Digest,
    /// The compiled schema.
    pub schema: Schema,
    /// The risk that holds.
    pub risk: Risk,
    /// Longest execution, in milliseconds.
    pub timeout_ms: u32,
    /// What its author should know.
    pub warnings: Vec<ToolWarning>,
    /// Counts the definitions seen under this name, from 1.
    pub generation: u32,
    /// What differs from the generation before, as field names.
    pub changed_fields: Vec<&'static str>,
    /// When this generation came.
    pub registered_at: UnixMillis,
}

impl Tool {
    /// Whether running a call twice harms nobody, so that its record may follow its dispatch.
    pub fn is_repeatable(&self) -> bool {
        self.definition.idempotent || (self.risk == Risk::Safe && self.definition.kind.only_reads())
    }
}

/// A definition that passed every check, not yet in the registry.
#[derive(Debug)]
pub struct CheckedDefinition {
    /// As sent.
    pub definition: ToolDefinition,
    /// Digest of the definition.
    pub digest: Digest,
    /// The compiled schema.
    pub schema: Schema,
    /// The risk that holds.
    pub risk: Risk,
    /// Longest execution, in milliseconds.
    pub timeout_ms: u32,
    /// What its author should know.
    pub warnings: Vec<ToolWarning>,
}

/// The first registration check: a name that is there.
///
/// # Errors
/// [`DefinitionError::NameEmpty`].
pub fn check_name_present(name: &ToolName) -> Result<(), DefinitionError> {
    if name.as_str().trim().is_empty() {
        return Err(DefinitionError::NameEmpty);
    }
    Ok(())
}

/// Checks everything about a definition that does not depend on other tools.
///
/// # Errors
/// The earliest failing check, see [`DefinitionError`].
pub fn check_definition(
    definition: ToolDefinition,
    rules: &ToolRules,
    limits: &Limits,
) -> Result<CheckedDefinition, DefinitionError> {
    check_name_form(&definition.name, limits)?;
    check_fields(&definition, limits)?;
    if !rules.dialects.contains(&definition.dialect) {
        return Err(DefinitionError::DialectNotAdmitted {
            dialect: definition.dialect.as_str(),
        });
    }
    let compiled = Schema::compile(&definition.parameters, definition.dialect, &rules.schema)?;
    let risk = definition.risk.unwrap_or(rules.unspecified_risk);
    let mut warnings = dubious(&definition, risk);
    warnings.extend(compiled.notes.into_iter().map(|note| ToolWarning {
        code: note.code(),
        path: note.path().to_owned(),
        message: note.to_string(),
    }));
    Ok(CheckedDefinition {
        digest: digest_of(&definition),
        schema: compiled.schema,
        risk,
        timeout_ms: definition.timeout_ms.unwrap_or(rules.default_timeout_ms),
        warnings,
        definition,
    })
}

impl CheckedDefinition {
    /// The tool of nobody, as if somebody had registered it at that moment.
    pub fn of_nobody(self, at: UnixMillis) -> Tool {
        Tool {
            owner: OwnerName::trusted(""),
            generation: 1,
            changed_fields: Vec::new(),
            registered_at: at,
            digest: self.digest,
            schema: self.schema,
            risk: self.risk,
            timeout_ms: self.timeout_ms,
            warnings: self.warnings,
            definition: self.definition,
        }
    }
}

fn check_name_form(name: &ToolName, limits: &Limits) -> Result<(), DefinitionError> {
    let text = name.as_str();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if text.len() as u64 <= limits.tool_name_bytes_max && text.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(DefinitionError::NameInvalid {
        name: text.chars().take(80).collect(),
        bytes_max: limits.tool_name_bytes_max,
    })
}

fn check_fields(definition: &ToolDefinition, limits: &Limits) -> Result<(), DefinitionError> {
    let invalid = |field, problem| Err(DefinitionError::FieldInvalid { field, problem });
    let at_most = |field, actual: usize, max: u64, unit: &str| {
        if actual as u64 > max {
            return invalid(field, format!("must have at most {max} {unit}"));
        }
        Ok(())
    };
    at_most(
        "description",
        definition.description.len(),
        limits.tool_description_bytes_max,
        "bytes",
    )?;
    at_most(
        "version",
        definition.version.len(),
        limits.tool_version_bytes_max,
        "characters",
    )?;
    at_most(
        "services",
        definition.services.len(),
        limits.tool_services_max,
        "entries",
    )?;
    at_most(
        "annotations_json",
        definition.annotations.len(),
        limits.tool_annotations_bytes_max,
        "bytes",
    )?;
    if let Some(subject) = &definition.subject {
        check_subject(subject).or_else(|problem| invalid("subject", problem.to_owned()))?;
    }
    at_most(
        "loop_key",
        definition.loop_key.len(),
        LOOP_KEY_MAX as u64,
        "entries",
    )?;
    for pointer in &definition.loop_key {
        check_pointer(pointer).or_else(|problem| invalid("loop_key", problem.to_owned()))?;
    }
    check_secrets(&definition.secret_pointers)
        .or_else(|problem| invalid("secret_pointers", problem))?;
    match definition.timeout_ms {
        Some(0) => return invalid("timeout_ms", "must not be zero".to_owned()),
        Some(span) if span > TIMEOUT_MS_MAX => {
            return invalid("timeout_ms", format!("must be at most {TIMEOUT_MS_MAX}"));
        }
        Some(_) | None => {}
    }
    if !definition.annotations.is_empty()
        && let Err(error) = Document::parse_object(&definition.annotations, &annotation_limits())
    {
        let problem = match error == JsonError::NotObject {
            true => "must be an object".to_owned(),
            false => format!("must be an object: {error}"),
        };
        return invalid("annotations_json", problem);
    }
    Ok(())
}

/// Whether a text points to an argument.
fn is_pointer(text: &str) -> bool {
    let mut tokens = text.split('/');
    let points = tokens.next() == Some("") && text.len() > 1;
    points && tokens.all(|token| pointer_name(token).is_some())
}

fn check_secrets(pointers: &[String]) -> Result<(), String> {
    if pointers.len() > SECRET_POINTERS_MAX {
        return Err(format!("must have at most {SECRET_POINTERS_MAX} entries"));
    }
    let is_wrong =
        |pointer: &&String| !is_pointer(pointer) || pointer.len() > SUBJECT_POINTER_BYTES_MAX;
    match pointers.iter().find(is_wrong) {
        None => Ok(()),
        Some(_) => Err(format!(
            "must be pointers to arguments, such as `/token`, of at most {SUBJECT_POINTER_BYTES_MAX} bytes"
        )),
    }
}

fn check_pointer(pointer: &str) -> Result<(), &'static str> {
    if !is_pointer(pointer) {
        return Err("must have a pointer to an argument, such as `/command`");
    }
    if pointer.len() > SUBJECT_POINTER_BYTES_MAX {
        return Err("must have a pointer of at most 256 bytes");
    }
    Ok(())
}

fn check_subject(subject: &DeclaredSubject) -> Result<(), &'static str> {
    check_pointer(&subject.pointer)?;
    if subject.kind.is_none() {
        return Err("must have a type");
    }
    if subject.dialect.len() > DIALECT_BYTES_MAX {
        return Err("must have a dialect of at most 32 bytes");
    }
    Ok(())
}

fn dubious(definition: &ToolDefinition, risk: Risk) -> Vec<ToolWarning> {
    let mut warnings = Vec::new();
    if definition.description.trim().is_empty() {
        warnings.push(ToolWarning {
            code: "description_empty",
            path: String::new(),
            message: "the model decides by the description whether to call the tool".to_owned(),
        });
    }
    if risk == Risk::Safe && definition.kind.is_dubious_when_safe() {
        let kind = definition.kind.as_str();
        warnings.push(ToolWarning {
            code: "risk_below_kind",
            path: String::new(),
            message: format!("a safe tool of kind `{kind}` runs without being asked"),
        });
    }
    warnings
}

/// A tool that several may hold.
pub type SharedTool = Arc<Tool>;
