//! Registration and toolsets, as values.
//!
//! Cases that other languages share stand in `tests/vectors/registry.json`. Never starts a sidecar.

use bytes::Bytes;
use callgate::gate::ids::{OwnerName, ToolName, UnixMillis};
use callgate::gate::limits::Limits;
use callgate::gate::registry::{Registration, Registry};
use callgate::gate::schema::SchemaDialect;
use callgate::gate::tool::{Kind, Risk, ToolDefinition, ToolRules};
use callgate::gate::toolset::{BASES_MAX, Toolset, ToolsetError, glob_matches};
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
        |it| it.idempotent = true,
        |it| it.exclusive = true,
        |it| it.timeout_ms = Some(120_000),
        |it| it.max_concurrency = 1,
        |it| it.supports_cancellation = false,
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

fn toolset(name: &str, base: &str, include: &[&str], exclude: &[&str]) -> Toolset {
    let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
    Toolset {
        name: name.to_owned(),
        base: base.to_owned(),
        include: owned(include),
        exclude: owned(exclude),
        version: 0,
    }
}

/// A registry of tools with these names.
fn registry(names: &[&str]) -> Registry {
    let mut registry = Registry::default();
    register(
        &mut registry,
        "a",
        names.iter().map(|name| definition(name)).collect(),
    );
    registry
}

fn shown<'a>(registry: &'a Registry, toolset: &str) -> Vec<&'a str> {
    let visible = registry.visible(Some(toolset));
    visible
        .into_iter()
        .map(|tool| tool.definition.name.as_str())
        .collect()
}

const TOOLS: &[&str] = &["delegate_task", "fs.read", "fs.write", "weather"];

#[test]
fn a_toolset_narrows_by_names_and_globs() {
    let mut registry = registry(TOOLS);
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&[], &[], TOOLS),
        (&["weather"], &[], &["weather"]),
        (&["fs.*"], &["*.write"], &["fs.read"]),
        (&[], &["delegate_*"], &["fs.read", "fs.write", "weather"]),
        (&["weather"], &["weather"], &[]),
        (&["fs.????"], &[], &["fs.read"]),
        (&[""], &[], &[]),
        (&["*"], &["*"], &[]),
    ];
    for (include, exclude, expected) in cases {
        registry
            .toolsets
            .put(toolset("set", "", include, exclude), None)
            .unwrap();
        assert_eq!(
            shown(&registry, "set"),
            *expected,
            "{include:?} {exclude:?}"
        );
    }
}

#[test]
fn a_toolset_that_does_not_exist_shows_nothing() {
    assert_eq!(shown(&registry(TOOLS), "none"), Vec::<&str>::new());
}

#[test]
fn a_tool_registered_later_shows_where_a_glob_lets_it() {
    let mut registry = registry(TOOLS);
    registry
        .toolsets
        .put(toolset("fs", "", &["fs.*"], &[]), None)
        .unwrap();
    register(&mut registry, "a", vec![definition("fs.list")]);
    assert_eq!(shown(&registry, "fs"), ["fs.list", "fs.read", "fs.write"]);
}

#[test]
fn a_toolset_never_shows_more_than_its_base() {
    let mut registry = registry(TOOLS);
    let sets = [
        toolset("fs", "", &["fs.*"], &[]),
        toolset("reading", "fs", &[], &["*.write"]),
        toolset("all", "reading", &["*"], &[]),
    ];
    for set in sets {
        registry.toolsets.put(set, None).unwrap();
    }
    assert_eq!(shown(&registry, "all"), ["fs.read"]);
    // A base that changes changes what stands on it.
    registry
        .toolsets
        .put(toolset("fs", "", &["weather"], &[]), None)
        .unwrap();
    assert_eq!(shown(&registry, "all"), ["weather"]);
}

