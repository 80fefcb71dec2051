/**
 * What can go wrong, as errors that a program can act on.
 *
 * Two families that never mix: `CallgateError` is thrown *to* the program that uses the package,
 * `ToolError` and `ToolCancelled` are thrown *by* the handlers of tools. A failing tool is a result
 * (`CallResult.error`) and no exception, unless `CallResult.orThrow` is asked to make one of it.
 */
import type { Approval } from "./approval.js";
import type { CallEffect } from "./result.js";

/** One wrong field of a request. `field` is a path from the request, e.g. `calls[1].call_id`. */
export interface FieldViolation {
  readonly field: string;
  readonly code: string;
  readonly message: string;
}

/** One limit that was passed; `actual` is 0 where it was not measured. */
export interface LimitViolation {
  readonly name: string;
  readonly allowed: number;
  readonly actual: number;
}

/** What an error may carry beside its message. */
export interface CallgateErrorOptions {
  code?: string | undefined;
  violations?: readonly FieldViolation[];
  limit?: LimitViolation | undefined;
  /** Undefined: the sidecar gave no advice. */
  retryAfterMs?: number | undefined;
  resourceKind?: string;
  resourceId?: string;
  cause?: unknown;
}

/** The root of everything that the package throws. `code` is stable and never renamed; the text is for people. */
export class CallgateError extends Error {
  static readonly code: string = "internal";
  readonly code: string;
  readonly violations: readonly FieldViolation[];
  readonly limit: LimitViolation | undefined;
  readonly retryAfterMs: number | undefined;
  readonly resourceKind: string;
  readonly resourceId: string;

  constructor(message: string, options: CallgateErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = options.code || new.target.code;
    this.violations = options.violations ?? [];
    this.limit = options.limit;
    this.retryAfterMs = options.retryAfterMs;
    this.resourceKind = options.resourceKind ?? "";
    this.resourceId = options.resourceId ?? "";
  }
}

/** A class of errors, as the tables that translate codes name it. */
export type CallgateErrorClass = {
  new (message: string, options?: CallgateErrorOptions): CallgateError;
  readonly code: string;
};

/**
 * The sidecar cannot be reached, or went away and did not come back in time.
 *
 * Says nothing about a turn that ran: take it up with `Client.attachTurn`.
 */
export class ConnectionLost extends CallgateError {
  static override readonly code: string = "connection_lost";
}

/** There is no credential, or the sidecar does not know it. */
export class Unauthenticated extends CallgateError {
  static override readonly code: string = "credential_invalid";
}

/** The credential, a rule or a person said no. */
export class PermissionDenied extends CallgateError {
  static override readonly code: string = "role_missing";
}

/** A request is wrong; see `violations`. */
export class InvalidRequest extends CallgateError {
  static override readonly code: string = "invalid_request";
}

/** The arguments of a call do not parse or do not fit the tool's schema. */
export class InvalidArguments extends InvalidRequest {
  static override readonly code: string = "tool_argument_invalid";
}

/** There is no such thing, or it is not the caller's to see. */
export class NotFound extends CallgateError {
  static override readonly code: string = "not_found";
}

/** There is no such tool. */
export class ToolNotFound extends NotFound {
  static override readonly code: string = "tool_not_found";
}

/** The state does not allow it: an id used twice, an ended run, a busy run. */
export class Conflict extends CallgateError {
  static override readonly code: string = "call_conflict";
}

/** The run has ended and takes no more turns. */
export class RunNotActive extends Conflict {
  static override readonly code: string = "run_not_active";
}

/**
 * A decision came too late: decided otherwise before, or no longer pending.
 *
 * `approval` is the approval now; `approval.decision` is the winner, undefined if it ended without
 * one. Undefined if the sidecar did not say.
 */
export class DecisionConflict extends Conflict {
  static override readonly code: string = "approval_already_decided";
  approval: Approval | undefined;
}

/**
 * A decision was not taken, and nothing changed: it is not allowed, or meant something else.
 *
 * `code` says which, e.g. `approval_not_found`, `approval_digest_mismatch`, `etag_mismatch`,
 * `approval_choice_not_allowed`, `approval_edit_invalid`. `approval` is the approval now.
 */
export class DecisionRefused extends CallgateError {
  static override readonly code: string = "decision_refused";
  approval: Approval | undefined;
}

/**
 * A turn with `onSuspend: "end"` has no result yet: it waits for people.
 *
 * The turn goes on. Take it up with `Client.attachTurn` once `approvalIds` are decided.
 */
export class Suspended extends CallgateError {
  static override readonly code: string = "turn_suspended";
  readonly turnId: string;
  readonly approvalIds: readonly string[];

  constructor(message: string, options: { turnId?: string; approvalIds?: readonly string[] } = {}) {
    super(message);
    this.turnId = options.turnId ?? "";
    this.approvalIds = options.approvalIds ?? [];
  }
}

