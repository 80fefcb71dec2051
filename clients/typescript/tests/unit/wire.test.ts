/** What stands between the package and the network: one writer per stream, and peers that are none. */
import assert from "node:assert/strict";
import { createServer as createHttp } from "node:http";
import { createServer, type Server } from "node:net";
import { test } from "node:test";
import { Client } from "../../src/index.js";
import { Outbox } from "../../src/wire/outbox.js";
import { Gate, sleep, within } from "../../src/wire/wait.js";

async function drained<T>(outbox: Outbox<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of outbox) found.push(item);
  return found;
}

test("control goes ahead of work, and an end waits for both", async () => {
  const outbox = new Outbox<string>();
  outbox.sayWork("work 1");
  outbox.sayWork("work 2");
  outbox.say("control 1");
  outbox.say("control 2");
  outbox.end();
  outbox.say("too late");
  assert.deepEqual(await drained(outbox), ["control 1", "control 2", "work 1", "work 2"]);
});

test("what may be lost is bounded, and what went down is told once", async () => {
  const outbox = new Outbox<number>();
  let lost = 0;
  outbox.sayWork(0, () => {
    lost += 1;
  });
  let taken = 0;
  while (taken < 5_000 && outbox.offerWork(taken)) taken += 1;
  assert.equal(taken, 1_023);
  outbox.abandon();
  outbox.abandon();
  outbox.sayWork(1, () => {
    lost += 1;
  });
  assert.deepEqual([lost, await drained(outbox)], [2, []]);
});

test("a reader that waits gets the next message, and an end wakes it", async () => {
  const outbox = new Outbox<string>();
  const first = outbox.next();
  outbox.say("now");
  assert.deepEqual(await first, { done: false, value: "now" });
  const last = outbox.next();
  outbox.end();
  assert.equal((await last).done, true);
});

test("waits end early when they are told to, and leave no timer behind", async () => {
  const stop = new AbortController();
  const waiting = sleep(600_000, stop.signal);
  stop.abort();
  await waiting;
  await sleep(600_000, stop.signal);
  assert.equal(await within(new Promise(() => {}), 1), false);
  assert.equal(await within(Promise.resolve(), Number.POSITIVE_INFINITY), true);
  const gate = new Gate();
  const passing = gate.wait();
  gate.open();
  await passing;
  gate.close();
  assert.equal(await within(gate.wait(), 1), false);
});

/** Listens somewhere on loopback. */
async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
}

test("a peer that is no sidecar is an error and never a hang", async () => {
  const http = createHttp((_request, response) => response.end("<html></html>"));
  const closing = createServer((socket) => socket.end());
  const silent = createServer(() => {});
  for (const server of [http, closing, silent]) {
    const endpoint = await listening(server);
    await using client = new Client({
      endpoint,
      requestTimeoutMs: 300,
      reconnectTimeoutMs: 30,
      backoff: { initialMs: 5 },
    });
    await assert.rejects(client.health(), /./);
    if (server !== silent)
      await assert.rejects(client.runTurn("s", []).result(), { name: /^(ConnectionLost|ProtocolError)$/ });
    server.close();
  }
});

test("an executor that cannot connect ends when it is closed", async () => {
  const silent = createServer(() => {});
  const endpoint = await listening(silent);
  const client = new Client({ endpoint, executorName: "test" });
  client.start();
  assert.equal(client.state, "connecting");
  await assert.rejects(client.waitReady(20), { code: "deadline_exceeded" });
  await client.close();
  assert.equal(client.state, "closed");
  await client.waitClosed();
  silent.close();
});
