/**
 * A process of hooks: is asked before and after calls of every executor, and told of turns and loops.
 *
 * Decides nothing by itself: what its handlers say is one voice among rules, the mode and people. A handler
 * that throws is a failure that the sidecar is told of.
 */
import { randomUUID } from "node:crypto";
import type { Backoff } from "./backoff.js";
import { type Endpoint, resolveControlEndpoint, type TlsOptions } from "./endpoint.js";
import { CallgateError, ClientClosed, DeadlineExceeded } from "./errors.js";
import type {
  AfterHandler,
  ApprovalHandler,
  BeforeHandler,
  DiagnosisHandler,
  Hook,
  HookAnswer,
  HookOptions,
  HookPoint,
  HookQuestion,
  HookSpec,
  LoopHandler,
  TurnHandler,
} from "./hook.js";
import { hookAnswer } from "./hook.js";
import { type Logger, silent } from "./logger.js";
import { onSignals } from "./signals.js";
import { registrationMessage } from "./wire/convert-hooks.js";
import { Dialer } from "./wire/dialer.js";
import { HookStream } from "./wire/hook-stream.js";
import { Deferred, within } from "./wire/wait.js";

const CLOSE_MS = 5_000;
const METHODS: readonly (readonly [keyof Hook, HookPoint])[] = [
  ["beforeToolCall", "before_tool_call"],
  ["afterToolCall", "after_tool_call"],
  ["afterToolFailure", "after_tool_failure"],
  ["approvalRequested", "approval_requested"],
  ["turnStarted", "turn_started"],
  ["turnFinished", "turn_finished"],
  ["loopSuspected", "loop_suspected"],
  ["loopDiagnose", "loop_diagnose"],
];

type Handler = (asked: never) => unknown;

/** What `Hooks` is made of. */
export interface HooksOptions {
  /** As for `Approvals`: hooks connect to the `control.sock`. */
  endpoint?: string | undefined;
  /** As for `Client`; over TCP the credential of a hook. */
  token?: string | undefined;
  /** Most questions at once. Absent: 16. */
  maxConcurrency?: number | undefined;
  /** This process. Absent: minted. It takes the place of a stream of the same id. */
  instanceId?: string | undefined;
  tls?: TlsOptions | undefined;
  backoff?: Partial<Backoff> | undefined;
  logger?: Logger | undefined;
}

/**
 * A hook process's connection to the sidecar. Add hooks, then `start` or `run`.
 *
 * A lost connection is made again; until then the sidecar counts these hooks as failing. `close` takes them
 * along.
 */
export class Hooks implements AsyncDisposable {
  readonly endpoint: Endpoint;
  readonly #log: Logger;
  readonly #dialer: Dialer;
  readonly #maxConcurrency: number;
  readonly #instanceId: string;
  readonly #backoff: Partial<Backoff>;
  readonly #specs = new Map<string, HookSpec>();
  readonly #handlers = new Map<string, Map<HookPoint, Handler>>();
  #sealed = false;
  #closed = false;
  #stream: HookStream | undefined;
  #serving: Promise<void> | undefined;

  /** Throws `CallgateError` with `endpoint_invalid`, and `RangeError`. */
  constructor(options: HooksOptions = {}) {
    const maxConcurrency = options.maxConcurrency ?? 16;
    if (!(maxConcurrency >= 1)) throw new RangeError("maxConcurrency must be at least 1");
    this.endpoint = resolveControlEndpoint(options.endpoint);
    this.#log = options.logger ?? silent;
    if (!this.endpoint.secure && !this.endpoint.local) {
      this.#log.warn(`the connection to ${this.endpoint.text} is not encrypted`);
    }
    this.#dialer = new Dialer(this.endpoint, options.token, options.tls);
    this.#maxConcurrency = maxConcurrency;
    this.#instanceId = options.instanceId || randomUUID();
    this.#backoff = options.backoff ?? {};
  }

  // Hooks. Each may be given its options first, or only the handler.

