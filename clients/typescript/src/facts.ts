/**
 * What paths in arguments really are on this machine.
 *
 * Looks at the file system and changes nothing. What it says was so at that moment: whoever may change
 * links meanwhile can still mislead.
 */
import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { parseJson } from "./json.js";
import type { PathFact } from "./permission.js";

const LINKS_MAX = 40;

/** One fact per pointer that points to a text. `cwd` empty: that of the process. */
export async function resolvePaths(
  argumentsJson: string,
  pointers: readonly string[],
  cwd: string,
): Promise<PathFact[]> {
  let value: unknown;
  try {
    value = parseJson(argumentsJson, { bigints: true });
  } catch {
    return [];
  }
  const found = pointers.map((pointer) => [pointer, at(value, pointer)] as const);
  const texts = found.filter((one): one is readonly [string, string] => typeof one[1] === "string");
  return Promise.all(texts.map(([pointer, text]) => pathFact(pointer, text, cwd)));
}

/** What one path is: links followed, also where the last parts do not exist. */
export async function pathFact(pointer: string, value: string, cwd: string): Promise<PathFact> {
  try {
    // Not normalised first: `link/..` is what the link leads to.
    const full = value.startsWith("/") ? value : `${cwd || process.cwd()}/${value}`;
    try {
      return { pointer, value, canonical: await realpath(full), exists: true, error: "" };
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
    }
    return { pointer, value, canonical: await leadsTo(full, 0), exists: false, error: "" };
  } catch (error) {
    return { pointer, value, canonical: "", exists: undefined, error: codeOf(error) || "Error" };
  }
}

/** Where writing to a path that does not exist would write to. */
async function leadsTo(path: string, links: number): Promise<string> {
  if (links > LINKS_MAX) throw Object.assign(new Error("too many links"), { code: "ELOOP" });
  const name = basename(path);
  const parent = dirname(path);
  if (parent === path) return path;
  const folder = await existing(parent, links);
  if (name === "..") return dirname(folder);
  if (name === ".") return folder;
  const here = join(folder, name);
  try {
    const target = await readlink(here);
    return await existing(target.startsWith("/") ? target : `${folder}/${target}`, links + 1);
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "EINVAL") return resolve(here);
    throw error;
  }
}

async function existing(path: string, links: number): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    return leadsTo(path, links);
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** What an RFC 6901 pointer finds in a JSON value. Undefined: nothing. */
export function at(value: unknown, pointer: string): unknown {
  let found = value;
  for (const token of pointer.split("/").slice(1)) {
    const name = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (found === null || typeof found !== "object") return undefined;
    if (Array.isArray(found) && !/^(0|[1-9]\d*)$/.test(name)) return undefined;
    found = Object.hasOwn(found, name) ? (found as Record<string, unknown>)[name] : undefined;
  }
  return found;
}
