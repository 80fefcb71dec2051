//! The text of a file of rules: `{"permissions": {"allow": [...], "ask": [...], "deny": [...]}}`.
//!
//! An unknown key is an error, so that a rule that was misspelt is not a rule that is missing. Never
//! reads the file itself.

use std::sync::Arc;

use bytes::Bytes;

use super::error::{RuleError, SettingsError};
use super::expiry;
use super::mode::{Mode, Modes};
use super::rule::Verdict;
use super::source::Source;
use crate::gate::ids::UnixMillis;
use crate::gate::json::{Document, Entry, JsonLimits, Kind, Value};

/// The rules of one source as they came.
#[derive(Debug, Clone, Default)]
pub struct SourceRules {
    /// The three lists, in the order of the text.
    pub entries: Vec<(Verdict, RuleEntry)>,
    /// The highest mode that any session may have. Only the administrator's counts.
    pub max_mode: Option<Mode>,
}

/// One rule as it came, not yet read.
#[derive(Debug, Clone)]
pub struct RuleEntry {
    /// The rule's text, empty if it has none.
    pub text: String,
    /// What comes with it, or why it is no rule.
    pub extras: Result<Extras, RuleError>,
}

/// What a rule may bring besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extras {
    /// Calls that the rule must match.
    pub matches: Vec<String>,
    /// Calls that it must not match.
    pub not_matches: Vec<String>,
    /// What its author tells whoever meets it.
    pub message: Option<Arc<str>>,
    /// From when on it no longer holds.
    pub expires: Option<UnixMillis>,
    /// In which modes it holds.
    pub modes: Modes,
}

impl Default for Extras {
    fn default() -> Self {
        Self {
            matches: Vec::new(),
            not_matches: Vec::new(),
            message: None,
            expires: None,
            modes: Modes::ALL,
        }
    }
}

impl RuleEntry {
    /// A rule that is text only.
    #[must_use]
    pub fn of_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            extras: Ok(Extras::default()),
        }
    }
}

impl SourceRules {
    /// The rules in the text of a file. Each entry may still turn out to be no rule.
    ///
    /// # Errors
    /// [`SettingsError`]: not JSON, an unknown key, or a value that its key cannot have.
    pub fn parse(text: &[u8], source: Source) -> Result<Self, SettingsError> {
        let document = read(text)?;
        let mut rules = Self::default();
        for entry in document.root().entries() {
            match entry.key() {
                "permissions" => rules.read_lists(entry.value())?,
                "max_mode" if source == Source::Policy => {
                    rules.max_mode = Some(mode(entry.value())?);
                }
                "max_mode" => {
                    return Err(SettingsError::ValueInvalid {
                        key: "max_mode",
                        problem: "may stand in the administrator's file only",
                    });
                }
                key => return Err(unknown(key, "the file", "`permissions`, `max_mode`")),
            }
        }
        Ok(rules)
    }

    fn read_lists(&mut self, lists: Value<'_>) -> Result<(), SettingsError> {
        if lists.kind() != Kind::Object {
            return Err(SettingsError::ValueInvalid {
                key: "permissions",
                problem: "must be an object with `allow`, `ask`, `deny`",
            });
        }
        for entry in lists.entries() {
            let (key, list) = match entry.key() {
                "allow" => ("allow", Verdict::Allow),
                "ask" => ("ask", Verdict::Ask),
                "deny" => ("deny", Verdict::Deny),
                key => return Err(unknown(key, "`permissions`", "`allow`, `ask`, `deny`")),
            };
            if entry.value().kind() != Kind::Array {
                return Err(SettingsError::ValueInvalid {
                    key,
                    problem: "must be a list of rules",
                });
            }
            let entries = entry.value().items().map(|item| (list, rule_entry(item)));
            self.entries.extend(entries);
        }
        Ok(())
    }
}

fn read(text: &[u8]) -> Result<Document, SettingsError> {
    let limits = JsonLimits {
        bytes_max: FILE_BYTES_MAX,
        depth_max: 16,
        nodes_max: 200_000,
    };
    Document::parse_object(&Bytes::copy_from_slice(text), &limits).map_err(|error| {
        SettingsError::Json {
            problem: error.to_string(),
        }
    })
}

fn unknown(key: &str, place: &'static str, known: &'static str) -> SettingsError {
    SettingsError::UnknownKey {
        key: key.chars().take(80).collect(),
        place,
        known,
    }
}

fn mode(value: Value<'_>) -> Result<Mode, SettingsError> {
    let named = value.as_str().and_then(Mode::parse);
    named.ok_or(SettingsError::ValueInvalid {
        key: "max_mode",
        problem: MODES,
    })
}

/// Longest file of rules, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;

const MODES: &str = "must be one of `plan`, `default`, `accept_edits`, `auto`";

fn rule_entry(value: Value<'_>) -> RuleEntry {
    if let Some(text) = value.as_str() {
        return RuleEntry::of_text(text);
    }
    let text = value.get("rule").and_then(|rule| rule.as_str());
    RuleEntry {
        text: text.unwrap_or_default().to_owned(),
        extras: match text {
            Some(_) => extras(value),
            None => Err(RuleError::EntryInvalid),
        },
    }
}