#[test]
fn bases_form_no_ring_and_no_long_chain() {
    let mut toolsets = registry(TOOLS).toolsets;
    let too_deep = |name: &str| {
        Err(ToolsetError::BasesTooDeep {
            name: name.to_owned(),
        })
    };
    let put = |toolsets: &mut callgate::gate::toolset::Toolsets, name: &str, base: &str| {
        toolsets
            .put(toolset(name, base, &[], &[]), None)
            .map(|_| ())
    };
    assert_eq!(put(&mut toolsets, "self", "self"), too_deep("self"));
    put(&mut toolsets, "0", "").unwrap();
    put(&mut toolsets, "1", "0").unwrap();
    assert_eq!(put(&mut toolsets, "0", "1"), too_deep("0"));
    for step in 2..=BASES_MAX {
        put(&mut toolsets, &step.to_string(), &(step - 1).to_string()).unwrap();
    }
    let one_more = (BASES_MAX + 1).to_string();
    assert_eq!(
        put(&mut toolsets, &one_more, &BASES_MAX.to_string()),
        too_deep(&one_more)
    );
    assert!(toolsets.shows(&BASES_MAX.to_string(), &ToolName::trusted("weather")));
}

#[test]
fn an_unknown_base_is_refused() {
    let mut toolsets = registry(TOOLS).toolsets;
    let unknown = ToolsetError::Unknown {
        name: "none".to_owned(),
    };
    assert_eq!(
        toolsets.put(toolset("set", "none", &[], &[]), None),
        Err(unknown)
    );
    assert!(toolsets.is_empty());
}

#[test]
fn toolset_names_are_like_tool_names() {
    let mut toolsets = registry(TOOLS).toolsets;
    let long = "x".repeat(65);
    for name in ["", " ", "a b", "a/b", "ü", long.as_str()] {
        let put = toolsets.put(toolset(name, "", &[], &[]), None);
        assert!(
            matches!(put, Err(ToolsetError::NameInvalid { .. })),
            "{name}"
        );
    }
    toolsets
        .put(toolset(&long[..64], "", &[], &[]), None)
        .unwrap();
}

#[test]
fn a_toolset_is_replaced_only_by_whoever_read_it() {
    let mut toolsets = registry(TOOLS).toolsets;
    let mismatch = ToolsetError::VersionMismatch {
        name: "set".to_owned(),
    };
    let set = || toolset("set", "", &[], &[]);
    assert_eq!(toolsets.put(set(), Some(1)), Err(mismatch.clone()));
    let first = toolsets.put(set(), None).unwrap().version;
    let second = toolsets.put(set(), Some(first)).unwrap().version;
    assert!(second > first);
    assert_eq!(toolsets.put(set(), Some(first)), Err(mismatch.clone()));
    // A version is not given twice, so that a toolset made anew is not taken for the old one.
    toolsets.delete("set").unwrap();
    assert_eq!(toolsets.put(set(), Some(second)), Err(mismatch));
    assert!(toolsets.put(set(), None).unwrap().version > second);
}

#[test]
fn a_base_in_use_is_not_deleted() {
    let mut toolsets = registry(TOOLS).toolsets;
    toolsets.put(toolset("base", "", &[], &[]), None).unwrap();
    toolsets
        .put(toolset("user", "base", &[], &[]), None)
        .unwrap();
    let in_use = ToolsetError::InUse {
        name: "base".to_owned(),
        user: "user".to_owned(),
    };
    assert_eq!(toolsets.delete("base"), Err(in_use));
    toolsets.delete("user").unwrap();
    toolsets.delete("base").unwrap();
    let unknown = ToolsetError::Unknown {
        name: "base".to_owned(),
    };
    assert_eq!(toolsets.delete("base"), Err(unknown));
}

#[test]
fn a_delegate_gets_every_tool_except_delegation() {
    let mut registry = registry(TOOLS);
    let made = registry
        .copy_into_excluding("", "worker", &["delegate_task".to_owned()])
        .unwrap();
    assert_eq!(made.include, ["fs.read", "fs.write", "weather"]);
    assert_eq!(
        shown(&registry, "worker"),
        ["fs.read", "fs.write", "weather"]
    );
    let delegate = ToolName::trusted("delegate_task");
    assert!(registry.look_up(&delegate, Some("worker")).is_none());
    assert!(registry.look_up(&delegate, None).is_some());
    // A copy is a list: what comes later does not slip in, least of all the delegation itself.
    register(&mut registry, "a", vec![definition("delegate_more")]);
    assert_eq!(
        shown(&registry, "worker"),
        ["fs.read", "fs.write", "weather"]
    );
}

