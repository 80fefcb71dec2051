//! What is dubious about rules that are valid.
//!
//! Advice for their author, by code. Never changes what a rule does.

use std::collections::BTreeMap;

use super::broad::too_wide;
use super::command_pattern::Form;
use super::path_pattern::Space;
use super::policy::RuleRef;
use super::rule::{Plain, Rule, Spec, ToolPattern, Verdict};
use super::rule_set::Aliases;
use super::words::with_single_blanks;
use crate::gate::tool::SubjectKind;

/// A tool that there is, as far as rules are about it.
#[derive(Debug, Clone, Copy)]
pub struct ToolInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its rules are about. None: it declares nothing.
    pub subject: Option<SubjectKind>,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// The rule.
    pub rule: RuleRef,
    /// What is dubious.
    pub kind: LintKind,
}

/// What can be dubious.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LintKind {
    /// Another rule decides every call that this one matches.
    Unreachable {
        /// That rule.
        by: RuleRef,
    },
    /// The prefix lets nearly anything run.
    PrefixTooWide {
        /// Why.
        why: &'static str,
    },
    /// The rule matches these words and no more of them; where it stops calls, flags do not count.
    ExactOnly {
        /// What matches more.
        instead: String,
    },
    /// There is no tool that the rule means.
    NoSuchTool,
    /// No tool that the rule means declares what its specifier is about.
    NoSuchSubject,
    /// The pattern begins where its settings stand, not where the machine's paths do.
    OnlyBelowRoot {
        /// What does.
        instead: String,
    },
    /// The pattern stops nothing outside the working directory.
    OnlyBelowCwd {
        /// What does.
        instead: String,
    },
}

impl LintKind {
    /// Whether it depends on which tools there are.
    #[must_use]
    pub fn is_about_tools(&self) -> bool {
        matches!(self, LintKind::NoSuchTool | LintKind::NoSuchSubject)
    }

    /// The stable code that people search for.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            LintKind::Unreachable { .. } => "rule_unreachable",
            LintKind::PrefixTooWide { .. } => "rule_prefix_too_wide",
            LintKind::ExactOnly { .. } => "rule_exact_only",
            LintKind::NoSuchTool => "rule_no_such_tool",
            LintKind::NoSuchSubject => "rule_no_such_subject",
            LintKind::OnlyBelowRoot { .. } => "rule_only_below_root",
            LintKind::OnlyBelowCwd { .. } => "rule_only_below_cwd",
        }
    }
}

impl std::fmt::Display for LintKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LintKind::Unreachable { by } => {
                let (list, text, source) = (by.list.as_str(), &by.text, by.origin.source);
                write!(
                    out,
                    "{list} rule `{text}` of {source} decides every call of it"
                )
            }
            LintKind::PrefixTooWide { why } => {
                write!(out, "lets nearly anything run: {why}; allow exact commands")
            }
            LintKind::ExactOnly { instead } => {
                write!(
                    out,
                    "matches these words and no more; for more write `{instead}`"
                )
            }
            LintKind::NoSuchTool => write!(out, "there is no such tool now"),
            LintKind::NoSuchSubject => {
                write!(
                    out,
                    "no such tool declares what stands in `(…)`, so it never matches"
                )
            }
            LintKind::OnlyBelowRoot { instead } => {
                write!(
                    out,
                    "`/` is where these settings stand, or the working directory; for the machine's own \
                     `/` write `{instead}`"
                )
            }
            LintKind::OnlyBelowCwd { instead } => {
                write!(
                    out,
                    "holds below the working directory only; for everywhere write `{instead}`"
                )
            }
        }
    }
}

/// All advice about these rules, in their order. Without tools nothing is said about tools.
pub(super) fn lint(rules: &[Rule], tools: &[ToolInfo<'_>], aliases: &Aliases) -> Vec<Lint> {
    let linter = Linter::new(rules, tools, aliases);
    let mut found = Vec::new();
    for rule in rules {
        let kinds = linter.kinds(rule).into_iter();
        found.extend(kinds.map(|kind| Lint {
            rule: RuleRef::of(rule),
            kind,
        }));
    }
    found
}

struct Linter<'a> {
    /// Deny and ask rules that decide every call of their tools.
    stoppers: Vec<&'a Rule>,
    /// Deny and ask rules by their text.
    by_text: BTreeMap<&'a str, &'a Rule>,
    tools: &'a [ToolInfo<'a>],
    aliases: &'a Aliases,
}

