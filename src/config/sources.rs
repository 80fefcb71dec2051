//! Brings the configuration together: defaults, then a file, then the environment, then flags.
//!
//! `CALLGATE__SECTION__KEY` and `--set section.key=value` set any key. The environment comes through a
//! trait, so that tests pass a map. Never guesses: an unknown key is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Config, ConfigError};

/// Where variables come from.
pub trait Environment {
    /// The value of one variable. Empty counts as absent.
    fn get(&self, name: &str) -> Option<String>;
    /// Every variable whose name begins with `prefix`, by name.
    fn with_prefix(&self, prefix: &str) -> Vec<(String, String)>;
}

/// The process's own environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn with_prefix(&self, prefix: &str) -> Vec<(String, String)> {
        let mut found: Vec<_> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with(prefix))
            .collect();
        found.sort();
        found
    }
}

impl Environment for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        BTreeMap::get(self, name)
            .filter(|value| !value.is_empty())
            .cloned()
    }

    fn with_prefix(&self, prefix: &str) -> Vec<(String, String)> {
        self.iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// What the command line brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The config file. None: `CALLGATE_CONFIG`, else the default place if there is one.
    pub config: Option<PathBuf>,
    /// The data directory.
    pub data_dir: Option<PathBuf>,
    /// The directory of the sockets.
    pub socket_dir: Option<PathBuf>,
    /// Settings of single keys, `section.key=value`.
    pub set: Vec<String>,
}

/// Before the names of variables that set single keys.
const KEY_PREFIX: &str = "CALLGATE__";

impl Sources {
    /// Loads the configuration.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file or key.
    pub fn load(&self, environment: &dyn Environment) -> Result<Config, ConfigError> {
        let mut table = self.read_file(environment)?;
        for (name, value) in environment.with_prefix(KEY_PREFIX) {
            let key = name
                .strip_prefix(KEY_PREFIX)
                .unwrap_or_default()
                .to_lowercase();
            set(&mut table, &key.replace("__", "."), &value)?;
        }
        for entry in &self.set {
            let (key, value) = entry.split_once('=').ok_or_else(|| ConfigError::Invalid {
                problem: format!("`{entry}` must have the form section.key=value"),
            })?;
            set(&mut table, key.trim(), value.trim())?;
        }
        check_keys(&table)?;
        let mut config: Config =
            table
                .try_into()
                .map_err(|error: toml::de::Error| ConfigError::Invalid {
                    // With its second line, which names the key.
                    problem: error.to_string().trim_end().replace('\n', " "),
                })?;
        self.resolve_dirs(&mut config, environment);
        config.check()?;
        Ok(config)
    }

    fn read_file(&self, environment: &dyn Environment) -> Result<Table, ConfigError> {
        let named = self
            .config
            .clone()
            .or_else(|| environment.get("CALLGATE_CONFIG").map(PathBuf::from));
        let path = match &named {
            Some(path) => path.clone(),
            None => config_home(environment).join("callgate/callgate.toml"),
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // Only a file that somebody named must be there.
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Table::new());
            }
            Err(error) => return Err(unreadable(&path, &error.to_string())),
        };
        text.parse()
            .map_err(|error: toml::de::Error| unreadable(&path, error.message()))
    }

    /// Whether a flag sets that key.
    fn sets(&self, key: &str) -> bool {
        let mut entries = self.set.iter().filter_map(|entry| entry.split_once('='));
        entries.any(|(set, _)| set.trim() == key)
    }

    /// Directories: flag, environment, file, default.
    fn resolve_dirs(&self, config: &mut Config, environment: &dyn Environment) {
        let set = |name: &str| environment.get(name).map(PathBuf::from);
        let in_file = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_path_buf());
        config.data_dir = self
            .data_dir
            .clone()
            .or_else(|| set("CALLGATE_DATA_DIR").filter(|_| !self.sets("data_dir")))
            .or_else(|| in_file(&config.data_dir))
            .unwrap_or_else(|| match set("XDG_STATE_HOME") {
                Some(home) => home.join("callgate"),
                None => home(environment).join(".local/state/callgate"),
            });
        config.socket_dir = self
            .socket_dir
            .clone()
            .or_else(|| set("CALLGATE_SOCKET_DIR").filter(|_| !self.sets("socket_dir")))
            .or_else(|| in_file(&config.socket_dir))
            .unwrap_or_else(|| match set("XDG_RUNTIME_DIR") {
                Some(dir) => dir.join("callgate"),
                None => config.data_dir.join("run"),
            });
        let user_file = &mut config.permissions.user_file;
        if user_file.as_os_str().is_empty() {
            *user_file = config_home(environment).join("callgate/settings.json");
        }
    }
}

fn home(environment: &dyn Environment) -> PathBuf {
    PathBuf::from(environment.get("HOME").unwrap_or_else(|| "/".to_owned()))
}

fn config_home(environment: &dyn Environment) -> PathBuf {
    match environment.get("XDG_CONFIG_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => home(environment).join(".config"),
    }
}

fn unreadable(path: &Path, problem: &str) -> ConfigError {
    ConfigError::Unreadable {
        path: path.display().to_string(),
        problem: problem.to_owned(),
    }
}

/// Sets one key by its path. A value that is no TOML is text.
fn set(table: &mut Table, key: &str, value: &str) -> Result<(), ConfigError> {
    let mut at = table;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            break;
        }
        if parts.peek().is_none() {
            at.insert(part.to_owned(), parse_value(value));
            return Ok(());
        }
        let next = at
            .entry(part.to_owned())
            .or_insert_with(|| Value::Table(Table::new()));
        at = next.as_table_mut().ok_or_else(|| ConfigError::Invalid {
            problem: format!("`{part}` in `{key}` is no section"),
        })?;
    }
    Err(unknown(key))
}

/// Refuses a key that nobody knows, by its whole path: what reads the values names only its last part.
fn check_keys(table: &Table) -> Result<(), ConfigError> {
    let known = Table::try_from(Config::default()).map_err(|error| ConfigError::Invalid {
        problem: error.to_string(),
    })?;
    check_section("", table, &known)
}

/// A table without keys of its own, such as one of aliases, takes any.
fn check_section(prefix: &str, table: &Table, known: &Table) -> Result<(), ConfigError> {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match (known.get(key), value) {
            (None, value) => return Err(unknown(&first_path(&path, value))),
            (Some(Value::Table(section)), Value::Table(set)) if !section.is_empty() => {
                check_section(&format!("{path}."), set, section)?;
            }
            // Whether a value fits its key, its type says.
            (Some(_), _) => {}
        }
    }
    Ok(())
}

/// The path of the first value under a key.
fn first_path(key: &str, value: &Value) -> String {
    match value.as_table().and_then(|table| table.iter().next()) {
        Some((inner, value)) => format!("{key}.{}", first_path(inner, value)),
        None => key.to_owned(),
    }
}

fn unknown(key: &str) -> ConfigError {
    ConfigError::UnknownKey {
        key: key.to_owned(),
    }
}

fn parse_value(text: &str) -> Value {
    let parsed: Result<Table, _> = format!("value = {text}").parse();
    parsed
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}
