//! How the configuration comes together, with an environment that is a map.
//!
//! Never reads this process's environment.

use std::collections::BTreeMap;

use callgate::config::{Config, ConfigError, PermissionsConfig, Sources};
use tempfile::TempDir;

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(owned).collect()
}

fn sources(set: &[&str]) -> Sources {
    Sources {
        set: set.iter().map(|entry| (*entry).to_owned()).collect(),
        ..Sources::default()
    }
}

/// An environment without a config file, and these variables.
fn load(variables: &[(&str, &str)], set: &[&str]) -> Result<Config, ConfigError> {
    let home = TempDir::new().unwrap();
    let mut environment = environment(variables);
    environment.insert(
        "HOME".to_owned(),
        home.path().to_string_lossy().into_owned(),
    );
    sources(set).load(&environment)
}

#[test]
fn nothing_set_means_the_defaults() {
    let config = load(&[], &[]).unwrap();
    let defaults = Config {
        data_dir: config.data_dir.clone(),
        socket_dir: config.socket_dir.clone(),
        permissions: PermissionsConfig {
            user_file: config.permissions.user_file.clone(),
            ..PermissionsConfig::default()
        },
        ..Config::default()
    };
    assert_eq!(config, defaults);
    assert!(config.data_dir.ends_with(".local/state/callgate"));
    let user_file = &config.permissions.user_file;
    assert!(user_file.ends_with(".config/callgate/settings.json"));
}

#[test]
fn a_value_is_read_as_toml_and_else_as_text() {
    let set = |entry| load(&[], &[entry]).unwrap();
    assert_eq!(set("turn.attempts_max=7").turn.attempts_max, 7);
    assert!(!set("server.unix=false").server.unix);
    assert_eq!(
        set("server.tcp=127.0.0.1:6000").server.tcp,
        "127.0.0.1:6000"
    );
    assert_eq!(
        set("server.tcp=\"127.0.0.1:6000\"").server.tcp,
        "127.0.0.1:6000"
    );
    assert_eq!(set("server.tcp=").server.tcp, "");
    assert_eq!(
        set("log.filter=callgate=debug").log.filter,
        "callgate=debug"
    );
    assert_eq!(
        set("registry.dialects=[\"core\"]").registry.dialects,
        ["core"]
    );
    assert_eq!(set(" turn.attempts_max = 7 ").turn.attempts_max, 7);
}

#[test]
fn a_variable_sets_one_key_in_any_case() {
    let set = |name| load(&[(name, "7")], &[]).unwrap().turn.attempts_max;
    assert_eq!(set("CALLGATE__TURN__ATTEMPTS_MAX"), 7);
    assert_eq!(set("CALLGATE__turn__attempts_max"), 7);
}

#[test]
fn a_flag_beats_a_variable_for_directories_too() {
    let variables = [
        ("CALLGATE_DATA_DIR", "/variable"),
        ("CALLGATE_SOCKET_DIR", "/variable/run"),
    ];
    let config = load(&variables, &[]).unwrap();
    assert_eq!(config.data_dir.to_str(), Some("/variable"));
    assert_eq!(config.socket_dir.to_str(), Some("/variable/run"));
    let config = load(&variables, &["data_dir=/flag", "socket_dir=/flag/run"]).unwrap();
    assert_eq!(config.data_dir.to_str(), Some("/flag"));
    assert_eq!(config.socket_dir.to_str(), Some("/flag/run"));
}

#[test]
fn an_empty_variable_is_none() {
    let config = load(&[("CALLGATE_DATA_DIR", ""), ("CALLGATE_CONFIG", "")], &[]).unwrap();
    assert!(config.data_dir.ends_with(".local/state/callgate"));
}

#[test]
fn what_is_no_key_or_no_value_of_it_is_refused() {
    let problem = |entry| load(&[], &[entry]).unwrap_err().to_string();
    assert!(problem("nonsense").contains("section.key=value"));
    assert!(problem("=1").contains("is no key"));
    assert!(problem("turn..attempts_max=1").contains("is no key"));
    assert!(problem("turn.attempts_max=many").ends_with("in `turn.attempts_max`"));
    assert!(problem("turn.attempts_max=-1").contains("config: "));
    assert!(problem("turn=1").contains("config: "));
    assert!(problem("log.format=loud").contains("loud"));
    assert!(problem("registry.unspecified_risk=none").contains("none"));
}

