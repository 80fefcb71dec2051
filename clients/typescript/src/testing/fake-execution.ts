/** One call that the fake sidecar has sent, and what its executor said about it. Decides nothing. */
import { create } from "@bufbuild/protobuf";
import type { CancelReason } from "../context.js";
import { DeadlineExceeded } from "../errors.js";
import * as ex from "../gen/callgate/v1/executor_service_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import type { CallResult } from "../result.js";
import { callResult, nameOf, numberOf } from "../wire/convert.js";
import type { Outbox } from "../wire/outbox.js";

/** What a stream to an executor carries. */
export type ExecutorOutbox = Outbox<ex.ConnectResponse>;

/** Says something to an executor. */
export function tell(outbox: ExecutorOutbox | undefined, body: ex.ConnectResponse["body"]): void {
  const message = create(ex.ConnectResponseSchema);
  message.body = body;
  outbox?.say(message);
}

/** See the head of this file. */
export class FakeCall {
  /** Whether it had to wait for a slot, one per acceptance. */
  readonly accepted: boolean[] = [];
  /** The reports that came so far: message and fraction. */
  readonly progress: (readonly [string, number | undefined])[] = [];
  /** What it printed beyond its credit so far, as far as it has told. */
  droppedBytes = 0;
  /** How often the result came; more than once only after a reconnect. */
  results = 0;
  /** How often the executor confirmed a cancellation. */
  cancelAcks = 0;
  /** Why the executor did not take it; empty: it did. */
  rejected = "";
  /** Whether the executor gave it back before it began. */
  abandoned = false;
  readonly #output: Uint8Array[] = [];
  readonly #watchers = new Set<() => void>();
  #outcome: ty.CallResult | undefined;

  /** @internal */
  constructor(
    readonly request: ex.ExecuteRequest,
    /** @internal The stream of its executor; undefined: lost. */
    readonly line: () => ExecutorOutbox | undefined,
  ) {}

  /** What it printed so far. */
  get output(): string {
    return Buffer.concat(this.#output).toString();
  }

  /** @internal How it ended, as the wire has it. */
  get outcome(): ty.CallResult | undefined {
    return this.#outcome;
  }

  /** Resolves when something about this call is so. Rejects with `DeadlineExceeded`. */
  until(condition: (call: this) => boolean, timeoutMs = 10_000): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (!condition(this)) return;
        clearTimeout(timer);
        this.#watchers.delete(look);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#watchers.delete(look);
        reject(new DeadlineExceeded(`nothing of the kind happened within ${timeoutMs} ms`));
      }, timeoutMs);
      this.#watchers.add(look);
      look();
    });
  }

  /** How it ended. */
  async result(timeoutMs = 10_000): Promise<CallResult> {
    await this.until(() => this.#outcome !== undefined, timeoutMs);
    return callResult(this.#outcome!);
  }

  /** Tells the executor to stop it. */
  cancel(reason: CancelReason = "call_cancelled", message = "", graceMs = 5_000): void {
    const execution = this.request.execution!;
    const value = create(ex.CancelExecutionSchema, {
      execution,
      reason: numberOf("reason", ex.CancelReason, reason),
      message,
      graceMs,
    });
    tell(this.line(), { case: "cancel", value });
  }

  /** Lets it print more, or no more. */
  addCredit(addedBytes: number, stop = false): void {
    const value = create(ex.OutputCreditSchema, { execution: this.request.execution!, addedBytes, stop });
    tell(this.line(), { case: "outputCredit", value });
  }

  /** @internal Takes what the executor says; false: it is not about an execution. */
  take(body: ex.ConnectRequest["body"]): void {
    if (body.case === "accepted") this.accepted.push(body.value.queued);
    else if (body.case === "progress") this.progress.push([body.value.message, body.value.fraction]);
    else if (body.case === "cancelAck") this.cancelAcks += 1;
    else if (body.case === "rejected") this.#reject(nameOf(ex.RejectReason, body.value.reason, "busy"));
    else if (body.case === "output") {
      this.#output.push(body.value.data);
      this.droppedBytes += Number(body.value.droppedBytes);
    } else if (body.case === "abandoned") {
      this.abandoned = true;
      this.end("error", { error: { code: "tool_unavailable", messageForModel: "it was given back" } });
    } else if (body.case === "result") this.#finish(body.value);
    for (const watcher of [...this.#watchers]) watcher();
  }

  #reject(reason: string): void {
    this.rejected = reason;
    this.end("error", {
      error: { code: "tool_unavailable", messageForModel: `it was not taken: ${reason}` },
    });
  }

  #finish(message: ex.ExecuteResult): void {
    this.results += 1;
    if (message.outcome.case === "cancelled") {
      const { effect, message: text } = message.outcome.value;
      return this.end("cancelled", { effect, error: { code: "tool_cancelled", messageForModel: text } });
    }
    const result = message.outcome.value ?? create(ty.ToolResultSchema, { isError: true });
    const { contents, isError, stopFlag, error, structuredJson, metadataJson, sanitised } = result;
    this.end(isError ? "error" : "success", {
      contents,
      stopFlag,
      structuredJson,
      metadataJson,
      sanitised,
      effect: ty.CallEffect.EXECUTED,
      ...(isError ? { error: error ?? { code: "tool_execution_failed" } } : {}),
    });
  }

  /** @internal The first end counts. */
  end(outcome: "success" | "error" | "cancelled", fields: Partial<Parameters<typeof ended>[2]>): void {
    this.#outcome ??= ended(this.request, outcome, fields);
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** How a call ended, as the wire has it. */
export function ended(
  about: { callId: string; toolName: string },
  outcome: "success" | "error" | "cancelled",
  fields: Omit<NonNullable<Parameters<typeof create<typeof ty.CallResultSchema>>[1]>, "$typeName">,
): ty.CallResult {
  return create(ty.CallResultSchema, {
    callId: about.callId,
    tool: about.toolName,
    outcome: numberOf("outcome", ty.CallOutcome, outcome),
    isError: outcome !== "success",
    ...fields,
  });
}
