//! Registration, as values.
//!
//! Cases that other languages share stand in `tests/vectors/registry.json`. Never starts a sidecar.

use bytes::Bytes;
use callgate::gate::ids::{OwnerName, ToolName, UnixMillis};
use callgate::gate::limits::Limits;
use callgate::gate::registry::{Registration, Registry};
use callgate::gate::schema::SchemaDialect;
use callgate::gate::tool::{DeclaredSubject, Kind, Risk, SubjectKind, ToolDefinition, ToolRules};
use serde::Deserialize;

use crate::turn_machine::tools::{definition, register, rules};

/// A registry and what becomes of it, step by step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    limits: Limits,
    dialects: Option<Vec<String>>,
    unspecified_risk: Option<Risk>,
    steps: Vec<Step>,
    /// The names that are registered in the end.
    tools: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Step {
    Register {
        register: Message,
        expect: Vec<Expect>,
    },
    Unregister {
        unregister: String,
        found: bool,
    },
}

/// One registration message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    owner: String,
    /// Whether somebody runs the tools of other owners.
    #[serde(default = "yes")]
    held: bool,
    tools: Vec<Definition>,
}

fn yes() -> bool {
    true
}

/// A definition; what is absent is not told or false, and the description is the name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    name: String,
    description: Option<String>,
    parameters: Option<serde_json::Value>,
    /// The schema as text, where its writing matters.
    parameters_text: Option<String>,
    dialect: Option<String>,
    risk: Option<Risk>,
    kind: Option<String>,
    timeout_ms: Option<u32>,
    #[serde(default)]
    services: Vec<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    annotations: String,
    subject: Option<SubjectCase>,
    #[serde(default)]
    skip_permission: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectCase {
    pointer: String,
    kind: Option<String>,
    #[serde(default)]
    dialect: String,
}

