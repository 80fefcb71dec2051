/** The approver's part of the fake sidecar. Takes the first decision, and tells it to who watches. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import * as av from "../gen/callgate/v1/approval_service_pb.js";
import { Outbox } from "../wire/outbox.js";
import type { FakeTurns } from "./fake-turns.js";

/** See the head of this file. */
export class FakeApprovals {
  readonly #watchers = new Set<Outbox<av.WatchApprovalsResponse>>();
  #cursor = 0;
  readonly #told: av.Approval[] = [];

  constructor(private readonly turns: FakeTurns) {
    turns.onApproval = (approval) => this.#changed(approval);
  }

  #changed(approval: av.Approval): void {
    this.#cursor += 1;
    this.#told.push(approval);
    const cursor = String(this.#cursor);
    const message = create(av.WatchApprovalsResponseSchema, { approvals: [approval], cursor });
    for (const watcher of this.#watchers) watcher.say(message);
  }

  /** Those that wait. */
  pending(): av.Approval[] {
    const all = [...this.turns.approvals.values()].map((one) => one.approval);
    return all.filter((one) => one.state === av.ApprovalState.PENDING);
  }

  /** One of them. */
  get(approvalId: string): av.Approval {
    const found = this.turns.approvals.get(approvalId);
    if (found === undefined) throw new ConnectError("there is no such approval", Code.NotFound);
    return found.approval;
  }

  /** Streams what waits, then every change. */
  async *watch(request: av.WatchApprovalsRequest): AsyncGenerator<av.WatchApprovalsResponse> {
    const line = new Outbox<av.WatchApprovalsResponse>();
    const cursor = String(this.#cursor);
    if (request.afterCursor === "") {
      const fields = { approvals: this.pending(), snapshotComplete: true, cursor };
      line.say(create(av.WatchApprovalsResponseSchema, fields));
    } else if (Number(request.afterCursor) < this.#cursor) {
      const approvals = this.#told.slice(Number(request.afterCursor));
      line.say(create(av.WatchApprovalsResponseSchema, { approvals, cursor }));
    }
    this.#watchers.add(line);
    try {
      yield* line;
    } finally {
      this.#watchers.delete(line);
    }
  }

  /** Takes decisions, each on its own. */
  decide(decisions: readonly av.ApprovalDecision[]): av.DecisionOutcome[] {
    return decisions.map((decision) => this.#decideOne(decision));
  }

  #decideOne(decision: av.ApprovalDecision): av.DecisionOutcome {
    const { approvalId, choice } = decision;
    const found = this.turns.approvals.get(approvalId);
    const refuse = (status: av.DecisionStatus, code: string, approval?: av.Approval): av.DecisionOutcome => {
      const error = { status: Code.FailedPrecondition, message: code, detail: { code } };
      return create(av.DecisionOutcomeSchema, {
        approvalId,
        status,
        error,
        ...(approval ? { approval } : {}),
      });
    };
    if (found === undefined) return refuse(av.DecisionStatus.REFUSED, "approval_not_found");
    const { approval } = found;
    if (Buffer.compare(decision.approvalDigest, approval.approvalDigest) !== 0) {
      return refuse(av.DecisionStatus.REFUSED, "approval_digest_mismatch", approval);
    }
    if (approval.decision !== undefined) {
      if (approval.decision.choice !== choice) {
        return refuse(av.DecisionStatus.CONFLICT, "approval_already_decided", approval);
      }
      return create(av.DecisionOutcomeSchema, { approvalId, status: av.DecisionStatus.REPEATED, approval });
    }
    const isRefusal = choice === av.ApprovalChoice.DENY || choice === av.ApprovalChoice.CANCEL_TURN;
    const state = isRefusal ? av.ApprovalState.DENIED : av.ApprovalState.APPROVED;
    const { decisionId, message } = decision;
    const taken = create(av.ApprovalSchema, {
      ...approval,
      state: choice === av.ApprovalChoice.RESPOND ? av.ApprovalState.ANSWERED : state,
      decision: create(av.DecisionSchema, { decisionId, choice, message, decidedBy: "test" }),
    });
    found.approval = taken;
    this.#changed(taken);
    if (choice === av.ApprovalChoice.CANCEL_TURN) this.turns.cancel(approval.turnId, message);
    found.decide(decision);
    return create(av.DecisionOutcomeSchema, { approvalId, status: av.DecisionStatus.TAKEN, approval: taken });
  }
}
