/**
 * The client: registers and runs tools, runs turns, asks the sidecar.
 *
 * One object for both halves. Nothing is connected before it is used, so a client may be made where a module
 * is loaded.
 */
import { type ConnectionOptions, TurnClient } from "./client-turns.js";
import { ToolServiceRegistry } from "./context.js";
import { controlEndpointBeside } from "./endpoint.js";
import * as errors from "./errors.js";
import { Executor } from "./executor.js";
import type { AfterHandler, BeforeHandler, HookOptions } from "./hook.js";
import { Hooks, type HooksOptions } from "./hooks.js";
import type { Registration } from "./registration.js";
import type { JsonSchema, StandardSchema } from "./schema.js";
import { onSignals } from "./signals.js";
import { Tool, type ToolOptions } from "./tool.js";
import { Dialer } from "./wire/dialer.js";
import { type ClientState, ExecutorStream } from "./wire/executor-stream.js";
import { Deferred, sleep, within } from "./wire/wait.js";

const READY_POLL_MS = 50;
const CLOSE_MS = 5_000;

// biome-ignore lint/suspicious/noExplicitAny: a handler takes what its schema makes, whatever that is
type AnyStandard = StandardSchema<any, any>;

/** What a `Client` is made of. */
export interface ClientOptions extends ConnectionOptions {
  /** Owns the tools. Needed if there are any; instances of one executor share it. */
  executorName?: string | undefined;
  /** Most executions at once. Absent: 16. */
  maxConcurrency?: number | undefined;
  /** This process. Absent: minted. Two processes with the same one drive each other away. */
  instanceId?: string | undefined;
  /** What running tools get at the end. Absent: 20 000. */
  drainTimeoutMs?: number | undefined;
  /** A refused tool ends `run` and `waitReady` with `RegistrationRefused`, in place of a line in the log. */
  strictRegistration?: boolean | undefined;
  /**
   * Tells the sidecar what paths in arguments really are, which rules that allow paths need. False where the
   * tools see another file system than this process. Absent: true.
   */
  resolveFacts?: boolean | undefined;
  /** Told every change of `state`. */
  onState?: ((state: ClientState) => void) | undefined;
  /** Where `hooks` connect. Absent: the same sidecar; at its socket `callgate.sock`, the `control.sock` beside it. */
  hooksEndpoint?: string | undefined;
  /** As for `Hooks`; over TCP the credential of a hook. */
  hooksToken?: string | undefined;
}

/** A connection to the sidecar, for tools, for turns, or for both, and for hooks beside them. */
export class Client extends TurnClient implements AsyncDisposable {
  readonly executorName: string | undefined;
  /** What handlers may be given; a white list, see `services` of a tool. */
  readonly services = new ToolServiceRegistry();
  readonly #options: ClientOptions;
  #maxConcurrency: number;
  #tools: Tool[] = [];
  #registrations = new Map<string, Registration>();
  #refused: readonly Registration[] = [];
  #stream: ExecutorStream | undefined;
  #serving: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #hooks: Hooks | undefined;
  #started = false;

