/**
 * Reads `WatchApprovals` across lost streams.
 *
 * Never loses an update and never passes one on twice: a stream is only read when somebody asks for the
 * next update, and the next stream begins behind the last one that was given.
 */

import type { Approval, ApprovalUpdate } from "../approval.js";
import { type Backoff, BackoffState } from "../backoff.js";
import * as errors from "../errors.js";
import {
  type ApprovalFilter,
  ApprovalService,
  type WatchApprovalsResponse,
} from "../gen/callgate/v1/approval_service_pb.js";
import type { Logger } from "../logger.js";
import { approvalOf } from "./convert-approvals.js";
import type { Link } from "./link.js";
import { errorOf } from "./status.js";
import { sleep } from "./wait.js";

/** The sidecar says something every 15 s; a stream that is silent for three times that is dead. */
const SILENCE_MS = 45_000;
const TRANSIENT = [errors.ConnectionLost, errors.Unavailable, errors.LimitExceeded, errors.DeadlineExceeded];

/** One stream of the watch. */
interface Stream {
  readonly abort: AbortController;
  readonly messages: AsyncIterator<WatchApprovalsResponse>;
  silent: boolean;
}

/** See the head of this file. `giveUpMs` undefined: the sidecar may stay away for ever. */
export class WatchReader {
  readonly #link: Link;
  readonly #filter: ApprovalFilter;
  readonly #giveUpMs: number | undefined;
  readonly #log: Logger;
  readonly #backoff: BackoffState;
  readonly #stop = new AbortController();
  #cursor: string;
  #stream: Stream | undefined;
  #inSnapshot = false;
  #snapshot: Approval[] = [];
  #awaySince: number | undefined;

  constructor(
    link: Link,
    filter: ApprovalFilter,
    options: { backoff: Partial<Backoff>; giveUpMs: number | undefined; afterCursor: string; log: Logger },
  ) {
    this.#link = link;
    this.#filter = filter;
    this.#giveUpMs = options.giveUpMs;
    this.#cursor = options.afterCursor;
    this.#log = options.log;
    this.#backoff = new BackoffState(options.backoff);
  }

  /** Behind the last update that was given. */
  get cursor(): string {
    return this.#cursor;
  }

  /** Ends the stream, and a `next` that waits. */
  close(): void {
    this.#stop.abort();
    this.#drop();
  }

  /** The next update; undefined: the watch was closed. */
  async next(): Promise<ApprovalUpdate | undefined> {
    while (!this.#stop.signal.aborted) {
      try {
        const update = await this.#read();
        if (update !== undefined && !this.#stop.signal.aborted) return update;
      } catch (error) {
        const wasSilent = this.#stream?.silent ?? false;
        this.#drop();
        if (this.#stop.signal.aborted) return undefined;
        const silence = new errors.ConnectionLost(`nothing came for ${SILENCE_MS / 1000} s`);
        await this.#recover(wasSilent ? silence : errorOf(error));
      }
    }
    return undefined;
  }

  /** One message; undefined if it says nothing yet. */
  async #read(): Promise<ApprovalUpdate | undefined> {
    this.#stream ??= await this.#open();
    const stream = this.#stream;
    const timer = setTimeout(() => {
      stream.silent = true;
      stream.abort.abort();
    }, SILENCE_MS).unref();
    try {
      const { done, value } = await stream.messages.next();
      if (done) throw new errors.ConnectionLost("the sidecar ended the watch");
      this.#awaySince = undefined;
      this.#backoff.ready();
      return this.#take(value);
    } finally {
      clearTimeout(timer);
    }
  }

  async #open(): Promise<Stream> {
    const stub = this.#link.stub(ApprovalService);
    const headers = await this.#link.dialer.headers();
    const abort = new AbortController();
    this.#inSnapshot = this.#cursor === "";
    this.#snapshot = [];
    const request = { filter: this.#filter, afterCursor: this.#cursor };
    const messages = stub.watchApprovals(request, { headers, signal: abort.signal })[Symbol.asyncIterator]();
    return { abort, messages, silent: false };
  }

  #take(message: WatchApprovalsResponse): ApprovalUpdate | undefined {
    const approvals = message.approvals.map(approvalOf);
    if (this.#inSnapshot) {
      // A snapshot is all or nothing: one that was cut is read from its beginning.
      this.#snapshot.push(...approvals);
      if (!message.snapshotComplete) return undefined;
      this.#inSnapshot = false;
      this.#cursor = message.cursor || this.#cursor;
      const all = this.#snapshot;
      this.#snapshot = [];
      return { approvals: all, snapshot: true, cursor: this.#cursor };
    }
    this.#cursor = message.cursor || this.#cursor;
    return approvals.length > 0 ? { approvals, snapshot: false, cursor: this.#cursor } : undefined;
  }

  #drop(): void {
    this.#stream?.abort.abort();
    this.#stream = undefined;
  }

  /** Resolves when another try may help, and throws if none can. */
  async #recover(failure: errors.CallgateError): Promise<void> {
    if (failure.code === "cursor_expired" && this.#cursor !== "") {
      this.#log.info("the watch of approvals begins anew: its cursor is too old");
      this.#cursor = "";
      return;
    }
    if (!TRANSIENT.some((kind) => failure instanceof kind)) throw failure;
    const now = performance.now();
    this.#awaySince ??= now;
    if (this.#giveUpMs !== undefined && now - this.#awaySince >= this.#giveUpMs) {
      this.#awaySince = undefined;
      throw failure;
    }
    this.#log.info(`the watch of approvals ended: ${failure.message} [${failure.code}]`);
    await sleep(Math.max(this.#backoff.lost(), failure.retryAfterMs ?? 0), this.#stop.signal);
  }
}
