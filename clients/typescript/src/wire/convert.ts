/** Protobuf messages of tools, calls and results to the package's types and back. No decisions are made here. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import * as parts from "../content.js";
import { sessionState } from "../context.js";
import { type Dispatch, keyOf } from "../execution.js";
import {
  type ExecuteRequest,
  type ExecutionRef,
  RejectReason,
} from "../gen/callgate/v1/executor_service_pb.js";
import type { StreamTiming } from "../gen/callgate/v1/stream_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import { decodeText, encodeText, parsedField } from "../json.js";
import type { Registration, RegistrationState } from "../registration.js";
import { type CallEffect, type CallOutcome, CallResult, type ErrorInfo } from "../result.js";
import { jsonOf, type Sealed } from "../seal.js";
import type { Risk, Tool, ToolKind } from "../tool.js";
import { defined } from "./dialer.js";

/** A generated enum: names to numbers and back. */
type Enum = Readonly<Record<string, string | number>>;

/** The name of a number, in lower case; "" for 0, `unknown` for one that is newer than this package. */
export function nameOf(kind: Enum, number: number, unknown: string): string {
  if (number === 0) return "";
  const name = kind[number];
  return typeof name === "string" ? name.toLowerCase() : unknown;
}

/** The number of a name. Throws `TypeError`: there is no such name. */
export function numberOf(what: string, kind: Enum, value: string): number {
  const number = kind[value.toUpperCase()];
  if (typeof number === "number" && number !== 0 && value === value.toLowerCase()) return number;
  const names = Object.entries(kind)
    .filter(([, item]) => typeof item === "number" && item !== 0)
    .map(([name]) => name.toLowerCase());
  throw new TypeError(`${what} must be one of ${names.join(", ")}, not ${JSON.stringify(value)}`);
}

/** How much harm a tool can do. Unknown: "dangerous". */
export function riskOf(number: number): Risk {
  return (nameOf(ty.RiskLevel, number, "dangerous") || "safe") as Risk;
}

/** What a tool does. Unknown: "other". */
export function kindOf(number: number): ToolKind {
  return (nameOf(ty.ToolKind, number, "other") || "other") as ToolKind;
}

/** A span, rounded up, so that a short one does not become none. */
export function wholeMs(ms: number): number {
  return ms > 0 ? Math.max(1, Math.ceil(ms)) : 0;
}

// Executor side.

export const REJECTIONS = {
  busy: RejectReason.BUSY,
  draining: RejectReason.DRAINING,
  unknown_tool: RejectReason.UNKNOWN_TOOL,
  bad_arguments: RejectReason.BAD_ARGUMENTS,
  too_large: RejectReason.TOO_LARGE,
} as const;

/** What is registered of a tool. */
export function definition(tool: Tool): ty.ToolDefinition {
  const dialect = tool.dialect === "core" ? ty.SchemaDialect.CORE : ty.SchemaDialect.JSON_SCHEMA_2020_12;
  const subject = tool.subject && {
    pointer: tool.subject.pointer,
    subjectType: numberOf("type", ty.SubjectType, tool.subject.type),
    dialect: tool.subject.dialect ?? "",
  };
  return create(ty.ToolDefinitionSchema, {
    name: tool.name,
    description: tool.description,
    parametersJson: encodeText(tool.schemaJson),
    schemaDialect: dialect,
    riskLevel: tool.risk ? numberOf("risk", ty.RiskLevel, tool.risk) : ty.RiskLevel.UNSPECIFIED,
    kind: tool.kind ? numberOf("kind", ty.ToolKind, tool.kind) : ty.ToolKind.UNSPECIFIED,
    skipPermission: tool.skipPermission,
    loopExempt: tool.loopExempt,
    loopKey: [...tool.loopKey],
    secretPointers: [...tool.secretPointers],
    idempotent: tool.idempotent,
    exclusive: tool.exclusive,
    maxConcurrency: tool.maxConcurrency,
    supportsCancellation: tool.cancellable,
    hasPermissionCheck: tool.hasPermissionCheck,
    services: [...tool.services],
    version: tool.version,
    annotationsJson: encodeText(tool.annotationsJson),
    ...defined({ subject, timeoutMs: tool.timeoutMs }),
  });
}

