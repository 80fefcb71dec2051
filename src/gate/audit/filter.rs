//! Which records are wanted, and what every record says of itself.
//!
//! Never looks at anything but the record's own text.

use bytes::Bytes;

use super::checkpoint::number;
use crate::gate::ids::UnixMillis;
use crate::gate::json::{Document, JsonLimits};

/// Most kinds of a filter.
pub(super) const KINDS_MAX: usize = 32;
/// Longest value of a filter, in bytes.
pub(super) const VALUE_BYTES_MAX: usize = 512;

/// A record holds arguments that were admitted, one level deeper.
pub(super) const RECORD_LIMITS: JsonLimits = JsonLimits {
    bytes_max: usize::MAX,
    depth_max: 110,
    nodes_max: usize::MAX,
};

/// What every record says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    /// Its position.
    pub sequence: u64,
    /// When it was written.
    pub recorded_at: UnixMillis,
    /// What happened.
    pub kind: String,
    /// Who did it. Empty: the sidecar.
    pub principal: String,
    /// Its session. Empty: none.
    pub session: String,
    /// Its run. Empty: none.
    pub run: String,
    /// Its turn. Empty: none.
    pub turn: String,
    /// Its call. Empty: none.
    pub call: String,
    /// Its tool. Empty: none.
    pub tool: String,
}

impl Members {
    /// Reads them. None: the text is no record.
    pub fn read(record_json: &Bytes) -> Option<Self> {
        let document = Document::parse_object(record_json, &RECORD_LIMITS).ok()?;
        let root = document.root();
        let text = |name| {
            let value = root.get(name).and_then(|value| value.as_str());
            value.unwrap_or_default().to_owned()
        };
        Some(Self {
            sequence: number(root, "sequence")?,
            recorded_at: UnixMillis(number(root, "recorded_at_ms")?),
            kind: root.get("kind")?.as_str()?.to_owned(),
            principal: text("principal"),
            session: text("session_id"),
            run: text("run_id"),
            turn: text("turn_id"),
            call: text("call_id"),
            tool: text("tool"),
        })
    }
}

/// Which records are wanted. All conditions must hold; an empty one does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Of this session.
    pub session: String,
    /// Of this run.
    pub run: String,
    /// Of this turn.
    pub turn: String,
    /// Of this call.
    pub call: String,
    /// Of this tool, or of those that the glob fits.
    pub tool: String,
    /// By this principal.
    pub principal: String,
    /// Of one of these kinds, or of kinds that begin with one of these words.
    pub kinds: Vec<String>,
    /// Written at or after this.
    pub since: Option<UnixMillis>,
    /// Written before this.
    pub until: Option<UnixMillis>,
    /// Whose text contains this, letter case ignored.
    pub text: String,
}

/// Why a filter is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A value is too long.
    #[error("`{field}` must have at most {VALUE_BYTES_MAX} bytes")]
    TooLong {
        /// The field.
        field: &'static str,
    },
    /// Too many kinds.
    #[error("`kinds` must have at most {KINDS_MAX} entries")]
    TooManyKinds,
}

impl Filter {
    /// Checks the bounds.
    ///
    /// # Errors
    /// [`FilterError`], naming the field.
    pub fn check(&self) -> Result<(), FilterError> {
        let values = [
            ("session_id", &self.session),
            ("run_id", &self.run),
            ("turn_id", &self.turn),
            ("call_id", &self.call),
            ("tool", &self.tool),
            ("principal", &self.principal),
            ("text", &self.text),
        ];
        let kinds = self.kinds.iter().map(|kind| ("kinds", kind));
        for (field, value) in values.into_iter().chain(kinds) {
            if value.len() > VALUE_BYTES_MAX {
                return Err(FilterError::TooLong { field });
            }
        }
        match self.kinds.len() > KINDS_MAX {
            true => Err(FilterError::TooManyKinds),
            false => Ok(()),
        }
    }