impl<'a> Linter<'a> {
    fn new(rules: &'a [Rule], tools: &'a [ToolInfo<'a>], aliases: &'a Aliases) -> Self {
        let stopping = || rules.iter().filter(|rule| rule.list != Verdict::Allow);
        Self {
            stoppers: stopping().filter(|rule| rule.is_unconditional()).collect(),
            by_text: stopping()
                .filter(|rule| rule.expires.is_none() && rule.modes == super::mode::Modes::ALL)
                .map(|rule| (&*rule.text, rule))
                .collect(),
            tools,
            aliases,
        }
    }

    fn kinds(&self, rule: &Rule) -> Vec<LintKind> {
        let tools = self.tools_of(rule);
        let mut kinds: Vec<LintKind> = self.unreachable(rule).into_iter().collect();
        if tools.is_empty() && !self.tools.is_empty() {
            kinds.push(LintKind::NoSuchTool);
        }
        if !tools.is_empty() && !tools.iter().any(|tool| can_match(rule, tool)) {
            kinds.push(LintKind::NoSuchSubject);
        }
        if let Spec::Plain(plain) = &rule.spec {
            let may_be = |kind| tools.iter().any(|tool| tool.subject == Some(kind));
            let is_path = may_be(SubjectKind::Path);
            if may_be(SubjectKind::Command) || tools.is_empty() {
                kinds.extend(about_command(rule, plain));
            }
            let (tool, inner) = (tool_text(&rule.tool), inner_text(rule));
            if is_path && inner.starts_with('/') && !inner.starts_with("//") {
                let instead = format!("{tool}(/{inner})");
                kinds.push(LintKind::OnlyBelowRoot { instead });
            }
            if is_path && rule.list != Verdict::Allow && is_bare(plain) {
                let instead = format!("{tool}(//**/{inner})");
                kinds.push(LintKind::OnlyBelowCwd { instead });
            }
        }
        kinds
    }

    fn tools_of(&self, rule: &Rule) -> Vec<&'a ToolInfo<'a>> {
        let stands_for = |name: &str, tool: &str| {
            let tools = self.aliases.get(name);
            tools.is_some_and(|tools| tools.iter().any(|one| one == tool))
        };
        let means = |tool: &&ToolInfo<'_>| match &rule.tool {
            ToolPattern::Name(name) => **name == *tool.name || stands_for(name, tool.name),
            ToolPattern::Glob(glob) => {
                let mut aliases = self.aliases.keys();
                glob.matches(tool.name)
                    || aliases.any(|name| glob.matches(name) && stands_for(name, tool.name))
            }
        };
        self.tools.iter().filter(means).collect()
    }

    /// The rule that leaves nothing for an allow rule to do.
    fn unreachable(&self, rule: &Rule) -> Option<LintKind> {
        if rule.list != Verdict::Allow {
            return None;
        }
        let same = self.by_text.get(&*rule.text).copied();
        let mut stoppers = self.stoppers.iter().copied();
        let by = same.or_else(|| stoppers.find(|other| covers(&other.tool, &rule.tool)))?;
        Some(LintKind::Unreachable {
            by: RuleRef::of(by),
        })
    }
}

/// Whether every tool that `inner` means is meant by `outer`, as far as the texts tell.
fn covers(outer: &ToolPattern, inner: &ToolPattern) -> bool {
    match (outer, inner) {
        (ToolPattern::Glob(glob), ToolPattern::Name(name)) => glob.matches(name),
        (outer, inner) => outer == inner,
    }
}

fn can_match(rule: &Rule, tool: &ToolInfo<'_>) -> bool {
    match (&rule.spec, tool.subject) {
        (Spec::Any | Spec::Param(_), _) => true,
        (Spec::Host(_), subject) => subject == Some(SubjectKind::Url),
        (Spec::Plain(_), None) => false,
        (Spec::Plain(_), Some(SubjectKind::Url)) => rule.list != Verdict::Allow,
        (Spec::Plain(_), Some(_)) => true,
    }
}

fn about_command(rule: &Rule, plain: &Plain) -> Option<LintKind> {
    let inner = inner_text(rule);
    let ends = [" *", ":*", "*"];
    let prefix = ends.iter().find_map(|end| inner.strip_suffix(end));
    let words: Vec<&str> = prefix.unwrap_or(inner).split_whitespace().collect();
    let is_prefix = matches!(plain.command.form, Form::WordPrefix | Form::TextPrefix);
    match (rule.list, plain.command.form) {
        (Verdict::Allow, _) if is_prefix && !words.is_empty() => {
            too_wide(&words).map(|why| LintKind::PrefixTooWide { why })
        }
        // One word may be a path or a name; what stops one word stops its arguments too.
        (Verdict::Allow, Form::Exact) if words.len() == 1 && too_wide(&words).is_some() => {
            Some(exact_only(rule, inner))
        }
        (Verdict::Ask | Verdict::Deny, Form::Exact) if words.len() > 1 => {
            Some(exact_only(rule, inner))
        }
        (Verdict::Allow | Verdict::Ask | Verdict::Deny, _) => None,
    }
}

fn exact_only(rule: &Rule, inner: &str) -> LintKind {
    let (tool, words) = (tool_text(&rule.tool), with_single_blanks(inner));
    LintKind::ExactOnly {
        instead: format!("{tool}({words} *)"),
    }
}

/// A pattern that begins at any depth below the working directory.
fn is_bare(plain: &Plain) -> bool {
    plain.path.floating && plain.path.space == Space::Cwd
}

fn tool_text(tool: &ToolPattern) -> &str {
    match tool {
        ToolPattern::Name(name) => name,
        ToolPattern::Glob(glob) => &glob.text,
    }
}

/// What stands inside the brackets.
fn inner_text(rule: &Rule) -> &str {
    let inner = rule.text.split_once('(').map(|(_, rest)| rest);
    inner
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or_default()
        .trim()
}