/** What became of a tool. */
export function registration(message: ty.ToolRegistration): Registration {
  const states: Record<number, RegistrationState> = {
    [ty.RegistrationState.ACTIVE]: "active",
    [ty.RegistrationState.REMOVED]: "removed",
  };
  return {
    name: message.name,
    state: states[message.state] ?? "refused",
    error: message.error && errorInfoOf(message.error),
    digest: message.toolDigest,
    generation: message.generation,
    warnings: message.warnings.map(({ code, path, message: text }) => ({ code, path, message: text })),
  };
}

/** What an execution is known by. */
export function keyOfRef(ref: ExecutionRef | undefined): string {
  return keyOf(ref?.executionId ?? "", ref?.attempt ?? 0);
}

/** A call as the executor takes it. `nowMs` is Unix time. */
export function dispatchOf(message: ExecuteRequest, nowMs: number): Dispatch {
  const spans: number[] = [];
  if (message.timeoutMs > 0) spans.push(message.timeoutMs);
  if (message.deadlineAtMs > 0n) spans.push(Math.max(0, Number(message.deadlineAtMs) - nowMs));
  const context = message.context;
  const state = context?.state;
  return {
    executionId: message.execution?.executionId ?? "",
    attempt: message.execution?.attempt ?? 0,
    ref: message.execution,
    toolName: message.toolName,
    argumentsJson: decodeText(message.argumentsJson) || "{}",
    toolDigest: message.toolDigest,
    callId: message.callId,
    sessionId: context?.sessionId ?? "",
    runId: context?.runId ?? "",
    turnId: context?.turnId ?? "",
    batchCallId: context?.batchCallId ?? "",
    state: sessionState(
      state?.schemaVersion ?? 0,
      state?.sessionId || context?.sessionId || "",
      state?.metadataJson ?? new Uint8Array(),
    ),
    services: context?.services ?? [],
    cwd: context?.cwd ?? "",
    traceparent: context?.trace?.traceparent ?? "",
    timeoutMs: spans.length > 0 ? Math.min(...spans) : undefined,
    outputCredit: message.outputCreditBytes,
  };
}

/** A handler's answer. */
export function toolResult(sealed: Sealed): ty.ToolResult {
  const { result } = sealed;
  const error = result.error && {
    code: result.error.code,
    messageForModel: result.error.message,
    detail: result.error.detail,
    path: result.error.path,
    retryable: result.error.retryable,
    ...defined({
      retryAfterMs: result.error.retryAfterMs === undefined ? undefined : wholeMs(result.error.retryAfterMs),
    }),
  };
  return create(ty.ToolResultSchema, {
    contents: result.contents.map(content),
    isError: result.isError,
    stopFlag: result.stopFlag,
    structuredJson: sealed.structuredJson,
    metadataJson: sealed.metadataJson,
    sanitised: sealed.sanitised,
    ...defined({ error }),
  });
}

/** One part of an answer; its JSON is text already. */
function content(part: parts.ContentPart): MessageInitShape<typeof ty.ContentPartSchema> {
  switch (part.kind) {
    case "text":
      return { content: { case: "text", value: part.text } };
    case "json":
      return { content: { case: "valueJson", value: encodeText(jsonOf(part)) } };
    case "image":
    case "audio":
      // A copy: a view of a larger buffer must not travel whole, nor change behind our back.
      return {
        content: { case: part.kind, value: { data: Uint8Array.from(part.data), mimeType: part.mimeType } },
      };
    case "resource": {
      const { uri, mimeType, data } = part;
      const inner =
        typeof data === "string"
          ? ({ case: "text", value: data } as const)
          : ({ case: "blob", value: Uint8Array.from(data) } as const);
      return { content: { case: "resource", value: { uri, mimeType, data: inner } } };
    }
    case "resource_link": {
      const { uri, name, title, description, mimeType, sizeBytes } = part;
      const size = sizeBytes === undefined ? undefined : BigInt(sizeBytes);
      const value = { uri, name, title, description, mimeType, ...defined({ sizeBytes: size }) };
      return { content: { case: "resourceLink", value } };
    }
  }
}

