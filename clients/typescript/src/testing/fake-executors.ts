/** The executor's half of the fake sidecar: takes streams, sends calls, keeps what is in flight. */
import { createHash, randomUUID } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import * as ex from "../gen/callgate/v1/executor_service_pb.js";
import { PongSchema } from "../gen/callgate/v1/stream_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import { keyOfRef } from "../wire/convert.js";
import { Outbox } from "../wire/outbox.js";
import { type ExecutorOutbox, FakeCall, tell } from "./fake-execution.js";

/** What of the stream's settings a test may change. */
export interface FakeLimits {
  pingIntervalMs?: number;
  pingMisses?: number;
  maxResultBytes?: number;
  maxToolsPerMessage?: number;
}

/** One process, for all of its streams. */
interface Instance {
  readonly id: string;
  readonly tools: Map<string, { definition: ty.ToolDefinition; digest: Uint8Array }>;
  line: ExecutorOutbox | undefined;
  hello: ex.Hello;
}

/** See the head of this file. */
export class FakeExecutors {
  /** What every executor has said when it came. */
  readonly hellos: ex.Hello[] = [];
  /** Pings that came. */
  pings = 0;
  /** Nonces of pongs that came. */
  readonly pongs: number[] = [];
  /** Whether pings of executors are answered. */
  answersPings = true;
  /** Whether a result is acknowledged when it comes. */
  acknowledges = true;
  /** Capacities that came after a hello. */
  readonly capacities: number[] = [];
  /** Answers to permission checks, by check id. */
  readonly checks = new Map<string, ex.PermissionCheckResult>();
  readonly #instances = new Map<string, Instance>();
  readonly #calls = new Map<string, FakeCall>();
  #changed: (() => void)[] = [];

  constructor(readonly limits: FakeLimits) {}

  /** Resolves with the next change of anything here. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }

  #notify(): void {
    const waiting = this.#changed;
    this.#changed = [];
    for (const resolve of waiting) resolve();
  }

  /** The instance that has a tool and a stream. */
  find(tool: string): Instance | undefined {
    return [...this.#instances.values()].find((one) => one.line !== undefined && one.tools.has(tool));
  }

  /** Whether an instance has the tool, connected or not. */
  knows(tool: string): boolean {
    return [...this.#instances.values()].some((one) => one.tools.has(tool));
  }

  /** The definitions of all tools. */
  definitions(): ty.ToolDefinition[] {
    return [...this.#instances.values()].flatMap((one) =>
      [...one.tools.values()].map((tool) => tool.definition),
    );
  }

  /** Serves one stream. */
  async *connect(requests: AsyncIterable<ex.ConnectRequest>): AsyncGenerator<ex.ConnectResponse> {
    const line: ExecutorOutbox = new Outbox();
    void this.#read(line, requests);
    yield* line;
  }

  async #read(line: ExecutorOutbox, requests: AsyncIterable<ex.ConnectRequest>): Promise<void> {
    let instance: Instance | undefined;
    try {
      for await (const { body } of requests) {
        if (body.case === "hello") instance = this.#welcome(line, body.value);
        else if (instance !== undefined) this.#take(instance, line, body);
        this.#notify();
      }
    } catch {
      // The line was lost; what was in flight stays.
    }
    if (instance?.line === line) instance.line = undefined;
    line.end();
    this.#notify();
  }

  #welcome(line: ExecutorOutbox, hello: ex.Hello): Instance {
    this.hellos.push(hello);
    const id = hello.instanceId || randomUUID();
    const known = this.#instances.get(id);
    const instance: Instance = known ?? { id, tools: new Map(), line, hello };
    instance.line = line;
    instance.hello = hello;
    instance.tools.clear();
    this.#instances.set(id, instance);
    const value = create(ex.WelcomeSchema, {
      protocol: 1,
      connectionId: randomUUID(),
      instanceId: id,
      resumeToken: `resume-${id}`,
      registrations: hello.tools.map((tool) => this.#register(instance, tool)),
      inFlight: hello.inFlight.map((item) => this.#decide(item)),
      timing: {
        pingIntervalMs: this.limits.pingIntervalMs ?? 5_000,
        pingMisses: this.limits.pingMisses ?? 3,
      },
      limits: {
        maxResultBytes: this.limits.maxResultBytes ?? 0,
        maxToolsPerMessage: this.limits.maxToolsPerMessage ?? 0,
      },
    });
    tell(line, { case: "welcome", value });
    return instance;
  }

  #register(instance: Instance, definition: ty.ToolDefinition): ty.ToolRegistration {
    const { name } = definition;
    if (instance.tools.has(name)) {
      const error = { code: "tool_name_duplicate", messageForModel: `\`${name}\` is taken` };
      return create(ty.ToolRegistrationSchema, { name, state: ty.RegistrationState.REFUSED, error });
    }
    const digest = createHash("sha256").update(toBinary(ty.ToolDefinitionSchema, definition)).digest();
    instance.tools.set(name, { definition, digest });
    const state = ty.RegistrationState.ACTIVE;
    return create(ty.ToolRegistrationSchema, { name, state, toolDigest: digest, generation: 1 });
  }

  #decide(item: ex.InFlightExecution): ex.InFlightDecision {
    const call = this.#calls.get(keyOfRef(item.execution));
    const wanted =
      item.state === ex.InFlightState.FINISHED ? ex.InFlightAction.SEND_RESULT : ex.InFlightAction.CONTINUE;
    const action = call === undefined ? ex.InFlightAction.FORGET : wanted;
    return create(ex.InFlightDecisionSchema, {
      action,
      ...(item.execution ? { execution: item.execution } : {}),
    });
  }

