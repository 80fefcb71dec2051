/**
 * Answers what the sidecar asks about calls before they run: the tool's own check, and paths.
 *
 * A question has no slot and no result: its one answer goes out, or the sidecar goes on without it.
 * Nothing that the user's code throws gets further than the log.
 */
import type { Executor } from "./executor.js";
import { resolvePaths } from "./facts.js";
import { type PathFact, Permission, type PermissionContext } from "./permission.js";

/** Most questions that are being answered. The sidecar has a bound of its own, but forgets slow ones. */
const QUESTIONS_MAX = 256;

/** The questions of one process. */
export class Questions {
  readonly #executor: Executor;
  #open = 0;

  constructor(executor: Executor) {
    this.#executor = executor;
  }

  /** What a tool says of a call. Whatever goes wrong is "ask". Never rejects. */
  async check(
    toolDigest: Uint8Array,
    argumentsJson: string,
    context: PermissionContext,
  ): Promise<Permission> {
    const tool = this.#executor.find(context.toolName, toolDigest);
    if (tool === undefined || !tool.hasPermissionCheck || this.#open >= QUESTIONS_MAX)
      return Permission.ask();
    this.#open += 1;
    const what = `the permission check of tool \`${tool.name}\``;
    try {
      const said = await tool.check(argumentsJson, context);
      if (said instanceof Permission) return said;
      this.#executor.log.error(`${what} returned no Permission; the call is asked for`);
    } catch (error) {
      // The message may quote arguments.
      const kind = error instanceof Error ? error.name : typeof error;
      this.#executor.log.error(`${what} failed with ${kind}; the call is asked for`);
    } finally {
      this.#open -= 1;
    }
    return Permission.ask();
  }

  /** What paths really are. Never rejects. */
  async resolve(
    argumentsJson: string,
    pointers: readonly string[],
    cwd: string,
  ): Promise<readonly PathFact[]> {
    if (this.#open >= QUESTIONS_MAX) return [];
    this.#open += 1;
    try {
      return await resolvePaths(argumentsJson, pointers, cwd);
    } catch {
      return [];
    } finally {
      this.#open -= 1;
    }
  }
}
