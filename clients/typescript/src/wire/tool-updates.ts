/**
 * Changes of tools that the sidecar has not answered yet, and the pieces that messages hold.
 *
 * Survives every stream: what was lost with one is answered by the next hello, which says the same.
 */
import { randomUUID } from "node:crypto";
import { ConnectionLost } from "../errors.js";
import type { Registration } from "../registration.js";
import { errorInfo } from "../result.js";
import type { Tool } from "../tool.js";
import { Deferred } from "./wait.js";

export const DEFAULT_TOOLS_MAX = 1_000;
const TOOLS_BYTES_MAX = 3 * 1024 * 1024;

/** One change, as one message holds it. */
export class ToolChange {
  readonly id = randomUUID();
  readonly answer = new Deferred<readonly Registration[]>();

  constructor(
    readonly upsert: readonly Tool[],
    readonly remove: readonly string[],
  ) {}

  /** What a hello that said the same is answered with; `byName` are the answers to it. */
  settleFrom(byName: ReadonlyMap<string, Registration>): void {
    const of = (name: string): Registration => byName.get(name) ?? removed(name);
    // A tool that is not in the hello was taken back by a later change.
    this.answer.resolve([...this.upsert.map((tool) => of(tool.name)), ...this.remove.map(removed)]);
  }
}

function removed(name: string): Registration {
  return { name, state: "removed", error: undefined, digest: new Uint8Array(), generation: 0, warnings: [] };
}

/** The changes that wait for an answer, by id. */
export class ToolChanges {
  readonly waiting = new Map<string, ToolChange>();

  /** Begins one. */
  begin(upsert: readonly Tool[], remove: readonly string[]): ToolChange {
    const change = new ToolChange(upsert, remove);
    this.waiting.set(change.id, change);
    return change;
  }

  /** The answer has come, or the next hello says the same. */
  take(id: string): ToolChange | undefined {
    const change = this.waiting.get(id);
    this.waiting.delete(id);
    return change;
  }

  /** No answer will come. */
  failAll(): void {
    for (const change of this.waiting.values()) {
      change.answer.reject(new ConnectionLost("the client was closed before the sidecar answered"));
    }
    this.waiting.clear();
  }
}

/** The tools in pieces that one message takes each; at least one piece. */
export function batches(tools: readonly Tool[], countMax: number): Tool[][] {
  const pieces: Tool[][] = [[]];
  let size = 0;
  for (const tool of tools) {
    const own =
      Buffer.byteLength(tool.schemaJson) +
      Buffer.byteLength(tool.description) +
      Buffer.byteLength(tool.annotationsJson) +
      1_024;
    let last = pieces[pieces.length - 1]!;
    if (last.length > 0 && (last.length === countMax || size + own > TOOLS_BYTES_MAX)) {
      last = [];
      pieces.push(last);
      size = 0;
    }
    last.push(tool);
    size += own;
  }
  return pieces;
}

/** A change of tools in pieces that one message takes each: tools first, at least one piece. */
export function changePieces(
  upsert: readonly Tool[],
  remove: readonly string[],
  countMax: number,
): (readonly [readonly Tool[], readonly string[]])[] {
  const tools = batches(upsert, countMax);
  if (tools.length === 1 && upsert.length + remove.length <= countMax) return [[upsert, remove]];
  const names: string[][] = [];
  for (let start = 0; start < remove.length; start += countMax)
    names.push(remove.slice(start, start + countMax));
  return [
    ...tools.filter((piece) => piece.length > 0).map((piece) => [piece, []] as const),
    ...names.map((piece) => [[], piece] as const),
  ];
}

/** Why a tool was refused, for a log. */
export function refusalText(answer: Registration): string {
  const { code, path, message } = answer.error ?? errorInfo("unknown");
  return `the sidecar refused tool \`${answer.name}\`: ${code} ${path} ${message}`;
}
