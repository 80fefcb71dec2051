//! All rules of some sources, compiled once and never changed.
//!
//! A change makes a new policy with a higher revision; whoever holds the old one keeps it whole. An
//! invalid allow rule is left out and reported; an invalid deny or ask rule refuses the load, since
//! whoever wrote it counts on it. Never reads a file and never decides a call.

use std::sync::Arc;

use super::error::{LoadError, RuleError, RuleProblem};
use super::examples;
use super::index::Cost;
use super::lint::{self, Lint, ToolInfo};
use super::mode::{Mode, Modes};
use super::parse;
use super::prepared::Prepared;
use super::rule::{Rule, Spec, Verdict};
use super::rule_set::{Aliases, Moment, RuleSet, Trial};
use super::settings::{Extras, RuleEntry, SourceRules};
use super::source::{Origin, Source};
use super::subject::CommandSubject;
use crate::gate::ids::UnixMillis;
use crate::gate::tool::SubjectKind;

/// The rules of one place, with where they come from.
#[derive(Debug, Clone)]
pub struct SourceText {
    /// Who wrote them.
    pub source: Source,
    /// The file, as people know it. None: they stand in no file.
    pub file: Option<Arc<str>>,
    /// The directory that `/` means in their paths, absolute. None: the working directory.
    pub root: Option<String>,
    /// The rules.
    pub rules: SourceRules,
}

/// What else a load depends on.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Names that rules may use for tools.
    pub aliases: &'a Aliases,
    /// Whether the workspace is trusted; without it the allow rules in it do not hold.
    pub trust: Trust,
    /// What the tools that a rule name stands for declare, as far as it is known. For examples.
    pub subject_of: &'a dyn Fn(&str) -> Option<SubjectKind>,
    /// How the commands of examples are cut up.
    pub read_command: &'a dyn Fn(&str) -> CommandSubject,
}

/// Whether someone outside a workspace has said that its files may allow things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Nobody has.
    Untrusted,
    /// The user has.
    Trusted,
}

/// A policy, and what its author should know.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// Allow rules that were left out because they are invalid.
    pub skipped: Vec<RuleProblem>,
    /// Allow rules that do not hold until the workspace is trusted.
    pub inert: Vec<RuleRef>,
}

/// All rules of some sources.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    revision: u64,
    set: RuleSet,
    max_mode: Option<Mode>,
}

/// A rule as an answer names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRef {
    /// The list it stands in.
    pub list: Verdict,
    /// As written.
    pub text: Arc<str>,
    /// Where it stands.
    pub origin: Origin,
    /// What its author tells whoever meets it.
    pub message: Option<Arc<str>>,
}

impl RuleRef {
    pub(super) fn of(rule: &Rule) -> Self {
        Self {
            list: rule.list,
            text: rule.text.clone(),
            origin: rule.origin.clone(),
            message: rule.message.clone(),
        }
    }
}

impl Policy {
    /// Reads and compiles the rules of all these sources.
    ///
    /// # Errors
    /// [`LoadError`]: a deny or ask rule is invalid. What held before should go on holding.
    pub fn load(
        mut texts: Vec<SourceText>,
        options: &LoadOptions<'_>,
        revision: u64,
    ) -> Result<Loaded, LoadError> {
        texts.sort_by_key(|text| text.source);
        let mut load = Load::default();
        for text in &texts {
            load.add_source(text, options);
        }
        let is_refused = load
            .problems
            .iter()
            .any(|problem| problem.list != Verdict::Allow);
        if is_refused {
            return Err(LoadError {
                problems: load.problems,
            });
        }
        let administrators = texts.iter().filter(|text| text.source == Source::Policy);
        Ok(Loaded {
            policy: Policy {
                revision,
                max_mode: administrators.filter_map(|text| text.rules.max_mode).min(),
                set: RuleSet::new(load.rules, options.aliases),
            },
            skipped: load.problems,
            inert: load.inert,
        })
    }

