/** What happens in a turn, and how it ends. Plain data; knows neither protobuf nor sockets. */
import type { OutputChannel } from "./context.js";
import type { BatchPolicy, Open, PermissionVerdict } from "./permission.js";
import type { CallResult, ErrorInfo } from "./result.js";
import type { Risk } from "./tool.js";

export type CallState =
  | "validating"
  | "awaiting_approval"
  | "scheduled"
  | "executing"
  | "success"
  | "error"
  | "cancelled";
export type TurnOutcome = "completed" | "cancelled" | "aborted" | "loop_detected" | "error";
export type TurnState = "running" | "suspended" | "completed";
export type RunState = "active" | "completed" | "cancelled" | "aborted" | "loop_detected" | "error";
export type LoopDetector = "tool_signature" | "cycle" | "llm" | "unknown";

/** One call as the model made it. */
export interface ToolCall {
  callId: string;
  name: string;
  /** The model's own text, which is sent as it is and not checked here, or a value. Absent: none. */
  arguments?: string | Readonly<Record<string, unknown>>;
  /** The model was cut off inside this call. */
  truncated?: boolean;
}

/** A call as the sidecar has kept it; its arguments are the text that came. */
export interface RecordedCall {
  readonly callId: string;
  readonly name: string;
  readonly arguments: string;
  readonly truncated: boolean;
}

/** One agent loop inside a session. `endCode` is empty while active or completed. */
export interface Run {
  readonly runId: string;
  readonly sessionId: string;
  readonly state: RunState;
  readonly rounds: number;
  readonly endCode: string;
  readonly endReason: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number | undefined;
}

/** What every event says. `sequence` is 0 for those that are not kept and may be thinned out. */
interface EventHead {
  readonly turnId: string;
  readonly epoch: number;
  readonly sequence: number;
  /** Unix time. */
  readonly occurredAtMs: number;
}

/** One call as the sidecar reads it, aliases resolved. */
export interface AcceptedCall {
  readonly callId: string;
  readonly tool: string;
  readonly minted: boolean;
}

/** Enough of an approval to show that one waits; `Approvals.get` has it whole. */
export interface ApprovalSummary {
  readonly approvalId: string;
  readonly callId: string;
  readonly tool: string;
  readonly risk: Risk;
  readonly verdict: PermissionVerdict;
  readonly expiresAtMs: number | undefined;
}

/** The turn is recorded and begins. Always the first. */
export interface TurnAccepted extends EventHead {
  readonly type: "turn_accepted";
  readonly sessionId: string;
  readonly runId: string;
  readonly batchId: string;
  readonly calls: readonly AcceptedCall[];
  readonly round: number;
  readonly batchPolicy: BatchPolicy | undefined;
}

/** A call moved. `code` is that of its error, for "error" and "cancelled". */
export interface CallStateChanged extends EventHead {
  readonly type: "call_state_changed";
  readonly callId: string;
  readonly state: CallState;
  readonly previous: CallState | undefined;
  readonly code: string;
}

/** Approvals wait. They are durable: whatever dies now, they can be decided. */
export interface ApprovalRequired extends EventHead {
  readonly type: "approval_required";
  readonly batchId: string;
  readonly approvals: readonly ApprovalSummary[];
}

/** Every call that could run has ended; only people are awaited. */
export interface TurnSuspended extends EventHead {
  readonly type: "turn_suspended";
  readonly batchId: string;
  readonly approvalIds: readonly string[];
}

/**
 * The run is in a loop and has ended; `turn_completed` follows with a result for every call.
 *
 * `period` is the length of the repeated sequence and `repetitions` how often it came; both are 0, and
 * `callIds` is empty, where a model said so, which `confidence` belongs to.
 */
export interface LoopDetected extends EventHead {
  readonly type: "loop_detected";
  readonly detector: LoopDetector;
  readonly reason: string;
  readonly callIds: readonly string[];
  readonly period: number;
  readonly repetitions: number;
  readonly confidence: number | undefined;
}

/** A call ended. In order of completion; without contents unless they were asked for here. */
export interface CallCompleted extends EventHead {
  readonly type: "call_completed";
  readonly result: CallResult;
}

/** An executing call reports how far it is; `fraction` is 0 to 1. */
export interface CallProgress extends EventHead {
  readonly type: "call_progress";
  readonly callId: string;
  readonly message: string;
  readonly fraction: number | undefined;
  readonly details: unknown;
}