#[test]
fn copying_everything_copies_what_the_source_shows_now() {
    let mut registry = registry(TOOLS);
    registry
        .toolsets
        .put(toolset("fs", "", &["fs.*"], &[]), None)
        .unwrap();
    registry.copy_into("fs", "copy").unwrap();
    registry
        .copy_into_excluding("", "copy", &["fs.*".to_owned(), "delegate*".to_owned()])
        .unwrap();
    assert_eq!(shown(&registry, "copy"), ["fs.read", "fs.write", "weather"]);
}

#[test]
fn copying_a_name_that_the_target_shows_copies_nothing() {
    let mut registry = registry(TOOLS);
    registry
        .toolsets
        .put(toolset("target", "", &["weather"], &[]), None)
        .unwrap();
    let revision = registry.revision;
    let duplicate = ToolsetError::ToolDuplicate {
        tool: "weather".to_owned(),
        target: "target".to_owned(),
    };
    assert_eq!(registry.copy_into("", "target"), Err(duplicate));
    assert_eq!(shown(&registry, "target"), ["weather"]);
    assert_eq!(registry.revision, revision);
}

#[test]
fn copying_a_name_that_the_target_leaves_out_copies_nothing() {
    let mut registry = registry(TOOLS);
    let hidden = |tool: &str, target: &str| {
        Err(ToolsetError::ToolHidden {
            tool: tool.to_owned(),
            target: target.to_owned(),
        })
    };
    // Shows everything but one: naming that one must not hide the rest.
    registry
        .toolsets
        .put(toolset("open", "", &[], &["weather"]), None)
        .unwrap();
    registry
        .toolsets
        .put(toolset("source", "", &["weather"], &[]), None)
        .unwrap();
    registry
        .toolsets
        .put(toolset("based", "open", &["fs.read"], &[]), None)
        .unwrap();
    assert_eq!(
        registry.copy_into("source", "open"),
        hidden("weather", "open")
    );
    assert_eq!(
        registry.copy_into("source", "based"),
        hidden("weather", "based")
    );
    assert_eq!(
        shown(&registry, "open"),
        ["delegate_task", "fs.read", "fs.write"]
    );
}

#[test]
fn copying_nothing_makes_a_toolset_that_shows_nothing() {
    let mut registry = registry(TOOLS);
    registry
        .copy_into_excluding("", "none", &["*".to_owned()])
        .unwrap();
    assert_eq!(shown(&registry, "none"), Vec::<&str>::new());
    registry
        .toolsets
        .put(toolset("one", "", &["weather"], &[]), None)
        .unwrap();
    registry.copy_into("one", "none").unwrap();
    assert_eq!(shown(&registry, "none"), ["weather"]);
}

#[test]
fn copying_from_or_to_a_bad_name_changes_nothing() {
    let mut registry = registry(TOOLS);
    let revision = registry.revision;
    assert!(matches!(
        registry.copy_into("none", "x"),
        Err(ToolsetError::Unknown { .. })
    ));
    assert!(matches!(
        registry.copy_into("", "a b"),
        Err(ToolsetError::NameInvalid { .. })
    ));
    assert_eq!(registry.revision, revision);
    assert!(registry.toolsets.is_empty());
}

#[test]
fn globs_match_whole_names() {
    let cases = [
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("*", "anything", true),
        ("a", "ab", false),
        ("b", "ab", false),
        ("a*", "a", true),
        ("*a", "ba", true),
        ("a*b*c", "a_b_b_c", true),
        ("a*b*c", "a_b_b", false),
        ("**", "x", true),
        ("?", "", false),
        ("?", "x", true),
        ("?*", "x", true),
        ("*?", "", false),
        ("a?c", "abc", true),
        ("A", "a", false),
        ("[ab]", "a", false),
        ("a.c", "abc", false),
        ("*.*", "fs.read", true),
    ];
    for (glob, name, expected) in cases {
        assert_eq!(glob_matches(glob, name), expected, "`{glob}` on `{name}`");
    }
}

#[test]
fn a_hostile_glob_takes_no_more_steps_than_the_product_of_the_lengths() {
    // Exponential matchers need longer than the age of the world for these.
    let name = "a".repeat(128);
    for glob in [
        "a*".repeat(1_000) + "b",
        "*a".repeat(1_000) + "?",
        "?*".repeat(500) + "b",
    ] {
        assert!(!glob_matches(&glob, &name));
    }
    assert!(glob_matches(&"*".repeat(10_000), &name));
}
