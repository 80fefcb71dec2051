/**
 * The orchestrator's half of the client: runs turns, and asks the sidecar about them.
 *
 * Decides nothing about a call, and never runs a turn twice.
 */
import type { Backoff } from "./backoff.js";
import type { TlsOptions } from "./endpoint.js";
import { type Endpoint, resolveEndpoint } from "./endpoint.js";
import { NotFound, ProtocolError } from "./errors.js";
import type { CallState, Run, ToolCall, TurnInfo, TurnState } from "./events.js";
import { ProviderFormat as Formats } from "./gen/callgate/v1/provider_pb.js";
import { RegistryService } from "./gen/callgate/v1/registry_service_pb.js";
import { ServerService } from "./gen/callgate/v1/server_service_pb.js";
import { TurnService, TurnState as TurnStates } from "./gen/callgate/v1/turn_service_pb.js";
import { Health as HealthService } from "./gen/grpc/health/v1/health_pb.js";
import { decodeText } from "./json.js";
import { type Logger, silent } from "./logger.js";
import type { ExportLoss, Health, ProviderFormat, ServerInfo, ToolInfo, ToolList } from "./registry.js";
import type { CallResult } from "./result.js";
import { Sessions } from "./sessions.js";
import { Turn, TurnFeed, type TurnSource } from "./turn.js";
import { type AttachOptions, onSuspendOf, runRequest, type TurnOptions, viewOf } from "./turn-options.js";
import { callResult, numberOf, wholeMs } from "./wire/convert.js";
import * as convert from "./wire/convert-turns.js";
import { Dialer, defined } from "./wire/dialer.js";
import { Link } from "./wire/link.js";
import { TurnCanceller } from "./wire/turn-canceller.js";
import { TurnMux } from "./wire/turn-mux.js";
import { TurnReader } from "./wire/turn-reader.js";
import { type RpcTurn, RpcTurns } from "./wire/turn-rpc.js";

/** What a connection to the sidecar is made of. */
export interface ConnectionOptions {
  /** `unix:///…`, `http://host:port` or `https://host:port`. Absent: `CALLGATE_ENDPOINT`, else the default socket. */
  endpoint?: string | undefined;
  /** Absent: `CALLGATE_TOKEN`, else the file that `CALLGATE_TOKEN_FILE` names, read anew for every request. */
  token?: string | undefined;
  /** For one answer of the sidecar, turns aside. Absent: 15 000. */
  requestTimeoutMs?: number | undefined;
  /** After which a turn fails with `ConnectionLost` if the sidecar stays away. Absent: 30 000. */
  reconnectTimeoutMs?: number | undefined;
  tls?: TlsOptions | undefined;
  /** Waits between connections. */
  backoff?: Partial<Backoff> | undefined;
  /** Absent: nothing is logged. */
  logger?: Logger | undefined;
}

/** A turn of a session, where it is not the caller's only one of that id. */
interface OfSession {
  sessionId?: string;
}

/** How something is cancelled. */
export interface CancelOptions extends OfSession {
  /** For the executors and the record. */
  reason?: string;
  /** How long executing calls may take. Absent: 5 000; 0: not at all. */
  graceMs?: number;
}

/** The part of `Client` that runs turns. */
export class TurnClient {
  readonly endpoint: Endpoint;
  /** The sidecar's sessions. */
  readonly sessions: Sessions;
  /** @internal */
  protected readonly link: Link;
  /** @internal */
  protected readonly log: Logger;
  readonly #mux: TurnMux;
  readonly #rpcTurns: RpcTurns;
  readonly #canceller: TurnCanceller;

  constructor(options: ConnectionOptions) {
    this.endpoint = resolveEndpoint(options.endpoint);
    this.log = options.logger ?? silent;
    if (!this.endpoint.secure && !this.endpoint.local) {
      this.log.warn(`the connection to ${this.endpoint.text} is not encrypted`);
    }
    const dialer = new Dialer(this.endpoint, options.token, options.tls);
    this.link = new Link(dialer, options.requestTimeoutMs ?? 15_000);
    this.sessions = new Sessions(this.link);
    const giveUpMs = options.reconnectTimeoutMs ?? 30_000;
    const backoff = options.backoff ?? {};
    this.#mux = new TurnMux(dialer, backoff, giveUpMs, this.log);
    this.#rpcTurns = new RpcTurns(this.link, backoff, giveUpMs);
    this.#canceller = new TurnCanceller(this.link, this.log);
  }

