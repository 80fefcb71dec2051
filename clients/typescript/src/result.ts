/**
 * What handlers answer and how calls ended.
 *
 * A failing tool is a value here, never an exception.
 */
import { type ContentPart, isContentPart, joinedText, TextPart } from "./content.js";
import { type CallgateError, errorForCall, ToolError } from "./errors.js";
import { NotJson, toJson } from "./json.js";

export type CallOutcome = "success" | "error" | "cancelled";
export type CallEffect = "not_executed" | "executed" | "unknown";

/** What the sidecar says where nothing else is known. */
export const FAILED = "tool_execution_failed";
const MESSAGE_BYTES_MAX = 4 * 1024;
const DETAIL_BYTES_MAX = 16 * 1024;
// `JSON.stringify` escapes surrogates only where they are alone.
const LONE_ESCAPE = /\\(?:u(d[89a-f][0-9a-f]{2})|.)/g;
const CODE = /^[a-z][a-z0-9_]{0,63}$/;

// Codes that only the sidecar may send. `result_too_large` is the executor's, too.
const SIDECAR_CODES = new Set([
  ..."tool_name_empty tool_name_duplicate tool_name_invalid tool_definition_invalid".split(" "),
  ..."schema_unsupported_keyword schema_invalid_required schema_missing_type schema_unknown_type".split(" "),
  ..."schema_invalid_properties schema_invalid_items schema_root_not_object schema_too_deep".split(" "),
  ..."schema_too_large schema_invalid schema_unresolved_ref schema_dialect_not_admitted".split(" "),
  ..."json_invalid json_not_object json_truncated json_duplicate_key json_invalid_unicode".split(" "),
  ..."json_number_out_of_range json_too_large json_too_deep".split(" "),
  ..."tool_not_found tool_argument_required tool_argument_type_mismatch tool_argument_enum".split(" "),
  ..."tool_argument_range tool_argument_pattern tool_argument_unknown tool_argument_invalid".split(" "),
  ..."tool_changed result_invalid tool_denied_by_rule tool_denied_by_mode tool_denied_by_tool".split(" "),
  ..."tool_denied_by_user tool_batch_rejected approval_expired approval_unavailable".split(" "),
  ..."tool_denied_by_hook hook_failed hook_timeout hook_unavailable hook_modified_args_invalid".split(" "),
  ..."tool_cancelled run_aborted loop_detected limit_exceeded tool_unavailable tool_timeout".split(" "),
  ..."tool_outcome_unknown executor_protocol_error store_unavailable".split(" "),
]);

/** What went wrong with one call or one registration. */
export interface ErrorInfo {
  readonly code: string;
  /** What the model reads. */
  readonly message: string;
  /** For operators. */
  readonly detail: string;
  /** Where in the arguments or the schema, from `$`; empty: nowhere in particular. */
  readonly path: string;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly layer: string;
}

/** An error with what is given, and nothing else. */
export function errorInfo(code: string, given: Partial<ErrorInfo> = {}): ErrorInfo {
  return {
    code,
    message: given.message ?? "",
    detail: given.detail ?? "",
    path: given.path ?? "",
    retryable: given.retryable ?? false,
    retryAfterMs: given.retryAfterMs,
    layer: given.layer ?? "",
  };
}

/** JSON that is text already, so that it is not written twice. */
export class EncodedJson {
  constructor(readonly text: string) {}
}

/** The fields of a `ToolResult`. */
export interface ToolResultFields {
  /** For the model, in order. At most 64 pieces. */
  contents?: readonly ContentPart[];
  /** The tool did not do what was asked. Never fake success. */
  isError?: boolean;
  /** The loop ends after this turn and the run completes. */
  stopFlag?: boolean;
  /** With `isError`: what went wrong. */
  error?: ErrorInfo | undefined;
  /** The same result for programs, a JSON object. */
  structured?: unknown;
  /** A JSON object that is never shown to the model. */
  metadata?: unknown;
}

/** A handler's answer, for those that need more than a plain value. */
export class ToolResult {
  readonly contents: readonly ContentPart[];
  readonly isError: boolean;
  readonly stopFlag: boolean;
  readonly error: ErrorInfo | undefined;
  readonly structured: unknown;
  readonly metadata: unknown;

  constructor(fields: ToolResultFields = {}) {
    this.contents = fields.contents ?? [];
    this.isError = fields.isError ?? false;
    this.stopFlag = fields.stopFlag ?? false;
    this.error = fields.error;
    this.structured = fields.structured;
    this.metadata = fields.metadata;
  }

