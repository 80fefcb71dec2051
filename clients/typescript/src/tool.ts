/**
 * The definition of a tool: what the model sees, and the handler behind it.
 *
 * Never checks arguments against the schema: the sidecar did that. A library's schema only converts what
 * passed.
 */
import type { ToolContext } from "./context.js";
import { ToolDefinitionError, ToolError } from "./errors.js";
import { parseJson, toJson, UnsafeInteger } from "./json.js";
import type { Permission, PermissionContext } from "./permission.js";
import { resultOf, type ToolResult } from "./result.js";
import {
  type Dialect,
  deriveSchema,
  dialectOf,
  isStandardSchema,
  type JsonSchema,
  type StandardSchema,
  validated,
} from "./schema.js";

export type Risk = "safe" | "sensitive" | "dangerous";
export type ToolKind = "read" | "fetch" | "edit" | "delete" | "execute" | "interact" | "other";
export type SubjectType = "command" | "path" | "url" | "text";

export const RISKS: readonly Risk[] = ["safe", "sensitive", "dangerous"];
export const KINDS: readonly ToolKind[] = ["read", "fetch", "edit", "delete", "execute", "interact", "other"];
const SUBJECT_TYPES: readonly SubjectType[] = ["command", "path", "url", "text"];
// The sidecar's own rule: longer names only if its operator allows them, up to 128.
const NAME = /^[A-Za-z0-9_.-]{1,128}$/;
const UINT32_MAX = 2 ** 32 - 1;

/** The argument that a rule's `(…)` is about, as in `run_shell(git *)`. */
export interface Subject {
  /** Where it stands in the arguments, e.g. `/command`; for a path also an array of them. */
  pointer: string;
  /** How it is read: commands are split, paths matched as in .gitignore, URLs by their host. */
  type: SubjectType;
  /** Of a command: the shell that runs it. Absent: bash. */
  dialect?: string;
}

/** A schema of zod or of another library, or a JSON schema as a value. */
export type ToolInput = StandardSchema | JsonSchema;

// biome-ignore lint/suspicious/noExplicitAny: a handler takes what its schema makes, whatever that is
type AnyStandard = StandardSchema<any, any>;

/** What a handler is called with. */
export type ArgumentsOf<I> = I extends {
  readonly "~standard": { readonly types?: { readonly output: infer O } | undefined };
}
  ? O
  : Record<string, unknown>;

/** What a tool is made of. */
export interface ToolOptions<I extends AnyStandard | JsonSchema = JsonSchema> {
  /** What the model calls: 1 to 64 of `A-Za-z0-9_.-`. */
  name: string;
  /** For the model. */
  description: string;
  /** What the sidecar checks. Absent: any object. */
  input?: I;
  /** How a JSON schema is read. Absent: "core" if it is written in that. */
  dialect?: Dialect;
  /**
   * Integers beyond ±(2^53 − 1) arrive as bigints. Absent: yes if `input` has one (`z.coerce.bigint()`),
   * else such a call ends with the error `arguments_rejected`. They are never rounded.
   */
  bigints?: boolean;
  /** "safe" reads only, "sensitive" can be undone, "dangerous" cannot. Absent: the sidecar's configuration. */
  risk?: Risk;
  /** What the tool does; permission modes decide by it. */
  kind?: ToolKind;
  /** The argument that rules are about. */
  subject?: Subject;
  /** Lifts an ask that comes from mode or risk. Never for a dangerous tool, never in plan mode, and no rule. */
  skipPermission?: boolean;
  /** May be called again and again: the loop detector does not see it. */
  loopExempt?: boolean;
  /** Pointers, such as "/path", to the only arguments that the loop detector compares. */
  loopKey?: readonly string[];
  /** Pointers, such as "/token", to arguments that the audit masks. */
  secretPointers?: readonly string[];
  /** Longest execution. Absent: the sidecar's default, 120 000. */
  timeoutMs?: number;
  /** A second execution does no harm, so a lost one may be repeated. */
  idempotent?: boolean;
  /** No other call of its batch runs meanwhile. */
  exclusive?: boolean;
  /** Most executions at once in this process, at least 1. Absent: only the client's limit. */
  maxConcurrency?: number;
  /** Stops early when told to. Absent: exactly if the handler takes a context. */
  cancellable?: boolean;
  /** Ids of the services that the handler may use. */
  services?: readonly string[];
  /** The author's version, for people. */
  version?: string;
  /** Free data, a JSON object. Kept and shown, never acted on. */
  annotations?: Readonly<Record<string, unknown>>;
  /** Runs the call. What it returns becomes the result, see `resultOf`; what it throws, an error. */
  handler(args: ArgumentsOf<I>, ctx: ToolContext): unknown;
  /**
   * Asked about each call before it may run, with the arguments as the handler would get them. It has
   * two seconds. What it throws is logged and counts as `Permission.ask()`.
   */
  permissionCheck?(args: ArgumentsOf<I>, context: PermissionContext): Permission | Promise<Permission>;
}

type Handler = (args: never, ctx: ToolContext) => unknown;
type Check = (args: never, context: PermissionContext) => unknown;

/** A tool. Never changes. */
export class Tool {
  readonly name: string;
  readonly description: string;
  readonly schemaJson: string;
  readonly dialect: Dialect;
  readonly bigints: boolean;
  readonly risk: Risk | undefined;
  readonly kind: ToolKind | undefined;
  readonly subject: Subject | undefined;
  readonly skipPermission: boolean;
  readonly loopExempt: boolean;
  readonly loopKey: readonly string[];
  readonly secretPointers: readonly string[];
  readonly timeoutMs: number | undefined;
  readonly idempotent: boolean;
  readonly exclusive: boolean;
  /** 0: only the client's limit. */
  readonly maxConcurrency: number;
  readonly cancellable: boolean;
  readonly services: readonly string[];
  readonly version: string;
  readonly annotationsJson: string;
  readonly #input: AnyStandard | undefined;
  readonly #handler: Handler;
  readonly #check: Check | undefined;