  /** Ends everything that belongs to turns, and the shared connection. */
  protected async closeTurns(): Promise<void> {
    await this.#canceller.close();
    this.#mux.close();
    this.#rpcTurns.close();
    this.link.close();
  }

  /** Told before a turn begins; may throw. */
  protected checkTurns(): void {
    this.link.checkOpen();
  }

  // Turns.

  /**
   * Runs the calls of one model message, from now on. Await it for the result, iterate it for events.
   *
   * Without calls, and without `openaiMessage`, this is a round in which the model answered without tools.
   * Throws `TypeError`: an argument cannot be sent. Awaiting rejects with `RunNotActive`, `Conflict`,
   * `InvalidRequest`, `LimitExceeded` or `Unavailable`: the sidecar refused the turn, and nothing ran; with
   * `ConnectionLost`: the sidecar stayed away, and the turn may go on; with `Suspended`.
   */
  runTurn(sessionId: string, calls: readonly ToolCall[] = [], options: TurnOptions = {}): Turn {
    this.checkTurns();
    const request = runRequest(sessionId, calls, options);
    const { turnId, view, onSuspend } = request;
    const feed = new TurnFeed();
    if (options.carrier === "rpc") {
      const turn = { reader: new TurnReader(turnId), sessionId, view, onSuspend, request };
      return this.#overRpc(turn, feed, options.signal);
    }
    const source: TurnSource = {
      cancel: (reason) => this.#canceller.cancel(turnId, sessionId, reason),
      detach: () => this.#mux.detach(turnId),
    };
    if (!options.signal?.aborted) this.#mux.run(request, feed);
    return new Turn(turnId, feed, source, options.signal);
  }

  /**
   * Takes up a turn that this or another process began. Awaiting rejects with `NotFound` if there is no such
   * turn.
   */
  attachTurn(turnId: string, options: AttachOptions = {}): Turn {
    this.checkTurns();
    const turn: RpcTurn = {
      reader: new TurnReader(turnId, defined({ epoch: options.epoch, afterSequence: options.afterSequence })),
      sessionId: options.sessionId ?? "",
      view: viewOf(options),
      onSuspend: onSuspendOf(options),
      request: undefined,
    };
    return this.#overRpc(turn, new TurnFeed(), options.signal);
  }

