/**
 * Runs what the sidecar dispatches, and remembers it until the sidecar has the result.
 *
 * Knows neither protobuf nor sockets: what has to be said goes to an `ExecutorLink`. A handler begins at
 * most once, and whatever it does, its call gets one answer and nothing reaches the process as an
 * unhandled rejection.
 */
import type { Cancellation, CancelReason, ToolServiceRegistry } from "./context.js";
import { ToolCancelled, ToolError } from "./errors.js";
import { type Dispatch, Execution, type ExecutionHost, type ExecutorLink, keyOf } from "./execution.js";
import type { Logger } from "./logger.js";
import { resultOfThrown } from "./result.js";
import { type Outcome, Stopped, seal } from "./seal.js";
import type { Tool } from "./tool.js";

const QUEUE_MIN = 64;
/** What a hello can list; more could not be resumed. */
const IN_FLIGHT_MAX = 1_024;
/** What a handler that was told to stop gets beyond its grace before it counts as given up. */
const GIVE_UP_MS = 2_000;
const GIVEN_UP_SHOWN_MAX = 16;
const CHUNK_BYTES_MAX = 64 * 1024;

/** The executions of one process. */
export class Executor implements ExecutionHost {
  /** Set by the stream that carries it. */
  link!: ExecutorLink;
  chunkMax = CHUNK_BYTES_MAX;
  draining = false;
  readonly #active = new Map<string, { tool: Tool; digest: Uint8Array }>();
  readonly #executions = new Map<string, Execution>();
  readonly #queue: Execution[] = [];
  readonly #running = new Set<Execution>();
  readonly #runningByTool = new Map<string, number>();
  /** Told to stop, and still in their slots: a handler cannot be taken from the loop. */
  readonly #givenUp = new Set<Execution>();
  readonly #idle: (() => void)[] = [];
  #finished = 0;

  /** `maxConcurrency` handlers run at once; the rest waits here, accepted, up to as many again and at least 64. */
  constructor(
    readonly services: ToolServiceRegistry,
    public maxConcurrency: number,
    readonly log: Logger,
  ) {}

  // Tools.

  /** The sidecar took the tool; calls of it come from now on. */
  activate(tool: Tool, digest: Uint8Array): void {
    this.#active.set(tool.name, { tool, digest });
  }

  /** The tool is gone. Executions of it go on. */
  deactivate(name: string): void {
    this.#active.delete(name);
  }

