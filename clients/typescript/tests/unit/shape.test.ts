/** How the package is cut: short files with a head, one version, one place that knows the wire. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { VERSION } from "../../src/index.js";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) => {
  return /^(src|tests|examples)\/.*\.ts$/.test(path) && !path.startsWith("src/gen/");
});
const text = (path: string) => readFileSync(`${root}${path}`, "utf8");

test("every file says at its head what it is for, and is short", () => {
  assert.ok(files.length > 40);
  for (const path of files) {
    assert.ok(text(path).startsWith("/**"), `${path} has no head`);
    const lines = text(path).split("\n").length;
    assert.ok(lines <= 600, `${path} has ${lines} lines`);
  }
});

test("there is one version", () => {
  assert.equal(JSON.parse(text("package.json")).version, VERSION);
});

test("what users see of the package names no generated type", () => {
  const shown = files.filter((path) =>
    /^src\/(approval|content|context|errors|events|hook|permission|registry|result|schema|session|tool|turn)\.ts$/.test(
      path,
    ),
  );
  assert.equal(shown.length, 13);
  for (const path of shown) assert.doesNotMatch(text(path), /\/gen\//, path);
});
