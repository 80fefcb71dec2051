//! Patterns of paths: the form of gitignore, from one of four places.
//!
//! `//` begins at the root, `~/` at home, `/` where the rule's source lies, anything else at the
//! working directory. A pattern that matches a directory matches all below it. Paths are compared name
//! by name after `.` and `..` are resolved. Never touches a file system.

use super::error::RuleError;
use super::path_glob::{Component, folded};
use super::rule::Reach;
use super::subject::{Place, Separator};

/// Where a pattern begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    /// The root of all paths.
    Absolute,
    /// The home directory.
    Home,
    /// The working directory.
    Cwd,
}

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
    pub(super) space: Space,
    pub(super) components: Vec<Component>,
    /// It may begin at any depth below its place.
    pub(super) floating: bool,
    reach: Reach,
}

/// What trying a pattern says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    Yes,
    No,
    /// What is known of the path does not tell.
    Unknown,
}

impl PathPattern {
    /// Reads a pattern. `root`: where its source lies, absolute; without one `/` means the working
    /// directory.
    pub(super) fn parse(text: &str, root: Option<&str>, reach: Reach) -> Result<Self, RuleError> {
        let text = text.trim();
        if text.starts_with('!') && !text.starts_with("! ") {
            return Err(RuleError::PathNegated);
        }
        let (space, base, rest) = match (text, root) {
            (text, _) if text.starts_with("//") => (Space::Absolute, None, text),
            (text, Some(root)) if text.starts_with('/') => (Space::Absolute, Some(root), text),
            ("~", _) => (Space::Home, None, ""),
            (text, _) => match text.strip_prefix("~/") {
                Some(rest) => (Space::Home, None, rest),
                None => (Space::Cwd, None, text),
            },
        };
        let mut components: Vec<Component> = base
            .map(|base| Names::read(base, Separator::Slash).names)
            .unwrap_or_default()
            .into_iter()
            .map(|name| Component::Name(name.into()))
            .collect();
        let base_len = components.len();
        for part in rest
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            push(&mut components, part, space)?;
        }
        let is_bare = space == Space::Cwd && !rest.trim_end_matches('/').contains('/');
        let is_name = !matches!(rest.trim_end_matches('/'), "" | "." | "..");
        let leads_deep =
            base_len == 0 && components.len() > 1 && components.first() == Some(&Component::Deep);
        if leads_deep {
            components.remove(0);
        }
        Ok(Self {
            space,
            floating: (is_bare && is_name) || leads_deep,
            components,
            reach,
        })
    }

    /// Whether the path, or a directory that it lies in, has this form.
    pub(super) fn matches(&self, path: &PreparedPath) -> Tried {
        let Some(names) = path.below(self.space) else {
            return self.matches_somewhere(path);
        };
        self.fits(&self.components, names, self.floating, path.fold)
    }

    /// Without the place that the pattern begins at: whether it would match from some such place.
    fn matches_somewhere(&self, path: &PreparedPath) -> Tried {
        match (self.reach, self.space, path.below(Space::Absolute)) {
            (Reach::Narrow, _, _) => Tried::No,
            (Reach::Wide, Space::Home | Space::Cwd, Some(names)) => {
                let own = self.components.iter();
                let outside = own.take_while(|one| **one == Component::Parent).count();
                let inner = self.components.get(outside..).unwrap_or_default();
                self.fits(inner, names, true, path.fold)
            }
            (Reach::Wide, _, _) => Tried::Unknown,
        }
    }

    fn fits(
        &self,
        components: &[Component],
        names: &[String],
        floating: bool,
        fold: bool,
    ) -> Tried {
        let mut spots = vec![false; names.len() + 1];
        if let Some(start) = spots.first_mut() {
            *start = true;
        }
        if floating {
            spread(&mut spots, names);
        }
        let (leading, ends_deep) = match components {
            [leading @ .., Component::Deep] => (leading, true),
            all => (all, false),
        };
        for component in leading {
            match component {
                Component::Deep => spread(&mut spots, names),
                Component::Parent | Component::Name(_) | Component::Glob(_) => {
                    advance(&mut spots, component, names, fold);
                }
            }
        }
        let is_end = |at: usize| match names.get(at) {
            Some(name) => name != "..",
            // `dir/**` lets through what is in the directory, and stops the directory as well.
            None => !(ends_deep && self.reach == Reach::Narrow),
        };
        let reached = spots.iter().enumerate().filter(|(_, reached)| **reached);
        match reached.into_iter().any(|(at, _)| is_end(at)) {
            true => Tried::Yes,
            false => Tried::No,
        }
    }
}

