/**
 * Approvals as an approver sees them: what waits, what can be chosen, what became of it.
 *
 * Plain data. Knows neither protobuf nor sockets.
 */
import { randomUUID } from "node:crypto";
import type { CallgateError } from "./errors.js";
import type { RecordedCall } from "./events.js";
import { parseJson } from "./json.js";
import type { Grant, GrantCandidate, Mode, PermissionVerdict } from "./permission.js";
import { type CallOutcome, resultOf, ToolResult } from "./result.js";
import { type Sealed, seal } from "./seal.js";
import type { Risk, ToolKind } from "./tool.js";

export type ApprovalChoice = "once" | "session" | "deny" | "edit" | "respond" | "cancel_turn";
/** All but "pending" are final. "unknown" is one that is newer than this package. */
export type ApprovalState =
  | "pending"
  | "approved"
  | "denied"
  | "answered"
  | "expired"
  | "cancelled"
  | "withdrawn"
  | "superseded"
  | "unknown";
export type DecisionStatus = "taken" | "repeated" | "conflict" | "refused" | "unknown";

export const CHOICES: readonly ApprovalChoice[] = [
  "once",
  "session",
  "deny",
  "edit",
  "respond",
  "cancel_turn",
];

/**
 * What a decision needs of the approval that a person saw. Small enough to travel in a button or a link.
 *
 * The digest binds the decision to exactly these arguments, so keep it from what was shown; read anew, it
 * would be that of something nobody has seen. An empty `etag` takes the approval as it is by then.
 */
export interface ApprovalRef {
  readonly approvalId: string;
  readonly digest: Uint8Array;
  readonly etag: string;
}

/** A decision as it was recorded. */
export interface Decision {
  readonly decisionId: string;
  /** Undefined: nobody chose; `verdict` says which rule, mode or grant did. */
  readonly choice: ApprovalChoice | "unknown" | undefined;
  /** The approver, a hook, or the sidecar. */
  readonly decidedBy: string;
  /** What the approver used, by its own word. */
  readonly surface: string;
  readonly decidedAtMs: number;
  readonly message: string;
  /** What it put in. Empty: unchanged. */
  readonly editedArgumentsJson: string;
  /** What was stored for the session. */
  readonly grants: readonly Grant[];
  readonly verdict: PermissionVerdict | undefined;
}

/** A call that waits for a decision, or had one. It is an `ApprovalRef`, too. */
export interface Approval extends ApprovalRef {
  readonly batchId: string;
  readonly sessionId: string;
  readonly rootSessionId: string;
  readonly runId: string;
  readonly turnId: string;
  /** The call as the model made it. */
  readonly call: RecordedCall;
  readonly tool: string;
  readonly owner: string;
  readonly toolDigest: Uint8Array;
  readonly risk: Risk;
  readonly kind: ToolKind;
  /** The arguments that would run. */
  readonly effectiveArgumentsJson: string;
  /** The same for people; characters that could mislead are written as escapes. Show this, not the raw text. */
  readonly displayArguments: string;
  /** Both are cut; `Approvals.get` has them whole. Who has not seen the end should not approve. */
  readonly argumentsCut: boolean;
  /** Why it is asked. */
  readonly verdict: PermissionVerdict;
  /** The tool's own words, if its permission check asked. */
  readonly toolReason: string;
  readonly allowedChoices: readonly ApprovalChoice[];
  /** What "session" would store. */
  readonly grantCandidates: readonly GrantCandidate[];
  readonly state: ApprovalState;
  readonly createdAtMs: number;
  /** Undefined: never. */
  readonly expiresAtMs: number | undefined;
  /** Undefined while undecided. */
  readonly decision: Decision | undefined;
  /** How many of its batch still wait, this one included. */
  readonly pendingInBatch: number;
  /** The session's when it began to wait. */
  readonly mode: Mode;
  /** How the call ended. Undefined: it has not. */
  readonly callOutcome: CallOutcome | undefined;
}

