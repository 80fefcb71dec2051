/** Protobuf messages of modes, rules, grants and a tool's own check to the package's types and back. */
import { create } from "@bufbuild/protobuf";
import * as ex from "../gen/callgate/v1/executor_service_pb.js";
import * as pe from "../gen/callgate/v1/permission_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import type * as pm from "../permission.js";
import { cut } from "../result.js";
import { nameOf, numberOf, numberOfBig } from "./convert.js";
import { defined } from "./dialer.js";

const REASON_BYTES_MAX = 1_024;

/** Unknown ones are the strictest. */
export function modeOf(number: number): pm.Mode {
  return (nameOf(pe.Mode, number, "plan") || "plan") as pm.Mode;
}

/** Absent: not set. */
export function modeNumber(value: pm.Mode | undefined): pe.Mode {
  return value === undefined ? pe.Mode.UNSPECIFIED : numberOf("mode", pe.Mode, value);
}

/** Undefined: not told. Unknown ones are the strictest. */
export function batchPolicyOf(number: number): pm.BatchPolicy | undefined {
  return (nameOf(ty.BatchPolicy, number, "freeze_atomic") || undefined) as pm.BatchPolicy | undefined;
}

/** Absent: not set. */
export function batchPolicyNumber(value: pm.BatchPolicy | undefined): ty.BatchPolicy {
  return value === undefined ? ty.BatchPolicy.UNSPECIFIED : numberOf("batchPolicy", ty.BatchPolicy, value);
}

/** A rule as someone writes it. */
export function ruleSpec(rule: pm.RuleSpec): pe.RuleSpec {
  const expiresAtMs = rule.expiresAtMs === undefined ? undefined : BigInt(rule.expiresAtMs);
  return create(pe.RuleSpecSchema, {
    effect: numberOf("effect", ty.PermissionEffect, rule.effect),
    rule: rule.rule,
    matches: [...(rule.matches ?? [])],
    notMatches: [...(rule.notMatches ?? [])],
    message: rule.message ?? "",
    modes: (rule.modes ?? []).map((mode) => numberOf("modes", pe.Mode, mode)),
    ...defined({ expiresAtMs }),
  });
}

/** Why a call may run, must be asked for or must not run. */
export function verdictOf(given: ty.PermissionVerdict | undefined): pm.PermissionVerdict {
  const message = given ?? create(ty.PermissionVerdictSchema);
  const effect = nameOf(ty.PermissionEffect, message.effect, "deny");
  return {
    effect: (effect || undefined) as pm.PermissionEffect | undefined,
    stage: nameOf(ty.DecisionStage, message.stage, String(message.stage)),
    rule: message.rule,
    source: nameOf(ty.RuleSource, message.source, String(message.source)),
    origin: message.origin,
    segment: message.segment,
    segmentIndex: message.segmentIndex,
    message: message.message,
    policyRevision: Number(message.policyRevision),
    hookId: message.hookId,
  };
}

function grantKindOf(number: number): pm.GrantKind {
  return (nameOf(pe.GrantKind, number, "unknown") || "unknown") as pm.GrantKind;
}

/** What approving for the session would store. */
export function candidateOf(message: pe.GrantCandidate): pm.GrantCandidate {
  return {
    candidateId: message.candidateId,
    kind: grantKindOf(message.kind),
    rule: message.rule,
    summary: message.summary,
    segment: message.segment,
    segmentIndex: message.segmentIndex,
    alsoCovers: message.alsoCovers,
  };
}

/** A permission that was given for a session. */
export function grantOf(message: pe.Grant): pm.Grant {
  return {
    grantId: message.grantId,
    sessionId: message.sessionId,
    kind: grantKindOf(message.kind),
    rule: message.rule,
    tool: message.tool,
    owner: message.owner,
    toolDigest: message.toolDigest,
    approvalId: message.approvalId,
    grantedBy: message.grantedBy,
    grantedAtMs: Number(message.grantedAtMs),
    expiresAtMs: numberOfBig(message.expiresAtMs),
    uses: message.uses,
    state: (nameOf(pe.GrantState, message.state, "unknown") || "unknown") as pm.GrantState,
    revokedBy: message.revokedBy,
    endedAtMs: numberOfBig(message.endedAtMs),
  };
}

/** What a tool is told when it is asked about a call. */
export function checkContext(message: ex.PermissionCheckRequest): pm.PermissionContext {
  const { context } = message;
  return {
    toolName: message.toolName,
    callId: message.callId,
    mode: modeOf(message.mode),
    facts: message.facts.map(({ pointer, value, canonical, exists, error }) => {
      return { pointer, value, canonical, exists, error };
    }),
    matchedRule: message.matchedRule,
    matchedSource: nameOf(ty.RuleSource, message.matchedSource, String(message.matchedSource)),
    sessionId: context?.sessionId ?? "",
    runId: context?.runId ?? "",
    turnId: context?.turnId ?? "",
    cwd: context?.cwd ?? "",
  };
}

/** What a tool says. */
export function checkResult(checkId: string, said: pm.Permission): ex.PermissionCheckResult {
  return create(ex.PermissionCheckResultSchema, {
    checkId,
    verdict: numberOf("says", ex.PermissionCheckVerdict, said.says),
    reasonForUser: cut(said.reason, REASON_BYTES_MAX),
    reasonForModel: cut(said.message, REASON_BYTES_MAX),
  });
}

/** What paths are. */
export function factsResult(requestId: string, facts: readonly pm.PathFact[]): ex.ResolveFactsResult {
  return create(ex.ResolveFactsResultSchema, {
    requestId,
    facts: facts.map(({ pointer, value, canonical, exists, error }) => {
      return { pointer, value, canonical, error, ...defined({ exists }) };
    }),
  });
}
