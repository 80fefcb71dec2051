/** Lost streams, silent peers, go-aways and drains, over a socket to the fake sidecar. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { ConnectResponseSchema } from "../../src/gen/callgate/v1/executor_service_pb.js";
import { GoAwayReason, GoAwaySchema, PingSchema } from "../../src/gen/callgate/v1/stream_pb.js";
import type { Client, ClientOptions, TurnEvent } from "../../src/index.js";
import { Superseded, Unavailable } from "../../src/index.js";
import { FakeSidecar } from "../../src/testing.js";

/** A client whose one tool waits until the test lets it go on. */
async function holding(fake: FakeSidecar, options: ClientOptions = {}) {
  const client: Client = fake.client(options);
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const seen = { runs: 0, reasons: [] as (string | undefined)[] };
  client.tool({
    name: "hold",
    description: "Waits.",
    cancellable: true,
    handler: async (_args, ctx) => {
      seen.runs += 1;
      const stopped = new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      await Promise.race([opened, stopped]);
      seen.reasons.push(ctx.cancellation.reason);
      return "done";
    },
  });
  await client.waitReady();
  return { client, open, seen };
}

test("a result that was not acknowledged is kept and sent again, once per stream", async () => {
  await using fake = await FakeSidecar.start();
  fake.executors.acknowledges = false;
  const { client, open, seen } = await holding(fake);
  await using _closed = client;
  const call = await fake.startCall("hold");
  await call.until(() => call.accepted.length > 0);
  open();
  await call.until(() => call.results === 1);
  // Asked for again on the same stream, it is not sent again: what was written arrives or the stream ends.
  fake.tell({ case: "execute", value: call.request });
  await (await fake.startCall("hold")).result();
  assert.equal(call.results, 1);
  fake.executors.acknowledges = true;
  fake.dropConnections();
  await call.until(() => call.results === 2);
  const [, second] = fake.executors.hellos;
  assert.deepEqual([second?.inFlight.length, second?.inFlight[0]?.state], [2, 3]);
  assert.match(second?.resumeToken ?? "", /^resume-/);
  // A call that comes behind the acknowledgement shows that it has arrived.
  await (await fake.startCall("hold")).result();
  fake.dropConnections();
  await fake.until(() => fake.executors.hellos.length === 3);
  const listed = fake.executors.hellos[2]?.inFlight.map((one) => one.execution?.executionId);
  assert.equal(listed?.includes(call.request.execution?.executionId), false);
  assert.deepEqual([call.results, seen.runs], [2, 3]);
  await client.close();
});

test("a handler runs on without a stream, and its result goes out on the next", async () => {
  await using fake = await FakeSidecar.start();
  const states: string[] = [];
  const { client, open } = await holding(fake, { onState: (state) => states.push(state) });
  await using _closed = client;
  const call = await fake.startCall("hold");
  await call.until(() => call.accepted.length > 0);
  const back = await fake.goAway();
  open();
  await back();
  assert.equal((await call.result()).text, "done");
  assert.equal(fake.executors.hellos.at(-1)?.instanceId, fake.executors.hellos[0]?.instanceId);
  assert.deepEqual(states.slice(0, 4), ["connecting", "ready", "reconnecting", "ready"]);
  await client.close();
});

test("an execution that the sidecar does not know is stopped and forgotten", async () => {
  await using fake = await FakeSidecar.start();
  const { client, seen } = await holding(fake);
  await using _closed = client;
  const call = await fake.startCall("hold");
  await call.until(() => call.accepted.length > 0);
  fake.executors.forgetCalls();
  fake.dropConnections();
  await fake.until(() => fake.executors.hellos.length === 2);
  assert.equal(fake.executors.hellos[1]?.inFlight.length, 1);
  await client.waitReady();
  fake.dropConnections();
  await fake.until(() => fake.executors.hellos.length === 3);
  assert.equal(fake.executors.hellos[2]?.inFlight.length, 0);
  assert.deepEqual([seen.runs, seen.reasons, call.results], [1, ["call_cancelled"], 0]);
});

test("a call that comes twice begins once, and another definition or a late one is not taken", async () => {
  await using fake = await FakeSidecar.start();
  const { client, open, seen } = await holding(fake);
  await using _closed = client;
  const call = await fake.startCall("hold");
  await call.until(() => call.accepted.length === 1);
  fake.tell({ case: "execute", value: call.request });
  await call.until(() => call.accepted.length === 2);
  const other = await fake.startCall("hold");
  await other.until(() => other.accepted.length === 1);
  const closing = client.close();
  const late = await fake.startCall("hold");
  await late.until(() => late.rejected !== "");
  assert.equal(late.rejected, "draining");
  open();
  await closing;
  assert.deepEqual([seen.runs, call.results], [2, 1]);
});

