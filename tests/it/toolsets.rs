//! Views over the registry: what they show, what they stand on, what is copied into them.
//!
//! Never starts a sidecar.

use callgate::gate::ids::ToolName;
use callgate::gate::registry::Registry;
use callgate::gate::toolset::{BASES_MAX, Toolset, ToolsetError, Toolsets, glob_matches};

use crate::turn_machine::tools::{definition, register};

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
    let put = |toolsets: &mut Toolsets, name: &str, base: &str| {
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
