//! The four modes of a session, and what they say about a call nobody else speaks of.
//!
//! One table. Never looks at rules, grants or hooks.

use super::rule::Verdict;
use crate::gate::tool::{Kind, Risk};

/// What a session lets run. The later is the freer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Look and think; change nothing.
    Plan,
    /// Ask for what is not safe.
    Default,
    /// Edits run unasked.
    AcceptEdits,
    /// Everything runs unasked.
    Auto,
}

impl Mode {
    /// All of them, the strictest first.
    pub const ALL: [Mode; 4] = [Mode::Plan, Mode::Default, Mode::AcceptEdits, Mode::Auto];

    /// The word that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Plan => "plan",
            Mode::Default => "default",
            Mode::AcceptEdits => "accept_edits",
            Mode::Auto => "auto",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// A set of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes(u8);

impl Modes {
    /// Every mode.
    pub const ALL: Modes = Modes(0b1111);

    /// Whether the mode is among them.
    #[must_use]
    pub fn contains(self, mode: Mode) -> bool {
        self.0 & (1 << mode as u8) != 0
    }
}

impl FromIterator<Mode> for Modes {
    fn from_iter<T: IntoIterator<Item = Mode>>(modes: T) -> Self {
        Modes(
            modes
                .into_iter()
                .fold(0, |bits, mode| bits | 1 << mode as u8),
        )
    }
}

/// Everything that bounds the mode of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeBounds {
    /// The session's own.
    pub session: Mode,
    /// The mode that holds in its parent. None: it has no parent.
    pub parent: Option<Mode>,
    /// The highest that the administrator admits. None: any.
    pub max: Option<Mode>,
}

impl ModeBounds {
    /// A session of its own, in that mode.
    #[must_use]
    pub fn of(session: Mode) -> Self {
        Self {
            session,
            parent: None,
            max: None,
        }
    }

    /// The mode that holds: never above the parent's, never above the highest.
    ///
    /// `edits_granted`: an approver let this session edit. It lifts the default mode, no other.
    #[must_use]
    pub fn effective(self, edits_granted: bool) -> Mode {
        let own = match self.session {
            Mode::Default if edits_granted => Mode::AcceptEdits,
            Mode::Plan | Mode::Default | Mode::AcceptEdits | Mode::Auto => self.session,
        };
        let below_parent = self.parent.map_or(own, |parent| own.min(parent));
        self.max.map_or(below_parent, |max| below_parent.min(max))
    }
}

/// What the mode says: the first row that fits, read from the top.
#[must_use]
pub fn verdict(mode: Mode, kind: Kind, risk: Risk) -> Verdict {
    let changes = matches!(kind, Kind::Edit | Kind::Delete | Kind::Execute);
    match (mode, risk, kind) {
        (Mode::Plan, _, _) if changes => Verdict::Deny,
        (Mode::Plan, Risk::Dangerous, _) => Verdict::Deny,
        (Mode::Default | Mode::AcceptEdits, Risk::Dangerous, _) => Verdict::Ask,
        (Mode::Auto, Risk::Dangerous, _) => Verdict::Allow,
        (_, Risk::Safe, _) => Verdict::Allow,
        (Mode::AcceptEdits | Mode::Auto, Risk::Sensitive, Kind::Edit) => Verdict::Allow,
        (Mode::Default, Risk::Sensitive, Kind::Edit) => Verdict::Ask,
        (Mode::Auto, Risk::Sensitive, _) => Verdict::Allow,
        (_, Risk::Sensitive, Kind::Read | Kind::Fetch) => Verdict::Ask,
        (Mode::Plan, Risk::Sensitive, _) => Verdict::Deny,
        (Mode::Default | Mode::AcceptEdits, Risk::Sensitive, _) => Verdict::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_row_by_row() {
        use Kind::*;
        use Verdict::*;
        let rows = [
            (Risk::Safe, Read, [Allow, Allow, Allow, Allow]),
            (Risk::Safe, Edit, [Deny, Allow, Allow, Allow]),
            (Risk::Safe, Interact, [Allow, Allow, Allow, Allow]),
            (Risk::Dangerous, Read, [Deny, Ask, Ask, Allow]),
            (Risk::Dangerous, Edit, [Deny, Ask, Ask, Allow]),
            (Risk::Sensitive, Edit, [Deny, Ask, Allow, Allow]),
            (Risk::Sensitive, Read, [Ask, Ask, Ask, Allow]),
            (Risk::Sensitive, Fetch, [Ask, Ask, Ask, Allow]),
            (Risk::Sensitive, Delete, [Deny, Ask, Ask, Allow]),
            (Risk::Sensitive, Execute, [Deny, Ask, Ask, Allow]),
            (Risk::Sensitive, Interact, [Deny, Ask, Ask, Allow]),
            (Risk::Sensitive, Other, [Deny, Ask, Ask, Allow]),
        ];
        for (risk, kind, expected) in rows {
            let found = Mode::ALL.map(|mode| verdict(mode, kind, risk));
            assert_eq!(found, expected, "{kind:?} {risk:?}");
        }
    }

    #[test]
    fn a_freer_mode_is_never_stricter() {
        for risk in [Risk::Safe, Risk::Sensitive, Risk::Dangerous] {
            for kind in [
                Kind::Read,
                Kind::Edit,
                Kind::Delete,
                Kind::Execute,
                Kind::Other,
            ] {
                let verdicts = Mode::ALL.map(|mode| verdict(mode, kind, risk));
                assert!(verdicts.is_sorted_by(|one, next| one >= next));
            }
        }
    }

    #[test]
    fn a_child_is_never_above_its_parent_nor_anyone_above_the_highest() {
        let bounds = ModeBounds {
            session: Mode::Auto,
            parent: Some(Mode::Default),
            max: None,
        };
        assert_eq!(bounds.effective(true), Mode::Default);
        let capped = ModeBounds {
            parent: None,
            max: Some(Mode::AcceptEdits),
            ..bounds
        };
        assert_eq!(capped.effective(false), Mode::AcceptEdits);
        assert_eq!(ModeBounds::of(Mode::Plan).effective(true), Mode::Plan);
        assert_eq!(
            ModeBounds::of(Mode::Default).effective(true),
            Mode::AcceptEdits
        );
    }
}
