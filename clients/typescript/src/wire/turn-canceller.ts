/** Sends CancelTurn in the background, and waits for that at the end. */
import { TurnService } from "../gen/callgate/v1/turn_service_pb.js";
import type { Logger } from "../logger.js";
import type { Link } from "./link.js";
import { errorOf } from "./status.js";
import { isTransient } from "./turn-mux.js";
import { sleep, within } from "./wait.js";

const TRIES = 3;
const CLOSE_MS = 5_000;

/** See the head of this file. */
export class TurnCanceller {
  readonly #open = new Set<Promise<void>>();

  constructor(
    private readonly link: Link,
    private readonly log: Logger,
  ) {}

  /** Begins to cancel. */
  cancel(turnId: string, sessionId: string, reason: string): void {
    const sending = this.#send(turnId, sessionId, reason);
    this.#open.add(sending);
    void sending.finally(() => this.#open.delete(sending));
  }

  /** Waits for what was begun, bounded. */
  async close(): Promise<void> {
    if (this.#open.size > 0) await within(Promise.all(this.#open), CLOSE_MS);
  }

  async #send(turnId: string, sessionId: string, reason: string): Promise<void> {
    for (let tried = 1; ; tried += 1) {
      try {
        const request = { turnId, sessionId, reason };
        await this.link.ask(TurnService, (stub, options) => stub.cancelTurn(request, options));
        return;
      } catch (error) {
        const failure = errorOf(error);
        if (!isTransient(failure) || tried === TRIES) {
          this.log.warn(`turn ${turnId} could not be cancelled: ${failure.message} [${failure.code}]`);
          return;
        }
      }
      await sleep(100 * tried);
    }
  }
}