/** Beyond a limit, or the sidecar sheds load; see `limit` and `retryAfterMs`. */
export class LimitExceeded extends CallgateError {
  static override readonly code: string = "limit_exceeded";
}

/** The sidecar is there and cannot do it now: draining, or its store is down. */
export class Unavailable extends CallgateError {
  static override readonly code: string = "unavailable";
}

/** Something took too long. */
export class DeadlineExceeded extends CallgateError {
  static override readonly code: string = "deadline_exceeded";
}

/** A call, turn or run was cancelled. Not an `AbortError`: nobody aborted *this* code. */
export class Cancelled extends CallgateError {
  static override readonly code: string = "cancelled";
}

/** The two sides do not understand each other: versions, or a broken peer. */
export class ProtocolError extends CallgateError {
  static override readonly code: string = "protocol_violation";
}

/** Another process connected as the same executor instance. This one stays away. */
export class Superseded extends CallgateError {
  static override readonly code: string = "superseded";
}

/** A call ended with an error that no other class stands for, e.g. the tool's own. */
export class CallFailed extends CallgateError {
  static override readonly code: string = "tool_execution_failed";
}

/** The sidecar refused one or more tools; `refused` has a registration for each. */
export class RegistrationRefused extends CallgateError {
  static override readonly code: string = "registration_refused";
  readonly refused: readonly unknown[];

  constructor(message: string, options: { refused?: readonly unknown[]; code?: string | undefined } = {}) {
    super(message, { code: options.code });
    this.refused = options.refused ?? [];
  }
}

/** A tool cannot be made of this. Thrown where the tool is defined. */
export class ToolDefinitionError extends CallgateError {
  static override readonly code: string = "tool_definition_invalid";
}

/** The client has been closed. */
export class ClientClosed extends CallgateError {
  static override readonly code: string = "client_closed";
}

/** What a handler's error may say beside code and message. */
export interface ToolErrorOptions {
  /** The same call may succeed later. */
  retryable?: boolean;
  /** For operators only, never shown to the model. */
  detail?: string;
  /** With `retryable`: not before this many milliseconds. */
  retryAfterMs?: number | undefined;
  /** Where in the arguments, from `$`. */
  path?: string;
  /** End the loop after this turn all the same. */
  stop?: boolean;
  cause?: unknown;
}

/**
 * Thrown by a handler to answer with an error of its own domain.
 *
 * `code` is stable, `[a-z][a-z0-9_]{0,63}`; one of the sidecar's own, or of another form, arrives as
 * `tool_execution_failed`. The model reads `message`, at most 4 KiB of it.
 */
export class ToolError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly detail: string;
  readonly retryAfterMs: number | undefined;
  readonly path: string;
  readonly stop: boolean;

  constructor(code: string, message: string, options: ToolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "ToolError";
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.detail = options.detail ?? "";
    this.retryAfterMs = options.retryAfterMs;
    this.path = options.path ?? "";
    this.stop = options.stop ?? false;
  }
}

/**
 * The handler stopped because it was told to. It is the reason of `ToolContext.signal`, so
 * `signal.throwIfAborted()` throws it, and so does a `fetch` with that signal.
 *
 * A handler that knows whether it had acted throws one of its own, with `effect`. Thrown without a
 * cancellation having been asked for, it is an ordinary failure.
 */
export class ToolCancelled extends Error {
  readonly effect: CallEffect;
  /** Why the call was cancelled, e.g. `turn_cancelled`; empty in one that a handler made. */
  readonly reason: string;

  constructor(message = "", options: { effect?: CallEffect; reason?: string } = {}) {
    super(message);
    this.name = "ToolCancelled";
    this.effect = options.effect ?? "unknown";
    this.reason = options.reason ?? "";
  }
}

const BY_CALL_CODE: ReadonlyMap<string, CallgateErrorClass> = new Map<string, CallgateErrorClass>([
  ["tool_not_found", ToolNotFound],
  ["arguments_rejected", InvalidArguments],
  ["tool_batch_rejected", PermissionDenied],
  ["tool_cancelled", Cancelled],
  ["tool_timeout", DeadlineExceeded],
  ["limit_exceeded", LimitExceeded],
  ["tool_unavailable", Unavailable],
  ["store_unavailable", Unavailable],
]);

const BY_CALL_PREFIX: readonly (readonly [string, CallgateErrorClass])[] = [
  ["json_", InvalidArguments],
  ["tool_argument_", InvalidArguments],
  ["approval_", PermissionDenied],
  ["tool_denied_", PermissionDenied],
];

/** The error that stands for the error of one call. */
export function errorForCall(code: string, message: string): CallgateError {
  const prefixed = BY_CALL_PREFIX.find(([prefix]) => code.startsWith(prefix))?.[1];
  const Kind = BY_CALL_CODE.get(code) ?? prefixed ?? CallFailed;
  return new Kind(message, { code });
}
