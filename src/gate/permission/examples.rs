//! Tries a rule on the examples that its author wrote beside it.
//!
//! What kind of subject an example is depends on the tool, which may not be there yet. Then every kind
//! is tried, and only what is wrong in all of them is an error. Never about calls.

use bytes::Bytes;

use super::error::RuleError;
use super::policy::LoadOptions;
use super::prepared::Prepared;
use super::rule::{Rule, Spec, ToolPattern, Verdict};
use super::rule_set::Trial;
use super::settings::Extras;
use super::subject::{PathSubject, Place, Subject};
use crate::gate::json::{Document, JsonLimits};
use crate::gate::tool::SubjectKind;

/// Where examples are taken to run: rules of no file have no root.
const CWD: &str = "/workspace";
const HOME: &str = "/users/me";

/// Tries all examples of a rule.
pub(super) fn check(
    rule: &Rule,
    extras: &Extras,
    root: Option<&str>,
    options: &LoadOptions<'_>,
) -> Result<(), RuleError> {
    let readings = readings(rule, options);
    let tried = |example: &str| {
        let found = readings
            .iter()
            .map(|kind| matches(rule, example, *kind, root, options));
        found.collect::<Vec<bool>>()
    };
    for example in &extras.matches {
        if !tried(example).contains(&true) {
            return Err(failure(example, false));
        }
    }
    for example in &extras.not_matches {
        if !tried(example).contains(&false) {
            return Err(failure(example, true));
        }
    }
    Ok(())
}

fn failure(example: &str, matches: bool) -> RuleError {
    RuleError::ExampleFails {
        example: example.to_owned(),
        matches,
    }
}

/// The kinds that examples of the rule may be of.
fn readings(rule: &Rule, options: &LoadOptions<'_>) -> Vec<SubjectKind> {
    let known = match (&rule.spec, &rule.tool) {
        (Spec::Host(_), _) => Some(SubjectKind::Url),
        (Spec::Any | Spec::Param(_), _) => Some(SubjectKind::Text),
        (Spec::Plain(_), ToolPattern::Name(name)) => (options.subject_of)(name),
        (Spec::Plain(_), ToolPattern::Glob(_)) => None,
    };
    known.map_or(
        vec![SubjectKind::Command, SubjectKind::Path, SubjectKind::Text],
        |kind| vec![kind],
    )
}

fn matches(
    rule: &Rule,
    example: &str,
    kind: SubjectKind,
    root: Option<&str>,
    options: &LoadOptions<'_>,
) -> bool {
    match rule.spec {
        Spec::Any => return true,
        Spec::Param(_) => return matches_arguments(rule, example),
        Spec::Host(_) | Spec::Plain(_) => {}
    }
    let subject = match kind {
        SubjectKind::Command => Subject::Command((options.read_command)(example)),
        SubjectKind::Path => Subject::Paths(vec![path(example, root.unwrap_or(CWD))]),
        SubjectKind::Url => Subject::Url(example.to_owned()),
        SubjectKind::Text => Subject::Text(example.to_owned()),
    };
    let place = Place {
        cwd: Some(root.unwrap_or(CWD).to_owned()),
        home: Some(HOME.to_owned()),
        ..Place::default()
    };
    let prepared = Prepared::new(&subject, &place);
    match (rule.list, prepared.needed) {
        (Verdict::Allow, Some(needed)) => {
            needed.iter().all(|part| Trial::Part(&part.item).fits(rule))
        }
        (Verdict::Allow, None) => false,
        (Verdict::Ask | Verdict::Deny, _) => {
            let mut parts = prepared.stoppers.iter();
            parts.any(|part| Trial::Part(&part.item).fits(rule))
        }
    }
}

/// A path without links, `~/` written out.
fn path(example: &str, cwd: &str) -> PathSubject {
    let given = match example.strip_prefix("~/") {
        Some(rest) => format!("{HOME}/{rest}"),
        None => example.to_owned(),
    };
    let canonical = match given.starts_with('/') {
        true => given.clone(),
        false => format!("{cwd}/{given}"),
    };
    PathSubject {
        canonical: Some(canonical),
        given,
    }
}

/// For rules about arguments an example is the arguments as JSON.
fn matches_arguments(rule: &Rule, example: &str) -> bool {
    let text = Bytes::copy_from_slice(example.as_bytes());
    let arguments = Document::parse_object(&text, &JsonLimits::default());
    arguments.is_ok_and(|arguments| Trial::Call(Some(arguments.root())).fits(rule))
}
