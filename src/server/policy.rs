//! `PolicyService`: shows and checks rules, explains decisions, trusts workspaces, loads files anew.
//!
//! Never changes a rule and never lets a call run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::convert;
use super::convert_approval::visible;
use super::convert_permission::{
    Sight, effect, explanation, mode, mode_number, problem, problems_within, rule_entries,
    rule_message, source, source_number, within,
};
use super::status::Failure;
use crate::engine::{
    Asked, Engine, EngineError, Problem, Question, RuleMark, RuleStanding, RuleState, Session, mark,
};
use crate::executor::read_definition;
use crate::gate::call::ToolCall;
use crate::gate::ids::{CallId, ToolName, UnixMillis};
use crate::gate::permission::{Mode, RuleEntry, Source, Trust, Verdict, written_call};
use crate::gate::refusal::CallError;
use crate::gate::tool::ToolDefinition;
use crate::pb::v1 as pb;
use crate::pb::v1::explain_decision_request::Question as Asking;
use crate::pb::v1::policy_service_server::PolicyService;

/// Rules of a page that names no size, and the most that one may name.
const PAGE_DEFAULT: u32 = 200;
const PAGE_MAX: u32 = 1_000;
/// An answer ends before this size, in bytes.
const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Longest text of a file that is checked, in bytes.
const CHECKED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Most rules that are checked one by one.
const CHECKED_RULES_MAX: usize = 1_000;
/// Most rules that come with a call that is explained.
const EXTRA_RULES_MAX: usize = 256;
/// Longest path of a workspace, in bytes.
const WORKSPACE_BYTES_MAX: usize = 4_096;

/// The sources that have a place of their own here.
const LASTING: [Source; 6] = [
    Source::Policy,
    Source::User,
    Source::Project,
    Source::Local,
    Source::Flag,
    Source::CliArg,
];

/// Serves rules and explanations.
#[derive(Clone)]
pub struct Policy {
    /// Does the work.
    pub engine: Arc<Engine>,
}

/// Which rules are listed.
struct Wanted {
    sources: Vec<Source>,
    list: Option<Verdict>,
    state: Option<RuleState>,
    /// Only rules behind this place.
    after: Option<(Source, u32)>,
    size: usize,
}

impl Wanted {
    fn of(request: &pb::ListRulesRequest) -> Result<Self, Failure> {
        let mut sources = Vec::new();
        for (index, number) in request.sources.iter().enumerate() {
            let field = format!("sources[{index}]");
            let named = source(*number, &field)?;
            let named = named.ok_or_else(|| Failure::field(field, "must be set"))?;
            if named == Source::Session && request.session_id.is_empty() {
                return Err(Failure::field(
                    "session_id",
                    "must be set to list the rules of SESSION",
                ));
            }
            sources.push(named);
        }
        if sources.is_empty() {
            sources.extend(Source::ALL);
        }
        let named = request.page_size;
        if named > PAGE_MAX {
            let problem = format!("must be at most {PAGE_MAX}");
            return Err(Failure::field("page_size", problem));
        }
        let size = if named == 0 { PAGE_DEFAULT } else { named };
        Ok(Self {
            sources,
            list: match pb::PermissionEffect::try_from(request.effect) {
                Ok(pb::PermissionEffect::Unspecified) => None,
                Ok(pb::PermissionEffect::Allow) => Some(Verdict::Allow),
                Ok(pb::PermissionEffect::Ask) => Some(Verdict::Ask),
                Ok(pb::PermissionEffect::Deny) | Err(_) => Some(Verdict::Deny),
            },
            state: match pb::RuleState::try_from(request.state) {
                Ok(pb::RuleState::Unspecified) => None,
                Ok(pb::RuleState::Active) => Some(RuleState::Active),
                Ok(pb::RuleState::Untrusted) => Some(RuleState::Untrusted),
                Ok(pb::RuleState::Invalid) => Some(RuleState::Invalid),
                Ok(pb::RuleState::Expired) => Some(RuleState::Expired),
                Err(_) => return Err(Failure::field("state", "is no state known here")),
            },
            after: page_token(&request.page_token)?,
            size: usize::try_from(size).unwrap_or(usize::MAX),
        })
    }
}

impl Wanted {
    /// Whether grants of a session are among what is wanted.
    fn takes_grants(&self) -> bool {
        self.sources.contains(&Source::Session)
            && self.list.is_none_or(|list| list == Verdict::Allow)
            && self.state.is_none_or(|state| state == RuleState::Active)
    }
}