test("a peer that answers no pings is given up, and pings of its own are answered", async () => {
  await using fake = await FakeSidecar.start({ pingIntervalMs: 100, pingMisses: 3 });
  const { client } = await holding(fake);
  await using _closed = client;
  fake.tell({ case: "ping", value: create(PingSchema, { nonce: 7 }) });
  await fake.until(() => fake.executors.pings >= 3);
  assert.deepEqual([fake.executors.hellos.length, fake.executors.pongs], [1, [7]]);
  fake.executors.answersPings = false;
  await fake.until(() => fake.executors.hellos.length >= 2);
  await client.close();
});

test("messages of a newer sidecar are ignored", async () => {
  await using fake = await FakeSidecar.start();
  const { client, open } = await holding(fake);
  await using _closed = client;
  const unknown = create(ConnectResponseSchema);
  fake.tell(unknown.body);
  fake.tell({ case: undefined });
  const call = await fake.startCall("hold");
  open();
  assert.equal((await call.result()).text, "done");
  assert.equal(fake.executors.hellos.length, 1);
  await client.close();
});

test("after a go-away it finishes what runs and comes back within the span", async () => {
  await using fake = await FakeSidecar.start();
  const { client, open } = await holding(fake);
  await using _closed = client;
  const call = await fake.startCall("hold");
  await call.until(() => call.accepted.length > 0);
  const fields = { reason: GoAwayReason.SHUTDOWN, reconnectMinMs: 5, reconnectMaxMs: 10 };
  fake.tell({ case: "goAway", value: create(GoAwaySchema, fields) });
  open();
  assert.equal((await call.result()).text, "done");
  await fake.until(() => fake.executors.hellos.length === 2);
  await client.close();
});

test("who is superseded, or told not to come back, stays away", async () => {
  await using fake = await FakeSidecar.start();
  const one = await holding(fake);
  fake.tell({ case: "goAway", value: create(GoAwaySchema, { reason: GoAwayReason.SUPERSEDED }) });
  await assert.rejects(one.client.waitClosed(), Superseded);
  await one.client.close();
  const other = await holding(fake);
  fake.tell({ case: "goAway", value: create(GoAwaySchema, { reason: GoAwayReason.SHUTDOWN }) });
  await assert.rejects(other.client.waitClosed(), Unavailable);
  assert.equal(fake.executors.hellos.length, 2);
  await other.client.close();
});

test("a drain gives back what has not begun, and tells what takes too long to stop", async () => {
  await using fake = await FakeSidecar.start();
  const { client, seen } = await holding(fake, { maxConcurrency: 1 });
  await using _closed = client;
  const running = await fake.startCall("hold");
  const waiting = await fake.startCall("hold");
  await waiting.until(() => waiting.accepted.length > 0);
  await client.close({ drainTimeoutMs: 50 });
  assert.deepEqual([waiting.abandoned, waiting.accepted, seen.runs], [true, [true], 1]);
  assert.deepEqual([(await running.result()).text, seen.reasons], ["done", ["shutdown"]]);
});

test("a capacity of none is said after the welcome, and more later", async () => {
  await using fake = await FakeSidecar.start();
  const { client, open } = await holding(fake);
  await using _closed = client;
  client.resize(0);
  const call = await fake.startCall("hold");
  await call.until(() => call.accepted.length > 0);
  assert.deepEqual(call.accepted, [true]);
  fake.dropConnections();
  await fake.until(() => fake.executors.capacities.length >= 2);
  assert.deepEqual(fake.executors.capacities, [0, 0]);
  await client.waitReady();
  client.resize(3);
  open();
  assert.equal((await call.result()).text, "done");
  await client.close();
});

for (const carrier of ["stream", "rpc"] as const) {
  test(`a turn is taken up behind the last event (${carrier})`, async () => {
    await using fake = await FakeSidecar.start();
    const { client, open } = await holding(fake);
    await using _closed = client;
    await using caller = fake.client({ executorName: undefined });
    const turn = caller.runTurn("s", [{ callId: "c", name: "hold" }], { carrier });
    const events: TurnEvent[] = [];
    for await (const event of turn) {
      events.push(event);
      if (event.type !== "call_state_changed" || event.state !== "executing") continue;
      fake.dropConnections();
      open();
    }
    assert.equal((await turn).call("c").text, "done");
    assert.deepEqual(
      events.map((event) => event.sequence),
      [1, 2, 3, 4, 5],
    );
    await client.close();
  });
}

test("a turn that was lost with its sidecar is sent again", async () => {
  await using fake = await FakeSidecar.start();
  const { client, open } = await holding(fake);
  await using _closed = client;
  const turn = client.runTurn("s", [{ callId: "c", name: "hold" }], { turnId: "lost" });
  const types: string[] = [];
  for await (const event of turn) {
    types.push(event.type);
    if (event.type !== "turn_accepted" || types.length > 1) continue;
    fake.turns.forget("lost");
    open();
    fake.dropConnections();
  }
  assert.equal(types.filter((type) => type === "turn_accepted").length, 2);
  assert.equal((await turn).call("c").text, "done");
  await client.close();
});
