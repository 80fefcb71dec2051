/**
 * All turns of one client over one long `StreamTurns`.
 *
 * A turn outlives its stream: after a loss it is taken up behind the last event that was seen. A turn that
 * was never seen to be accepted is sent again as it was: its id makes that safe.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { type Backoff, BackoffState } from "../backoff.js";
import * as errors from "../errors.js";
import type { GoAway } from "../gen/callgate/v1/stream_pb.js";
import * as tu from "../gen/callgate/v1/turn_service_pb.js";
import type { Logger } from "../logger.js";
import type { TurnFeed } from "../turn.js";
import type { Connection, Dialer } from "./dialer.js";
import { Outbox } from "./outbox.js";
import { errorOf, errorOfMessage } from "./status.js";
import { TurnReader, tooLargeRequest } from "./turn-reader.js";
import { sleep } from "./wait.js";

/** Another try may help; everything else is the answer. */
export function isTransient(error: errors.CallgateError): boolean {
  return [errors.ConnectionLost, errors.Unavailable, errors.LimitExceeded, errors.Superseded].some(
    (kind) => error instanceof kind,
  );
}

/** A turn on the shared stream. `awaySince` is when its stream was lost; undefined: it has one. */
interface Entry {
  readonly request: tu.RunTurnRequest;
  readonly reader: TurnReader;
  readonly feed: TurnFeed;
  awaySince: number | undefined;
}

/** What belongs to one stream and ends with it. */
class Stream {
  readonly outbox = new Outbox<tu.StreamTurnsRequest>();
  readonly abort = new AbortController();
  /** How long to wait before the next one, where the sidecar said so. */
  waitMs: number | undefined;

  say(body: NonNullable<MessageInitShape<typeof tu.StreamTurnsRequestSchema>["body"]>): void {
    this.outbox.sayWork(create(tu.StreamTurnsRequestSchema, { body }));
  }
}

/** See the head of this file. A turn whose stream is away for longer than `giveUpMs` fails with `ConnectionLost`. */
export class TurnMux {
  readonly #turns = new Map<string, Entry>();
  readonly #backoff: BackoffState;
  readonly #stop = new AbortController();
  #stream: Stream | undefined;
  #serving = false;

  constructor(
    private readonly dialer: Dialer,
    backoff: Partial<Backoff>,
    private readonly giveUpMs: number,
    private readonly log: Logger,
  ) {
    this.#backoff = new BackoffState(backoff);
  }

