/** Hook messages to the package's types and back. No decisions are made here. */
import { create } from "@bufbuild/protobuf";
import { answerOf } from "../approval.js";
import * as hk from "../gen/callgate/v1/hook_service_pb.js";
import { MessageRole, RiskLevel, ToolKind } from "../gen/callgate/v1/types_pb.js";
import * as hook from "../hook.js";
import { decodeText, encodeText, parsedField, toJson } from "../json.js";
import { cut, type ToolResult } from "../result.js";
import { callResult, errorInfoOf, kindOf, nameOf, numberOf, riskOf, toolResult, wholeMs } from "./convert.js";
import { approvalOf } from "./convert-approvals.js";
import { modeOf } from "./convert-permission.js";
import { detectorOf, recordedCall, runOf } from "./convert-turns.js";
import { defined } from "./dialer.js";

const DESCRIPTION_BYTES_MAX = 1_024;
const FAILURE_BYTES_MAX = 1_024;

/** One hook as the sidecar is told of it. Throws `TypeError`: there is no such risk, kind or failure mode. */
export function registrationMessage(spec: hook.HookSpec): hk.HookRegistration {
  const { matcher } = spec;
  return create(hk.HookRegistrationSchema, {
    hookId: spec.hookId,
    points: spec.points.map((point) => numberOf("points", hk.HookPoint, point)),
    order: spec.order,
    matcher: {
      tools: [...(matcher.tools ?? [])],
      riskLevels: (matcher.risks ?? []).map((item) => numberOf("risks", RiskLevel, item)),
      kinds: (matcher.kinds ?? []).map((item) => numberOf("kinds", ToolKind, item)),
      rules: [...(matcher.rules ?? [])],
      argumentPointers: [...(matcher.arguments ?? [])],
    },
    timeoutMs: wholeMs(spec.timeoutMs),
    onFailure: numberOf("onFailure", hk.HookFailureMode, spec.onFailure),
    observe: spec.observe,
    withholdOnFailure: spec.withholdOnFailure,
    description: cut(spec.description, DESCRIPTION_BYTES_MAX),
  });
}

/** What a hook is asked or told; undefined for a point that is newer than this package. */
export function questionOf(message: hk.HookInvocation, signal: AbortSignal): hook.HookQuestion | undefined {
  const head: hook.HookHead = {
    hookId: message.hookId,
    timestampMs: Number(message.invokedAtMs),
    sessionId: message.sessionId,
    rootSessionId: message.rootSessionId,
    runId: message.runId,
    turnId: message.turnId,
    batchId: message.batchId,
    cwd: message.cwd,
    mode: modeOf(message.mode),
    attempt: message.attempt,
    signal,
  };
  const { payload } = message;
  switch (payload.case) {
    case "before":
      return {
        ...head,
        point: "before_tool_call",
        ...aboutCall(payload.value),
        ...beforeCall(payload.value),
      };
    case "after":
      return {
        ...head,
        point: message.point === hk.HookPoint.AFTER_TOOL_CALL ? "after_tool_call" : "after_tool_failure",
        ...aboutCall(payload.value),
        validation: undefined,
        earlier: [],
        result: payload.value.result && callResult(payload.value.result),
      };
    case "approval":
      return (
        payload.value.approval && {
          ...head,
          point: "approval_requested",
          approval: approvalOf(payload.value.approval),
        }
      );
    case "turn":
      return {
        ...head,
        point: message.point === hk.HookPoint.TURN_STARTED ? "turn_started" : "turn_finished",
        calls: payload.value.calls.map(recordedCall),
        run: runOf(payload.value.run),
        results: payload.value.results.map(callResult),
      };
    case "loopSuspected": {
      const { detector, reason, callIds, run } = payload.value;
      return {
        ...head,
        point: "loop_suspected",
        detector: detectorOf(detector),
        reason,
        callIds,
        run: runOf(run),
      };
    }
    case "diagnosis": {
      const history = parsedField(payload.value.historyJson);
      return {
        ...head,
        point: "loop_diagnose",
        history: Array.isArray(history) ? history : undefined,
        historyJson: decodeText(payload.value.historyJson),
        run: runOf(payload.value.run),
      };
    }
    default:
      return undefined;
  }
}