fn extras(value: Value<'_>) -> Result<Extras, RuleError> {
    let mut extras = Extras::default();
    for entry in value.entries() {
        match entry.key() {
            "rule" => {}
            "matches" => extras.matches = texts(entry, "matches")?,
            "not_matches" => extras.not_matches = texts(entry, "not_matches")?,
            "message" => extras.message = Some(message(entry)?),
            "expires" => extras.expires = Some(expires(entry)?),
            "modes" => extras.modes = modes(entry)?,
            key => {
                return Err(RuleError::UnknownKey {
                    key: key.chars().take(80).collect(),
                });
            }
        }
    }
    Ok(extras)
}

fn texts(entry: Entry<'_>, field: &'static str) -> Result<Vec<String>, RuleError> {
    let items = entry.value().items();
    let texts: Option<Vec<String>> = items.map(|item| item.as_str().map(str::to_owned)).collect();
    match texts {
        Some(texts) if entry.value().kind() == Kind::Array => Ok(texts),
        Some(_) | None => Err(RuleError::FieldInvalid {
            field,
            problem: "must be a list of texts",
        }),
    }
}

fn message(entry: Entry<'_>) -> Result<Arc<str>, RuleError> {
    let text = entry.value().as_str().map(Arc::from);
    text.ok_or(RuleError::FieldInvalid {
        field: "message",
        problem: "must be text",
    })
}

fn expires(entry: Entry<'_>) -> Result<UnixMillis, RuleError> {
    let moment = entry.value().as_str().and_then(expiry::parse);
    moment.ok_or(RuleError::FieldInvalid {
        field: "expires",
        problem: "must be a moment like `2027-01-31T18:00:00Z`, or a day like `2027-01-31`",
    })
}

fn modes(entry: Entry<'_>) -> Result<Modes, RuleError> {
    let items = entry.value().items();
    let modes: Option<Modes> = items
        .map(|item| item.as_str().and_then(Mode::parse))
        .collect();
    match modes {
        Some(modes) if !entry.value().is_empty() => Ok(modes),
        Some(_) | None => Err(RuleError::FieldInvalid {
            field: "modes",
            problem: "must be a list of `plan`, `default`, `accept_edits`, `auto`",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SourceRules, SettingsError> {
        SourceRules::parse(text.as_bytes(), Source::User)
    }

    #[test]
    fn texts_and_objects_stand_in_one_list() {
        let rules = parse(
            r#"{"permissions":{"allow":["Read"],"ask":[{"rule":"Bash(npm publish*)",
            "matches":["npm publish"],"modes":["auto"],"expires":"2027-01-31","message":"m"}]}}"#,
        )
        .unwrap();
        let lists: Vec<Verdict> = rules.entries.iter().map(|(list, _)| *list).collect();
        assert_eq!(lists, [Verdict::Allow, Verdict::Ask]);
        let mut entries = rules.entries.iter().map(|(_, entry)| entry);
        let (read, publish) = (entries.next().unwrap(), entries.next().unwrap());
        assert_eq!(read.text, "Read");
        let extras = publish.extras.as_ref().unwrap();
        assert_eq!(extras.matches, ["npm publish"]);
        assert!(extras.modes.contains(Mode::Auto) && !extras.modes.contains(Mode::Plan));
        assert!(extras.expires.is_some() && extras.message.is_some());
    }

    #[test]
    fn unknown_keys_and_wrong_values_are_errors() {
        let cases = [
            ("[", "settings_json_invalid"),
            (r#"{"permission":{}}"#, "settings_unknown_key"),
            (r#"{"permissions":{"denied":[]}}"#, "settings_unknown_key"),
            (
                r#"{"permissions":{"deny":"Bash"}}"#,
                "settings_value_invalid",
            ),
            (r#"{"permissions":[]}"#, "settings_value_invalid"),
            (r#"{"max_mode":"plan"}"#, "settings_value_invalid"),
            (
                r#"{"permissions":{"deny":[],"deny":[]}}"#,
                "settings_json_invalid",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_err().code(), expected, "{text}");
        }
        let policy = SourceRules::parse(br#"{"max_mode":"accept_edits"}"#, Source::Policy);
        assert_eq!(policy.unwrap().max_mode, Some(Mode::AcceptEdits));
    }

    #[test]
    fn a_wrong_entry_does_not_hide_the_others() {
        let cases = [
            ("1", "rule_entry_invalid"),
            (r#"{"matches":[]}"#, "rule_entry_invalid"),
            (r#"{"rule":"A","expire":"2027-01-31"}"#, "rule_unknown_key"),
            (r#"{"rule":"A","matches":"x"}"#, "rule_field_invalid"),
            (r#"{"rule":"A","modes":[]}"#, "rule_field_invalid"),
            (r#"{"rule":"A","modes":["yolo"]}"#, "rule_field_invalid"),
            (r#"{"rule":"A","expires":"soon"}"#, "rule_field_invalid"),
            (r#"{"rule":"A","message":1}"#, "rule_field_invalid"),
        ];
        for (entry, expected) in cases {
            let text = format!(r#"{{"permissions":{{"deny":[{entry},"Bash"]}}}}"#);
            let rules = parse(&text).unwrap();
            assert_eq!(rules.entries.len(), 2);
            let mut entries = rules.entries.iter().map(|(_, entry)| entry);
            let (wrong, right) = (entries.next().unwrap(), entries.next().unwrap());
            assert_eq!(
                wrong.extras.as_ref().unwrap_err().code(),
                expected,
                "{entry}"
            );
            assert!(right.extras.is_ok());
        }
    }
}
