//! From the gate's decisions, rules and modes to their messages, and from messages to rules and modes.
//!
//! An unknown enum value falls to the side that the proto names. Never decides, and never lets a text of
//! the model's into a message that is said to hold none.

use std::sync::Arc;

use super::access::{Caller, Role};
use super::convert_approval::candidate;
use super::hooks::before_number;
use super::status::Failure;
use crate::engine::{Explained, ExplainedPart, ListedRule, Problem, RuleState};
use crate::gate::hooks::Foreseen;
use crate::gate::ids::UnixMillis;
use crate::gate::permission::{
    Answer, Because, Extras, Mode, Modes, Origin, RuleEntry, RuleRef, Source, Stage, Step, Verdict,
};
use crate::gate::result::cut_text;
use crate::pb::v1::{self as pb, DecisionStage};

pub(crate) use crate::executor::{mode_number, source_number};

/// Longest rule in a message, in bytes.
pub(super) const RULE_BYTES_MAX: usize = 1024;
/// Longest word of a stage for people, in bytes, then cut: a command may be as long as arguments.
const NOTE_BYTES_MAX: u64 = 4_096;
/// Most examples of one kind that come with a rule.
pub(super) const EXAMPLES_MAX: usize = 32;

/// How much of a file's place a caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Its name.
    Name,
    /// Its whole path.
    Path,
}

impl Sight {
    /// What the sender of a request may see.
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Self {
        let caller = request.extensions().get::<Caller>();
        match caller.is_some_and(|caller| caller.roles.contains(&Role::Admin)) {
            true => Sight::Path,
            false => Sight::Name,
        }
    }

    /// A file as it may be seen.
    pub(super) fn file(self, path: &str) -> &str {
        match self {
            Sight::Path => path,
            Sight::Name => path.rsplit(['/', '\\']).next().unwrap_or(path),
        }
    }

    fn origin(self, origin: &Origin) -> Origin {
        Origin {
            file: origin.file.as_deref().map(|path| self.file(path).into()),
            ..origin.clone()
        }
    }

    /// Where a rule stands, its source left out.
    pub(super) fn place(self, origin: &Origin) -> String {
        let number = origin.index + 1;
        match &origin.file {
            Some(path) => format!("{}, rule {number}", self.file(path)),
            None => format!("rule {number}"),
        }
    }
}

/// Why a call may run, must be asked or must not run, for any reader.
pub(crate) fn verdict_to_pb(answer: &Answer, revision: u64) -> pb::PermissionVerdict {
    let step = &answer.decided_by;
    let named = Named::of(&step.because, Sight::Name);
    pb::PermissionVerdict {
        effect: effect(answer.verdict),
        stage: stage(step) as i32,
        rule: named.rule,
        source: named.source,
        origin: named.origin,
        segment: step.segment.clone().unwrap_or_default(),
        segment_index: None,
        message: message(&step.because),
        // Whoever heard the hooks knows which of them it was.
        hook_id: String::new(),
        policy_revision: revision,
    }
}

/// The rule or grant that something was said because of.
struct Named {
    rule: String,
    source: i32,
    origin: String,
}

impl Named {
    fn of(because: &Because, sight: Sight) -> Self {
        match because {
            Because::Rule(rule) | Because::Untried(rule) => Self {
                rule: rule.text.to_string(),
                source: source_number(rule.origin.source),
                origin: sight.place(&rule.origin),
            },
            Because::Grant { id, text } => Self {
                rule: text.clone(),
                source: source_number(Source::Session),
                origin: format!("grant-{}", id.0),
            },
            Because::Hook
            | Because::Unclear(_)
            | Because::Mode(_)
            | Because::ToolCheck
            | Because::SkipPermission
            | Because::NoApprover => Self {
                rule: String::new(),
                source: pb::RuleSource::Unspecified as i32,
                origin: String::new(),
            },
        }
    }
}

