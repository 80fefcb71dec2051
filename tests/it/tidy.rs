//! What this repository promises about its own text: who imports what, what is documented, what is
//! tested.
//!
//! Never runs the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use callgate::gate::limits::Limits;
use callgate::gate::refusal::RESERVED_CODES;

/// Longest file of ours, in lines.
const LINES_MAX: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `folder` that is ours, from the root, sorted; `ends` is the end of its name.
pub(crate) fn files(folder: &str, ends: &str) -> Vec<String> {
    let skipped = ["target", "node_modules", "__pycache__", "venv"];
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // `.ci` is ours; `.git` (a file, in a work tree of its own), caches and environments are not.
            let hidden = name.starts_with('.') && name != ".ci";
            if path.is_dir() {
                if !hidden && !skipped.contains(&name.as_str()) {
                    open.push(path);
                }
            } else if name.ends_with(ends) && name != ".git" {
                let path = path.strip_prefix(root()).unwrap();
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

fn is_generated(path: &str) -> bool {
    path.ends_with("pb/callgate.v1.rs")
}

/// Rust files of ours, generated ones left out.
pub(crate) fn rust_files() -> Vec<String> {
    let folders = ["src", "clients/rust", "proto/codegen", "tests"];
    let all = folders.into_iter().flat_map(|folder| files(folder, ".rs"));
    all.filter(|path| !is_generated(path)).collect()
}

/// The text without comments.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every name that follows `before` in the text, e.g. `gate` for `crate::gate`.
fn names_after(text: &str, before: &str) -> BTreeSet<String> {
    let rests = text.split(before).skip(1);
    rests
        .map(|rest| {
            let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
            rest.split(|character| !is_name(character))
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

/// Names that stand before `::` and are no part of a longer path.
fn path_heads(text: &str) -> BTreeSet<String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut heads = BTreeSet::new();
    for (at, _) in text.match_indices("::") {
        let before = &text[..at];
        let start = before
            .rfind(|character| !is_name(character))
            .map_or(0, |at| at + 1);
        if !before[..start].ends_with("::") {
            heads.insert(before[start..].to_owned());
        }
    }
    heads
}

/// What each module of ours may import of ours, besides itself. `base` is open to all but `gate`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("bin", &["base", "gate", "pb"]),
    (
        "cli",
        &[
            "base",
            "config",
            "engine",
            "executor",
            "gate",
            "server",
            "store",
            "telemetry",
            "tool_import",
        ],
    ),
    ("config", &["gate"]),
    (
        "engine",
        &["base", "config", "executor", "gate", "store", "telemetry"],
    ),
    ("executor", &["base", "config", "gate", "pb", "telemetry"]),
    ("gate", &[]),
    ("lib", &[]),
    ("main", &["cli"]),
    ("pb", &[]),
    (
        "server",
        &[
            "base",
            "config",
            "engine",
            "executor",
            "gate",
            "pb",
            "telemetry",
        ],
    ),
    ("store", &["base", "config", "gate", "telemetry"]),
    ("telemetry", &["config", "gate"]),
    ("tool_import", &[]),
];

/// The module that a file under `src` belongs to.
fn module_of(path: &str) -> String {
    let inner = path.strip_prefix("src/").unwrap();
    inner
        .split('/')
        .next()
        .unwrap()
        .trim_end_matches(".rs")
        .to_owned()
}

#[test]
fn modules_import_what_the_map_lets_them() {
    let allowed: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut present = BTreeSet::new();
    for path in files("src", ".rs") {
        let module = module_of(&path);
        let text = code(&read(&path));
        // A group would hide names from this test.
        assert!(
            !text.contains("crate::{"),
            "{path} imports a group from the root"
        );
        // A program's root is its own: what it takes of ours comes from the library.
        let root = match module.as_str() {
            "main" | "bin" => "callgate::",
            _ => "crate::",
        };
        let mut used = names_after(&text, root);
        used.remove(&module);
        let Some(may) = allowed.get(module.as_str()) else {
            panic!("`{module}` stands in no line of the table");
        };
        for name in used {
            if !may.contains(&name.as_str()) {
                wrong.push(format!("{path}: {module} must not import {name}"));
            }
        }
        present.insert(module);
    }
    assert_eq!(wrong, Vec::<String>::new());
    let table: BTreeSet<_> = MAY_IMPORT
        .iter()
        .map(|(module, _)| (*module).to_owned())
        .collect();
    assert_eq!(
        present, table,
        "the table holds modules that are not there, or lacks one"
    );
}

/// The names of all dependencies, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let table = manifest["dependencies"].as_table().unwrap();
    table.keys().map(|name| name.replace('-', "_")).collect()
}

/// The files under these modules that mention one of these crates.
fn users(is_module: impl Fn(&str) -> bool, crates: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in files("src", ".rs") {
        if is_generated(&path) || !is_module(&module_of(&path)) {
            continue;
        }
        let heads = path_heads(&code(&read(&path)));
        let used = crates.iter().filter(|name| heads.contains(**name));
        found.extend(used.map(|name| format!("{path}: {name}")));
    }
    found
}

#[test]
fn the_gate_uses_pure_libraries_only() {
    let pure = [
        "serde",
        "serde_json",
        "thiserror",
        "brush_parser",
        "bytes",
        "jsonschema",
        "globset",
        "sha2",
        "tree_sitter",
        "tree_sitter_bash",
        "url",
    ];
    let dependencies = dependencies();
    let others: Vec<&str> = dependencies
        .iter()
        .map(String::as_str)
        .filter(|name| !pure.contains(name))
        .collect();
    assert!(others.contains(&"tokio") && others.contains(&"tonic") && others.contains(&"prost"));
    assert_eq!(
        users(|module| module == "gate", &others),
        Vec::<String>::new()
    );
}

#[test]
fn the_gate_reads_no_clock_no_file_and_no_order_of_hashes() {
    let forbidden = [
        "std::time",
        "std::fs",
        "std::net",
        "std::thread",
        "std::process",
        "std::env",
        "std::io",
        "std::sync::Mutex",
        "Instant",
        "SystemTime",
        "HashMap",
        "HashSet",
        "async ",
        ".await",
        "println!",
        "dbg!",
    ];
    for path in files("src/gate", ".rs") {
        let text = code(&read(&path));
        for word in forbidden {
            assert!(!text.contains(word), "{path} has `{word}`");
        }
    }
}

#[test]
fn only_the_edges_know_protobuf_and_only_the_store_knows_sqlite() {
    let edges = ["bin", "cli", "executor", "pb", "server"];
    let inner = |module: &str| !edges.contains(&module);
    let wire = ["tonic", "tonic_prost", "tonic_health", "callgate_client"];
    assert_eq!(users(inner, &wire), Vec::<String>::new());
    // The store writes forms of its own, which no peer ever sees.
    let others = |module: &str| inner(module) && module != "store";
    assert_eq!(users(others, &["prost"]), Vec::<String>::new());
    assert_eq!(
        users(|module| module != "store", &["rusqlite"]),
        Vec::<String>::new()
    );
}

#[test]
fn only_one_file_spawns_tasks() {
    for path in files("src", ".rs") {
        let text = code(&read(&path));
        let spawns = text.contains("tokio::spawn") || text.contains(".spawn_blocking(");
        assert!(
            !spawns || path == "src/base/tasks.rs",
            "{path} spawns a task"
        );
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for path in rust_files() {
        assert!(
            read(&path).starts_with("//! "),
            "{path} does not begin with `//!`"
        );
    }
}

#[test]
fn nothing_is_left_to_do() {
    // In parts, so that this file passes itself.
    let words = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["X", "XX"],
        ["unimplemen", "ted!"],
        ["to", "do!("],
    ];
    for path in rust_files().into_iter().chain(files("proto", ".proto")) {
        let text = read(&path);
        for word in words.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{path} has `{word}`");
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    let long: Vec<String> = rust_files()
        .into_iter()
        .filter(|path| read(path).lines().count() > LINES_MAX)
        .collect();
    assert_eq!(long, [] as [&str; 0]);
}

fn pages() -> Vec<&'static str> {
    callgate::cli::explain::pages()
        .map(|(code, _)| code)
        .collect()
}

/// The words of the wire's error reasons, as codes.
fn error_reasons() -> BTreeSet<String> {
    let proto = read("proto/callgate/v1/errors.proto");
    let reasons = names_after(&code(&proto), "ERROR_REASON_");
    reasons
        .into_iter()
        .filter(|reason| reason != "UNSPECIFIED" && !reason.is_empty())
        .map(|reason| reason.to_lowercase())
        .collect()
}

#[test]
fn every_code_has_exactly_one_page_and_no_page_is_orphaned() {
    let mut codes = error_reasons();
    codes.extend(RESERVED_CODES.iter().map(|code| (*code).to_owned()));
    let pages = pages();
    let different: BTreeSet<String> = pages.iter().map(|code| (*code).to_owned()).collect();
    assert_eq!(different.len(), pages.len(), "a code has two pages");
    assert_eq!(different, codes);
}

#[test]
fn every_page_says_what_happened_and_what_to_do() {
    for (code, text) in callgate::cli::explain::pages() {
        assert!(text.split("\n\n").count() >= 2, "{code}: {text}");
        assert!(text.ends_with(['.', '`']), "{code}: {text}");
    }
}

#[test]
fn reserved_codes_are_different_and_well_formed() {
    let different: BTreeSet<_> = RESERVED_CODES.iter().collect();
    assert_eq!(different.len(), RESERVED_CODES.len());
    for code in RESERVED_CODES {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(code.bytes().all(is_plain) && code.len() <= 64, "{code}");
    }
}

#[test]
fn every_code_occurs_in_a_test_or_vector() {
    let sources = files("tests", ".rs")
        .into_iter()
        .chain(files("tests", ".json"));
    let text: String = sources.map(|path| read(&path)).collect();
    let missing: Vec<_> = RESERVED_CODES
        .iter()
        .filter(|code| {
            !text.contains(&format!("\"{code}\"")) && !text.contains(&format!(" {code} "))
        })
        .collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn every_limit_says_what_it_bounds_its_default_and_its_unit() {
    let source = read("src/gate/limits.rs");
    let lines: Vec<&str> = source.lines().collect();
    for row in Limits::default().rows() {
        let at = lines
            .iter()
            .position(|line| line.trim_start().starts_with(&format!("{}: ", row.name)));
        let above = lines[at.unwrap() - 1].trim();
        assert!(
            above.starts_with("/// ") && above.contains("Default "),
            "{}: {above}",
            row.name
        );
        let bytes = row.name.contains("_bytes");
        assert_eq!(
            row.unit == "bytes",
            bytes,
            "{} is told in {}",
            row.name,
            row.unit
        );
        assert!(row.value >= 1 && row.value <= row.ceiling, "{}", row.name);
    }
}

#[test]
fn every_setting_says_its_default() {
    let sources = ["src/config/mod.rs", "src/config/loops.rs"].map(read);
    let structs: String = sources
        .iter()
        .filter_map(|source| source.split("impl Default for").next())
        .collect();
    let mut doc = String::new();
    for line in structs.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push_str(text);
            doc.push(' ');
            continue;
        }
        // Sections have their settings told one by one.
        let is_section = line.ends_with("Config,") || line.ends_with("Limits,");
        if line.starts_with("pub ") && line.ends_with(',') && !is_section {
            assert!(doc.contains("Default"), "`{line}` does not say its default");
        }
        doc.clear();
    }
}

/// What cargo says about the features of `serde_json`.
fn serde_json_features(edges: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--edges",
            edges,
            "--invert",
            "serde_json",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("serde_json v1"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn numbers_and_keys_are_read_alike_by_product_and_tests() {
    // Build scripts have a `serde_json` of their own, compiled with other features.
    for edges in ["normal,features", "normal,dev,features"] {
        let tree = serde_json_features(edges);
        for feature in ["raw_value", "arbitrary_precision", "preserve_order"] {
            assert!(
                !tree.contains(&format!("serde_json feature \"{feature}\"")),
                "{edges}: {feature}"
            );
        }
    }
}

#[test]
fn every_dependency_comes_from_the_registry() {
    let lock = read("Cargo.lock");
    for line in lock.lines().filter(|line| line.starts_with("source = ")) {
        assert_eq!(
            line,
            "source = \"registry+https://github.com/rust-lang/crates.io-index\""
        );
    }
}

#[test]
fn no_file_tells_of_the_place_where_it_was_written() {
    let places = [
        ["/wo", "rk/"],
        ["/ro", "ot/"],
        [".lib", "rary"],
        ["/ho", "me/"],
    ];
    for path in files("", "") {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for place in places.map(|parts| parts.concat()) {
            assert!(!text.contains(&place), "{path} has `{place}`");
        }
    }
}

#[test]
fn unknown_fields_of_vectors_are_errors() {
    for path in files("tests/it", ".rs") {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.trim_start().starts_with("#[derive(") || !line.contains("Deserialize") {
                continue;
            }
            let head = lines[at..]
                .iter()
                .take_while(|line| !line.ends_with('{'))
                .count();
            let item = lines[at..=at + head].join("\n");
            let is_struct = item.contains("struct ");
            assert!(
                !is_struct || item.contains("deny_unknown_fields"),
                "{path}: {item}"
            );
        }
    }
}

#[test]
fn every_vector_file_is_read_by_a_test() {
    let sources: String = files("tests/it", ".rs")
        .iter()
        .map(|path| read(path))
        .collect();
    for path in files("tests/vectors", ".json") {
        let name = path.rsplit('/').next().unwrap();
        assert!(
            sources.contains(&format!("{name}\"")),
            "{path} is read by no test"
        );
    }
}

#[test]
fn names_of_vectors_are_different() {
    fn collect(value: &serde_json::Value, names: &mut Vec<String>) {
        let Some(cases) = value.as_array() else {
            value
                .as_object()
                .into_iter()
                .flat_map(|sections| sections.values())
                .for_each(|section| {
                    if section.is_array() {
                        collect(section, names);
                    }
                });
            return;
        };
        names.extend(
            cases
                .iter()
                .filter_map(|case| Some(case["name"].as_str()?.to_owned())),
        );
    }
    for path in files("tests/vectors", ".json") {
        let mut names = Vec::new();
        collect(&serde_json::from_str(&read(&path)).unwrap(), &mut names);
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{path} has a name twice");
    }
}
