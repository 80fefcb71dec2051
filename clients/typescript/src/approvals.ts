/**
 * The approver: sees what waits, and decides it.
 *
 * Never decides anything by itself.
 */
import {
  type Approval,
  ApprovalDecision,
  type ApprovalRef,
  type ApprovalUpdate,
  type DecisionOutcome,
} from "./approval.js";
import { type Backoff, BackoffState } from "./backoff.js";
import { type Endpoint, resolveControlEndpoint, type TlsOptions } from "./endpoint.js";
import * as errors from "./errors.js";
import {
  ApprovalService,
  type ApprovalDecision as DecisionMessage,
} from "./gen/callgate/v1/approval_service_pb.js";
import { type Logger, silent } from "./logger.js";
import type { GrantCandidate } from "./permission.js";
import { Sessions } from "./sessions.js";
import { WatchReader } from "./wire/approval-watch.js";
import {
  type ApprovalConditions,
  approvalFilter,
  approvalOf,
  decisionMessage,
  outcomeOfDecision,
} from "./wire/convert-approvals.js";
import { Dialer } from "./wire/dialer.js";
import { Link } from "./wire/link.js";
import { errorOf } from "./wire/status.js";
import { sleep } from "./wire/wait.js";

const DECISIONS_MAX = 100;
// The answer may be lost while the decision is taken; its id makes a repeat harmless.
const LOST = [errors.ConnectionLost, errors.DeadlineExceeded, errors.Unavailable];

/** What `Approvals` is made of. */
export interface ApprovalsOptions {
  /**
   * Absent: `CALLGATE_ENDPOINT`, else the sidecar's default Unix socket; where either is the socket
   * `callgate.sock`, the `control.sock` beside it, which is the one for approvers.
   */
  endpoint?: string;
  /** As for `Client`; over TCP the credential of an approver. */
  token?: string;
  /** For one answer of the sidecar. Absent: 15 000. */
  requestTimeoutMs?: number;
  /** After which a decision or a watch fails if the sidecar stays away. Absent: 30 000; Infinity: never. */
  reconnectTimeoutMs?: number;
  tls?: TlsOptions;
  backoff?: Partial<Backoff>;
  logger?: Logger;
}

/**
 * What waits, then every change. Iterate it; one loop at a time.
 *
 * A lost connection is taken up behind the last update that the reader has received: none is lost, and none
 * comes twice. Leaving the loop ends it. As long as it is open, an approver counts as attached.
 */
export class ApprovalWatch implements AsyncIterableIterator<ApprovalUpdate, undefined>, AsyncDisposable {
  readonly #reader: WatchReader;
  readonly #onClose: () => void;
  #last: Promise<unknown> = Promise.resolve();

  /** Made by `Approvals.watch`. */
  constructor(reader: WatchReader, onClose: () => void) {
    this.#reader = reader;
    this.#onClose = onClose;
  }