/// The stage of one word. That of hooks is theirs, wherever in the order they were heard.
pub(super) fn stage(step: &Step) -> DecisionStage {
    match (&step.because, step.stage) {
        (Because::Hook, _) => DecisionStage::Hook,
        (Because::ToolCheck, _) => DecisionStage::ToolCheck,
        (Because::Grant { .. }, _) => DecisionStage::Grant,
        (Because::SkipPermission, _) => DecisionStage::SkipPermission,
        (_, Stage::Deny) => DecisionStage::DenyRule,
        (_, Stage::Ask) => DecisionStage::AskRule,
        (_, Stage::Unclear) => DecisionStage::SafetyFloor,
        (_, Stage::ModeBlock) => DecisionStage::ModeBlock,
        (_, Stage::ToolCheck) => DecisionStage::ToolCheck,
        (_, Stage::Allow) => DecisionStage::AllowRule,
        (_, Stage::ModeAndRisk) => DecisionStage::ModeDefault,
        (_, Stage::Approver) => DecisionStage::NoApprover,
    }
}

/// For people, without a word of the model's.
fn message(because: &Because) -> String {
    let of_rule = |rule: &RuleRef, rest: &str| match &rule.message {
        Some(message) => message.to_string(),
        None => {
            let (list, source) = (rule.list.as_str(), rule.origin.source);
            format!("{list} rule `{}` of {source}{rest}", rule.text)
        }
    };
    match because {
        Because::Rule(rule) => of_rule(rule, ""),
        Because::Untried(rule) => of_rule(rule, ", which may mean this"),
        Because::Grant { .. } => "a grant of the session".to_owned(),
        Because::Unclear(_) => "what it would do cannot be told".to_owned(),
        Because::Mode(_)
        | Because::Hook
        | Because::ToolCheck
        | Because::SkipPermission
        | Because::NoApprover => reason(because, Sight::Name),
    }
}

/// Why something was said, for whoever asked about the call.
fn reason(because: &Because, sight: Sight) -> String {
    let named = |rule: &RuleRef| {
        let (list, origin) = (rule.list.as_str(), sight.origin(&rule.origin));
        format!("{list} rule `{}` of {origin}", rule.text)
    };
    match because {
        Because::Rule(rule) => named(rule),
        Because::Untried(rule) => format!("{}, which may mean this", named(rule)),
        Because::Grant { text, .. } => format!("the grant `{text}`"),
        Because::Hook => "the hooks".to_owned(),
        Because::Unclear(why) => format!("what it would do is unclear: {why}"),
        Because::Mode(mode) => format!("mode `{}`", mode.as_str()),
        Because::ToolCheck => "the tool's own check".to_owned(),
        Because::SkipPermission => "the tool's author".to_owned(),
        Because::NoApprover => "nobody can be asked".to_owned(),
    }
}

/// The stages in their order, each with its names on the wire.
const STAGES: [(Stage, &[DecisionStage]); 8] = [
    (Stage::Deny, &[DecisionStage::DenyRule]),
    (Stage::Ask, &[DecisionStage::AskRule]),
    (Stage::Unclear, &[DecisionStage::SafetyFloor]),
    (Stage::ModeBlock, &[DecisionStage::ModeBlock]),
    (Stage::ToolCheck, &[DecisionStage::ToolCheck]),
    (
        Stage::Allow,
        &[
            DecisionStage::AllowRule,
            DecisionStage::Grant,
            DecisionStage::SkipPermission,
        ],
    ),
    (Stage::ModeAndRisk, &[DecisionStage::ModeDefault]),
    (Stage::Approver, &[DecisionStage::NoApprover]),
];

