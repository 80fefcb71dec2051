/**
 * What hooks are asked and told, and what they may say.
 *
 * Plain data. Decides nothing: what several hooks mean together, the sidecar weighs against rules and people.
 */
import type { Approval } from "./approval.js";
import type { LoopDetector, RecordedCall, Run } from "./events.js";
import type { Mode } from "./permission.js";
import { type CallResult, type ErrorInfo, resultOf, ToolResult } from "./result.js";
import type { Risk, ToolKind } from "./tool.js";

export type HookPoint =
  | "before_tool_call"
  | "after_tool_call"
  | "after_tool_failure"
  | "approval_requested"
  | "turn_started"
  | "turn_finished"
  | "loop_suspected"
  | "loop_diagnose";
export type OnFailure = "deny" | "ask" | "ignore";

/** What a hook said that was asked about the same call before this one. */
export interface EarlierHook {
  readonly hookId: string;
  /** "answered", or how it failed. */
  readonly status: string;
  /** What it said or counts as. */
  readonly says: string;
  readonly modified: boolean;
}

/** What every hook learns. */
export interface HookHead {
  readonly hookId: string;
  /** When the sidecar asked, in Unix time. */
  readonly timestampMs: number;
  readonly sessionId: string;
  readonly rootSessionId: string;
  readonly runId: string;
  readonly turnId: string;
  /** Empty where the turn has no calls. */
  readonly batchId: string;
  /** The session's working directory; empty: none was set. */
  readonly cwd: string;
  readonly mode: Mode;
  /** From 1; after a crash of the sidecar it may ask again. */
  readonly attempt: number;
  /** Aborted when the answer is no longer wanted. */
  readonly signal: AbortSignal;
}

/** A call, before it is decided or after its executor answered. */
export interface HookInput extends HookHead {
  readonly point: "before_tool_call" | "after_tool_call" | "after_tool_failure";
  readonly callId: string;
  /** The tool as the model named it. */
  readonly toolName: string;
  /**
   * The arguments as hooks before this one left them; after a call, as it ran. Integers beyond 2^53 are
   * bigints. Undefined: they are no JSON object.
   */
  readonly toolArgs: Readonly<Record<string, unknown>> | undefined;
  /** The same as text. */
  readonly toolArgsJson: string;
  /** Undefined, as `kind`: there is no tool of that name. */
  readonly risk: Risk | undefined;
  readonly kind: ToolKind | undefined;
  readonly toolDigest: Uint8Array;
  /** What is wrong with the call so far. A hook may mend it. */
  readonly validation: ErrorInfo | undefined;
  /** What hooks before this one said. */
  readonly earlier: readonly EarlierHook[];
  /** Set after a call only. */
  readonly result: CallResult | undefined;
}

/** An approval that begins to wait, with its arguments whole. Answered with `ApprovalAnswer`. */
export interface ApprovalRequestedInput extends HookHead {
  readonly point: "approval_requested";
  readonly approval: Approval;
}

/** A turn that begins or has ended, by `point`. Not answered. */
export interface TurnObserved extends HookHead {
  readonly point: "turn_started" | "turn_finished";
  /** As the model made them, in its order. */
  readonly calls: readonly RecordedCall[];
  /** As it is then. */
  readonly run: Run;
  /** How each call ended, without contents. Only of an ended turn. */
  readonly results: readonly CallResult[];
}

/** A run that was found to be in a loop, and has ended. Not answered. */
export interface LoopSuspected extends HookHead {
  readonly point: "loop_suspected";
  readonly detector: LoopDetector;
  readonly reason: string;
  readonly callIds: readonly string[];
  readonly run: Run;
}

/** Is this run in a loop? Answered with `LoopOpinion`. */
export interface LoopDiagnosis extends HookHead {
  readonly point: "loop_diagnose";
  /** As it was given to `runTurn`; else what the run called, as `{tool, arguments, outcome}`. Undefined: no JSON. */
  readonly history: readonly unknown[] | undefined;
  readonly historyJson: string;
  readonly run: Run;
}

export type HookQuestion = HookInput | ApprovalRequestedInput | TurnObserved | LoopSuspected | LoopDiagnosis;

