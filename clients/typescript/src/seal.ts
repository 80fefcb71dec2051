/**
 * Makes a handler's answer ready to send: all JSON is text, all text is clean.
 *
 * Runs right behind the handler, since it may call the user's code (`toJSON`). Whatever the values do,
 * a call gets its answer.
 */
import { type ContentPart, isContentPart, JsonPart, ResourcePart, TextPart } from "./content.js";
import { encodeText, toJson } from "./json.js";
import { type CallEffect, clean, cleanJson, EncodedJson, errorInfo, notJson, ToolResult } from "./result.js";

const PARTS_MAX = 64;

/** An answer that needs no more code of the user to be sent. */
export class Sealed {
  constructor(
    readonly result: ToolResult,
    readonly structuredJson: Uint8Array = new Uint8Array(),
    readonly metadataJson: Uint8Array = new Uint8Array(),
    readonly sanitised = false,
  ) {}

  /** Bytes that count towards the limit of results. */
  get size(): number {
    return this.result.contents.reduce((sum, part) => sum + sizeOf(part), this.structuredJson.length);
  }
}

/** The handler stopped because it was told to. */
export class Stopped {
  constructor(
    readonly effect: CallEffect = "unknown",
    readonly message = "",
  ) {}
}

/** How an execution ended. */
export type Outcome = Sealed | Stopped;

/** The text of a JSON piece. */
export function jsonOf(part: JsonPart): string {
  return part.value instanceof EncodedJson ? part.value.text : toJson(part.value);
}

/** Makes an answer ready to send. Never throws. */
export function seal(result: ToolResult): Sealed {
  try {
    return sealed(result);
  } catch (error) {
    const failure = notJson(
      `the tool's result cannot be sent: ${error instanceof Error ? error.message : error}`,
    );
    return sealed(new ToolResult({ ...failure, stopFlag: result.stopFlag }));
  }
}

function sealed(result: ToolResult): Sealed {
  if (result.contents.length > PARTS_MAX) {
    throw new RangeError(`${result.contents.length} parts, at most ${PARTS_MAX} are allowed`);
  }
  let dirty = false;
  const tidy = (text: string): string => {
    const made = clean(text);
    dirty ||= made.changed;
    return made.text;
  };
  const tidyJson = (text: string): string => {
    const made = cleanJson(text);
    dirty ||= made.changed;
    return made.text;
  };
  const document = (value: unknown, what: string): Uint8Array => {
    if (value === undefined || value === null) return new Uint8Array();
    const text = tidyJson(value instanceof EncodedJson ? value.text : toJson(value));
    if (!text.startsWith("{")) throw new TypeError(`${what} must be an object`);
    return encodeText(text);
  };
  const contents = result.contents.map((part): ContentPart => {
    if (!isContentPart(part)) throw new TypeError("an item of `contents` is no content part");
    if (part instanceof TextPart) return new TextPart(tidy(part.text));
    if (part instanceof JsonPart) return new JsonPart(new EncodedJson(tidyJson(jsonOf(part))));
    if (part instanceof ResourcePart && typeof part.data === "string") {
      return new ResourcePart(part.uri, tidy(part.data), part.mimeType);
    }
    return part;
  });
  const structured = document(result.structured, "structured");
  const metadata = document(result.metadata, "metadata");
  return new Sealed(new ToolResult({ ...result, contents }), structured, metadata, dirty);
}

/** The answer in place of one that is beyond the agreed size. */
export function tooLarge(size: number, limit: number, stop: boolean): Sealed {
  const message = `the result has ${size} bytes, at most ${limit} are allowed`;
  return new Sealed(
    new ToolResult({
      contents: [new TextPart(message)],
      isError: true,
      stopFlag: stop,
      error: errorInfo("result_too_large", { message }),
    }),
  );
}

function sizeOf(part: ContentPart): number {
  switch (part.kind) {
    case "text":
      return Buffer.byteLength(part.text);
    case "json":
      return Buffer.byteLength(jsonOf(part));
    case "image":
    case "audio":
      return part.data.length;
    case "resource":
      return typeof part.data === "string" ? Buffer.byteLength(part.data) : part.data.length;
    default:
      return part.uri.length + part.name.length + part.title.length + part.description.length;
  }
}
