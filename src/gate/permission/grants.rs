//! What approvers gave a session beyond its mode.
//!
//! A grant names tool, owner and definition, so it does not outlive a tool that changes. What it
//! covers is stored as words, never as a pattern, so no character of a command turns into a wildcard.
//! Never proposes a grant: candidates come in.

use std::sync::Arc;

use super::broad::too_wide;
use crate::gate::ids::{OwnerName, ToolName, UnixMillis};
use crate::gate::result::Digest;

/// Names one grant in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantId(pub u64);

/// The tool that a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedTool {
    /// Its name.
    pub name: ToolName,
    /// Who owns it.
    pub owner: OwnerName,
    /// Its definition when the grant was made.
    pub digest: Digest,
}

/// What a grant covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Segments that begin with these words.
    Prefix(Vec<String>),
    /// Segments of exactly these words.
    Words(Vec<String>),
    /// The whole command, exactly, also where it is not understood.
    WholeText(Arc<str>),
    /// Every call of the tool.
    Tool,
    /// The session edits unasked: the default mode becomes `accept_edits`.
    Edits,
}

/// A grant as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGrant {
    /// For which tool. For [`Scope::Edits`]: the one whose approval gave it.
    pub tool: GrantedTool,
    /// What it covers.
    pub scope: Scope,
    /// From when on it no longer holds. None: as long as the session.
    pub expires: Option<UnixMillis>,
    /// How many calls it covers. None: any number.
    pub uses_max: Option<u32>,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its name.
    pub id: GrantId,
    /// What was asked for.
    pub terms: NewGrant,
    /// How many calls it has covered.
    pub uses: u32,
}

/// Why a grant is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// A prefix that would let nearly anything run.
    #[error("no prefix `{prefix}`: {why}; grant the exact command")]
    PrefixTooWide {
        /// The words.
        prefix: String,
        /// Why.
        why: &'static str,
    },
    /// Nothing could ever be covered.
    #[error("a grant that covers nothing")]
    CoversNothing,
}

impl GrantError {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            GrantError::PrefixTooWide { .. } => "grant_prefix_too_wide",
            GrantError::CoversNothing => "grant_covers_nothing",
        }
    }
}

/// The grants of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    grants: Vec<Grant>,
    last_id: u64,
}

impl Grants {
    /// The grants of a session that is taken up again; new ones get higher names.
    #[must_use]
    pub fn restore(grants: Vec<Grant>) -> Self {
        let last_id = grants
            .iter()
            .map(|grant| grant.id.0)
            .max()
            .unwrap_or_default();
        Self { grants, last_id }
    }

    /// Adds a grant and names it.
    ///
    /// # Errors
    /// [`GrantError`]: a prefix that says too little, or a grant that covers nothing.
    pub fn add(&mut self, terms: NewGrant) -> Result<GrantId, GrantError> {
        match &terms.scope {
            Scope::Prefix(words) => {
                if let Some(why) = too_wide(words) {
                    let prefix = words.join(" ");
                    return Err(GrantError::PrefixTooWide { prefix, why });
                }
            }
            Scope::Words(words) if words.is_empty() => return Err(GrantError::CoversNothing),
            Scope::Words(_) | Scope::WholeText(_) | Scope::Tool | Scope::Edits => {}
        }
        if terms.uses_max == Some(0) {
            return Err(GrantError::CoversNothing);
        }
        self.last_id += 1;
        let id = GrantId(self.last_id);
        self.grants.push(Grant { id, terms, uses: 0 });
        Ok(id)
    }

    /// Takes a grant back, from now on. False: there is none of that name.
    pub fn revoke(&mut self, id: GrantId) -> bool {
        let before = self.grants.len();
        self.grants.retain(|grant| grant.id != id);
        self.grants.len() < before
    }

    /// Counts one call against each of these grants. Called once when the call is dispatched.
    pub fn record_use(&mut self, ids: &[GrantId]) {
        for grant in self
            .grants
            .iter_mut()
            .filter(|grant| ids.contains(&grant.id))
        {
            grant.uses = grant.uses.saturating_add(1);
        }
    }

