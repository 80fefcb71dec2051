//! What an approver could grant a session, so that calls like this one are not asked again.
//!
//! Made by the gate and shown word for word; whoever decides picks by id, so that nothing sent from
//! outside is ever stored as a rule. Never offers what would not have let this call run.

use super::coverage;
use super::grants::{Given, Grant, GrantId, NewGrant, Scope};
use super::mode::Mode;
use super::order::{Answer, Call, Situation};
use super::prepared::Prepared;
use super::subject::Subject;
use crate::gate::command::{Reach, limits};
use crate::gate::tool::{Kind, Risk};

/// A grant that an approver may give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantCandidate {
    /// Unique in its approval.
    pub id: String,
    /// What it covers.
    pub scope: Scope,
    /// The grant as a rule's text, as it will match. Empty for [`Scope::Edits`].
    pub rule: String,
    /// The segment of the command that it answers, and its position.
    pub segment: Option<(u32, String)>,
}

/// The candidates of a call that is asked; none if no grant could have let it run.
#[must_use]
pub fn candidates(
    call: &Call<'_>,
    situation: &Situation<'_>,
    answer: &Answer,
) -> Vec<GrantCandidate> {
    if !answer.is_liftable() {
        return Vec::new();
    }
    let scopes = match (call.kind, call.subject) {
        (Kind::Execute, Subject::Command(_)) => of_segments(call, situation),
        (Kind::Execute, _) => vec![(None, Scope::Tool)],
        (Kind::Edit, _) if edits_would_do(call, situation, answer) => vec![(None, Scope::Edits)],
        (
            Kind::Edit | Kind::Read | Kind::Fetch | Kind::Delete | Kind::Interact | Kind::Other,
            _,
        ) => vec![(None, Scope::Tool)],
    };
    let named = scopes
        .into_iter()
        .zip(1..)
        .map(|((segment, scope), number)| {
            let rule = match &scope {
                Scope::Edits => String::new(),
                Scope::Prefix(_) | Scope::Words(_) | Scope::WholeText(_) | Scope::Tool => {
                    rule_of(call, scope.clone())
                }
            };
            GrantCandidate {
                id: format!("c{number}"),
                scope,
                rule,
                segment,
            }
        });
    named.collect()
}

/// Whether it is enough that the session edits unasked.
fn edits_would_do(call: &Call<'_>, situation: &Situation<'_>, answer: &Answer) -> bool {
    call.risk == Risk::Sensitive
        && answer.mode == Mode::Default
        && situation.mode.effective(true) >= Mode::AcceptEdits
}

fn rule_of(call: &Call<'_>, scope: Scope) -> String {
    let terms = NewGrant {
        tool: call.tool.clone(),
        scope,
        expires: None,
        uses_max: None,
    };
    Grant::new(GrantId(0), terms, Given::default()).text()
}

type Offered = (Option<(u32, String)>, Scope);

/// One or two for every segment that nothing allows yet.
fn of_segments(call: &Call<'_>, situation: &Situation<'_>) -> Vec<Offered> {
    let Subject::Command(command) = call.subject else {
        return Vec::new();
    };
    let prepared = Prepared::new(call.subject, call.place);
    let Some(undecided) = coverage::undecided(call, situation, &prepared) else {
        return Vec::new();
    };
    let covered = |segment: &usize| command.lasting.iter().any(|one| one.segment == *segment);
    // A segment without a candidate would be asked again: then nothing is promised.
    if undecided.len() > limits::CANDIDATE_SEGMENTS_MAX || !undecided.iter().all(covered) {
        return Vec::new();
    }
    let lasting = command.lasting.iter();
    lasting
        .filter(|one| undecided.contains(&one.segment))
        .map(|one| {
            let scope = match one.reach {
                Reach::Exact => Scope::Words(one.words.clone()),
                Reach::Prefix => Scope::Prefix(one.words.clone()),
            };
            let shown = command.segments_for_allow.as_ref().ok();
            let text = shown.and_then(|views| views.get(one.segment));
            let position = u32::try_from(one.segment).unwrap_or(u32::MAX);
            let text = text.map(|view| view.text.clone()).unwrap_or_default();
            (Some((position, text)), scope)
        })
        .collect()
}
