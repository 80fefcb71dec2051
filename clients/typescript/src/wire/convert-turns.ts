/** Protobuf messages of turns and of the registry to the package's types. */
import type { OutputChannel } from "../context.js";
import type * as ev from "../events.js";
import { TurnResult } from "../events.js";
import * as pr from "../gen/callgate/v1/provider_pb.js";
import * as rg from "../gen/callgate/v1/registry_service_pb.js";
import * as sv from "../gen/callgate/v1/server_service_pb.js";
import * as tu from "../gen/callgate/v1/turn_service_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import { decodeText, parsedField } from "../json.js";
import type { ExportLoss, ServerInfo, ToolInfo, ToolState } from "../registry.js";
import type { Dialect, JsonSchema } from "../schema.js";
import { callResult, errorInfoOf, kindOf, nameOf, numberOfBig, riskOf } from "./convert.js";
import { batchPolicyOf, verdictOf } from "./convert-permission.js";

/** Unknown ones are shown as running. */
export function callStateOf(number: number): ev.CallState {
  return (nameOf(ty.CallState, number, "executing") || "executing") as ev.CallState;
}

/** Unknown ones count as running. */
export function turnStateOf(number: number): ev.TurnState {
  return (nameOf(tu.TurnState, number, "running") || "running") as ev.TurnState;
}

/** What found a loop. */
export function detectorOf(number: number): ev.LoopDetector {
  return (nameOf(ty.LoopDetector, number, "unknown") || "unknown") as ev.LoopDetector;
}

/** A call as the sidecar has kept it. */
export function recordedCall(message: ty.ToolCall | undefined): ev.RecordedCall {
  return {
    callId: message?.callId ?? "",
    name: message?.name ?? "",
    arguments: decodeText(message?.argumentsJson ?? new Uint8Array()),
    truncated: message?.truncated ?? false,
  };
}

function summaryOf(message: tu.ApprovalSummary): ev.ApprovalSummary {
  return {
    approvalId: message.approvalId,
    callId: message.callId,
    tool: message.tool,
    risk: riskOf(message.riskLevel),
    verdict: verdictOf(message.verdict),
    expiresAtMs: numberOfBig(message.expiresAtMs),
  };
}

/** One event; undefined for a body that is newer than this package. */
export function turnEvent(turnId: string, epoch: number, message: tu.TurnEvent): ev.TurnEvent | undefined {
  const head = {
    turnId,
    epoch,
    sequence: Number(message.sequence),
    occurredAtMs: Number(message.occurredAtMs),
  };
  const { body } = message;
  switch (body.case) {
    case "callStateChanged": {
      const { callId, state, previousState, code } = body.value;
      const previous = previousState === 0 ? undefined : callStateOf(previousState);
      return { type: "call_state_changed", ...head, callId, state: callStateOf(state), previous, code };
    }
    case "callCompleted":
      return body.value.result && { type: "call_completed", ...head, result: callResult(body.value.result) };
    case "turnAccepted":
      return { type: "turn_accepted", ...head, ...acceptedOf(body.value) };
    case "turnCompleted":
      return { type: "turn_completed", ...head, result: turnResult(turnId, body.value) };
    case "approvalRequired": {
      const { batchId, approvals } = body.value;
      return { type: "approval_required", ...head, batchId, approvals: approvals.map(summaryOf) };
    }
    case "turnSuspended": {
      const { batchId, approvalIds } = body.value;
      return { type: "turn_suspended", ...head, batchId, approvalIds };
    }
    case "loopDetected": {
      const { detector, reason, callIds, period, repetitions, confidence } = body.value;
      const found = { detector: detectorOf(detector), reason, callIds, period, repetitions, confidence };
      return { type: "loop_detected", ...head, ...found };
    }
    case "callProgress": {
      const { callId, message: text, fraction, detailsJson } = body.value;
      return {
        type: "call_progress",
        ...head,
        callId,
        message: text,
        fraction,
        details: parsedField(detailsJson),
      };
    }
    case "callOutput":
      return { type: "call_output", ...head, ...outputOf(body.value) };
    case "heartbeat":
      return { type: "turn_heartbeat", ...head, waitingFor: body.value.waitingFor };
    default:
      return undefined;
  }
}

function acceptedOf(message: tu.TurnAccepted) {
  return {
    sessionId: message.sessionId,
    runId: message.runId,
    batchId: message.batchId,
    calls: message.calls.map(({ callId, tool, minted }) => ({ callId, tool, minted })),
    round: message.round,
    batchPolicy: batchPolicyOf(message.batchPolicy),
  };
}

function outputOf(message: tu.CallOutput) {
  return {
    callId: message.callId,
    channel: (nameOf(ty.OutputChannel, message.channel, "data") || "text") as OutputChannel,
    chunk: Number(message.chunkSequence),
    data: message.data,
    droppedBytes: Number(message.droppedBytes),
  };
}

function messagesOf(message: pr.ProviderMessages | undefined): Record<string, unknown>[] {
  return (message?.messagesJson ?? []).map((item) => JSON.parse(decodeText(item)) as Record<string, unknown>);
}

