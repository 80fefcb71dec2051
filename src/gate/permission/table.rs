//! The rules of one tool in one list, filed by what they match.
//!
//! One table for every kind of subject, since rules do not say which kind their tool declares. Never
//! tries a rule: it names those worth trying.

use std::collections::BTreeMap;

use super::command_pattern::Program;
use super::host_pattern::{HostPattern, Target};
use super::index::{
    Cost, FLOATING_PIECES_MAX, Filed, Filing, Index, Key, PIECES_MAX, beginnings, folded_beginnings,
};
use super::param_pattern::scalar_key;
use super::path_glob::Component;
use super::path_pattern::{PathPattern, PreparedPath, Space};
use super::prepared::{Item, Prepared};
use super::rule::{Plain, Rule, Spec, ToolPattern};
use super::rule_set::Trial;
use super::unordered_pattern::{FILED_WORDS, UnorderedPattern};
use super::words::with_single_blanks;
use crate::gate::json::Value;
use crate::gate::tool::SubjectKind;

/// The rules of one tool, or of one form of names.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) tool: ToolPattern,
    /// Rules without a specifier.
    any: Vec<u32>,
    params: Vec<(String, Index)>,
    commands: Filed,
    /// Command rules to which flags make a difference.
    unordered: Filed,
    /// Command rules by the program that they name.
    programs: Index,
    /// Command rules that say how the program's name begins, if anything.
    any_program: Vec<(String, u32)>,
    texts: Filed,
    absolute: PathTable,
    home: PathTable,
    cwd: PathTable,
    hosts: Index,
    /// Rules whose specifier is read by the tool's subject.
    plain: Vec<u32>,
    /// Rules about hosts.
    about_hosts: Vec<u32>,
}

/// Path rules that begin at one place.
#[derive(Debug, Clone, Default)]
struct PathTable {
    anchored: Filed,
    floating: Filed,
    extensions: Index,
    all: Vec<u32>,
}

impl Table {
    pub(super) fn candidates(
        &self,
        trial: Trial<'_>,
        cost: &mut Cost,
        found: &mut impl FnMut(u32, &mut Cost),
    ) {
        match trial {
            Trial::Call(arguments) => self.about_call(arguments, cost, found),
            Trial::WholeCommand(text) => {
                let text = with_single_blanks(text);
                self.commands
                    .candidates(beginnings(words(&text)), cost, found);
            }
            Trial::Part(Item::Command(view)) => {
                for text in view.texts() {
                    self.commands
                        .candidates(beginnings(words(text)), cost, found);
                }
                if let Some(command) = &view.unordered {
                    let keys = UnorderedPattern::keys_of(command).into_iter();
                    self.unordered.candidates(keys, cost, found);
                }
            }
            Trial::Part(Item::Text(text)) => {
                self.texts.candidates(beginnings(words(text)), cost, found);
            }
            Trial::Part(Item::Url(url)) => {
                for target in &url.wide {
                    for key in target_keys(target) {
                        for number in self.hosts.probe(key, cost) {
                            found(number, cost);
                        }
                    }
                }
                for text in &url.texts {
                    self.texts.candidates(beginnings(words(text)), cost, found);
                }
            }
            Trial::Part(Item::Path(path)) => {
                for space in [Space::Absolute, Space::Home, Space::Cwd] {
                    self.paths(space).candidates(space, path, cost, found);
                }
            }
        }
    }

    fn about_call(
        &self,
        arguments: Option<Value<'_>>,
        cost: &mut Cost,
        found: &mut impl FnMut(u32, &mut Cost),
    ) {
        for number in &self.any {
            found(*number, cost);
        }
        for (pointer, index) in &self.params {
            cost.add(1);
            let value = arguments.and_then(|arguments| arguments.pointer(pointer));
            let Some(key) = value.and_then(scalar_key) else {
                continue;
            };
            for number in index.probe(Key::EMPTY.then(&key), cost) {
                found(number, cost);
            }
        }
    }

