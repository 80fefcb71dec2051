//! Calls, rules and situations from their words.
//!
//! Never asserts anything.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::ids::{OwnerName, ToolName, UnixMillis};
use callgate::gate::json::{Document, JsonLimits};
use callgate::gate::permission::{
    Aliases, Answer, Approver, Call, Check, CommandSubject, GrantedTool, Grants, Hook, LoadError,
    LoadOptions, Loaded, Mode, ModeBounds, Place, Policy, Settings, Situation, Source, SourceRules,
    SourceText, Subject, Trust, decide_call,
};
use callgate::gate::result::Digest;
use callgate::gate::tool::{Kind, Risk, SubjectKind};

/// One rule as JSON, where it comes from and in which list.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) source: Source,
    pub(crate) root: Option<String>,
    pub(crate) list: &'static str,
    pub(crate) rule: serde_json::Value,
}

impl Written {
    /// A rule of the user's.
    pub(crate) fn of(list: &'static str, rule: &str) -> Self {
        Self {
            source: Source::User,
            root: None,
            list,
            rule: rule.into(),
        }
    }

    fn text(&self) -> SourceText {
        let text = serde_json::json!({"permissions": {self.list: [self.rule]}}).to_string();
        SourceText {
            source: self.source,
            file: Some(Arc::from("rules")),
            root: self.root.clone(),
            rules: SourceRules::parse(text.as_bytes(), self.source).unwrap(),
        }
    }
}

/// The policy of these rules.
pub(crate) fn load(
    rules: &[Written],
    aliases: &Aliases,
    trust: Trust,
    subject: Option<SubjectKind>,
) -> Result<Loaded, LoadError> {
    let options = LoadOptions {
        aliases,
        trust,
        subject_of: &|_| subject,
        read_command: &CommandSubject::plain,
    };
    Policy::load(rules.iter().map(Written::text).collect(), &options, 1)
}

/// The policy of rules that are all valid.
pub(crate) fn policy(rules: &[Written]) -> Policy {
    let loaded = load(rules, &Aliases::default(), Trust::Trusted, None).unwrap();
    assert_eq!(loaded.skipped, [], "{rules:?}");
    loaded.policy
}

/// The tool of that name.
pub(crate) fn tool(name: &str) -> GrantedTool {
    GrantedTool {
        name: ToolName::trusted(name),
        owner: OwnerName::trusted("owner"),
        digest: Digest::of(b"definition"),
    }
}

/// The subject of a tool that declares that kind.
pub(crate) fn subject(kind: SubjectKind, text: &str) -> Subject {
    match kind {
        SubjectKind::Command => Subject::Command(CommandSubject::plain(text)),
        SubjectKind::Url => Subject::Url(text.to_owned()),
        SubjectKind::Text => Subject::Text(text.to_owned()),
        SubjectKind::Path => Subject::Paths(vec![path(text)]),
    }
}

/// A path that is no link.
pub(crate) fn path(given: &str) -> callgate::gate::permission::PathSubject {
    let canonical = match given.starts_with('/') {
        true => given.to_owned(),
        false => format!("/w/{given}"),
    };
    callgate::gate::permission::PathSubject {
        given: given.to_owned(),
        canonical: Some(canonical),
    }
}

/// A place with everything known.
pub(crate) fn place() -> Place {
    Place {
        cwd: Some("/w".to_owned()),
        home: Some("/users/u".to_owned()),
        ..Place::default()
    }
}

/// Decides a sensitive call of that tool.
pub(crate) fn decide(
    name: &str,
    kind: Kind,
    subject: &Subject,
    situation: &Situation<'_>,
) -> Answer {
    let text = Bytes::from_static(b"{}");
    let arguments = Document::parse_object(&text, &JsonLimits::default()).unwrap();
    let call = Call {
        tool: &tool(name),
        kind,
        risk: Risk::Sensitive,
        skip_permission: false,
        arguments: Some(arguments.root()),
        subject,
        place: &place(),
    };
    decide_call(&call, situation)
}

/// The first moment.
pub(crate) const NOW: UnixMillis = UnixMillis(1_000);

/// A moment at which nothing but these rules and the mode speaks.
pub(crate) fn situation<'a>(
    mode: Mode,
    policies: &'a [&'a Policy],
    grants: &'a Grants,
) -> Situation<'a> {
    Situation {
        now: NOW,
        mode: ModeBounds::of(mode),
        policies,
        grants,
        hook: Hook::Proceed,
        check: Check::Passthrough,
        approver: Approver::Expected,
        settings: Settings::default(),
    }
}
