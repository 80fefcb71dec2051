//! An answer as it is kept: what decided, in words that stay true when rules change.
//!
//! Never decides: it is made from an answer.

use super::grants::GrantId;
use super::order::{Answer, Because, Stage};
use super::rule::Verdict;
use super::source::{Origin, Source};

/// What kind of thing decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroundKind {
    /// A deny rule.
    DenyRule,
    /// An ask rule.
    AskRule,
    /// What the call is about cannot be told.
    Unclear,
    /// The hooks.
    Hook,
    /// The mode forbids this kind.
    ModeBlock,
    /// The tool's own check.
    ToolCheck,
    /// An allow rule.
    AllowRule,
    /// A grant.
    Grant,
    /// The tool's author.
    SkipPermission,
    /// The table of mode, kind and risk.
    ModeAndRisk,
    /// Nobody can be asked.
    NoApprover,
}

/// Why a call may run, must be asked or must not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// What was decided.
    pub verdict: Verdict,
    /// What kind of thing decided.
    pub kind: GroundKind,
    /// The rule as written, or what the grant covers. Empty: neither decided.
    pub rule: String,
    /// Where the rule comes from.
    pub source: Option<Source>,
    /// The rule's place, or the grant's id. Empty: neither decided.
    pub origin: String,
    /// The hook that decided. Empty: none did.
    pub hook: String,
    /// The segment or path that decided. Empty: there is only one.
    pub segment: String,
    /// For people. Never text from the model.
    pub message: String,
    /// Which state of the rules was used.
    pub revision: u64,
}

impl Answer {
    /// The answer as it is kept. `revision`: the state of the rules that it was made with.
    #[must_use]
    pub fn ground(&self, revision: u64) -> Ground {
        let step = &self.decided_by;
        let mut ground = Ground {
            verdict: self.verdict,
            kind: GroundKind::ModeAndRisk,
            rule: String::new(),
            source: None,
            origin: String::new(),
            hook: String::new(),
            segment: step.segment.clone().unwrap_or_default(),
            message: String::new(),
            revision,
        };
        ground.kind = match &step.because {
            Because::Rule(rule) | Because::Untried(rule) => {
                ground.rule = rule.text.to_string();
                ground.source = Some(rule.origin.source);
                ground.origin = place(&rule.origin);
                ground.message = rule.message.as_deref().unwrap_or_default().to_owned();
                match rule.list {
                    Verdict::Deny => GroundKind::DenyRule,
                    Verdict::Ask => GroundKind::AskRule,
                    Verdict::Allow => GroundKind::AllowRule,
                }
            }
            Because::Grant { id, text } => {
                ground.rule.clone_from(text);
                ground.source = Some(Source::Session);
                ground.origin = id.to_string();
                GroundKind::Grant
            }
            Because::Unclear(_) => {
                // Why holds text of the model.
                "what it would do cannot be told".clone_into(&mut ground.message);
                GroundKind::Unclear
            }
            Because::Mode(mode) => {
                ground.message = format!("what the mode `{}` says of such a tool", mode.as_str());
                match step.stage {
                    Stage::ModeBlock => GroundKind::ModeBlock,
                    Stage::Deny
                    | Stage::Ask
                    | Stage::Unclear
                    | Stage::ToolCheck
                    | Stage::Allow
                    | Stage::ModeAndRisk
                    | Stage::Approver => GroundKind::ModeAndRisk,
                }
            }
            Because::Hook => GroundKind::Hook,
            Because::ToolCheck => {
                "what the tool itself says of such a call".clone_into(&mut ground.message);
                GroundKind::ToolCheck
            }
            Because::SkipPermission => GroundKind::SkipPermission,
            Because::NoApprover => {
                "nobody can be asked".clone_into(&mut ground.message);
                GroundKind::NoApprover
            }
        };
        ground
    }

    /// Whether a grant could have let the call run: every ask came from mode, risk or the tool's check.
    #[must_use]
    pub fn is_liftable(&self) -> bool {
        self.verdict == Verdict::Ask && self.asks().all(|step| step.is_liftable())
    }

    fn asks(&self) -> impl Iterator<Item = &super::order::Step> {
        self.steps
            .iter()
            .filter(|step| step.verdict == Verdict::Ask)
    }
}

/// Where a rule stands, by the name of its file: where files lie is not everybody's to know.
fn place(origin: &Origin) -> String {
    let number = origin.index + 1;
    match &origin.file {
        Some(path) => {
            let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
            format!("{name}, rule {number}")
        }
        None => format!("rule {number}"),
    }
}

impl std::fmt::Display for GrantId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "grant-{}", self.0)
    }
}

impl GrantId {
    /// Reads what `Display` wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.strip_prefix("grant-")?.parse().ok().map(GrantId)
    }
}