  #take(instance: Instance, line: ExecutorOutbox, body: ex.ConnectRequest["body"]): void {
    switch (body.case) {
      case "ping":
        this.pings += 1;
        if (this.answersPings)
          tell(line, { case: "pong", value: create(PongSchema, { nonce: body.value.nonce }) });
        return;
      case "pong":
        this.pongs.push(body.value.nonce);
        return;
      case "toolUpdate":
        return this.#update(instance, line, body.value);
      case "capacityUpdate":
        this.capacities.push(body.value.maxConcurrentExecutions);
        return;
      case "drainRequest":
        return tell(line, { case: "drainStarted", value: create(ex.DrainStartedSchema) });
      case "permissionCheckResult":
        this.checks.set(body.value.checkId, body.value);
        return;
      case "accepted":
      case "rejected":
      case "abandoned":
      case "progress":
      case "output":
      case "cancelAck":
      case "result":
        this.#calls.get(keyOfRef(body.value.execution))?.take(body);
        if (body.case === "result" && this.acknowledges) this.#acknowledge(line, body.value);
        return;
      default:
        return;
    }
  }

  #acknowledge(line: ExecutorOutbox, result: ex.ExecuteResult): void {
    if (result.execution === undefined) return;
    const value = create(ex.ResultAckSchema, {
      execution: result.execution,
      status: ex.ResultAckStatus.RECORDED,
    });
    tell(line, { case: "resultAck", value });
  }

  #update(instance: Instance, line: ExecutorOutbox, update: ex.ToolUpdate): void {
    for (const tool of update.upsert) instance.tools.delete(tool.name);
    const added = update.upsert.map((tool) => this.#register(instance, tool));
    const removed = update.remove.map((name) => {
      instance.tools.delete(name);
      return create(ty.ToolRegistrationSchema, { name, state: ty.RegistrationState.REMOVED });
    });
    const value = create(ex.ToolUpdateResultSchema, {
      updateId: update.updateId,
      registrations: [...added, ...removed],
    });
    tell(line, { case: "toolUpdateResult", value });
  }

  /** Sends a call; undefined: nobody has the tool. */
  send(fields: {
    toolName: string;
    callId: string;
    argumentsJson: Uint8Array;
    context: Partial<Omit<ty.CallContext, "$typeName" | "state" | "trace">>;
    metadataJson?: Uint8Array;
    outputCreditBytes: number;
    timeoutMs?: number;
  }): FakeCall | undefined {
    const instance = this.find(fields.toolName);
    const tool = instance?.tools.get(fields.toolName);
    if (instance === undefined || tool === undefined) return undefined;
    const { metadataJson = new Uint8Array(), context, ...rest } = fields;
    const request = create(ex.ExecuteRequestSchema, {
      ...rest,
      execution: { executionId: randomUUID(), attempt: 1 },
      toolDigest: tool.digest,
      context: {
        services: tool.definition.services,
        ...context,
        state: { schemaVersion: 1, sessionId: context.sessionId ?? "", metadataJson },
      },
    });
    return this.#dispatch(instance, request);
  }

  /** Sends a request as it is, to the executor that has its tool. Throws `RangeError`: nobody has. */
  resend(request: ex.ExecuteRequest): FakeCall {
    const instance = this.find(request.toolName);
    if (instance === undefined) throw new RangeError(`nobody has the tool \`${request.toolName}\``);
    return this.#dispatch(instance, request);
  }

  #dispatch(instance: Instance, request: ex.ExecuteRequest): FakeCall {
    const call = new FakeCall(request, () => instance.line);
    this.#calls.set(keyOfRef(request.execution), call);
    tell(instance.line, { case: "execute", value: request });
    return call;
  }

  /** Forgets what is in flight, as a sidecar does that lost its memory. */
  forgetCalls(): void {
    this.#calls.clear();
  }

  /** Says something to every connected executor. */
  broadcast(body: ex.ConnectResponse["body"]): void {
    for (const instance of this.#instances.values()) tell(instance.line, body);
  }
}