  /** The answer that returning `value` would be, with a stop flag or metadata. */
  static of(value: unknown, options: { stop?: boolean; metadata?: unknown } = {}): ToolResult {
    const made = resultOf(value);
    return new ToolResult({ ...made, stopFlag: options.stop ?? false, metadata: options.metadata });
  }

  /** An error of the handler's own domain, as `ToolError` makes one. */
  static failure(
    code: string,
    message: string,
    options: { retryable?: boolean; stop?: boolean; path?: string } = {},
  ): ToolResult {
    return resultOfError(new ToolError(code, message, options));
  }

  /** All text pieces, joined by line ends. */
  get text(): string {
    return joinedText(this.contents);
  }
}

/** When things happened, Unix time in milliseconds; `approvalMs` and `queueMs` are spans. */
export interface CallTiming {
  readonly receivedAtMs: number;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number;
  readonly queueMs: number;
  readonly approvalMs: number;
}

/** The fields of a `CallResult`. */
export interface CallResultFields {
  callId: string;
  tool: string;
  outcome: CallOutcome;
  isError?: boolean;
  stopFlag?: boolean;
  error?: ErrorInfo | undefined;
  contents?: readonly ContentPart[];
  structured?: unknown;
  metadata?: unknown;
  notExecutedReason?: string;
  effect?: CallEffect;
  truncated?: boolean;
  originalBytes?: number | undefined;
  sanitised?: boolean;
  suppressed?: boolean;
  attempts?: number;
  timing?: CallTiming | undefined;
  approvalId?: string;
  argumentsDigest?: Uint8Array;
}

/**
 * How one call ended; exactly one for every call id that came in.
 *
 * `approvalId` is the approval that let it run or refused it; empty: nobody was asked. Of a
 * `suppressed` result a hook keeps the content back.
 */
export class CallResult {
  readonly callId: string;
  readonly tool: string;
  readonly outcome: CallOutcome;
  readonly isError: boolean;
  readonly stopFlag: boolean;
  readonly error: ErrorInfo | undefined;
  readonly contents: readonly ContentPart[];
  readonly structured: unknown;
  readonly metadata: unknown;
  readonly notExecutedReason: string;
  readonly effect: CallEffect;
  readonly truncated: boolean;
  readonly originalBytes: number | undefined;
  readonly sanitised: boolean;
  readonly suppressed: boolean;
  readonly attempts: number;
  readonly timing: CallTiming | undefined;
  readonly approvalId: string;
  readonly argumentsDigest: Uint8Array;

  constructor(fields: CallResultFields) {
    this.callId = fields.callId;
    this.tool = fields.tool;
    this.outcome = fields.outcome;
    this.isError = fields.isError ?? false;
    this.stopFlag = fields.stopFlag ?? false;
    this.error = fields.error;
    this.contents = fields.contents ?? [];
    this.structured = fields.structured;
    this.metadata = fields.metadata;
    this.notExecutedReason = fields.notExecutedReason ?? "";
    this.effect = fields.effect ?? "unknown";
    this.truncated = fields.truncated ?? false;
    this.originalBytes = fields.originalBytes;
    this.sanitised = fields.sanitised ?? false;
    this.suppressed = fields.suppressed ?? false;
    this.attempts = fields.attempts ?? 0;
    this.timing = fields.timing;
    this.approvalId = fields.approvalId ?? "";
    this.argumentsDigest = fields.argumentsDigest ?? new Uint8Array();
  }

  /** All text pieces, joined by line ends. */
  get text(): string {
    return joinedText(this.contents);
  }

  /** What `orThrow` would throw; undefined: nothing. */
  failure(): CallgateError | undefined {
    if (!this.isError) return undefined;
    const error = this.error ?? errorInfo(FAILED);
    return errorForCall(error.code, error.message || this.text || error.code);
  }

  /**
   * Returns the result, or throws what its error stands for: `ToolNotFound`, `InvalidArguments`,
   * `PermissionDenied`, `Cancelled`, `DeadlineExceeded`, `Unavailable`, `CallFailed`.
   */
  orThrow(): this {
    const failure = this.failure();
    if (failure !== undefined) throw failure;
    return this;
  }
}

/** The longest beginning that has at most `limit` bytes as UTF-8. */
export function cut(text: string, limit: number): string {
  const raw = Buffer.from(text, "utf8");
  if (raw.length <= limit) return text;
  let end = limit;
  while (end > 0 && (raw[end]! & 0xc0) === 0x80) end -= 1;
  return raw.subarray(0, end).toString("utf8");
}