  /** Throws `CallgateError` with `endpoint_invalid`, and `RangeError`. */
  constructor(options: ClientOptions = {}) {
    super(options);
    this.#maxConcurrency = options.maxConcurrency ?? 16;
    if (!(this.#maxConcurrency >= 1)) throw new RangeError("maxConcurrency must be at least 1");
    this.#options = options;
    this.executorName = options.executorName;
  }

  // Tools.

  /** The tools of this process, registered or not. */
  get tools(): readonly Tool[] {
    return [...this.#tools];
  }

  /** What the sidecar last said about each tool, by name. */
  get registrations(): ReadonlyMap<string, Registration> {
    return this.#registrations;
  }

  /** What the sidecar refused in the last registration, each with its `error`. */
  get refused(): readonly Registration[] {
    return this.#refused;
  }

  /**
   * Makes a tool and adds it, before the client is started. The handler's arguments have the types that
   * `input` makes.
   */
  tool<const I extends AnyStandard | JsonSchema = JsonSchema>(options: ToolOptions<I>): Tool {
    return this.addTool(new Tool(options as unknown as ToolOptions));
  }

  /**
   * Adds a tool before the client is started; afterwards use `updateTools`. A name twice is not refused here:
   * the sidecar refuses the second and says so.
   */
  addTool(tool: Tool): Tool {
    if (this.#stream !== undefined) {
      throw new errors.CallgateError("the client has started; use updateTools", { code: "client_started" });
    }
    this.#tools.push(tool);
    return tool;
  }

  /**
   * Adds, replaces and removes tools while connected. Resolves with what the sidecar said, `add` first; waits
   * for a reconnect if need be. Rejects: the client was closed meanwhile.
   */
  async updateTools(change: {
    add?: readonly Tool[];
    remove?: readonly string[];
  }): Promise<readonly Registration[]> {
    const { add = [], remove = [] } = change;
    const changed = new Set([...add.map((tool) => tool.name), ...remove]);
    this.#tools = [...this.#tools.filter((tool) => !changed.has(tool.name)), ...add];
    if (this.#stream !== undefined) return this.#stream.update(add, remove);
    await this.waitReady();
    return add.map((tool) => this.#registrations.get(tool.name)).filter((answer) => answer !== undefined);
  }

  /** Takes more or fewer executions at once from now on. 0: none for now. */
  resize(maxConcurrency: number): void {
    this.#maxConcurrency = maxConcurrency;
    this.#stream?.resize(maxConcurrency);
  }

  // Hooks.

  /**
   * The hooks of this process. A connection of their own, since hooks are only heard at the control socket.
   * Add them before the client is started. Its `start`, `waitReady`, `run` and `close` are theirs, too.
   */
  get hooks(): Hooks {
    if (this.#hooks === undefined) {
      const { hooksEndpoint, hooksToken, tls, backoff } = this.#options;
      const options: HooksOptions = { token: hooksToken, tls, backoff, logger: this.log };
      const endpoint = hooksEndpoint || controlEndpointBeside(this.endpoint.text);
      this.#hooks = new Hooks({ ...options, endpoint });
      if (this.#started) this.#hooks.seal();
    }
    return this.#hooks;
  }

  /** Asks the function before calls of every executor. See `Hooks.beforeToolCall`. */
  beforeToolCall(options: HookOptions, handler: BeforeHandler): this {
    this.hooks.beforeToolCall(options, handler);
    return this;
  }

  /** Asks the function after calls of every executor. See `Hooks.afterToolCall`. */
  afterToolCall(options: HookOptions, handler: AfterHandler): this {
    this.hooks.afterToolCall(options, handler);
    return this;
  }

  /** Refuses to run turns past hooks that nobody would ask. */
  protected override checkTurns(): void {
    super.checkTurns();
    if (this.#hasHooks && !this.#started) {
      throw new errors.CallgateError("the client has hooks: start it before its turns", {
        code: "client_not_started",
      });
    }
  }

  get #hasHooks(): boolean {
    return (this.#hooks?.specs.length ?? 0) > 0;
  }

  // Life.

  /** Where the executor's stream stands; "idle" without tools. */
  get state(): ClientState {
    if (this.#stream !== undefined) return this.#stream.state;
    return this.link.closed ? "closed" : "idle";
  }

  /**
   * Begins to connect, and returns at once. Without tools, hooks and `executorName` there is nothing to begin.
   *
   * Throws `TypeError`: there are tools and no `executorName`. Throws `ClientClosed`.
   */
  start(): void {
    this.link.checkOpen();
    if (this.#tools.length > 0 && !this.executorName) {
      throw new TypeError("a client with tools needs an executorName");
    }
    this.#started = true;
    if (this.#hasHooks) this.#hooks?.start();
    else this.#hooks?.seal();
    if (!this.executorName || this.#stream !== undefined) return;
    const { token, tls, instanceId, backoff, resolveFacts } = this.#options;
    this.#stream = new ExecutorStream({
      dialer: new Dialer(this.endpoint, token, tls),
      executor: new Executor(this.services, this.#maxConcurrency, this.log),
      executorName: this.executorName,
      instanceId,
      backoff: backoff ?? {},
      resolveFacts: resolveFacts ?? true,
      log: this.log,
      onState: (state) => this.#tellState(state),
      onRegistrations: (answers) => this.#takeRegistrations(answers),
    });
    this.#stream.setTools(this.#tools);
    this.#serving = this.#stream.run();
    // Whoever does not look at the end of the stream gets no unhandled rejection.
    this.#serving.catch((error: unknown) => this.log.error(`the executor has ended: ${String(error)}`));
  }

  /** Nothing that the user's code throws may end the stream. */
  #tellState(state: ClientState): void {
    try {
      this.#options.onState?.(state);
    } catch (error) {
      this.log.error(`onState failed: ${String(error)}`);
    }
  }

  #takeRegistrations(answers: readonly Registration[]): void {
    const refused = answers.filter((answer) => answer.error !== undefined);
    const taken = answers.filter((answer) => answer.error === undefined);
    // Of two tools with one name the second is refused, and the first is the one that can be called.
    const said = [...refused, ...taken].map((answer) => [answer.name, answer] as const);
    this.#registrations = new Map([...this.#registrations, ...said]);
    this.#refused = refused;
    if (refused.length > 0 && this.#options.strictRegistration) this.#stream?.close();
  }

  #throwRefused(): void {
    if (!this.#options.strictRegistration || this.#refused.length === 0) return;
    const what = this.#refused.map((answer) => `\`${answer.name}\` (${answer.error?.code ?? ""})`).join(", ");
    throw new errors.RegistrationRefused(`the sidecar refused ${what}`, { refused: this.#refused });
  }

  /**
   * Resolves when hooks are asked and tools can be called, or, without either, when the sidecar serves.
   *
   * Rejects with `DeadlineExceeded`; with `RegistrationRefused`, if registration is strict; and where another
   * try cannot help: a hook was refused, `PermissionDenied`.
   */
  async waitReady(timeoutMs = 30_000): Promise<void> {
    this.start();
    const stop = new AbortController();
    try {
      if (await within(this.#allReady(timeoutMs, stop.signal), timeoutMs)) return;
    } finally {
      stop.abort();
    }
    throw new errors.DeadlineExceeded(`the sidecar was not ready within ${timeoutMs} ms`);
  }

  async #allReady(timeoutMs: number, stop: AbortSignal): Promise<void> {
    if (this.#hasHooks) await this.#hooks?.waitReady(timeoutMs);
    if (this.#stream !== undefined) {
      await Promise.race([this.#stream.ready.wait(), this.#serving]);
      this.#throwRefused();
      if (this.state === "closed") throw new errors.ClientClosed("the client was closed");
    } else if (!this.#hasHooks) {
      await this.#serves(stop);
    }
  }

  async #serves(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      try {
        if ((await this.health()) === "serving") return;
      } catch (error) {
        const passing = [errors.ConnectionLost, errors.Unavailable, errors.DeadlineExceeded];
        if (!passing.some((kind) => error instanceof kind)) throw error;
      }
      await sleep(READY_POLL_MS, stop);
    }
  }

  /**
   * Finishes what runs, gives back what has not begun, and disconnects. May be called twice. Handlers that
   * still run after `drainTimeoutMs` are told to stop; those that ignore it are left behind.
   */
  close(options: { drainTimeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.drainTimeoutMs ?? this.#options.drainTimeoutMs ?? 20_000);
    return this.#closing;
  }

  async #close(drainTimeoutMs: number): Promise<void> {
    try {
      if (this.#stream !== undefined && this.#serving !== undefined) {
        const ended = this.#serving.catch(() => {});
        if (this.#stream.state !== "closed") {
          await Promise.race([this.#stream.drain(drainTimeoutMs, "the client closes"), ended]);
        }
        await within(ended, CLOSE_MS);
      }
    } finally {
      // Until here a handler that finishes may still use the client, and its calls are still asked about.
      await this.#hooks?.close();
      await this.closeTurns();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Resolves when the executor's stream has ended for good. Rejects: another try cannot help, e.g. `Superseded`. */
  async waitClosed(): Promise<void> {
    await this.#serving;
    this.#throwRefused();
  }

  /**
   * Serves tools and hooks until SIGTERM or SIGINT, then drains. A second signal ends the process at once.
   *
   * Rejects with `RegistrationRefused`, if registration is strict; and where another try cannot help.
   */
  async run(): Promise<void> {
    const stopped = new Deferred<void>();
    let signals = 0;
    const release = onSignals(() => {
      signals += 1;
      // Whoever asks twice does not want to wait for anybody.
      if (signals > 1) process.exit(128 + 15);
      stopped.resolve();
    });
    try {
      this.start();
      const serving: Promise<void>[] = [];
      if (this.#stream !== undefined) serving.push(this.waitClosed());
      if (this.#hasHooks && this.#hooks !== undefined) serving.push(this.#hooks.waitClosed());
      if (serving.length === 0) throw new TypeError("a client without tools and hooks has nothing to run");
      await Promise.race([stopped.promise, ...serving]);
    } finally {
      await this.close();
      release();
    }
  }
}
