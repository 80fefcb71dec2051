//! Tools that tests register.

use callgate_client::pb::v1 as pb;

const TEXT: &str = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;

fn tool(name: &str, risk: pb::RiskLevel, kind: pb::ToolKind) -> pb::ToolDefinition {
    pb::ToolDefinition {
        name: name.to_owned(),
        description: "For tests.".to_owned(),
        parameters_json: TEXT.into(),
        risk_level: risk as i32,
        kind: kind as i32,
        supports_cancellation: true,
        ..pb::ToolDefinition::default()
    }
}

/// Safe and only reads: may be sent twice.
pub(crate) fn echo() -> pb::ToolDefinition {
    tool("echo", pb::RiskLevel::Safe, pb::ToolKind::Read)
}

/// Safe, but acts: is recorded before it is sent, and never sent twice.
pub(crate) fn write() -> pb::ToolDefinition {
    tool("write", pb::RiskLevel::Safe, pb::ToolKind::Other)
}

/// Acts, but a second time does no harm.
pub(crate) fn put() -> pb::ToolDefinition {
    pb::ToolDefinition {
        idempotent: true,
        ..tool("put", pb::RiskLevel::Safe, pb::ToolKind::Other)
    }
}

/// Needs an approval.
pub(crate) fn edit() -> pb::ToolDefinition {
    tool("edit", pb::RiskLevel::Sensitive, pb::ToolKind::Edit)
}

/// Needs an approval all the more.
pub(crate) fn erase() -> pb::ToolDefinition {
    tool("erase", pb::RiskLevel::Dangerous, pb::ToolKind::Delete)
}

/// The same tool under another name.
pub(crate) fn named(name: &str, mut tool: pb::ToolDefinition) -> pb::ToolDefinition {
    name.clone_into(&mut tool.name);
    tool
}

/// The same tool with a schema, in the dialect given.
pub(crate) fn with_schema(
    mut tool: pb::ToolDefinition,
    dialect: pb::SchemaDialect,
    schema: &str,
) -> pb::ToolDefinition {
    tool.schema_dialect = dialect as i32;
    tool.parameters_json = schema.to_owned().into();
    tool
}