    fn paths(&self, space: Space) -> &PathTable {
        match space {
            Space::Absolute => &self.absolute,
            Space::Home => &self.home,
            Space::Cwd => &self.cwd,
        }
    }

    /// Rules that would have to be tried and cannot be.
    pub(super) fn untried(&self, call: &Prepared) -> Vec<&[u32]> {
        let means_this_tool = matches!(self.tool, ToolPattern::Name(_));
        let mut lists: Vec<&[u32]> = Vec::new();
        match call.kind {
            None if means_this_tool && call.is_undeclared => {
                lists.extend([self.plain.as_slice(), &self.about_hosts]);
            }
            Some(SubjectKind::Command | SubjectKind::Text) if means_this_tool => {
                lists.push(&self.about_hosts);
            }
            Some(SubjectKind::Path) => {
                if means_this_tool {
                    lists.push(&self.about_hosts);
                }
                lists.extend(
                    call.stoppers
                        .iter()
                        .flat_map(|part| self.untried_paths(&part.item)),
                );
            }
            Some(_) | None => {}
        }
        lists
    }

    /// Command rules that may be about a program, whatever words it gets.
    pub(super) fn about_program(&self, program: &str, cost: &mut Cost) -> Vec<u32> {
        let begun = self.any_program.iter();
        let begun = begun.filter(|(beginning, _)| program.starts_with(beginning.as_str()));
        let named = self.programs.probe(Key::EMPTY.then(program), cost);
        named.chain(begun.map(|(_, number)| *number)).collect()
    }

    fn untried_paths(&self, item: &Item) -> Vec<&[u32]> {
        let Item::Path(path) = item else {
            return Vec::new();
        };
        let is_unknown = |space| path.below(space).is_none();
        if !is_unknown(Space::Absolute) {
            return Vec::new();
        }
        let spaces = [Space::Absolute, Space::Home].into_iter();
        let unknown = spaces.filter(|space| is_unknown(*space));
        unknown
            .map(|space| self.paths(space).all.as_slice())
            .collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ')
}

fn target_keys(target: &Target) -> impl Iterator<Item = Key> {
    beginnings(target.labels())
}

impl PathTable {
    fn candidates(
        &self,
        space: Space,
        path: &PreparedPath,
        cost: &mut Cost,
        found: &mut impl FnMut(u32, &mut Cost),
    ) {
        if self.all.is_empty() {
            return;
        }
        let (names, is_known) = match (path.below(space), path.below(Space::Absolute)) {
            (Some(names), _) => (names, true),
            (None, Some(names)) => (names, false),
            (None, None) => return,
        };
        for start in 0..names.len().max(1) {
            let rest = names.get(start..).unwrap_or_default();
            let floating = folded_beginnings(pieces(rest), FLOATING_PIECES_MAX);
            if start == 0 {
                self.floating.candidates(floating, cost, found);
            } else {
                self.floating.filed(floating, cost, found);
            }
            let anchored = folded_beginnings(pieces(rest), PIECES_MAX);
            if start == 0 {
                self.anchored.candidates(anchored, cost, found);
            } else if !is_known {
                self.anchored.filed(anchored, cost, found);
            }
        }
        if self.extensions.is_empty() {
            return;
        }
        for name in names {
            let extension = name.rfind('.').and_then(|at| name.get(at..));
            let Some(extension) = extension else { continue };
            for number in self
                .extensions
                .probe(Key::EMPTY.then_folded(extension), cost)
            {
                found(number, cost);
            }
        }
    }
}

fn pieces(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str)
}

/// A table while its rules come in.
#[derive(Default)]
pub(super) struct TableMaker {
    any: Vec<u32>,
    params: BTreeMap<String, Vec<(Key, u32)>>,
    commands: Filing,
    unordered: Filing,
    programs: Vec<(Key, u32)>,
    any_program: Vec<(String, u32)>,
    texts: Filing,
    absolute: PathMaker,
    home: PathMaker,
    cwd: PathMaker,
    hosts: Vec<(Key, u32)>,
    plain: Vec<u32>,
    about_hosts: Vec<u32>,
}

