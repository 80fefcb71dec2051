/** What the README shows and says is so. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as callgate from "../../src/index.js";
import * as testing from "../../src/testing.js";

const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");

test("every name that the README imports is there", () => {
  const imports = [...readme.matchAll(/import \{ ([^}]+) \} from "(callgate(?:\/testing)?)"/g)];
  assert.ok(imports.length >= 5);
  for (const [, names, from] of imports) {
    const exported: object = from === "callgate" ? callgate : testing;
    for (const name of names!.split(", ")) assert.ok(name in exported, `${name} of ${from}`);
  }
});

test("every link inside the README leads somewhere", () => {
  const titles = new Set(
    [...readme.matchAll(/^## (.+)$/gm)].map((found) => found[1]!.toLowerCase().replaceAll(" ", "-")),
  );
  const links = [...readme.matchAll(/\]\(#([^)]+)\)/g)].map((found) => found[1]!);
  assert.ok(links.length > 15);
  assert.deepEqual(
    links.filter((link) => !titles.has(link)),
    [],
  );
});

test("every option of a tool stands in the README", () => {
  const source = readFileSync(new URL("../../../src/tool.ts", import.meta.url), "utf8");
  const body = source.slice(source.indexOf("export interface ToolOptions"), source.indexOf("type Handler"));
  const options = [...body.matchAll(/^ {2}(\w+)[?(:]/gm)].map((found) => found[1]!);
  assert.ok(options.length > 20);
  assert.deepEqual(
    options.filter((option) => !readme.includes(`\`${option}\``)),
    [],
  );
});
