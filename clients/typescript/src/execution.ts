/**
 * One dispatched call, from its arrival until its result is acknowledged.
 *
 * Moves QUEUED → RUNNING → FINISHED and never back. Progress and output that cannot go out are bounded:
 * the newest report replaces an older one, and output is taken only within credit.
 */
import {
  Cancellation,
  type OutputChannel,
  type Reporter,
  type SessionState,
  ToolContext,
  type ToolServiceRegistry,
} from "./context.js";
import type { Outcome } from "./seal.js";
import type { Tool } from "./tool.js";

const PROGRESS_INTERVAL_MS = 100;

export type ExecutionState = "queued" | "running" | "finished";
export type RejectReason = "busy" | "draining" | "unknown_tool" | "bad_arguments" | "too_large";

/** One attempt of one call, as the sidecar sent it. `ref` is the wire's and returned as it is. */
export interface Dispatch {
  readonly executionId: string;
  readonly attempt: number;
  readonly ref: unknown;
  readonly toolName: string;
  readonly argumentsJson: string;
  readonly toolDigest: Uint8Array;
  readonly callId: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly batchCallId: string;
  readonly state: SessionState;
  readonly services: readonly string[];
  readonly cwd: string;
  readonly traceparent: string;
  readonly timeoutMs: number | undefined;
  readonly outputCredit: number;
}

/** What an execution is known by. */
export function keyOf(executionId: string, attempt: number): string {
  return `${attempt} ${executionId}`;
}

/** What the executor says. Never throws and never blocks. */
export interface ExecutorLink {
  /** It is here. */
  accepted(execution: Execution, queued: boolean): void;
  /** It is not taken. */
  rejected(dispatch: Dispatch, reason: RejectReason, message: string): void;
  /** It is given back before it began. */
  abandoned(execution: Execution, message: string): void;
  /** It has an outcome. Kept by the executor until acknowledged. */
  result(execution: Execution): void;
  /** Its handler has been told. */
  cancelAck(ref: unknown, unknown: boolean): void;
  /** It reports. */
  progress(execution: Execution, message: string, fraction: number | undefined, details: Uint8Array): void;
  /** It prints. */
  output(
    execution: Execution,
    channel: OutputChannel,
    sequence: number,
    data: Uint8Array,
    dropped: number,
  ): void;
}

/** What an execution needs of its executor. */
export interface ExecutionHost {
  readonly link: ExecutorLink;
  readonly chunkMax: number;
}

/** See the head of this file. */
export class Execution implements Reporter {
  readonly key: string;
  readonly cancellation = new Cancellation();
  state: ExecutionState = "queued";
  outcome: Outcome | undefined;
  forgotten = false;
  finishNumber = 0;
  /** The stream that has carried the result, so that each carries it once. The link's own. */
  sentOn: unknown;
  readonly #host: ExecutionHost;
  #credit: number;
  #dropped = 0;
  #sequence = 0;
  #report: [string, number | undefined, Uint8Array] | undefined;
  #progressAt = 0;
  #progressTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    readonly dispatch: Dispatch,
    readonly tool: Tool,
    host: ExecutionHost,
  ) {
    this.key = keyOf(dispatch.executionId, dispatch.attempt);
    this.#host = host;
    this.#credit = dispatch.outputCredit;
  }

  /** What the handler gets. */
  context(services: ToolServiceRegistry): ToolContext {
    const sent = this.dispatch;
    return new ToolContext({
      sessionId: sent.sessionId,
      state: sent.state,
      batchCallId: sent.batchCallId,
      cancellation: this.cancellation,
      services: services.allowing(sent.services),
      callId: sent.callId,
      reporter: this,
      argumentsJson: sent.argumentsJson,
      runId: sent.runId,
      turnId: sent.turnId,
      cwd: sent.cwd,
      executionId: sent.executionId,
      attempt: sent.attempt,
      traceparent: sent.traceparent,
      timeoutMs: sent.timeoutMs,
    });
  }

  /** Keeps the newest report; an older one that was not sent yet is replaced. */
  progress(message: string, fraction: number | undefined, details: Uint8Array): void {
    if (this.#closed) return;
    this.#report = [message, fraction, details];
    if (this.#progressTimer !== undefined) return;
    const wait = this.#progressAt - performance.now();
    if (wait <= 0) this.#sendProgress();
    else this.#progressTimer = setTimeout(() => this.#sendProgress(), wait).unref();
  }

  #sendProgress(): void {
    this.#progressTimer = undefined;
    const report = this.#report;
    this.#report = undefined;
    if (report === undefined || this.#closed) return;
    this.#progressAt = performance.now() + PROGRESS_INTERVAL_MS;
    this.#host.link.progress(this, ...report);
  }

  /** Takes what credit allows, so that what waits to be sent is bounded by credit. */
  output(data: Uint8Array, channel: OutputChannel): number {
    const taken = this.#closed ? 0 : Math.min(this.#credit, data.length);
    this.#credit -= taken;
    for (let start = 0; start < taken; start += this.#host.chunkMax) {
      this.#sequence += 1;
      const piece = data.subarray(start, Math.min(taken, start + this.#host.chunkMax));
      const dropped = this.#dropped;
      this.#dropped = 0;
      this.#host.link.output(this, channel, this.#sequence, piece, dropped);
    }
    this.#dropped += data.length - taken;
    return taken;
  }

  /** More may be printed, or nobody listens any more. */
  addCredit(added: number, stop: boolean): void {
    this.#credit = stop ? 0 : this.#credit + added;
  }

  /** Output that was taken and went down with a stream. */
  noteLostOutput(count: number): void {
    this.#dropped += count;
  }

  /** Nothing may follow a result. */
  closeReports(): void {
    this.#closed = true;
    this.#report = undefined;
    clearTimeout(this.#progressTimer);
    this.#progressTimer = undefined;
  }
}