fn push(components: &mut Vec<Component>, part: &str, space: Space) -> Result<(), RuleError> {
    if part != ".." {
        let component = Component::parse(part);
        if component != Component::Deep || components.last() != Some(&Component::Deep) {
            components.push(component);
        }
        return Ok(());
    }
    match components.last() {
        Some(Component::Deep) => return Err(RuleError::PathParent),
        Some(Component::Name(_) | Component::Glob(_)) => {
            components.pop();
        }
        Some(Component::Parent) => components.push(Component::Parent),
        None if space != Space::Absolute => components.push(Component::Parent),
        None => {}
    }
    Ok(())
}

fn leads_out(name: Option<&String>) -> bool {
    name.is_some_and(|name| name == "..")
}

/// Any number of names further, as long as they lead down.
fn spread(spots: &mut [bool], names: &[String]) {
    let mut reached = false;
    for (at, spot) in spots.iter_mut().enumerate() {
        let above = at.checked_sub(1).and_then(|above| names.get(above));
        reached = *spot || (reached && !leads_out(above));
        *spot = reached;
    }
}

/// One name further where it fits.
fn advance(spots: &mut [bool], component: &Component, names: &[String], fold: bool) {
    let mut before = false;
    for (at, spot) in spots.iter_mut().enumerate() {
        let name = at.checked_sub(1).and_then(|above| names.get(above));
        let fits = name.is_some_and(|name| match name.as_str() {
            ".." => *component == Component::Parent,
            name => component.matches(name, fold),
        });
        let was = std::mem::replace(spot, before && fits);
        before = was;
    }
}

/// One path as the names that lead to it, from each place that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreparedPath {
    absolute: Option<Vec<String>>,
    home: Option<Vec<String>>,
    cwd: Option<Vec<String>>,
    /// Case does not count.
    pub(super) fold: bool,
}

impl PreparedPath {
    pub(super) fn new(text: &str, place: &Place, cwd: Option<&str>, fold: bool) -> Self {
        let read = |text: &str| Names::read(text, place.separator);
        let named = read(text);
        let cwd = cwd.map(read);
        let home = place.home.as_deref().map(read);
        let (absolute, relative) = match (named.is_absolute, &cwd) {
            (true, _) => (Some(named.names), None),
            (false, Some(cwd)) => (Some(cwd.joined(&named.names)), None),
            (false, None) => (None, Some(named.names)),
        };
        let below = |base: &Option<Names>| {
            let (names, base) = (absolute.as_ref()?, base.as_ref()?);
            Some(relative_to(names, &base.names, fold))
        };
        Self {
            home: below(&home),
            cwd: below(&cwd).or(relative),
            absolute,
            fold,
        }
    }

    /// The names from there, if the place is known.
    pub(super) fn below(&self, space: Space) -> Option<&[String]> {
        let names = match space {
            Space::Absolute => &self.absolute,
            Space::Home => &self.home,
            Space::Cwd => &self.cwd,
        };
        names.as_deref()
    }
}

/// Whether the path begins at the root, or at a drive.
pub(super) fn is_absolute(text: &str, separator: Separator) -> bool {
    Names::read(text, separator).is_absolute
}

/// A path's names, `.` and `..` resolved as far as they can be.
struct Names {
    is_absolute: bool,
    names: Vec<String>,
}

impl Names {
    fn read(text: &str, separator: Separator) -> Self {
        let parts = |character: char| match separator {
            Separator::Slash => character == '/',
            Separator::SlashAndBackslash => matches!(character, '/' | '\\'),
        };
        let has_drive = separator == Separator::SlashAndBackslash
            && matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        let mut read = Self {
            is_absolute: text.starts_with(parts) || has_drive,
            names: Vec::new(),
        };
        for name in text.split(parts) {
            read.push(name);
        }
        read
    }

    fn push(&mut self, name: &str) {
        match (name, self.names.last().map(String::as_str)) {
            ("" | ".", _) => {}
            ("..", None) if self.is_absolute => {}
            ("..", None | Some("..")) => self.names.push(String::from("..")),
            ("..", Some(_)) => {
                self.names.pop();
            }
            (name, _) => self.names.push(name.to_owned()),
        }
    }

    fn joined(&self, names: &[String]) -> Vec<String> {
        let mut whole = Self {
            is_absolute: self.is_absolute,
            names: self.names.clone(),
        };
        for name in names {
            whole.push(name);
        }
        whole.names
    }
}

fn relative_to(names: &[String], base: &[String], fold: bool) -> Vec<String> {
    let same = |(one, other): &(&String, &String)| match fold {
        true => folded(one).eq(folded(other)),
        false => one == other,
    };
    let common = names.iter().zip(base).take_while(same).count();
    let up = std::iter::repeat_n(String::from(".."), base.len() - common);
    up.chain(names.iter().skip(common).cloned()).collect()
}
