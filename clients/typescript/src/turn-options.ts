/** What may be said about a turn when it is run or attached to, and the requests that say it. */
import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { ToolCall } from "./events.js";
import { ProviderFormat as Format } from "./gen/callgate/v1/provider_pb.js";
import * as tu from "./gen/callgate/v1/turn_service_pb.js";
import { encodeAsIs, encodeText, toJson } from "./json.js";
import type { BatchPolicy, RuleSpec } from "./permission.js";
import type { ProviderFormat } from "./registry.js";
import { numberOf, wholeMs } from "./wire/convert.js";
import { batchPolicyNumber, ruleSpec } from "./wire/convert-permission.js";
import { defined } from "./wire/dialer.js";

/** How events are wanted. The stored turn does not depend on it. */
export interface ViewOptions {
  /** Where contents travel: in the turn's result ("at_end"), in `call_completed` ("as_completed"), or in both. */
  results?: "at_end" | "as_completed" | "both";
  /** Send `call_output`. Absent: no. */
  output?: boolean;
  /** Send `call_progress`. Absent: yes. */
  progress?: boolean;
  /**
   * Once only people are awaited, "wait" for them, or "end": the events end after `turn_suspended`,
   * awaiting rejects with `Suspended`, and `attachTurn` takes the turn up. Absent: "wait".
   */
  onSuspend?: "wait" | "end";
  /** Aborting it cancels the turn, and rejects with its reason. */
  signal?: AbortSignal;
}

/** What may be said of a turn. */
export interface TurnOptions extends ViewOptions {
  /** In place of `calls`: the assistant message of OpenAI Chat Completions, as an object or as text. */
  openaiMessage?: object | string;
  /** The provider's own word for why the model stopped, e.g. `length`. */
  finishReason?: string;
  /** Kept by you before you send, so that a retry in another process attaches. Absent: minted. */
  turnId?: string;
  /** The run. Absent: the session's default run. */
  runId?: string;
  /** What the model could call. Absent: every tool. */
  toolset?: string;
  /** The `ToolList.snapshotId` that the model saw. */
  toolSnapshotId?: string;
  /** Most calls that execute at once. */
  maxParallel?: number;
  /** The turn is cancelled when it ran so long. */
  timeoutMs?: number;
  /** Anything that a new process needs to go on. Kept, never read. */
  modelMessage?: Uint8Array | string;
  /** Form of `messages` with `calls`. */
  resultsFormat?: ProviderFormat;
  /** A lost connection cancels the turn. Absent: it goes on, and is taken up again here. */
  cancelOnDisconnect?: boolean;
  /** What happens to the batch while a call waits for an approver, and when one is refused. */
  batchPolicy?: BatchPolicy;
  /** Rules for this turn only. At most 256. */
  commandRules?: readonly RuleSpec[];
  /** The conversation so far, for the sidecar's loop diagnosis. */
  history?: readonly unknown[];
  /** W3C trace context. */
  traceparent?: string;
  /** "stream" shares one stream among all turns, which is cheaper; "rpc" gives this one its own. */
  carrier?: "stream" | "rpc";
}

/** What may be said when a turn is attached to. */
export interface AttachOptions extends ViewOptions {
  sessionId?: string;
  /** The last event seen. Absent: from the beginning. */
  afterSequence?: number;
  /** The epoch of that event. */
  epoch?: number;
}

/** How events are wanted. */
export function viewOf(options: ViewOptions, format?: ProviderFormat): tu.TurnView {
  return create(tu.TurnViewSchema, {
    resultDelivery: numberOf("results", tu.ResultDelivery, options.results ?? "at_end"),
    includeOutput: options.output ?? false,
    excludeProgress: !(options.progress ?? true),
    resultsFormat: format === undefined ? Format.UNSPECIFIED : numberOf("resultsFormat", Format, format),
  });
}

/** What the stream does while only people are awaited. */
export function onSuspendOf(options: ViewOptions): tu.OnSuspend {
  return numberOf("onSuspend", tu.OnSuspend, options.onSuspend ?? "wait");
}

function argumentsOf(call: ToolCall): Uint8Array {
  if (call.arguments === undefined) return new Uint8Array();
  return encodeAsIs(typeof call.arguments === "string" ? call.arguments : toJson(call.arguments));
}

/** One model message and its calls. Throws `TypeError` and `NotJson`: an argument cannot be sent. */
export function runRequest(
  sessionId: string,
  calls: readonly ToolCall[],
  options: TurnOptions,
): tu.RunTurnRequest {
  const { openaiMessage, modelMessage, maxParallel, timeoutMs, traceparent } = options;
  if (calls.length > 0 && openaiMessage !== undefined)
    throw new TypeError("give calls or openaiMessage, not both");
  const providerMessage =
    openaiMessage === undefined
      ? undefined
      : {
          format: Format.OPENAI_CHAT,
          messageJson: encodeAsIs(typeof openaiMessage === "string" ? openaiMessage : toJson(openaiMessage)),
          finishReason: options.finishReason ?? "",
        };
  return create(tu.RunTurnRequestSchema, {
    sessionId,
    turnId: options.turnId || randomUUID(),
    calls: calls.map((call) => ({
      callId: call.callId,
      name: call.name,
      argumentsJson: argumentsOf(call),
      truncated: call.truncated ?? false,
    })),
    runId: options.runId ?? "",
    toolset: options.toolset ?? "",
    toolSnapshotId: options.toolSnapshotId ?? "",
    view: viewOf(options, options.resultsFormat),
    onDisconnect: options.cancelOnDisconnect ? tu.OnDisconnect.CANCEL : tu.OnDisconnect.UNSPECIFIED,
    onSuspend: onSuspendOf(options),
    commandRules: (options.commandRules ?? []).map(ruleSpec),
    batchPolicy: batchPolicyNumber(options.batchPolicy),
    modelMessage:
      typeof modelMessage === "string" ? encodeText(modelMessage) : (modelMessage ?? new Uint8Array()),
    historyJson: options.history === undefined ? new Uint8Array() : encodeAsIs(toJson(options.history)),
    ...defined({
      providerMessage,
      maxParallel,
      timeoutMs: timeoutMs === undefined ? undefined : wholeMs(timeoutMs),
      trace: traceparent ? { traceparent } : undefined,
    }),
  });
}