/// Every stage in order: what it said, or that it said nothing.
pub(super) fn steps(
    answer: &Answer,
    if_plain: Option<&Answer>,
    sight: Sight,
) -> Vec<pb::DecisionStep> {
    let mut steps = vec![silent(DecisionStage::Validation)];
    for (own, names) in STAGES {
        for name in names {
            let before = steps.len();
            let words = answer.steps.iter().filter(|step| stage(step) == *name);
            steps.extend(words.map(|step| decision_step(step, sight)));
            if steps.len() == before {
                steps.push(silent(*name));
            }
        }
        let said = answer.steps.iter().filter(|step| step.stage == own);
        let of_hooks = said.filter(|step| stage(step) == DecisionStage::Hook);
        steps.extend(of_hooks.map(|step| decision_step(step, sight)));
    }
    let silent = steps.iter_mut().find(|step| {
        step.stage == DecisionStage::AllowRule as i32
            && step.effect == pb::PermissionEffect::Unspecified as i32
    });
    if let (Some(silent), Some(plain)) = (silent, if_plain) {
        let by = reason(&plain.decided_by.because, sight);
        silent.note = format!("{by} would, if an executor says that the path is no link elsewhere");
    }
    steps
}

fn silent(stage: DecisionStage) -> pb::DecisionStep {
    pb::DecisionStep {
        stage: stage as i32,
        ..pb::DecisionStep::default()
    }
}

fn decision_step(step: &Step, sight: Sight) -> pb::DecisionStep {
    let named = Named::of(&step.because, sight);
    let mut note = reason(&step.because, sight);
    if let Some(segment) = &step.segment {
        note = format!("{note}, met by `{segment}`");
    }
    cut_text(&mut note, NOTE_BYTES_MAX);
    pb::DecisionStep {
        stage: stage(step) as i32,
        effect: effect(step.verdict),
        rule: named.rule,
        source: named.source,
        origin: named.origin,
        note,
    }
}

/// A decision as it is explained.
pub fn explanation(
    explained: &Explained,
    revision: u64,
    sight: Sight,
) -> pb::ExplainDecisionResponse {
    let Explained {
        answer,
        parts,
        candidates,
        hooks,
        if_plain,
    } = explained;
    let mut verdict = verdict_to_pb(answer, revision);
    verdict.origin = Named::of(&answer.decided_by.because, sight).origin;
    verdict.segment_index = index_of(&verdict.segment, parts);
    if matches!(answer.decided_by.because, Because::Hook) {
        let deciding = hooks.decided_by().map(ToString::to_string);
        verdict.hook_id = deciding.unwrap_or_default();
    }
    pb::ExplainDecisionResponse {
        verdict: Some(verdict),
        steps: steps(answer, if_plain.as_ref(), sight),
        segments: parts.iter().map(segment).collect(),
        grant_candidates: candidates.iter().map(candidate).collect(),
        error: None,
        hooks: hooks.said.iter().map(foreseen).collect(),
        hooks_not_asked: hooks.unasked.iter().map(ToString::to_string).collect(),
    }
}

fn foreseen(said: &Foreseen) -> pb::ExplainedHook {
    let verdict = &said.verdict;
    pb::ExplainedHook {
        hook_id: said.hook.to_string(),
        action: before_number(verdict.action),
        reason_for_user: verdict.reason_for_user.clone(),
        modified_args_json: verdict.modified.clone(),
        additional_context: verdict.context.clone(),
        suppress_output: verdict.suppress,
    }
}

/// The part that a decision named, by its text or one of the forms that rules see of it.
fn index_of(named: &str, parts: &[ExplainedPart]) -> Option<u32> {
    let by_text = parts.iter().position(|own| own.part.text == named);
    let by_form = || {
        parts.iter().position(|own| {
            let mut forms = own.part.alone.views_for_deny.iter();
            forms.any(|form| form.text == named)
        })
    };
    by_text
        .or_else(by_form)
        .and_then(|index| u32::try_from(index).ok())
}

fn segment(own: &ExplainedPart) -> pb::CommandSegment {
    pb::CommandSegment {
        text: own.part.text.clone(),
        words: own.part.words.clone(),
        wrappers: own.part.wrappers.clone(),
        opaque_reason: own.part.uncovered.clone().unwrap_or_default(),
        effect: effect(own.verdict),
    }
}

