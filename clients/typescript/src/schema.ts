/**
 * Turns a schema of zod, or of any library that speaks Standard Schema, into what the sidecar checks.
 *
 * The schema goes out in the core dialect if that says exactly the same, else openly in JSON Schema
 * 2020-12. The sidecar refuses keywords that it would ignore, so what only decorates is taken out here,
 * and nothing else is. A schema written by hand is never rewritten.
 */
import { ToolDefinitionError, ToolError } from "./errors.js";

export type Dialect = "core" | "json-schema-2020-12";

/** A JSON schema as a value. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** One problem that a validator found. */
interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type Validated<T> =
  | { readonly value: T; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

/** What zod 4 and others give under `~standard`: a validator, its types, and its JSON schema. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The part of the standard that gives a JSON schema; libraries without it cannot be used for tools. */
interface WithJsonSchema {
  readonly "~standard": {
    readonly jsonSchema?: {
      readonly input?: (options: {
        target: string;
        libraryOptions?: Record<string, unknown>;
      }) => Record<string, unknown>;
    };
  };
}

const CORE_KEYWORDS = new Set(["type", "properties", "required", "items", "description"]);
const CORE_TYPES = new Set(["string", "number", "integer", "boolean", "object", "array", "null"]);
// Assert nothing in JSON Schema; the validator of the library checks what they mean.
const DECORATION = new Set([
  "$schema",
  "title",
  "discriminator",
  "contentMediaType",
  "contentEncoding",
  "contentSchema",
]);
const SCHEMA_MAPS = new Set(["properties", "patternProperties", "$defs", "dependentSchemas"]);
const SCHEMA_LISTS = new Set(["anyOf", "allOf", "oneOf", "prefixItems"]);
const SCHEMAS = new Set([
  ...["items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"],
]);
const ISSUES_SHOWN_MAX = 5;

/** A schema without decoration, in the smallest dialect that says the same. */
export interface DerivedSchema {
  readonly schema: JsonSchema;
  readonly dialect: Dialect;
  /** It has bigints, so integers must not be read as numbers. */
  readonly bigints: boolean;
}

/** Whether a value is a schema of a library, and no JSON schema. */
export function isStandardSchema(value: object): value is StandardSchema {
  return "~standard" in value;
}

/** What the sidecar checks for a schema of a library. Throws `ToolDefinitionError`. */
export function deriveSchema(input: StandardSchema): DerivedSchema {
  const make = (input as unknown as WithJsonSchema)["~standard"].jsonSchema?.input;
  if (make === undefined) {
    throw new ToolDefinitionError(
      `a schema of ${input["~standard"].vendor} has no JSON schema: use zod 4.2 or newer, or a JSON schema`,
    );
  }
  let bigints = false;
  const override = (made: { zodSchema: ZodLike; jsonSchema: Record<string, unknown> }): void => {
    const definition = made.zodSchema._zod.def;
    if (definition.type !== "bigint") return;
    if (definition.coerce !== true) {
      throw new ToolDefinitionError(
        "use z.coerce.bigint(): JSON has no bigints, and small ones arrive as numbers",
      );
    }
    bigints = true;
    made.jsonSchema.type = "integer";
  };
  let raw: Record<string, unknown>;
  try {
    const libraryOptions = input["~standard"].vendor === "zod" ? zodOptions(override) : {};
    raw = make({ target: "draft-2020-12", libraryOptions });
  } catch (error) {
    if (error instanceof ToolDefinitionError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new ToolDefinitionError(`the input of the tool has no JSON schema: ${why}`, { cause: error });
  }
  const cleaned = smallest(raw);
  return { ...cleaned, bigints };
}

interface ZodLike {
  readonly _zod: { readonly def: { readonly type: string; readonly coerce?: boolean } };
}

/** `unrepresentable` is left to zod, aside from bigints: a type that JSON cannot hold is an error of the tool. */
function zodOptions(override: (made: never) => void): Record<string, unknown> {
  return {
    unrepresentable: "any",
    override: (made: { zodSchema: ZodLike; jsonSchema: Record<string, unknown> }): void => {
      const type = made.zodSchema._zod.def.type;
      if (UNREPRESENTABLE.has(type)) throw new ToolDefinitionError(`JSON cannot hold a ${type}`);
      override(made as never);
    },
  };
}

const UNREPRESENTABLE = new Set([
  ...["symbol", "undefined", "void", "date", "map", "set", "nan", "function", "file", "promise", "custom"],
]);

/** Takes decoration out, and writes the schema in core if that says the same. */
export function smallest(raw: JsonSchema): { schema: JsonSchema; dialect: Dialect } {
  const tidied = tidy(raw) as JsonSchema;
  const definitions = (tidied.$defs ?? {}) as Record<string, unknown>;
  const core = toCore(tidied, definitions, []);
  return core === undefined
    ? { schema: tidied, dialect: "json-schema-2020-12" }
    : { schema: core, dialect: "core" };
}

/** The dialect that a schema written by hand is in. */
export function dialectOf(schema: unknown): Dialect {
  return isCore(schema) ? "core" : "json-schema-2020-12";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function tidy(node: unknown): unknown {
  if (!isObject(node)) return node;
  const made: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(node)) {
    if (DECORATION.has(keyword)) continue;
    if (SCHEMA_MAPS.has(keyword) && isObject(value)) {
      made[keyword] = Object.fromEntries(Object.entries(value).map(([name, child]) => [name, tidy(child)]));
    } else if (SCHEMA_LISTS.has(keyword) && Array.isArray(value)) {
      made[keyword] = value.map(tidy);
    } else if (SCHEMAS.has(keyword)) {
      made[keyword] = tidy(value);
    } else {
      made[keyword] = value;
    }
  }
  return made;
}

/** The same schema in the core dialect, or undefined if that would lose something. */
function toCore(
  given: unknown,
  definitions: Record<string, unknown>,
  inside: readonly string[],
): Record<string, unknown> | undefined {
  if (!isObject(given)) return undefined;
  const { $defs: _, default: __, $ref: reference, ...node } = given;
  if (node.additionalProperties === true || isEmpty(node.additionalProperties)) {
    delete node.additionalProperties;
  }
  if (isEmpty(node.items)) delete node.items;
  if (reference !== undefined) {
    const name = String(reference).replace("#/$defs/", "");
    // A schema that contains itself cannot be written out.
    if (inside.includes(name) || !(name in definitions)) return undefined;
    const target = toCore(definitions[name], definitions, [...inside, name]);
    const others = Object.keys(node).filter((key) => key !== "description");
    return target === undefined || others.length > 0 ? undefined : { ...target, ...node };
  }
  if (Object.keys(node).some((key) => !CORE_KEYWORDS.has(key)) || !CORE_TYPES.has(String(node.type))) {
    return undefined;
  }
  if (isObject(node.properties)) {
    const properties: Record<string, unknown> = {};
    for (const [name, child] of Object.entries(node.properties)) {
      const converted = toCore(child, definitions, inside);
      if (converted === undefined) return undefined;
      properties[name] = converted;
    }
    node.properties = properties;
  }
  if ("items" in node) {
    const converted = toCore(node.items, definitions, inside);
    if (converted === undefined) return undefined;
    node.items = converted;
  }
  return node;
}

function isEmpty(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length === 0;
}

function isCore(node: unknown): boolean {
  if (!isObject(node) || Object.keys(node).some((key) => !CORE_KEYWORDS.has(key))) return false;
  if (typeof node.type !== "string" || !CORE_TYPES.has(node.type)) return false;
  const properties = node.properties ?? {};
  if (!isObject(properties) || !Object.values(properties).every(isCore)) return false;
  return !("items" in node) || isCore(node.items);
}

/** The arguments as a library's schema makes them. Throws `ToolError` with `arguments_rejected`. */
export async function validated(schema: StandardSchema, value: unknown): Promise<unknown> {
  const made = await schema["~standard"].validate(value);
  if (made.issues === undefined) return made.value;
  const shown = made.issues
    .slice(0, ISSUES_SHOWN_MAX)
    .map((issue) => `\`${pathOf(issue)}\`: ${issue.message}`);
  const more = made.issues.length - shown.length;
  if (more > 0) shown.push(`and ${more} more`);
  const first = made.issues[0];
  throw new ToolError("arguments_rejected", shown.join("; "), {
    path: first === undefined ? "$" : pathOf(first),
  });
}

function pathOf(issue: Issue): string {
  const steps = (issue.path ?? []).map((one) => (typeof one === "object" ? one.key : one));
  return `$${steps.map((one) => (typeof one === "number" ? `[${one}]` : `.${String(one)}`)).join("")}`;
}
