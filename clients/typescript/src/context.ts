/**
 * What a handler may know about its call besides the arguments.
 *
 * Handed over explicitly: there is no ambient current call. Holds no credentials, and nothing in it
 * changes the session.
 */
import { ToolCancelled } from "./errors.js";
import { decodeText, encodeText, parseJson, toJson } from "./json.js";

export type OutputChannel = "text" | "stdout" | "stderr" | "data";

/** Something of the process that handlers may share, e.g. a database pool. */
export interface ToolService {
  /** Names the service in `services` of a tool. */
  readonly serviceId: string;
}

/** The services of a process. */
export class ToolServiceRegistry {
  readonly #services = new Map<string, ToolService>();

  /** Adds a service. Returns false, and changes nothing, if its id is taken. */
  register(service: ToolService): boolean {
    if (this.#services.has(service.serviceId)) return false;
    this.#services.set(service.serviceId, service);
    return true;
  }

  /** The service of that id; undefined: there is none. */
  get<T extends ToolService = ToolService>(serviceId: string): T | undefined {
    return this.#services.get(serviceId) as T | undefined;
  }

  /** A view that shows only these ids. */
  allowing(ids: readonly string[]): AllowedServices {
    return new AllowedServices(this, ids);
  }
}

/** The services that one call may use; every other id reads as absent. */
export class AllowedServices {
  readonly #registry: ToolServiceRegistry;
  readonly #allowed: ReadonlySet<string>;

  constructor(registry: ToolServiceRegistry, ids: readonly string[]) {
    this.#registry = registry;
    this.#allowed = new Set(ids);
  }

  /** The service of that id; undefined if the call may not use it or nobody registered it. */
  get<T extends ToolService = ToolService>(serviceId: string): T | undefined {
    return this.#allowed.has(serviceId) ? this.#registry.get<T>(serviceId) : undefined;
  }

  /** Whether the call has it. */
  has(serviceId: string): boolean {
    return this.get(serviceId) !== undefined;
  }

  /** The ids that the call may use, registered or not. */
  ids(): string[] {
    return [...this.#allowed].sort();
  }
}

/** A read-only copy of the session's state: frozen all the way down. */
export interface SessionState {
  /** Form of `metadata`, counted by the orchestrator; 0: not used. */
  readonly schemaVersion: number;
  readonly sessionId: string;
  /** As the orchestrator set it. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

function frozen<T>(value: T): T {
  if (value !== null && typeof value === "object") {
    for (const inner of Object.values(value)) frozen(inner);
    Object.freeze(value);
  }
  return value;
}

/** Reads the metadata; text that is no object reads as empty. */
export function sessionState(
  schemaVersion: number,
  sessionId: string,
  metadataJson: Uint8Array,
): SessionState {
  let metadata: unknown = {};
  try {
    if (metadataJson.length > 0) metadata = parseJson(decodeText(metadataJson), { bigints: true });
  } catch {
    metadata = {};
  }
  const isObject = metadata !== null && typeof metadata === "object" && !Array.isArray(metadata);
  return frozen({
    schemaVersion,
    sessionId,
    metadata: isObject ? (metadata as Record<string, unknown>) : {},
  });
}

export type CancelReason = "call_cancelled" | "turn_cancelled" | "run_ended" | "deadline" | "shutdown";

/** Whether a call has been told to stop, and why. */
export class Cancellation {
  readonly #controller = new AbortController();

  /** Aborted with a `ToolCancelled`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the handler should stop. */
  get cancelled(): boolean {
    return this.signal.aborted;
  }

  /** Undefined: go on. */
  get reason(): CancelReason | undefined {
    return this.cancelled ? ((this.signal.reason as ToolCancelled).reason as CancelReason) : undefined;
  }

  /** What the one who cancelled said; empty: nothing. */
  get message(): string {
    return this.cancelled ? (this.signal.reason as ToolCancelled).message : "";
  }

