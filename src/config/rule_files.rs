//! The files that rules come from: which they are, what stands in them, whether they have changed.
//!
//! A file that is not there has no rules. Never reads what a rule means: the gate does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Config;
use crate::gate::permission::{
    Aliases, RuleEntry, Source, SourceRules, SourceText, Trust, Verdict,
};

/// Largest file of rules, in bytes.
pub const RULE_FILE_BYTES_MAX: u64 = 3 << 20;

/// Why a file gives no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rules `{file}`: {problem}")]
pub struct RuleFileError {
    /// Whose rules stand in it.
    pub from: Source,
    /// Stable code.
    pub code: &'static str,
    /// The file.
    pub file: String,
    /// What is wrong.
    pub problem: String,
}

/// A file as it was looked at: when it was changed and how long it is. None: it is not there.
pub type Look = Vec<Option<(SystemTime, u64)>>;

/// Where rules come from, by the configuration.
#[derive(Debug, Clone)]
pub struct RuleFiles {
    files: Vec<(Source, PathBuf)>,
    workspace: Option<PathBuf>,
    trusted: PathBuf,
    command_line: SourceRules,
    /// Names that rules may use for tools.
    pub aliases: Aliases,
}

impl RuleFiles {
    /// The places that the configuration names.
    pub fn of(config: &Config) -> Self {
        let permissions = &config.permissions;
        let mut files = vec![
            (Source::Policy, permissions.policy_file.clone()),
            (Source::User, permissions.user_file.clone()),
        ];
        let workspace = Some(permissions.workspace.clone()).filter(|dir| !is_unset(dir));
        if let Some(dir) = &workspace {
            let own = dir.join(".callgate");
            files.push((Source::Project, own.join("settings.json")));
            files.push((Source::Local, own.join("settings.local.json")));
        }
        files.push((Source::Flag, permissions.settings_file.clone()));
        files.retain(|(_, path)| !is_unset(path));
        let lists = [
            (Verdict::Allow, &permissions.allow),
            (Verdict::Ask, &permissions.ask),
            (Verdict::Deny, &permissions.deny),
        ];
        let entries = lists.into_iter().flat_map(|(list, rules)| {
            let texts = rules.iter();
            texts.map(move |text| (list, RuleEntry::of_text(text.as_str())))
        });
        Self {
            files,
            workspace,
            trusted: trusted_file(&config.data_dir),
            command_line: SourceRules {
                entries: entries.collect(),
                max_mode: None,
            },
            aliases: permissions.aliases.clone(),
        }
    }

    /// Reads all of them.
    ///
    /// # Errors
    /// [`RuleFileError`]: one is there and cannot be read, is too large, or is no file of rules. One that
    /// the command line names must be there.
    pub fn read(&self) -> Result<Vec<SourceText>, RuleFileError> {
        let mut texts = Vec::new();
        for (source, path) in &self.files {
            if let Some(rules) = read_file(*source, path)? {
                texts.push(SourceText {
                    source: *source,
                    file: Some(Arc::from(path.display().to_string())),
                    root: self.root_of(*source, path),
                    rules,
                });
            }
        }
        texts.push(SourceText {
            source: Source::CliArg,
            file: None,
            root: None,
            rules: self.command_line.clone(),
        });
        Ok(texts)
    }

    /// Whether somebody outside the workspace trusts it.
    pub fn trust(&self) -> Trust {
        let listed = std::fs::read_to_string(&self.trusted).unwrap_or_default();
        let is_listed = |dir: &PathBuf| {
            let dir = canonical(dir);
            listed.lines().any(|line| Path::new(line) == dir)
        };
        match self.workspace.as_ref().is_some_and(is_listed) {
            true => Trust::Trusted,
            false => Trust::Untrusted,
        }
    }

    /// The file of that source, whether it is there or not. None: the source has none here.
    pub fn file_of(&self, source: Source) -> Option<&Path> {
        let mut files = self.files.iter();
        let (_, path) = files.find(|(own, _)| *own == source)?;
        Some(path)
    }

    /// Trusts a workspace, or takes that back; see [`set_trust`].
    ///
    /// # Errors
    /// As there.
    pub fn set_trust(&self, workspace: &Path, trusted: bool) -> std::io::Result<PathBuf> {
        write_trust(&self.trusted, workspace, trusted)
    }

    /// How the files are now; two looks differ when one of them has changed.
    pub fn look(&self) -> Look {
        let paths = self.files.iter().map(|(_, path)| path);
        paths
            .chain([&self.trusted])
            .map(|path| {
                let found = std::fs::metadata(path).ok()?;
                Some((found.modified().ok()?, found.len()))
            })
            .collect()
    }

    /// What `/` means at the head of a path in that file.
    fn root_of(&self, source: Source, path: &Path) -> Option<String> {
        let dir = match source {
            Source::Project | Source::Local => self.workspace.as_deref(),
            Source::Policy | Source::User | Source::Flag => path.parent(),
            Source::CliArg | Source::Command | Source::Session => None,
        };
        dir.map(|dir| canonical(dir).display().to_string())
    }
}

/// Trusts a workspace, or takes that back. The list stands in the data directory, out of reach of
/// whoever wrote the workspace.
///
/// # Errors
/// It cannot be written, or the workspace to trust is no directory.
pub fn set_trust(data_dir: &Path, workspace: &Path, trusted: bool) -> std::io::Result<PathBuf> {
    write_trust(&trusted_file(data_dir), workspace, trusted)
}

fn write_trust(path: &Path, workspace: &Path, trusted: bool) -> std::io::Result<PathBuf> {
    let workspace = match workspace.canonicalize() {
        // Whoever makes it anew must not find it trusted.
        Err(_) if !trusted => workspace.to_path_buf(),
        found => found?,
    };
    if trusted && !workspace.is_dir() {
        return Err(std::io::Error::other("it is no directory"));
    }
    let listed = match std::fs::read_to_string(path) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut lines: Vec<&str> = listed
        .lines()
        .filter(|line| Path::new(line) != workspace)
        .collect();
    let own = workspace.display().to_string();
    if trusted {
        lines.push(&own);
    }
    // Whole or not at all: a list cut in half would forget who is trusted.
    let aside = path.with_extension("new");
    std::fs::write(
        &aside,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )?;
    std::fs::rename(&aside, path)?;
    Ok(workspace)
}

fn trusted_file(data_dir: &Path) -> PathBuf {
    data_dir.join("trusted-workspaces")
}

fn is_unset(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

fn canonical(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf())
}

fn read_file(source: Source, path: &Path) -> Result<Option<SourceRules>, RuleFileError> {
    let failed = |code: &'static str, problem: String| RuleFileError {
        from: source,
        code,
        file: path.display().to_string(),
        problem,
    };
    let unreadable = |error: std::io::Error| failed("settings_unreadable", error.to_string());
    let length = match std::fs::metadata(path) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && source != Source::Flag => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    if length > RULE_FILE_BYTES_MAX {
        let problem = format!("has {length} bytes, {RULE_FILE_BYTES_MAX} are allowed");
        return Err(failed("settings_too_large", problem));
    }
    let text = std::fs::read(path).map_err(unreadable)?;
    let rules = SourceRules::parse(&text, source);
    rules
        .map(Some)
        .map_err(|error| failed(error.code(), error.to_string()))
}
