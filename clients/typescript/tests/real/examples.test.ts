/** The examples, as their readers run them: processes of their own against the real sidecar. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Sidecar } from "./sidecar.js";

const EXAMPLES = fileURLToPath(new URL("../../examples/", import.meta.url));
const MESSAGES = fileURLToPath(new URL("../../../../python/examples/messages/", import.meta.url));

let sidecar: Sidecar;
const children: ChildProcess[] = [];
before(async () => {
  sidecar = await Sidecar.start();
});
after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await sidecar[Symbol.asyncDispose]();
});

/** Runs an example; resolves with its exit code and what it printed. */
function run(
  name: string,
  ...args: string[]
): { child: ChildProcess; ended: Promise<[number | null, string, string]> } {
  const env = { PATH: process.env.PATH, CALLGATE_ENDPOINT: sidecar.endpoint };
  const child = spawn(process.execPath, [`${EXAMPLES}${name}.js`, ...args], { env });
  children.push(child);
  let [out, err] = ["", ""];
  child.stdout.on("data", (data) => {
    out += data;
  });
  child.stderr.on("data", (data) => {
    err += data;
  });
  return { child, ended: new Promise((resolve) => child.once("exit", (code) => resolve([code, out, err]))) };
}

async function until(tool: string): Promise<void> {
  await using client = sidecar.client();
  while (!(await client.listTools()).tools.some((one) => one.name === tool)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("the bakery bakes what recorded messages ask for, and leaves at SIGTERM", async () => {
  const bakery = run("baking-tools");
  await until("bake_batch");
  const contents: string[] = [];
  for (const name of ["good_call", "batch_of_three", "domain_error", "thrown_exception", "unknown_tool"]) {
    const [code, out, err] = await run("orchestrator", `${MESSAGES}${name}.json`, name).ended;
    assert.equal(code, 0, err);
    const messages = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.ok(messages.every((message) => message.role === "tool"));
    contents.push(...messages.map((message) => message.content));
  }
  assert.equal(contents.length, 7);
  assert.ok(
    contents.some((text) => text.includes("there is no record")),
    contents.join("\n"),
  );
  assert.ok(
    contents.some((text) => text.includes("the oven does not heat")),
    contents.join("\n"),
  );
  bakery.child.kill("SIGTERM");
  const [code, , err] = await bakery.ended;
  assert.equal(code, 0, err);
});

test("the hooks of the bakery are taken and end at SIGTERM", async () => {
  const hooks = run("baking-hooks");
  await using client = sidecar.client({ executorName: "oven" });
  client.tool({
    name: "bake_batch",
    description: "Bakes.",
    risk: "safe",
    handler: ({ count }) => ({ count }),
  });
  await client.waitReady();
  const calls = [{ callId: "c", name: "bake_batch", arguments: { count: 50 } }];
  let baked: unknown;
  for (let round = 0; baked !== 20; round += 1) {
    const result = await client.runTurn("hooked", calls, { runId: `r${round}` });
    baked = (result.call("c").structured as { count: number }).count;
  }
  hooks.child.kill("SIGTERM");
  const [code, , err] = await hooks.ended;
  assert.deepEqual([code, /bake_batch success/.test(err)], [0, true]);
});
