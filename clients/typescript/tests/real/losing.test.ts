/** Lost streams, a killed sidecar and drains, with the real sidecar. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TurnEvent } from "../../src/index.js";
import { Superseded } from "../../src/index.js";
import { Line } from "./line.js";
import { Sidecar } from "./sidecar.js";
import { bakery, Held } from "./tools.js";

const kept = (events: TurnEvent[]) => events.map((event) => event.sequence).filter((one) => one > 0);
const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1);

test("an executor that loses its connection answers on the next", async () => {
  await using sidecar = await Sidecar.start();
  await using line = await Line.to(sidecar.port);
  const held = new Held();
  const states: string[] = [];
  await using executor = sidecar.client({
    endpoint: line.endpoint,
    token: sidecar.token("executor"),
    executorName: "cut",
    onState: (state) => states.push(state),
  });
  held.addTo(executor, "cut_tool");
  await executor.waitReady();
  await using caller = sidecar.client();
  const turn = caller.runTurn("cut", [{ callId: "a", name: "cut_tool" }]);
  for await (const event of turn) {
    if (event.type !== "call_progress" || line.cuts > 0) continue;
    line.cut();
    held.open();
  }
  const result = await turn;
  assert.equal(result.call("a").text, "done");
  assert.deepEqual([result.call("a").attempts, held.runs], [1, 1]);
  assert.deepEqual(states, ["connecting", "ready", "reconnecting", "ready"]);
});

for (const carrier of ["stream", "rpc"] as const) {
  test(`an orchestrator that loses its connection sees every event once (${carrier})`, async () => {
    await using sidecar = await Sidecar.start();
    await using line = await Line.to(sidecar.port);
    await using _ = await bakery(sidecar);
    await using caller = sidecar.client({ endpoint: line.endpoint, token: sidecar.token("orchestrator") });
    const call = { callId: "a", name: "bake_batch", arguments: { count: 20 } };
    const turn = caller.runTurn("cut", [call], { carrier });
    const events: TurnEvent[] = [];
    for await (const event of turn) {
      events.push(event);
      const counts = event.type === "turn_accepted" || event.type === "call_progress";
      if (counts && line.cuts < 3) line.cut();
    }
    const result = await turn;
    assert.equal(line.cuts, 3);
    assert.deepEqual(result.call("a").structured, { baked: 20 });
    assert.deepEqual(kept(events), upTo(kept(events).length));
  });
}

test("executor and turns survive a killed sidecar", async () => {
  await using sidecar = await Sidecar.start();
  await using client = sidecar.client({ executorName: "survivor" });
  // Not a read, so that its dispatch is durable before it has effect.
  client.tool({ name: "here", description: "Is here.", risk: "safe", kind: "other", handler: () => "here" });
  await client.waitReady();
  const calls = [{ callId: "a", name: "here" }];
  const first = await client.runTurn("kill", calls, { turnId: "kill-1" });
  await sidecar.restart("SIGKILL");
  const second = await client.runTurn("kill", calls, { turnId: "kill-2" });
  const again = await client.attachTurn("kill-1", { sessionId: "kill" });
  const texts = [first, second, again].map((result) => result.call("a").text);
  assert.deepEqual(texts, ["here", "here", "here"]);
});

test("a call that runs while the sidecar is replaced ends exactly once", async () => {
  await using sidecar = await Sidecar.start();
  await using client = sidecar.client({ executorName: "survivor", reconnectTimeoutMs: 60_000 });
  const held = new Held();
  held.addTo(client, "wait");
  await client.waitReady();
  const turn = client.runTurn("replace", [{ callId: "a", name: "wait" }], { turnId: "replace-1" });
  const events: TurnEvent[] = [];
  let replaced = false;
  for await (const event of turn) {
    events.push(event);
    if (event.type !== "call_progress" || replaced) continue;
    replaced = true;
    await sidecar.restart("SIGKILL");
    held.open();
  }
  const result = await turn;
  assert.equal(events.at(-1)?.type, "turn_completed");
  assert.deepEqual([result.results.length, held.runs], [1, 1]);
  // Either the executor's own answer was taken up, or the sidecar says that it does not know.
  const { isError, error, text } = result.call("a");
  if (isError) assert.match(error?.code ?? "", /^(tool_outcome_unknown|tool_unavailable)$/);
  else assert.equal(text, "done");
});

test("a sidecar that drains lets the running call finish", async () => {
  await using sidecar = await Sidecar.start();
  await using client = sidecar.client({ executorName: "drained" });
  const held = new Held();
  held.addTo(client, "wait");
  await client.waitReady();
  const turn = client.runTurn("drain", [{ callId: "a", name: "wait" }]);
  let stopping: Promise<void> | undefined;
  for await (const event of turn) {
    if (event.type !== "call_progress" || stopping !== undefined) continue;
    stopping = sidecar.stop();
    held.open();
  }
  assert.equal((await turn).call("a").text, "done");
  await stopping;
});

test("an executor that closes finishes what runs and takes nothing new", async () => {
  await using sidecar = await Sidecar.start();
  const executor = sidecar.client({ executorName: "leaving" });
  const held = new Held();
  held.addTo(executor, "wait");
  await executor.waitReady();
  await using caller = sidecar.client();
  const turn = caller.runTurn("leave", [{ callId: "a", name: "wait" }]);
  let closing: Promise<void> | undefined;
  for await (const event of turn) {
    if (event.type !== "call_progress" || closing !== undefined) continue;
    closing = executor.close();
    assert.equal(executor.state, "draining");
    held.open();
  }
  assert.equal((await turn).call("a").text, "done");
  await closing;
  assert.equal(executor.state, "closed");
});

test("a second process with the same instance id takes over, and the first one stays away", async () => {
  await using sidecar = await Sidecar.start();
  await using first = await bakery(sidecar, { instanceId: "same" });
  const ended = assert.rejects(first.waitClosed(), Superseded);
  await using second = await bakery(sidecar, { instanceId: "same" });
  await ended;
  const result = await second.runTurn("same", [
    { callId: "a", name: "find_record", arguments: { index: 0 } },
  ]);
  assert.equal(result.call("a").isError, false);
});
