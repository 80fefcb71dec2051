/** Definitions of tools: schemas, dialects, names, and how arguments reach a handler. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "zod";
import { Client, Permission, Tool, ToolDefinitionError } from "../../src/index.js";
import { callTool } from "../../src/testing.js";

const made = (input: object, more: object = {}) => {
  return new Tool({ name: "t", description: "", input: input as never, handler: () => "", ...more });
};

test("a schema that core can say goes out in core, all others say what they are", () => {
  const core = made(
    z.object({
      a: z.string().describe("words"),
      b: z.array(z.number()).optional(),
      c: z.boolean().default(true),
    }),
  );
  assert.equal(core.dialect, "core");
  assert.deepEqual(core.schema, {
    type: "object",
    properties: {
      a: { type: "string", description: "words" },
      b: { type: "array", items: { type: "number" } },
      c: { type: "boolean" },
    },
    required: ["a"],
  });
  for (const field of [
    z.enum(["a"]),
    z.int(),
    z.string().min(1),
    z.string().nullable(),
    z.union([z.string(), z.number()]),
  ]) {
    const tool = made(z.object({ field }));
    assert.equal(tool.dialect, "json-schema-2020-12");
    assert.doesNotMatch(tool.schemaJson, /\$schema|"title"/);
  }
});

test("a type that JSON cannot hold is an error where the tool is defined", () => {
  for (const field of [z.date(), z.map(z.string(), z.string()), z.bigint(), z.instanceof(Error)]) {
    assert.throws(() => made(z.object({ field })), ToolDefinitionError);
  }
  const foreign = { "~standard": { version: 1, vendor: "other", validate: (value: unknown) => ({ value }) } };
  assert.throws(() => made(foreign), /schema of other has no JSON schema/);
});

test("a schema by hand is never rewritten", () => {
  const input = { type: "object", properties: { a: { type: "string", title: "A" } } };
  assert.deepEqual([made(input).schema, made(input).dialect], [input, "json-schema-2020-12"]);
  assert.equal(made({ type: "object" }).dialect, "core");
  assert.equal(made({ type: "object" }, { dialect: "json-schema-2020-12" }).dialect, "json-schema-2020-12");
  assert.equal(new Tool({ name: "t", description: "", handler: () => "" }).schemaJson, '{"type":"object"}');
});

test("what the sidecar would refuse anyway is refused where it is written", () => {
  const code = (more: object) => {
    try {
      made({ type: "object" }, more);
    } catch (error) {
      return error instanceof ToolDefinitionError ? error.code : error;
    }
    return undefined;
  };
  assert.equal(code({ name: " " }), "tool_name_empty");
  assert.equal(code({ name: "a b" }), "tool_name_invalid");
  assert.equal(code({ name: "x".repeat(129) }), "tool_name_invalid");
  const wrong = [
    { risk: "high" },
    { kind: "x" },
    { timeoutMs: 0 },
    { maxConcurrency: 0 },
    { dialect: "draft-07" },
  ];
  for (const more of [
    ...wrong,
    { subject: { pointer: "a", type: "path" } },
    { subject: { pointer: "/a", type: "x" } },
  ]) {
    assert.equal(code(more), "tool_definition_invalid", JSON.stringify(more));
  }
  assert.throws(() => made({ type: "object" }, { name: "a\u202eb" }), /a\\u202eb/);
});

test("a handler gets what its schema makes, and its types are checked", async () => {
  const client = new Client({ endpoint: "unix:///tmp/none.sock" });
  client.tool({
    name: "add",
    description: "",
    input: z.object({ a: z.number(), more: z.string().default("none") }),
    handler: (args) => {
      const sum: number = args.a + 1;
      const text: string = args.more;
      // @ts-expect-error the schema has no such field
      assert.equal(args.nothing, undefined);
      return { sum, text };
    },
  });
  assert.deepEqual((await callTool(client, "add", { a: 1 })).structured, { sum: 2, text: "none" });
  const rejected = await callTool(client, "add", { a: "1" });
  assert.deepEqual([rejected.error?.code, rejected.error?.path], ["arguments_rejected", "$.a"]);
});

test("bigints come where the schema has them or the tool asks, and nowhere else", async () => {
  const text = '{"n":9007199254740993,"small":1}';
  const input = z.object({ n: z.coerce.bigint(), small: z.coerce.bigint() });
  const exact = new Tool({ name: "t", description: "", input, handler: ({ n, small }) => [n, typeof small] });
  assert.equal(exact.dialect, "core");
  assert.equal((await callTool(exact, "", text)).text, '[9007199254740993,"bigint"]');
  const asked = new Tool({
    name: "t",
    description: "",
    bigints: true,
    handler: ({ n, small }) => [n, typeof small],
  });
  assert.equal((await callTool(asked, "", text)).text, '[9007199254740993,"number"]');
  const plain = new Tool({ name: "t", description: "", handler: ({ n }) => n });
  const refused = await callTool(plain, "", text);
  assert.deepEqual([refused.error?.code, refused.error?.path], ["arguments_rejected", "$.n"]);
});

test("a tool is cancellable exactly if its handler takes a context, unless it says otherwise", () => {
  assert.equal(new Tool({ name: "t", description: "", handler: (_args) => "" }).cancellable, false);
  assert.equal(new Tool({ name: "t", description: "", handler: (_args, _ctx) => "" }).cancellable, true);
  assert.equal(
    new Tool({ name: "t", description: "", cancellable: true, handler: () => "" }).cancellable,
    true,
  );
});

test("a tool's own check gets the arguments as the handler would", async () => {
  const tool = new Tool({
    name: "t",
    description: "",
    input: z.object({ amount: z.number() }),
    handler: () => "",
    permissionCheck: ({ amount }) => (amount > 10 ? Permission.deny("too much") : Permission.passthrough()),
  });
  assert.equal(tool.hasPermissionCheck, true);
  assert.deepEqual(await tool.check('{"amount":11}', {} as never), Permission.deny("too much"));
});
