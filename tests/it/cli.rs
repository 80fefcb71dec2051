//! The program as people and scripts see it: exit codes, standard output, hints.
//!
//! Each run has a home of its own and nothing of this process's environment. Never leads to a sidecar
//! that serves.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::inputs;

/// A home for one test.
struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// What a run left behind.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            variables: Vec::new(),
        }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the home and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let output: Output = Command::new(env!("CARGO_BIN_EXE_callgate"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.path())
            .envs(self.variables.iter().cloned())
            .current_dir(self.path())
            .output()
            .unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The configuration that holds here, with these flags.
    fn config(&self, flags: &[&str]) -> Value {
        let arguments = [&["config", "show", "--json"], flags].concat();
        let ran = self.run(&arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        serde_json::from_str(&ran.out).unwrap()
    }
}

fn run(arguments: &[&str]) -> Ran {
    Home::new().run(arguments)
}

#[test]
fn help_and_version_are_data() {
    for arguments in [&["--help"][..], &["--version"], &["tools", "--help"]] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out.contains("callgate"), "{}", ran.out);
    }
}

#[test]
fn wrong_usage_is_64_and_says_nothing_on_standard_output() {
    let cases: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["--nonsense"],
        &["call"],
        &["tools", "--format", "nonsense"],
        &["tools", "--normalise"],
        &["config", "show", "--set", "nonsense"],
        &["health", "--endpoint", "ftp://127.0.0.1"],
        &[
            "health",
            "--endpoint",
            "http://127.0.0.1:1",
            "--token",
            "a\nb",
        ],
    ];
    for arguments in cases {
        let ran = run(arguments);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (64, ""),
            "{arguments:?}: {}",
            ran.err
        );
        assert!(!ran.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn without_a_sidecar_nothing_can_be_told_and_a_hint_says_what_to_do() {
    let home = Home::new();
    for arguments in [&["health"][..], &["tools"], &["call", "get_weather", "{}"]] {
        let ran = home.run(arguments);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            ran.err
        );
        assert!(
            ran.err.starts_with("callgate: no sidecar at `unix://"),
            "{}",
            ran.err
        );
        assert!(
            ran.err.contains("\n\nhint: start one with  callgate serve"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn the_endpoint_comes_from_argument_then_environment_then_default() {
    let home = Home::new().variable("CALLGATE_ENDPOINT", "unix:///nowhere/at/all.sock");
    let ran = home.run(&["health"]);
    assert!(
        ran.err.contains("`unix:///nowhere/at/all.sock`"),
        "{}",
        ran.err
    );
    let ran = home.run(&["health", "--endpoint", "unix:///elsewhere.sock"]);
    assert!(ran.err.contains("`unix:///elsewhere.sock`"), "{}", ran.err);
    let home = Home::new().variable("CALLGATE_SOCKET_DIR", "/sockets");
    let ran = home.run(&["health"]);
    assert!(
        ran.err.contains("`unix:///sockets/callgate.sock`"),
        "{}",
        ran.err
    );
}

#[test]
fn config_show_prints_toml_that_it_reads_itself() {
    let home = Home::new();
    let ran = home.run(&["config", "show"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let file = home.file("again.toml", &ran.out);
    let again = home.run(&["config", "show", "--config", &file]);
    assert_eq!(again.out, ran.out);
}

#[test]
fn directories_follow_the_environment() {
    let home = Home::new();
    let config = home.config(&[]);
    let path = |end: &str| home.path().join(end).to_string_lossy().into_owned();
    assert_eq!(config["data_dir"], path(".local/state/callgate"));
    assert_eq!(config["socket_dir"], path(".local/state/callgate/run"));
    let home = Home::new()
        .variable("XDG_STATE_HOME", "/state")
        .variable("XDG_RUNTIME_DIR", "/run/user/1");
    let config = home.config(&[]);
    assert_eq!(config["data_dir"], "/state/callgate");
    assert_eq!(config["socket_dir"], "/run/user/1/callgate");
    let config = home.config(&["--data-dir", "/data", "--socket-dir", "/sockets"]);
    assert_eq!(config["data_dir"], "/data");
    assert_eq!(config["socket_dir"], "/sockets");
}

#[test]
fn limits_are_a_table_and_as_json_a_list() {
    let ran = run(&["config", "show", "--limits"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("limit "), "{}", ran.out);
    let calls_max = ran
        .out
        .lines()
        .find(|line| line.starts_with("calls_max "))
        .unwrap();
    assert_eq!(
        calls_max.split_whitespace().collect::<Vec<_>>(),
        ["calls_max", "128", "count", "1024"]
    );
    let ran = run(&["config", "show", "--limits", "--json"]);
    let list: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        list.len(),
        callgate::gate::limits::Limits::default().rows().len()
    );
}

#[test]
fn later_sources_beat_earlier_ones() {
    let home = Home::new();
    home.file(
        ".config/callgate/callgate.toml",
        "[limits]\ncalls_max = 1\n",
    );
    let named = home.file("named.toml", "[limits]\ncalls_max = 2\n");
    let calls_max = |home: &Home, flags: &[&str]| home.config(flags)["limits"]["calls_max"].clone();
    assert_eq!(calls_max(&Home::new(), &[]), 128);
    assert_eq!(calls_max(&home, &[]), 1);
    let home = home.variable("CALLGATE_CONFIG", &named);
    assert_eq!(calls_max(&home, &[]), 2);
    let home = home.variable("CALLGATE__LIMITS__CALLS_MAX", "3");
    assert_eq!(calls_max(&home, &[]), 3);
    assert_eq!(calls_max(&home, &["--set", "limits.calls_max=4"]), 4);
    let twice = ["--set", "limits.calls_max=4", "--set", "limits.calls_max=5"];
    assert_eq!(calls_max(&home, &twice), 5);
}

#[test]
fn a_key_that_nobody_knows_stops_and_is_named() {
    let home = Home::new();
    let file = home.file("bad.toml", "[server]\ntpc = \"127.0.0.1:1\"\n");
    let cases: &[(&[&str], &str)] = &[
        (&["--config", &file], "server.tpc"),
        (&["--set", "server.tpc=127.0.0.1:1"], "server.tpc"),
        (&["--set", "foo.bar=1"], "foo.bar"),
        (&["--set", "tpc=1"], "tpc"),
    ];
    let message = |key: &str| {
        format!(
            "callgate: config: `{key}` is no key\n\nhint: see every key with  callgate config show\n"
        )
    };
    for (flags, key) in cases {
        let arguments = [&["config", "show"], *flags].concat();
        let ran = home.run(&arguments);
        assert_eq!((ran.code, ran.out.as_str()), (64, ""), "{flags:?}");
        assert_eq!(ran.err, message(key));
    }
    let home = home.variable("CALLGATE__SERVER__TPC", "1");
    let ran = home.run(&["config", "show"]);
    assert_eq!(ran.code, 64);
    assert_eq!(ran.err, message("server.tpc"));
}

#[test]
fn a_file_where_a_directory_must_be_is_called_one() {
    let home = Home::new();
    let file = home.file("taken", "");
    for flag in ["--data-dir", "--socket-dir"] {
        let ran = home.run(&["serve", flag, &file, "--set", "server.tcp="]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(
            ran.err
                .contains(&format!("`{file}`: it is a file, not a directory")),
            "{}",
            ran.err
        );
    }
}

#[test]
fn a_file_that_somebody_named_must_be_there_and_be_toml() {
    let home = Home::new();
    let ran = home.run(&["config", "show", "--config", "missing.toml"]);
    assert_eq!(ran.code, 64);
    assert!(ran.err.contains("`missing.toml`"), "{}", ran.err);
    let file = home.file("bad.toml", "[server\n");
    let ran = home.run(&["config", "show", "--config", &file]);
    assert_eq!(ran.code, 64);
    assert!(ran.err.contains("bad.toml"), "{}", ran.err);
}

#[test]
fn a_limit_out_of_its_range_is_refused_and_named() {
    for row in callgate::gate::limits::Limits::default().rows() {
        for value in [0, row.ceiling + 1] {
            let mut config = callgate::config::Config::default();
            let mut table: serde_json::Value = serde_json::to_value(&config.limits).unwrap();
            table[row.name] = value.into();
            config.limits = serde_json::from_value(table).unwrap();
            let problem = config.check().unwrap_err().to_string();
            assert!(
                problem.contains(&format!("`limits.{}`", row.name)),
                "{problem}"
            );
        }
    }
    let ran = run(&["config", "show", "--set", "limits.calls_max=1025"]);
    assert_eq!(ran.code, 64);
    assert!(
        ran.err.contains("`limits.calls_max` must be 1 to 1024"),
        "{}",
        ran.err
    );
}

#[test]
fn every_limit_may_be_set_to_its_ceiling() {
    let mut config = callgate::config::Config::default();
    let mut table: serde_json::Value = serde_json::to_value(&config.limits).unwrap();
    for row in config.limits.rows() {
        table[row.name] = row.ceiling.into();
    }
    config.limits = serde_json::from_value(table).unwrap();
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn every_code_that_is_listed_is_explained() {
    let listed = run(&["explain"]);
    assert_eq!(listed.code, 0);
    let codes: Vec<&str> = listed.out.lines().collect();
    assert!(codes.len() > 60);
    for code in [codes[0], codes[codes.len() - 1]] {
        let ran = run(&["explain", code]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(ran.out.starts_with(&format!("{code}\n\n")), "{}", ran.out);
    }
    let ran = run(&["explain", "tool_not_found", "--json"]);
    let page: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(page["code"], "tool_not_found");
}

#[test]
fn a_code_that_is_none_is_answered_with_no_and_a_hint() {
    let ran = run(&["explain", "tool_not_fond"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(
        ran.err
            .starts_with("callgate: no code `tool_not_fond`\n\nhint: "),
        "{}",
        ran.err
    );
}

const DEFINITIONS: &str = r#"[
  {"name": "one", "description": "d", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}},
  {"function": {"name": "two", "description": "d", "parameters": {"type": "dict", "properties": {"n": {"type": "float"}}}}}
]"#;

#[test]
fn definitions_are_checked_without_a_sidecar() {
    let home = Home::new();
    let file = home.file("tools.json", DEFINITIONS);
    let ran = home.run(&["tools", "--check", &file]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with("two: schema_invalid: "), "{}", ran.out);
    assert!(ran.err.contains("1 would be refused"), "{}", ran.err);
    let ran = home.run(&["tools", "--check", &file, "--normalise"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let ran = home.run(&["tools", "--check", &file, "--dialect", "core"]);
    assert!(
        ran.out.starts_with("two: schema_unknown_type: "),
        "{}",
        ran.out
    );
}

#[test]
fn checked_definitions_are_told_as_json_one_a_line() {
    let home = Home::new();
    let lines: Vec<Value> = serde_json::from_str(DEFINITIONS).unwrap();
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let file = home.file("tools.jsonl", &lines.join("\n\n"));
    let ran = home.run(&["tools", "--check", &file, "--json"]);
    let told: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.len(), 2);
    assert_eq!(
        (&told[0]["name"], &told[0]["code"]),
        (&"one".into(), &"ok".into())
    );
    assert_eq!(
        (&told[1]["name"], &told[1]["path"]),
        (&"two".into(), &"$.properties.n.type".into())
    );
}

#[test]
fn the_configuration_judges_checked_definitions_too() {
    let home = Home::new();
    let file = home.file("tools.json", DEFINITIONS);
    let flags = ["--normalise", "--set", "registry.dialects=[\"core\"]"];
    let arguments = [&["tools", "--check", &file][..], &flags].concat();
    let ran = home.run(&arguments);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("2  schema_dialect_not_admitted"),
        "{}",
        ran.err
    );
}

#[test]
fn a_file_of_definitions_that_cannot_be_read_is_no_answer() {
    let home = Home::new();
    let broken = home.file("broken.json", "[{]");
    for file in ["missing.json", broken.as_str()] {
        let ran = home.run(&["tools", "--check", file]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    }
}

#[test]
fn definitions_of_a_public_catalogue_are_nearly_all_admitted_once_normalised() {
    let data = inputs::folder("bfcl_eval").join("data");
    let file = inputs::json_files(&data)
        .into_iter()
        .find(|path| path.ends_with("BFCL_v4_simple_python.json"))
        .unwrap();
    let functions: Vec<Value> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .flat_map(|value| value["function"].as_array().cloned().unwrap_or_default())
        .collect();
    let home = Home::new();
    let all = home.file("tools.json", &Value::from(functions.clone()).to_string());
    let ran = home.run(&["tools", "--check", &all, "--normalise", "--json"]);
    assert_eq!(ran.out.lines().count(), functions.len());
    let admitted = ran
        .out
        .lines()
        .filter(|line| line.contains("\"code\":\"ok\""))
        .count();
    assert!(
        admitted * 10 > functions.len() * 9,
        "{admitted} of {}",
        functions.len()
    );
}