/** What a hook says before a call, field by field. Returning nothing changes nothing. */
export interface HookOutput {
  /** Absent: no opinion. */
  permissionDecision?: "allow" | "deny" | "ask" | null | undefined;
  /** Of a denial for the user and the model, of an ask for the approver. */
  permissionDecisionReason?: string | null | undefined;
  /** The whole new arguments. */
  modifiedArgs?: Readonly<Record<string, unknown>> | null | undefined;
  /** For the conversation, at most 10 000 characters. */
  additionalContext?: string | null | undefined;
  /** The model sees a placeholder in place of the result. */
  suppressOutput?: boolean | null | undefined;
}

/** What goes with an answer before a call. */
export interface BeforeOptions {
  /** Replace the arguments as a whole. */
  args?: Readonly<Record<string, unknown>> | undefined;
  /** For the conversation. */
  context?: string;
  /** Keep the result from the model. */
  suppress?: boolean;
  /** For the model, where that differs. */
  reasonForModel?: string;
  /** With `deny`: stands in the tool's place, an error or not. */
  result?: ToolResult | undefined;
}

/** What a hook says before a call. Made by the methods named as what they say. */
export class Before {
  readonly args: Readonly<Record<string, unknown>> | undefined;
  readonly context: string;
  readonly suppress: boolean;
  readonly reasonForModel: string;
  readonly result: ToolResult | undefined;

  private constructor(
    readonly says: "proceed" | "allow" | "ask" | "defer" | "deny" | "abort",
    readonly reason = "",
    options: BeforeOptions = {},
  ) {
    this.args = options.args;
    this.context = options.context ?? "";
    this.suppress = options.suppress ?? false;
    this.reasonForModel = options.reasonForModel ?? "";
    this.result = options.result;
  }

  /** No opinion. */
  static proceed(options: BeforeOptions = {}): Before {
    return new Before("proceed", "", options);
  }

  /** Lifts an ask that comes from mode, risk or the tool's check, and no other. */
  static allow(options: BeforeOptions = {}): Before {
    return new Before("allow", "", options);
  }

  /** An approver must be asked, and sees `reason`. */
  static ask(reason = "", options: BeforeOptions = {}): Before {
    return new Before("ask", reason, options);
  }

  /** Waits for an approver, also where none is expected. No further hook is asked. */
  static defer(reason = "", options: BeforeOptions = {}): Before {
    return new Before("defer", reason, options);
  }

  /** Does not run. */
  static deny(reason = "", options: BeforeOptions = {}): Before {
    return new Before("deny", reason, options);
  }

  /** Ends the run; nothing of the batch runs. */
  static abort(reason = "", options: Pick<BeforeOptions, "reasonForModel"> = {}): Before {
    return new Before("abort", reason, options);
  }
}

/** A message for the conversation, behind all results of the batch. */
export interface Injected {
  readonly text: string;
  /** Absent: "user". */
  readonly role?: "user" | "system";
}

/** What a hook says after a call, field by field. Returning nothing changes nothing. */
export interface AfterOutput {
  /** In place of the tool's, anything that a handler could return; an error stays an error. */
  modifiedResult?: unknown;
  /** For the conversation, at most 10 000 characters. */
  additionalContext?: string | null | undefined;
  /** The model sees a placeholder in place of the result. */
  suppressOutput?: boolean | null | undefined;
}

/** What goes with an answer after a call. */
export interface AfterOptions {
  /** In place of the tool's; an error stays an error. */
  result?: ToolResult | undefined;
  messages?: readonly Injected[];
  context?: string;
  suppress?: boolean;
}

/** What a hook says after a call. Made by the methods named as what they say. */
export class After {
  readonly result: ToolResult | undefined;
  readonly messages: readonly Injected[];
  readonly context: string;
  readonly suppress: boolean;

  private constructor(
    readonly says: "proceed" | "stop" | "abort",
    readonly reason = "",
    options: AfterOptions = {},
  ) {
    this.result = options.result;
    this.messages = options.messages ?? [];
    this.context = options.context ?? "";
    this.suppress = options.suppress ?? false;
  }