impl SubjectCase {
    fn read(&self) -> DeclaredSubject {
        let kinds = [
            SubjectKind::Command,
            SubjectKind::Path,
            SubjectKind::Url,
            SubjectKind::Text,
        ];
        let named = |name: &String| kinds.into_iter().find(|kind| kind.as_str() == name);
        DeclaredSubject {
            pointer: self.pointer.clone(),
            kind: self.kind.as_ref().map(|name| named(name).unwrap()),
            dialect: self.dialect.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expect {
    Refused(Refused),
    Active(Active),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    code: String,
    path: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Active {
    generation: u32,
    changed: bool,
    risk: Option<Risk>,
    /// Compared only where the tool changed.
    #[serde(default)]
    changed_fields: Vec<String>,
    #[serde(default)]
    warnings: Vec<Warning>,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Warning {
    code: String,
    path: String,
}

fn dialect(name: &str) -> SchemaDialect {
    [SchemaDialect::Core, SchemaDialect::JsonSchema202012]
        .into_iter()
        .find(|dialect| dialect.as_str() == name)
        .unwrap()
}

fn kind(name: &str) -> Kind {
    let kinds = [
        Kind::Read,
        Kind::Fetch,
        Kind::Edit,
        Kind::Delete,
        Kind::Execute,
        Kind::Interact,
        Kind::Other,
    ];
    kinds
        .into_iter()
        .find(|kind| kind.as_str() == name)
        .unwrap()
}

impl Definition {
    fn read(&self) -> ToolDefinition {
        let parameters = match (&self.parameters, &self.parameters_text) {
            (Some(schema), None) => schema.to_string(),
            (None, text) => text.clone().unwrap_or_default(),
            (Some(_), Some(_)) => panic!("{}: a schema and its text", self.name),
        };
        ToolDefinition {
            description: self.description.clone().unwrap_or_else(|| "d".to_owned()),
            parameters: Bytes::from(parameters),
            dialect: self.dialect.as_deref().map_or(SchemaDialect::Core, dialect),
            risk: self.risk,
            kind: self.kind.as_deref().map_or(Kind::Other, kind),
            timeout_ms: self.timeout_ms,
            services: self.services.clone(),
            version: self.version.clone(),
            annotations: Bytes::from(self.annotations.clone()),
            subject: self.subject.as_ref().map(SubjectCase::read),
            skip_permission: self.skip_permission,
            ..definition(&self.name)
        }
    }
}

impl Case {
    fn rules(&self) -> ToolRules {
        let mut rules = rules();
        if let Some(dialects) = &self.dialects {
            rules.dialects = dialects.iter().map(|name| dialect(name)).collect();
        }
        if let Some(risk) = self.unspecified_risk {
            rules.unspecified_risk = risk;
        }
        rules.schema.bytes_max = usize::try_from(self.limits.schema_bytes_max).unwrap();
        rules.schema.depth_max = u16::try_from(self.limits.schema_depth_max).unwrap();
        rules
    }

    fn check(&self) {
        let mut registry = Registry::default();
        for (position, step) in self.steps.iter().enumerate() {
            let place = format!("{}, step {position}", self.name);
            match step {
                Step::Register { register, expect } => {
                    let owner = OwnerName::trusted(register.owner.as_str());
                    let outcomes = registry.register(
                        &owner,
                        register.tools.iter().map(Definition::read).collect(),
                        UnixMillis(1),
                        &self.rules(),
                        &self.limits,
                        &|_| register.held,
                    );
                    assert_eq!(outcomes.len(), expect.len(), "{place}");
                    for (outcome, expect) in outcomes.iter().zip(expect) {
                        check_outcome(&place, &owner, outcome, expect);
                    }
                }
                Step::Unregister { unregister, found } => {
                    let removed = registry.unregister(&ToolName::trusted(unregister.as_str()));
                    assert_eq!(removed.is_some(), *found, "{place}");
                }
            }
        }
        let names: Vec<&str> = registry
            .iter()
            .map(|tool| tool.definition.name.as_str())
            .collect();
        assert_eq!(names, self.tools, "{}", self.name);
    }
}

fn check_outcome(place: &str, owner: &OwnerName, outcome: &Registration, expect: &Expect) {
    match (outcome, expect) {
        (Registration::Refused { error, .. }, Expect::Refused(expect)) => {
            assert_eq!(error.code(), expect.code, "{place}: {error}");
            if let Some(path) = &expect.path {
                assert_eq!(error.path(), path, "{place}");
            }
            if let Some(message) = &expect.message {
                assert_eq!(error.to_string(), *message, "{place}");
            }
        }
        (Registration::Active { tool, changed }, Expect::Active(expect)) => {
            assert_eq!(tool.owner, *owner, "{place}");
            assert_eq!(
                (tool.generation, *changed),
                (expect.generation, expect.changed),
                "{place}"
            );
            if *changed {
                assert_eq!(tool.changed_fields, expect.changed_fields, "{place}");
            }
            if let Some(risk) = expect.risk {
                assert_eq!(tool.risk, risk, "{place}");
            }
            let warnings = tool.warnings.iter().map(|warning| Warning {
                code: warning.code.to_owned(),
                path: warning.path.clone(),
            });
            if *changed {
                assert_eq!(warnings.collect::<Vec<_>>(), expect.warnings, "{place}");
            }
        }
        (Registration::Refused { error, .. }, Expect::Active(_)) => panic!("{place}: {error}"),
        (Registration::Active { tool, .. }, Expect::Refused(expect)) => {
            panic!(
                "{place}: `{}` was taken, {} expected",
                tool.definition.name, expect.code
            )
        }
    }
}

#[test]
fn registration_answers_as_its_vectors_say() {
    let text = std::fs::read("tests/vectors/registry.json").unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&text).unwrap();
    cases.iter().for_each(Case::check);
}

fn digest(definition: ToolDefinition) -> callgate::gate::result::Digest {
    let mut registry = Registry::default();
    let outcomes = register(&mut registry, "a", vec![definition]);
    let [Registration::Active { tool, .. }] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    tool.digest
}

#[test]
fn every_field_of_a_definition_changes_its_digest() {
    let base = ToolDefinition {
        parameters: Bytes::from_static(
            br#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
        ),
        services: vec!["one".to_owned(), "two".to_owned()],
        ..definition("tool")
    };
    let changes: &[fn(&mut ToolDefinition)] = &[
        |it| it.name = ToolName::trusted("other"),
        |it| it.description.push('.'),
        |it| it.parameters = Bytes::from_static(br#"{"type":"object"}"#),
        |it| it.dialect = SchemaDialect::JsonSchema202012,
        |it| it.risk = None,
        |it| it.risk = Some(Risk::Dangerous),
        |it| it.kind = Kind::Interact,
        |it| it.loop_exempt = true,
        |it| it.loop_key = vec!["/a".to_owned()],
        |it| it.loop_key = vec!["/a/b".to_owned()],
        |it| it.idempotent = true,
        |it| it.exclusive = true,
        |it| it.timeout_ms = Some(120_000),
        |it| it.max_concurrency = 1,
        |it| it.supports_cancellation = false,
        |it| it.has_permission_check = true,
        |it| it.services.reverse(),
        |it| it.services = vec!["one,two".to_owned()],
        |it| it.version.push('1'),
        |it| it.annotations = Bytes::from_static(b"{}"),
    ];
    let mut seen = std::collections::BTreeSet::from([digest(base.clone())]);
    for (position, change) in changes.iter().enumerate() {
        let mut changed = base.clone();
        change(&mut changed);
        assert!(
            seen.insert(digest(changed)),
            "change {position} makes no difference"
        );
    }
}

#[test]
fn the_writing_of_a_schema_does_not_change_its_digest() {
    let with = |parameters: &'static str| {
        digest(ToolDefinition {
            parameters: Bytes::from_static(parameters.as_bytes()),
            dialect: SchemaDialect::JsonSchema202012,
            ..definition("tool")
        })
    };
    let base = with(r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"maximum":1}}}"#);
    let same = [
        " {\n\"type\" : \"object\" ,\t\"properties\":{\"b\":{\"maximum\":1},\"a\":{\"type\":\"string\"}}}\r\n",
        r#"{"properties":{"\u0061":{"type":"str\u0069ng"},"b":{"maximum":1}},"type":"object"}"#,
    ];
    for text in same {
        assert_eq!(with(text), base, "{text}");
    }
    // A number keeps its writing, as in arguments.
    let other = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"maximum":1.0}}}"#;
    assert_ne!(with(other), base);
}

