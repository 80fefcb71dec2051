// Generates `src/gen` from the protocol files at the root of the repository.
//
// Needs the project's pinned `buf` (`make target/tools/.ready`, or the path in BUF) and the pinned
// protoc-gen-es of package.json. `--check` writes nothing and exits 1 if the committed files differ.
// Never downloads anything.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const target = join(here, "src", "gen");
const buf = process.env.BUF ?? join(root, "target", "tools", "bin", "buf");
const plugin = join(here, "node_modules", ".bin", "protoc-gen-es");

/** Writes the whole generated folder into an empty one. */
function generate(out) {
  const template = {
    version: "v2",
    plugins: [{ local: plugin, out, opt: ["target=ts", "import_extension=js"] }],
  };
  for (const input of [join(root, "proto"), join(here, "proto")]) {
    execFileSync(buf, ["generate", input, "--template", JSON.stringify(template)], { stdio: "inherit" });
  }
}

/** Every file below a folder, by its path inside it. */
function contents(folder, at = folder, found = new Map()) {
  for (const name of existsSync(at) ? readdirSync(at) : []) {
    const path = join(at, name);
    if (statSync(path).isDirectory()) contents(folder, path, found);
    else found.set(relative(folder, path), readFileSync(path, "utf8"));
  }
  return found;
}

const fresh = mkdtempSync(join(tmpdir(), "callgate-gen-"));
try {
  generate(fresh);
  const [wanted, present] = [contents(fresh), contents(target)];
  const names = [...new Set([...wanted.keys(), ...present.keys()])];
  const changed = names.filter((name) => wanted.get(name) !== present.get(name));
  if (process.argv.includes("--check")) {
    for (const name of changed) console.error(`src/gen/${name} is not what the protocol files say`);
    process.exitCode = changed.length > 0 ? 1 : 0;
  } else {
    rmSync(target, { recursive: true, force: true });
    cpSync(fresh, target, { recursive: true });
    console.error(`${changed.length} files changed`);
  }
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
