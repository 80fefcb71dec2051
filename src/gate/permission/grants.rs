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

/// Where a grant comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    /// The approval whose decision gave it. Empty: none.
    pub approval: String,
    /// Who gave it.
    pub by: String,
    /// When.
    pub at: UnixMillis,
}

/// Why and when a grant stopped to count, apart from its own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// Who took it back.
    pub by: String,
    /// When.
    pub at: UnixMillis,
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
    /// Where it comes from.
    pub given: Given,
    /// Who took it back, if somebody did.
    pub revoked: Option<Revoked>,
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
        check(&terms)?;
        let id = GrantId(self.last_id + 1);
        self.take(Grant::new(id, terms, Given::default()));
        Ok(id)
    }

    /// Takes a grant in that was named before. One of the same name is replaced.
    pub fn take(&mut self, grant: Grant) {
        self.last_id = self.last_id.max(grant.id.0);
        match self.grants.iter_mut().find(|known| known.id == grant.id) {
            Some(known) => *known = grant,
            None => self.grants.push(grant),
        }
    }

    /// The grant of that name.
    #[must_use]
    pub fn get(&self, id: GrantId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.id == id)
    }

    /// The highest name so far.
    #[must_use]
    pub fn last_id(&self) -> GrantId {
        GrantId(self.last_id)
    }

    /// Takes a grant back, from now on. False: there is none of that name, or it was taken back before.
    pub fn revoke(&mut self, id: GrantId, by: Revoked) -> bool {
        let mut grants = self.grants.iter_mut();
        let found = grants.find(|grant| grant.id == id && grant.revoked.is_none());
        match found {
            Some(grant) => {
                grant.revoked = Some(by);
                true
            }
            None => false,
        }
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

/// Whether a grant of these terms may be made.
///
/// # Errors
/// As [`Grants::add`].
pub(super) fn check(terms: &NewGrant) -> Result<(), GrantError> {
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
    match terms.uses_max {
        Some(0) => Err(GrantError::CoversNothing),
        Some(_) | None => Ok(()),
    }
}

impl Grant {
    /// A grant that nobody has used yet.
    #[must_use]
    pub fn new(id: GrantId, terms: NewGrant, given: Given) -> Self {
        Self {
            id,
            terms,
            uses: 0,
            given,
            revoked: None,
        }
    }

    /// Whether it still covers calls at that moment.
    #[must_use]
    pub fn holds(&self, now: UnixMillis) -> bool {
        self.revoked.is_none()
            && self.terms.expires.is_none_or(|expires| now < expires)
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
        let by = || Revoked {
            by: "someone".to_owned(),
            at: UnixMillis(1),
        };
        assert!(grants.revoke(revoked, by()) && !grants.revoke(revoked, by()));
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