  /** Throws `ToolDefinitionError`: no tool can be made of this, or the sidecar would refuse it whatever it allows. */
  constructor(options: ToolOptions<AnyStandard | JsonSchema>) {
    this.name = checkedName(options.name);
    this.description = options.description;
    const derived = derive(options);
    this.schemaJson = derived.schemaJson;
    this.dialect = derived.dialect;
    this.bigints = options.bigints ?? derived.bigints;
    this.#input = derived.input;
    this.risk = oneOf("risk", RISKS, options.risk);
    this.kind = oneOf("kind", KINDS, options.kind);
    this.subject = checkedSubject(options.subject);
    this.skipPermission = options.skipPermission ?? false;
    this.loopExempt = options.loopExempt ?? false;
    this.loopKey = [...(options.loopKey ?? [])];
    this.secretPointers = [...(options.secretPointers ?? [])];
    this.timeoutMs = whole("timeoutMs", options.timeoutMs);
    this.idempotent = options.idempotent ?? false;
    this.exclusive = options.exclusive ?? false;
    this.maxConcurrency = whole("maxConcurrency", options.maxConcurrency) ?? 0;
    this.services = [...(options.services ?? [])];
    this.version = options.version ?? "";
    this.annotationsJson = options.annotations === undefined ? "" : toJson(options.annotations);
    this.#handler = options.handler.bind(options) as Handler;
    this.#check = options.permissionCheck?.bind(options) as Check | undefined;
    this.cancellable = options.cancellable ?? options.handler.length >= 2;
  }

  /** The schema that the sidecar checks arguments against. */
  get schema(): JsonSchema {
    return JSON.parse(this.schemaJson) as JsonSchema;
  }

  /** Whether it is asked before each call. */
  get hasPermissionCheck(): boolean {
    return this.#check !== undefined;
  }

  /** Runs the handler and awaits it. What it throws passes through. */
  async run(argumentsJson: string, context: ToolContext): Promise<ToolResult> {
    const args = await this.#read(argumentsJson);
    return resultOf(await this.#handler(args as never, context));
  }

  /** What the tool's own check says. What it throws passes through. */
  async check(argumentsJson: string, context: PermissionContext): Promise<unknown> {
    const args = await this.#read(argumentsJson);
    return this.#check?.(args as never, context);
  }

  async #read(argumentsJson: string): Promise<unknown> {
    let value: unknown;
    try {
      value = parseJson(argumentsJson, { bigints: this.bigints });
    } catch (error) {
      const path = error instanceof UnsafeInteger ? error.path : "$";
      const why = error instanceof Error ? error.message : String(error);
      throw new ToolError("arguments_rejected", `the arguments cannot be read: ${why}`, { path });
    }
    return this.#input === undefined ? value : validated(this.#input, value);
  }
}

function derive(options: ToolOptions<AnyStandard | JsonSchema>): {
  schemaJson: string;
  dialect: Dialect;
  bigints: boolean;
  input: AnyStandard | undefined;
} {
  const { input, dialect } = options;
  if (dialect !== undefined && dialect !== "core" && dialect !== "json-schema-2020-12") {
    throw new ToolDefinitionError(
      `dialect must be core or json-schema-2020-12, not ${JSON.stringify(dialect)}`,
    );
  }
  if (input === undefined) {
    return { schemaJson: '{"type":"object"}', dialect: dialect ?? "core", bigints: false, input: undefined };
  }
  if (isStandardSchema(input)) {
    const made = deriveSchema(input);
    return {
      schemaJson: toJson(made.schema),
      dialect: dialect ?? made.dialect,
      bigints: made.bigints,
      input: input as AnyStandard,
    };
  }
  return {
    schemaJson: toJson(input),
    dialect: dialect ?? dialectOf(input),
    bigints: false,
    input: undefined,
  };
}

function checkedName(name: unknown): string {
  if (typeof name !== "string") throw new ToolDefinitionError(`the name of a tool must be a string`);
  if (NAME.test(name)) return name;
  // Escaped, so that a name with hidden or turning characters cannot play with a log.
  const shown = JSON.stringify(name.slice(0, 80)).replace(/[^\x20-\x7e]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  throw new ToolDefinitionError(`the name of a tool must be 1 to 64 of A-Z a-z 0-9 _ . -, not ${shown}`, {
    code: name.trim() === "" ? "tool_name_empty" : "tool_name_invalid",
  });
}

function oneOf<T extends string>(what: string, allowed: readonly T[], value: T | undefined): T | undefined {
  if (value !== undefined && !allowed.includes(value)) {
    throw new ToolDefinitionError(
      `${what} must be one of ${allowed.join(", ")}, not ${JSON.stringify(value)}`,
    );
  }
  return value;
}

function whole(what: string, value: number | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!Number.isFinite(value) || value < 1 || value > UINT32_MAX) {
    throw new ToolDefinitionError(`${what} must be 1 to ${UINT32_MAX}, not ${value}`);
  }
  return Math.ceil(value);
}

function checkedSubject(subject: Subject | undefined): Subject | undefined {
  if (subject === undefined) return undefined;
  oneOf("the type of a subject", SUBJECT_TYPES, subject.type);
  if (!subject.pointer.startsWith("/") || subject.pointer.length === 1) {
    const shown = JSON.stringify(subject.pointer);
    throw new ToolDefinitionError(`a subject needs a pointer such as /command, not ${shown}`);
  }
  return { ...subject };
}