/** The longest end that has at most `limit` bytes as UTF-8. */
function cutFront(text: string, limit: number): string {
  const raw = Buffer.from(text, "utf8");
  if (raw.length <= limit) return text;
  let begin = raw.length - limit;
  while (begin < raw.length && (raw[begin]! & 0xc0) === 0x80) begin += 1;
  return raw.subarray(begin).toString("utf8");
}

/** The text with lone surrogates replaced by U+FFFD, and whether there were any. */
export function clean(text: string): { text: string; changed: boolean } {
  const made = text.replace(
    /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g,
    "\uFFFD",
  );
  return { text: made, changed: made !== text };
}

/** JSON text with escaped lone surrogates replaced by U+FFFD, and whether there were any. */
export function cleanJson(text: string): { text: string; changed: boolean } {
  const made = text.replace(LONE_ESCAPE, (found, lone?: string) => (lone === undefined ? found : "\uFFFD"));
  const cleaned = clean(made);
  return { text: cleaned.text, changed: made !== text || cleaned.changed };
}

/**
 * The answer that a handler means by returning `value`.
 *
 * A string is text; undefined and null are an empty answer; a content part is taken as it is, and so
 * is an array with at least one, in which a string is text; anything else is the text of its JSON,
 * and an object is also the structured result.
 */
export function resultOf(value: unknown): ToolResult {
  if (value instanceof ToolResult) return value;
  if (value === undefined || value === null) return new ToolResult();
  if (typeof value === "string") return new ToolResult({ contents: [new TextPart(value)] });
  if (isContentPart(value)) return new ToolResult({ contents: [value] });
  if (Array.isArray(value) && value.some(isContentPart)) return resultOfParts(value);
  let text: string;
  try {
    text = toJson(value);
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    return notJson(`the tool's result is not valid JSON: ${error.message}`);
  }
  const structured = text.startsWith("{") ? new EncodedJson(text) : undefined;
  // As a real surrogate, so that sealing finds it and says so.
  const shown = text.replace(LONE_ESCAPE, (found, lone?: string) =>
    lone ? JSON.parse(`"${found}"`) : found,
  );
  return new ToolResult({ contents: [new TextPart(shown)], structured });
}

/** One content part in an array makes it a list of parts: as JSON its bytes would be lost. */
function resultOfParts(items: readonly unknown[]): ToolResult {
  const parts: ContentPart[] = [];
  for (const [at, item] of items.entries()) {
    if (typeof item === "string") parts.push(new TextPart(item));
    else if (isContentPart(item)) parts.push(item);
    else return notJson(`item ${at} of the tool's result is no string and no content part`);
  }
  return new ToolResult({ contents: parts });
}

/** The answer in place of one that cannot be sent. */
export function notJson(message: string): ToolResult {
  return resultOfError(new ToolError("result_not_json", message));
}

/** The answer that stands for an error of the handler's own domain. */
export function resultOfError(error: ToolError): ToolResult {
  let { code, detail } = error;
  if (!CODE.test(code) || SIDECAR_CODES.has(code)) {
    detail = `the handler's code was ${JSON.stringify(code)}, which executors may not send\n${detail}`;
    code = FAILED;
  }
  const message = cut(clean(error.message).text, MESSAGE_BYTES_MAX);
  return new ToolResult({
    contents: message ? [new TextPart(message)] : [],
    isError: true,
    stopFlag: error.stop,
    error: errorInfo(code, {
      message,
      detail: cut(clean(detail).text, DETAIL_BYTES_MAX),
      path: clean(error.path).text,
      retryable: error.retryable,
      retryAfterMs: error.retryAfterMs,
    }),
  });
}

/**
 * The answer for anything that a handler threw.
 *
 * The model gets the message, bounded; type and stack are for operators.
 */
export function resultOfThrown(thrown: unknown): ToolResult {
  if (thrown instanceof ToolError) return resultOfError(thrown);
  const [text, stack] = described(thrown);
  const message = cut(clean(text).text, MESSAGE_BYTES_MAX) || "the tool failed without a message";
  return new ToolResult({
    contents: [new TextPart(message)],
    isError: true,
    error: errorInfo(FAILED, { message, detail: cut(clean(stack).text, DETAIL_BYTES_MAX) }),
  });
}

function described(thrown: unknown): [string, string] {
  try {
    if (!(thrown instanceof Error)) return [String(thrown), `thrown: ${typeof thrown}`];
    const cause = thrown.cause === undefined ? "" : `\ncaused by: ${described(thrown.cause)[1]}`;
    return [thrown.message, cutFront(`${thrown.stack ?? thrown.name}${cause}`, DETAIL_BYTES_MAX)];
  } catch {
    // A broken getter must not lose the failure itself.
    return ["", ""];
  }
}