  /** The hooks of this process, registered or not. */
  get specs(): readonly HookSpec[] {
    return [...this.#specs.values()];
  }

  /** Asks the function before every call that is meant; it returns `Before`, a `HookOutput` or nothing. */
  beforeToolCall(handler: BeforeHandler): this;
  beforeToolCall(options: HookOptions, handler: BeforeHandler): this;
  beforeToolCall(first: HookOptions | BeforeHandler, second?: BeforeHandler): this {
    return this.#adding(["before_tool_call"], first, second);
  }

  /** Asks the function after every call that an executor answered; `on` may name "after_tool_failure", too. */
  afterToolCall(handler: AfterHandler): this;
  afterToolCall(
    options: HookOptions & { on?: readonly ("after_tool_call" | "after_tool_failure")[] },
    handler: AfterHandler,
  ): this;
  afterToolCall(
    first: (HookOptions & { on?: readonly HookPoint[] }) | AfterHandler,
    second?: AfterHandler,
  ): this {
    const points = typeof first === "function" ? undefined : first.on;
    return this.#adding(points ?? ["after_tool_call"], first, second);
  }

  /** Asks the function about every such approval that begins to wait. Whatever it does wrong, the approval waits on. */
  approvalRequested(handler: ApprovalHandler): this;
  approvalRequested(options: HookOptions, handler: ApprovalHandler): this;
  approvalRequested(first: HookOptions | ApprovalHandler, second?: ApprovalHandler): this {
    return this.#adding(["approval_requested"], first, second);
  }

  /** Tells the function of every turn that begins. */
  turnStarted(handler: TurnHandler): this;
  turnStarted(options: HookOptions, handler: TurnHandler): this;
  turnStarted(first: HookOptions | TurnHandler, second?: TurnHandler): this {
    return this.#adding(["turn_started"], first, second);
  }

  /** Tells the function of every turn that ended. */
  turnFinished(handler: TurnHandler): this;
  turnFinished(options: HookOptions, handler: TurnHandler): this;
  turnFinished(first: HookOptions | TurnHandler, second?: TurnHandler): this {
    return this.#adding(["turn_finished"], first, second);
  }

  /** Tells the function of every run that was found to be in a loop. */
  loopSuspected(handler: LoopHandler): this;
  loopSuspected(options: HookOptions, handler: LoopHandler): this;
  loopSuspected(first: HookOptions | LoopHandler, second?: LoopHandler): this {
    return this.#adding(["loop_suspected"], first, second);
  }

  /** Asks the function whether a run is in a loop. Of several hooks the first is asked; nothing is no loop. */
  loopDiagnose(handler: DiagnosisHandler): this;
  loopDiagnose(options: HookOptions, handler: DiagnosisHandler): this;
  loopDiagnose(first: HookOptions | DiagnosisHandler, second?: DiagnosisHandler): this {
    return this.#adding(["loop_diagnose"], first, second);
  }

  /** Adds an object as one hook: of every point that it has a method for. Throws `TypeError`: it has none. */
  add(hook: Hook, options: HookOptions = {}): this {
    const handlers = new Map<HookPoint, Handler>();
    for (const [method, point] of METHODS) {
      if (typeof hook[method] === "function") handlers.set(point, (asked) => hook[method]?.(asked));
    }
    if (handlers.size === 0) {
      const names = METHODS.map(([method]) => method).join(", ");
      throw new TypeError(`a hook needs a method named as a point: ${names}`);
    }
    return this.#add(options.hookId || hook.constructor.name, [...handlers.keys()], options, handlers);
  }

  #adding(points: readonly HookPoint[], first: HookOptions | Handler, second: Handler | undefined): this {
    const [options, handler] = typeof first === "function" ? [{}, first] : [first, second];
    if (handler === undefined) throw new TypeError("a hook needs a handler");
    const handlers = new Map(points.map((point) => [point, handler]));
    return this.#add(options.hookId || handler.name || "hook", points, options, handlers);
  }