/// The grants of a session that count, as rules.
fn grant_rules(session: &Session, now: UnixMillis) -> Vec<pb::Rule> {
    let state = session.state();
    let counts = state.grants.iter().filter(|grant| grant.holds(now));
    counts
        .map(|grant| pb::Rule {
            rule_id: grant.id.to_string(),
            spec: Some(pb::RuleSpec {
                effect: effect(Verdict::Allow),
                rule: visible(&grant.text()),
                expires_at_ms: grant.terms.expires.map(|at| at.0),
                ..pb::RuleSpec::default()
            }),
            source: source_number(Source::Session),
            origin: grant.id.to_string(),
            state: pb::RuleState::Active as i32,
            problems: Vec::new(),
        })
        .collect()
}

/// The place of a page's last rule: its source's number and its position there.
fn page_token(token: &str) -> Result<Option<(Source, u32)>, Failure> {
    if token.is_empty() {
        return Ok(None);
    }
    let read = || {
        let (number, place) = token.split_once('.')?;
        let named = source(number.parse().ok()?, "page_token").ok()??;
        Some((named, place.parse().ok()?))
    };
    let place = read().ok_or_else(|| Failure::field("page_token", "is none of this method's"))?;
    Ok(Some(place))
}

impl Policy {
    /// The file as a whole, as the reader may know it.
    fn file(&self, of: Source, sight: Sight) -> String {
        let path = self.engine.rule_book().file_of(of);
        let path = path.map(|path| path.display().to_string());
        path.map_or_else(String::new, |path| sight.file(&path).to_owned())
    }

    fn place_of(&self, problem: &Problem, sight: Sight) -> String {
        match &problem.origin {
            Some(origin) => sight.place(origin),
            None => self.file(problem.source, sight),
        }
    }

    fn revision(&self) -> u64 {
        self.engine.permissions().policy.revision()
    }

    fn policy_source(
        &self,
        of: Source,
        standing: &RuleStanding,
        problems: &[Problem],
        sight: Sight,
    ) -> pb::PolicySource {
        let rules = standing.policy.rules();
        let count = rules.filter(|rule| rule.origin.source == of).count();
        let own = || problems.iter().filter(|problem| problem.source == of);
        // What refuses a load is anything but a broken allow rule.
        let refuses =
            |problem: &Problem| !problem.is_warning && problem.list != Some(Verdict::Allow);
        pb::PolicySource {
            source: source_number(of),
            origin: self.file(of, sight),
            rule_count: u32::try_from(count).unwrap_or(u32::MAX),
            problems: problems_within(
                own().map(|own| problem(own, self.place_of(own, sight))),
                ANSWER_BYTES_MAX / LASTING.len(),
            ),
            stale: standing.failure.is_some() && own().any(refuses),
            trusted: of.needs_trust() && standing.trust == Trust::Trusted,
            loaded_at_ms: match standing.has(of) {
                true => standing.loaded_at.0,
                false => 0,
            },
        }
    }

    fn question(&self, request: pb::ExplainDecisionRequest) -> Result<Question, Failure> {
        let session = convert::optional_session(&request.session_id)?;
        let entries = rule_entries(request.extra_rules, "extra_rules", EXTRA_RULES_MAX)?;
        let extra = match entries.is_empty() {
            true => None,
            false => Some(request_rules(&self.engine, entries, "extra_rules")?),
        };
        let asked = match request.question {
            None => return Err(Failure::field("question", "must be set")),
            Some(Asking::Text(text)) => {
                let max = self.engine.limits().args_bytes_max;
                within(
                    "text",
                    text.len(),
                    usize::try_from(max).unwrap_or(usize::MAX),
                )?;
                Asked::Text(text)
            }
            Some(Asking::Call(call)) => Asked::Call(ToolCall {
                call_id: match call.call_id.is_empty() {
                    true => CallId::trusted(""),
                    false => CallId::parse(&call.call_id)
                        .map_err(|error| Failure::id("call.call_id", error))?,
                },
                name: ToolName::trusted(call.name),
                arguments: call.arguments_json,
                truncated: call.truncated,
            }),
        };
        let definition = request.definition.map(read_definition);
        check_name(definition.as_ref(), &asked)?;
        Ok(Question {
            asked,
            session,
            mode: mode(request.mode),
            extra,
            definition,
        })
    }
}

/// The policy of rules that came with a request in that field.
pub(super) fn request_rules(
    engine: &Engine,
    entries: Vec<(Verdict, RuleEntry)>,
    field: &str,
) -> Result<crate::gate::permission::Policy, Failure> {
    let positions = positions(&entries);
    engine.command_rules(entries).map_err(|problems| {
        let named = problems.iter().map(|problem| {
            let at = positions.get(&mark(&problem.origin, problem.list));
            let field = format!("{field}[{}]", at.copied().unwrap_or_default());
            (field, problem.error.code(), problem.error.to_string())
        });
        Failure::rules(named.collect())
    })
}

