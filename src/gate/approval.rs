//! A call that waits for a person, and what the person may say.
//!
//! An approval is bound to exactly what was shown: its digest covers session, run, batch, call, tool,
//! definition and arguments. Never looks at rules: the turn machine decides again whenever they change.

use std::sync::Arc;

use bytes::Bytes;

use super::audit::answer_digest;
use super::hooks::HookText;
use super::ids::{CallIndex, UnixMillis};
use super::permission::{GrantCandidate, GrantId, GrantedTool, Ground, Mode};
use super::record::TurnSpec;
use super::result::{Digest, ToolResult};
use super::tool::{Kind, Risk};

/// Most bytes of what an approver writes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// What happens to a batch while a call waits, and when one is refused or expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchPolicy {
    /// Nothing runs before the decision; one refusal ends the batch.
    #[default]
    FreezeAtomic,
    /// Nothing runs before all are decided; then approved and unasked calls run.
    FreezePartial,
    /// Safe calls run at once, the rest as [`FreezePartial`](Self::FreezePartial).
    EagerSafe,
}

/// What an approver can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Run it, this once.
    Once,
    /// Run it, and store the picked grants for the session.
    Session,
    /// Do not run it; the turn goes on.
    Deny,
    /// Run it with other arguments, this once.
    Edit,
    /// Do not run it; the approver's answer is its result.
    Respond,
    /// Cancel the turn.
    CancelTurn,
}

/// Where an approval stands. All but pending are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApprovalState {
    /// Waits.
    Pending,
    /// May run.
    Approved,
    /// Must not run.
    Denied,
    /// The approver gave the result.
    Answered,
    /// Its time passed.
    Expired,
    /// The call, turn or run ended.
    Cancelled,
    /// Another call of its batch was refused.
    Withdrawn,
    /// The tool changed before the call was sent.
    Superseded,
}

/// A decision as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// As sent by the approver, or minted. Empty: nobody decided.
    pub id: String,
    /// What was chosen. None: a rule, mode or grant decided, see `ground`.
    pub choice: Option<Choice>,
    /// Who. Empty: the sidecar.
    pub by: String,
    /// What the approver used; not checked.
    pub surface: String,
    /// When.
    pub at: UnixMillis,
    /// What the approver wrote.
    pub message: String,
    /// The arguments that it put in, in dispatch form. None: unchanged.
    pub edited: Option<Bytes>,
    /// What it said beside its choice and its texts, so that a repeat is known as one. Empty: nothing.
    pub contents: Bytes,
    /// Grants that were stored.
    pub grants: Vec<GrantId>,
    /// The rule, mode or grant that decided instead of a person.
    pub ground: Option<Ground>,
}

/// A call that waits for a decision, or had one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Position of the call.
    pub call: CallIndex,
    /// The tool and the definition that was checked.
    pub tool: GrantedTool,
    /// How much harm it can do.
    pub risk: Risk,
    /// What it does.
    pub kind: Kind,
    /// The arguments that would run, in dispatch form.
    pub arguments: Bytes,
    /// Pointers to those that nobody may see.
    pub secrets: Vec<String>,
    /// What a decision must carry.
    pub digest: Digest,
    /// Why it is asked.
    pub ground: Ground,
    /// The tool's own words, if its check asked. Empty: none.
    pub tool_reason: String,
    /// A hook parked it: it waits without an approver too.
    pub is_deferred: bool,
    /// What hooks said for the conversation.
    pub contexts: Vec<HookText>,
    /// What could be granted for the session. Empty: nothing.
    pub candidates: Vec<GrantCandidate>,
    /// The session's mode when it began to wait.
    pub mode: Mode,
    /// When it began to wait.
    pub created_at: UnixMillis,
    /// None: never.
    pub expires_at: Option<UnixMillis>,
    /// Where it stands.
    pub state: ApprovalState,
    /// How it was decided. None: it was not.
    pub decision: Option<Decision>,
    /// Counts its changes, from 1.
    pub version: u32,
}

/// How one approval changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalChange {
    /// Position of the call.
    pub call: CallIndex,
    /// Where it stands now.
    pub state: ApprovalState,
    /// How it was decided.
    pub decision: Decision,
    /// Counts its changes.
    pub version: u32,
}

impl Approval {
    /// Whether it waits.
    pub fn is_pending(&self) -> bool {
        self.state == ApprovalState::Pending
    }

    /// What can be chosen.
    pub fn choices(&self) -> Vec<Choice> {
        let session = (!self.candidates.is_empty()).then_some(Choice::Session);
        let others = [
            Choice::Deny,
            Choice::Edit,
            Choice::Respond,
            Choice::CancelTurn,
        ];
        let first = [Choice::Once].into_iter().chain(session);
        first.chain(others).collect()
    }

    /// The same approval, decided.
    #[must_use]
    pub fn decided(&self, state: ApprovalState, decision: Decision) -> Self {
        Self {
            state,
            decision: Some(decision),
            version: self.version.saturating_add(1),
            ..self.clone()
        }
    }

    /// How it differs from what was first kept of it. None: it waits as it did.
    pub fn change(&self) -> Option<ApprovalChange> {
        Some(ApprovalChange {
            call: self.call,
            state: self.state,
            decision: self.decision.clone()?,
            version: self.version,
        })
    }

    /// Takes a change in.
    pub fn apply(&mut self, change: ApprovalChange) {
        self.state = change.state;
        self.decision = Some(change.decision);
        self.version = change.version;
    }

    /// The arguments that were approved. None: they were not.
    pub fn approved_arguments(&self) -> Option<&Bytes> {
        let decision = self.decision.as_ref()?;
        let edited = decision.edited.as_ref();
        (self.state == ApprovalState::Approved).then(|| edited.unwrap_or(&self.arguments))
    }
}

