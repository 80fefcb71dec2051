/**
 * What waits to be written on one stream: control ahead of work, one writer.
 *
 * Bounded by what fills it: an executor's work by credit and by the executions that it may have, and what
 * may be lost is refused here beyond a fixed number.
 */

/** Messages that may be lost are refused beyond so many that wait. */
const LOSSY_MAX = 1_024;

/** One message on its way. `T` is the message's type. */
interface Item<T> {
  readonly message: T;
  readonly lost: (() => void) | undefined;
}

/** Iterated by the transport, which asks for the next message when it has written the one before. */
export class Outbox<T> implements AsyncIterable<T>, AsyncIterator<T, undefined> {
  readonly #control: T[] = [];
  readonly #work: Item<T>[] = [];
  #closed = false;
  #waiting: ((result: IteratorResult<T, undefined>) => void) | undefined;

  /** Goes ahead of work. */
  say(message: T): void {
    if (!this.#hand(message)) this.#control.push(message);
  }

  /** Goes in order, behind what was said before. `lost` is called if the stream ends first. */
  sayWork(message: T, lost?: () => void): void {
    if (this.#closed) lost?.();
    else if (!this.#hand(message)) this.#work.push({ message, lost });
  }

  /** As `sayWork`; false if too much waits already. */
  offerWork(message: T): boolean {
    if (this.#work.length >= LOSSY_MAX) return false;
    this.sayWork(message);
    return true;
  }

  /** Ends this half once everything is written. */
  end(): void {
    this.#closed = true;
    if (this.#control.length === 0 && this.#work.length === 0) this.#finish();
  }

  /** Drops everything, and says so to whoever wants to know. */
  abandon(): void {
    this.#closed = true;
    this.#control.length = 0;
    for (const item of this.#work.splice(0)) item.lost?.();
    this.#finish();
  }

  #hand(message: T): boolean {
    if (this.#closed) return true;
    const waiting = this.#waiting;
    if (waiting === undefined) return false;
    this.#waiting = undefined;
    waiting({ done: false, value: message });
    return true;
  }

  #finish(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const control = this.#control.shift();
    if (control !== undefined) return Promise.resolve({ done: false, value: control });
    const work = this.#work.shift();
    if (work !== undefined) return Promise.resolve({ done: false, value: work.message });
    if (this.#closed) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** The transport has failed, and says why to whoever reads. */
  throw(): Promise<IteratorResult<T, undefined>> {
    return this.return();
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.abandon();
    return Promise.resolve({ done: true, value: undefined });
  }
}