// Orchestrator side.

/** An error of a call or a registration. */
export function errorInfoOf(message: ty.ToolError): ErrorInfo {
  return {
    code: message.code,
    message: message.messageForModel,
    detail: message.detail,
    path: message.path,
    retryable: message.retryable,
    retryAfterMs: message.retryAfterMs,
    layer: nameOf(ty.ErrorLayer, message.layer, "runtime"),
  };
}

/** One part of a result. */
export function contentPart(message: ty.ContentPart): parts.ContentPart {
  const { content: found } = message;
  switch (found.case) {
    case "text":
      return new parts.TextPart(found.value);
    case "valueJson":
      return new parts.JsonPart(parsedField(found.value));
    case "image":
      return new parts.ImagePart(found.value.data, found.value.mimeType || "application/octet-stream");
    case "audio":
      return new parts.AudioPart(found.value.data, found.value.mimeType || "application/octet-stream");
    case "resource":
      return new parts.ResourcePart(found.value.uri, found.value.data.value ?? "", found.value.mimeType);
    case "resourceLink": {
      const { uri, name, title, description, mimeType, sizeBytes } = found.value;
      return new parts.ResourceLinkPart(uri, {
        name,
        title: title || name,
        description,
        mimeType,
        sizeBytes: numberOfBig(sizeBytes),
      });
    }
    default:
      return new parts.TextPart("[content of an unknown kind]");
  }
}

/** An optional integer of the wire; those of the contract stay below 2^53. */
export function numberOfBig(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}

/** How a call ended. Unknown: "error". */
export function outcomeOf(number: number): CallOutcome {
  return (nameOf(ty.CallOutcome, number, "error") || "error") as CallOutcome;
}

/** How a call ended. */
export function callResult(message: ty.CallResult): CallResult {
  const { timing } = message;
  return new CallResult({
    callId: message.callId,
    tool: message.tool,
    outcome: outcomeOf(message.outcome),
    isError: message.isError,
    stopFlag: message.stopFlag,
    error: message.error && errorInfoOf(message.error),
    contents: message.contents.map(contentPart),
    structured: parsedField(message.structuredJson),
    metadata: parsedField(message.metadataJson),
    notExecutedReason: nameOf(ty.NotExecutedReason, message.notExecutedReason, "not_executed"),
    effect: (nameOf(ty.CallEffect, message.effect, "unknown") || "unknown") as CallEffect,
    truncated: message.truncated,
    originalBytes: numberOfBig(message.originalBytes),
    sanitised: message.sanitised,
    suppressed: message.suppressed,
    attempts: message.attempts,
    timing: timing && {
      receivedAtMs: Number(timing.receivedAtMs),
      startedAtMs: numberOfBig(timing.startedAtMs),
      finishedAtMs: Number(timing.finishedAtMs),
      queueMs: timing.queueMs,
      approvalMs: Number(timing.approvalMs),
    },
    approvalId: message.approvalId,
    argumentsDigest: message.argumentsDigest,
  });
}

/** Ping interval, and how many may stay unanswered. Absent or zero: what the contract names. */
export function timingOf(message: StreamTiming | undefined): { intervalMs: number; misses: number } {
  return { intervalMs: message?.pingIntervalMs || 5_000, misses: message?.pingMisses || 3 };
}
