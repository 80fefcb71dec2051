/**
 * The stream of a hook process: opened again and again until it is told to stop.
 *
 * Every question is answered exactly once, by what the handler says or by its failure; one that is taken back
 * is not, and neither is what is only told. Never decides anything.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { type Backoff, BackoffState } from "../backoff.js";
import * as errors from "../errors.js";
import * as hk from "../gen/callgate/v1/hook_service_pb.js";
import type { HookAnswer, HookQuestion, HookSpec } from "../hook.js";
import type { Logger } from "../logger.js";
import { VERSION } from "../version.js";
import { timingOf } from "./convert.js";
import { failureMessage, questionOf, registrationMessage, verdictMessage } from "./convert-hooks.js";
import { type Dialer, MESSAGE_BYTES_MAX } from "./dialer.js";
import { Outbox } from "./outbox.js";
import { errorOf } from "./status.js";
import { Gate, sleep } from "./wait.js";

const HELLO_MS = 10_000;
const END_GRACE_MS = 2_000;
const FATAL = [errors.Unauthenticated, errors.PermissionDenied, errors.ProtocolError, errors.InvalidRequest];

/** What a `HookStream` is made of. */
export interface HookStreamOptions {
  dialer: Dialer;
  specs: readonly HookSpec[];
  answer: (asked: HookQuestion) => Promise<HookAnswer>;
  instanceId: string;
  maxConcurrency: number;
  backoff: Partial<Backoff>;
  log: Logger;
}

/** One stream, and what ends with it. */
class Connection {
  readonly outbox = new Outbox<hk.ConnectHookRequest>();
  readonly abort = new AbortController();
  readonly asked = new Map<string, AbortController>();
  failure: Error | undefined;
  isWelcomed = false;
  #ping: NodeJS.Timeout | undefined;
  #unanswered = 0;

  say(body: NonNullable<MessageInitShape<typeof hk.ConnectHookRequestSchema>["body"]>): void {
    this.outbox.say(create(hk.ConnectHookRequestSchema, { body }));
  }

  ping(intervalMs: number, misses: number): void {
    let nonce = 0;
    const tick = (): void => {
      if (this.#unanswered >= misses) {
        return this.fail(new errors.ConnectionLost(`${misses} pings were not answered`));
      }
      this.#unanswered += 1;
      nonce = (nonce + 1) >>> 0;
      this.say({ case: "ping", value: { nonce } });
    };
    this.#ping = setInterval(tick, intervalMs).unref();
  }

  pong(): void {
    this.#unanswered = 0;
  }

  fail(why: Error): void {
    this.failure ??= why;
    this.abort.abort();
  }

  end(): void {
    clearInterval(this.#ping);
    this.abort.abort();
    this.outbox.abandon();
    for (const stop of this.asked.values()) stop.abort();
    this.asked.clear();
  }
}

/** Keeps one hook process connected. */
export class HookStream {
  /** Open while the sidecar has the hooks. */
  readonly ready = new Gate();
  readonly #options: HookStreamOptions;
  readonly #backoff: BackoffState;
  readonly #stop = new AbortController();
  #connection: Connection | undefined;
  #wasReady = false;

  constructor(options: HookStreamOptions) {
    this.#options = options;
    this.#backoff = new BackoffState(options.backoff);
  }

  /** Takes the hooks along, and does not come back. */
  close(): void {
    this.#stop.abort();
    const connection = this.#connection;
    if (connection?.isWelcomed !== true) return connection?.abort.abort();
    // In order: the sidecar unregisters the hooks.
    connection.say({ case: "leave", value: {} });
    connection.outbox.end();
    setTimeout(() => connection.abort.abort(), END_GRACE_MS).unref();
  }

  /** Connects again and again. Resolves after `close`; rejects: a hook was refused, or another try cannot help. */
  async run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const wait = await this.#attempt();
      if (!this.#stop.signal.aborted) await sleep(wait, this.#stop.signal);
    }
  }

