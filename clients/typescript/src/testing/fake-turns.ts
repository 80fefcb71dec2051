/** The orchestrator's half of the fake sidecar: runs turns, keeps their events, lets calls wait. */
import { createHash, randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import * as av from "../gen/callgate/v1/approval_service_pb.js";
import * as tu from "../gen/callgate/v1/turn_service_pb.js";
import * as ty from "../gen/callgate/v1/types_pb.js";
import { decodeText, encodeText } from "../json.js";
import { Outbox } from "../wire/outbox.js";
import { ended, type FakeCall } from "./fake-execution.js";
import type { FakeExecutors } from "./fake-executors.js";

type EventBody = tu.TurnEvent["body"];
type Listener = (events: tu.TurnEvents) => void;

/** What an approver may decide about. */
export interface FakeApproval {
  approval: av.Approval;
  decide: (decision: av.ApprovalDecision) => void;
}

/** One turn. */
class FakeTurn {
  readonly kept: tu.TurnEvent[] = [];
  readonly listeners = new Set<Listener>();
  readonly calls = new Map<string, FakeCall>();
  completed = false;
  cancelled = false;

  constructor(readonly request: tu.RunTurnRequest) {}

  /** Something happened. */
  say(body: EventBody, isKept = true): void {
    const event = create(tu.TurnEventSchema, {
      sequence: isKept ? BigInt(this.kept.length + 1) : 0n,
      occurredAtMs: BigInt(Date.now()),
    });
    event.body = body;
    if (isKept) this.kept.push(event);
    const message = create(tu.TurnEventsSchema, { turnId: this.request.turnId, epoch: 1, events: [event] });
    for (const listener of [...this.listeners]) listener(message);
  }

  /** Everything after an event, then what follows. */
  attach(afterSequence: bigint, listener: Listener): void {
    const events = this.kept.filter((event) => event.sequence > afterSequence);
    const { turnId } = this.request;
    if (events.length > 0) listener(create(tu.TurnEventsSchema, { turnId, epoch: 1, events }));
    if (!this.completed) this.listeners.add(listener);
  }
}

/** See the head of this file. */
export class FakeTurns {
  /** Tools whose calls wait for a decision. */
  readonly asked = new Set<string>();
  readonly approvals = new Map<string, FakeApproval>();
  /** Cancellations that came. */
  readonly cancellations: { turnId: string; reason: string }[] = [];
  /** Told when an approval begins to wait or is decided. */
  onApproval: (approval: av.Approval) => void = () => {};
  readonly #turns = new Map<string, FakeTurn>();

  constructor(private readonly executors: FakeExecutors) {}

  /** Every turn that came, by id. */
  get turnIds(): string[] {
    return [...this.#turns.keys()];
  }

  /** Forgets a turn, as a sidecar does that was replaced. */
  forget(turnId: string): void {
    this.#turns.delete(turnId);
  }

  /** Begins a turn, or finds it. */
  run(request: tu.RunTurnRequest, listener: Listener): FakeTurn {
    const known = this.#turns.get(request.turnId);
    if (known !== undefined) {
      known.attach(0n, listener);
      return known;
    }
    if (new Set(request.calls.map((call) => call.callId)).size !== request.calls.length) {
      throw new ConnectError("two calls share an id", Code.InvalidArgument);
    }
    const turn = new FakeTurn(request);
    this.#turns.set(request.turnId, turn);
    turn.attach(0n, listener);
    void this.#carry(turn);
    return turn;
  }

  /** The turn of that id. */
  find(turnId: string): FakeTurn {
    const turn = this.#turns.get(turnId);
    if (turn === undefined) throw new ConnectError("there is no such turn", Code.NotFound);
    return turn;
  }

  async #carry(turn: FakeTurn): Promise<void> {
    const { request } = turn;
    turn.say({
      case: "turnAccepted",
      value: create(tu.TurnAcceptedSchema, {
        sessionId: request.sessionId,
        runId: request.runId || request.sessionId,
        batchId: `batch-${request.turnId}`,
        calls: request.calls.map(({ callId, name }) => ({ callId, tool: name })),
        round: 1,
      }),
    });
    const results = await Promise.all(request.calls.map((call) => this.#runCall(turn, call)));
    this.#finish(turn, results);
  }

  async #runCall(turn: FakeTurn, call: ty.ToolCall): Promise<ty.CallResult> {
    const about = { callId: call.callId, toolName: call.name };
    const decision = this.asked.has(call.name) ? await this.#wait(turn, call) : undefined;
    const result =
      decision === undefined ||
      decision.choice === av.ApprovalChoice.ONCE ||
      decision.choice === av.ApprovalChoice.EDIT
        ? await this.#execute(turn, call, decision)
        : refused(about, decision);
    const state = {
      success: ty.CallState.SUCCESS,
      error: ty.CallState.ERROR,
      cancelled: ty.CallState.CANCELLED,
    };
    const name = (["", "success", "error", "cancelled"] as const)[result.outcome] || "error";
    this.#move(turn, call.callId, state[name], result.error?.code ?? "");
    turn.say({ case: "callCompleted", value: create(tu.CallCompletedSchema, { result }) });
    return result;
  }

  #move(turn: FakeTurn, callId: string, state: ty.CallState, code = ""): void {
    turn.say({ case: "callStateChanged", value: create(tu.CallStateChangedSchema, { callId, state, code }) });
  }

  async #execute(
    turn: FakeTurn,
    call: ty.ToolCall,
    decision: av.ApprovalDecision | undefined,
  ): Promise<ty.CallResult> {
    const { request } = turn;
    const edited = decision?.editedArgumentsJson ?? new Uint8Array();
    // As at the sidecar, a call waits for an executor that has lost its stream.
    while (this.executors.knows(call.name) && this.executors.find(call.name) === undefined) {
      await this.executors.change();
    }
    const sent = this.executors.send({
      toolName: call.name,
      callId: call.callId,
      argumentsJson:
        edited.length > 0 ? edited : call.argumentsJson.length > 0 ? call.argumentsJson : encodeText("{}"),
      context: {
        sessionId: request.sessionId,
        runId: request.runId || request.sessionId,
        turnId: request.turnId,
        batchCallId: `batch-${request.turnId}`,
      },
      outputCreditBytes: request.view?.includeOutput ? 64 * 1024 : 0,
    });
    if (sent === undefined) {
      const error = { code: "tool_not_found", messageForModel: `there is no tool \`${call.name}\`` };
      return ended({ callId: call.callId, toolName: call.name }, "error", { error });
    }
    turn.calls.set(call.callId, sent);
    this.#move(turn, call.callId, ty.CallState.EXECUTING);
    const reports = this.#report(turn, call.callId, sent);
    await sent.until(() => sent.outcome !== undefined, 600_000);
    await reports;
    return sent.outcome!;
  }

  /** Passes progress on, as it comes. */
  async #report(turn: FakeTurn, callId: string, sent: FakeCall): Promise<void> {
    let told = 0;
    let printed = 0;
    do {
      await sent.until(
        () => sent.progress.length > told || sent.output.length > printed || sent.outcome !== undefined,
        600_000,
      );
      for (; told < sent.progress.length; told += 1) {
        const [message, fraction] = sent.progress[told]!;
        const value = create(tu.CallProgressSchema, {
          callId,
          message,
          ...(fraction === undefined ? {} : { fraction }),
        });
        turn.say({ case: "callProgress", value }, false);
      }
      if (sent.output.length > printed) {
        const data = encodeText(sent.output.slice(printed));
        printed = sent.output.length;
        turn.say({ case: "callOutput", value: create(tu.CallOutputSchema, { callId, data }) }, false);
      }
    } while (sent.outcome === undefined);
  }

  #wait(turn: FakeTurn, call: ty.ToolCall): Promise<av.ApprovalDecision> {
    const { request } = turn;
    this.#move(turn, call.callId, ty.CallState.AWAITING_APPROVAL);
    const approval = create(av.ApprovalSchema, {
      approvalId: randomUUID(),
      batchId: `batch-${request.turnId}`,
      sessionId: request.sessionId,
      rootSessionId: request.sessionId,
      turnId: request.turnId,
      call,
      tool: call.name,
      riskLevel: ty.RiskLevel.DANGEROUS,
      effectiveArgumentsJson: call.argumentsJson,
      displayArguments: decodeText(call.argumentsJson),
      approvalDigest: createHash("sha256").update(call.argumentsJson).digest(),
      allowedChoices: [1, 3, 4, 5, 6],
      state: av.ApprovalState.PENDING,
      createdAtMs: BigInt(Date.now()),
    });
    const { approvalId } = approval;
    return new Promise((resolve) => {
      this.approvals.set(approvalId, { approval, decide: resolve });
      this.onApproval(approval);
      const summary = { approvalId, callId: call.callId, tool: call.name, riskLevel: approval.riskLevel };
      const batchId = approval.batchId;
      const value = create(tu.ApprovalRequiredSchema, { batchId, approvals: [summary] });
      turn.say({ case: "approvalRequired", value });
      const suspended = create(tu.TurnSuspendedSchema, { batchId, approvalIds: [approvalId] });
      turn.say({ case: "turnSuspended", value: suspended });
    });
  }

  #finish(turn: FakeTurn, results: ty.CallResult[]): void {
    const stop = turn.cancelled || results.some((result) => result.stopFlag);
    const value = create(tu.TurnCompletedSchema, {
      outcome: turn.cancelled ? tu.TurnOutcome.CANCELLED : tu.TurnOutcome.COMPLETED,
      results: turn.cancelled ? [] : results,
      stop,
      stopReason: stop ? (turn.cancelled ? tu.StopReason.RUN_ENDED : tu.StopReason.TOOL) : 0,
      ...(turn.cancelled ? { closingResults: { historyOnly: true, results } } : {}),
    });
    turn.completed = true;
    turn.say({ case: "turnCompleted", value });
    turn.listeners.clear();
  }

  /** Cancels a turn: what runs is told to stop, what waits is refused. */
  cancel(turnId: string, reason: string): void {
    this.cancellations.push({ turnId, reason });
    const turn = this.#turns.get(turnId);
    if (turn === undefined || turn.completed) return;
    turn.cancelled = true;
    for (const call of turn.calls.values()) call.cancel("turn_cancelled", reason);
    for (const { approval, decide } of this.approvals.values()) {
      const choice = av.ApprovalChoice.CANCEL_TURN;
      if (approval.turnId === turnId) decide(create(av.ApprovalDecisionSchema, { choice }));
    }
  }

  /** Cancels one call. */
  cancelCall(turnId: string, callId: string, reason: string): void {
    this.find(turnId).calls.get(callId)?.cancel("call_cancelled", reason);
  }

  /** Serves one stream of turns. */
  async *stream(requests: AsyncIterable<tu.StreamTurnsRequest>): AsyncGenerator<tu.StreamTurnsResponse> {
    const line = new Outbox<tu.StreamTurnsResponse>();
    const detach: (() => void)[] = [];
    const say = (body: tu.StreamTurnsResponse["body"]): void => {
      const message = create(tu.StreamTurnsResponseSchema);
      message.body = body;
      line.say(message);
    };
    const listener: Listener = (value) => say({ case: "turn", value });
    const read = async (): Promise<void> => {
      for await (const { body } of requests) {
        if (body.case === "cancelTurn") this.cancel(body.value.turnId, body.value.reason);
        else if (body.case === "detach") this.#turns.get(body.value.turnId)?.listeners.delete(listener);
        else if (body.case === "run" || body.case === "attach") {
          const { turnId } = body.value;
          try {
            if (body.case === "run") this.run(body.value, listener);
            else this.find(turnId).attach(body.value.afterSequence, listener);
            detach.push(() => this.#turns.get(turnId)?.listeners.delete(listener));
          } catch (error) {
            const { code: status, rawMessage: message } = ConnectError.from(error);
            say({
              case: "refused",
              value: create(tu.TurnRefusedSchema, { turnId, error: { status, message } }),
            });
          }
        }
      }
    };
    read()
      .catch(() => {})
      .finally(() => line.end());
    try {
      yield* line;
    } finally {
      for (const one of detach) one();
    }
  }

  /** Serves the events of one turn. */
  async *events(begin: (listener: Listener) => void): AsyncGenerator<tu.TurnEvents> {
    const line = new Outbox<tu.TurnEvents>();
    const listener: Listener = (events) => {
      line.say(events);
      if (events.events.some((event) => event.body.case === "turnCompleted")) line.end();
    };
    begin(listener);
    yield* line;
  }
}

function refused(about: { callId: string; toolName: string }, decision: av.ApprovalDecision): ty.CallResult {
  if (decision.choice === av.ApprovalChoice.RESPOND) {
    const { contents = [], structuredJson = new Uint8Array(), isError = false } = decision.response ?? {};
    return ended(about, isError ? "error" : "success", { contents, structuredJson });
  }
  if (decision.choice === av.ApprovalChoice.CANCEL_TURN) {
    return ended(about, "cancelled", {
      error: { code: "tool_cancelled", messageForModel: decision.message },
    });
  }
  return ended(about, "error", {
    error: { code: "tool_denied_by_user", messageForModel: decision.message },
    notExecutedReason: ty.NotExecutedReason.DENIED_BY_USER,
  });
}