    /// Whether there are no rules, so that nothing about a call can matter to them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.rules().is_empty()
    }

    /// Counts the policies of one place; a later one has a higher number.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The highest mode that any session may have. None: any.
    #[must_use]
    pub fn max_mode(&self) -> Option<Mode> {
        self.max_mode
    }

    /// The rule that hides a tool from the model: it denies every call, in every mode.
    #[must_use]
    pub fn hides(&self, tool: &str, now: UnixMillis) -> Option<RuleRef> {
        let mut hiding = None;
        for mode in Mode::ALL {
            let moment = Moment { now, mode };
            let trial = Trial::Call(None);
            let cost = &mut Cost::default();
            hiding = Some(self.set.find(Verdict::Deny, tool, trial, moment, cost)?);
        }
        hiding.map(|(_, rule)| RuleRef::of(rule))
    }

    /// All rules, in the order in which they are asked.
    pub fn rules(&self) -> impl Iterator<Item = RuleRef> {
        self.set.rules().iter().map(RuleRef::of)
    }

    /// What is dubious about the rules, given the tools that there are.
    #[must_use]
    pub fn lint(&self, tools: &[ToolInfo<'_>], aliases: &Aliases) -> Vec<Lint> {
        lint::lint(self.set.rules(), tools, aliases)
    }

    pub(super) fn find(
        &self,
        list: Verdict,
        tool: &str,
        trial: Trial<'_>,
        moment: Moment,
        cost: &mut Cost,
    ) -> Option<(u32, &Rule)> {
        self.set.find(list, tool, trial, moment, cost)
    }

    /// Whether a rule of the list may be about commands of that program.
    pub(super) fn is_about_program(
        &self,
        list: Verdict,
        tool: &str,
        program: &str,
        cost: &mut Cost,
    ) -> bool {
        self.set.is_about_program(list, tool, program, cost)
    }

    /// Whether a rule of the list is about that tool.
    pub(super) fn is_about_tool(&self, list: Verdict, tool: &str) -> bool {
        self.set.is_about_tool(list, tool)
    }

    pub(super) fn untried(
        &self,
        list: Verdict,
        tool: &str,
        call: &Prepared,
        moment: Moment,
        cost: &mut Cost,
    ) -> Option<&Rule> {
        self.set.untried(list, tool, call, moment, cost)
    }
}

/// A load under way.
#[derive(Default)]
struct Load {
    rules: Vec<Rule>,
    problems: Vec<RuleProblem>,
    inert: Vec<RuleRef>,
}

impl Load {
    fn add_source(&mut self, text: &SourceText, options: &LoadOptions<'_>) {
        let mut counts = [0; 3];
        for (list, entry) in &text.rules.entries {
            let place = counts.get_mut(*list as usize);
            let index = place.map_or(0, |count| {
                *count += 1;
                *count - 1
            });
            let origin = Origin {
                source: text.source,
                file: text.file.clone(),
                index,
            };
            match read(entry, *list, &origin, text.root.as_deref(), options) {
                Ok(rule) => self.add(rule, options.trust),
                Err(error) => self.problems.push(RuleProblem {
                    origin,
                    list: *list,
                    text: entry.text.clone(),
                    error,
                }),
            }
        }
    }

    fn add(&mut self, rule: Rule, trust: Trust) {
        let is_inert = rule.list == Verdict::Allow
            && rule.origin.source.needs_trust()
            && trust == Trust::Untrusted;
        match is_inert {
            true => self.inert.push(RuleRef::of(&rule)),
            false => self.rules.push(rule),
        }
    }
}

fn read(
    entry: &RuleEntry,
    list: Verdict,
    origin: &Origin,
    root: Option<&str>,
    options: &LoadOptions<'_>,
) -> Result<Rule, RuleError> {
    let extras = entry.extras.as_ref().map_err(Clone::clone)?;
    let (tool, spec) = parse::parse(&entry.text, list, root)?;
    let Extras {
        message,
        expires,
        modes,
        ..
    } = extras.clone();
    let rule = Rule {
        list,
        text: entry.text.trim().into(),
        tool,
        spec,
        message,
        expires,
        modes,
        origin: origin.clone(),
    };
    examples::check(&rule, extras, root, options)?;
    Ok(rule)
}