  /** Forgets tools that the sidecar does not have any more. */
  keepOnly(names: Iterable<string>): void {
    const wanted = new Set(names);
    for (const name of [...this.#active.keys()]) if (!wanted.has(name)) this.#active.delete(name);
  }

  /** The tool that the sidecar means, if it is still this definition. */
  find(name: string, digest: Uint8Array): Tool | undefined {
    const known = this.#active.get(name);
    if (known === undefined) return undefined;
    const differs =
      known.digest.length > 0 && digest.length > 0 && Buffer.compare(known.digest, digest) !== 0;
    return differs ? undefined : known.tool;
  }

  // What the sidecar says.

  /** Takes a call, or says why not. The same one again never begins twice. */
  execute(dispatch: Dispatch): void {
    const known = this.#executions.get(keyOf(dispatch.executionId, dispatch.attempt));
    if (known !== undefined) {
      if (known.state === "finished") this.link.result(known);
      else this.link.accepted(known, known.state === "queued");
      return;
    }
    if (this.draining) {
      this.link.rejected(dispatch, "draining", "the executor shuts down");
      return;
    }
    const tool = this.find(dispatch.toolName, dispatch.toolDigest);
    if (tool === undefined) {
      this.link.rejected(dispatch, "unknown_tool", "no such tool, or another definition of it");
      return;
    }
    const execution = new Execution(dispatch, tool, this);
    const hasRoom = this.#executions.size < IN_FLIGHT_MAX;
    if (hasRoom && this.#canStart(execution)) {
      this.#executions.set(execution.key, execution);
      this.link.accepted(execution, false);
      this.#start(execution);
    } else if (hasRoom && this.#queue.length < Math.max(QUEUE_MIN, this.maxConcurrency)) {
      this.#executions.set(execution.key, execution);
      this.#queue.push(execution);
      this.link.accepted(execution, true);
    } else {
      this.link.rejected(dispatch, "busy", "all slots and the queue are taken");
    }
  }

  /** Tells a handler to stop. Its one result follows, whatever it turns out to be. */
  cancel(key: string, ref: unknown, reason: CancelReason, message: string, graceMs = 0): void {
    const execution = this.#executions.get(key);
    this.link.cancelAck(ref, execution === undefined);
    if (execution !== undefined) this.#requestStop(execution, reason, message, graceMs);
  }

  /** More output may be sent, or none. */
  credit(key: string, added: number, stop: boolean): void {
    this.#executions.get(key)?.addCredit(added, stop);
  }

  /** The sidecar is done with a result. */
  acknowledge(key: string): void {
    const execution = this.#executions.get(key);
    if (execution?.state === "finished") this.#drop(execution);
  }

  /** The sidecar wants to hear nothing more of an execution. */
  forget(key: string): void {
    const execution = this.#executions.get(key);
    if (execution === undefined) return;
    this.#drop(execution);
    if (execution.state === "queued") this.#unqueue(execution);
    else if (execution.state === "running") {
      this.#requestStop(execution, "call_cancelled", "the sidecar has given this execution up");
    }
  }

  /** Nobody takes progress or output of an execution any more. Its result is sent all the same. */
  mute(executionId: string): void {
    for (const execution of this.#executions.values()) {
      if (execution.dispatch.executionId === executionId) execution.closeReports();
    }
  }

  /** Takes more or fewer at once from now on; what runs goes on. */
  resize(maxConcurrency: number): void {
    this.maxConcurrency = maxConcurrency;
    this.#startWaiting();
  }

  // What the stream asks.

  /** Everything that runs or is held, in order of arrival. */
  inFlight(): Execution[] {
    return [...this.#executions.values()];
  }

  /** Held results in the order in which they came about. */
  unacknowledged(): Execution[] {
    const held = this.inFlight().filter((execution) => execution.state === "finished");
    return held.sort((one, other) => one.finishNumber - other.finishNumber);
  }

  /** Gives back everything whose handler has not begun. */
  abandonWaiting(message: string): void {
    for (const execution of this.#queue.splice(0)) {
      this.#drop(execution);
      this.link.abandoned(execution, message);
    }
  }

  /** Tells every handler to stop. */
  stopAll(reason: CancelReason, message: string): void {
    for (const execution of this.inFlight()) this.#requestStop(execution, reason, message);
  }

  /** Resolves when nothing runs and every result is acknowledged. */
  waitIdle(): Promise<void> {
    if (this.#executions.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  // Inside.

  #canStart(execution: Execution): boolean {
    const { name, maxConcurrency } = execution.tool;
    return (
      this.#running.size < this.maxConcurrency &&
      (maxConcurrency === 0 || (this.#runningByTool.get(name) ?? 0) < maxConcurrency)
    );
  }

  #startWaiting(): void {
    for (const execution of [...this.#queue]) {
      if (this.#running.size >= this.maxConcurrency) return;
      if (!this.#canStart(execution)) continue;
      this.#unqueue(execution);
      this.link.accepted(execution, false);
      this.#start(execution);
    }
  }

  #unqueue(execution: Execution): void {
    const at = this.#queue.indexOf(execution);
    if (at >= 0) this.#queue.splice(at, 1);
  }

  #start(execution: Execution): void {
    const { name } = execution.tool;
    execution.state = "running";
    this.#running.add(execution);
    this.#runningByTool.set(name, (this.#runningByTool.get(name) ?? 0) + 1);
    void this.#run(execution);
  }

  async #run(execution: Execution): Promise<void> {
    let outcome: Outcome;
    try {
      const context = execution.context(this.services);
      outcome = seal(await execution.tool.run(execution.dispatch.argumentsJson, context));
    } catch (thrown) {
      outcome = this.#outcomeOf(execution, thrown);
    }
    this.#running.delete(execution);
    if (this.#givenUp.delete(execution)) {
      this.log.info(`tool \`${execution.tool.name}\` has returned after it was given up; ${this.#held()}`);
    }
    const { name } = execution.tool;
    this.#runningByTool.set(name, (this.#runningByTool.get(name) ?? 1) - 1);
    this.#settle(execution, outcome);
    this.#startWaiting();
  }

  /** A stop counts as one only if it was asked for; else it is the handler's failure. */
  #outcomeOf(execution: Execution, thrown: unknown): Outcome {
    const stopped = stoppedBy(thrown, execution.cancellation);
    if (stopped !== undefined) return stopped;
    if (!(thrown instanceof ToolError)) {
      // The message may quote arguments, and so may the stack; the sidecar has both.
      const kind = thrown instanceof Error ? thrown.name : typeof thrown;
      this.log.warn(`tool \`${execution.tool.name}\` failed with ${kind}`);
    }
    return seal(resultOfThrown(thrown));
  }

  #requestStop(execution: Execution, reason: CancelReason, message: string, graceMs = 0): void {
    if (execution.state === "finished") return;
    if (execution.state === "queued") {
      if (!execution.cancellation.request(reason, message)) return;
      this.#unqueue(execution);
      this.#settle(execution, new Stopped("not_executed", "cancelled before it began"));
      return;
    }
    if (!execution.cancellation.request(reason, message)) return;
    setTimeout(() => this.#giveUp(execution), graceMs + GIVE_UP_MS).unref();
  }

  /** Says that a slot is lost until its handler returns, which may be never. */
  #giveUp(execution: Execution): void {
    if (!this.#running.has(execution)) return;
    this.#givenUp.add(execution);
    if (this.#givenUp.size < this.maxConcurrency) this.log.warn(this.#held());
    else
      this.log.error(
        `${this.#held()}; no call can run until one of them returns or the process is started anew`,
      );
  }

  #held(): string {
    const names = [...this.#givenUp].slice(0, GIVEN_UP_SHOWN_MAX).map((execution) => execution.tool.name);
    const more = this.#givenUp.size > names.length ? ", ..." : "";
    const what = names.length > 0 ? `: ${names.join(", ")}${more}` : "";
    return `${this.#givenUp.size} of ${this.maxConcurrency} slots are held by handlers that were given up${what}`;
  }

  /** The one place where an execution gets its outcome. */
  #settle(execution: Execution, outcome: Outcome): void {
    execution.closeReports();
    this.#finished += 1;
    execution.finishNumber = this.#finished;
    execution.outcome = outcome;
    execution.state = "finished";
    if (!execution.forgotten) this.link.result(execution);
  }

  #drop(execution: Execution): void {
    execution.forgotten = true;
    this.#executions.delete(execution.key);
    if (this.#executions.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** What a handler that threw means by it, if it was told to stop; undefined: it failed. */
export function stoppedBy(thrown: unknown, cancellation: Cancellation): Stopped | undefined {
  if (!cancellation.cancelled) return undefined;
  if (thrown instanceof ToolCancelled) return new Stopped(thrown.effect, thrown.message);
  // As `fetch`, timers and streams say it.
  for (let error = thrown, depth = 0; error instanceof Error && depth < 8; error = error.cause, depth += 1) {
    if (error.name === "AbortError" || error === cancellation.signal.reason)
      return new Stopped("unknown", "the handler stopped");
  }
  return undefined;
}
