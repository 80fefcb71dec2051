//! Where a rule comes from.
//!
//! Sources add to each other; none overrides another. Their order only says whose rule is named when
//! several match. Never reads a file: texts come in with their origin.

use std::fmt;
use std::sync::Arc;

/// The eight sources of rules, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The machine's administrator.
    Policy,
    /// The user, for all workspaces.
    User,
    /// The workspace, shared by all who work on it.
    Project,
    /// The workspace, for this user only.
    Local,
    /// A file named on the command line.
    Flag,
    /// A rule written on the command line.
    CliArg,
    /// Came with this turn.
    Command,
    /// Granted by an approver in this session.
    Session,
}

impl Source {
    /// All of them, in their order.
    pub const ALL: [Source; 8] = [
        Source::Policy,
        Source::User,
        Source::Project,
        Source::Local,
        Source::Flag,
        Source::CliArg,
        Source::Command,
        Source::Session,
    ];

    /// The word that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Policy => "policySettings",
            Source::User => "userSettings",
            Source::Project => "projectSettings",
            Source::Local => "localSettings",
            Source::Flag => "flagSettings",
            Source::CliArg => "cliArg",
            Source::Command => "command",
            Source::Session => "session",
        }
    }

    /// The source of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Source::ALL.into_iter().find(|one| one.as_str() == name)
    }

    /// Whether its allow rules hold only in a trusted workspace.
    ///
    /// Both files lie in the workspace, so whoever wrote the workspace could have written them.
    #[must_use]
    pub fn needs_trust(self) -> bool {
        match self {
            Source::Project | Source::Local => true,
            Source::Policy
            | Source::User
            | Source::Flag
            | Source::CliArg
            | Source::Command
            | Source::Session => false,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.source)?;
        if let Some(file) = &self.file {
            write!(out, " `{file}`")?;
        }
        write!(out, ", rule {}", self.index + 1)
    }
}

/// Where exactly one rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Who wrote it.
    pub source: Source,
    /// The file, as people know it. None: it stands in no file.
    pub file: Option<Arc<str>>,
    /// Its position in its list, from 0.
    pub index: usize,
}
