/**
 * When to try again after a lost connection.
 *
 * Decides nothing but the wait: whether another try can help is the caller's question.
 */

/**
 * Exponential waits with full jitter, in milliseconds.
 *
 * The jitter is taken below the capped span, so that clients that lost the same sidecar stay apart
 * for good. Waits grow until a connection has lasted `stableAfterMs`: one that is made and lost at
 * once is no success.
 */
export interface Backoff {
  /** The longest first wait. */
  initialMs: number;
  /** The longest wait of all. */
  capMs: number;
  /** How long a connection must last before waits begin anew. */
  stableAfterMs: number;
}

/** 0.2 s, doubled up to 15 s; a connection is stable after a minute. */
export const DEFAULT_BACKOFF: Backoff = { initialMs: 200, capMs: 15_000, stableAfterMs: 60_000 };

/** The waits of one connection that is made again and again. */
export class BackoffState {
  readonly #backoff: Backoff;
  readonly #clock: () => number;
  readonly #random: () => number;
  #failures = 0;
  #readySince: number | undefined;

  constructor(
    backoff: Partial<Backoff> = {},
    clock: () => number = () => performance.now(),
    random: () => number = Math.random,
  ) {
    this.#backoff = { ...DEFAULT_BACKOFF, ...backoff };
    this.#clock = clock;
    this.#random = random;
  }

  /** The connection works, so far. May be called with every message. */
  ready(): void {
    this.#readySince ??= this.#clock();
  }

  /** How many milliseconds to wait before the next try. */
  lost(): number {
    const since = this.#readySince;
    this.#readySince = undefined;
    if (since !== undefined && this.#clock() - since >= this.#backoff.stableAfterMs) this.#failures = 0;
    // The exponent is bounded, so that years of failures do not overflow.
    const span = Math.min(this.#backoff.capMs, this.#backoff.initialMs * 2 ** Math.min(this.#failures, 32));
    this.#failures += 1;
    return this.#random() * span;
  }
}
