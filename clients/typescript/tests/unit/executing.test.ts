/** What an executor does with calls, over a socket to the fake sidecar. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import {
  ExecuteRequestSchema,
  ExecutionRefSchema,
  PermissionCheckRequestSchema,
} from "../../src/gen/callgate/v1/executor_service_pb.js";
import {
  type Client,
  type ClientOptions,
  Permission,
  RegistrationRefused,
  type Tool,
  ToolCancelled,
  type ToolContext,
  ToolError,
  ToolResult,
} from "../../src/index.js";
import { FakeSidecar } from "../../src/testing.js";

type Handler = (args: Record<string, unknown>, ctx: ToolContext) => unknown;

/** A client with tools of these handlers, ready. */
async function ready(
  fake: FakeSidecar,
  tools: Record<string, Handler>,
  options: ClientOptions = {},
): Promise<Client> {
  const client = fake.client(options);
  for (const [name, handler] of Object.entries(tools)) {
    client.tool({ name, description: name, services: ["db"], cancellable: true, handler });
  }
  await client.waitReady();
  return client;
}

/** A promise that a test settles. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test("a call is accepted, reported on and answered once", async () => {
  await using fake = await FakeSidecar.start();
  await using _ = await ready(fake, {
    add: async ({ a, b }, ctx) => {
      ctx.progress("half", 0.5, { at: 1 });
      ctx.output("hello ");
      ctx.output("world", "stdout");
      return { sum: Number(a) + Number(b) };
    },
  });
  const call = await fake.startCall("add", { a: 1, b: 2 });
  const result = await call.result();
  assert.deepEqual([result.structured, result.outcome], [{ sum: 3 }, "success"]);
  assert.deepEqual(
    [call.accepted, call.progress, call.output, call.results],
    [[false], [["half", 0.5]], "hello world", 1],
  );
});

test("the context has what the sidecar sent, and nothing of it can be changed", async () => {
  await using fake = await FakeSidecar.start();
  await using client = fake.client();
  assert.equal(client.services.register({ serviceId: "db" }), true);
  assert.equal(client.services.register({ serviceId: "db" }), false);
  client.services.register({ serviceId: "other" });
  let seen: ToolContext | undefined;
  client.tool({
    name: "look",
    description: "",
    services: ["db"],
    handler: (_args, ctx) => {
      seen = ctx;
    },
  });
  const sent = { sessionId: "s1", metadata: { user: { id: 7 } }, cwd: "/work", timeoutMs: 5_000 };
  await client.waitReady();
  await (await fake.startCall("look", {}, sent)).result();
  assert.ok(seen);
  assert.deepEqual(
    [seen.sessionId, seen.callId, seen.batchCallId, seen.cwd],
    ["s1", "call", "batch", "/work"],
  );
  assert.deepEqual(seen.state, { schemaVersion: 1, sessionId: "s1", metadata: { user: { id: 7 } } });
  assert.throws(() => Object.assign((seen?.state.metadata.user ?? {}) as object, { id: 8 }), TypeError);
  assert.deepEqual(
    [seen.services.has("db"), seen.services.get("other"), seen.services.ids()],
    [true, undefined, ["db"]],
  );
  assert.ok((seen.timeRemaining() ?? 0) <= 5_000);
});

test("output is sent as far as somebody listens, and the rest is counted", async () => {
  await using fake = await FakeSidecar.start();
  const taken: number[] = [];
  await using _ = await ready(fake, {
    print: async (_args, ctx) => {
      taken.push(ctx.output("12345678"));
      // More credit comes with the next message of the sidecar.
      for (let now = 0; now === 0; ) {
        await new Promise((resolve) => setImmediate(resolve));
        now = ctx.output("abc");
        if (now > 0) taken.push(now);
      }
    },
  });
  const call = await fake.startCall("print", {}, { outputCredit: 5 });
  await call.until(() => call.output === "12345");
  call.addCredit(2);
  await call.result();
  assert.deepEqual([taken, call.output], [[5, 2], "12345ab"]);
  assert.ok(call.droppedBytes >= 3, `${call.droppedBytes} bytes`);
});

test("a cancelled handler is told why, and its one answer says what it had done", async () => {
  await using fake = await FakeSidecar.start();
  const reasons: unknown[] = [];
  const waits = (ctx: ToolContext) => new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
  await using _ = await ready(fake, {
    knows: async (_args, ctx) => {
      await waits(ctx);
      reasons.push(ctx.cancellation.reason, ctx.cancellation.message);
      throw new ToolCancelled("cleaned up", { effect: "not_executed" });
    },
    passes: async (_args, ctx) => {
      await waits(ctx);
      ctx.signal.throwIfAborted();
    },
    fetches: async (_args, ctx) => {
      const { setTimeout: sleep } = await import("node:timers/promises");
      await sleep(60_000, undefined, { signal: ctx.signal });
    },
    wins: async (_args, ctx) => {
      await waits(ctx);
      return "done all the same";
    },
    fails: async (_args, ctx) => {
      await waits(ctx);
      throw new Error("while cleaning up");
    },
  });
  const ends: unknown[] = [];
  for (const name of ["knows", "passes", "fetches", "wins", "fails"]) {
    const call = await fake.startCall(name);
    await call.until(() => call.accepted.length > 0);
    call.cancel("run_ended", "enough");
    const { outcome, effect, error, text } = await call.result();
    ends.push([outcome, effect, error?.code ?? text]);
    assert.equal(call.cancelAcks, 1);
  }
  assert.deepEqual(reasons, ["run_ended", "enough"]);
  assert.deepEqual(ends, [
    ["cancelled", "not_executed", "tool_cancelled"],
    ["cancelled", "unknown", "tool_cancelled"],
    ["cancelled", "unknown", "tool_cancelled"],
    ["success", "executed", "done all the same"],
    ["error", "executed", "tool_execution_failed"],
  ]);
});

test("an abort that nobody asked for is a failure of the tool", async () => {
  await using fake = await FakeSidecar.start();
  await using _ = await ready(fake, {
    aborts: () => {
      throw new DOMException("no", "AbortError");
    },
    cancels: () => {
      throw new ToolCancelled("no");
    },
  });
  for (const name of ["aborts", "cancels"]) {
    const { outcome, error } = await (await fake.startCall(name)).result();
    assert.deepEqual([outcome, error?.code], ["error", "tool_execution_failed"]);
  }
});

test("nothing that a handler does reaches the process", async () => {
  await using fake = await FakeSidecar.start();
  const unhandled: unknown[] = [];
  const note = (error: unknown) => unhandled.push(error);
  process.on("unhandledRejection", note);
  await using _ = await ready(fake, {
    throws: () => {
      throw new Error("at once");
    },
    rejects: () => Promise.reject(new Error("later")),
    nothing: () => Promise.reject(undefined),
    domain: () => {
      throw new ToolError("own_code", "mine");
    },
    stop: () => ToolResult.of("done", { stop: true }),
  });
  const codes: unknown[] = [];
  for (const name of ["throws", "rejects", "nothing", "domain", "stop"]) {
    const result = await (await fake.startCall(name)).result();
    codes.push(result.error?.code ?? result.stopFlag);
  }
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", note);
  const failed = "tool_execution_failed";
  assert.deepEqual([codes, unhandled], [[failed, failed, failed, "own_code", true], []]);
});

test("as many run as may, the rest waits in order, and more is refused", async () => {
  await using fake = await FakeSidecar.start();
  const { opened, open } = gate();
  let running = 0;
  let most = 0;
  await using _ = await ready(
    fake,
    {
      hold: async () => {
        running += 1;
        most = Math.max(most, running);
        await opened;
        running -= 1;
      },
    },
    { maxConcurrency: 2 },
  );
  const calls = await Promise.all(Array.from({ length: 67 }, () => fake.startCall("hold")));
  await Promise.all(calls.map((call) => call.until(() => call.accepted.length > 0 || call.rejected !== "")));
  assert.deepEqual(calls.map((call) => call.accepted[0]).slice(0, 4), [false, false, true, true]);
  assert.deepEqual(
    calls.filter((call) => call.rejected !== "").map((call) => call.rejected),
    ["busy"],
  );
  open();
  await Promise.all(calls.map((call) => call.result()));
  assert.equal(most, 2);
});

test("a result beyond the agreed size is an error of its own, and the stream goes on", async () => {
  await using fake = await FakeSidecar.start({ maxResultBytes: 100 });
  await using _ = await ready(fake, { large: () => "x".repeat(101), fits: () => "x".repeat(100) });
  assert.equal((await (await fake.startCall("large")).result()).error?.code, "result_too_large");
  assert.equal((await (await fake.startCall("fits")).result()).text.length, 100);
});

test("refused tools are told, and end a client that wants none", async () => {
  await using fake = await FakeSidecar.start();
  const twice = (client: Client): Tool[] => {
    return [1, 2].map(() => client.tool({ name: "twice", description: "", handler: () => "" }));
  };
  await using lax = fake.client();
  twice(lax);
  await lax.waitReady();
  assert.deepEqual(
    lax.refused.map((one) => one.error?.code),
    ["tool_name_duplicate"],
  );
  assert.equal(lax.registrations.get("twice")?.state, "active");
  await using strict = fake.client({ strictRegistration: true });
  twice(strict);
  await assert.rejects(strict.waitReady(), RegistrationRefused);
});

test("more tools than one message takes go in several", async () => {
  await using fake = await FakeSidecar.start({ maxToolsPerMessage: 2 });
  await using client = fake.client();
  const { Tool: Made } = await import("../../src/index.js");
  const of = (name: string) => new Made({ name, description: "", handler: () => name });
  client.addTool(of("a"));
  await client.waitReady();
  const answers = await client.updateTools({ add: ["b", "c", "d"].map(of), remove: ["a"] });
  assert.deepEqual(
    answers.map((one) => [one.name, one.state]),
    [
      ["b", "active"],
      ["c", "active"],
      ["d", "active"],
      ["a", "removed"],
    ],
  );
  assert.equal((await (await fake.startCall("d")).result()).text, "d");
});

test("a call of another definition of a tool is not taken", async () => {
  await using fake = await FakeSidecar.start();
  await using _ = await ready(fake, { tool: () => "" });
  const call = await fake.startCall("tool");
  await call.result();
  const execution = create(ExecutionRefSchema, { executionId: "other", attempt: 1 });
  const changed = create(ExecuteRequestSchema, {
    ...call.request,
    execution,
    toolDigest: Buffer.alloc(32, 1),
  });
  const sent = fake.executors.resend(changed);
  await sent.result();
  assert.equal(sent.rejected, "unknown_tool");
});

test("a tool's own check answers, and whatever goes wrong asks", async () => {
  await using fake = await FakeSidecar.start();
  await using client = fake.client();
  const checked = (name: string, permissionCheck: () => unknown) => {
    client.tool({ name, description: "", handler: () => "", permissionCheck: permissionCheck as never });
  };
  checked("denies", () => Permission.deny("no"));
  checked("throws", () => {
    throw new Error("oops");
  });
  checked("nonsense", () => true);
  await client.waitReady();
  for (const name of ["denies", "throws", "nonsense"]) {
    const fields = { checkId: name, toolName: name, argumentsJson: Buffer.from("{}") };
    fake.tell({ case: "permissionCheck", value: create(PermissionCheckRequestSchema, fields) });
    await fake.until(() => fake.executors.checks.has(name));
  }
  const said = [...fake.executors.checks.values()].map((one) => [one.verdict, one.reasonForModel]);
  assert.deepEqual(said, [
    [1, "no"],
    [2, ""],
    [2, ""],
  ]);
});

test("a closed client settles everything that waits", async () => {
  const fake = await FakeSidecar.start();
  const client = await ready(fake, { a: () => "" });
  const turn = client.runTurn("s", [{ callId: "c", name: "none" }]);
  await turn;
  const { Tool: Made } = await import("../../src/index.js");
  const closing = client.close();
  assert.equal(client.close(), closing);
  await closing;
  const late = new Made({ name: "late", description: "", handler: () => "" });
  await assert.rejects(client.updateTools({ add: [late] }), { code: "client_closed" });
  await assert.rejects(client.listTools(), { code: "client_closed" });
  assert.throws(() => client.runTurn("s", []), { code: "client_closed" });
  assert.equal(client.state, "closed");
  await fake.close();
});