#[derive(Default)]
struct PathMaker {
    anchored: Filing,
    floating: Filing,
    extensions: Vec<(Key, u32)>,
    all: Vec<u32>,
}

impl TableMaker {
    pub(super) fn add(&mut self, rule: &Rule, number: u32) {
        match &rule.spec {
            Spec::Any => self.any.push(number),
            Spec::Host(host) => {
                self.about_hosts.push(number);
                self.hosts.extend(host_key(host).map(|key| (key, number)));
            }
            Spec::Param(param) => {
                let keys = param.keys().into_iter();
                let entries = keys.map(|key| (Key::EMPTY.then(&key), number));
                self.params
                    .entry(param.pointer.clone())
                    .or_default()
                    .extend(entries);
            }
            Spec::Plain(plain) => {
                self.plain.push(number);
                self.add_plain(plain, number);
            }
        }
    }

    fn add_plain(&mut self, plain: &Plain, number: u32) {
        let command = &plain.command;
        for prefix in std::iter::once(&command.prefix).chain(&command.text_prefix) {
            let words = words(prefix).filter(|word| !word.is_empty());
            self.commands.file(beginnings(words), PIECES_MAX, number);
        }
        if let Some(pattern) = &command.unordered {
            for beginning in pattern.beginnings() {
                self.unordered.file(beginning, FILED_WORDS, number);
            }
        }
        match &command.program {
            Program::Named(name) => self.programs.push((Key::EMPTY.then(name), number)),
            Program::Begins(name) => self.any_program.push((name.clone(), number)),
        }
        let text = plain.text.literal_words();
        self.texts
            .file(beginnings(text.into_iter()), PIECES_MAX, number);
        match plain.path.space {
            Space::Absolute => self.absolute.add(&plain.path, number),
            Space::Home => self.home.add(&plain.path, number),
            Space::Cwd => self.cwd.add(&plain.path, number),
        }
    }

    pub(super) fn finish(self, tool: ToolPattern) -> Table {
        let params = self.params.into_iter();
        Table {
            tool,
            any: self.any,
            params: params
                .map(|(pointer, entries)| (pointer, Index::new(entries)))
                .collect(),
            commands: self.commands.finish(),
            unordered: self.unordered.finish(),
            programs: Index::new(self.programs),
            any_program: self.any_program,
            texts: self.texts.finish(),
            absolute: self.absolute.finish(),
            home: self.home.finish(),
            cwd: self.cwd.finish(),
            hosts: Index::new(self.hosts),
            plain: self.plain,
            about_hosts: self.about_hosts,
        }
    }
}

fn host_key(host: &HostPattern) -> Option<Key> {
    beginnings(host.labels()).last()
}

impl PathMaker {
    fn add(&mut self, pattern: &PathPattern, number: u32) {
        self.all.push(number);
        if let ([only], true) = (pattern.components.as_slice(), pattern.floating)
            && let Some(extension) = only.extension()
        {
            let key = Key::EMPTY.then_folded(&extension);
            self.extensions.push((key, number));
            return;
        }
        let outside = pattern
            .components
            .iter()
            .take_while(|one| **one == Component::Parent);
        // Names after `..` are filed as such only where the place is known, so not at all.
        let names: Vec<&str> = match outside.count() {
            0 => literal_names(&pattern.components),
            _ => Vec::new(),
        };
        let (filing, max) = match pattern.floating {
            true => (&mut self.floating, FLOATING_PIECES_MAX),
            false => (&mut self.anchored, PIECES_MAX),
        };
        filing.file(folded_beginnings(names.into_iter(), max), max, number);
    }

    fn finish(self) -> PathTable {
        PathTable {
            anchored: self.anchored.finish(),
            floating: self.floating.finish(),
            extensions: Index::new(self.extensions),
            all: self.all,
        }
    }
}

fn literal_names(components: &[Component]) -> Vec<&str> {
    let names = components.iter().map_while(|component| match component {
        Component::Name(name) => Some(&**name),
        Component::Deep | Component::Parent | Component::Glob(_) => None,
    });
    names.collect()
}