#[test]
fn values_that_no_type_can_refuse_are_checked() {
    let cases = [
        (
            "turn.attempts_max=0",
            "`turn.attempts_max` must not be zero",
        ),
        (
            "registry.default_timeout_ms=0",
            "`registry.default_timeout_ms` must not be zero",
        ),
        (
            "stream.ping_interval_ms=0",
            "`stream.ping_interval_ms` must not be zero",
        ),
        (
            "stream.ping_misses=0",
            "`stream.ping_misses` must not be zero",
        ),
        (
            "retention.turns_days=0",
            "`retention.turns_days` must not be zero",
        ),
        (
            "retention.attach_hours=0",
            "`retention.attach_hours` must not be zero",
        ),
        ("limits.calls_max=0", "`limits.calls_max` must be 1 to 1024"),
        (
            "registry.dialects=[\"draft-3\"]",
            "`registry.dialects` may hold `core` and `json-schema-2020-12`",
        ),
    ];
    for (entry, problem) in cases {
        let found = load(&[], &[entry]).unwrap_err().to_string();
        assert_eq!(found, format!("config: {problem}"));
    }
}

#[test]
fn the_numbers_of_loops_have_ends() {
    let at = [
        "loop.repeat=2",
        "loop.repeat=100",
        "loop.repeat=0",
        "loop.cycle_repeat=2",
        "loop.cycle_repeat=100",
        "loop.cycle_repeat=0",
        "loop.cycle_length_max=2",
        "loop.cycle_length_max=5",
        "loop.check=after_results",
        "loop.diagnosis.timeout_ms=1",
        "loop.diagnosis.timeout_ms=600000",
        "loop.diagnosis.threshold=0.0",
        "loop.diagnosis.threshold=1.0",
    ];
    for entry in at {
        load(&[], &[entry]).unwrap();
    }
    let above = [
        (
            "loop.repeat=1",
            "`loop.repeat` must be 2 to 100, or 0 for none",
        ),
        (
            "loop.repeat=101",
            "`loop.repeat` must be 2 to 100, or 0 for none",
        ),
        (
            "loop.cycle_repeat=1",
            "`loop.cycle_repeat` must be 2 to 100, or 0 for none",
        ),
        (
            "loop.cycle_length_max=1",
            "`loop.cycle_length_max` must be 2 to 5",
        ),
        (
            "loop.cycle_length_max=6",
            "`loop.cycle_length_max` must be 2 to 5",
        ),
        (
            "loop.diagnosis.timeout_ms=0",
            "`loop.diagnosis.timeout_ms` must be 1 to 600000",
        ),
        (
            "loop.diagnosis.timeout_ms=600001",
            "`loop.diagnosis.timeout_ms` must be 1 to 600000",
        ),
        (
            "loop.diagnosis.after_rounds=0",
            "`loop.diagnosis.after_rounds` must be 1 to 4294967295",
        ),
        (
            "loop.diagnosis.every_rounds=0",
            "`loop.diagnosis.every_rounds` must be 1 to 4294967295",
        ),
        (
            "loop.diagnosis.threshold=1.1",
            "`loop.diagnosis.threshold` must be 0 to 1",
        ),
        (
            "loop.diagnosis.threshold=nan",
            "`loop.diagnosis.threshold` must be 0 to 1",
        ),
        ("loop.diagnosis.modle=x", "`loop.diagnosis.modle` is no key"),
    ];
    for (entry, problem) in above {
        let found = load(&[], &[entry]).unwrap_err().to_string();
        assert_eq!(found, format!("config: {problem}"));
    }
}

#[test]
fn an_endpoint_of_a_diagnosis_is_a_plain_address_with_a_model() {
    let model = "loop.diagnosis.model=judge";
    let at = |endpoint: &str| {
        let endpoint = format!("loop.diagnosis.endpoint={endpoint}");
        let config = load(&[], &[&endpoint, model]);
        config.and_then(|config| config.loops.diagnosis.address())
    };
    let address = at("http://127.0.0.1:8000/v1/chat?x=1").unwrap();
    assert_eq!((address.host.as_str(), address.port), ("127.0.0.1", 8000));
    assert_eq!(address.authority, "127.0.0.1:8000");
    assert_eq!(address.path, "/v1/chat?x=1");
    let address = at("http://[::1]").unwrap();
    assert_eq!((address.host.as_str(), address.port), ("::1", 80));
    assert_eq!(
        (address.authority.as_str(), address.path.as_str()),
        ("[::1]", "/")
    );
    for wrong in [
        "https://a/b",
        "a/b",
        "http://",
        "http://me:pw@a/",
        "unix:///a",
    ] {
        let problem = at(wrong).unwrap_err().to_string();
        assert!(
            problem.contains("`loop.diagnosis.endpoint` must be"),
            "{problem}"
        );
    }
    let endpoint = "loop.diagnosis.endpoint=http://a/";
    let problem = load(&[], &[endpoint]).unwrap_err().to_string();
    assert!(
        problem.contains("`loop.diagnosis.model` must be set"),
        "{problem}"
    );
    let both = [
        endpoint,
        model,
        "loop.diagnosis.api_key_env=KEY",
        "loop.diagnosis.api_key_file=/key",
    ];
    let problem = load(&[], &both).unwrap_err().to_string();
    assert!(problem.contains("must not be set together"), "{problem}");
}
