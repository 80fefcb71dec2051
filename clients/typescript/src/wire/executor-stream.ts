/**
 * The stream of an executor: opened again and again until it is told to stop.
 *
 * The transport writes, one loop reads and waits for nothing else. A new stream begins with an empty
 * outbox and loses nothing: results are in the `Executor`, tools are in every hello.
 */
import { randomUUID } from "node:crypto";
import { createClient } from "@connectrpc/connect";
import { type Backoff, BackoffState } from "../backoff.js";
import type { CancelReason } from "../context.js";
import * as errors from "../errors.js";
import type { Executor } from "../executor.js";
import * as ex from "../gen/callgate/v1/executor_service_pb.js";
import { type GoAway, GoAwayReason, type Notice } from "../gen/callgate/v1/stream_pb.js";
import type { Logger } from "../logger.js";
import { Questions } from "../questions.js";
import type { Registration } from "../registration.js";
import type { Tool } from "../tool.js";
import { VERSION } from "../version.js";
import * as convert from "./convert.js";
import { checkContext, checkResult, factsResult } from "./convert-permission.js";
import { type Dialer, MESSAGE_BYTES_MAX } from "./dialer.js";
import { ExecutorConnection, inFlight } from "./executor-connection.js";
import { WireSpeaker } from "./executor-speaker.js";
import { errorOf } from "./status.js";
import { batches, changePieces, DEFAULT_TOOLS_MAX, refusalText, ToolChanges } from "./tool-updates.js";
import { Gate, sleep, within } from "./wait.js";

const HELLO_MS = 10_000;
const DRAIN_ANSWER_MS = 5_000;
const CANCEL_GRACE_MS = 2_000;
const LAG_CHECK_MS = 1_000;
const LAG_WARNING_MS = 500;
// Another try cannot help: the configuration is wrong, or the peer is.
const FATAL_AT_FIRST = [
  errors.Unauthenticated,
  errors.PermissionDenied,
  errors.ProtocolError,
  errors.InvalidRequest,
];

/** Where the stream of an executor stands. */
export type ClientState = "idle" | "connecting" | "ready" | "reconnecting" | "draining" | "closed";

/** What an `ExecutorStream` is made of. */
export interface ExecutorStreamOptions {
  dialer: Dialer;
  executor: Executor;
  executorName: string;
  instanceId: string | undefined;
  backoff: Partial<Backoff>;
  resolveFacts: boolean;
  log: Logger;
  onState: (state: ClientState) => void;
  onRegistrations: (answers: readonly Registration[]) => void;
}

/** Keeps one executor connected. */
export class ExecutorStream {
  state: ClientState = "idle";
  /** Open while the sidecar has answered for every tool of the hello. */
  readonly ready = new Gate();
  readonly #options: ExecutorStreamOptions;
  readonly #executor: Executor;
  readonly #log: Logger;
  readonly #backoff: BackoffState;
  readonly #questions: Questions;
  readonly #speaker: WireSpeaker;
  readonly #changes = new ToolChanges();
  readonly #stop = new AbortController();
  #instanceId: string;
  #tools: readonly Tool[] = [];
  #toolsMax = DEFAULT_TOOLS_MAX;
  #resumeToken = "";
  #connection: ExecutorConnection | undefined;
  #wasReady = false;
  #drain: { reason: string; drainMs: number } | undefined;

  constructor(options: ExecutorStreamOptions) {
    this.#options = options;
    this.#executor = options.executor;
    this.#log = options.log;
    this.#backoff = new BackoffState(options.backoff);
    this.#questions = new Questions(options.executor);
    this.#instanceId = options.instanceId || randomUUID();
    this.#speaker = new WireSpeaker(() => this.#welcomed(), options.log);
    options.executor.link = this.#speaker;
  }

  // Asked by the client.

  /** The tools of the first hello. */
  setTools(tools: readonly Tool[]): void {
    this.#tools = [...tools];
  }

