/** The answers that all languages share: arguments as the sidecar sends them keep every digit here. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ToolError } from "../../src/errors.js";
import { parseJson, toJson } from "../../src/json.js";
import { resultOf, resultOfError } from "../../src/result.js";

const vectors = (name: string) => {
  const url = new URL(`../../../../../tests/vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8"));
};
const tokens = (text: string) => text.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[^,\]}\s]*/g) ?? [];
const integers = (text: string) => tokens(text).filter((token) => /^-?\d+$/.test(token) && token !== "-0");

test("every dispatch form is read, and its integers are written digit for digit", () => {
  let read = 0;
  for (const { name, expect } of vectors("arguments")) {
    if (expect.dispatch === undefined) continue;
    const value = parseJson(expect.dispatch, { bigints: true });
    const isRoundable = tokens(expect.dispatch).every((token) => /^-?\d+$/.test(token) && token !== "-0");
    if (isRoundable) assert.deepEqual(integers(toJson(value)).sort(), integers(expect.dispatch).sort(), name);
    read += 1;
  }
  assert.ok(read > 20, `${read} vectors`);
});

test("every dispatch form that is read without bigints is read alike, or refused by name", () => {
  for (const { name, expect } of vectors("arguments")) {
    if (expect.dispatch === undefined) continue;
    const exact = parseJson(expect.dispatch, { bigints: true });
    try {
      assert.deepEqual(parseJson(expect.dispatch, { bigints: false }), exact, name);
    } catch (error) {
      assert.equal((error as Error).name, "UnsafeInteger", name);
    }
  }
});

test("a code that the sidecar says of schemas or arguments is not a handler's to send", () => {
  const said = new Set<string>();
  for (const { expect } of vectors("schema")) {
    if (expect.code) said.add(expect.code);
    for (const check of expect.checks ?? []) if (check.code) said.add(check.code);
  }
  for (const { expect } of vectors("arguments")) if (expect.code) said.add(expect.code);
  assert.ok(said.size > 10, `${said.size} codes`);
  for (const code of said) {
    assert.equal(resultOfError(new ToolError(code, "x")).error?.code, "tool_execution_failed", code);
  }
  assert.equal(resultOf("x").isError, false);
});
