/** Approvals and sessions against the real sidecar. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type Approval,
  type Approvals,
  argumentsOf,
  type Client,
  DecisionConflict,
  DecisionRefused,
  PermissionDenied,
  Suspended,
} from "../../src/index.js";
import { Line } from "./line.js";
import { Sidecar } from "./sidecar.js";

let sidecar: Sidecar;
before(async () => {
  sidecar = await Sidecar.start();
});
after(async () => {
  await sidecar[Symbol.asyncDispose]();
});

/** A tool that asks in default mode, one that does not, and an approver at the control socket. */
class Office implements AsyncDisposable {
  readonly sent: string[] = [];
  readonly client: Client;
  readonly approvals: Approvals;

  constructor(at: Sidecar) {
    this.client = at.client({ executorName: "office" });
    this.approvals = at.approver();
    this.client.tool({
      name: "send_note",
      description: "Sends a note.",
      risk: "sensitive",
      kind: "other",
      input: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
      handler: ({ to }) => {
        this.sent.push(String(to));
        return `sent to ${to}`;
      },
    });
    const handler = () => this.sent.push("read") > 0 && "a note";
    this.client.tool({
      name: "read_note",
      description: "Reads a note.",
      risk: "safe",
      kind: "read",
      handler,
    });
  }

  static async at(at: Sidecar): Promise<Office> {
    const made = new Office(at);
    await made.client.waitReady();
    return made;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    await this.approvals.close();
  }
}

const note = (callId = "n", to = "ann") => ({ callId, name: "send_note", arguments: { to } });

/** The approvals of a turn, in call order, as soon as so many wait. */
async function pending(approvals: Approvals, turnId: string, count = 1): Promise<Approval[]> {
  const known = new Map<string, Approval>();
  for await (const update of approvals.watch({ turnId })) {
    if (update.snapshot) known.clear();
    for (const item of update.approvals) known.set(item.approvalId, item);
    const waiting = [...known.values()].filter((item) => item.state === "pending");
    if (waiting.length >= count) {
      return waiting.sort((one, other) => one.call.callId.localeCompare(other.call.callId));
    }
  }
  throw new Error("the watch ended");
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test("a batch is frozen until its call is approved once", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals, sent } = office;
  const turn = client.runTurn("once", [note(), { callId: "r", name: "read_note" }]);
  const states: string[] = [];
  let approval: Approval | undefined;
  for await (const event of turn) {
    if (event.type === "call_state_changed" && event.callId === "n") states.push(event.state);
    if (event.type !== "turn_suspended") continue;
    assert.deepEqual(sent, []);
    const info = await client.getTurn(turn.turnId);
    assert.deepEqual([info.state, info.calls[0]?.state], ["suspended", "awaiting_approval"]);
    [approval] = await all(approvals.list({ sessionId: "once" }));
    assert.ok(approval);
    assert.deepEqual(event.approvalIds, [approval.approvalId]);
    assert.equal((await approvals.approveOnce(approval)).status, "taken");
  }
  const result = await turn;
  assert.ok(approval);
  assert.deepEqual(
    [approval.tool, approval.owner, argumentsOf(approval)],
    ["send_note", "office", { to: "ann" }],
  );
  assert.deepEqual(
    [approval.mode, approval.verdict.effect, approval.verdict.stage],
    ["default", "ask", "mode_default"],
  );
  assert.deepEqual([...sent].sort(), ["ann", "read"]);
  assert.deepEqual(
    [result.call("n").text, result.call("n").approvalId],
    ["sent to ann", approval.approvalId],
  );
  assert.deepEqual(states, ["awaiting_approval", "scheduled", "executing", "success"]);
  const decided = await approvals.get(approval.approvalId);
  assert.deepEqual(
    [decided.state, decided.decision?.choice, decided.callOutcome],
    ["approved", "once", "success"],
  );
});

