//! The order in which a call is decided.
//!
//! Deny rules, ask rules, what nobody can tell, mode block, the tool's own check, what allows, mode and
//! risk, and whether anyone can be asked. Every stage is heard and may only tighten; only the allow
//! stage lifts, and only an ordinary ask. Never dispatches: an answer is data.

use super::coverage::{self, Coverage};
use super::grants::{GrantId, GrantedTool, Grants};
use super::index::Cost;
use super::mode::{self, Mode, ModeBounds};
use super::policy::{Policy, RuleRef};
use super::prepared::{Item, Prepared};
use super::rule::Verdict;
use super::rule_set::{Moment, Trial};
use super::subject::{Place, Subject};
use crate::gate::command::basename;
use crate::gate::ids::UnixMillis;
use crate::gate::json::Value;
use crate::gate::tool::{Kind, Risk};

/// One call, as far as permissions see it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool that is called.
    pub tool: &'a GrantedTool,
    /// What it does.
    pub kind: Kind,
    /// How much harm it can do.
    pub risk: Risk,
    /// Its author wants no ask that comes from mode or risk.
    pub skip_permission: bool,
    /// The checked arguments.
    pub arguments: Option<Value<'a>>,
    /// The argument that rules are about.
    pub subject: &'a Subject,
    /// Where the call would run.
    pub place: &'a Place,
}

/// Everything besides the call that an answer depends on.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// When the call is decided.
    pub now: UnixMillis,
    /// What bounds the session's mode. The policies' highest mode counts beside it.
    pub mode: ModeBounds,
    /// Rules that hold, the first named first: of the files, of this turn.
    pub policies: &'a [&'a Policy],
    /// What approvers gave the session.
    pub grants: &'a Grants,
    /// What the hooks together said.
    pub hook: Hook,
    /// What the tool's own check said.
    pub check: Check,
    /// Who can be asked.
    pub approver: Approver,
    /// What the configuration says about lifting.
    pub settings: Settings,
}

/// What the hooks together said of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hook {
    /// Nothing.
    #[default]
    Proceed,
    /// An ordinary ask is not needed.
    Allow,
    /// An approver must be asked.
    Ask,
    /// An approver must be asked, however long it takes until there is one.
    Defer,
    /// Must not run.
    Deny,
}

/// What the tool's own check said. A check that takes too long says [`Check::Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// Nothing, or the tool has none.
    #[default]
    Passthrough,
    /// May run; counts only where the configuration trusts the executor.
    Allow,
    /// An approver should be asked.
    Ask,
    /// An approver must be asked, whatever allows the call.
    AskFirm,
    /// Must not run.
    Deny,
}

/// Whether anyone can answer an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approver {
    /// Someone is there, or is expected.
    #[default]
    Expected,
    /// Nobody is there and nobody is expected.
    None,
}

/// What the configuration says about lifting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// A hook's ALLOW also lifts the ask of a dangerous tool. Default false.
    pub hook_allow_covers_dangerous: bool,
    /// This executor's own `allow` counts. Default false.
    pub executor_is_trusted: bool,
}

/// The stages, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Deny rules, and a hook's DENY.
    Deny,
    /// Ask rules, and a hook's ASK or DEFER.
    Ask,
    /// What the call is about cannot be told.
    Unclear,
    /// What the mode never lets run.
    ModeBlock,
    /// The tool's own check.
    ToolCheck,
    /// Allow rules, grants, a hook's ALLOW.
    Allow,
    /// What the mode says of kind and risk.
    ModeAndRisk,
    /// Whether anyone can be asked.
    Approver,
}

impl Stage {
    /// The word that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Deny => "deny",
            Stage::Ask => "ask",
            Stage::Unclear => "unclear",
            Stage::ModeBlock => "mode_block",
            Stage::ToolCheck => "tool_check",
            Stage::Allow => "allow",
            Stage::ModeAndRisk => "mode_and_risk",
            Stage::Approver => "approver",
        }
    }
}