  /** Goes on. */
  static proceed(options: AfterOptions = {}): After {
    return new After("proceed", "", options);
  }

  /** Keeps the result, and ends the loop after this turn. */
  static stop(reason = "", options: AfterOptions = {}): After {
    return new After("stop", reason, options);
  }

  /** Ends the run. */
  static abort(reason = ""): After {
    return new After("abort", reason);
  }
}

/** What a hook says to an approval. Made by the methods named as what they say. */
export class ApprovalAnswer {
  private constructor(
    readonly says: "approve" | "deny" | "leave",
    /** Read by the model of a denied call, else for the record. */
    readonly message = "",
  ) {}

  /** Runs, this once. Does not count where a rule, an unclear command or the tool firmly asks. */
  static approve(message = ""): ApprovalAnswer {
    return new ApprovalAnswer("approve", message);
  }

  /** Does not run. */
  static deny(message = ""): ApprovalAnswer {
    return new ApprovalAnswer("deny", message);
  }

  /** Waits on, for the next hook or for people. */
  static leave(): ApprovalAnswer {
    return new ApprovalAnswer("leave");
  }
}

/** Whether a run is in a loop. It counts only if it is surer than the sidecar's threshold (0.8). */
export interface LoopOpinion {
  isLoop: boolean;
  /** For people, at most 1 KiB. */
  reason?: string;
  /** 0 to 1. Absent: 1. */
  confidence?: number;
}

export type BeforeAnswer = Before | HookOutput | null | undefined | undefined;
export type AfterAnswer = After | AfterOutput | null | undefined | undefined;
type Maybe<T> = T | Promise<T>;

export type BeforeHandler = (asked: HookInput) => Maybe<BeforeAnswer>;
export type AfterHandler = (asked: HookInput) => Maybe<AfterAnswer>;
export type ApprovalHandler = (
  asked: ApprovalRequestedInput,
) => Maybe<ApprovalAnswer | null | undefined | undefined>;
export type TurnHandler = (asked: TurnObserved) => unknown;
export type LoopHandler = (asked: LoopSuspected) => unknown;
export type DiagnosisHandler = (asked: LoopDiagnosis) => Maybe<LoopOpinion | null | undefined | undefined>;

/** An object as one hook: of every point that it has a method for. */
export interface Hook {
  beforeToolCall?: BeforeHandler;
  afterToolCall?: AfterHandler;
  afterToolFailure?: AfterHandler;
  approvalRequested?: ApprovalHandler;
  turnStarted?: TurnHandler;
  turnFinished?: TurnHandler;
  loopSuspected?: LoopHandler;
  loopDiagnose?: DiagnosisHandler;
}

/** For which calls a hook is asked. All that are given must hold; what cannot be told holds. */
export interface HookMatcher {
  /** Names or globs. */
  tools?: readonly string[];
  risks?: readonly Risk[];
  kinds?: readonly ToolKind[];
  /** As in permissions, `Tool(spec)`; one must mean the call. */
  rules?: readonly string[];
  /** Pointers to arguments that must be there. */
  arguments?: readonly string[];
}

/** What may be said of a hook. */
export interface HookOptions {
  /** Names it in events, verdicts and the audit. Absent: the handler's name. */
  hookId?: string;
  /** Lower ones are asked first. A security hook has a low one. */
  order?: number;
  /** Short for a matcher of names. */
  tools?: readonly string[];
  matcher?: HookMatcher;
  /** For an answer, from each question. Absent: 5 000. */
  timeoutMs?: number;
  /** What a failure before a call means. Absent: "deny". */
  onFailure?: OnFailure;
  /** After a call, a failure keeps the result back. */
  withholdOnFailure?: boolean;
  /** Only told; what it answers does not count. */
  observe?: boolean;
  description?: string;
}

/** One hook of this process, as the sidecar is told of it. */
export interface HookSpec {
  readonly hookId: string;
  readonly points: readonly HookPoint[];
  readonly order: number;
  readonly matcher: HookMatcher;
  readonly timeoutMs: number;
  readonly onFailure: OnFailure;
  readonly withholdOnFailure: boolean;
  readonly observe: boolean;
  readonly description: string;
}