/** An executing call prints. `data` may cut a character; a gap in `chunk` was dropped. */
export interface CallOutput extends EventHead {
  readonly type: "call_output";
  readonly callId: string;
  readonly channel: OutputChannel;
  readonly chunk: number;
  readonly data: Uint8Array;
  readonly droppedBytes: number;
}

/** Nothing happened for a while. */
export interface TurnHeartbeat extends EventHead {
  readonly type: "turn_heartbeat";
  readonly waitingFor: string;
}

/** The turn as it stands, in place of events that are lost or no longer kept. */
export interface TurnSnapshot extends EventHead {
  readonly type: "turn_snapshot";
  readonly turn: TurnInfo;
}

/** The turn ended. Always the last. */
export interface TurnCompleted extends EventHead {
  readonly type: "turn_completed";
  readonly result: TurnResult;
}

/** One thing that happened in a turn. */
export type TurnEvent =
  | TurnAccepted
  | CallStateChanged
  | ApprovalRequired
  | TurnSuspended
  | LoopDetected
  | CallCompleted
  | CallProgress
  | CallOutput
  | TurnHeartbeat
  | TurnSnapshot
  | TurnCompleted;

/** What a hook adds to the conversation. `role` is set for a message, empty for a context. */
export interface HookText {
  readonly text: string;
  readonly hookId: string;
  readonly callId: string;
  readonly role: Open<"user" | "system" | "">;
}

/** The fields of a `TurnResult`. */
export interface TurnResultFields {
  turnId: string;
  outcome: TurnOutcome;
  results: readonly CallResult[];
  messages: readonly Record<string, unknown>[];
  stop: boolean;
  stopReason: string;
  run: Run | undefined;
  error: ErrorInfo | undefined;
  closingResults: readonly CallResult[];
  closingMessages: readonly Record<string, unknown>[];
  hookContexts: readonly HookText[];
  hookMessages: readonly HookText[];
}

/** How a turn ended. */
export class TurnResult {
  readonly turnId: string;
  /** "completed" means that every call has its result. */
  readonly outcome: TurnOutcome;
  /** One per call, in call order. Empty if the turn was cancelled. */
  readonly results: readonly CallResult[];
  /** What to append to the history, in the provider's form. Empty if no form was asked for. */
  readonly messages: readonly Record<string, unknown>[];
  /** The loop must end: do not ask the model again in this run. */
  readonly stop: boolean;
  readonly stopReason: string;
  readonly run: Run | undefined;
  readonly error: ErrorInfo | undefined;
  /** Set exactly if the turn was cancelled or aborted, so that a history stays valid. Never go on with them. */
  readonly closingResults: readonly CallResult[];
  /** The same in the provider's form. */
  readonly closingMessages: readonly Record<string, unknown>[];
  /** To append behind all results, in order. */
  readonly hookContexts: readonly HookText[];
  /** The same, each in its `role`. */
  readonly hookMessages: readonly HookText[];

  constructor(fields: TurnResultFields) {
    this.turnId = fields.turnId;
    this.outcome = fields.outcome;
    this.results = fields.results;
    this.messages = fields.messages;
    this.stop = fields.stop;
    this.stopReason = fields.stopReason;
    this.run = fields.run;
    this.error = fields.error;
    this.closingResults = fields.closingResults;
    this.closingMessages = fields.closingMessages;
    this.hookContexts = fields.hookContexts;
    this.hookMessages = fields.hookMessages;
  }

  /** The result of one call, a cancelled turn's included. Throws `RangeError`: there is no such call. */
  call(callId: string): CallResult {
    const found = [...this.results, ...this.closingResults].find((result) => result.callId === callId);
    if (found === undefined) throw new RangeError(`the turn has no call ${JSON.stringify(callId)}`);
    return found;
  }
}

/** A call as it stands. `approvalId` is the approval that it waits for or had; empty: none. */
export interface TurnCallInfo {
  readonly call: RecordedCall;
  readonly tool: string;
  readonly state: CallState;
  readonly approvalId: string;
  /** What hooks or an approver put in place of its arguments; empty: nothing. */
  readonly effectiveArgumentsJson: string;
}

/** A turn as it stands. `completed` is undefined while it runs. */
export interface TurnInfo {
  readonly turnId: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly batchId: string;
  readonly state: TurnState;
  readonly calls: readonly TurnCallInfo[];
  readonly epoch: number;
  readonly lastSequence: number;
  readonly modelMessage: Uint8Array;
  readonly completed: TurnResult | undefined;
  readonly acceptedAtMs: number;
  readonly updatedAtMs: number;
}
