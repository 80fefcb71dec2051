/**
 * A handle for one turn: its result, and its events as they happen.
 *
 * Never holds up the wire: events that are not kept are dropped when the reader falls behind; kept ones
 * are few by their nature, and none is ever dropped.
 */
import { CallgateError } from "./errors.js";
import type { TurnEvent, TurnResult } from "./events.js";

const LOSSY_EVENTS_MAX = 1_024;

/** What carries the events of one turn to its handle. */
export interface TurnSource {
  /** Cancels the turn, soon and in the background. */
  cancel(reason: string): void;
  /** Wants no more events; the turn goes on. */
  detach(): void;
}

/** Events on their way from the wire to the reader. */
export class TurnFeed {
  readonly #events: TurnEvent[] = [];
  readonly #lostBytes = new Map<string, number>();
  readonly #wakers: (() => void)[] = [];
  #result: TurnResult | undefined;
  #end: Error | undefined;
  #isStopped = false;

  /** Some happened. */
  put(events: readonly TurnEvent[]): void {
    if (this.#isOver) return;
    for (const event of events) {
      if (event.sequence === 0 && event.type !== "turn_snapshot" && this.#events.length >= LOSSY_EVENTS_MAX) {
        if (event.type === "call_output") this.#count(event.callId, event.data.length + event.droppedBytes);
        continue;
      }
      this.#events.push(this.#withLost(event));
      if (event.type === "turn_completed") this.#result = event.result;
    }
    this.#wake();
  }

  #count(callId: string, bytes: number): void {
    this.#lostBytes.set(callId, (this.#lostBytes.get(callId) ?? 0) + bytes);
  }

  /** Counts what was dropped here into the next output that is kept. */
  #withLost(event: TurnEvent): TurnEvent {
    if (event.type !== "call_output" || !this.#lostBytes.has(event.callId)) return event;
    const lost = this.#lostBytes.get(event.callId) ?? 0;
    this.#lostBytes.delete(event.callId);
    return { ...event, droppedBytes: event.droppedBytes + lost };
  }

  /** No more will come. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#end = error;
    this.#wake();
  }

  /** No more will come here, and the turn goes on. */
  stop(why: Error): void {
    if (this.#isOver) return;
    this.#isStopped = true;
    this.fail(why);
  }

  get #isOver(): boolean {
    return this.#result !== undefined || this.#end !== undefined;
  }

  #wake(): void {
    for (const wake of this.#wakers.splice(0)) wake();
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => this.#wakers.push(resolve));
  }

  /** The next event; undefined when there are no more. */
  async next(): Promise<TurnEvent | undefined> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) return event;
      if (this.#result !== undefined || this.#isStopped) return undefined;
      if (this.#end !== undefined) throw this.#end;
      await this.#changed();
    }
  }

  /** The result, once there is one; leaves the events to whoever reads them. */
  async result(): Promise<TurnResult> {
    for (;;) {
      if (this.#result !== undefined) return this.#result;
      if (this.#end !== undefined) throw this.#end;
      await this.#changed();
    }
  }
}

/**
 * One turn, which runs already. `await turn` gives the result, `for await (const event of turn)` the
 * events; after the loop, `await turn` gives the result at once.
 *
 * Leaving the loop early does not cancel the turn: call `cancel` or `detach`. With `onSuspend: "end"` the
 * events end after `turn_suspended` if people are awaited, and `await turn` rejects with `Suspended`.
 */
export class Turn implements PromiseLike<TurnResult>, AsyncIterable<TurnEvent> {
  readonly turnId: string;
  readonly #feed: TurnFeed;
  readonly #source: TurnSource;

  /** Made by `Client.runTurn` and `Client.attachTurn`. */
  constructor(turnId: string, feed: TurnFeed, source: TurnSource, signal: AbortSignal | undefined) {
    this.turnId = turnId;
    this.#feed = feed;
    this.#source = source;
    if (signal === undefined) return;
    const abort = (): void => {
      source.cancel("the orchestrator cancelled");
      feed.fail(errorOfSignal(signal));
      source.detach();
    };
    if (signal.aborted) {
      abort();
      return;
    }
    signal.addEventListener("abort", abort, { once: true });
    const release = () => signal.removeEventListener("abort", abort);
    feed.result().then(release, release);
  }

  /** How the turn ended. Rejects with a `CallgateError`, or with the reason of the signal that was given. */
  result(): Promise<TurnResult> {
    return this.#feed.result();
  }

  // biome-ignore lint/suspicious/noThenProperty: a turn is awaited as its result
  then<A = TurnResult, B = never>(
    onResult?: ((result: TurnResult) => A | PromiseLike<A>) | null,
    onError?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.result().then(onResult, onError);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, undefined> {
    for (let event = await this.#feed.next(); event !== undefined; event = await this.#feed.next())
      yield event;
  }

  /** Cancels the turn and its run. Its last event tells when that is done. */
  cancel(reason = ""): void {
    this.#source.cancel(reason);
  }

  /** Ends the events here, and `await turn` rejects; the turn goes on. `Client.attachTurn` takes it up again. */
  detach(): void {
    this.#source.detach();
    this.#feed.stop(new CallgateError("the turn was detached; it goes on", { code: "turn_detached" }));
  }
}

function errorOfSignal(signal: AbortSignal): Error {
  const { reason } = signal;
  return reason instanceof Error ? reason : new Error("the orchestrator cancelled", { cause: reason });
}
