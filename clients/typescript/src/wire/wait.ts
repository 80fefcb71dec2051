/** Waiting that can be given up. Leaves no timer and no listener behind. */

/** The longest that a timer of Node waits; a longer one would not wait at all. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Resolves after a while, or at once with `stop`. The timer keeps the process alive: somebody waits. */
export function sleep(ms: number, stop?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(ms, TIMER_MS_MAX));
    stop?.addEventListener("abort", done, { once: true });
  });
}

/** Awaits something for a while; says whether it came. What it rejects with passes through. */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(TIMER_MS_MAX, Math.max(0, ms)));
  });
  try {
    return await Promise.race([work.then(() => true), over]);
  } finally {
    clearTimeout(timer);
  }
}

/** A promise with its ends. One that nobody awaits makes no noise when it is rejected. */
export class Deferred<T> {
  readonly promise: Promise<T>;
  resolve!: (value: T) => void;
  reject!: (error: unknown) => void;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => {});
  }
}

/** A door that opens and closes: `wait` resolves while it is open. */
export class Gate {
  #opened = new Deferred<void>();
  isOpen = false;

  open(): void {
    this.isOpen = true;
    this.#opened.resolve();
  }

  close(): void {
    if (this.isOpen) this.#opened = new Deferred<void>();
    this.isOpen = false;
  }

  wait(): Promise<void> {
    return this.#opened.promise;
  }
}