/// One rule with what is known of it.
pub fn rule_message(listed: &ListedRule, problems: &[&Problem], sight: Sight) -> pb::Rule {
    let state = match listed.state {
        RuleState::Active => pb::RuleState::Active,
        RuleState::Untrusted => pb::RuleState::Untrusted,
        RuleState::Invalid => pb::RuleState::Invalid,
        RuleState::Expired => pb::RuleState::Expired,
    };
    let place = sight.place(&listed.origin);
    pb::Rule {
        rule_id: listed.id(),
        spec: Some(rule_spec(listed.list, &listed.entry)),
        source: source_number(listed.origin.source),
        state: state as i32,
        problems: problems
            .iter()
            .map(|own| problem(own, place.clone()))
            .collect(),
        origin: place,
    }
}

fn rule_spec(list: Verdict, entry: &RuleEntry) -> pb::RuleSpec {
    let extras = entry.extras.clone().unwrap_or_default();
    let modes = Mode::ALL.into_iter();
    let modes = modes.filter(|mode| extras.modes != Modes::ALL && extras.modes.contains(*mode));
    pb::RuleSpec {
        effect: effect(list),
        rule: entry.text.clone(),
        matches: extras.matches,
        not_matches: extras.not_matches,
        message: extras.message.as_deref().unwrap_or_default().to_owned(),
        expires_at_ms: extras.expires.map(|expires| expires.0),
        modes: modes.map(mode_number).collect(),
    }
}

/// Something wrong or dubious. `place`: where, as the reader may know it.
pub(super) fn problem(problem: &Problem, place: String) -> pb::RuleProblem {
    pb::RuleProblem {
        code: problem.code.to_owned(),
        message: problem.message.clone(),
        warning: problem.is_warning,
        rule: problem.rule.clone(),
        origin: place,
    }
}

/// As many problems as fit into an answer of that size, the first ones.
pub(super) fn problems_within(
    problems: impl Iterator<Item = pb::RuleProblem>,
    bytes_max: usize,
) -> Vec<pb::RuleProblem> {
    let fits = |bytes: &mut usize, problem: pb::RuleProblem| {
        *bytes += prost::Message::encoded_len(&problem);
        (*bytes <= bytes_max).then_some(problem)
    };
    problems.scan(0, fits).collect()
}

/// Reads rules that came in `field`, at most `max` of them.
pub(super) fn rule_entries(
    specs: Vec<pb::RuleSpec>,
    field: &str,
    max: usize,
) -> Result<Vec<(Verdict, RuleEntry)>, Failure> {
    within(field, specs.len(), max)?;
    let each = specs.into_iter().enumerate();
    each.map(|(index, spec)| rule_entry(spec, &format!("{field}[{index}]")))
        .collect()
}

fn rule_entry(spec: pb::RuleSpec, field: &str) -> Result<(Verdict, RuleEntry), Failure> {
    let list = match pb::PermissionEffect::try_from(spec.effect) {
        Ok(pb::PermissionEffect::Allow) => Verdict::Allow,
        Ok(pb::PermissionEffect::Ask) => Verdict::Ask,
        Ok(pb::PermissionEffect::Deny) | Err(_) => Verdict::Deny,
        Ok(pb::PermissionEffect::Unspecified) => {
            return Err(Failure::field(format!("{field}.effect"), "must be set"));
        }
    };
    within(&format!("{field}.rule"), spec.rule.len(), RULE_BYTES_MAX)?;
    within(
        &format!("{field}.matches"),
        spec.matches.len(),
        EXAMPLES_MAX,
    )?;
    let not_matches = spec.not_matches.len();
    within(&format!("{field}.not_matches"), not_matches, EXAMPLES_MAX)?;
    let named: Option<Modes> = spec.modes.iter().map(|number| mode(*number)).collect();
    let modes = match named {
        Some(_) if spec.modes.is_empty() => Modes::ALL,
        Some(modes) => modes,
        None => {
            let problem = "must not hold an unspecified mode";
            return Err(Failure::field(format!("{field}.modes"), problem));
        }
    };
    let extras = Extras {
        matches: spec.matches,
        not_matches: spec.not_matches,
        message: Some(spec.message)
            .filter(|text| !text.is_empty())
            .map(Arc::from),
        expires: spec.expires_at_ms.map(UnixMillis),
        modes,
    };
    Ok((
        list,
        RuleEntry {
            text: spec.rule,
            extras: Ok(extras),
        },
    ))
}

