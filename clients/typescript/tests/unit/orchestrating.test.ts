/** Turns, approvals and hooks as their users see them, with the fake sidecar or without any. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  After,
  ApprovalAnswer,
  Before,
  Cancellation,
  Client,
  DecisionConflict,
  DecisionRefused,
  Hooks,
  InvalidRequest,
  Suspended,
  ToolResult,
} from "../../src/index.js";
import { askHook, callTool, FakeSidecar, hookInput, waitingApproval } from "../../src/testing.js";

async function withRemove(fake: FakeSidecar, removed: unknown[]): Promise<Client> {
  const client = fake.client();
  client.tool({ name: "remove", description: "", handler: (args) => removed.push(args) });
  await client.waitReady();
  return client;
}

test("a turn is awaited for its result and iterated for its events, in any order", async () => {
  await using fake = await FakeSidecar.start();
  await using client = await withRemove(fake, []);
  const turn = client.runTurn("s", [{ callId: "c", name: "remove", arguments: '{"id":1}' }]);
  const result = await turn;
  const types: string[] = [];
  for await (const event of turn) types.push(event.type);
  assert.deepEqual([types[0], types.at(-1)], ["turn_accepted", "turn_completed"]);
  assert.equal(await turn.result(), result);
  assert.throws(() => result.call("other"), RangeError);
  assert.equal((await client.listTools()).tools[0]?.name, "remove");
});

test("an aborted signal cancels the turn and rejects with its reason, also when it was aborted before", async () => {
  await using fake = await FakeSidecar.start();
  await using client = fake.client({ executorName: undefined });
  fake.ask("remove");
  for (const carrier of ["stream", "rpc"] as const) {
    const abort = new AbortController();
    const turnId = `abort-${carrier}`;
    const turn = client.runTurn("s", [{ callId: "c", name: "remove" }], {
      turnId,
      carrier,
      signal: abort.signal,
    });
    for await (const event of turn) if (event.type === "turn_suspended") break;
    const why = new Error("enough");
    abort.abort(why);
    await assert.rejects(turn.result(), why);
    const late = client.runTurn("s", [], { turnId: `late-${carrier}`, carrier, signal: abort.signal });
    await assert.rejects(late.result(), why);
  }
  while (fake.turns.cancellations.length < 4) await new Promise((resolve) => setImmediate(resolve));
  const ids = fake.turns.cancellations.map((one) => one.turnId).sort();
  assert.deepEqual(ids, ["abort-rpc", "abort-stream", "late-rpc", "late-stream"]);
  assert.deepEqual(fake.turns.turnIds, ["abort-stream", "abort-rpc"]);
});

test("every promise of a turn settles when it is refused, detached, followed twice or the client closes", async () => {
  await using fake = await FakeSidecar.start();
  const client = await withRemove(fake, []);
  fake.ask("remove");
  const calls = [{ callId: "c", name: "remove" }];
  await assert.rejects(client.runTurn("s", [...calls, ...calls]).result(), InvalidRequest);
  const turn = client.runTurn("s", calls, { turnId: "one" });
  await assert.rejects(client.runTurn("s", calls, { turnId: "one" }).result(), {
    code: "turn_already_followed",
  });
  const large = client.runTurn("s", [{ callId: "c", name: "remove", arguments: "x".repeat(5_000_000) }]);
  await assert.rejects(large.result(), { code: "limit_exceeded" });
  turn.detach();
  await assert.rejects(turn.result(), { code: "turn_detached" });
  const waiting = ["stream", "rpc"].map((carrier) => {
    return client.runTurn("s", calls, { carrier: carrier as "stream" | "rpc" }).result();
  });
  const ends = waiting.map((one) => assert.rejects(one, { code: "client_closed" }));
  await client.close();
  await Promise.all(ends);
  assert.throws(
    () => new Client({ endpoint: fake.endpoint }).runTurn("s", calls, { openaiMessage: {} }),
    TypeError,
  );
});

test("an approver decides what waits, once, and learns who was first", async () => {
  await using fake = await FakeSidecar.start();
  const removed: unknown[] = [];
  await using client = await withRemove(fake, removed);
  await using approvals = fake.approver();
  fake.ask("remove");
  const turn = client.runTurn("s", [{ callId: "c", name: "remove", arguments: { id: 1 } }]);
  const [approval] = await fake.asked();
  assert.ok(approval);
  assert.equal((await approvals.deny(approval, "not this one")).status, "taken");
  assert.equal((await approvals.deny(approval)).status, "repeated");
  await assert.rejects(approvals.approveOnce(approval), (error: unknown) => {
    return error instanceof DecisionConflict && error.approval?.decision?.choice === "deny";
  });
  const unseen = { ...approval, digest: new Uint8Array(32) };
  await assert.rejects(approvals.deny(unseen), (error: unknown) => {
    return error instanceof DecisionRefused && error.code === "approval_digest_mismatch";
  });
  const call = (await turn).call("c");
  assert.deepEqual(
    [call.error?.code, call.error?.message, removed],
    ["tool_denied_by_user", "not this one", []],
  );
  await assert.rejects(approvals.respond(approval, Buffer.from("x")), TypeError);
});

test("a watch tells what changed behind a lost line, and ends when it is closed", async () => {
  await using fake = await FakeSidecar.start();
  await using client = await withRemove(fake, []);
  await using approvals = fake.approver();
  fake.ask("remove");
  const watch = approvals.watch();
  assert.equal((await watch.next()).value?.snapshot, true);
  const turn = client.runTurn("s", [{ callId: "c", name: "remove" }]);
  const first = await watch.next();
  fake.dropConnections();
  const [approval] = first.value?.approvals ?? [];
  assert.ok(approval);
  await approvals.approveOnce(approval);
  const second = await watch.next();
  assert.deepEqual([second.value?.snapshot, second.value?.approvals[0]?.state], [false, "approved"]);
  await turn;
  const waiting = watch.next();
  await approvals.close();
  assert.equal((await waiting).done, true);
  await assert.rejects(approvals.get("x"), { code: "client_closed" });
});

test("the token goes with every request, and a socket that is not there is a lost connection", async () => {
  await using fake = await FakeSidecar.start();
  await using client = fake.client({ executorName: undefined, token: "secret" });
  assert.equal(await client.health(), "serving");
  await client.runTurn("s", []);
  assert.deepEqual(new Set(fake.tokens), new Set(["secret"]));
  await using nobody = new Client({
    endpoint: "unix:///tmp/callgate-none.sock",
    reconnectTimeoutMs: 30,
    backoff: { initialMs: 5 },
  });
  await assert.rejects(nobody.health(), { code: "connection_lost" });
  for (const carrier of ["stream", "rpc"] as const) {
    await assert.rejects(nobody.runTurn("s", [], { carrier }).result(), { code: "connection_lost" });
  }
  await assert.rejects(nobody.waitReady(50), { code: "deadline_exceeded" });
});

test("hooks say what they say, in both forms, and nothing else passes", async () => {
  const hooks = new Hooks({ endpoint: "unix:///tmp/none.sock" });
  hooks.beforeToolCall({ hookId: "secrets" }, ({ toolArgsJson }) => {
    return toolArgsJson.includes(".env") ? Before.deny("secrets stay here") : undefined;
  });
  hooks.add(
    {
      afterToolCall: ({ toolName }) => (toolName === "finish" ? After.stop() : { modifiedResult: { a: 1 } }),
      approvalRequested: ({ approval }) => (approval.tool === "read" ? ApprovalAnswer.approve() : null),
      loopDiagnose: () => ({ isLoop: true, confidence: 2 }),
    },
    { hookId: "object" },
  );
  assert.deepEqual(
    await askHook(hooks, hookInput({ toolArgs: { path: ".env" } })),
    Before.deny("secrets stay here"),
  );
  assert.deepEqual(await askHook(hooks, hookInput()), Before.proceed());
  const after = { point: "after_tool_call" as const };
  assert.deepEqual(await askHook(hooks, hookInput({ ...after, toolName: "finish" })), After.stop());
  const modified = await askHook(hooks, hookInput(after));
  assert.equal(
    modified instanceof After && modified.result instanceof ToolResult && modified.result.text,
    '{"a":1}',
  );
  const { signal } = hookInput();
  const asked = (tool: string) => ({
    ...hookInput(),
    point: "approval_requested" as const,
    approval: waitingApproval(tool),
    signal,
  });
  assert.deepEqual(await askHook(hooks, asked("read")), ApprovalAnswer.approve());
  assert.deepEqual(await askHook(hooks, asked("other")), ApprovalAnswer.leave());
  const run = {
    runId: "r",
    sessionId: "s",
    state: "active" as const,
    rounds: 1,
    endCode: "",
    endReason: "",
    startedAtMs: 0,
    endedAtMs: undefined,
  };
  const diagnosis = {
    ...hookInput(),
    point: "loop_diagnose" as const,
    history: [],
    historyJson: "[]",
    run,
    signal,
  };
  await assert.rejects(askHook(hooks, diagnosis), TypeError);
  assert.throws(() => hooks.add({}), TypeError);
  assert.throws(() => hooks.beforeToolCall({ hookId: "secrets" }, () => undefined), TypeError);
  for (const answer of [
    true,
    "deny",
    { permissionDecision: "maybe" },
    { permission_decision: "deny" },
    ApprovalAnswer.approve(),
  ]) {
    const one = new Hooks({ endpoint: "unix:///tmp/none.sock" });
    one.beforeToolCall({ hookId: "one" }, () => answer as never);
    await assert.rejects(askHook(one, hookInput()), TypeError, JSON.stringify(answer));
  }
});

test("a tool runs without a sidecar, and its failures are results", async () => {
  const client = new Client({ endpoint: "unix:///tmp/none.sock" });
  client.tool({ name: "fails", description: "", handler: () => Promise.reject(new Error("oops")) });
  assert.equal((await callTool(client, "fails")).error?.code, "tool_execution_failed");
  await assert.rejects(callTool(client, "none"), { code: "tool_not_found" });
  client.tool({ name: "waits", description: "", handler: (_args, ctx) => ctx.signal.throwIfAborted() });
  const cancellation = new Cancellation();
  cancellation.request("call_cancelled");
  assert.equal((await callTool(client, "waits", {}, { cancellation })).outcome, "cancelled");
  assert.throws(() => client.start(), TypeError);
  assert.equal(Suspended.code, "turn_suspended");
});