  async #attempt(): Promise<number> {
    const connection = new Connection();
    const line = this.#options.dialer.open();
    this.#connection = connection;
    try {
      const headers = await this.#options.dialer.headers();
      const stub = createClient(hk.HookService, line.transport);
      connection.say({ case: "hello", value: this.#hello() });
      const options = { headers, signal: connection.abort.signal };
      await this.#serve(connection, stub.connectHook(connection.outbox, options));
    } catch (error) {
      const failure = errorOf(connection.failure ?? error);
      if (!this.#stop.signal.aborted) {
        const isFatal = failure.code === "token_unreadable" || FATAL.some((kind) => failure instanceof kind);
        if (isFatal && !this.#wasReady) throw failure;
        this.#options.log.info(`the hook stream ended: ${failure.message} [${failure.code}]`);
      }
    } finally {
      this.#connection = undefined;
      this.ready.close();
      connection.end();
      line.close();
    }
    return this.#backoff.lost();
  }

  #hello(): MessageInitShape<typeof hk.HookHelloSchema> {
    const { specs, instanceId, maxConcurrency } = this.#options;
    return {
      hooks: specs.map(registrationMessage),
      instanceId,
      maxMessageBytes: MESSAGE_BYTES_MAX,
      maxConcurrentInvocations: maxConcurrency,
      sdk: {
        name: "callgate-typescript",
        version: VERSION,
        language: "typescript",
        languageVersion: process.versions.node,
      },
    };
  }

  async #serve(connection: Connection, stream: AsyncIterable<hk.ConnectHookResponse>): Promise<void> {
    const noWelcome = () => connection.fail(new errors.ConnectionLost("no welcome came"));
    const timer = setTimeout(noWelcome, HELLO_MS).unref();
    try {
      for await (const message of stream) {
        if (connection.isWelcomed) {
          this.#take(connection, message);
          continue;
        }
        clearTimeout(timer);
        this.#takeWelcome(connection, message);
      }
    } finally {
      clearTimeout(timer);
    }
    throw new errors.ConnectionLost("the sidecar ended the stream");
  }

  #takeWelcome(connection: Connection, message: hk.ConnectHookResponse): void {
    if (message.body.case === "goAway") {
      throw new errors.ConnectionLost(message.body.value.message || "the sidecar is going away");
    }
    if (message.body.case !== "welcome") {
      throw new errors.ProtocolError("the sidecar did not begin with a welcome");
    }
    const welcome = message.body.value;
    const refused = welcome.registered.filter((item) => item.error !== undefined);
    const texts = refused.map((item) => `\`${item.hookId}\`: ${item.error?.message}`);
    if (refused.length > 0 && !this.#wasReady) {
      throw new errors.InvalidRequest(`the sidecar refused ${texts.join(", ")}`);
    }
    for (const text of texts) this.#options.log.error(`the sidecar refused the hook ${text}`);
    this.#wasReady = true;
    this.#backoff.ready();
    connection.isWelcomed = true;
    const { intervalMs, misses } = timingOf(welcome.timing);
    connection.ping(intervalMs, misses);
    this.ready.open();
    if (this.#stop.signal.aborted) this.close();
  }

  #take(connection: Connection, message: hk.ConnectHookResponse): void {
    const { body } = message;
    switch (body.case) {
      case "invocation":
        return void this.#handle(connection, body.value);
      case "invocationCancelled": {
        const { invocationId } = body.value;
        connection.asked.get(invocationId)?.abort();
        connection.asked.delete(invocationId);
        return;
      }
      case "ping":
        return connection.say({ case: "pong", value: { nonce: body.value.nonce } });
      case "pong":
        return connection.pong();
      case "notice":
        return this.#options.log.info(`the sidecar ignored a message: ${body.value.message}`);
      default:
        // A go-away ends by itself, and what is newer than this package means nothing here.
        return;
    }
  }

  async #handle(connection: Connection, invocation: hk.HookInvocation): Promise<void> {
    const { invocationId, hookId } = invocation;
    const stop = new AbortController();
    connection.asked.set(invocationId, stop);
    // Who is only told answers to nobody.
    const isAwaited = invocation.timeoutMs > 0;
    let verdict: hk.HookVerdict | undefined;
    try {
      const asked = questionOf(invocation, stop.signal);
      if (asked === undefined) throw new TypeError("this package does not know that point");
      const said = await this.#options.answer(asked);
      const digest = asked.point === "approval_requested" ? asked.approval.digest : new Uint8Array();
      if (isAwaited) verdict = verdictMessage(invocationId, said, digest);
    } catch (error) {
      if (!stop.signal.aborted) {
        // The message may quote arguments; the sidecar has it.
        this.#options.log.error(
          `the hook ${hookId} failed with ${error instanceof Error ? error.name : typeof error}`,
        );
      }
      verdict = failureMessage(invocationId, error);
    }
    // Taken back, or the stream has ended: nobody waits.
    if (!connection.asked.delete(invocationId) || verdict === undefined || !isAwaited) return;
    connection.say({ case: "verdict", value: verdict });
  }
}
