/** A turn on rpcs of its own: RunTurn, or AttachTurn alone, then AttachTurn after each loss. */
import { type Backoff, BackoffState } from "../backoff.js";
import * as errors from "../errors.js";
import * as tu from "../gen/callgate/v1/turn_service_pb.js";
import type { TurnFeed } from "../turn.js";
import type { Link } from "./link.js";
import { errorOf } from "./status.js";
import { isTransient } from "./turn-mux.js";
import { type TurnReader, tooLargeRequest } from "./turn-reader.js";
import { sleep } from "./wait.js";

/** What is read. `request` undefined: the turn runs already. */
export interface RpcTurn {
  readonly reader: TurnReader;
  readonly sessionId: string;
  readonly view: tu.TurnView | undefined;
  readonly onSuspend: tu.OnSuspend;
  readonly request: tu.RunTurnRequest | undefined;
}

/** The turns of one client that are read over rpcs of their own. */
export class RpcTurns {
  readonly #open = new Set<AbortController>();

  constructor(
    private readonly link: Link,
    private readonly backoff: Partial<Backoff>,
    private readonly giveUpMs: number,
  ) {}

  /** Begins to read; the function that is returned ends it. */
  read(turn: RpcTurn, feed: TurnFeed): () => void {
    const problem = turn.request && tooLargeRequest(turn.request);
    if (problem !== undefined) {
      feed.fail(problem);
      return () => {};
    }
    const stop = new AbortController();
    this.#open.add(stop);
    void this.#carry(turn, feed, stop.signal).finally(() => this.#open.delete(stop));
    return () => stop.abort();
  }

  /** Ends the reading of them all. The turns go on. */
  close(): void {
    for (const stop of this.#open) stop.abort();
  }

  async #carry(turn: RpcTurn, feed: TurnFeed, stop: AbortSignal): Promise<void> {
    try {
      await this.#readToTheEnd(turn, feed, stop);
    } catch (error) {
      feed.fail(stop.aborted ? closed() : errorOf(error));
    }
  }

  async #readToTheEnd(turn: RpcTurn, feed: TurnFeed, stop: AbortSignal): Promise<void> {
    const { reader } = turn;
    const backoff = new BackoffState(this.backoff);
    let awaySince: number | undefined;
    while (!reader.completed) {
      if (stop.aborted) throw closed();
      let failure: errors.CallgateError = new errors.ConnectionLost("the stream of the turn ended");
      try {
        for await (const message of await this.#stream(turn, stop)) {
          awaySince = undefined;
          backoff.ready();
          const events = message.turn === undefined ? [] : reader.take(message.turn);
          if (events.length > 0) feed.put(events);
        }
        const suspended = reader.suspended();
        if (suspended !== undefined && turn.onSuspend === tu.OnSuspend.END) return feed.stop(suspended);
      } catch (error) {
        failure = errorOf(error);
      }
      if (reader.completed) return;
      if (failure instanceof errors.NotFound && reader.accepted && turn.request !== undefined) {
        reader.startAgain();
        continue;
      }
      awaySince ??= performance.now();
      if (!isTransient(failure) || performance.now() - awaySince >= this.giveUpMs) throw failure;
      await sleep(backoff.lost(), stop);
    }
  }

  async #stream(
    turn: RpcTurn,
    signal: AbortSignal,
  ): Promise<AsyncIterable<tu.RunTurnResponse | tu.AttachTurnResponse>> {
    const stub = this.link.stub(tu.TurnService);
    const headers = await this.link.dialer.headers();
    const { reader, request } = turn;
    if (request !== undefined && !reader.accepted) return stub.runTurn(request, { headers, signal });
    const attach = reader.attachRequest(turn.sessionId, turn.view, turn.onSuspend);
    return stub.attachTurn(attach, { headers, signal });
  }
}

function closed(): errors.ClientClosed {
  return new errors.ClientClosed("this turn is no longer read here; it goes on");
}