/**
 * The arguments that would run, as values; integers beyond 2^53 are bigints.
 *
 * Throws `RangeError`: they are cut; ask `Approvals.get`.
 */
export function argumentsOf(approval: Approval): unknown {
  if (approval.argumentsCut) throw new RangeError("the arguments are cut; Approvals.get has them whole");
  return parseJson(approval.effectiveArgumentsJson || "{}", { bigints: true });
}

/**
 * What a watch tells. `snapshot`: these are all that wait, in place of whatever was held before; otherwise
 * they are those that changed, as they are now. `cursor` resumes behind this update.
 */
export interface ApprovalUpdate {
  readonly approvals: readonly Approval[];
  readonly snapshot: boolean;
  readonly cursor: string;
}

/** What may be said with a decision. */
export interface DecisionOptions {
  /** With "deny" and "cancel_turn" for the model and the record, otherwise for the record. At most 4 KiB. */
  message?: string;
  /** With "session": candidates of the approval, or their ids, one per undecided segment. */
  candidates?: readonly (GrantCandidate | string)[];
  /** With "edit": the whole new arguments, as a value or as text. */
  arguments?: Readonly<Record<string, unknown>> | string;
  /** With "respond": the call's result, anything that a handler could return. */
  response?: unknown;
  /** Absent: minted. */
  decisionId?: string;
}

/** One decision, before it is taken. Sent twice, the same object is known as one decision: its id stays. */
export class ApprovalDecision {
  readonly decisionId: string;
  readonly message: string;
  readonly candidateIds: readonly string[];
  readonly arguments: Readonly<Record<string, unknown>> | string | undefined;
  readonly response: unknown;

  /** Throws `TypeError`: a field is missing, or belongs to another choice. */
  constructor(
    readonly approval: ApprovalRef,
    readonly choice: ApprovalChoice,
    options: DecisionOptions = {},
  ) {
    if (!CHOICES.includes(choice)) {
      throw new TypeError(`choice must be one of ${CHOICES.join(", ")}, not ${JSON.stringify(choice)}`);
    }
    const candidates = options.candidates ?? [];
    if (candidates.length > 0 && choice !== "session") {
      throw new TypeError(`candidates belong to "session", not to "${choice}"`);
    }
    if ((options.arguments !== undefined) !== (choice === "edit")) {
      throw new TypeError('arguments belong to "edit", and it needs them');
    }
    if (options.response !== undefined && choice !== "respond") {
      throw new TypeError(`response belongs to "respond", not to "${choice}"`);
    }
    this.decisionId = options.decisionId ?? randomUUID();
    this.message = options.message ?? "";
    this.candidateIds = candidates.map((item) => (typeof item === "string" ? item : item.candidateId));
    this.arguments = options.arguments;
    this.response = options.response;
  }
}

/**
 * The result that an approver or a hook gives in the tool's place, ready to send.
 *
 * Throws `TypeError`: it cannot be sent. Nobody must answer with an error by accident.
 */
export function answerOf(response: unknown): Sealed {
  const sealed = seal(resultOf(response));
  const meant = response instanceof ToolResult && response.isError;
  if (sealed.result.error !== undefined && !meant) throw new TypeError(sealed.result.error.message);
  return sealed;
}

/**
 * What became of one decision.
 *
 * "taken": it holds. "repeated": the same was decided before, by this or another approver. "conflict":
 * decided otherwise before, or no longer pending. "refused": not taken for another reason, and nothing
 * changed.
 */
export interface DecisionOutcome {
  readonly approvalId: string;
  readonly status: DecisionStatus;
  /** The approval now; for "conflict" with the winner in `decision`. */
  readonly approval: Approval | undefined;
  /** Why it was not taken: `DecisionConflict` or `DecisionRefused`. */
  readonly error: CallgateError | undefined;
}