    /// Whether everything is wanted.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the record is wanted.
    pub fn passes(&self, record_json: &[u8], members: &Members) -> bool {
        let same = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let kind = |wanted: &String| {
            let rest = members.kind.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        same(&self.session, &members.session)
            && same(&self.run, &members.run)
            && same(&self.turn, &members.turn)
            && same(&self.call, &members.call)
            && same(&self.principal, &members.principal)
            && (self.tool.is_empty() || fits(&self.tool, &members.tool))
            && (self.kinds.is_empty() || self.kinds.iter().any(kind))
            && self.since.is_none_or(|since| members.recorded_at >= since)
            && self.until.is_none_or(|until| members.recorded_at < until)
            && self.contains(record_json)
    }

    fn contains(&self, record_json: &[u8]) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let text = String::from_utf8_lossy(record_json).to_lowercase();
        text.contains(&self.text.to_lowercase())
    }
}

/// Whether a name fits a glob in which `*` stands for any characters and `?` for one.
fn fits(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    // Where to go on if what follows the last star does not fit.
    let mut again = None;
    let (mut at, mut seen) = (0, 0);
    while let Some(character) = name.get(seen) {
        match glob.get(at) {
            Some('*') => {
                again = Some((at, seen));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == character => {
                at += 1;
                seen += 1;
            }
            Some(_) | None => {
                let Some((star, from)) = again else {
                    return false;
                };
                again = Some((star, from + 1));
                (at, seen) = (star + 1, from + 1);
            }
        }
    }
    glob.get(at..)
        .unwrap_or_default()
        .iter()
        .all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_whole_names() {
        for (glob, name, expected) in [
            ("read_file", "read_file", true),
            ("read_*", "read_file", true),
            ("*file", "read_file", true),
            ("r*d*e", "read_file", true),
            ("read", "read_file", false),
            ("read_?ile", "read_file", true),
            ("*x*", "read_file", false),
            ("**", "", true),
        ] {
            assert_eq!(fits(glob, name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn every_condition_counts() {
        let json = Bytes::from_static(
            br#"{"call_id":"c","kind":"approval.decided","principal":"uid:1","recorded_at_ms":5,"run_id":"r","sequence":9,"session_id":"s","tool":"t","turn_id":"u"}"#,
        );
        let members = Members::read(&json).unwrap();
        let set: [fn(&mut Filter, &str); 7] = [
            |filter, value| filter.session = value.to_owned(),
            |filter, value| filter.run = value.to_owned(),
            |filter, value| filter.turn = value.to_owned(),
            |filter, value| filter.call = value.to_owned(),
            |filter, value| filter.tool = value.to_owned(),
            |filter, value| filter.principal = value.to_owned(),
            |filter, value| filter.kinds = vec![value.to_owned()],
        ];
        let values = ["s", "r", "u", "c", "t", "uid:1", "approval"];
        for (set, value) in set.into_iter().zip(values) {
            let mut filter = Filter::default();
            set(&mut filter, value);
            assert!(filter.passes(&json, &members), "{filter:?}");
            set(&mut filter, "approv");
            assert!(!filter.passes(&json, &members), "{filter:?}");
        }
        let at = |since, until, text: &str| Filter {
            since: Some(UnixMillis(since)),
            until: Some(UnixMillis(until)),
            text: text.to_owned(),
            ..Filter::default()
        };
        assert!(at(5, 6, "APPROVAL.").passes(&json, &members));
        assert!(!at(6, 9, "").passes(&json, &members));
        assert!(!at(1, 5, "").passes(&json, &members));
        assert!(!at(1, 9, "absent").passes(&json, &members));
    }

    #[test]
    fn bounds_hold_at_the_limit_and_not_above() {
        let mut filter = Filter {
            kinds: vec!["x".repeat(VALUE_BYTES_MAX); KINDS_MAX],
            text: "x".repeat(VALUE_BYTES_MAX),
            ..Filter::default()
        };
        assert_eq!(filter.check(), Ok(()));
        filter.text.push('x');
        assert_eq!(filter.check(), Err(FilterError::TooLong { field: "text" }));
        filter.text.clear();
        filter.kinds.push("x".to_owned());
        assert_eq!(filter.check(), Err(FilterError::TooManyKinds));
    }
}