/// What made a stage speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// A rule.
    Rule(RuleRef),
    /// A rule that means this tool and cannot be tried on this call.
    Untried(RuleRef),
    /// A grant, as a rule's text.
    Grant {
        /// Its name.
        id: GrantId,
        /// What it covers.
        text: String,
    },
    /// The hooks.
    Hook,
    /// The subject cannot be understood.
    Unclear(String),
    /// The mode, with the tool's kind and risk.
    Mode(Mode),
    /// The tool's own check.
    ToolCheck,
    /// The tool's author.
    SkipPermission,
    /// Nobody can be asked.
    NoApprover,
}

/// One stage's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The stage.
    pub stage: Stage,
    /// What it said.
    pub verdict: Verdict,
    /// Why.
    pub because: Because,
    /// The segment or path that made it speak, where there can be several.
    pub segment: Option<String>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The word that decided: the first of those that say the verdict.
    pub decided_by: Step,
    /// Everything that was said, in the order of the stages.
    pub steps: Vec<Step>,
    /// The mode that held.
    pub mode: Mode,
    /// Grants without which the verdict would be ask; to be counted when the call is dispatched.
    pub grants_used: Vec<GrantId>,
    /// The ask waits even where no approver is expected.
    pub is_deferred: bool,
    /// Index probes and rules looked at.
    pub looks: u32,
}

/// Decides one call.
#[must_use]
pub fn decide(call: &Call<'_>, situation: &Situation<'_>) -> Answer {
    let mut hearing = Hearing::new(call, situation);
    hearing.hear_stops(Verdict::Deny, Stage::Deny);
    hearing.hear_stops(Verdict::Ask, Stage::Ask);
    hearing.hear_unclear();
    let base = mode::verdict(hearing.moment.mode, call.kind, call.risk);
    let by_mode = Because::Mode(hearing.moment.mode);
    if base == Verdict::Deny {
        hearing.say(Stage::ModeBlock, Verdict::Deny, by_mode.clone(), None);
    }
    hearing.hear_check();
    let ordinary = hearing.ordinary_asks(base);
    hearing.hear_lifts(ordinary);
    if base != Verdict::Deny {
        hearing.say(Stage::ModeAndRisk, base, by_mode, None);
    }
    hearing.answer()
}

/// Whether an ask remains that the allow stage may lift, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ordinary {
    /// Nothing to lift.
    None,
    /// Mode or risk.
    Mode,
    /// The tool's own check, perhaps mode or risk as well.
    Check,
}

/// One call being decided.
struct Hearing<'a> {
    call: &'a Call<'a>,
    situation: &'a Situation<'a>,
    prepared: Prepared,
    moment: Moment,
    steps: Vec<Step>,
    lift: Option<Coverage>,
    cost: Cost,
}

impl<'a> Hearing<'a> {
    fn new(call: &'a Call<'a>, situation: &'a Situation<'a>) -> Self {
        Self {
            call,
            situation,
            prepared: Prepared::new(call.subject, call.place),
            moment: Moment::of(situation),
            steps: Vec::new(),
            lift: None,
            cost: Cost::default(),
        }
    }

    fn say(&mut self, stage: Stage, verdict: Verdict, because: Because, segment: Option<String>) {
        self.steps.push(Step {
            stage,
            verdict,
            because,
            segment,
        });
    }

    /// Rules of a list that stops calls, and the hooks' word of the same severity.
    fn hear_stops(&mut self, list: Verdict, stage: Stage) {
        if let Some((rule, segment)) = self.stopping_rule(list) {
            self.say(stage, list, Because::Rule(rule), segment);
        }
        let hook = match self.situation.hook {
            Hook::Deny => Some(Verdict::Deny),
            Hook::Ask | Hook::Defer => Some(Verdict::Ask),
            Hook::Allow | Hook::Proceed => None,
        };
        if hook == Some(list) {
            self.say(stage, list, Because::Hook, None);
        }
    }

    /// The first rule of the list that matches the call or any part of it.
    fn stopping_rule(&mut self, list: Verdict) -> Option<(RuleRef, Option<String>)> {
        let whole = (Trial::Call(self.call.arguments), &None);
        let parts = self.prepared.stoppers.iter();
        let parts = parts.map(|part| (Trial::Part(&part.item), &part.shown));
        let trials = std::iter::once(whole).chain(parts);
        first_rule(
            self.call,
            self.situation,
            list,
            trials,
            self.moment,
            &mut self.cost,
        )
    }