impl Rule {
    /// Whether it means every call of its tools, in every mode, for ever.
    pub(super) fn is_unconditional(&self) -> bool {
        matches!(self.spec, Spec::Any) && self.modes == Modes::ALL && self.expires.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(source: Source, list: Verdict, rules: &[&str]) -> SourceText {
        let entries = rules.iter().map(|rule| (list, RuleEntry::of_text(*rule)));
        SourceText {
            source,
            file: None,
            root: None,
            rules: SourceRules {
                entries: entries.collect(),
                max_mode: None,
            },
        }
    }

    fn load(texts: Vec<SourceText>, trust: Trust) -> Result<Loaded, LoadError> {
        let options = LoadOptions {
            aliases: &Aliases::default(),
            trust,
            subject_of: &|_| None,
            read_command: &CommandSubject::plain,
        };
        Policy::load(texts, &options, 7)
    }

    #[test]
    fn rules_keep_their_place_and_sources_their_order() {
        let texts = vec![
            source(Source::Session, Verdict::Deny, &["a"]),
            source(Source::Policy, Verdict::Ask, &["b", "c"]),
        ];
        let policy = load(texts, Trust::Untrusted).unwrap().policy;
        let places = policy
            .rules()
            .map(|rule| (rule.text.to_string(), rule.origin.source, rule.origin.index));
        let expected = [
            ("b".to_owned(), Source::Policy, 0),
            ("c".to_owned(), Source::Policy, 1),
            ("a".to_owned(), Source::Session, 0),
        ];
        assert_eq!(places.collect::<Vec<_>>(), expected);
        assert_eq!(policy.revision(), 7);
    }

    #[test]
    fn a_wrong_allow_rule_is_left_out_and_a_wrong_deny_rule_refuses_the_load() {
        let allow = source(Source::User, Verdict::Allow, &["a(", "b"]);
        let loaded = load(vec![allow.clone()], Trust::Trusted).unwrap();
        assert_eq!(loaded.skipped.len(), 1);
        assert_eq!(loaded.policy.rules().count(), 1);
        let deny = source(Source::User, Verdict::Deny, &["c("]);
        let error = load(vec![allow, deny], Trust::Trusted).unwrap_err();
        let codes: Vec<_> = error
            .problems
            .iter()
            .map(|problem| problem.error.code())
            .collect();
        assert_eq!(codes, ["rule_unclosed", "rule_unclosed"]);
    }

    #[test]
    fn only_a_deny_of_every_call_in_every_mode_hides_a_tool() {
        let deny = source(
            Source::User,
            Verdict::Deny,
            &["a", "b(*)", "c(x)", "mcp__*"],
        );
        let policy = load(vec![deny], Trust::Trusted).unwrap().policy;
        let hidden =
            ["a", "b", "c", "mcp__x", "d"].map(|tool| policy.hides(tool, UnixMillis(0)).is_some());
        assert_eq!(hidden, [true, true, false, true, false]);
    }

    #[test]
    fn what_a_workspace_allows_waits_for_trust() {
        let allow = source(Source::Local, Verdict::Allow, &["a"]);
        let untrusted = load(vec![allow.clone()], Trust::Untrusted).unwrap();
        assert_eq!(
            (untrusted.inert.len(), untrusted.policy.rules().count()),
            (1, 0)
        );
        let trusted = load(vec![allow], Trust::Trusted).unwrap();
        assert_eq!(
            (trusted.inert.len(), trusted.policy.rules().count()),
            (0, 1)
        );
    }

    #[test]
    fn dubious_rules_are_told_to_their_author() {
        let tools = [
            ToolInfo {
                name: "run",
                subject: Some(SubjectKind::Command),
            },
            ToolInfo {
                name: "read",
                subject: Some(SubjectKind::Path),
            },
            ToolInfo {
                name: "get",
                subject: Some(SubjectKind::Url),
            },
            ToolInfo {
                name: "gone",
                subject: None,
            },
        ];
        let cases: [(Verdict, &str, &[&str]); 17] = [
            (Verdict::Allow, "run(git status *)", &[]),
            (Verdict::Allow, "run(python3 *)", &["rule_prefix_too_wide"]),
            (Verdict::Allow, "run(python*)", &["rule_prefix_too_wide"]),
            (Verdict::Allow, "run(git:*)", &["rule_prefix_too_wide"]),
            (
                Verdict::Allow,
                "run(devbox run *)",
                &["rule_prefix_too_wide"],
            ),
            (Verdict::Allow, "run(git)", &["rule_exact_only"]),
            (Verdict::Allow, "run(make)", &["rule_exact_only"]),
            (Verdict::Deny, "run(git push)", &["rule_exact_only"]),
            (Verdict::Deny, "run(yarn)", &[]),
            (Verdict::Deny, "rum(git push *)", &["rule_no_such_tool"]),
            (
                Verdict::Deny,
                "run(domain:a.com)",
                &["rule_no_such_subject"],
            ),
            (
                Verdict::Allow,
                "get(https://a.com*)",
                &["rule_no_such_subject"],
            ),
            (Verdict::Deny, "read(.env)", &["rule_only_below_cwd"]),
            (Verdict::Deny, "read(//**/.env)", &[]),
            (Verdict::Deny, "read(/etc/**)", &["rule_only_below_root"]),
            (Verdict::Allow, "read(/src/**)", &["rule_only_below_root"]),
            (
                Verdict::Allow,
                "gone(x)",
                &["rule_unreachable", "rule_no_such_subject"],
            ),
        ];
        for (list, text, expected) in cases {
            let denied = source(Source::Policy, Verdict::Deny, &["go*"]);
            let texts = vec![denied, source(Source::User, list, &[text])];
            let policy = load(texts, Trust::Trusted).unwrap().policy;
            let lints = policy.lint(&tools, &Aliases::default());
            let codes: Vec<_> = lints
                .iter()
                .filter(|lint| &*lint.rule.text == text)
                .map(|lint| lint.kind.code())
                .collect();
            assert_eq!(codes, expected, "`{text}`");
        }
    }
}