/** How a turn ended. */
export function turnResult(turnId: string, message: tu.TurnCompleted): TurnResult {
  return new TurnResult({
    turnId,
    outcome: (nameOf(tu.TurnOutcome, message.outcome, "error") || "error") as ev.TurnOutcome,
    results: message.results.map(callResult),
    messages: messagesOf(message.providerMessages),
    stop: message.stop,
    stopReason: nameOf(tu.StopReason, message.stopReason, "run_ended"),
    run: message.run && runOf(message.run),
    error: message.error && errorInfoOf(message.error),
    closingResults: (message.closingResults?.results ?? []).map(callResult),
    closingMessages: messagesOf(message.closingResults?.providerMessages),
    hookContexts: message.additionalContexts.map(({ text, hookId, callId }) => ({
      text,
      hookId,
      callId,
      role: "",
    })),
    hookMessages: message.injectedMessages.map(({ text, hookId, callId, role }) => {
      return { text, hookId, callId, role: nameOf(ty.MessageRole, role, "user") || "user" };
    }),
  });
}

/** A run. An unknown state counts as final. */
export function runOf(message: ty.Run | undefined): ev.Run {
  return {
    runId: message?.runId ?? "",
    sessionId: message?.sessionId ?? "",
    state: (nameOf(ty.RunState, message?.state ?? 0, "completed") || "completed") as ev.RunState,
    rounds: message?.rounds ?? 0,
    endCode: message?.endCode ?? "",
    endReason: message?.endReason ?? "",
    startedAtMs: Number(message?.startedAtMs ?? 0),
    endedAtMs: numberOfBig(message?.endedAtMs),
  };
}

/** A turn as it stands. */
export function turnInfo(message: tu.Turn): ev.TurnInfo {
  return {
    turnId: message.turnId,
    sessionId: message.sessionId,
    runId: message.runId,
    batchId: message.batchId,
    state: turnStateOf(message.state),
    calls: message.calls.map((call) => ({
      call: recordedCall(call.call),
      tool: call.tool,
      state: callStateOf(call.state),
      approvalId: call.approvalId,
      effectiveArgumentsJson: decodeText(call.effectiveArgumentsJson),
    })),
    epoch: message.epoch,
    lastSequence: Number(message.lastSequence),
    modelMessage: message.modelMessage,
    completed: message.completed && turnResult(message.turnId, message.completed),
    acceptedAtMs: Number(message.acceptedAtMs),
    updatedAtMs: Number(message.updatedAtMs),
  };
}

function dialectOf(number: number): string {
  const names: Record<number, Dialect> = {
    [ty.SchemaDialect.UNSPECIFIED]: "core",
    [ty.SchemaDialect.CORE]: "core",
    [ty.SchemaDialect.JSON_SCHEMA_2020_12]: "json-schema-2020-12",
  };
  return names[number] ?? "unknown";
}

/** A tool as the registry has it. */
export function toolInfo(message: rg.Tool): ToolInfo {
  const definition = message.definition;
  return {
    name: definition?.name ?? "",
    description: definition?.description ?? "",
    schema: (parsedField(definition?.parametersJson ?? new Uint8Array()) as JsonSchema) ?? { type: "object" },
    dialect: dialectOf(definition?.schemaDialect ?? 0),
    risk: riskOf(definition?.riskLevel ?? 0),
    kind: kindOf(definition?.kind ?? 0),
    idempotent: definition?.idempotent ?? false,
    exclusive: definition?.exclusive ?? false,
    timeoutMs: definition?.timeoutMs,
    version: definition?.version ?? "",
    annotations: parsedField(definition?.annotationsJson ?? new Uint8Array()),
    owner: message.owner,
    state: (nameOf(rg.ToolState, message.state, "unavailable") || "unavailable") as ToolState,
    generation: message.generation,
    digest: message.toolDigest,
    instances: message.instances,
    inFlight: message.inFlight,
  };
}

/** One thing that a form could not hold. */
export function exportLoss(message: pr.ExportLoss): ExportLoss {
  const { tool, callId, path, keyword, action } = message;
  return { tool, callId, path, keyword, action: nameOf(pr.ExportAction, action, "dropped") };
}

/** What the sidecar is. */
export function serverInfo(message: sv.GetServerInfoResponse): ServerInfo {
  return {
    version: message.version,
    processId: message.processId,
    state: nameOf(sv.ServerState, message.state, "serving") || "serving",
    store: message.store,
    features: message.features,
    dialects: message.dialects.map(dialectOf),
    formats: message.formats.map((item) => nameOf(pr.ProviderFormat, item, "unknown")),
    limits: message.limits.map(({ name, value, unit, ceiling }) => {
      return { name, value: Number(value), unit, ceiling: Number(ceiling) };
    }),
    callerRoles: message.callerRoles.map((item) => nameOf(ty.Role, item, "unknown")),
    callerPrincipal: message.callerPrincipal,
    startedAtMs: Number(message.startedAtMs),
  };
}
