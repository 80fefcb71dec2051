/**
 * Where the reading of one turn stands. Survives every stream, and passes no event on twice.
 *
 * Opens and closes nothing.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { LimitExceeded, Suspended } from "../errors.js";
import type { TurnEvent } from "../events.js";
import * as tu from "../gen/callgate/v1/turn_service_pb.js";
import { turnEvent, turnInfo, turnResult } from "./convert-turns.js";

const REQUEST_BYTES_MAX = 4 * 1024 * 1024;

/**
 * What is wrong with a request that no sidecar takes. Found here, because on a shared stream it would end
 * the turns of others, again and again.
 */
export function tooLargeRequest(request: tu.RunTurnRequest): LimitExceeded | undefined {
  const size = toBinary(tu.RunTurnRequestSchema, request).length;
  if (size <= REQUEST_BYTES_MAX) return undefined;
  const limit = { name: "message_bytes_max", allowed: REQUEST_BYTES_MAX, actual: size };
  return new LimitExceeded(`the turn has ${size} bytes, at most ${REQUEST_BYTES_MAX} are allowed`, { limit });
}

/** See the head of this file. */
export class TurnReader {
  accepted: boolean;
  completed = false;
  #epoch: number;
  #last: number;
  #awaited: readonly string[] | undefined;

  constructor(
    readonly turnId: string,
    seen: { epoch?: number; afterSequence?: number } = {},
  ) {
    this.#epoch = seen.epoch ?? 0;
    this.#last = seen.afterSequence ?? 0;
    this.accepted = this.#epoch > 0 || this.#last > 0;
  }

  /** The events that were not seen yet. */
  take(message: tu.TurnEvents): TurnEvent[] {
    if (this.#epoch > 0 && message.epoch < this.#epoch) return [];
    if (message.epoch !== this.#epoch) {
      if (this.#epoch > 0) this.#last = 0;
      this.#epoch = message.epoch;
    }
    this.accepted = true;
    const events: TurnEvent[] = [];
    if (message.snapshot !== undefined) events.push(this.#snapshot(message.snapshot));
    for (const item of message.events) this.#event(item, events);
    if (message.snapshot?.completed !== undefined && !this.completed) {
      events.push(this.#end(message.snapshot, message.snapshot.completed));
    }
    return events;
  }

  #snapshot(turn: tu.Turn): TurnEvent {
    const info = turnInfo(turn);
    const waiting = info.calls.filter((call) => call.state === "awaiting_approval");
    this.#awaited = info.state === "suspended" ? waiting.map((call) => call.approvalId) : undefined;
    const head = { turnId: this.turnId, epoch: this.#epoch, sequence: 0, occurredAtMs: info.updatedAtMs };
    return { type: "turn_snapshot", ...head, turn: info };
  }

  #event(item: tu.TurnEvent, events: TurnEvent[]): void {
    const sequence = Number(item.sequence);
    if (sequence > 0) {
      if (sequence <= this.#last) return;
      this.#last = sequence;
    }
    const event = turnEvent(this.turnId, this.#epoch, item);
    if (event !== undefined) events.push(event);
    // Where the turn stands is what its last kept event says.
    if (sequence > 0) this.#awaited = event?.type === "turn_suspended" ? event.approvalIds : undefined;
    this.completed ||= event?.type === "turn_completed";
  }

  /** The end itself is among the events that are no longer kept. */
  #end(turn: tu.Turn, completed: tu.TurnCompleted): TurnEvent {
    this.completed = true;
    this.#last = Math.max(this.#last, Number(turn.lastSequence));
    return {
      type: "turn_completed",
      turnId: this.turnId,
      epoch: this.#epoch,
      sequence: this.#last,
      occurredAtMs: Number(turn.updatedAtMs),
      result: turnResult(this.turnId, completed),
    };
  }

  /**
   * Forgets where the reader stands: the turn was lost with a process and begins anew. The sidecar records
   * what must not run twice before it is sent, so a turn that it does not know has sent nothing of that kind.
   */
  startAgain(): void {
    this.#epoch = 0;
    this.#last = 0;
    this.accepted = false;
    this.#awaited = undefined;
  }

  /** What a stream that ended means, if only people are awaited now. */
  suspended(): Suspended | undefined {
    if (this.#awaited === undefined) return undefined;
    const message = `turn ${JSON.stringify(this.turnId)} waits for people; attachTurn takes it up`;
    return new Suspended(message, { turnId: this.turnId, approvalIds: this.#awaited });
  }

  /** Takes the turn up where this reader stands. */
  attachRequest(
    sessionId: string,
    view: tu.TurnView | undefined,
    onSuspend: tu.OnSuspend,
  ): tu.AttachTurnRequest {
    return create(tu.AttachTurnRequestSchema, {
      turnId: this.turnId,
      sessionId,
      epoch: this.#epoch,
      afterSequence: BigInt(this.#last),
      onSuspend,
      ...(view === undefined ? {} : { view }),
    });
  }
}
