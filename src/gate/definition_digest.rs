//! The digest of a tool's definition, and in what two definitions differ.
//!
//! Both see the same fields, JSON by its meaning. Never judges a definition: that is `tool`.

use bytes::Bytes;

use super::json::{Document, JsonLimits};
use super::result::Digest;
use super::tool::{DeclaredSubject, Risk, SubjectKind, ToolDefinition};

/// SHA-256 over the definition's canonical JSON: every field, keys sorted, schema in dispatch form.
pub(super) fn digest_of(definition: &ToolDefinition) -> Digest {
    let json = |text: &Bytes| canonical_text(text);
    let mut fields = serde_json::json!({
        "annotations": json(&definition.annotations),
        "description": definition.description,
        "dialect": definition.dialect.as_str(),
        "exclusive": definition.exclusive,
        "has_permission_check": definition.has_permission_check,
        "idempotent": definition.idempotent,
        "kind": definition.kind.as_str(),
        "loop_exempt": definition.loop_exempt,
        "loop_key": definition.loop_key,
        "max_concurrency": definition.max_concurrency,
        "name": definition.name.as_str(),
        "parameters": json(&definition.parameters),
        "risk": definition.risk.map(Risk::as_str),
        "services": definition.services,
        "skip_permission": definition.skip_permission,
        "subject": definition.subject.as_ref().map(subject_words),
        "supports_cancellation": definition.supports_cancellation,
        "timeout_ms": definition.timeout_ms,
        "version": definition.version,
    });
    // Left out where there is none, as it was before there could be any.
    if let (false, Some(fields)) = (
        definition.secret_pointers.is_empty(),
        fields.as_object_mut(),
    ) {
        let secrets = serde_json::json!(definition.secret_pointers);
        fields.insert("secret_pointers".to_owned(), secrets);
    }
    Digest::of(fields.to_string().as_bytes())
}

fn subject_words(subject: &DeclaredSubject) -> [&str; 3] {
    let kind = subject.kind.map_or("", SubjectKind::as_str);
    [&subject.pointer, kind, &subject.dialect]
}

/// The dispatch form of JSON text; text that is no JSON stands for itself.
fn canonical_text(text: &Bytes) -> String {
    let form = Document::parse(text, &annotation_limits().for_schema())
        .map_or_else(|_| text.clone(), |document| document.dispatch_form());
    String::from_utf8_lossy(&form).into_owned()
}

impl JsonLimits {
    /// The same without a bound on values: schemas have bounds of their own.
    fn for_schema(self) -> Self {
        Self {
            depth_max: u16::MAX,
            nodes_max: usize::MAX,
            ..self
        }
    }
}

/// Which fields differ between two definitions of one name, as their digests see them.
pub(super) fn changed_fields(before: &ToolDefinition, after: &ToolDefinition) -> Vec<&'static str> {
    let differs = |one: &Bytes, other: &Bytes| canonical_text(one) != canonical_text(other);
    let differences = [
        ("description", before.description != after.description),
        (
            "parameters_json",
            differs(&before.parameters, &after.parameters),
        ),
        ("schema_dialect", before.dialect != after.dialect),
        ("risk_level", before.risk != after.risk),
        ("kind", before.kind != after.kind),
        ("subject", before.subject != after.subject),
        (
            "skip_permission",
            before.skip_permission != after.skip_permission,
        ),
        ("loop_exempt", before.loop_exempt != after.loop_exempt),
        ("loop_key", before.loop_key != after.loop_key),
        ("idempotent", before.idempotent != after.idempotent),
        ("exclusive", before.exclusive != after.exclusive),
        ("timeout_ms", before.timeout_ms != after.timeout_ms),
        (
            "max_concurrency",
            before.max_concurrency != after.max_concurrency,
        ),
        (
            "supports_cancellation",
            before.supports_cancellation != after.supports_cancellation,
        ),
        (
            "has_permission_check",
            before.has_permission_check != after.has_permission_check,
        ),
        (
            "secret_pointers",
            before.secret_pointers != after.secret_pointers,
        ),
        ("services", before.services != after.services),
        ("version", before.version != after.version),
        (
            "annotations_json",
            differs(&before.annotations, &after.annotations),
        ),
    ];
    differences
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
}

/// The bounds of JSON in a definition.
pub(super) fn annotation_limits() -> JsonLimits {
    JsonLimits {
        bytes_max: usize::MAX,
        depth_max: 32,
        nodes_max: 10_000,
    }
}
