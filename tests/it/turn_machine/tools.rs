//! Tools for turns on paper: one per way in which the machine tells tools apart.
//!
//! Never compiled into the product.

use bytes::Bytes;
use callgate::gate::ids::{OwnerName, ToolName, UnixMillis};
use callgate::gate::limits::Limits;
use callgate::gate::registry::{Registration, Registry};
use callgate::gate::schema::{SchemaDialect, SchemaOptions};
use callgate::gate::tool::{Kind, Risk, ToolDefinition, ToolRules};

/// The rules of a deployment that changed nothing.
pub(crate) fn rules() -> ToolRules {
    ToolRules {
        unspecified_risk: Risk::Safe,
        default_timeout_ms: 120_000,
        dialects: vec![SchemaDialect::Core, SchemaDialect::JsonSchema202012],
        schema: SchemaOptions::default(),
    }
}

/// A safe tool of no particular kind, which takes any object.
pub(crate) fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: ToolName::trusted(name),
        description: format!("the tool {name}"),
        parameters: Bytes::new(),
        dialect: SchemaDialect::Core,
        risk: Some(Risk::Safe),
        kind: Kind::Other,
        idempotent: false,
        exclusive: false,
        timeout_ms: None,
        max_concurrency: 0,
        supports_cancellation: true,
        has_permission_check: false,
        secret_pointers: Vec::new(),
        services: Vec::new(),
        version: String::new(),
        annotations: Bytes::new(),
        subject: None,
        skip_permission: false,
        loop_exempt: false,
        loop_key: Vec::new(),
    }
}

/// Registers for `owner`, every name held.
pub(crate) fn register(
    registry: &mut Registry,
    owner: &str,
    definitions: Vec<ToolDefinition>,
) -> Vec<Registration> {
    registry.register(
        &OwnerName::trusted(owner),
        definitions,
        UnixMillis(1),
        &rules(),
        &Limits::default(),
        &|_| true,
    )
}

/// `read` may be repeated, `put` too for another reason; `write`, `deaf` and `solo` must not.
pub(crate) fn registry() -> Registry {
    let parameters = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    let tool = |name: &str, kind: Kind| ToolDefinition {
        parameters: Bytes::from(parameters),
        kind,
        timeout_ms: Some(10_000),
        ..definition(name)
    };
    let mut registry = Registry::default();
    let tools = vec![
        tool("read", Kind::Read),
        tool("write", Kind::Edit),
        ToolDefinition {
            idempotent: true,
            ..tool("put", Kind::Edit)
        },
        ToolDefinition {
            supports_cancellation: false,
            ..tool("deaf", Kind::Edit)
        },
        ToolDefinition {
            exclusive: true,
            ..tool("solo", Kind::Edit)
        },
        ToolDefinition {
            risk: Some(Risk::Dangerous),
            ..tool("drop", Kind::Delete)
        },
    ];
    for registration in register(&mut registry, "paper", tools) {
        assert!(matches!(registration, Registration::Active { .. }));
    }
    registry
}
