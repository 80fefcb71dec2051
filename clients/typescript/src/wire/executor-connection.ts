/**
 * One stream of an executor: what belongs to it and ends with it.
 *
 * What must not be lost is not here but in the `Executor`: a result is there until it is acknowledged.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ConnectionLost } from "../errors.js";
import type { Execution } from "../execution.js";
import * as ex from "../gen/callgate/v1/executor_service_pb.js";
import type { GoAway } from "../gen/callgate/v1/stream_pb.js";
import type { Registration } from "../registration.js";
import type { Tool } from "../tool.js";
import { Outbox } from "./outbox.js";
import { Deferred } from "./wait.js";

/** How long the sidecar may take to end its half after ours. */
const END_GRACE_MS = 2_000;

type Body = NonNullable<MessageInitShape<typeof ex.ConnectRequestSchema>["body"]>;

/** See the head of this file. */
export class ExecutorConnection {
  readonly outbox = new Outbox<ex.ConnectRequest>();
  readonly abort = new AbortController();
  readonly drainStarted = new Deferred<void>();
  /** Why this side gave the stream up; undefined: the other side did. */
  failure: Error | undefined;
  welcomed = false;
  halfClosed = false;
  notedUnknown = false;
  goAway: GoAway | undefined;
  /** What the hello of this stream has said; the client may have changed it since. */
  tools: readonly (readonly Tool[])[] = [];
  changes: ReadonlySet<string> = new Set();
  readonly sentChanges = new Set<string>();
  /** Pieces of the hello that are not answered yet, and the answers to the others. */
  readonly rest = new Set<string>();
  readonly answers: Registration[] = [];
  #unanswered = 0;
  #nonce = 0;
  #ping: NodeJS.Timeout | undefined;

  /** Goes ahead of work. */
  say(body: Body): void {
    this.outbox.say(create(ex.ConnectRequestSchema, { body }));
  }

  /** Goes in order, behind what was said before. */
  sayWork(body: Body, lost?: () => void): void {
    this.outbox.sayWork(create(ex.ConnectRequestSchema, { body }), lost);
  }

  /** As `sayWork`, for what may be lost. */
  offerWork(body: Body): void {
    this.outbox.offerWork(create(ex.ConnectRequestSchema, { body }));
  }

  /** Begins to ping. */
  ping(intervalMs: number, misses: number): void {
    const tick = (): void => {
      if (this.#unanswered >= misses)
        return this.fail(new ConnectionLost(`${misses} pings were not answered`));
      this.#unanswered += 1;
      this.#nonce = (this.#nonce + 1) >>> 0;
      this.say({ case: "ping", value: { nonce: this.#nonce } });
    };
    this.#ping = setInterval(tick, intervalMs).unref();
  }

  /** A ping was answered. */
  pong(): void {
    this.#unanswered = 0;
  }

  /** Gives the stream up. */
  fail(why: Error): void {
    this.failure ??= why;
    this.abort.abort();
  }

  /** Ends our half; if the sidecar does not end its own, the stream is cut. */
  halfClose(): void {
    if (this.halfClosed) return;
    this.halfClosed = true;
    this.outbox.end();
    setTimeout(() => this.fail(new ConnectionLost("the stream has ended")), END_GRACE_MS).unref();
  }

  /** Whatever happened, this stream is over. */
  end(): void {
    clearInterval(this.#ping);
    this.abort.abort();
    this.outbox.abandon();
  }
}

/** What a hello lists of an execution. */
export function inFlight(execution: Execution): MessageInitShape<typeof ex.InFlightExecutionSchema> {
  const states = {
    queued: ex.InFlightState.QUEUED,
    running: ex.InFlightState.RUNNING,
    finished: ex.InFlightState.FINISHED,
  } as const;
  return { execution: execution.dispatch.ref as ex.ExecutionRef, state: states[execution.state] };
}
