//! Permission vectors: the whole decision, paths, modes, and how rules load.
//!
//! Never holds a case itself.

use bytes::Bytes;
use callgate::gate::ids::{ToolName, UnixMillis};
use callgate::gate::json::{Document, JsonLimits};
use callgate::gate::permission::{
    Aliases, Answer, Approver, Because, Call, Case, Check, CommandSubject, GrantedTool, Grants,
    Hook, Mode, ModeBounds, NewGrant, PathSubject, Place, Policy, Scope, Separator, Settings,
    Situation, Source, Step, Subject, Trust, Verdict, View, decide_call,
};
use callgate::gate::result::Digest;
use callgate::gate::tool::{Kind, Risk};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::build::{self, Written, load, tool};

pub(super) fn read<T: DeserializeOwned>(file: &str) -> T {
    let text = std::fs::read(format!("tests/vectors/permissions/{file}")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Rows of a table of known bugs, and those that this engine has no part in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    cases: Vec<Decision>,
    no_counterpart: Vec<NoCounterpart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoCounterpart {
    row: String,
    reason: String,
}

impl NoCounterpart {
    /// Whether it says which row and why.
    pub(super) fn is_told(&self) -> bool {
        !self.row.is_empty() && !self.reason.is_empty()
    }
}

/// One call and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    name: String,
    #[serde(default = "default_mode")]
    mode: String,
    parent_mode: Option<String>,
    max_mode: Option<String>,
    #[serde(default = "yes")]
    trusted: bool,
    now: Option<String>,
    #[serde(default)]
    aliases: Aliases,
    rules: Vec<RuleFrom>,
    #[serde(default)]
    grants: Vec<GrantCase>,
    call: CallCase,
    #[serde(default)]
    facts: Facts,
    hook: Option<HookWord>,
    check: Option<CheckWord>,
    approver: Option<ApproverWord>,
    #[serde(default)]
    settings: SettingsCase,
    decision: Word,
    stage: String,
    because: BecauseCase,
    segment: Option<String>,
    #[serde(default)]
    grants_used: Vec<u64>,
    /// Other words that were said, by stage.
    #[serde(default)]
    said: Vec<Said>,
}

fn default_mode() -> String {
    "default".to_owned()
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFrom {
    from: String,
    root: Option<String>,
    allow: Option<serde_json::Value>,
    ask: Option<serde_json::Value>,
    deny: Option<serde_json::Value>,
}

impl RuleFrom {
    fn written(&self) -> Written {
        let lists = [
            ("allow", &self.allow),
            ("ask", &self.ask),
            ("deny", &self.deny),
        ];
        let mut named = lists
            .into_iter()
            .filter_map(|(list, rule)| Some((list, rule.clone()?)));
        let (list, rule) = named.next().unwrap();
        assert!(named.next().is_none(), "one list per rule");
        let short = |source: &Source| source.as_str().trim_end_matches("Settings") == self.from;
        Written {
            source: Source::ALL.into_iter().find(short).unwrap(),
            root: self.root.clone(),
            list,
            rule,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantCase {
    prefix: Option<Vec<String>>,
    words: Option<Vec<String>>,
    whole: Option<String>,
    #[serde(default)]
    tool: bool,
    #[serde(default)]
    edits: bool,
    definition: Option<String>,
}

impl GrantCase {
    fn terms(&self, tool: &GrantedTool) -> NewGrant {
        let scope = match (&self.prefix, &self.words, &self.whole) {
            (Some(words), None, None) => Scope::Prefix(words.clone()),
            (None, Some(words), None) => Scope::Words(words.clone()),
            (None, None, Some(text)) => Scope::WholeText(text.as_str().into()),
            (None, None, None) if self.edits => Scope::Edits,
            (None, None, None) if self.tool => Scope::Tool,
            _ => panic!("a grant covers one thing"),
        };
        let definition = self.definition.as_ref();
        let digest = definition.map_or(tool.digest, |text| Digest::of(text.as_bytes()));
        NewGrant {
            tool: GrantedTool {
                digest,
                ..tool.clone()
            },
            scope,
            expires: None,
            uses_max: None,
        }
    }
}

/// A call; at most one of `command`, `paths`, `url`, `text` is its subject.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallCase {
    tool: String,
    #[serde(default = "other")]
    kind: KindWord,
    #[serde(default = "sensitive")]
    risk: Risk,
    #[serde(default)]
    skip_permission: bool,
    arguments: Option<serde_json::Value>,
    command: Option<String>,
    /// With `command`: its segments as an analysis found them.
    segments: Option<Vec<Vec<String>>>,
    paths: Option<Vec<PathCase>>,
    url: Option<String>,
    text: Option<String>,
}

fn other() -> KindWord {
    KindWord::Other
}

fn sensitive() -> Risk {
    Risk::Sensitive
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathCase {
    given: String,
    canonical: Option<String>,
}

impl CallCase {
    fn subject(&self) -> Subject {
        match (&self.command, &self.paths, &self.url, &self.text) {
            (Some(command), None, None, None) => Subject::Command(self.command_subject(command)),
            (None, Some(paths), None, None) => Subject::Paths(
                paths
                    .iter()
                    .map(|path| PathSubject {
                        given: path.given.clone(),
                        canonical: path.canonical.clone(),
                    })
                    .collect(),
            ),
            (None, None, Some(url), None) => Subject::Url(url.clone()),
            (None, None, None, Some(text)) => Subject::Text(text.clone()),
            (None, None, None, None) => Subject::Undeclared,
            _ => panic!("a call has one subject"),
        }
    }

    fn command_subject(&self, command: &str) -> CommandSubject {
        let Some(segments) = &self.segments else {
            return CommandSubject::plain(command);
        };
        let views = segments.iter().map(|words| View {
            words: words.clone(),
            text: words.join(" "),
            spelled_min: 1,
        });
        let views: Vec<View> = views.collect();
        CommandSubject {
            text: command.to_owned(),
            views_for_deny: views.clone(),
            segments_for_allow: Ok(views),
            open_programs: Vec::new(),
            suspects: Vec::new(),
            lasting: Vec::new(),
        }
    }
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    cwd: Option<String>,
    cwd_canonical: Option<String>,
    home: Option<String>,
    case: Option<CaseWord>,
    separator: Option<SeparatorWord>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum CaseWord {
    Sensitive,
    Insensitive,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum SeparatorWord {
    SlashAndBackslash,
}

impl Facts {
    pub(super) fn place(&self) -> Place {
        Place {
            cwd: self.cwd.clone(),
            cwd_canonical: self.cwd_canonical.clone(),
            home: self.home.clone(),
            case: match self.case {
                Some(CaseWord::Sensitive) => Case::Sensitive,
                Some(CaseWord::Insensitive) => Case::Insensitive,
                None => Case::Unknown,
            },
            separator: match self.separator {
                Some(SeparatorWord::SlashAndBackslash) => Separator::SlashAndBackslash,
                None => Separator::Slash,
            },
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindWord {
    Read,
    Fetch,
    Edit,
    Delete,
    Execute,
    Interact,
    Other,
}

impl From<KindWord> for Kind {
    fn from(word: KindWord) -> Self {
        match word {
            KindWord::Read => Kind::Read,
            KindWord::Fetch => Kind::Fetch,
            KindWord::Edit => Kind::Edit,
            KindWord::Delete => Kind::Delete,
            KindWord::Execute => Kind::Execute,
            KindWord::Interact => Kind::Interact,
            KindWord::Other => Kind::Other,
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum HookWord {
    Allow,
    Ask,
    Defer,
    Deny,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum CheckWord {
    Allow,
    Ask,
    AskFirm,
    Deny,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ApproverWord {
    None,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Allow,
    Ask,
    Deny,
}

impl From<Word> for Verdict {
    fn from(word: Word) -> Self {
        match word {
            Word::Allow => Verdict::Allow,
            Word::Ask => Verdict::Ask,
            Word::Deny => Verdict::Deny,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct SettingsCase {
    hook_allow_covers_dangerous: bool,
    executor_is_trusted: bool,
}

/// A rule with its source, a grant, a mode, or another reason.
#[derive(Deserialize, Debug, PartialEq, Eq, Default)]
#[serde(deny_unknown_fields, default)]
struct BecauseCase {
    from: Option<String>,
    rule: Option<String>,
    message: Option<String>,
    grant: Option<String>,
    mode: Option<String>,
    why: Option<String>,
}

impl From<&Because> for BecauseCase {
    fn from(because: &Because) -> Self {
        let mut case = Self::default();
        match because {
            Because::Rule(rule) | Because::Untried(rule) => {
                case.from = Some(rule.origin.source.to_string());
                case.rule = Some(rule.text.to_string());
                case.message = rule.message.as_deref().map(str::to_owned);
            }
            Because::Grant { text, .. } => case.grant = Some(text.clone()),
            Because::Mode(mode) => case.mode = Some(mode.as_str().to_owned()),
            Because::Hook => case.why = Some("hook".to_owned()),
            Because::Unclear(_) => case.why = Some("unclear".to_owned()),
            Because::ToolCheck => case.why = Some("tool_check".to_owned()),
            Because::SkipPermission => case.why = Some("skip_permission".to_owned()),
            Because::NoApprover => case.why = Some("no_approver".to_owned()),
        }
        case
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    stage: String,
    decision: Word,
    rule: Option<String>,
}

impl Said {
    fn is(&self, step: &Step) -> bool {
        step.stage.as_str() == self.stage
            && step.verdict == self.decision.into()
            && BecauseCase::from(&step.because).rule == self.rule
    }
}

fn mode(name: &str) -> Mode {
    Mode::parse(name).unwrap()
}

/// The moment as a rule would write it.
fn moment(text: Option<&String>) -> UnixMillis {
    let moments = [
        ("2027-01-31T23:59:59Z", 1_801_439_999_000),
        ("2027-02-01", 1_801_440_000_000),
    ];
    text.map_or(build::NOW, |text| {
        let found = moments.iter().find(|(moment, _)| moment == text);
        UnixMillis(found.unwrap().1)
    })
}

impl Decision {
    fn answer(&self) -> Answer {
        let rules: Vec<Written> = self.rules.iter().map(RuleFrom::written).collect();
        let trust = match self.trusted {
            true => Trust::Trusted,
            false => Trust::Untrusted,
        };
        let loaded = load(&rules, &self.aliases, trust, None).unwrap();
        assert_eq!(loaded.skipped, [], "{}", self.name);
        self.decide(&loaded.policy)
    }

    fn decide(&self, policy: &Policy) -> Answer {
        let tool = GrantedTool {
            name: ToolName::trusted(self.call.tool.as_str()),
            ..tool("")
        };
        let mut grants = Grants::default();
        for grant in &self.grants {
            grants.add(grant.terms(&tool)).unwrap();
        }
        let arguments = self.call.arguments.clone().unwrap_or(serde_json::json!({}));
        let arguments = Bytes::from(arguments.to_string());
        let arguments = Document::parse_object(&arguments, &JsonLimits::default()).unwrap();
        let call = Call {
            tool: &tool,
            kind: self.call.kind.into(),
            risk: self.call.risk,
            skip_permission: self.call.skip_permission,
            arguments: Some(arguments.root()),
            subject: &self.call.subject(),
            place: &self.facts.place(),
        };
        let situation = Situation {
            now: moment(self.now.as_ref()),
            mode: ModeBounds {
                session: mode(&self.mode),
                parent: self.parent_mode.as_deref().map(mode),
                max: self.max_mode.as_deref().map(mode),
            },
            policies: &[policy],
            grants: &grants,
            hook: self.hook.map_or(Hook::Proceed, hook),
            check: self.check.map_or(Check::Passthrough, check),
            approver: match self.approver {
                Some(ApproverWord::None) => Approver::None,
                None => Approver::Expected,
            },
            settings: Settings {
                hook_allow_covers_dangerous: self.settings.hook_allow_covers_dangerous,
                executor_is_trusted: self.settings.executor_is_trusted,
            },
        };
        decide_call(&call, &situation)
    }

    /// How it is decided, and what the vector says of it.
    pub(super) fn told(&self) -> (Answer, Told) {
        let because = &self.because;
        let told = Told {
            name: self.name.clone(),
            verdict: Verdict::from(self.decision).as_str(),
            stage: self.stage.clone(),
            why: because.why.clone(),
            is_grant: because.grant.is_some(),
            rule: because.rule.clone().or(because.grant.clone()),
            source: match because.grant {
                Some(_) => Some(Source::Session.to_string()),
                None => because.from.clone(),
            },
            segment: self.segment.clone(),
        };
        (self.answer(), told)
    }

    fn check(&self) {
        let answer = self.answer();
        let name = &self.name;
        assert_eq!(answer.verdict, self.decision.into(), "{name}: {answer:#?}");
        let decided = &answer.decided_by;
        assert_eq!(decided.stage.as_str(), self.stage, "{name}: {answer:#?}");
        assert_eq!(BecauseCase::from(&decided.because), self.because, "{name}");
        assert_eq!(decided.segment, self.segment, "{name}");
        let used: Vec<u64> = answer.grants_used.iter().map(|id| id.0).collect();
        assert_eq!(used, self.grants_used, "{name}");
        for said in &self.said {
            assert!(
                answer.steps.iter().any(|step| said.is(step)),
                "{name}: {answer:#?}"
            );
        }
        assert!(
            answer.steps.is_sorted_by_key(|step| step.stage),
            "{name}: {answer:#?}"
        );
    }
}

/// What a vector says of a decision, in its words.
pub(super) struct Told {
    pub(super) name: String,
    pub(super) verdict: &'static str,
    pub(super) stage: String,
    pub(super) why: Option<String>,
    pub(super) is_grant: bool,
    pub(super) rule: Option<String>,
    pub(super) source: Option<String>,
    pub(super) segment: Option<String>,
}

/// Every vector of a whole decision.
pub(super) fn decisions() -> Vec<(Answer, Told)> {
    let rows = read::<Rows>("rows.json").cases;
    let order = read::<Vec<Decision>>("order.json");
    rows.iter().chain(&order).map(Decision::told).collect()
}

fn hook(word: HookWord) -> Hook {
    match word {
        HookWord::Allow => Hook::Allow,
        HookWord::Ask => Hook::Ask,
        HookWord::Defer => Hook::Defer,
        HookWord::Deny => Hook::Deny,
    }
}

fn check(word: CheckWord) -> Check {
    match word {
        CheckWord::Allow => Check::Allow,
        CheckWord::Ask => Check::Ask,
        CheckWord::AskFirm => Check::AskFirm,
        CheckWord::Deny => Check::Deny,
    }
}

#[test]
fn known_bugs_of_others_are_decided_rightly() {
    let rows: Rows = read("rows.json");
    for case in &rows.cases {
        case.check();
    }
    for row in &rows.no_counterpart {
        let has_case = rows
            .cases
            .iter()
            .any(|case| case.name.starts_with(&row.row));
        assert!(!has_case && !row.reason.is_empty(), "{}", row.row);
    }
}

#[test]
fn every_stage_is_heard_in_its_order() {
    for case in read::<Vec<Decision>>("order.json") {
        case.check();
    }
}