test("a denial reaches the model and ends the batch, and the winner is told", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals, sent } = office;
  const calls = [note("a"), note("b", "bob"), { callId: "r", name: "read_note" }];
  const turn = client.runTurn("deny", calls, { turnId: "deny-1" });
  const [first, second] = await pending(approvals, "deny-1", 2);
  assert.ok(first && second);
  await approvals.deny(first, "not on a Sunday");
  const result = await turn;
  assert.equal((await approvals.deny(first)).status, "repeated");
  await assert.rejects(approvals.approveOnce(first), (error: unknown) => {
    assert.ok(error instanceof DecisionConflict);
    assert.equal(error.code, "approval_already_decided");
    return error.approval?.decision?.message === "not on a Sunday";
  });
  assert.equal((await approvals.get(second.approvalId)).state, "withdrawn");
  assert.deepEqual(sent, []);
  assert.deepEqual(
    result.results.map((one) => one.error?.code),
    ["tool_denied_by_user", "tool_batch_rejected", "tool_batch_rejected"],
  );
  assert.match(result.call("a").error?.message ?? "", /not on a Sunday/);
  assert.throws(() => result.call("a").orThrow(), PermissionDenied);
});

test("a session grant lets the next call run until it is revoked", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals, sent } = office;
  const first = client.runTurn("grant", [note()], { turnId: "grant-1" });
  const [approval] = await pending(approvals, "grant-1");
  assert.equal(approval?.grantCandidates[0]?.kind, "tool");
  await approvals.approveSession(approval, approval.grantCandidates);
  await first;
  const unasked = await client.runTurn("grant", [note("m", "bob")]);
  assert.deepEqual([unasked.call("m").text, unasked.call("m").approvalId], ["sent to bob", ""]);
  const [grant] = await all(approvals.sessions.grants("grant", { state: "active" }));
  assert.equal(grant?.approvalId, approval.approvalId);
  const revoked = await approvals.sessions.revoke("grant", [grant]);
  assert.deepEqual(
    revoked.grants.map((one) => one.state),
    ["revoked"],
  );
  const again = client.runTurn("grant", [note()], { turnId: "grant-2" });
  const [asked] = await pending(approvals, "grant-2");
  assert.ok(asked);
  await approvals.deny(asked);
  assert.equal((await again).call("n").isError, true);
  assert.deepEqual(sent, ["ann", "bob"]);
});

test("edited arguments are checked and run, and an approver's answer is the result", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals, sent } = office;
  const turn = client.runTurn("edit", [note()], { turnId: "edit-1" });
  const [approval] = await pending(approvals, "edit-1");
  assert.ok(approval);
  await assert.rejects(approvals.edit(approval, { to: 5 }), (error: unknown) => {
    return error instanceof DecisionRefused && error.code === "approval_edit_invalid";
  });
  assert.equal((await approvals.get(approval.approvalId)).state, "pending");
  await approvals.edit(approval, { to: "eve" });
  assert.equal((await turn).call("n").text, "sent to eve");
  assert.equal((await client.getTurn("edit-1")).calls[0]?.effectiveArgumentsJson, '{"to":"eve"}');
  const answered = client.runTurn("respond", [note()], { turnId: "respond-1" });
  const [other] = await pending(approvals, "respond-1");
  assert.ok(other);
  await approvals.respond(other, { sent: "by hand" });
  const call = (await answered).call("n");
  assert.deepEqual(
    [call.outcome, call.structured, call.notExecutedReason, call.effect],
    ["success", { sent: "by hand" }, "answered_by_approver", "not_executed"],
  );
  assert.deepEqual(sent, ["eve"]);
});

test("an approver cancels the turn, and several decisions are each their own", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals } = office;
  const turn = client.runTurn("cancel", [note()], { turnId: "acancel", runId: "ar" });
  const [approval] = await pending(approvals, "acancel");
  assert.ok(approval);
  await approvals.cancelTurn(approval, "wrong direction");
  assert.equal((await turn).outcome, "cancelled");
  const { ApprovalDecision } = await import("../../src/index.js");
  const several = client.runTurn("several", [note("a"), note("b")], {
    turnId: "several",
    batchPolicy: "freeze_partial",
  });
  const [one, two] = await pending(approvals, "several", 2);
  assert.ok(one && two);
  const stale = { ...two, digest: new Uint8Array(32) };
  const outcomes = await approvals.decide([
    new ApprovalDecision(one, "once"),
    new ApprovalDecision(stale, "once"),
  ]);
  assert.deepEqual(
    outcomes.map((outcome) => [outcome.status, outcome.error?.code]),
    [
      ["taken", undefined],
      ["refused", "approval_digest_mismatch"],
    ],
  );
  await approvals.deny(two);
  const result = await several;
  assert.deepEqual([result.call("a").isError, result.call("b").isError], [false, true]);
});