  #add(
    hookId: string,
    points: readonly HookPoint[],
    options: HookOptions,
    handlers: Map<HookPoint, Handler>,
  ): this {
    if (this.#stream !== undefined || this.#sealed) {
      throw new CallgateError("the hooks have started", { code: "client_started" });
    }
    if (this.#specs.has(hookId)) throw new TypeError(`there is a hook ${JSON.stringify(hookId)} already`);
    const spec: HookSpec = {
      hookId,
      points,
      order: options.order ?? 0,
      matcher: options.matcher ?? { tools: options.tools ?? [] },
      timeoutMs: options.timeoutMs ?? 5_000,
      onFailure: options.onFailure ?? "deny",
      withholdOnFailure: options.withholdOnFailure ?? false,
      observe: options.observe ?? false,
      description: options.description ?? "",
    };
    // What cannot be said is an error here, and not of the stream.
    registrationMessage(spec);
    this.#specs.set(hookId, spec);
    this.#handlers.set(hookId, handlers);
    return this;
  }

  /**
   * Asks a handler as the sidecar would, and resolves with what it says. Without `hookId` the only one of that
   * point. What the handler throws, this rejects with. Matchers are the sidecar's own work.
   */
  async answer(asked: HookQuestion): Promise<HookAnswer> {
    const names = [...this.#handlers].filter(([, points]) => points.has(asked.point)).map(([name]) => name);
    const wanted = names.filter((name) => asked.hookId === "" || asked.hookId === name);
    if (wanted.length !== 1) {
      const which = asked.hookId === "" ? "one hook" : `\`${asked.hookId}\``;
      throw new RangeError(
        `${which} at ${asked.point} is wanted, and there are: ${names.join(", ") || "none"}`,
      );
    }
    const handler = this.#handlers.get(wanted[0]!)?.get(asked.point);
    return hookAnswer(asked.point, await handler?.(asked as never));
  }

  /** Takes no more hooks: whoever owns these has started without them, and nobody would ask a new one. */
  seal(): void {
    this.#sealed = true;
  }

  // Life.

  /** Begins to connect, and returns at once. Throws `ClientClosed`. */
  start(): void {
    if (this.#closed) throw new ClientClosed("the hooks are closed");
    if (this.#stream !== undefined) return;
    this.#stream = new HookStream({
      dialer: this.#dialer,
      specs: this.specs,
      answer: (asked) => this.answer(asked),
      instanceId: this.#instanceId,
      maxConcurrency: this.#maxConcurrency,
      backoff: this.#backoff,
      log: this.#log,
    });
    this.#serving = this.#stream.run();
    this.#serving.catch((error: unknown) => this.#log.error(`the hooks ended: ${String(error)}`));
  }

  /** Resolves when the sidecar has taken the hooks. Rejects with `DeadlineExceeded`, or: a hook was refused. */
  async waitReady(timeoutMs = 30_000): Promise<void> {
    this.start();
    const ended = this.waitClosed().then(() => {
      throw new ClientClosed("the hooks were closed");
    });
    ended.catch(() => {});
    if (!(await within(Promise.race([this.#stream!.ready.wait(), ended]), timeoutMs))) {
      throw new DeadlineExceeded(`the sidecar did not take the hooks within ${timeoutMs} ms`);
    }
  }

  /** Resolves when the hooks have ended for good. Rejects: a hook was refused, or another try cannot help. */
  async waitClosed(): Promise<void> {
    await this.#serving;
  }

  /** Takes the hooks along and disconnects. May be called twice. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#stream === undefined || this.#serving === undefined) return;
    this.#stream.close();
    await within(
      this.#serving.catch(() => {}),
      CLOSE_MS,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Serves hooks until SIGTERM or SIGINT, or until another try cannot help, which it rejects with. */
  async run(): Promise<void> {
    const stopped = new Deferred<void>();
    const release = onSignals(() => stopped.resolve());
    try {
      this.start();
      await Promise.race([stopped.promise, this.waitClosed()]);
    } finally {
      await this.close();
      release();
    }
  }
}
