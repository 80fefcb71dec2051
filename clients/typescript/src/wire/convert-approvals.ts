/** Protobuf messages of approvals to the package's types and back. */
import { create } from "@bufbuild/protobuf";
import * as ap from "../approval.js";
import * as errors from "../errors.js";
import * as av from "../gen/callgate/v1/approval_service_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import { decodeText, encodeAsIs, toJson } from "../json.js";
import type { Risk } from "../tool.js";
import { kindOf, nameOf, numberOf, numberOfBig, outcomeOf, riskOf, toolResult } from "./convert.js";
import { candidateOf, grantOf, modeOf, verdictOf } from "./convert-permission.js";
import { recordedCall } from "./convert-turns.js";
import { defined } from "./dialer.js";
import { errorOfMessage } from "./status.js";

/** One approval. An unknown state is final; an unknown choice cannot be chosen. */
export function approvalOf(message: av.Approval): ap.Approval {
  const choices = message.allowedChoices.map((item) => nameOf(av.ApprovalChoice, item, ""));
  return {
    approvalId: message.approvalId,
    batchId: message.batchId,
    sessionId: message.sessionId,
    rootSessionId: message.rootSessionId,
    runId: message.runId,
    turnId: message.turnId,
    call: recordedCall(message.call),
    tool: message.tool,
    owner: message.owner,
    toolDigest: message.toolDigest,
    risk: riskOf(message.riskLevel),
    kind: kindOf(message.kind),
    effectiveArgumentsJson: decodeText(message.effectiveArgumentsJson),
    displayArguments: message.displayArguments,
    argumentsCut: message.argumentsCut,
    digest: message.approvalDigest,
    verdict: verdictOf(message.verdict),
    toolReason: message.toolReason,
    allowedChoices: choices.filter((name) => name !== "") as ap.ApprovalChoice[],
    grantCandidates: message.grantCandidates.map(candidateOf),
    state: (nameOf(av.ApprovalState, message.state, "unknown") || "unknown") as ap.ApprovalState,
    createdAtMs: Number(message.createdAtMs),
    expiresAtMs: numberOfBig(message.expiresAtMs),
    decision: message.decision && decisionOf(message.decision),
    pendingInBatch: message.pendingInBatch,
    mode: modeOf(message.mode),
    callOutcome: message.callOutcome === 0 ? undefined : outcomeOf(message.callOutcome),
    etag: message.etag,
  };
}

function decisionOf(message: av.Decision): ap.Decision {
  const choice = nameOf(av.ApprovalChoice, message.choice, "unknown") || undefined;
  return {
    decisionId: message.decisionId,
    choice: choice as ap.Decision["choice"],
    decidedBy: message.decidedBy,
    surface: message.surface,
    decidedAtMs: Number(message.decidedAtMs),
    message: message.message,
    editedArgumentsJson: decodeText(message.editedArgumentsJson),
    grants: message.grants.map(grantOf),
    verdict: message.verdict && verdictOf(message.verdict),
  };
}

/** Which approvals. All given conditions must hold. */
export interface ApprovalConditions {
  /** Of these sessions and their child sessions. */
  rootSessionIds?: readonly string[];
  /** Of this session alone. */
  sessionId?: string;
  turnId?: string;
  /** In these states. Absent: "pending". Any other needs `sessionId` or `turnId`. */
  states?: readonly ap.ApprovalState[];
  /** At least this risk. */
  minRisk?: Risk;
  /** Of these tools, names or globs. */
  tools?: readonly string[];
}

/** Throws `TypeError`: there is no such state or risk. */
export function approvalFilter(wanted: ApprovalConditions): av.ApprovalFilter {
  return create(av.ApprovalFilterSchema, {
    rootSessionIds: [...(wanted.rootSessionIds ?? [])],
    sessionId: wanted.sessionId ?? "",
    turnId: wanted.turnId ?? "",
    states: (wanted.states ?? []).map((item) => numberOf("states", av.ApprovalState, item)),
    minRiskLevel:
      wanted.minRisk === undefined
        ? ty.RiskLevel.UNSPECIFIED
        : numberOf("minRisk", ty.RiskLevel, wanted.minRisk),
    tools: [...(wanted.tools ?? [])],
  });
}

/** One decision on its way. Throws `TypeError`: its response cannot be sent. */
export function decisionMessage(made: ap.ApprovalDecision): av.ApprovalDecision {
  const edited = made.arguments;
  const editedText = edited === undefined || typeof edited === "string" ? edited : toJson(edited);
  const response = made.choice === "respond" ? toolResult(ap.answerOf(made.response)) : undefined;
  return create(av.ApprovalDecisionSchema, {
    approvalId: made.approval.approvalId,
    decisionId: made.decisionId,
    approvalDigest: made.approval.digest,
    etag: made.approval.etag,
    choice: numberOf("choice", av.ApprovalChoice, made.choice),
    message: made.message,
    grantCandidateIds: [...made.candidateIds],
    editedArgumentsJson: editedText === undefined ? new Uint8Array() : encodeAsIs(editedText),
    ...defined({ response }),
  });
}

/** What became of a decision. A status that is newer than this package is an error: read the approval. */
export function outcomeOfDecision(message: av.DecisionOutcome): ap.DecisionOutcome {
  const status = (nameOf(av.DecisionStatus, message.status, "unknown") || "unknown") as ap.DecisionStatus;
  const approval = message.approval && approvalOf(message.approval);
  let error: errors.CallgateError | undefined;
  if (status === "unknown") {
    error = new errors.ProtocolError("the sidecar's answer is newer than this package; read the approval");
  } else if (status === "conflict" || status === "refused") {
    error = failureOf(status, message, approval);
  }
  return { approvalId: message.approvalId, status, approval, error };
}

function failureOf(
  status: "conflict" | "refused",
  message: av.DecisionOutcome,
  approval: ap.Approval | undefined,
): errors.CallgateError {
  const Kind = status === "conflict" ? errors.DecisionConflict : errors.DecisionRefused;
  const why =
    message.error === undefined
      ? new errors.CallgateError("the sidecar did not say why", { code: Kind.code })
      : errorOfMessage(message.error);
  const { code, violations, limit, retryAfterMs, resourceKind, resourceId } = why;
  const made = new Kind(why.message, { code, violations, limit, retryAfterMs, resourceKind, resourceId });
  made.approval = approval;
  return made;
}