function aboutCall(about: hk.BeforeToolCall | hk.AfterToolCall) {
  const value = about.argumentsJson.length === 0 ? {} : parsedField(about.argumentsJson);
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return {
    callId: about.call?.callId ?? "",
    toolName: about.call?.name ?? "",
    toolArgs: isObject ? (value as Record<string, unknown>) : undefined,
    toolArgsJson: decodeText(about.argumentsJson),
    risk: about.tool && riskOf(about.tool.riskLevel),
    kind: about.tool && kindOf(about.tool.kind),
    toolDigest: about.tool?.toolDigest ?? new Uint8Array(),
  };
}

function beforeCall(about: hk.BeforeToolCall) {
  return {
    validation: about.validation && errorInfoOf(about.validation),
    earlier: about.earlier.map((item) => ({
      hookId: item.hookId,
      status: nameOf(hk.HookRunStatus, item.status, "failed"),
      says: nameOf(hk.BeforeAction, item.action, "proceed"),
      modified: item.modified,
    })),
    result: undefined,
  };
}

/** What a hook says; of an approval, about the one of that digest. Throws: a result in it cannot be sent. */
export function verdictMessage(
  invocationId: string,
  said: hook.HookAnswer,
  digest: Uint8Array,
): hk.HookVerdict {
  const of = (verdict: hk.HookVerdict["verdict"]) => {
    const made = create(hk.HookVerdictSchema, { invocationId });
    made.verdict = verdict;
    return made;
  };
  if (said instanceof hook.Before) return of({ case: "before", value: beforeMessage(said) });
  if (said instanceof hook.After) return of({ case: "after", value: afterMessage(said) });
  if (said instanceof hook.ApprovalAnswer) {
    const action = numberOf("says", hk.ApprovalAction, said.says);
    const fields = { action, message: said.message, approvalDigest: digest };
    return of({ case: "approval", value: create(hk.ApprovalVerdictSchema, fields) });
  }
  if (said === undefined) throw new TypeError("nobody waits for an answer at this point");
  return of({ case: "loopVerdict", value: create(hk.LoopVerdictSchema, said) });
}

/** The hook's code failed. */
export function failureMessage(invocationId: string, thrown: unknown): hk.HookVerdict {
  const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
  const value = create(hk.HookFailureSchema, { message: cut(text, FAILURE_BYTES_MAX) });
  return create(hk.HookVerdictSchema, { invocationId, verdict: { case: "failure", value } });
}

function beforeMessage(said: hook.Before): hk.BeforeVerdict {
  return create(hk.BeforeVerdictSchema, {
    action: numberOf("says", hk.BeforeAction, said.says),
    modifiedArgsJson: said.args === undefined ? new Uint8Array() : encodeText(toJson(said.args)),
    additionalContext: said.context,
    suppressOutput: said.suppress,
    reasonForUser: said.reason,
    reasonForModel: said.reasonForModel,
    ...defined({ syntheticResult: resultMessage(said.result) }),
  });
}

function afterMessage(said: hook.After): hk.AfterVerdict {
  return create(hk.AfterVerdictSchema, {
    action: numberOf("says", hk.AfterAction, said.says),
    injectedMessages: said.messages.map(({ text, role }) => {
      return { text, role: numberOf("role", MessageRole, role ?? "user") };
    }),
    additionalContext: said.context,
    suppressOutput: said.suppress,
    reasonForUser: said.reason,
    ...defined({ modifiedResult: resultMessage(said.result) }),
  });
}

function resultMessage(result: ToolResult | undefined) {
  return result === undefined ? undefined : toolResult(answerOf(result));
}