  /** Records the first request; later ones change nothing and return false. */
  request(reason: CancelReason, message = ""): boolean {
    if (this.cancelled) return false;
    this.#controller.abort(new ToolCancelled(message, { reason }));
    return true;
  }
}

/** Where progress and output of one execution go. Methods never block and never throw. */
export interface Reporter {
  progress(message: string, fraction: number | undefined, details: Uint8Array): void;
  /** Takes what credit allows and returns how many bytes that were. */
  output(data: Uint8Array, channel: OutputChannel): number;
}

/** Keeps nothing. For calls without a sidecar. */
export const silentReporter: Reporter = { progress: () => {}, output: () => 0 };

/** What a `ToolContext` is made of. */
export interface ToolContextFields {
  sessionId: string;
  state: SessionState;
  batchCallId: string;
  cancellation: Cancellation;
  services: AllowedServices;
  callId: string;
  reporter: Reporter;
  argumentsJson: string;
  runId?: string;
  turnId?: string;
  cwd?: string;
  executionId?: string;
  attempt?: number;
  traceparent?: string;
  timeoutMs?: number | undefined;
}

/** One call as its handler sees it. */
export class ToolContext {
  readonly sessionId: string;
  readonly state: SessionState;
  readonly batchCallId: string;
  readonly cancellation: Cancellation;
  readonly services: AllowedServices;
  readonly callId: string;
  readonly runId: string;
  readonly turnId: string;
  /** The session's working directory; empty: none was set. */
  readonly cwd: string;
  /** The arguments as text, with every digit of every number. */
  readonly argumentsJson: string;
  /** The same for all attempts of a call: an idempotency key. */
  readonly executionId: string;
  readonly attempt: number;
  readonly traceparent: string;
  readonly #reporter: Reporter;
  readonly #endsAt: number | undefined;

  constructor(fields: ToolContextFields) {
    this.sessionId = fields.sessionId;
    this.state = fields.state;
    this.batchCallId = fields.batchCallId;
    this.cancellation = fields.cancellation;
    this.services = fields.services;
    this.callId = fields.callId;
    this.argumentsJson = fields.argumentsJson;
    this.runId = fields.runId ?? "";
    this.turnId = fields.turnId ?? "";
    this.cwd = fields.cwd ?? "";
    this.executionId = fields.executionId ?? "";
    this.attempt = fields.attempt ?? 1;
    this.traceparent = fields.traceparent ?? "";
    this.#reporter = fields.reporter;
    this.#endsAt = fields.timeoutMs === undefined ? undefined : performance.now() + fields.timeoutMs;
  }

  /** Aborted when the handler should stop; its reason is a `ToolCancelled`. Hand it on to what waits. */
  get signal(): AbortSignal {
    return this.cancellation.signal;
  }

  /** Whether the handler should stop. */
  get cancelled(): boolean {
    return this.cancellation.cancelled;
  }

  /** Milliseconds until the call times out, never below 0; undefined: no limit. Advice by the local clock. */
  timeRemaining(): number | undefined {
    return this.#endsAt === undefined ? undefined : Math.max(0, this.#endsAt - performance.now());
  }

  /**
   * Reports how far the work is. About 10 a second are passed on; of more, the newest wins.
   *
   * `message` is for people, at most 1 KiB; `fraction` is 0 to 1, beyond is moved to the nearer end;
   * `details` is any JSON value, dropped beyond 16 KiB. Throws `NotJson` for details that are none.
   */
  progress(message = "", fraction?: number, details?: unknown): void {
    const done =
      fraction === undefined || Number.isNaN(fraction) ? undefined : Math.min(1, Math.max(0, fraction));
    const encoded = details === undefined ? new Uint8Array() : encodeText(toJson(details));
    this.#reporter.progress(message, done, encoded);
  }

  /**
   * Prints something that is worth seeing while the call runs.
   *
   * Sent as far as readers have given credit; the rest is dropped and counted. Returns how many bytes
   * were taken. Output is no part of the result.
   */
  output(data: string | Uint8Array, channel: OutputChannel = "text"): number {
    // A copy: what the handler does with its buffer afterwards is not what it printed.
    const bytes = typeof data === "string" ? encodeText(data) : Uint8Array.from(data);
    return this.#reporter.output(bytes, channel);
  }
}