  /** Behind the last update that was received; for `Approvals.watch({ afterCursor })`. */
  get cursor(): string {
    return this.#reader.cursor;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Rejects with `ConnectionLost` if the sidecar stayed away, and with what another try cannot help. */
  async next(): Promise<IteratorResult<ApprovalUpdate, undefined>> {
    // One after another, so that a call that somebody stopped waiting for takes no update of another's.
    const reading = this.#last.then(() => this.#reader.next());
    this.#last = reading.catch(() => {});
    const value = await reading;
    return value === undefined ? { done: true, value: undefined } : { done: false, value };
  }

  async return(): Promise<IteratorResult<ApprovalUpdate, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  /** Ends it, and a `next` that waits. May be called twice. */
  close(): void {
    this.#reader.close();
    this.#onClose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}

/** An approver's connection to the sidecar. Nothing is connected before it is used. */
export class Approvals implements AsyncDisposable {
  readonly endpoint: Endpoint;
  /** The sidecar's sessions, with the rights of an approver. */
  readonly sessions: Sessions;
  readonly #link: Link;
  readonly #log: Logger;
  readonly #giveUpMs: number | undefined;
  readonly #backoff: Partial<Backoff>;
  readonly #readers = new Set<WatchReader>();
  readonly #stop = new AbortController();

  /** Throws `CallgateError` with `endpoint_invalid`. */
  constructor(options: ApprovalsOptions = {}) {
    this.endpoint = resolveControlEndpoint(options.endpoint);
    this.#log = options.logger ?? silent;
    if (!this.endpoint.secure && !this.endpoint.local) {
      this.#log.warn(`the connection to ${this.endpoint.text} is not encrypted`);
    }
    this.#link = new Link(
      new Dialer(this.endpoint, options.token, options.tls),
      options.requestTimeoutMs ?? 15_000,
    );
    const giveUpMs = options.reconnectTimeoutMs ?? 30_000;
    this.#giveUpMs = Number.isFinite(giveUpMs) ? giveUpMs : undefined;
    this.#backoff = options.backoff ?? {};
    this.sessions = new Sessions(this.#link);
  }

  /** Ends every watch and disconnects. May be called twice. What waits, waits on. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const reader of this.#readers) reader.close();
    this.#readers.clear();
    this.#link.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // Looking.

  /** Approvals, oldest first, page by page. Long arguments are cut. */
  async *list(wanted: ApprovalConditions = {}): AsyncGenerator<Approval, void, undefined> {
    const filter = approvalFilter(wanted);
    let pageToken = "";
    do {
      const request = { filter, pageToken };
      const page = await this.#link.ask(ApprovalService, (stub, options) =>
        stub.listApprovals(request, options),
      );
      yield* page.approvals.map(approvalOf);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** One approval, whole. Rejects with `NotFound`: `approval_not_found`. */
  async get(approvalId: string): Promise<Approval> {
    const answer = await this.#link.ask(ApprovalService, (stub, options) => {
      return stub.getApproval({ approvalId }, options);
    });
    if (answer.approval === undefined) throw new errors.ProtocolError("the sidecar sent no approval");
    return approvalOf(answer.approval);
  }

  /**
   * What waits, then every change. The conditions are those of `list`; a change out of them is told once.
   *
   * The first update is a snapshot, and so is one after a loss that was too long to be told change by
   * change. `afterCursor` resumes a watch of another process: without a first snapshot, unless the cursor
   * is too old.
   */
  watch(wanted: ApprovalConditions & { afterCursor?: string } = {}): ApprovalWatch {
    this.#link.checkOpen();
    const reader = new WatchReader(this.#link, approvalFilter(wanted), {
      backoff: this.#backoff,
      giveUpMs: this.#giveUpMs,
      afterCursor: wanted.afterCursor ?? "",
      log: this.#log,
    });
    this.#readers.add(reader);
    return new ApprovalWatch(reader, () => this.#readers.delete(reader));
  }

  // Deciding. Each resolves with "taken" or "repeated", once that is durable, and rejects with
  // `DecisionConflict`, which has the winner, with `DecisionRefused`, or with `ConnectionLost`: it may have
  // been taken.

  /** Lets the call run, this once, with exactly the arguments that the approval shows. */
  approveOnce(approval: ApprovalRef, message = ""): Promise<DecisionOutcome> {
    return this.#decideOne(new ApprovalDecision(approval, "once", { message }));
  }

  /**
   * Lets the call run, and stores the picked grants for the session: of `approval.grantCandidates`, or their
   * ids, one per segment; none is enough if there is one in all.
   */
  approveSession(
    approval: ApprovalRef,
    candidates: readonly (GrantCandidate | string)[] = [],
    message = "",
  ): Promise<DecisionOutcome> {
    return this.#decideOne(new ApprovalDecision(approval, "session", { candidates, message }));
  }

  /** Does not let the call run; the model reads `message`, and the turn goes on. */
  deny(approval: ApprovalRef, message = ""): Promise<DecisionOutcome> {
    return this.#decideOne(new ApprovalDecision(approval, "deny", { message }));
  }

  /**
   * Lets the call run with other arguments, this once. They are the whole of them, and checked again: if they
   * do not pass, it rejects with `approval_edit_invalid`, and the approval waits on.
   */
  edit(
    approval: ApprovalRef,
    args: Readonly<Record<string, unknown>> | string,
    message = "",
  ): Promise<DecisionOutcome> {
    return this.#decideOne(new ApprovalDecision(approval, "edit", { arguments: args, message }));
  }

  /** Does not let the call run; `result` is its result, anything that a handler could return. */
  respond(approval: ApprovalRef, result: unknown, message = ""): Promise<DecisionOutcome> {
    return this.#decideOne(new ApprovalDecision(approval, "respond", { response: result, message }));
  }

  /** Cancels the whole turn, and with it its run. */
  cancelTurn(approval: ApprovalRef, message = ""): Promise<DecisionOutcome> {
    return this.#decideOne(new ApprovalDecision(approval, "cancel_turn", { message }));
  }

  /**
   * Takes several decisions, each on its own, and resolves with an outcome for each, in order. One that
   * fails changes nothing and does not touch the others; nothing is thrown for it.
   *
   * Rejects with `ConnectionLost`: any of them may have been taken; the same objects sent again are the same
   * decisions. With `TypeError`: two are about one approval, or a response cannot be sent.
   */
  async decide(decisions: readonly ApprovalDecision[]): Promise<DecisionOutcome[]> {
    if (new Set(decisions.map((item) => item.approval.approvalId)).size !== decisions.length) {
      throw new TypeError("two decisions are about one approval");
    }
    const messages = decisions.map(decisionMessage);
    const outcomes: DecisionOutcome[] = [];
    for (let begin = 0; begin < messages.length; begin += DECISIONS_MAX) {
      outcomes.push(...(await this.#send(messages.slice(begin, begin + DECISIONS_MAX))));
    }
    return outcomes;
  }

  async #decideOne(decision: ApprovalDecision): Promise<DecisionOutcome> {
    const [outcome] = await this.decide([decision]);
    if (outcome?.error !== undefined) throw outcome.error;
    return outcome!;
  }

  /** Sends the same decisions until there is an answer. */
  async #send(decisions: DecisionMessage[]): Promise<DecisionOutcome[]> {
    const waits = new BackoffState(this.#backoff);
    const began = performance.now();
    for (;;) {
      try {
        const answer = await this.#link.ask(ApprovalService, (stub, options) => {
          return stub.decideApprovals({ decisions }, options);
        });
        if (answer.outcomes.length !== decisions.length) {
          const counts = `${decisions.length} decisions have ${answer.outcomes.length} outcomes`;
          throw new errors.ProtocolError(counts);
        }
        return answer.outcomes.map(outcomeOfDecision);
      } catch (error) {
        const failure = errorOf(error);
        if (!LOST.some((kind) => failure instanceof kind)) throw failure;
        const wait = Math.max(waits.lost(), failure.retryAfterMs ?? 0);
        if (this.#giveUpMs !== undefined && performance.now() - began + wait >= this.#giveUpMs) throw failure;
        this.#log.info(`a decision is sent again: ${failure.message} [${failure.code}]`);
        await sleep(wait, this.#stop.signal);
      }
    }
  }
}
