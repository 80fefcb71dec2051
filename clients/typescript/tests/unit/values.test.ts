/** JSON, results, waits and endpoints: what needs neither sidecar nor socket. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { BackoffState } from "../../src/backoff.js";
import { resolveControlEndpoint, resolveEndpoint, resolveToken } from "../../src/endpoint.js";
import { resolvePaths } from "../../src/facts.js";
import {
  CallgateError,
  ImagePart,
  InvalidArguments,
  JsonPart,
  PermissionDenied,
  TextPart,
  ToolError,
  ToolResult,
} from "../../src/index.js";
import { encodeAsIs, parseJson, toJson } from "../../src/json.js";
import { CallResult, cut, errorInfo, resultOf, resultOfError, resultOfThrown } from "../../src/result.js";
import { seal } from "../../src/seal.js";

test("integers beyond 2^53 are bigints or an error, and never rounded", () => {
  const text =
    '{"a":[9007199254740993,-9007199254740993,9007199254740991,1.5,"9007199254740993"],"__proto__":1}';
  const value = parseJson(text, { bigints: true }) as { a: unknown[] };
  assert.deepEqual(value.a, [
    9007199254740993n,
    -9007199254740993n,
    9007199254740991,
    1.5,
    "9007199254740993",
  ]);
  assert.equal(toJson(value), text);
  assert.throws(() => parseJson(text, { bigints: false }), { path: "$.a[0]", digits: "9007199254740993" });
  assert.throws(() => parseJson('{"n":9007199254740993', { bigints: true }), SyntaxError);
  assert.throws(() => parseJson("[09007199254740993]", { bigints: true }), SyntaxError);
});

test("a text that looks like the mark of a bigint stays a text", () => {
  const text = '["#bigint:1","##bigint:2",9007199254740993]';
  assert.deepEqual(parseJson(text, { bigints: true }), ["#bigint:1", "##bigint:2", 9007199254740993n]);
});

test("what JSON cannot hold is an error that names where", () => {
  const of = (value: unknown) => () => toJson(value);
  assert.throws(of({ a: [1, Number.NaN] }), { message: /`\$\.a\[1\]` is NaN/ });
  assert.throws(of({ "a b": Buffer.from("x") }), { message: /`\$\["a b"\]` is bytes/ });
  assert.throws(of([() => 1]), { message: /`\$\[0\]` is a function/ });
  assert.throws(of([undefined]), { name: "NotJson" });
  assert.throws(of(undefined), { name: "NotJson" });
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  assert.throws(of(circle), { name: "NotJson" });
  assert.equal(
    toJson({ a: undefined, s: new Set([1]), m: new Map([["k", 2n ** 70n]]) }),
    `{"s":[1],"m":{"k":${2n ** 70n}}}`,
  );
});

test("half a surrogate pair travels as the broken bytes that it is", () => {
  assert.deepEqual([...encodeAsIs("a\ud800b")], [0x61, 0xed, 0xa0, 0x80, 0x62]);
  assert.deepEqual([...encodeAsIs("😀")], [...Buffer.from("😀")]);
});

test("what a handler returns becomes what the model reads", () => {
  assert.equal(resultOf("x").text, "x");
  assert.deepEqual(resultOf(undefined).contents, []);
  assert.deepEqual([resultOf({ a: 1 }).text, seal(resultOf({ a: 1 })).structuredJson.length], ['{"a":1}', 7]);
  assert.equal(resultOf([1, 2]).structured, undefined);
  const parts = resultOf(["two", new ImagePart(Uint8Array.of(1), "image/png")]).contents;
  assert.deepEqual(
    parts.map((part) => part.kind),
    ["text", "image"],
  );
  assert.equal(resultOf([new TextPart("a"), 5]).error?.code, "result_not_json");
  assert.equal(resultOf(Buffer.from("x")).error?.code, "result_not_json");
  assert.equal(resultOf({ type: "image", data: "x" }).contents[0]?.kind, "text");
});

test("broken text is replaced and said so, wherever it is", () => {
  for (const value of ["a\ud800", { a: "\udfff" }, ["\ud800"], new JsonPart({ a: "\ud800" })]) {
    const sealed = seal(resultOf(value));
    assert.equal(sealed.sanitised, true);
    const [part] = sealed.result.contents;
    assert.match(JSON.stringify(part), /\ufffd/);
  }
  assert.equal(seal(resultOf({ a: "\\ud800 😀" })).sanitised, false);
});

test("a result that cannot be sent is an error with the stop flag of its own", () => {
  const many = new ToolResult({ contents: Array(65).fill(new TextPart("x")), stopFlag: true });
  const sealed = seal(many).result;
  assert.deepEqual([sealed.error?.code, sealed.stopFlag], ["result_not_json", true]);
  const list = seal(new ToolResult({ structured: [1] })).result;
  assert.match(list.error?.message ?? "", /structured must be an object/);
});

test("an error of a handler's own domain keeps its code, and the sidecar's are not its to send", () => {
  const own = resultOfError(
    new ToolError("record_not_found", "no such record", { path: "$.index", retryable: true }),
  );
  assert.deepEqual(
    [own.error?.code, own.error?.path, own.error?.retryable],
    ["record_not_found", "$.index", true],
  );
  for (const code of ["tool_not_found", "Bad Code", "", "json_invalid", "hook_failed"]) {
    const made = resultOfError(new ToolError(code, "x"));
    assert.equal(made.error?.code, "tool_execution_failed");
    assert.match(made.error?.detail ?? "", /the handler's code was/);
  }
  assert.equal(resultOfError(new ToolError("result_too_large", "x")).error?.code, "result_too_large");
});

test("whatever is thrown is bounded, and its stack is for operators", () => {
  const made = resultOfThrown(new TypeError("é".repeat(5_000), { cause: new Error("why") }));
  assert.equal(Buffer.byteLength(made.error?.message ?? ""), 4_096);
  assert.match(made.error?.detail ?? "", /caused by: Error: why/);
  assert.equal(resultOfThrown("text").error?.message, "text");
  const hostile = Object.defineProperty(new Error(), "message", { get: () => JSON.parse("") });
  assert.equal(resultOfThrown(hostile).error?.message, "the tool failed without a message");
  assert.equal(cut("aé", 2), "a");
});

test("a call's error is thrown as the class of its code", () => {
  const of = (code: string) =>
    new CallResult({ callId: "c", tool: "t", outcome: "error", isError: true, error: errorInfo(code) });
  assert.throws(() => of("tool_argument_enum").orThrow(), InvalidArguments);
  assert.throws(() => of("tool_denied_by_rule").orThrow(), PermissionDenied);
  assert.throws(() => of("own_code").orThrow(), { name: "CallFailed", code: "own_code" });
  const fine = new CallResult({ callId: "c", tool: "t", outcome: "success" });
  assert.equal(fine.orThrow(), fine);
});

test("waits grow to the cap, and shrink only after a stable connection", () => {
  let now = 0;
  const state = new BackoffState(
    { initialMs: 100, capMs: 400, stableAfterMs: 1_000 },
    () => now,
    () => 1,
  );
  assert.deepEqual([state.lost(), state.lost(), state.lost(), state.lost()], [100, 200, 400, 400]);
  state.ready();
  now += 999;
  assert.equal(state.lost(), 400);
  state.ready();
  now += 500;
  state.ready();
  now += 500;
  assert.equal(state.lost(), 100);
  const drawn = new BackoffState(
    { initialMs: 100 },
    () => now,
    () => 0.25,
  );
  assert.equal(drawn.lost(), 25);
});

test("an endpoint is the argument, else the environment, else the default socket", () => {
  assert.equal(resolveEndpoint("unix:///a/b.sock", {}).socketPath, "/a/b.sock");
  assert.equal(
    resolveEndpoint(undefined, { CALLGATE_ENDPOINT: "http://127.0.0.1:1" }).authority,
    "http://127.0.0.1:1",
  );
  const defaults = [
    { CALLGATE_SOCKET_DIR: "/s", XDG_RUNTIME_DIR: "/x" },
    { XDG_RUNTIME_DIR: "/x", CALLGATE_DATA_DIR: "/d" },
    { CALLGATE_DATA_DIR: "/d" },
    { XDG_STATE_HOME: "/t" },
    { HOME: "/h" },
  ].map((environ) => resolveEndpoint(undefined, environ).socketPath);
  assert.deepEqual(defaults, [
    "/s/callgate.sock",
    "/x/callgate/callgate.sock",
    "/d/run/callgate.sock",
    "/t/callgate/run/callgate.sock",
    "/h/.local/state/callgate/run/callgate.sock",
  ]);
  assert.deepEqual(
    [resolveEndpoint("https://h:443", {}).authority, resolveEndpoint("https://h:443", {}).secure],
    ["https://h", true],
  );
  assert.deepEqual(
    ["http://[::1]:1", "http://localhost:1", "http://127.0.0.9:1", "http://10.0.0.1:1"].map(
      (text) => resolveEndpoint(text, {}).local,
    ),
    [true, true, true, false],
  );
  for (const text of [
    "unix://a",
    "unix:relative",
    "http://h",
    "ws://h:1",
    "ftp://h:1",
    "h:1",
    `unix:///${"x".repeat(107)}`,
  ]) {
    assert.throws(
      () => resolveEndpoint(text, {}),
      (error) => error instanceof CallgateError && error.code === "endpoint_invalid",
    );
  }
});

test("approvers and hooks are served at the control socket beside the sidecar's", () => {
  const environ = { CALLGATE_ENDPOINT: "unix:///s/callgate.sock" };
  assert.equal(resolveControlEndpoint(undefined, environ).socketPath, "/s/control.sock");
  assert.equal(resolveControlEndpoint("unix:///s/callgate.sock", environ).socketPath, "/s/callgate.sock");
  assert.equal(
    resolveControlEndpoint(undefined, { CALLGATE_ENDPOINT: "http://h:1" }).authority,
    "http://h:1",
  );
});

test("a token is the argument, else the environment, else the file, read anew", async () => {
  const folder = mkdtempSync(join(tmpdir(), "cgt-"));
  const file = join(folder, "token");
  writeFileSync(file, "one\n");
  const environ = { CALLGATE_TOKEN_FILE: file };
  assert.equal(await resolveToken("given", environ), "given");
  assert.equal(await resolveToken(undefined, { ...environ, CALLGATE_TOKEN: "said" }), "said");
  assert.equal(await resolveToken(undefined, environ), "one");
  writeFileSync(file, "two");
  assert.equal(await resolveToken(undefined, environ), "two");
  rmSync(folder, { recursive: true });
  await assert.rejects(resolveToken(undefined, environ), { code: "token_unreadable" });
  assert.equal(await resolveToken(undefined, {}), undefined);
});

test("a path is what it leads to, also where its end does not exist", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "cgt-")));
  mkdirSync(join(folder, "real"));
  writeFileSync(join(folder, "real", "a"), "");
  symlinkSync(join(folder, "real"), join(folder, "link"));
  symlinkSync(join(folder, "real", "new"), join(folder, "dangling"));
  symlinkSync("round", join(folder, "round"));
  const canonical = async (path: string) => {
    const [fact] = await resolvePaths(JSON.stringify({ path }), ["/path"], folder);
    return [fact?.canonical.replace(folder, ""), fact?.exists];
  };
  assert.deepEqual(await canonical("link/a"), ["/real/a", true]);
  assert.deepEqual(await canonical("link/new/deeper"), ["/real/new/deeper", false]);
  assert.deepEqual(await canonical("link/../other"), ["/other", false]);
  assert.deepEqual(await canonical("dangling"), ["/real/new", false]);
  assert.deepEqual(await canonical("round"), ["", undefined]);
  assert.deepEqual(await resolvePaths('{"list":[{"a":"real"}]}', ["/list/0/a", "/list/1", "/nope"], folder), [
    { pointer: "/list/0/a", value: "real", canonical: join(folder, "real"), exists: true, error: "" },
  ]);
  rmSync(folder, { recursive: true });
});
