//! Named views over the registry: what a turn may call, without copying a tool.
//!
//! A toolset narrows its base by include and exclude lists of names or globs. Never holds a tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::ToolName;
use super::registry::Registry;

/// Longest chain of bases.
pub const BASES_MAX: usize = 8;

/// One view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolset {
    /// Its name.
    pub name: String,
    /// The view that it narrows. Empty: the whole registry.
    pub base: String,
    /// Names or globs that are shown. Empty: everything of the base.
    pub include: Vec<String>,
    /// Names or globs that are not shown, whatever `include` says.
    pub exclude: Vec<String>,
    /// Grows with every change of this toolset.
    pub version: u64,
}

/// Why a toolset is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsetError {
    /// Not 1 to 64 of the characters that tool names have.
    #[error("toolset name `{name}` must be 1 to 64 of `A-Za-z0-9_.-`")]
    NameInvalid {
        /// The name, cut.
        name: String,
    },
    /// No toolset of that name.
    #[error("no toolset `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The bases form a ring or a chain that is too long.
    #[error("the bases of toolset `{name}` form a ring or more than {BASES_MAX} steps")]
    BasesTooDeep {
        /// The toolset.
        name: String,
    },
    /// It changed since it was read.
    #[error("toolset `{name}` has changed since it was read")]
    VersionMismatch {
        /// The toolset.
        name: String,
    },
    /// Another toolset narrows it.
    #[error("toolset `{name}` is the base of `{user}`")]
    InUse {
        /// The toolset.
        name: String,
        /// The other one.
        user: String,
    },
    /// A copied name is shown by the target already.
    #[error("tool `{tool}` is in toolset `{target}` already")]
    ToolDuplicate {
        /// The tool.
        tool: String,
        /// The target.
        target: String,
    },
    /// The target would not show a copied name, since it or its base leaves it out.
    #[error("toolset `{target}` leaves tool `{tool}` out")]
    ToolHidden {
        /// The tool.
        tool: String,
        /// The target.
        target: String,
    },
}

/// All toolsets, by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Toolsets {
    by_name: BTreeMap<String, Arc<Toolset>>,
    /// The last version given out.
    versions: u64,
}

impl Toolsets {
    /// The toolset of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Toolset>> {
        self.by_name.get(name)
    }

    /// Every toolset, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Toolset>> {
        self.by_name.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether `toolset` shows the tool. One that does not exist shows nothing.
    pub fn shows(&self, toolset: &str, tool: &ToolName) -> bool {
        let mut next = toolset;
        for _ in 0..=BASES_MAX {
            let Some(view) = self.by_name.get(next) else {
                return false;
            };
            if !view.shows_by_itself(tool.as_str()) {
                return false;
            }
            if view.base.is_empty() {
                return true;
            }
            next = &view.base;
        }
        false
    }

    /// Whether `toolset` would show the tool if its include list named it.
    fn lets_through(&self, toolset: &Toolset, tool: &str) -> bool {
        let excluded = toolset.exclude.iter().any(|glob| glob_matches(glob, tool));
        let base = toolset.base.as_str();
        !excluded && (base.is_empty() || self.shows(base, &ToolName::trusted(tool)))
    }

    /// Makes or replaces a toolset; with `expected`, only if that is its version.
    ///
    /// # Errors
    /// [`ToolsetError`]; nothing changes then.
    pub fn put(
        &mut self,
        mut toolset: Toolset,
        expected: Option<u64>,
    ) -> Result<Arc<Toolset>, ToolsetError> {
        check_name(&toolset.name)?;
        let present = self
            .by_name
            .get(&toolset.name)
            .map(|present| present.version);
        if expected.is_some() && expected != present {
            return Err(ToolsetError::VersionMismatch { name: toolset.name });
        }
        self.check_bases(&toolset)?;
        self.versions += 1;
        toolset.version = self.versions;
        let toolset = Arc::new(toolset);
        self.by_name.insert(toolset.name.clone(), toolset.clone());
        Ok(toolset)
    }

    fn check_bases(&self, toolset: &Toolset) -> Result<(), ToolsetError> {
        let mut next = toolset.base.as_str();
        for _ in 0..BASES_MAX {
            if next.is_empty() {
                return Ok(());
            }
            if next == toolset.name {
                break;
            }
            let base = self
                .by_name
                .get(next)
                .ok_or_else(|| ToolsetError::Unknown {
                    name: next.to_owned(),
                })?;
            next = &base.base;
        }
        match next.is_empty() {
            true => Ok(()),
            false => Err(ToolsetError::BasesTooDeep {
                name: toolset.name.clone(),
            }),
        }
    }

    /// Removes a toolset.
    ///
    /// # Errors
    /// [`ToolsetError::Unknown`], or [`ToolsetError::InUse`] as the base of another one.
    pub fn delete(&mut self, name: &str) -> Result<(), ToolsetError> {
        if !self.by_name.contains_key(name) {
            return Err(ToolsetError::Unknown {
                name: name.to_owned(),
            });
        }
        if let Some(user) = self.by_name.values().find(|other| other.base == name) {
            return Err(ToolsetError::InUse {
                name: name.to_owned(),
                user: user.name.clone(),
            });
        }
        self.by_name.remove(name);
        Ok(())
    }
}