    /// All of them, the oldest first, those that have run out too.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter()
    }

    /// Whether the session may edit unasked at that moment.
    #[must_use]
    pub fn edits_granted(&self, now: UnixMillis) -> bool {
        let mut holding = self.grants.iter().filter(|grant| grant.holds(now));
        holding.any(|grant| grant.terms.scope == Scope::Edits)
    }

    /// The first grant for that tool that holds and covers what is asked.
    pub(super) fn find(
        &self,
        tool: &GrantedTool,
        now: UnixMillis,
        covers: impl Fn(&Scope) -> bool,
    ) -> Option<&Grant> {
        self.grants.iter().find(|grant| {
            grant.holds(now) && grant.terms.tool == *tool && covers(&grant.terms.scope)
        })
    }
}

impl Grant {
    /// Whether it still covers calls at that moment.
    #[must_use]
    pub fn holds(&self, now: UnixMillis) -> bool {
        self.terms.expires.is_none_or(|expires| now < expires)
            && self.terms.uses_max.is_none_or(|max| self.uses < max)
    }

    /// The grant as a rule's text.
    #[must_use]
    pub fn text(&self) -> String {
        let tool = &self.terms.tool.name;
        match &self.terms.scope {
            Scope::Prefix(words) => format!("{tool}({} *)", words.join(" ")),
            Scope::Words(words) => format!("{tool}({})", words.join(" ")),
            Scope::WholeText(text) => format!("{tool}({text})"),
            Scope::Tool | Scope::Edits => tool.to_string(),
        }
    }
}

impl Scope {
    /// Whether it covers that segment.
    pub(super) fn covers_segment(&self, segment: &[String]) -> bool {
        match self {
            Scope::Prefix(words) => segment.starts_with(words),
            Scope::Words(words) => segment == words,
            Scope::WholeText(_) | Scope::Tool | Scope::Edits => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(scope: Scope) -> NewGrant {
        NewGrant {
            tool: GrantedTool {
                name: ToolName::trusted("sh"),
                owner: OwnerName::trusted("a"),
                digest: Digest::of(b"1"),
            },
            scope,
            expires: None,
            uses_max: None,
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_grant_ends_by_time_by_use_and_by_revocation() {
        let mut grants = Grants::default();
        let mut add = |expires, uses_max| {
            let scope = Scope::Prefix(words("git log"));
            grants
                .add(NewGrant {
                    expires,
                    uses_max,
                    ..terms(scope)
                })
                .unwrap()
        };
        let (timed, counted, revoked) = (
            add(Some(UnixMillis(10)), None),
            add(None, Some(1)),
            add(None, None),
        );
        grants.record_use(&[counted]);
        assert!(grants.revoke(revoked) && !grants.revoke(revoked));
        let holding = |now| {
            let holding = grants.iter().filter(|grant| grant.holds(UnixMillis(now)));
            holding.map(|grant| grant.id).collect::<Vec<_>>()
        };
        assert_eq!(holding(9), [timed]);
        assert_eq!(holding(10), []);
        let mut again = Grants::restore(grants.iter().cloned().collect());
        let next = again.add(terms(Scope::Tool)).unwrap();
        assert!(grants.iter().all(|grant| grant.id < next));
    }

    #[test]
    fn prefixes_that_say_too_little_are_granted_exactly_or_not_at_all() {
        let mut grants = Grants::default();
        let error = grants.add(terms(Scope::Prefix(words("git")))).unwrap_err();
        assert_eq!(error.code(), "grant_prefix_too_wide");
        assert!(grants.add(terms(Scope::Words(words("git")))).is_ok());
        let none = grants.add(terms(Scope::Words(Vec::new()))).unwrap_err();
        assert_eq!(none.code(), "grant_covers_nothing");
    }

    #[test]
    fn words_are_covered_as_words() {
        let view =
            |text: &[&str]| -> Vec<String> { text.iter().map(|word| (*word).to_owned()).collect() };
        let prefix = Scope::Prefix(words("git log"));
        assert!(prefix.covers_segment(&view(&["git", "log", "-1"])));
        assert!(!prefix.covers_segment(&view(&["git", "logout"])));
        assert!(!prefix.covers_segment(&view(&["git log"])));
        let star = Scope::Words(words("ls *"));
        assert!(!star.covers_segment(&view(&["ls", "a"])));
    }
}