    /// A rule of the list that matches what may be run besides.
    fn suspecting_rule(&mut self, list: Verdict) -> Option<(RuleRef, Option<String>)> {
        let tool = self.call.tool.name.as_str();
        for policy in self.situation.policies {
            for suspect in &self.prepared.suspects {
                for (at, program) in suspect.programs() {
                    let name = basename(program);
                    if !policy.is_about_program(list, tool, name, &mut self.cost) {
                        continue;
                    }
                    for command in suspect.commands(at, program) {
                        let part = Item::suspected(&command);
                        let trial = Trial::Part(&part.item);
                        let found = policy.find(list, tool, trial, self.moment, &mut self.cost);
                        if let Some((_, rule)) = found {
                            return Some((RuleRef::of(rule), part.shown));
                        }
                    }
                }
            }
        }
        None
    }

    /// What cannot be told asks, unless exactly this command is allowed.
    fn hear_unclear(&mut self) {
        let may_be_more = self.prepared.unclear.is_some() || !self.prepared.suspects.is_empty();
        if may_be_more && !self.is_allowed_exactly() {
            if let Some(why) = self.prepared.unclear.clone() {
                self.say(Stage::Unclear, Verdict::Ask, Because::Unclear(why), None);
            }
            let suspecting = self.suspecting_rule(Verdict::Deny);
            let suspecting = suspecting.or_else(|| self.suspecting_rule(Verdict::Ask));
            if let Some((rule, segment)) = suspecting {
                self.say(
                    Stage::Unclear,
                    Verdict::Ask,
                    Because::Untried(rule),
                    segment,
                );
            }
        }
        let tool = self.call.tool.name.as_str();
        for list in [Verdict::Deny, Verdict::Ask] {
            let policies = self.situation.policies.iter();
            let untried = policies.copied().find_map(|policy| {
                policy.untried(list, tool, &self.prepared, self.moment, &mut self.cost)
            });
            if let Some(rule) = untried {
                let because = Because::Untried(RuleRef::of(rule));
                self.say(Stage::Unclear, Verdict::Ask, because, None);
                return;
            }
        }
    }

    fn is_allowed_exactly(&mut self) -> bool {
        let exact = coverage::of_whole_text(
            self.call,
            self.situation,
            &self.prepared,
            self.moment,
            &mut self.cost,
        );
        exact.is_some()
    }

    fn hear_check(&mut self) {
        let verdict = match self.situation.check {
            Check::Passthrough | Check::Allow => return,
            Check::Ask | Check::AskFirm => Verdict::Ask,
            Check::Deny => Verdict::Deny,
        };
        self.say(Stage::ToolCheck, verdict, Because::ToolCheck, None);
    }

    /// What is left to lift, if nothing stricter was said.
    fn ordinary_asks(&self, base: Verdict) -> Ordinary {
        let is_firm = self.situation.check == Check::AskFirm
            || self
                .steps
                .iter()
                .any(|step| step.verdict == Verdict::Deny || step.stage < Stage::ModeBlock);
        match (is_firm, self.situation.check, base) {
            (true, _, _) => Ordinary::None,
            (false, Check::Ask, _) => Ordinary::Check,
            (false, _, Verdict::Ask) => Ordinary::Mode,
            (false, _, Verdict::Allow | Verdict::Deny) => Ordinary::None,
        }
    }

    /// Allow rules are always heard; what else lifts is asked only where there is something to lift.
    fn hear_lifts(&mut self, ordinary: Ordinary) {
        let needs_lift = ordinary != Ordinary::None;
        let covered = coverage::of_call(
            self.call,
            self.situation,
            &self.prepared,
            self.moment,
            &mut self.cost,
        )
        .filter(|covered| needs_lift || covered.grants.is_empty());
        let lift = covered.or_else(|| self.other_lift(ordinary));
        if let Some(lift) = lift {
            let because = lift.because.clone();
            self.say(Stage::Allow, Verdict::Allow, because, lift.segment.clone());
            self.lift = needs_lift.then_some(lift);
        }
    }