impl Registry {
    /// Adds every tool that `source` shows now to `target`, which is made if it does not exist.
    ///
    /// # Errors
    /// [`ToolsetError`]; nothing is copied then.
    pub fn copy_into(&mut self, source: &str, target: &str) -> Result<Arc<Toolset>, ToolsetError> {
        self.copy_into_excluding(source, target, &[])
    }

    /// The names that a copy of `source` without those in `excluding` has. Empty: the whole registry.
    pub fn copied_names(&self, source: &str, excluding: &[String]) -> Vec<String> {
        let source = (!source.is_empty()).then_some(source);
        let visible = self.visible(source).into_iter();
        visible
            .map(|tool| tool.definition.name.to_string())
            .filter(|name| !excluding.iter().any(|glob| glob_matches(glob, name)))
            .collect()
    }

    /// [`copy_into`](Self::copy_into) without the names and globs in `excluding`.
    ///
    /// # Errors
    /// [`ToolsetError`]; nothing is copied then.
    pub fn copy_into_excluding(
        &mut self,
        source: &str,
        target: &str,
        excluding: &[String],
    ) -> Result<Arc<Toolset>, ToolsetError> {
        if !source.is_empty() && self.toolsets.get(source).is_none() {
            return Err(ToolsetError::Unknown {
                name: source.to_owned(),
            });
        }
        let names = self.copied_names(source, excluding);
        let present = self.toolsets.get(target).cloned();
        if let Some(taken) = names.iter().find(|name| {
            present.is_some()
                && self
                    .toolsets
                    .shows(target, &ToolName::trusted(name.as_str()))
        }) {
            return Err(ToolsetError::ToolDuplicate {
                tool: taken.clone(),
                target: target.to_owned(),
            });
        }
        let mut toolset =
            present.map_or_else(|| empty_toolset(target), |present| (*present).clone());
        if let Some(hidden) = names
            .iter()
            .find(|name| !self.toolsets.lets_through(&toolset, name))
        {
            return Err(ToolsetError::ToolHidden {
                tool: hidden.clone(),
                target: target.to_owned(),
            });
        }
        if !names.is_empty() {
            toolset.include.retain(|entry| !entry.is_empty());
        }
        toolset.include.extend(names);
        let toolset = self.toolsets.put(toolset, None)?;
        self.revision += 1;
        Ok(toolset)
    }
}

/// A toolset that shows nothing: an empty include list would show everything, an empty name none.
fn empty_toolset(name: &str) -> Toolset {
    Toolset {
        name: name.to_owned(),
        base: String::new(),
        include: vec![String::new()],
        exclude: Vec::new(),
        version: 0,
    }
}

fn check_name(name: &str) -> Result<(), ToolsetError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(ToolsetError::NameInvalid {
        name: name.chars().take(80).collect(),
    })
}

impl Toolset {
    fn shows_by_itself(&self, tool: &str) -> bool {
        let included =
            self.include.is_empty() || self.include.iter().any(|glob| glob_matches(glob, tool));
        included && !self.exclude.iter().any(|glob| glob_matches(glob, tool))
    }
}

/// Whether `name` matches `glob`, in which `*` spans any characters and `?` one.
///
/// Tool names have neither separators nor brackets, so that nothing more is needed. Runs in time
/// proportional to the product of the lengths, whatever the pattern.
pub fn glob_matches(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut at, mut pos) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while pos < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, pos));
                at += 1;
            }
            Some(byte) if *byte == b'?' || Some(byte) == name.get(pos) => {
                at += 1;
                pos += 1;
            }
            Some(_) | None => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    at = after_star;
                    pos = from + 1;
                }
                None => return false,
            },
        }
    }
    glob.get(at..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}