/// A definition that comes along is the tool's that is asked about.
fn check_name(definition: Option<&ToolDefinition>, asked: &Asked) -> Result<(), Failure> {
    let name = match asked {
        Asked::Text(text) => written_call(text).0.trim(),
        Asked::Call(call) => call.name.as_str(),
    };
    match definition {
        Some(definition) if definition.name.as_str() != name => Err(Failure::field(
            "definition.name",
            format!("must be `{name}`, the tool that is asked about"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// The position in the request of every rule, by where the gate takes it to stand.
fn positions(entries: &[(Verdict, RuleEntry)]) -> BTreeMap<RuleMark, usize> {
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut positions = BTreeMap::new();
    for (position, (list, _)) in entries.iter().enumerate() {
        let count = counts.entry(*list).or_default();
        positions.insert((Source::Command, *list, *count), position);
        *count += 1;
    }
    positions
}

/// An error in place of a decision.
fn refused(error: &CallError, revision: u64) -> pb::ExplainDecisionResponse {
    pb::ExplainDecisionResponse {
        verdict: Some(pb::PermissionVerdict {
            effect: effect(Verdict::Deny),
            stage: pb::DecisionStage::Validation as i32,
            message: format!("the call would end before any decision: `{}`", error.code),
            policy_revision: revision,
            ..pb::PermissionVerdict::default()
        }),
        steps: vec![pb::DecisionStep {
            stage: pb::DecisionStage::Validation as i32,
            effect: effect(Verdict::Deny),
            note: error.message_for_model.clone(),
            ..pb::DecisionStep::default()
        }],
        error: Some(convert::call_error(error)),
        ..pb::ExplainDecisionResponse::default()
    }
}

#[tonic::async_trait]
impl PolicyService for Policy {
    async fn get_policy(
        &self,
        request: Request<pb::GetPolicyRequest>,
    ) -> Result<Response<pb::GetPolicyResponse>, Status> {
        let sight = Sight::of(&request);
        let (standing, problems) = self.read().await?;
        let aliases = self.engine.rule_book().aliases().iter();
        let aliases = aliases.flat_map(|(name, tools)| {
            tools.iter().map(|tool| pb::ToolNameAlias {
                name: name.clone(),
                tool: tool.clone(),
            })
        });
        let sources = LASTING.into_iter();
        Ok(Response::new(pb::GetPolicyResponse {
            policy_revision: standing.policy.revision(),
            sources: sources
                .map(|of| self.policy_source(of, &standing, &problems, sight))
                .collect(),
            max_mode: mode_number(standing.policy.max_mode().unwrap_or(Mode::Auto)),
            aliases: aliases.collect(),
        }))
    }

    async fn list_rules(
        &self,
        request: Request<pb::ListRulesRequest>,
    ) -> Result<Response<pb::ListRulesResponse>, Status> {
        let sight = Sight::of(&request);
        let wanted = Wanted::of(request.get_ref())?;
        let session = convert::optional_session(&request.get_ref().session_id)?;
        let (standing, problems) = self.read().await?;
        let mut page = self.page(&wanted, &standing, &problems, sight);
        // Grants come last, and a session has few.
        if let Some(session) = session
            && page.next_page_token.is_empty()
            && wanted.takes_grants()
        {
            match self.engine.find_session(&session).await {
                Ok(session) => page.rules.extend(grant_rules(&session, self.engine.now())),
                // One that nobody knows has no grants.
                Err(EngineError::NotFound { .. }) => {}
                Err(error) => return Err(Failure::from(error).into()),
            }
        }
        Ok(Response::new(page))
    }

    async fn check_rules(
        &self,
        request: Request<pb::CheckRulesRequest>,
    ) -> Result<Response<pb::CheckRulesResponse>, Status> {
        let request = request.into_inner();
        let of = source(request.source, "source")?.unwrap_or(Source::User);
        within("rules_json", request.rules_json.len(), CHECKED_BYTES_MAX)?;
        let entries = rule_entries(request.rules, "rules", CHECKED_RULES_MAX)?;
        let checked = match (request.rules_json.is_empty(), entries.is_empty()) {
            (true, true) => {
                return Err(Failure::field("rules_json", "or `rules` must be set").into());
            }
            (false, false) => {
                let problem = "must not come together with `rules`";
                return Err(Failure::field("rules_json", problem).into());
            }
            (false, true) => {
                let checked = self.engine.check_rule_file(of, request.rules_json).await;
                let checked = checked.map_err(Failure::from)?;
                (checked, None)
            }
            (true, false) => {
                let positions = positions(&entries);
                let checked = self.engine.check_rule_entries(of, entries).await;
                (checked.map_err(Failure::from)?, Some(positions))
            }
        };
        let (checked, positions) = checked;
        let place = |problem: &Problem| {
            let (Some(origin), Some(list)) = (&problem.origin, problem.list) else {
                return "rules_json".to_owned();
            };
            match &positions {
                None => format!("permissions.{}[{}]", list.as_str(), origin.index),
                Some(positions) => {
                    let at = positions.get(&(Source::Command, list, origin.index));
                    format!("rules[{}]", at.copied().unwrap_or_default())
                }
            }
        };
        let problems = checked.problems.iter();
        Ok(Response::new(pb::CheckRulesResponse {
            ok: checked.is_ok,
            problems: problems_within(
                problems.map(|own| problem(own, place(own))),
                ANSWER_BYTES_MAX,
            ),
            rule_count: u32::try_from(checked.count).unwrap_or(u32::MAX),
        }))
    }

    async fn explain_decision(
        &self,
        request: Request<pb::ExplainDecisionRequest>,
    ) -> Result<Response<pb::ExplainDecisionResponse>, Status> {
        let sight = Sight::of(&request);
        let question = self.question(request.into_inner())?;
        let explained = self.engine.explain(question).await;
        let revision = explained.revision;
        Ok(Response::new(match &explained.outcome {
            Ok(explained) => explanation(explained, revision, sight),
            Err(error) => refused(error, revision),
        }))
    }

    async fn set_workspace_trust(
        &self,
        request: Request<pb::SetWorkspaceTrustRequest>,
    ) -> Result<Response<pb::SetWorkspaceTrustResponse>, Status> {
        let request = request.into_inner();
        within("workspace", request.workspace.len(), WORKSPACE_BYTES_MAX)?;
        let workspace = PathBuf::from(request.workspace);
        if !workspace.is_absolute() {
            return Err(Failure::field("workspace", "must be an absolute path").into());
        }
        let set = self.engine.set_workspace_trust(workspace, request.trusted);
        set.await.map_err(Failure::from)?;
        Ok(Response::new(pb::SetWorkspaceTrustResponse {
            policy_revision: self.revision(),
        }))
    }

    async fn reload_policy(
        &self,
        request: Request<pb::ReloadPolicyRequest>,
    ) -> Result<Response<pb::ReloadPolicyResponse>, Status> {
        let sight = Sight::of(&request);
        self.engine.reload_rules().await.map_err(Failure::from)?;
        let (standing, problems) = self.read().await?;
        Ok(Response::new(pb::ReloadPolicyResponse {
            policy_revision: standing.policy.revision(),
            problems: problems_within(
                problems
                    .iter()
                    .map(|own| problem(own, self.place_of(own, sight))),
                ANSWER_BYTES_MAX,
            ),
        }))
    }
}

impl Policy {
    async fn read(&self) -> Result<(Arc<RuleStanding>, Vec<Problem>), Failure> {
        let read = self.engine.rules_with_problems().await;
        read.map_err(Failure::from)
    }

    fn page(
        &self,
        wanted: &Wanted,
        standing: &RuleStanding,
        problems: &[Problem],
        sight: Sight,
    ) -> pb::ListRulesResponse {
        let mut told: BTreeMap<RuleMark, Vec<&Problem>> = BTreeMap::new();
        for problem in problems {
            if let (Some(origin), Some(list)) = (&problem.origin, problem.list) {
                let key = mark(origin, list);
                told.entry(key).or_default().push(problem);
            }
        }
        let sources: BTreeSet<Source> = wanted.sources.iter().copied().collect();
        let mut answer = pb::ListRulesResponse::default();
        let mut bytes = 0;
        let mut last = None;
        for listed in standing.rules(self.engine.now()) {
            let at = (listed.origin.source, listed.place);
            let is_wanted = sources.contains(&at.0)
                && wanted.list.is_none_or(|list| list == listed.list)
                && wanted.state.is_none_or(|state| state == listed.state)
                && wanted.after.is_none_or(|after| after < at);
            if !is_wanted {
                continue;
            }
            let is_full = answer.rules.len() >= wanted.size || bytes > ANSWER_BYTES_MAX;
            if let (true, Some((of, place))) = (is_full, last) {
                answer.next_page_token = format!("{}.{place}", source_number(of));
                break;
            }
            let own = told.get(&listed.mark()).map_or(&[][..], Vec::as_slice);
            let shown = rule_message(&listed, own, sight);
            bytes += prost::Message::encoded_len(&shown);
            answer.rules.push(shown);
            last = Some(at);
        }
        answer
    }
}