    fn other_lift(&self, ordinary: Ordinary) -> Option<Coverage> {
        let is_dangerous = self.call.risk == Risk::Dangerous;
        let settings = self.situation.settings;
        let hook_counts = !is_dangerous || settings.hook_allow_covers_dangerous;
        let tool_counts = !is_dangerous && settings.executor_is_trusted;
        let skip_counts = !is_dangerous && self.moment.mode != Mode::Plan;
        let because = if ordinary == Ordinary::None {
            return None;
        } else if self.situation.hook == Hook::Allow && hook_counts {
            Because::Hook
        } else if self.situation.check == Check::Allow && tool_counts {
            Because::ToolCheck
        } else if ordinary == Ordinary::Mode && self.call.skip_permission && skip_counts {
            Because::SkipPermission
        } else {
            return None;
        };
        Some(Coverage::of(because))
    }

    fn answer(mut self) -> Answer {
        let strictest = |steps: &[Step], lifted: bool| {
            let counted = steps.iter().filter(|step| !(lifted && step.is_liftable()));
            counted
                .map(|step| step.verdict)
                .max()
                .unwrap_or(Verdict::Ask)
        };
        let lifted = self.lift.is_some();
        let is_deferred = self.situation.hook == Hook::Defer;
        let mut verdict = strictest(&self.steps, lifted);
        let nobody = self.situation.approver == Approver::None && !is_deferred;
        if verdict == Verdict::Ask && nobody {
            self.say(Stage::Approver, Verdict::Deny, Because::NoApprover, None);
            verdict = Verdict::Deny;
        }
        let decided_by = self.steps.iter().find(|step| step.verdict == verdict);
        // Unreachable: the mode always speaks. If it did not, nobody would have allowed the call.
        let decided_by = decided_by.cloned().unwrap_or(Step {
            stage: Stage::ModeAndRisk,
            verdict,
            because: Because::Mode(self.moment.mode),
            segment: None,
        });
        Answer {
            verdict,
            decided_by,
            mode: self.moment.mode,
            grants_used: match verdict {
                Verdict::Allow => self.lift.map(|lift| lift.grants).unwrap_or_default(),
                Verdict::Ask | Verdict::Deny => Vec::new(),
            },
            is_deferred: is_deferred && verdict == Verdict::Ask,
            looks: self.cost.0,
            steps: self.steps,
        }
    }
}

/// The first rule of the list that matches one of these.
fn first_rule<'t>(
    call: &Call<'_>,
    situation: &Situation<'_>,
    list: Verdict,
    trials: impl Iterator<Item = (Trial<'t>, &'t Option<String>)> + Clone,
    moment: Moment,
    cost: &mut Cost,
) -> Option<(RuleRef, Option<String>)> {
    let tool = call.tool.name.as_str();
    for policy in situation.policies {
        let found = trials.clone().filter_map(|(trial, shown)| {
            let found = policy.find(list, tool, trial, moment, cost);
            found.map(|(number, rule)| (number, rule, shown))
        });
        if let Some((_, rule, shown)) = found.min_by_key(|(number, ..)| *number) {
            return Some((RuleRef::of(rule), shown.clone()));
        }
    }
    None
}

impl Moment {
    /// When and in which mode a call is decided.
    pub(super) fn of(situation: &Situation<'_>) -> Self {
        let policies = situation.policies.iter();
        let maxima = policies.filter_map(|policy| policy.max_mode());
        let bounds = ModeBounds {
            max: maxima.chain(situation.mode.max).min(),
            ..situation.mode
        };
        Self {
            now: situation.now,
            mode: bounds.effective(situation.grants.edits_granted(situation.now)),
        }
    }
}

impl Step {
    /// Whether the allow stage may set this word aside.
    pub(super) fn is_liftable(&self) -> bool {
        self.verdict == Verdict::Ask && matches!(self.stage, Stage::ToolCheck | Stage::ModeAndRisk)
    }
}