/// An approver's consent to exactly one call with exactly these arguments.
///
/// Made from an approved approval only.
#[derive(Debug)]
pub struct Consent(());

impl Approval {
    /// The consent, if it was given to what would be sent now.
    pub fn consent(&self, spec: &TurnSpec, arguments: &Bytes) -> Option<Consent> {
        let approved = self.approved_arguments()?;
        let given = digest(spec, self.call, &self.tool, approved);
        (given == digest(spec, self.call, &self.tool, arguments)).then_some(Consent(()))
    }
}

/// What a decision must carry: everything that must be the same when the call runs.
pub fn digest(spec: &TurnSpec, call: CallIndex, tool: &GrantedTool, arguments: &Bytes) -> Digest {
    let request = &spec.request;
    let asked = request.calls.get(call.get());
    let call_id = asked.map_or("", |asked| asked.call.call_id.as_str());
    let parts: [&[u8]; 8] = [
        request.session.as_str().as_bytes(),
        request.run.as_str().as_bytes(),
        spec.batch.as_str().as_bytes(),
        call_id.as_bytes(),
        tool.owner.as_str().as_bytes(),
        tool.name.as_str().as_bytes(),
        &tool.digest.0,
        arguments,
    ];
    let mut bytes = b"callgate approval 1".to_vec();
    for part in parts {
        // Each behind its length, so that no two lists of parts read the same.
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Digest::of(&bytes)
}

/// A decision on its way in, its shape checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Deciding {
    /// Names the decision, so that a repeat is known as one.
    pub id: String,
    /// The digest that the approver saw. None: it sent none that could be one.
    pub digest: Option<Digest>,
    /// The version that it saw. None: whatever it is now.
    pub version: Option<u32>,
    /// What it chooses. None: nothing that is known.
    pub choice: Option<Choice>,
    /// For the model and the record.
    pub message: String,
    /// With SESSION: which candidates.
    pub candidates: Vec<String>,
    /// With EDIT: the new arguments as sent.
    pub edited: Bytes,
    /// With RESPOND: the call's result.
    pub response: Option<ToolResult>,
    /// Who decides.
    pub by: String,
    /// What it uses; not checked.
    pub surface: String,
}

/// Why a decision is not taken. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// No such approval.
    #[error("no such approval")]
    NotFound,
    /// Decided otherwise before.
    #[error("it was decided otherwise before")]
    AlreadyDecided,
    /// Ended without a decision.
    #[error("it does not wait any more")]
    NotPending,
    /// Something else was shown.
    #[error("the digest is not the one of this approval: look at it again")]
    DigestMismatch,
    /// It changed since it was shown.
    #[error("it changed since it was looked at")]
    VersionMismatch,
    /// Not among what can be chosen.
    #[error("{0}")]
    ChoiceNotAllowed(&'static str),
    /// The new arguments do not pass.
    #[error("the edited arguments do not pass: {0}")]
    EditInvalid(String),
    /// The id was used for another decision.
    #[error("the decision id was used for another decision")]
    IdReused,
    /// More grants than a session may have.
    #[error("the session has as many grants as it may")]
    TooManyGrants,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It holds.
    Taken(Arc<Approval>),
    /// The same was decided before.
    Repeated(Arc<Approval>),
    /// It is not taken; the approval as it is.
    Refused(Arc<Approval>, DecideError),
}

/// What a decision means for an approval that is decided already.
pub fn compare(decided: &Arc<Approval>, deciding: &Deciding) -> Outcome {
    let refused = |error| Outcome::Refused(decided.clone(), error);
    if deciding.digest != Some(decided.digest) {
        return refused(DecideError::DigestMismatch);
    }
    let Some(decision) = &decided.decision else {
        return refused(DecideError::NotPending);
    };
    let Some(choice) = decision.choice else {
        return refused(DecideError::NotPending);
    };
    let same_id = !deciding.id.is_empty() && deciding.id == decision.id;
    let same = deciding.choice == Some(choice) && decision.contents == deciding.contents(decided);
    match (same, same_id) {
        (true, _) => Outcome::Repeated(decided.clone()),
        (false, true) => refused(DecideError::IdReused),
        (false, false) => refused(DecideError::AlreadyDecided),
    }
}

impl Deciding {
    /// What it says beside its choice and its texts: with EDIT the arguments as they were sent, with
    /// SESSION the candidates, with RESPOND the digest of the result. Empty: nothing.
    pub fn contents(&self, approval: &Approval) -> Bytes {
        match self.choice {
            Some(Choice::Edit) => self.edited.clone(),
            Some(Choice::Session) => {
                let mut picked: Vec<&str> = self.candidates.iter().map(String::as_str).collect();
                if let ([only], []) = (&*approval.candidates, &*picked) {
                    picked.push(&only.id);
                }
                picked.sort_unstable();
                Bytes::from(picked.join(" "))
            }
            Some(Choice::Respond) => {
                let response = self.response.as_ref().map(answer_digest);
                response.map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(&digest.0))
            }
            Some(Choice::Once | Choice::Deny | Choice::CancelTurn) | None => Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::ids::{ApprovalId, BatchId};

    #[test]
    fn an_id_says_where_its_turn_is_found() {
        let batch = BatchId::trusted("p-1.x");
        let id = ApprovalId::of(&batch, CallIndex(7), 0xabc);
        assert_eq!(id.as_str(), "p-1.x.7.0000000000000abc");
        assert_eq!(id.parts(), Some((batch, CallIndex(7), 0xabc)));
        for broken in ["", "a.1", "a.1.abc", "a.70000.0000000000000abc"] {
            assert_eq!(ApprovalId::trusted(broken).parts(), None, "{broken}");
        }
    }
}
