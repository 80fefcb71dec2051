//! Whether everything in a call is allowed by someone.
//!
//! Every segment of a command and every path needs an allow rule or a grant of its own; different ones
//! may come from different places. Never looks at what stops a call.

use super::grants::{Grant, GrantId, Scope};
use super::index::Cost;
use super::order::{Because, Call, Situation};
use super::policy::RuleRef;
use super::prepared::{Item, Part, Prepared};
use super::rule::Verdict;
use super::rule_set::{Moment, Trial};

/// What allows a whole call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Coverage {
    /// The first that does.
    pub(super) because: Because,
    /// What it covers, where there can be several.
    pub(super) segment: Option<String>,
    /// Every grant that was needed.
    pub(super) grants: Vec<GrantId>,
}

impl Coverage {
    pub(super) fn of(because: Because) -> Self {
        let grants = match &because {
            Because::Grant { id, .. } => vec![*id],
            Because::Rule(_)
            | Because::Untried(_)
            | Because::Hook
            | Because::Unclear(_)
            | Because::Mode(_)
            | Because::ToolCheck
            | Because::SkipPermission
            | Because::NoApprover => Vec::new(),
        };
        Self {
            because,
            segment: None,
            grants,
        }
    }

    fn of_grant(grant: &Grant) -> Self {
        Self::of(Because::Grant {
            id: grant.id,
            text: grant.text(),
        })
    }
}

/// What allows the call, if all of it is allowed.
pub(super) fn of_call(
    call: &Call<'_>,
    situation: &Situation<'_>,
    prepared: &Prepared,
    moment: Moment,
    cost: &mut Cost,
) -> Option<Coverage> {
    let search = Search {
        call,
        situation,
        moment,
    };
    let whole = Trial::Call(call.arguments);
    search
        .rule(whole, cost)
        .or_else(|| search.whole_text(prepared, cost))
        .or_else(|| search.all_parts(prepared.needed.as_deref()?, cost))
        .or_else(|| search.grant(|scope| *scope == Scope::Tool))
}

/// What allows exactly this command, understood or not.
pub(super) fn of_whole_text(
    call: &Call<'_>,
    situation: &Situation<'_>,
    prepared: &Prepared,
    moment: Moment,
    cost: &mut Cost,
) -> Option<Coverage> {
    let search = Search {
        call,
        situation,
        moment,
    };
    search.whole_text(prepared, cost)
}

/// The parts that nothing allows, by position. None: nobody can tell the parts.
pub(super) fn undecided(
    call: &Call<'_>,
    situation: &Situation<'_>,
    prepared: &Prepared,
) -> Option<Vec<usize>> {
    let search = Search {
        call,
        situation,
        moment: Moment::of(situation),
    };
    let parts = prepared.needed.as_deref()?.iter().enumerate();
    let open = parts.filter(|(_, part)| search.part(&part.item, &mut Cost::default()).is_none());
    Some(open.map(|(position, _)| position).collect())
}

/// Where what allows a call may be found.
struct Search<'a> {
    call: &'a Call<'a>,
    situation: &'a Situation<'a>,
    moment: Moment,
}

impl Search<'_> {
    fn rule(&self, trial: Trial<'_>, cost: &mut Cost) -> Option<Coverage> {
        let tool = self.call.tool.name.as_str();
        let mut policies = self.situation.policies.iter();
        let (_, rule) = policies
            .find_map(|policy| policy.find(Verdict::Allow, tool, trial, self.moment, cost))?;
        Some(Coverage::of(Because::Rule(RuleRef::of(rule))))
    }

    fn grant(&self, covers: impl Fn(&Scope) -> bool) -> Option<Coverage> {
        let grants = self.situation.grants;
        let grant = grants.find(self.call.tool, self.moment.now, covers)?;
        Some(Coverage::of_grant(grant))
    }

    fn whole_text(&self, prepared: &Prepared, cost: &mut Cost) -> Option<Coverage> {
        let text = prepared.whole_command.as_deref()?;
        let is_granted = |scope: &Scope| matches!(scope, Scope::WholeText(own) if **own == *text);
        let found = self.rule(Trial::WholeCommand(text), cost);
        let mut found = found.or_else(|| self.grant(is_granted))?;
        found.segment = Some(text.to_owned());
        Some(found)
    }

    fn all_parts(&self, parts: &[Part], cost: &mut Cost) -> Option<Coverage> {
        let mut all: Option<Coverage> = None;
        for part in parts {
            let mut found = self.part(&part.item, cost)?;
            match &mut all {
                None => {
                    found.segment.clone_from(&part.shown);
                    all = Some(found);
                }
                Some(all) => all.grants.append(&mut found.grants),
            }
        }
        if let Some(all) = &mut all {
            all.grants.sort_unstable();
            all.grants.dedup();
        }
        all
    }

    fn part(&self, item: &Item, cost: &mut Cost) -> Option<Coverage> {
        self.rule(Trial::Part(item), cost).or_else(|| match item {
            Item::Command(view) => self.grant(|scope| scope.covers_segment(&view.list)),
            Item::Path(_) | Item::Url(_) | Item::Text(_) => None,
        })
    }
}