  /** Changes the tools; resolves when the sidecar has answered, after a reconnect if need be. */
  async update(upsert: readonly Tool[], remove: readonly string[]): Promise<readonly Registration[]> {
    const changed = new Set([...upsert.map((tool) => tool.name), ...remove]);
    this.#tools = [...this.#tools.filter((tool) => !changed.has(tool.name)), ...upsert];
    if (this.state === "closed") throw new errors.ClientClosed("the client is closed");
    const pieces = changePieces(upsert, remove, this.#toolsMax).map((piece) => {
      const change = this.#changes.begin(...piece);
      const connection = this.#welcomed();
      if (connection !== undefined) this.#sendChange(connection, change.id);
      return change;
    });
    const answers = (await Promise.all(pieces.map((piece) => piece.answer.promise))).flat();
    // Each piece has told only its own.
    if (pieces.length > 1) this.#options.onRegistrations(answers);
    return answers;
  }

  /** Takes more or fewer executions at once from now on. */
  resize(maxConcurrency: number): void {
    this.#executor.resize(maxConcurrency);
    this.#welcomed()?.say({ case: "capacityUpdate", value: { maxConcurrentExecutions: maxConcurrency } });
  }

  /**
   * Takes nothing new, finishes what runs, gives back what has not begun, and ends. What still runs after
   * `timeoutMs` is told to stop.
   */
  async drain(timeoutMs: number, reason: string): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const end = performance.now() + timeoutMs;
    this.#executor.draining = true;
    this.#drain = { reason, drainMs: convert.wholeMs(timeoutMs) };
    this.#setState("draining");
    const connection = this.#welcomed();
    if (connection !== undefined && !connection.halfClosed) {
      connection.say({ case: "drainRequest", value: this.#drain });
      // A sidecar that never answers must not hold up the end.
      await within(connection.drainStarted.promise, Math.min(timeoutMs, DRAIN_ANSWER_MS));
    }
    this.#executor.abandonWaiting("the executor shuts down");
    if (!(await within(this.#executor.waitIdle(), end - performance.now()))) {
      this.#executor.stopAll("shutdown", reason);
      await within(this.#executor.waitIdle(), CANCEL_GRACE_MS);
    }
    this.close();
  }

  /** Ends the stream and does not come back. */
  close(): void {
    this.#stop.abort();
    const connection = this.#connection;
    if (connection?.welcomed) connection.halfClose();
    else connection?.fail(new errors.ClientClosed("the client was closed"));
  }

  // The life of the stream.

  /** Connects again and again. Resolves after `close`; rejects with a `CallgateError` if another try cannot help. */
  async run(): Promise<void> {
    this.#setState("connecting");
    const lag = this.#watchLag();
    try {
      while (!this.#stop.signal.aborted) {
        const wait = await this.#attempt();
        if (this.#stop.signal.aborted) return;
        this.#setState(this.#wasReady ? "reconnecting" : "connecting");
        await sleep(wait, this.#stop.signal);
      }
    } finally {
      clearInterval(lag);
      this.#changes.failAll();
      this.#setState("closed");
    }
  }

  /** One connection, from dialling to its end. Returns how many milliseconds to wait before the next. */
  async #attempt(): Promise<number> {
    const connection = new ExecutorConnection();
    let dialled = false;
    const line = this.#options.dialer.open();
    this.#connection = connection;
    try {
      const headers = await this.#options.dialer.headers();
      dialled = true;
      const stub = createClient(ex.ExecutorService, line.transport);
      this.#sayHello(connection);
      await this.#serve(
        connection,
        stub.connect(connection.outbox, { headers, signal: connection.abort.signal }),
      );
    } catch (error) {
      const failure = errorOf(connection.failure ?? error);
      if (this.#learnsToolsMax(failure)) return 0;
      if (!this.#stop.signal.aborted) {
        if (this.#isFatal(failure, dialled)) throw failure;
        this.#log.info(`the executor stream ended: ${failure.message} [${failure.code}]`);
      }
    } finally {
      this.#connection = undefined;
      this.ready.close();
      connection.end();
      line.close();
      // The next hello has pieces of its own.
      for (const id of connection.rest) this.#changes.take(id);
    }
    return this.#waitAfter(connection.goAway);
  }

  #waitAfter(goAway: GoAway | undefined): number {
    const wait = this.#backoff.lost();
    if (goAway === undefined || this.#stop.signal.aborted) return wait;
    if (goAway.reason === GoAwayReason.SUPERSEDED) {
      throw new errors.Superseded(goAway.message || "another process connected as this executor instance");
    }
    if (goAway.reconnectMaxMs === 0) {
      throw new errors.Unavailable(goAway.message || "the sidecar told this executor not to come back");
    }
    const min = Math.min(goAway.reconnectMinMs, goAway.reconnectMaxMs);
    return min + Math.random() * (goAway.reconnectMaxMs - min);
  }

  #isFatal(failure: errors.CallgateError, dialled: boolean): boolean {
    if (failure instanceof errors.Superseded) return true;
    if (this.#wasReady) return false;
    return !dialled || FATAL_AT_FIRST.some((kind) => failure instanceof kind);
  }

  /** Whether a hello was refused only because its size had to be guessed: nobody tells before the welcome. */
  #learnsToolsMax(failure: errors.CallgateError): boolean {
    const allowed = failure.limit?.name === "tools_per_message_max" ? failure.limit.allowed : 0;
    if (allowed <= 0 || allowed >= this.#toolsMax) return false;
    this.#toolsMax = allowed;
    return true;
  }

  #sayHello(connection: ExecutorConnection): void {
    connection.tools = batches(this.#tools, this.#toolsMax);
    connection.changes = new Set(this.#changes.waiting.keys());
    const capabilities = [ex.ExecutorCapability.RESUME, ex.ExecutorCapability.OUTPUT];
    if (this.#options.resolveFacts) capabilities.push(ex.ExecutorCapability.RESOLVE_FACTS);
    connection.say({
      case: "hello",
      value: {
        executorName: this.#options.executorName,
        instanceId: this.#instanceId,
        tools: connection.tools[0]!.map(convert.definition),
        // Zero would mean the default here, so that is said after the welcome.
        maxConcurrentExecutions: Math.max(1, this.#executor.maxConcurrency),
        capabilities,
        inFlight: this.#executor.inFlight().map(inFlight),
        resumeToken: this.#resumeToken,
        maxMessageBytes: MESSAGE_BYTES_MAX,
        sdk: {
          name: "callgate-typescript",
          version: VERSION,
          language: "typescript",
          languageVersion: process.versions.node,
        },
      },
    });
  }

  async #serve(connection: ExecutorConnection, stream: AsyncIterable<ex.ConnectResponse>): Promise<void> {
    const noWelcome = () => connection.fail(new errors.ConnectionLost("no welcome came"));
    const timer = setTimeout(noWelcome, HELLO_MS).unref();
    try {
      for await (const message of stream) {
        if (connection.welcomed) {
          this.#take(connection, message);
          continue;
        }
        clearTimeout(timer);
        if (message.body.case === "goAway") {
          connection.goAway = message.body.value;
          throw new errors.ConnectionLost(message.body.value.message || "the sidecar is going away");
        }
        if (message.body.case !== "welcome") {
          throw new errors.ProtocolError("the first message of the sidecar was no welcome");
        }
        this.#takeWelcome(connection, message.body.value);
      }
    } finally {
      clearTimeout(timer);
    }
    throw new errors.ConnectionLost("the sidecar ended the stream");
  }

  #takeWelcome(connection: ExecutorConnection, welcome: ex.Welcome): void {
    this.#resumeToken = welcome.resumeToken;
    this.#instanceId = welcome.instanceId || this.#instanceId;
    this.#speaker.setLimits(welcome.limits);
    this.#executor.chunkMax = welcome.limits?.maxOutputChunkBytes || this.#executor.chunkMax;
    this.#toolsMax = welcome.limits?.maxToolsPerMessage || DEFAULT_TOOLS_MAX;
    connection.welcomed = true;
    this.#wasReady = true;
    this.#backoff.ready();
    const { intervalMs, misses } = convert.timingOf(welcome.timing);
    connection.ping(intervalMs, misses);
    this.#takeAnswers(connection, welcome.registrations.map(convert.registration));
    this.#obey(welcome.inFlight);
    // Finished while there was no stream, or asked for: once each, in the order of finishing.
    for (const execution of this.#executor.unacknowledged()) this.#speaker.result(execution);
    if (this.#executor.maxConcurrency === 0) connection.say({ case: "capacityUpdate", value: {} });
    if (this.#drain !== undefined) connection.say({ case: "drainRequest", value: this.#drain });
    this.#setState("ready");
    if (connection.rest.size === 0) this.ready.open();
    if (this.#stop.signal.aborted) connection.halfClose();
  }

  #takeAnswers(connection: ExecutorConnection, answers: readonly Registration[]): void {
    const [sent, ...rest] = connection.tools;
    const active = answers.filter((answer) => answer.state === "active").map((answer) => answer.name);
    this.#executor.keepOnly([...active, ...rest.flat().map((tool) => tool.name)]);
    this.#apply(sent ?? [], answers);
    connection.answers.push(...answers);
    this.#options.onRegistrations(answers);
    for (const piece of rest) {
      const change = this.#changes.begin(piece, []);
      connection.rest.add(change.id);
      this.#sendChange(connection, change.id);
    }
    this.#answerFromHello(connection);
    for (const id of this.#changes.waiting.keys()) {
      if (!connection.sentChanges.has(id) && !connection.changes.has(id)) this.#sendChange(connection, id);
    }
  }

  #obey(decisions: readonly ex.InFlightDecision[]): void {
    for (const { execution, action } of decisions) {
      const key = convert.keyOfRef(execution);
      if (action === ex.InFlightAction.FORGET) this.#executor.forget(key);
      else if (action === ex.InFlightAction.CANCEL) {
        this.#executor.cancel(key, execution, "call_cancelled", "cancelled while disconnected");
      }
      // CONTINUE and SEND_RESULT, and whatever is newer: every held result is sent anyway.
    }
  }

  #take(connection: ExecutorConnection, message: ex.ConnectResponse): void {
    const { body } = message;
    switch (body.case) {
      case "execute":
        return this.#executor.execute(convert.dispatchOf(body.value, Date.now()));
      case "resultAck":
        this.#executor.acknowledge(convert.keyOfRef(body.value.execution));
        return this.#endIfDone(connection);
      case "cancel": {
        const { execution, reason, message: text, graceMs } = body.value;
        const why = convert.nameOf(ex.CancelReason, reason, "turn_cancelled") || "turn_cancelled";
        return this.#executor.cancel(
          convert.keyOfRef(execution),
          execution,
          why as CancelReason,
          text,
          graceMs,
        );
      }
      case "outputCredit":
        return this.#executor.credit(
          convert.keyOfRef(body.value.execution),
          body.value.addedBytes,
          body.value.stop,
        );
      case "permissionCheck":
        return void this.#answerCheck(connection, body.value);
      case "resolveFacts":
        return void this.#answerFacts(connection, body.value);
      case "ping":
        return connection.say({ case: "pong", value: { nonce: body.value.nonce } });
      case "pong":
        return connection.pong();
      case "toolUpdateResult":
        return this.#takeUpdateResult(connection, body.value);
      case "drainStarted":
        return connection.drainStarted.resolve();
      case "goAway":
        return this.#takeGoAway(connection, body.value);
      case "notice":
        return this.#takeNotice(body.value);
      default:
        if (!connection.notedUnknown) {
          this.#log.info("the sidecar sent a message that this version does not know; ignored");
        }
        connection.notedUnknown = true;
    }
  }

  async #answerCheck(connection: ExecutorConnection, asked: ex.PermissionCheckRequest): Promise<void> {
    const text = new TextDecoder().decode(asked.argumentsJson) || "{}";
    const said = await this.#questions.check(asked.toolDigest, text, checkContext(asked));
    // A question of a stream that has ended is nobody's.
    if (this.#connection === connection) {
      connection.say({ case: "permissionCheckResult", value: checkResult(asked.checkId, said) });
    }
  }

  async #answerFacts(connection: ExecutorConnection, asked: ex.ResolveFactsRequest): Promise<void> {
    const text = new TextDecoder().decode(asked.argumentsJson) || "{}";
    const facts = await this.#questions.resolve(text, asked.pointers, asked.cwd);
    if (this.#connection === connection) {
      connection.say({ case: "resolveFactsResult", value: factsResult(asked.requestId, facts) });
    }
  }

  #takeNotice(notice: Notice): void {
    this.#log.warn(`the sidecar ignored a message: ${notice.code} ${notice.message}`);
    // A handler that reports on would use up the sidecar's patience with this stream.
    if (notice.code === "execution_unknown" || notice.code === "execution_not_yours") {
      this.#executor.mute(notice.about);
    }
  }

  #takeGoAway(connection: ExecutorConnection, goAway: GoAway): void {
    connection.goAway = goAway;
    this.#log.info(`the sidecar closes the stream: ${goAway.message || GoAwayReason[goAway.reason]}`);
    if (goAway.reason === GoAwayReason.SUPERSEDED) {
      this.#executor.stopAll("shutdown", "another process took over");
      return connection.halfClose();
    }
    if (goAway.drainMs > 0) setTimeout(() => connection.halfClose(), goAway.drainMs).unref();
    this.#endIfDone(connection);
  }

  /** After a go-away the stream ends as soon as nothing is left to finish on it. */
  #endIfDone(connection: ExecutorConnection): void {
    if (connection.goAway !== undefined && this.#executor.inFlight().length === 0) connection.halfClose();
  }

  // Tools.

  #sendChange(connection: ExecutorConnection, id: string): void {
    const change = this.#changes.waiting.get(id);
    if (change === undefined) return;
    connection.sentChanges.add(id);
    connection.sayWork({
      case: "toolUpdate",
      value: { updateId: id, upsert: change.upsert.map(convert.definition), remove: [...change.remove] },
    });
  }

  #takeUpdateResult(connection: ExecutorConnection, message: ex.ToolUpdateResult): void {
    const change = this.#changes.take(message.updateId);
    if (change === undefined) return;
    const answers = message.registrations.map(convert.registration);
    this.#apply(change.upsert, answers);
    for (const name of change.remove) this.#executor.deactivate(name);
    if (connection.rest.delete(message.updateId)) {
      connection.answers.push(...answers);
      this.#options.onRegistrations([...connection.answers]);
      this.#answerFromHello(connection);
      if (connection.rest.size === 0) this.ready.open();
    } else {
      this.#options.onRegistrations(answers);
    }
    change.answer.resolve(answers);
  }

  /**
   * Changes that were lost with an earlier stream: the hello has said the same. One whose tools are in a
   * later piece of the hello waits for the answer to that piece.
   */
  #answerFromHello(connection: ExecutorConnection): void {
    const byName = new Map(connection.answers.map((answer) => [answer.name, answer]));
    for (const id of connection.changes) {
      const change = this.#changes.waiting.get(id);
      if (change === undefined) continue;
      if (connection.rest.size > 0 && change.upsert.some((tool) => !byName.has(tool.name))) continue;
      this.#changes.take(id);
      change.settleFrom(byName);
    }
  }

  #apply(tools: readonly Tool[], answers: readonly Registration[]): void {
    for (const [at, answer] of answers.slice(0, tools.length).entries()) {
      if (answer.state !== "active") {
        this.#log.error(refusalText(answer));
        continue;
      }
      this.#executor.activate(tools[at]!, answer.digest);
      for (const warning of answer.warnings) {
        this.#log.warn(`tool \`${answer.name}\`: ${warning.code} ${warning.message}`);
      }
    }
  }

  // Inside.

  #welcomed(): ExecutorConnection | undefined {
    return this.#connection?.welcomed ? this.#connection : undefined;
  }

  #setState(state: ClientState): void {
    // A drain only ends in "closed".
    if (this.state === state || (this.state === "draining" && state !== "closed")) return;
    this.state = state;
    this.#options.onState(state);
  }

  /** Warns when a handler holds up the event loop, and with it the pings of this stream. */
  #watchLag(): NodeJS.Timeout {
    let last = performance.now();
    let warned = false;
    const look = (): void => {
      const now = performance.now();
      const late = now - last - LAG_CHECK_MS;
      last = now;
      if (late > LAG_WARNING_MS && !warned) {
        this.#log.warn(
          `something has blocked the event loop for ${(late / 1000).toFixed(1)} s; await, or use a worker thread`,
        );
      }
      warned = late > LAG_WARNING_MS;
    };
    return setInterval(look, LAG_CHECK_MS).unref();
  }
}