test("a turn that ends when it waits is taken up after the decision", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals } = office;
  for (const carrier of ["stream", "rpc"] as const) {
    const turnId = `suspend-${carrier}`;
    const turn = client.runTurn("suspend", [note()], { turnId, carrier, onSuspend: "end" });
    const seen: string[] = [];
    for await (const event of turn) seen.push(event.type);
    assert.equal(seen.at(-1), "turn_suspended");
    const waiting = await turn.result().catch((error: unknown) => error);
    assert.ok(waiting instanceof Suspended);
    const [approvalId] = waiting.approvalIds;
    await approvals.approveOnce(await approvals.get(approvalId ?? ""));
    assert.equal((await client.attachTurn(turnId)).call("n").text, "sent to ann");
  }
});

test("a watch goes on behind what it told when its line is cut", async () => {
  await using office = await Office.at(sidecar);
  await using line = await Line.to(sidecar.port);
  await using approvals = sidecar.approver({ endpoint: line.endpoint, token: sidecar.token("approver") });
  await using watch = approvals.watch({ sessionId: "watched" });
  const first = await watch.next();
  assert.deepEqual([first.value?.snapshot, first.value?.approvals.length], [true, 0]);
  const turn = office.client.runTurn("watched", [note()], { turnId: "watched-1" });
  const told = await watch.next();
  assert.equal(told.value?.approvals[0]?.state, "pending");
  line.cut();
  const [approval] = await pending(office.approvals, "watched-1");
  assert.ok(approval);
  await office.approvals.deny(approval);
  const states: string[] = [];
  while (!states.includes("denied")) {
    const update = await watch.next();
    assert.equal(update.value?.snapshot, false);
    states.push(...(update.value?.approvals.map((one) => one.state) ?? []));
  }
  await turn;
  const waiting = watch.next();
  watch.close();
  assert.equal((await waiting).done, true);
});

test("sessions have modes, children and rules of one turn", async () => {
  await using office = await Office.at(sidecar);
  const { client, approvals, sent } = office;
  const session = await client.sessions.create("", { mode: "plan", cwd: "/work" });
  assert.deepEqual([session.mode, session.settings.cwd], ["plan", "/work"]);
  const denied = await client.runTurn(session.sessionId, [note()]);
  assert.equal(denied.call("n").error?.code, "tool_denied_by_mode");
  const update = await approvals.sessions.setMode(session, "auto", { etag: session.etag });
  assert.equal(update.session.mode, "auto");
  const child = await client.sessions.fork(session, { inheritGrants: true });
  assert.equal(child.rootSessionId, session.sessionId);
  const commandRules = [{ effect: "deny", rule: "send_note", message: "not now" }] as const;
  const ruled = await client.runTurn(child.sessionId, [note()], { commandRules });
  assert.equal(ruled.call("n").error?.code, "tool_denied_by_rule");
  assert.equal((await client.runTurn(child.sessionId, [note()])).call("n").isError, false);
  assert.deepEqual(sent, ["ann"]);
  const ids = (await all(client.sessions.list({ rootSessionId: session.sessionId }))).map(
    (one) => one.sessionId,
  );
  assert.deepEqual(new Set(ids), new Set([session.sessionId, child.sessionId]));
  assert.notEqual((await client.sessions.close(session)).closedAtMs, undefined);
});

test("neither an executor's credential nor the first socket decides", async () => {
  await using office = await Office.at(sidecar);
  await using wrong = sidecar.approver({ endpoint: sidecar.tcpEndpoint, token: sidecar.token("executor") });
  await assert.rejects(all(wrong.list()), PermissionDenied);
  await using first = sidecar.approver({ endpoint: sidecar.endpoint });
  const ref = { approvalId: "any", digest: new Uint8Array(32), etag: "" };
  await assert.rejects(first.approveOnce(ref), PermissionDenied);
  assert.deepEqual(office.sent, []);
});
