/**
 * JSON without silent losses: integers keep every digit, and what JSON cannot hold is an error.
 *
 * Never rounds an integer. Numbers with a fraction or an exponent are doubles, as everywhere in
 * JavaScript.
 */

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d+$/;
const PLAIN_STEP = /^[A-Za-z0-9_$-]+$/;

/** An integer that a double cannot hold, where nobody asked for bigints. `path` starts at `$`. */
export class UnsafeInteger extends Error {
  constructor(
    readonly path: string,
    readonly digits: string,
  ) {
    super(`\`${path}\` is an integer beyond 2^53, which a number would round`);
    this.name = "UnsafeInteger";
  }
}

/** Something that JSON cannot hold. The message names where, from `$`. */
export class NotJson extends Error {
  constructor(message: string) {
    super(message);
    this.name = "NotJson";
  }
}

function isUnsafe(token: string): boolean {
  return token.length > 15 && INTEGER.test(token) && !Number.isSafeInteger(Number(token));
}

/** A text that does not occur in another one. */
function mark(text: string): string {
  let made = "#bigint:";
  while (text.includes(made)) made = `#${made}`;
  return made;
}

function step(key: string | number): string {
  if (typeof key === "number") return `[${key}]`;
  return PLAIN_STEP.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

/** Replaces leaves in place; `path` is that of the value. */
function replaced(value: unknown, leaf: (text: string, path: string) => unknown, path = "$"): unknown {
  if (typeof value === "string") return leaf(value, path);
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = replaced(value[at], leaf, path + step(at));
  } else if (value !== null && typeof value === "object") {
    for (const [key, inner] of Object.entries(value)) {
      const made = replaced(inner, leaf, path + step(key));
      // Defined and not assigned: `__proto__` is a name like any other.
      Object.defineProperty(value, key, {
        value: made,
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
  }
  return value;
}

/**
 * The value of a JSON document.
 *
 * With `bigints`, integers beyond ±(2^53 − 1) are bigints and all others numbers; without it they
 * are refused. Throws `SyntaxError` and `UnsafeInteger`.
 */
export function parseJson(text: string, options: { bigints: boolean }): unknown {
  let found = false;
  const marker = mark(text);
  const marked = text.replace(TOKENS, (token) => {
    if (token.startsWith('"') || !isUnsafe(token)) return token;
    found = true;
    return `"${marker}${token}"`;
  });
  // Parsed as it is first: what is no JSON must not become some by the marks.
  if (!found) return JSON.parse(text);
  JSON.parse(text);
  return replaced(JSON.parse(marked), (leaf, path) => {
    if (!leaf.startsWith(marker)) return leaf;
    const digits = leaf.slice(marker.length);
    if (!options.bigints) throw new UnsafeInteger(path, digits);
    return BigInt(digits);
  });
}

/** The value of a JSON field of the wire. Undefined if it is absent or, against the contract, no JSON. */
export function parsedField(document: Uint8Array): unknown {
  if (document.length === 0) return undefined;
  try {
    return parseJson(decodeText(document), { bigints: true });
  } catch {
    return undefined;
  }
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** UTF-8 to text. */
export function decodeText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Text to UTF-8. */
export function encodeText(text: string): Uint8Array {
  return encoder.encode(text);
}

/**
 * Text as it travels. Half a surrogate pair is sent as the broken bytes that it is, so that the
 * sidecar refuses it and nothing is put in its place.
 */
export function encodeAsIs(text: string): Uint8Array {
  const pieces = text.split(/([\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF])/);
  if (pieces.length === 1) return encodeText(text);
  return Buffer.concat(
    pieces.map((piece, at) => {
      if (at % 2 === 0) return encodeText(piece);
      const unit = piece.charCodeAt(0);
      return Uint8Array.of(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f));
    }),
  );
}

function problemOf(value: unknown): string | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return `is ${value}, which JSON cannot hold`;
  if (typeof value === "function" || typeof value === "symbol") return `is a ${typeof value}`;
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    return "is bytes; write it as text, or return an ImagePart, AudioPart or ResourcePart";
  }
  return undefined;
}

function pathOfProblem(value: unknown, path: string): string | undefined {
  const problem = problemOf(value);
  if (problem !== undefined) return `\`${path}\` ${problem}`;
  const inner = plain(value);
  if (Array.isArray(inner)) {
    return firstOf(inner.map((item, at) => [item === undefined ? Symbol() : item, path + step(at)]));
  }
  if (inner !== null && typeof inner === "object") {
    return firstOf(Object.entries(inner).map(([key, item]) => [item, path + step(key)]));
  }
  return undefined;
}

function firstOf(items: (readonly [unknown, string])[]): string | undefined {
  for (const [item, path] of items) {
    const problem = pathOfProblem(item, path);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Collections as JSON has them. */
function plain(value: unknown): unknown {
  if (value instanceof Set) return [...value];
  if (value instanceof Map) return Object.fromEntries(value);
  return value;
}

/**
 * One JSON document, compact, with every digit of every bigint.
 *
 * A Set is an array, a Map an object; properties that are undefined are left out, as `JSON.stringify`
 * does. Throws `NotJson` for everything else that would be lost: NaN, bytes, functions, cycles.
 */
export function toJson(value: unknown): string {
  const marker = `#${globalThis.crypto.randomUUID()}:`;
  let bigints = false;
  const write = function (this: unknown, key: string, given: unknown): unknown {
    // Buffers have a `toJSON` that hides what they are.
    const own = (this as Record<string, unknown>)[key];
    if (problemOf(own) !== undefined || (Array.isArray(this) && own === undefined)) throw new NotJson("");
    if (typeof given === "bigint") {
      bigints = true;
      return `${marker}${given}`;
    }
    return plain(given);
  };
  let text: string | undefined;
  try {
    text = JSON.stringify(value, write);
  } catch (error) {
    if (!(error instanceof NotJson))
      throw new NotJson(error instanceof Error ? error.message : String(error));
    throw new NotJson(pathOfProblem(value, "$") ?? "a value in it cannot be JSON");
  }
  if (text === undefined) throw new NotJson(`\`$\` is ${typeof value}`);
  return bigints ? text.replace(new RegExp(`"${marker}(-?\\d+)"`, "g"), "$1") : text;
}
