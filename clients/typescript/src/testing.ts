/**
 * Tests of tools, hooks, orchestrators and approvers, without a sidecar and without a network.
 *
 * `callTool` runs one tool directly, `askHook` asks one hook. `FakeSidecar` goes the whole way over a socket,
 * with progress, output, cancellation, lost streams and calls that wait.
 */
import { createHash } from "node:crypto";
import { type Approval, CHOICES } from "./approval.js";
import { Client } from "./client.js";
import { Cancellation, sessionState, silentReporter, ToolContext, ToolServiceRegistry } from "./context.js";
import { ToolNotFound } from "./errors.js";
import { stoppedBy } from "./executor.js";
import type { HookAnswer, HookInput, HookQuestion } from "./hook.js";
import type { Hooks } from "./hooks.js";
import { encodeText, parsedField, toJson } from "./json.js";
import { CallResult, resultOfThrown, type ToolResult } from "./result.js";
import { seal } from "./seal.js";
import { Tool } from "./tool.js";

export { FakeCall } from "./testing/fake-execution.js";
export type { FakeLimits } from "./testing/fake-executors.js";
export { type FakeCallOptions, FakeSidecar } from "./testing/fake-sidecar.js";

/** What may be said of a call that is run directly. */
export interface CallToolOptions {
  callId?: string;
  sessionId?: string;
  metadata?: Readonly<Record<string, unknown>>;
  /** Absent: those that the tool declares. */
  services?: readonly string[];
  cwd?: string;
  /** Lets a test tell the handler to stop. */
  cancellation?: Cancellation;
  timeoutMs?: number;
}

/**
 * Runs a tool as the executor would, in this process. The arguments go through JSON and the tool's `input`;
 * a JSON schema is checked by the sidecar, and so not here. Rejects with `ToolNotFound`.
 */
export async function callTool(
  client: Client | Tool,
  name = "",
  args: Readonly<Record<string, unknown>> | string = {},
  options: CallToolOptions = {},
): Promise<CallResult> {
  const tool = client instanceof Tool ? client : client.tools.find((one) => one.name === name);
  if (tool === undefined) throw new ToolNotFound(`the client has no tool \`${name}\``);
  const registry = client instanceof Client ? client.services : new ToolServiceRegistry();
  const { callId = "call", sessionId = "session", cancellation = new Cancellation() } = options;
  const argumentsJson = typeof args === "string" ? args : toJson(args);
  const context = new ToolContext({
    sessionId,
    state: sessionState(1, sessionId, encodeText(toJson(options.metadata ?? {}))),
    batchCallId: "batch",
    cancellation,
    services: registry.allowing(options.services ?? tool.services),
    callId,
    reporter: silentReporter,
    argumentsJson,
    cwd: options.cwd ?? "",
    timeoutMs: options.timeoutMs,
  });
  try {
    return record(tool, callId, await tool.run(argumentsJson, context));
  } catch (thrown) {
    const stopped = stoppedBy(thrown, cancellation);
    if (stopped !== undefined) {
      const { effect } = stopped;
      return new CallResult({ callId, tool: tool.name, outcome: "cancelled", isError: true, effect });
    }
    return record(tool, callId, resultOfThrown(thrown));
  }
}

/** Sealed first, so that what could not be sent is an error here, too. */
function record(tool: Tool, callId: string, result: ToolResult): CallResult {
  const sealed = seal(result);
  const { isError, stopFlag, error, contents } = sealed.result;
  return new CallResult({
    callId,
    tool: tool.name,
    outcome: isError ? "error" : "success",
    isError,
    stopFlag,
    error,
    contents,
    structured: parsedField(sealed.structuredJson),
    metadata: parsedField(sealed.metadataJson),
    sanitised: sealed.sanitised,
    effect: "executed",
    attempts: 1,
  });
}

/**
 * Asks a hook as the sidecar would, in this process, and resolves with what it says. A question without
 * `hookId` is for the only hook of its point. What the handler throws, this rejects with.
 */
export function askHook(hooks: Hooks | Client, asked: HookQuestion): Promise<HookAnswer> {
  return (hooks instanceof Client ? hooks.hooks : hooks).answer(asked);
}

/** A question about a call. `fields` are those that the test is about. */
export function hookInput(fields: Partial<HookInput> = {}): HookInput {
  const args = fields.toolArgs ?? {};
  return {
    point: "before_tool_call",
    hookId: "",
    timestampMs: 0,
    sessionId: "session",
    rootSessionId: "session",
    runId: "run",
    turnId: "turn",
    batchId: "batch",
    cwd: "",
    mode: "default",
    attempt: 1,
    signal: new AbortController().signal,
    callId: "call",
    toolName: "",
    toolArgs: args,
    toolArgsJson: toJson(args),
    risk: undefined,
    kind: undefined,
    toolDigest: new Uint8Array(),
    validation: undefined,
    earlier: [],
    result: undefined,
    ...fields,
  };
}

/** An approval that waits, to ask a hook or an approver about. `fields` are those that the test is about. */
export function waitingApproval(
  tool: string,
  args: Readonly<Record<string, unknown>> = {},
  fields: Partial<Approval> = {},
): Approval {
  const text = toJson(args);
  return {
    approvalId: "approval",
    batchId: "batch",
    sessionId: "session",
    rootSessionId: "session",
    runId: "run",
    turnId: "turn",
    call: { callId: "call", name: tool, arguments: text, truncated: false },
    tool,
    owner: "test",
    toolDigest: new Uint8Array(),
    risk: "dangerous",
    kind: "other",
    effectiveArgumentsJson: text,
    displayArguments: text,
    argumentsCut: false,
    digest: createHash("sha256").update(text).digest(),
    verdict: {
      effect: "ask",
      stage: "mode_default",
      rule: "",
      source: "",
      origin: "",
      segment: "",
      segmentIndex: undefined,
      message: "",
      policyRevision: 0,
      hookId: "",
    },
    toolReason: "",
    allowedChoices: CHOICES,
    grantCandidates: [],
    state: "pending",
    createdAtMs: 0,
    expiresAtMs: undefined,
    decision: undefined,
    pendingInBatch: 1,
    mode: "default",
    callOutcome: undefined,
    etag: "",
    ...fields,
  };
}
