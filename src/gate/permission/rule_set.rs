//! Rules in their lists, found by tool, then by what they match.
//!
//! Each list files its rules under tool names and forms of names, and below that by the beginnings of
//! what they match. Never orders verdicts: it answers for one list at a time, with the rule that comes
//! first among the sources.

use std::collections::BTreeMap;

use super::about::written_call;
use super::index::{Cost, Filed, Filing, Index, Key, PIECES_MAX, beginnings};
use super::meeting::may_meet;
use super::mode::Mode;
use super::path_pattern::Tried;
use super::prepared::{Item, Prepared};
use super::rule::{Plain, Rule, Spec, ToolPattern, Verdict};
use super::table::{Table, TableMaker};
use crate::gate::command::OpenProgram;
use crate::gate::ids::UnixMillis;
use crate::gate::json::Value;

/// Which names rules may use for a tool, and which tools a name stands for.
pub type Aliases = BTreeMap<String, Vec<String>>;

/// All rules of one policy.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleSet {
    /// By number; sources in their order.
    rules: Vec<Rule>,
    deny: Shelf,
    ask: Shelf,
    allow: Shelf,
}

/// When and in which mode rules are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: UnixMillis,
    pub(super) mode: Mode,
}

/// What a rule is tried on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trial<'a> {
    /// The call as a whole: rules without a specifier, and those about arguments.
    Call(Option<Value<'a>>),
    /// The whole command, for rules that are exactly it.
    WholeCommand(&'a str),
    /// One part of its subject.
    Part(&'a Item),
}

impl RuleSet {
    pub(super) fn new(rules: Vec<Rule>, aliases: &Aliases) -> Self {
        let shelf = |list| Shelf::new(&rules, list, aliases);
        Self {
            deny: shelf(Verdict::Deny),
            ask: shelf(Verdict::Ask),
            allow: shelf(Verdict::Allow),
            rules,
        }
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The first rule of the list that matches, if any, with its number.
    pub(super) fn find(
        &self,
        list: Verdict,
        tool: &str,
        trial: Trial<'_>,
        moment: Moment,
        cost: &mut Cost,
    ) -> Option<(u32, &Rule)> {
        let mut best: Option<u32> = None;
        let mut consider = |number: u32, cost: &mut Cost| {
            if best.is_some_and(|best| best <= number) {
                return;
            }
            cost.add(1);
            let rule = self.rules.get(number as usize);
            let matches = |rule: &Rule| rule.holds(moment.now, moment.mode) && trial.fits(rule);
            if rule.is_some_and(matches) {
                best = Some(number);
            }
        };
        for table in self.shelf(list).tables(tool, cost) {
            table.candidates(trial, cost, &mut consider);
        }
        best.and_then(|number| Some((number, self.rules.get(number as usize)?)))
    }

    /// A rule of the list that means this tool and that nobody can try on this call.
    pub(super) fn untried(
        &self,
        list: Verdict,
        tool: &str,
        call: &Prepared,
        moment: Moment,
        cost: &mut Cost,
    ) -> Option<&Rule> {
        let tables = self.shelf(list).tables(tool, cost);
        let lists = tables.iter().flat_map(|table| table.untried(call));
        let of_lists = lists.flatten().copied();
        let mut of_programs = Vec::new();
        for table in &tables {
            for program in &call.open_programs {
                let about = table.about_program(&program.name, cost).into_iter();
                let may_mean = |number: &u32| {
                    let rule = self.rules.get(*number as usize);
                    rule.is_some_and(|rule| may_be_spelled(rule, program))
                };
                of_programs.extend(about.filter(may_mean));
            }
        }
        let numbers = of_lists.chain(of_programs);
        let mut rules = numbers.filter_map(|number| self.rules.get(number as usize));
        rules.find(|rule| rule.holds(moment.now, moment.mode))
    }

    /// Whether a rule of the list is about that tool.
    pub(super) fn is_about_tool(&self, list: Verdict, tool: &str) -> bool {
        let cost = &mut Cost::default();
        !self.shelf(list).tables(tool, cost).is_empty()
    }

    /// Whether a rule of the list may be about commands of that program.
    pub(super) fn is_about_program(
        &self,
        list: Verdict,
        tool: &str,
        program: &str,
        cost: &mut Cost,
    ) -> bool {
        let tables = self.shelf(list).tables(tool, cost);
        let mut tables = tables.into_iter();
        tables.any(|table| !table.about_program(program, cost).is_empty())
    }

    fn shelf(&self, list: Verdict) -> &Shelf {
        match list {
            Verdict::Deny => &self.deny,
            Verdict::Ask => &self.ask,
            Verdict::Allow => &self.allow,
        }
    }
}

/// Whether a word that begins so may be one of a rule.
fn may_be_spelled(rule: &Rule, program: &OpenProgram) -> bool {
    let (_, written) = written_call(&rule.text);
    let mut words = written.unwrap_or_default().split([' ', ':']).skip(1);
    let meets = |word: &str, beginning: &String| {
        let fixed = word.split('*').next().unwrap_or_default();
        let fixed = fixed.trim_matches(['"', '\'', '\\']);
        // A gap that stands for whole words is met by every command of the program anyway.
        !fixed.is_empty()
            && (fixed.starts_with(beginning.as_str())
                || beginning.starts_with(fixed) && word.contains('*'))
    };
    let meets_pattern = |word: &str| {
        let says_more = word.starts_with('*') && !word.trim_matches('*').is_empty();
        says_more
            && program
                .patterns
                .iter()
                .any(|pattern| may_meet(pattern, word))
    };
    let beginnings = &program.beginnings;
    beginnings.is_empty()
        || words.any(|word| {
            meets_pattern(word) || beginnings.iter().any(|beginning| meets(word, beginning))
        })
}

impl Trial<'_> {
    pub(super) fn fits(self, rule: &Rule) -> bool {
        match (self, &rule.spec) {
            (Trial::Call(_), Spec::Any) => true,
            (Trial::Call(Some(arguments)), Spec::Param(param)) => param.matches(arguments),
            (Trial::Part(item), Spec::Plain(plain)) => fits_plain(item, plain, rule.list),
            (Trial::Part(Item::Url(url)), Spec::Host(host)) => match rule.list {
                Verdict::Allow => url.narrow.iter().any(|target| host.matches(target)),
                Verdict::Ask | Verdict::Deny => url.wide.iter().any(|target| host.matches(target)),
            },
            (Trial::WholeCommand(text), Spec::Plain(plain)) => plain.command.is_exactly(text),
            (Trial::Call(_) | Trial::WholeCommand(_) | Trial::Part(_), _) => false,
        }
    }
}

fn fits_plain(item: &Item, plain: &Plain, list: Verdict) -> bool {
    match item {
        Item::Command(view) => plain.command.matches(view),
        Item::Path(path) => plain.path.matches(path) == Tried::Yes,
        Item::Text(text) => plain.text.matches(text),
        // `https://example.com*` would let `https://example.com.evil.net` through.
        Item::Url(url) => {
            list != Verdict::Allow && url.texts.iter().any(|text| plain.text.matches(text))
        }
    }
}

/// The rules of one list by their tools.
#[derive(Debug, Clone, Default)]
struct Shelf {
    tables: Vec<Table>,
    /// Tables by exact name.
    names: Index,
    /// Tables by the beginning of the form.
    globs: Filed,
}

impl Shelf {
    fn new(rules: &[Rule], list: Verdict, aliases: &Aliases) -> Self {
        let mut makers: BTreeMap<ToolKey, (ToolPattern, TableMaker)> = BTreeMap::new();
        for (number, rule) in (0..).zip(rules).filter(|(_, rule)| rule.list == list) {
            for pattern in meant(rule, aliases) {
                let key = ToolKey::of(&pattern);
                let (_, maker) = makers
                    .entry(key)
                    .or_insert((pattern, TableMaker::default()));
                maker.add(rule, number);
            }
        }
        let mut names = Vec::new();
        let mut globs = Filing::default();
        let mut tables = Vec::new();
        for (number, (tool, maker)) in (0..).zip(makers.into_values()) {
            match &tool {
                ToolPattern::Name(name) => names.push((Key::EMPTY.then(name), number)),
                ToolPattern::Glob(glob) => {
                    let pieces = beginnings(whole_pieces(glob.literal_prefix()));
                    globs.file(pieces, PIECES_MAX, number);
                }
            }
            tables.push(maker.finish(tool));
        }
        Self {
            tables,
            names: Index::new(names),
            globs: globs.finish(),
        }
    }

    /// The tables whose tool is meant.
    fn tables(&self, tool: &str, cost: &mut Cost) -> Vec<&Table> {
        let mut found: Vec<u32> = self.names.probe(Key::EMPTY.then(tool), cost).collect();
        let pieces = beginnings(tool.split('_'));
        self.globs.candidates(pieces, cost, &mut |number, cost| {
            cost.add(1);
            found.push(number);
        });
        let tables = found
            .into_iter()
            .filter_map(|number| self.tables.get(number as usize));
        let means = |table: &&Table| match &table.tool {
            ToolPattern::Name(name) => **name == *tool,
            ToolPattern::Glob(glob) => glob.matches(tool),
        };
        tables.filter(means).collect()
    }
}

/// Sorts names before forms, each by its text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ToolKey {
    Name(Box<str>),
    Glob(Box<str>),
}

impl ToolKey {
    fn of(pattern: &ToolPattern) -> Self {
        match pattern {
            ToolPattern::Name(name) => ToolKey::Name(name.clone()),
            ToolPattern::Glob(glob) => ToolKey::Glob(glob.text.clone()),
        }
    }
}

/// The pieces of a beginning that no further text can prolong.
fn whole_pieces(prefix: &str) -> impl Iterator<Item = &str> {
    let pieces: Vec<&str> = prefix.split('_').collect();
    let whole = pieces.len() - 1;
    pieces.into_iter().take(whole)
}

/// Every tool that the rule means.
///
/// An alias stands for its tools. What stops a call also means the tool of that very name.
fn meant(rule: &Rule, aliases: &Aliases) -> Vec<ToolPattern> {
    let is_wide = rule.list != Verdict::Allow;
    let tools_of = |is_meant: &dyn Fn(&str) -> bool| -> Vec<ToolPattern> {
        let meant = aliases.iter().filter(|(alias, _)| is_meant(alias));
        let mut tools: Vec<&String> = meant.flat_map(|(_, tools)| tools).collect();
        tools.sort_unstable();
        tools.dedup();
        let patterns = tools
            .into_iter()
            .map(|tool| ToolPattern::Name(tool.as_str().into()));
        patterns.collect()
    };
    let mut meant = match &rule.tool {
        ToolPattern::Name(name) => tools_of(&|alias| **name == *alias),
        ToolPattern::Glob(glob) if is_wide => tools_of(&|alias| glob.matches(alias)),
        ToolPattern::Glob(_) => Vec::new(),
    };
    if (is_wide || meant.is_empty()) && !meant.contains(&rule.tool) {
        meant.push(rule.tool.clone());
    }
    meant
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gate::permission::mode::Modes;
    use crate::gate::permission::parse::parse;
    use crate::gate::permission::source::{Origin, Source};
    use crate::gate::permission::subject::{CommandSubject, PathSubject, Place, Subject};

    const MOMENT: Moment = Moment {
        now: UnixMillis(0),
        mode: Mode::Default,
    };

    fn rule(list: Verdict, text: &str) -> Option<Rule> {
        let (tool, spec) = parse(text, list, Some("/w/root")).ok()?;
        Some(Rule {
            list,
            text: text.into(),
            tool,
            spec,
            message: None,
            expires: None,
            modes: Modes::ALL,
            origin: Origin {
                source: Source::User,
                file: None,
                index: 0,
            },
        })
    }

    fn inner() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "a", "B", "b.x", "*", "**", "?", "[ab]", "..", ".", "~", "'a b'", "\"b", "\\*", "é",
        ]);
        let between = prop::sample::select(vec![" ", "  ", "/", "//", "", ":", " /", "."]);
        let tail = prop::sample::select(vec!["", "*", " *", ":*", "/", "/**"]);
        let text =
            (prop::collection::vec((between, piece), 1..5), tail).prop_map(|(parts, tail)| {
                let parts: String = parts
                    .into_iter()
                    .flat_map(|(one, two)| [one, two])
                    .collect();
                format!("{parts}{tail}")
            });
        let host = prop::sample::select(vec!["domain:b.x", "domain:*.x", "domain:*.b.x"]);
        prop_oneof![6 => text, 1 => host.prop_map(str::to_owned)]
    }

    fn list() -> impl Strategy<Value = Verdict> {
        prop::sample::select(vec![Verdict::Deny, Verdict::Ask, Verdict::Allow])
    }

    fn rules() -> impl Strategy<Value = Vec<Rule>> {
        let tool = prop::sample::select(vec!["t", "t", "t*", "*", "u", "a_*"]);
        let text = (tool, inner()).prop_map(|(tool, inner)| format!("{tool}({inner})"));
        let rule = (list(), text).prop_filter_map("a rule", |(list, text)| rule(list, &text));
        prop::collection::vec(rule, 1..12)
    }

    /// A text that the rule may well match: its own, with something in place of the gaps.
    fn near(rule: &Rule, filler: &str) -> String {
        let inner = rule.text.split_once('(').map_or("", |(_, rest)| rest);
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        let inner = inner.strip_prefix("domain:").unwrap_or(inner);
        let inner = inner.strip_suffix(":*").unwrap_or(inner);
        ["**", "*", "?", "[ab]"]
            .into_iter()
            .fold(inner.replace("//", "/"), |text, gap| {
                text.replace(gap, filler)
            })
    }

    fn subject(kind: u8, text: String, canonical: Option<String>) -> Subject {
        match kind {
            0 => Subject::Command(CommandSubject::plain(&text)),
            1 => Subject::Url(format!("https://{text}")),
            2 => Subject::Text(text),
            _ => Subject::Paths(vec![PathSubject {
                given: text,
                canonical,
            }]),
        }
    }

    fn place() -> impl Strategy<Value = Place> {
        let known = |path: &'static str| prop::option::of(Just(path.to_owned()));
        (known("/w"), known("/w/home")).prop_map(|(cwd, home)| Place {
            cwd,
            home,
            ..Place::default()
        })
    }

    fn means(rule: &Rule, tool: &str) -> bool {
        match &rule.tool {
            ToolPattern::Name(name) => **name == *tool,
            ToolPattern::Glob(glob) => glob.matches(tool),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_index_finds_what_trying_every_rule_finds(
            rules in rules(), kind in 0_u8..4, place in place(), near_to in 0_usize..12,
            filler in prop::sample::select(vec!["a", "", "a b", "a/b", ".."]),
            canonical in prop::option::of(Just("/w/a/b.x".to_owned())),
            tool in prop::sample::select(vec!["t", "t", "tt", "a_t"]),
        ) {
            let Some(aim) = rules.get(near_to % rules.len()) else {
                return Ok(());
            };
            let (list, tool) = match &aim.tool {
                ToolPattern::Name(name) => (aim.list, &**name),
                ToolPattern::Glob(_) => (aim.list, tool),
            };
            let subject = subject(kind, near(aim, filler), canonical);
            let set = RuleSet::new(rules.clone(), &Aliases::default());
            let prepared = Prepared::new(&subject, &place);
            let parts = prepared.stoppers.iter().chain(prepared.needed.iter().flatten());
            for trial in parts.map(|part| Trial::Part(&part.item)) {
                let mut numbered = (0..).zip(&rules);
                let expected = numbered.find(|(_, rule)| {
                    rule.list == list && means(rule, tool) && trial.fits(rule)
                });
                let found = set.find(list, tool, trial, MOMENT, &mut Cost::default());
                prop_assert_eq!(found.map(|found| found.0), expected.map(|found| found.0));
            }
        }
    }
}
