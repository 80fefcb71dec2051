//! Judges a hello: protocol, names, sizes, and whether a process is the one that it says.
//!
//! Pure. Never registers anything.

use super::convert;
use super::pool::{Joining, Link, Resumption};
use super::session_end::SessionEnd;
use crate::gate::ids::{ExecutionId, InstanceId, OwnerName};
use crate::gate::limits::Limits;
use crate::gate::result::Digest;
use crate::pb::v1 as pb;

/// The protocol number that this sidecar speaks.
pub(super) const PROTOCOL: u32 = 1;
/// Smallest message size that an executor may name, in bytes.
const MESSAGE_BYTES_MIN: u32 = 64 * 1024;
/// Largest message of an executor that names none, in bytes.
const MESSAGE_BYTES_DEFAULT: u32 = 4 * 1024 * 1024;

/// A hello that was found good.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) joining: Joining,
    pub(super) tools: Vec<pb::ToolDefinition>,
    /// What it lists. None: it did not prove that it is the same process as before.
    pub(super) listed: Option<Vec<(ExecutionId, u32, super::pool::Listed)>>,
    /// One per execution that it lists, also where the list is not believed.
    pub(super) listed_refs: Vec<pb::ExecutionRef>,
    pub(super) resume_token: String,
}

/// Who may use which executor name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameBinding {
    /// The only name that the credential may use. None: any.
    pub owner: Option<OwnerName>,
}

/// Judges a hello.
pub(super) fn greet(
    hello: pb::Hello,
    link: Link,
    binding: &NameBinding,
    secret: &str,
    minted_instance: String,
    limits: &Limits,
) -> Result<Greeting, SessionEnd> {
    check_protocol(hello.protocol.as_ref())?;
    let owner = check_owner(&hello.executor_name, binding)?;
    let resumable = !hello.instance_id.is_empty();
    let instance_id = match resumable {
        true => hello.instance_id,
        false => minted_instance,
    };
    let instance =
        InstanceId::parse(&instance_id).map_err(|error| invalid("instance_id", error))?;
    at_most(
        "tools_per_message_max",
        hello.tools.len(),
        limits.tools_per_message_max,
    )?;
    at_most("in_flight_max", hello.in_flight.len(), limits.in_flight_max)?;
    let max_message_bytes = check_message_size(hello.max_message_bytes)?;
    let resume_token = token_of(secret, &owner, &instance);
    let proven = resumable && same_secret(&hello.resume_token, &resume_token);
    let listed_refs: Vec<_> = hello
        .in_flight
        .iter()
        .map(|entry| entry.execution.clone().unwrap_or_default())
        .collect();
    let has =
        |capability: pb::ExecutorCapability| hello.capabilities.contains(&(capability as i32));
    let sdk = hello.sdk.unwrap_or_default();
    Ok(Greeting {
        joining: Joining {
            owner,
            instance,
            link,
            slots: slots(hello.max_concurrent_executions, limits),
            max_message_bytes,
            resumes: resumable && has(pb::ExecutorCapability::Resume),
            prints: has(pb::ExecutorCapability::Output),
            resolves_facts: has(pb::ExecutorCapability::ResolveFacts),
            sdk: sdk.name,
            sdk_version: sdk.version,
            language: sdk.language,
            language_version: sdk.language_version,
        },
        tools: hello.tools,
        listed: proven.then(|| convert::in_flight(&hello.in_flight)),
        listed_refs,
        resume_token,
    })
}

fn check_protocol(range: Option<&pb::ProtocolRange>) -> Result<(), SessionEnd> {
    let (min, max) = range.map_or((1, 1), |range| (range.min.max(1), range.max.max(1)));
    match (min..=max).contains(&PROTOCOL) {
        true => Ok(()),
        false => Err(SessionEnd::ProtocolUnsupported),
    }
}

fn check_owner(name: &str, binding: &NameBinding) -> Result<OwnerName, SessionEnd> {
    let owner = OwnerName::parse(name).map_err(|error| invalid("executor_name", error))?;
    match &binding.owner {
        Some(bound) if *bound != owner => Err(SessionEnd::NameForbidden {
            name: owner.to_string(),
        }),
        Some(_) | None => Ok(owner),
    }
}

fn check_message_size(named: u32) -> Result<usize, SessionEnd> {
    let bytes = match named {
        0 => MESSAGE_BYTES_DEFAULT,
        named => named,
    };
    if bytes < MESSAGE_BYTES_MIN {
        return Err(SessionEnd::Invalid {
            field: "max_message_bytes",
            problem: format!("must be at least {MESSAGE_BYTES_MIN}"),
        });
    }
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Executions that an executor takes at once, within what is allowed here.
pub(super) fn slots(named: u32, limits: &Limits) -> u32 {
    let max = u32::try_from(limits.executor_slots_max).unwrap_or(u32::MAX);
    named.clamp(1, max)
}

fn at_most(limit: &'static str, actual: usize, allowed: u64) -> Result<(), SessionEnd> {
    match actual as u64 > allowed {
        true => Err(SessionEnd::LimitExceeded {
            limit,
            allowed,
            actual: actual as u64,
        }),
        false => Ok(()),
    }
}

fn invalid(field: &'static str, error: crate::gate::ids::IdError) -> SessionEnd {
    SessionEnd::Invalid {
        field,
        problem: error.to_string(),
    }
}

/// The token of one process: made from our own secret, so that it also holds after our restart.
fn token_of(secret: &str, owner: &OwnerName, instance: &InstanceId) -> String {
    Digest::of(format!("{secret}\n{owner}\n{instance}").as_bytes()).to_string()
}

fn same_secret(theirs: &str, ours: &str) -> bool {
    use subtle::ConstantTimeEq;
    theirs.as_bytes().ct_eq(ours.as_bytes()).into()
}

/// What a process does with each execution that it lists, in its order.
pub(super) fn decisions(
    refs: Vec<pb::ExecutionRef>,
    decided: Vec<Resumption>,
) -> Vec<pb::InFlightDecision> {
    let decided = decided
        .into_iter()
        .chain(std::iter::repeat(Resumption::Forget));
    refs.into_iter()
        .zip(decided)
        .map(|(execution, decision)| pb::InFlightDecision {
            execution: Some(execution),
            action: convert::in_flight_action(decision) as i32,
        })
        .collect()
}