  /** Begins a turn. */
  run(request: tu.RunTurnRequest, feed: TurnFeed): void {
    const problem = tooLargeRequest(request);
    if (problem !== undefined) return feed.fail(problem);
    if (this.#turns.has(request.turnId)) {
      // No conflict of the sidecar's: the turn is well, only its events have a reader.
      const shown = JSON.stringify(request.turnId);
      const message = `this client follows turn ${shown} already; await that turn, or attachTurn`;
      return feed.fail(new errors.Conflict(message, { code: "turn_already_followed" }));
    }
    const entry: Entry = {
      request,
      reader: new TurnReader(request.turnId),
      feed,
      awaySince: performance.now(),
    };
    this.#turns.set(request.turnId, entry);
    if (this.#stream !== undefined) this.#ask(this.#stream, entry);
    if (!this.#serving) void this.#serve();
  }

  /** Wants no more events of a turn. */
  detach(turnId: string): void {
    if (this.#turns.delete(turnId)) this.#stream?.say({ case: "detach", value: { turnId } });
  }

  /** Ends the stream. Turns go on; their readers are told that the client is closed. */
  close(): void {
    this.#stop.abort();
    this.#stream?.abort.abort();
    this.#failAll(new errors.ClientClosed("the client was closed; the turn goes on"));
  }

  /** Runs while there are turns, or a stream that works. */
  async #serve(): Promise<void> {
    this.#serving = true;
    const line = this.dialer.open();
    try {
      while (!this.#stop.signal.aborted && this.#turns.size > 0) {
        const wait = await this.#attempt(line);
        if (this.#turns.size > 0) await sleep(wait, this.#stop.signal);
      }
    } finally {
      this.#serving = false;
      line.close();
    }
  }

  /** One stream, from its opening to its end. Returns how many milliseconds to wait before the next. */
  async #attempt(line: Connection): Promise<number> {
    const stream = new Stream();
    try {
      const headers = await this.dialer.headers();
      const stub = createClient(tu.TurnService, line.transport);
      for (const entry of this.#turns.values()) this.#ask(stream, entry);
      this.#stream = stream;
      for await (const message of stub.streamTurns(stream.outbox, { headers, signal: stream.abort.signal })) {
        this.#backoff.ready();
        this.#take(stream, message);
      }
      throw new errors.ConnectionLost("the sidecar ended the stream of turns");
    } catch (error) {
      const failure = errorOf(error);
      if (!this.#stop.signal.aborted) {
        this.log.info(`the stream of turns ended: ${failure.message} [${failure.code}]`);
        if (!isTransient(failure)) this.#failAll(failure);
      }
    } finally {
      this.#stream = undefined;
      stream.abort.abort();
      stream.outbox.abandon();
    }
    this.#giveUp();
    const wait = this.#backoff.lost();
    return stream.waitMs ?? wait;
  }

  #giveUp(): void {
    const now = performance.now();
    for (const [turnId, entry] of this.#turns) {
      entry.awaySince ??= now;
      if (now - entry.awaySince < this.giveUpMs) continue;
      this.#turns.delete(turnId);
      entry.feed.fail(new errors.ConnectionLost("the sidecar cannot be reached; the turn may go on"));
    }
  }

  #ask(stream: Stream, entry: Entry): void {
    const { request, reader } = entry;
    if (!reader.accepted) return stream.say({ case: "run", value: request });
    const value = reader.attachRequest(request.sessionId, request.view, request.onSuspend);
    stream.say({ case: "attach", value });
  }

  #take(stream: Stream, message: tu.StreamTurnsResponse): void {
    const { body } = message;
    switch (body.case) {
      case "turn":
        return this.#takeEvents(body.value);
      case "refused":
        return this.#takeRefusal(stream, body.value);
      case "detached":
        return this.#takeDetached(stream, body.value);
      case "goAway":
        return this.#leave(stream, body.value);
      case "notice":
        return this.log.warn(`the sidecar ignored a message: ${body.value.code} ${body.value.message}`);
      default:
        // Newer than this package.
        return;
    }
  }

  #takeEvents(message: tu.TurnEvents): void {
    const entry = this.#turns.get(message.turnId);
    if (entry === undefined) return;
    entry.awaySince = undefined;
    const events = entry.reader.take(message);
    if (entry.reader.completed) this.#turns.delete(message.turnId);
    if (events.length > 0) entry.feed.put(events);
  }

  #takeRefusal(stream: Stream, message: tu.TurnRefused): void {
    const entry = this.#turns.get(message.turnId);
    if (entry === undefined) return;
    const refusal =
      message.error === undefined
        ? new errors.ProtocolError("the sidecar did not say why")
        : errorOfMessage(message.error);
    if (refusal instanceof errors.NotFound && entry.reader.accepted) {
      entry.reader.startAgain();
      return this.#ask(stream, entry);
    }
    this.#turns.delete(message.turnId);
    entry.feed.fail(refusal);
  }

  #takeDetached(stream: Stream, message: tu.TurnDetached): void {
    const entry = this.#turns.get(message.turnId);
    if (entry === undefined) return;
    // We were too slow; nothing is lost, the events are kept.
    if (message.error !== undefined) return this.#ask(stream, entry);
    this.#turns.delete(message.turnId);
    const suspended = entry.reader.suspended();
    if (suspended !== undefined && entry.request.onSuspend === tu.OnSuspend.END) entry.feed.stop(suspended);
    else
      entry.feed.fail(new errors.Conflict("another stream took the turn over", { code: "turn_taken_over" }));
  }

  /** Moves to a new stream within the span that the sidecar named. */
  #leave(stream: Stream, goAway: GoAway): void {
    const min = goAway.reconnectMinMs;
    const wait = min + Math.random() * Math.max(0, goAway.reconnectMaxMs - min);
    stream.waitMs = goAway.reconnectMaxMs > 0 ? 0 : undefined;
    setTimeout(() => stream.abort.abort(), wait).unref();
  }

  #failAll(error: errors.CallgateError): void {
    const entries = [...this.#turns.values()];
    this.#turns.clear();
    for (const entry of entries) entry.feed.fail(error);
  }
}