export type HookAnswer = Before | After | ApprovalAnswer | Required<LoopOpinion> | undefined;

/**
 * What a handler at a point returned, as one thing; undefined: nothing is awaited there.
 *
 * Throws `TypeError`: it returned something else, which is a failure.
 */
export function hookAnswer(point: HookPoint, answer: unknown): HookAnswer {
  switch (point) {
    case "before_tool_call":
      return beforeOf(answer);
    case "after_tool_call":
    case "after_tool_failure":
      return afterOf(answer);
    case "approval_requested":
      if (answer === undefined || answer === null) return ApprovalAnswer.leave();
      // Nothing but the very word approves.
      if (answer instanceof ApprovalAnswer) return answer;
      throw new TypeError("a hook of approvals must return an ApprovalAnswer or nothing");
    case "loop_diagnose":
      return opinionOf(answer);
    default:
      return undefined;
  }
}

function fieldsOf(answer: unknown, allowed: readonly string[], what: string): Record<string, unknown> {
  if (typeof answer !== "object" || answer === null || Array.isArray(answer)) {
    throw new TypeError(`${what} returned ${typeof answer}`);
  }
  const unknown = Object.keys(answer).find((key) => !allowed.includes(key));
  if (unknown !== undefined)
    throw new TypeError(`${what} returned an unknown field ${JSON.stringify(unknown)}`);
  return answer as Record<string, unknown>;
}

const BEFORE_FIELDS = [
  ...[
    "permissionDecision",
    "permissionDecisionReason",
    "modifiedArgs",
    "additionalContext",
    "suppressOutput",
  ],
];

function beforeOf(answer: unknown): Before {
  if (answer === undefined || answer === null) return Before.proceed();
  if (answer instanceof Before) return answer;
  const output = fieldsOf(answer, BEFORE_FIELDS, "a hook before a call") as HookOutput;
  const options: BeforeOptions = {
    args: output.modifiedArgs ?? undefined,
    context: output.additionalContext ?? "",
    suppress: output.suppressOutput ?? false,
  };
  const reason = output.permissionDecisionReason ?? "";
  switch (output.permissionDecision ?? "proceed") {
    case "proceed":
      return Before.proceed(options);
    case "allow":
      return Before.allow(options);
    case "ask":
      return Before.ask(reason, options);
    case "deny":
      return Before.deny(reason, options);
    default:
      throw new TypeError(
        `permissionDecision must be allow, deny or ask, not ${String(output.permissionDecision)}`,
      );
  }
}

function afterOf(answer: unknown): After {
  if (answer === undefined || answer === null) return After.proceed();
  if (answer instanceof After) return answer;
  const allowed = ["modifiedResult", "additionalContext", "suppressOutput"];
  const output = fieldsOf(answer, allowed, "a hook after a call") as AfterOutput;
  const { modifiedResult: result } = output;
  return After.proceed({
    result: result === undefined || result === null ? undefined : meantResult(result),
    context: output.additionalContext ?? "",
    suppress: output.suppressOutput ?? false,
  });
}

/** No value becomes an error by accident: the tool's own result is better than that. */
function meantResult(value: unknown): ToolResult {
  const made = resultOf(value);
  if (made.error !== undefined && !(value instanceof ToolResult)) throw new TypeError(made.error.message);
  return made;
}

function opinionOf(answer: unknown): Required<LoopOpinion> {
  if (answer === undefined || answer === null) return { isLoop: false, reason: "", confidence: 1 };
  const {
    isLoop,
    reason = "",
    confidence = 1,
  } = fieldsOf(answer, ["isLoop", "reason", "confidence"], "a hook that diagnoses");
  if (typeof isLoop !== "boolean" || typeof reason !== "string" || typeof confidence !== "number") {
    throw new TypeError("a LoopOpinion has isLoop: boolean, reason: string, confidence: number");
  }
  if (!(confidence >= 0 && confidence <= 1))
    throw new TypeError(`confidence must be 0 to 1, not ${confidence}`);
  return { isLoop, reason, confidence };
}
