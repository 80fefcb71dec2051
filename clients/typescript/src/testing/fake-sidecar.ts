/**
 * A sidecar in this process that decides nothing, for tests of tools, orchestrators and approvers.
 *
 * Checks no schema, asks only for what `ask` names, keeps nothing. Listens on a Unix socket of its own.
 */
import { mkdtempSync, rmSync } from "node:fs";
import * as http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Approval } from "../approval.js";
import { Approvals, type ApprovalsOptions } from "../approvals.js";
import { Client, type ClientOptions } from "../client.js";
import { DeadlineExceeded } from "../errors.js";
import { ApprovalService } from "../gen/callgate/v1/approval_service_pb.js";
import { type ConnectResponse, ExecutorService } from "../gen/callgate/v1/executor_service_pb.js";
import { RegistryService } from "../gen/callgate/v1/registry_service_pb.js";
import { TurnService } from "../gen/callgate/v1/turn_service_pb.js";
import { Health } from "../gen/grpc/health/v1/health_pb.js";
import { encodeText, toJson } from "../json.js";
import { approvalOf } from "../wire/convert-approvals.js";
import { FakeApprovals } from "./fake-approvals.js";
import type { FakeCall } from "./fake-execution.js";
import { FakeExecutors, type FakeLimits } from "./fake-executors.js";
import { FakeTurns } from "./fake-turns.js";

const WAIT_MS = 10_000;
/** Quick, so that tests of lost streams are. */
const QUICK = { initialMs: 5, capMs: 50 };

/** What may be said of a call that is sent directly. */
export interface FakeCallOptions {
  callId?: string;
  sessionId?: string;
  metadata?: Readonly<Record<string, unknown>>;
  services?: readonly string[];
  cwd?: string;
  /** Bytes of output that may be sent. Absent: 64 KiB. */
  outputCredit?: number;
  timeoutMs?: number;
}

/** See the head of this file. */
export class FakeSidecar implements AsyncDisposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "callgate-fake-"));
  readonly #server: http2.Http2Server;
  readonly #sessions = new Set<http2.ServerHttp2Session>();
  readonly executors: FakeExecutors;
  readonly turns: FakeTurns;
  readonly #approvals: FakeApprovals;
  /** What every request came with as its token; empty: none. */
  readonly tokens: string[] = [];

  private constructor(limits: FakeLimits) {
    this.executors = new FakeExecutors(limits);
    this.turns = new FakeTurns(this.executors);
    this.#approvals = new FakeApprovals(this.turns);
    const adapter = connectNodeAdapter({ routes: (router) => this.#routes(router) });
    this.#server = http2.createServer((request, response) => {
      this.tokens.push(String(request.headers.authorization ?? "").replace("Bearer ", ""));
      adapter(request, response);
    });
    this.#server.on("session", (session) => {
      this.#sessions.add(session);
      session.on("error", () => {});
      session.once("close", () => this.#sessions.delete(session));
    });
  }

  /** A fake sidecar that listens. */
  static async start(limits: FakeLimits = {}): Promise<FakeSidecar> {
    const made = new FakeSidecar(limits);
    await made.#listen();
    return made;
  }

  #listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(join(this.#folder, "callgate.sock"), resolve);
    });
  }

  #routes(router: ConnectRouter): void {
    const { executors, turns } = this;
    const approvals = this.#approvals;
    router.service(ExecutorService, { connect: (requests) => executors.connect(requests) });
    router.service(TurnService, {
      streamTurns: (requests) => turns.stream(requests),
      runTurn: async function* (request) {
        for await (const turn of turns.events((listener) => turns.run(request, listener))) yield { turn };
      },
      attachTurn: async function* ({ turnId, afterSequence }) {
        const begin = turns.events((listener) => turns.find(turnId).attach(afterSequence, listener));
        for await (const turn of begin) yield { turn };
      },
      cancelTurn: ({ turnId, reason }) => {
        turns.cancel(turnId, reason);
        return {};
      },
      cancelCall: ({ turnId, callId, reason }) => {
        turns.cancelCall(turnId, callId, reason);
        return {};
      },
    });
    router.service(ApprovalService, {
      listApprovals: () => ({ approvals: approvals.pending() }),
      getApproval: ({ approvalId }) => ({ approval: approvals.get(approvalId) }),
      watchApprovals: (request) => approvals.watch(request),
      decideApprovals: ({ decisions }) => ({ outcomes: approvals.decide(decisions) }),
    });
    router.service(RegistryService, {
      listTools: () => ({
        tools: executors.definitions().map((definition) => ({ definition, state: 1 })),
        toolSnapshotId: "snapshot",
      }),
    });
    router.service(Health, { check: () => ({ status: 1 }) });
  }

  /** Where it listens. */
  get endpoint(): string {
    return `unix://${join(this.#folder, "callgate.sock")}`;
  }

  /** A client of it. `executorName` absent: "test". */
  client(options: ClientOptions = {}): Client {
    return new Client({ endpoint: this.endpoint, executorName: "test", backoff: QUICK, ...options });
  }

  /** An approver of it. */
  approver(options: ApprovalsOptions = {}): Approvals {
    return new Approvals({ endpoint: this.endpoint, backoff: QUICK, ...options });
  }

  /** Sends a call to the executor that has the tool, waiting for one if need be. */
  async startCall(
    toolName: string,
    args: Readonly<Record<string, unknown>> | string = {},
    options: FakeCallOptions = {},
  ): Promise<FakeCall> {
    await this.until(() => this.executors.find(toolName) !== undefined);
    const { callId = "call", sessionId = "session", cwd = "", services, metadata = {} } = options;
    const sent = this.executors.send({
      toolName,
      callId,
      argumentsJson: encodeText(typeof args === "string" ? args : toJson(args)),
      context: {
        sessionId,
        cwd,
        batchCallId: "batch",
        turnId: "turn",
        runId: "run",
        ...(services ? { services: [...services] } : {}),
      },
      metadataJson: encodeText(toJson(metadata)),
      outputCreditBytes: options.outputCredit ?? 64 * 1024,
      ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
    });
    return sent!;
  }

  /** Resolves when something is so that executors bring about. Rejects with `DeadlineExceeded`. */
  async until(condition: () => boolean, timeoutMs = WAIT_MS): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<never>((_, reject) => {
      const why = new DeadlineExceeded(`nothing of the kind happened within ${timeoutMs} ms`);
      timer = setTimeout(() => reject(why), timeoutMs);
    });
    try {
      while (!condition()) await Promise.race([this.executors.change(), over]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Calls of these tools wait for a decision from now on. */
  ask(...tools: string[]): void {
    for (const tool of tools) this.turns.asked.add(tool);
  }

  /** The approvals that wait, as soon as there is one. */
  async asked(): Promise<Approval[]> {
    await using approvals = this.approver();
    for await (const update of approvals.watch()) {
      if (update.approvals.length > 0) break;
    }
    return this.#approvals.pending().map(approvalOf);
  }

  /** Says something to every connected executor, in the words of the contract. */
  tell(body: ConnectResponse["body"]): void {
    this.executors.broadcast(body);
  }

  /** Cuts every connection, as if a cable were pulled. */
  dropConnections(): void {
    for (const session of this.#sessions) session.destroy();
  }

  /** Takes no connections for a while: closes the socket until the function that is returned is called. */
  async goAway(): Promise<() => Promise<void>> {
    await this.#close();
    return () => this.#listen();
  }

  async #close(): Promise<void> {
    this.dropConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Ends it. */
  async close(): Promise<void> {
    await this.#close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
