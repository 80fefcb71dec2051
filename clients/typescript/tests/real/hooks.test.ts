/** Hooks, and what tools say of calls, with the real sidecar. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import {
  After,
  ApprovalAnswer,
  Before,
  type Client,
  type Hook,
  type HookInput,
  Hooks,
  InvalidRequest,
  Permission,
  ToolResult,
  type TurnObserved,
} from "../../src/index.js";
import { QUICK, Sidecar } from "./sidecar.js";

let sidecar: Sidecar;
before(async () => {
  sidecar = await Sidecar.start();
});
after(async () => {
  await sidecar[Symbol.asyncDispose]();
});

const hooksOf = (at: Sidecar) => new Hooks({ endpoint: at.controlEndpoint, backoff: QUICK });

async function withTools(
  names: string[],
  risk: "safe" | "sensitive" = "safe",
  at = sidecar,
): Promise<Client> {
  const client = at.client({ executorName: `tools-${names[0]}` });
  for (const name of names) {
    const handler = (args: object) => ({ ...args });
    client.tool({ name, description: "Says what it got.", risk, kind: "read", handler });
  }
  await client.waitReady();
  return client;
}

const run = async (client: Client, name: string, args: Record<string, unknown> = {}) => {
  return client.runTurn(randomUUID(), [{ callId: "c", name, arguments: args }]);
};

test("every call is told, allowed and may be denied", async () => {
  await using hooks = hooksOf(sidecar);
  const seen: HookInput[] = [];
  hooks.beforeToolCall({ hookId: "gate", tools: ["h_*"] }, (asked) => {
    seen.push(asked);
    const isShell = asked.toolName === "h_shell";
    return isShell
      ? { permissionDecision: "deny", permissionDecisionReason: "no shell here" }
      : { permissionDecision: "allow" };
  });
  await hooks.waitReady();
  await using client = await withTools(["h_read", "h_shell"], "sensitive");
  const session = await client.sessions.create("", { cwd: "/work" });
  const allowed = await client.runTurn(session.sessionId, [
    { callId: "c", name: "h_read", arguments: { x: 1 } },
  ]);
  const denied = await run(client, "h_shell");
  assert.deepEqual(allowed.call("c").structured, { x: 1 });
  assert.deepEqual(
    [denied.call("c").error?.code, denied.call("c").error?.message],
    ["tool_denied_by_hook", "no shell here"],
  );
  const [first] = seen;
  assert.deepEqual(
    [first?.toolName, first?.toolArgs, first?.risk, first?.cwd, first?.sessionId, first?.mode],
    ["h_read", { x: 1 }, "sensitive", "/work", session.sessionId, "default"],
  );
});

test("arguments are modified, output suppressed and contexts added", async () => {
  await using hooks = hooksOf(sidecar);
  hooks.beforeToolCall({ hookId: "shape", tools: ["m_shell"] }, async (asked) => ({
    modifiedArgs: { timeout: 30_000, ...asked.toolArgs },
    additionalContext: "This database speaks PostgreSQL.",
  }));
  hooks.beforeToolCall({ hookId: "quiet", tools: ["m_list"] }, () => ({ suppressOutput: true }));
  await hooks.waitReady();
  await using client = await withTools(["m_shell", "m_list"]);
  const shaped = await run(client, "m_shell", { text: "ls" });
  assert.deepEqual(shaped.call("c").structured, { text: "ls", timeout: 30_000 });
  assert.deepEqual(
    shaped.hookContexts.map((one) => [one.text, one.hookId]),
    [["This database speaks PostgreSQL.", "shape"]],
  );
  const quiet = await run(client, "m_list", { text: "long" });
  assert.equal(quiet.call("c").suppressed, true);
  assert.doesNotMatch(quiet.call("c").text, /long/);
});

test("a hook is an object with methods before and after, and is told of turns", async () => {
  const told: string[] = [];
  const audit: Hook = {
    beforeToolCall: (asked) => {
      if (asked.toolName !== "o_a") return Before.proceed();
      return Before.deny("not twice", { result: ToolResult.of("cached") });
    },
    afterToolCall: () => {
      return After.stop("", { result: ToolResult.of("polished"), messages: [{ text: "that will do" }] });
    },
    turnFinished: (asked: TurnObserved) => {
      told.push(...asked.results.map((one) => `${one.tool} ${one.outcome}`));
    },
  };
  await using hooks = hooksOf(sidecar);
  hooks.add(audit, { hookId: "audit", tools: ["o_*"] });
  await hooks.waitReady();
  await using client = await withTools(["o_a", "o_b"]);
  const cached = await run(client, "o_a");
  const polished = await run(client, "o_b");
  assert.deepEqual(
    [cached.call("c").text, cached.call("c").notExecutedReason],
    ["cached", "answered_by_hook"],
  );
  assert.equal(polished.call("c").text, "polished");
  assert.deepEqual([polished.stop, polished.stopReason], [true, "hook"]);
  assert.deepEqual(
    polished.hookMessages.map((one) => [one.role, one.text]),
    [["user", "that will do"]],
  );
  while (told.length < 2) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(told, ["o_a success", "o_b success"]);
});

test("a hook that throws, answers nonsense or takes too long denies the call", async () => {
  await using hooks = hooksOf(sidecar);
  hooks.beforeToolCall({ hookId: "throws", tools: ["f_throws"] }, () => {
    throw new Error("oops");
  });
  const nonsense = (() => ({ permissionDecision: "perhaps" })) as never;
  hooks.beforeToolCall({ hookId: "nonsense", tools: ["f_nonsense"] }, nonsense);
  let wasTaken = false;
  hooks.beforeToolCall({ hookId: "slow", tools: ["f_slow"], timeoutMs: 100 }, async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    wasTaken = true;
  });
  await hooks.waitReady();
  await using client = await withTools(["f_throws", "f_nonsense", "f_slow"]);
  const codes: (string | undefined)[] = [];
  for (const name of ["f_throws", "f_nonsense", "f_slow"]) {
    codes.push((await run(client, name)).call("c").error?.code);
  }
  assert.deepEqual(codes, ["hook_failed", "hook_failed", "hook_timeout"]);
  while (!wasTaken) await new Promise((resolve) => setImmediate(resolve));
});

test("a refused hook is an error of its process", async () => {
  await using hooks = hooksOf(sidecar);
  hooks.beforeToolCall({ hookId: "broken", matcher: { rules: ["unclosed("] } }, () => undefined);
  await assert.rejects(hooks.waitReady(), InvalidRequest);
});

test("a client's own hooks decide its approvals, and start and close with it", async () => {
  const client = sidecar.client({ executorName: "own" });
  client.tool({ name: "own_mail", description: "Reads mail.", risk: "sensitive", handler: () => "a letter" });
  client.hooks.approvalRequested({ hookId: "mail", tools: ["own_mail"] }, ({ approval }) => {
    return approval.risk === "dangerous" ? ApprovalAnswer.leave() : ApprovalAnswer.approve();
  });
  assert.throws(() => client.runTurn("own", []), /start it before its turns/);
  await client.waitReady();
  assert.equal((await run(client, "own_mail")).call("c").text, "a letter");
  await client.close();
});

test("hooks come back after the sidecar was replaced", async () => {
  await using own = await Sidecar.start();
  await using hooks = hooksOf(own);
  hooks.beforeToolCall({ hookId: "no" }, () => Before.deny("no"));
  await hooks.waitReady();
  await using client = await withTools(["back"], "safe", own);
  await own.restart("SIGKILL");
  await hooks.waitReady();
  await client.waitReady();
  assert.equal((await run(client, "back")).call("c").error?.message, "no");
});

test("a run without progress is diagnosed by a hook", async () => {
  const key = "CALLGATE__LOOP__DIAGNOSIS__";
  await using own = await Sidecar.start({ [`${key}AFTER_ROUNDS`]: "1", [`${key}EVERY_ROUNDS`]: "1" });
  await using hooks = hooksOf(own);
  hooks.loopDiagnose({ hookId: "stuck" }, ({ history }) => {
    return { isLoop: history?.length === 1, reason: "nothing new", confidence: 0.95 };
  });
  await hooks.waitReady();
  await using client = own.client();
  const turn = client.runTurn("stuck", [], { history: [{ role: "user", content: "again" }] });
  const found: unknown[] = [];
  for await (const event of turn) {
    if (event.type === "loop_detected") found.push([event.detector, event.reason, event.confidence]);
  }
  assert.deepEqual(found, [["llm", "nothing new", 0.95]]);
  assert.equal((await turn).outcome, "loop_detected");
});

test("what a tool says of a call holds, and a link does not lead out of an allowed folder", async () => {
  await using own = await Sidecar.start();
  const root = realpathSync(own.folder);
  const [inside, outside] = [`${root}/inside`, `${root}/outside`];
  for (const folder of [inside, outside, `${own.folder}/c/callgate`]) mkdirSync(folder, { recursive: true });
  writeFileSync(`${inside}/a`, "allowed");
  writeFileSync(`${outside}/b`, "denied");
  symlinkSync(`${outside}/b`, `${inside}/link`);
  const permissions = { allow: [`read_file(/${inside}/**)`], deny: [`read_file(/${outside}/**)`] };
  writeFileSync(`${own.folder}/c/callgate/settings.json`, JSON.stringify({ permissions }));
  await own.restart("SIGTERM");
  await using client = own.client({ executorName: "files" });
  client.tool({
    name: "read_file",
    description: "Reads.",
    risk: "sensitive",
    kind: "read",
    subject: { pointer: "/path", type: "path" },
    handler: ({ path }) => readFile(String(path), "utf8"),
  });
  client.tool({
    name: "spend",
    description: "Spends.",
    risk: "safe",
    kind: "other",
    handler: ({ amount }) => String(amount),
    permissionCheck: ({ amount }) => {
      return Number(amount) > 10 ? Permission.deny("at most 10") : Permission.passthrough();
    },
  });
  await client.waitReady();
  const call = (callId: string, name: string, args: Record<string, unknown>) => ({
    callId,
    name,
    arguments: args,
  });
  const calls = [
    call("allowed", "read_file", { path: `${inside}/a` }),
    call("link", "read_file", { path: `${inside}/link` }),
    call("cheap", "spend", { amount: 10 }),
    call("dear", "spend", { amount: 11 }),
  ];
  const result = await client.runTurn("files", calls, { batchPolicy: "freeze_partial", onSuspend: "end" });
  assert.equal(result.call("allowed").text, "allowed");
  assert.equal(result.call("link").error?.code, "tool_denied_by_rule");
  assert.equal(result.call("cheap").text, "10");
  assert.deepEqual(
    [result.call("dear").error?.code, result.call("dear").error?.message],
    ["tool_denied_by_tool", "at most 10"],
  );
});