#[test]
fn a_registry_that_was_shared_does_not_change_under_its_reader() {
    let mut registry = Registry::default();
    register(&mut registry, "a", vec![definition("one")]);
    let reader = registry.clone();
    register(&mut registry, "a", vec![definition("two")]);
    assert_eq!((reader.len(), registry.len()), (1, 2));
    assert!(registry.revision > reader.revision);
}

#[test]
fn registering_the_same_again_does_not_grow_the_revision() {
    let mut registry = Registry::default();
    register(&mut registry, "a", vec![definition("one")]);
    let revision = registry.revision;
    register(&mut registry, "a", vec![definition("one")]);
    registry.unregister(&ToolName::trusted("none"));
    assert_eq!(registry.revision, revision);
}

#[test]
fn a_loop_key_holds_few_and_short_pointers() {
    let problem = |keys: Vec<String>| {
        let mut registry = Registry::default();
        let definition = ToolDefinition {
            loop_key: keys,
            ..definition("tool")
        };
        let outcomes = register(&mut registry, "a", vec![definition]);
        match outcomes.as_slice() {
            [Registration::Active { .. }] => None,
            [Registration::Refused { error, .. }] => Some((error.code(), error.to_string())),
            other => panic!("{other:?}"),
        }
    };
    let pointer = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
    assert_eq!(problem(vec![pointer(256); 16]), None);
    let invalid = |text: &str| Some(("tool_definition_invalid", text.to_owned()));
    assert_eq!(
        problem(vec![pointer(2); 17]),
        invalid("`loop_key` must have at most 16 entries")
    );
    assert_eq!(
        problem(vec![pointer(257)]),
        invalid("`loop_key` must have a pointer of at most 256 bytes")
    );
    for wrong in ["", "/", "path", "/a~2"] {
        assert_eq!(
            problem(vec![wrong.to_owned()]),
            invalid("`loop_key` must have a pointer to an argument, such as `/command`"),
            "{wrong}"
        );
    }
}