  #overRpc(turn: RpcTurn, feed: TurnFeed, signal: AbortSignal | undefined): Turn {
    const { turnId } = turn.reader;
    const end = signal?.aborted ? () => {} : this.#rpcTurns.read(turn, feed);
    const source = {
      cancel: (reason: string) => this.#canceller.cancel(turnId, turn.sessionId, reason),
      detach: end,
    };
    return new Turn(turnId, feed, source, signal);
  }

  /**
   * Cancels a turn and ends its run. Resolves once that is durable; undefined: the turn was not seen yet, and
   * the cancellation is remembered for a minute.
   */
  async cancelTurn(turnId: string, options: CancelOptions = {}): Promise<TurnState | undefined> {
    const request = { turnId, ...cancelFields(options) };
    const answer = await this.link.ask(TurnService, (stub, call) => stub.cancelTurn(request, call));
    return answer.state === TurnStates.UNSPECIFIED ? undefined : convert.turnStateOf(answer.state);
  }

  /** Cancels one call, which gets a `tool_cancelled` result. The turn goes on. */
  async cancelCall(turnId: string, callId: string, options: CancelOptions = {}): Promise<CallState> {
    const request = { turnId, callId, ...cancelFields(options) };
    const answer = await this.link.ask(TurnService, (stub, call) => stub.cancelCall(request, call));
    return convert.callStateOf(answer.state);
  }

  /** One turn with the state of its calls. Rejects with `NotFound`. */
  async getTurn(turnId: string, { sessionId = "" }: OfSession = {}): Promise<TurnInfo> {
    const answer = await this.link.ask(TurnService, (stub, call) =>
      stub.getTurn({ turnId, sessionId }, call),
    );
    if (answer.turn === undefined) throw new ProtocolError("the sidecar sent no turn");
    return convert.turnInfo(answer.turn);
  }

  /** Turns, newest first, page by page, without contents. A new process finds here what it has to take up. */
  async *listTurns(
    wanted: { sessionId?: string; runId?: string; state?: TurnState } = {},
  ): AsyncGenerator<TurnInfo, void, undefined> {
    const { sessionId = "", runId = "" } = wanted;
    const state = wanted.state === undefined ? 0 : numberOf("state", TurnStates, wanted.state);
    let pageToken = "";
    do {
      const request = { sessionId, runId, state, pageToken };
      const page = await this.link.ask(TurnService, (stub, call) => stub.listTurns(request, call));
      yield* page.turns.map(convert.turnInfo);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** One result whole, also if it was cut in the turn's. Rejects with `NotFound`. */
  async getCallResult(
    turnId: string,
    callId: string,
    { sessionId = "" }: OfSession = {},
  ): Promise<CallResult> {
    const request = { turnId, callId, sessionId };
    const answer = await this.link.ask(TurnService, (stub, call) => stub.getCallResult(request, call));
    if (answer.result === undefined) throw new ProtocolError("the sidecar sent no result");
    return callResult(answer.result);
  }

  /** Completes a run. Rejects with `Conflict` while a turn of it runs. */
  async endRun(sessionId: string, runId = ""): Promise<Run> {
    const answer = await this.link.ask(TurnService, (stub, call) => stub.endRun({ sessionId, runId }, call));
    return convert.runOf(answer.run);
  }

  /** Cancels a run with all its turns. */
  async cancelRun(
    sessionId: string,
    runId = "",
    options: Omit<CancelOptions, "sessionId"> = {},
  ): Promise<Run> {
    const request = { ...cancelFields(options), sessionId, runId };
    const answer = await this.link.ask(TurnService, (stub, call) => stub.cancelRun(request, call));
    return convert.runOf(answer.run);
  }

  /** One run. Without an id, the session's default run. */
  async getRun(sessionId: string, runId = ""): Promise<Run> {
    const answer = await this.link.ask(TurnService, (stub, call) => stub.getRun({ sessionId, runId }, call));
    return convert.runOf(answer.run);
  }

  // The sidecar.

  /** What a model may see, or its export in a provider's form. */
  async listTools(wanted: { toolset?: string; format?: ProviderFormat } = {}): Promise<ToolList> {
    const format = wanted.format === undefined ? 0 : numberOf("format", Formats, wanted.format);
    const tools: ToolInfo[] = [];
    const exported: Record<string, unknown>[] = [];
    const aliases: [string, string][] = [];
    const losses: ExportLoss[] = [];
    let pageToken = "";
    for (;;) {
      const request = { toolset: wanted.toolset ?? "", format, pageToken };
      const page = await this.link.ask(RegistryService, (stub, call) => stub.listTools(request, call));
      tools.push(...page.tools.map(convert.toolInfo));
      const made = page.toolExport;
      if (made !== undefined && made.toolsJson.length > 0) {
        exported.push(...(JSON.parse(decodeText(made.toolsJson)) as Record<string, unknown>[]));
        aliases.push(...made.aliases.map(({ alias, tool }): [string, string] => [alias, tool]));
        losses.push(...made.losses.map(convert.exportLoss));
      }
      if (page.nextPageToken === "") {
        const snapshotId = page.toolSnapshotId;
        return { snapshotId, tools, exported, aliases: Object.fromEntries(aliases), losses };
      }
      pageToken = page.nextPageToken;
    }
  }

  /** `grpc.health.v1` of the sidecar: "", `liveness`, `readiness`, or a service's name. */
  async health(service = "readiness"): Promise<Health> {
    try {
      const answer = await this.link.ask(HealthService, (stub, call) => stub.check({ service }, call));
      const names: readonly Health[] = ["unknown", "serving", "not_serving", "service_unknown"];
      return names[answer.status] ?? "unknown";
    } catch (error) {
      if (error instanceof NotFound) return "service_unknown";
      throw error;
    }
  }

  /** Version, limits and what is switched on. */
  async serverInfo(): Promise<ServerInfo> {
    return convert.serverInfo(
      await this.link.ask(ServerService, (stub, call) => stub.getServerInfo({}, call)),
    );
  }
}

function cancelFields(options: CancelOptions) {
  const graceMs = options.graceMs === undefined ? undefined : wholeMs(options.graceMs);
  return { sessionId: options.sessionId ?? "", reason: options.reason ?? "", ...defined({ graceMs }) };
}