/// Refuses more than `max`.
pub(super) fn within(field: &str, actual: usize, max: usize) -> Result<(), Failure> {
    match actual > max {
        true => Err(Failure::limit(field, max as u64, actual as u64, false)),
        false => Ok(()),
    }
}

/// A verdict's number.
pub(crate) fn effect(verdict: Verdict) -> i32 {
    let effect = match verdict {
        Verdict::Allow => pb::PermissionEffect::Allow,
        Verdict::Ask => pb::PermissionEffect::Ask,
        Verdict::Deny => pb::PermissionEffect::Deny,
    };
    effect as i32
}

/// The mode of a number. None: not set.
pub(crate) fn mode(number: i32) -> Option<Mode> {
    match pb::Mode::try_from(number) {
        Ok(pb::Mode::Unspecified) => None,
        Ok(pb::Mode::Plan) | Err(_) => Some(Mode::Plan),
        Ok(pb::Mode::Default) => Some(Mode::Default),
        Ok(pb::Mode::AcceptEdits) => Some(Mode::AcceptEdits),
        Ok(pb::Mode::Auto) => Some(Mode::Auto),
    }
}

/// The word of a source's number. Empty: of none that is known here.
pub(crate) fn source_word(number: i32) -> &'static str {
    let mut sources = Source::ALL.into_iter();
    let named = sources.find(|source| source_number(*source) == number);
    named.map_or("", Source::as_str)
}

/// The source of a number that a request names in `field`. None: not set.
pub(crate) fn source(number: i32, field: &str) -> Result<Option<Source>, Failure> {
    let known = pb::RuleSource::try_from(number);
    Ok(Some(match known {
        Ok(pb::RuleSource::Unspecified) => return Ok(None),
        Ok(pb::RuleSource::PolicySettings) => Source::Policy,
        Ok(pb::RuleSource::UserSettings) => Source::User,
        Ok(pb::RuleSource::ProjectSettings) => Source::Project,
        Ok(pb::RuleSource::LocalSettings) => Source::Local,
        Ok(pb::RuleSource::FlagSettings) => Source::Flag,
        Ok(pb::RuleSource::CliArg) => Source::CliArg,
        Ok(pb::RuleSource::Command) => Source::Command,
        Ok(pb::RuleSource::Session) => Source::Session,
        Err(_) => {
            let problem = format!("is {number}, which is no source known here");
            return Err(Failure::field(field, problem));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_sources_come_back_as_they_were() {
        for own in Mode::ALL {
            assert_eq!(mode(mode_number(own)), Some(own));
        }
        for own in Source::ALL {
            assert_eq!(source(source_number(own), "source"), Ok(Some(own)));
        }
        assert_eq!((mode(0), mode(99)), (None, Some(Mode::Plan)));
        assert_eq!(source(0, "source"), Ok(None));
        assert!(source(99, "source").is_err());
    }

    #[test]
    fn problems_end_where_the_answer_is_full() {
        let problem = || pb::RuleProblem {
            message: "x".repeat(98),
            ..pb::RuleProblem::default()
        };
        let many = || std::iter::repeat_with(problem).take(10);
        let counts = [99, 100, 999, 1_000].map(|max| problems_within(many(), max).len());
        assert_eq!(counts, [0, 1, 9, 10]);
    }

    #[test]
    fn only_who_may_see_paths_is_told_them() {
        let origin = Origin {
            source: Source::Flag,
            file: Some("/deep/down/settings.json".into()),
            index: 1,
        };
        assert_eq!(Sight::Name.place(&origin), "settings.json, rule 2");
        assert_eq!(
            Sight::Path.place(&origin),
            "/deep/down/settings.json, rule 2"
        );
    }
}
