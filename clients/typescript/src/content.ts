/**
 * The pieces of a result that a model reads.
 *
 * Plain values that never change. Classes and not tagged objects, so that a record of the user's own
 * with a `type` is never taken for one.
 */

/** Plain text. */
export class TextPart {
  readonly kind = "text";
  constructor(readonly text: string) {}
}

/** Any JSON value; the model reads it as text. */
export class JsonPart {
  readonly kind = "json";
  constructor(readonly value: unknown) {}
}

/** A picture: its bytes as they are, not base64. */
export class ImagePart {
  readonly kind = "image";
  constructor(
    readonly data: Uint8Array,
    readonly mimeType: string,
  ) {}
}

/** A sound: its bytes as they are, not base64. */
export class AudioPart {
  readonly kind = "audio";
  constructor(
    readonly data: Uint8Array,
    readonly mimeType: string,
  ) {}
}

/** A document inside the result; `data` is a text or bytes. */
export class ResourcePart {
  readonly kind = "resource";
  constructor(
    readonly uri: string,
    readonly data: string | Uint8Array,
    readonly mimeType = "",
  ) {}
}

/** What may be said of a document elsewhere. */
export interface LinkDetails {
  name?: string;
  title?: string;
  description?: string;
  mimeType?: string;
  sizeBytes?: number | undefined;
}

/** A document elsewhere. Never fetched by the sidecar. */
export class ResourceLinkPart {
  readonly kind = "resource_link";
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
  readonly sizeBytes: number | undefined;

  constructor(
    readonly uri: string,
    details: LinkDetails = {},
  ) {
    this.name = details.name ?? "";
    this.title = details.title ?? "";
    this.description = details.description ?? "";
    this.mimeType = details.mimeType ?? "";
    this.sizeBytes = details.sizeBytes;
  }
}

/** One piece of a result. */
export type ContentPart = TextPart | JsonPart | ImagePart | AudioPart | ResourcePart | ResourceLinkPart;

const PARTS = [TextPart, JsonPart, ImagePart, AudioPart, ResourcePart, ResourceLinkPart];

/** Whether a value is a piece of a result. */
export function isContentPart(value: unknown): value is ContentPart {
  return PARTS.some((kind) => value instanceof kind);
}

/** The text pieces, joined by line ends. */
export function joinedText(contents: readonly ContentPart[]): string {
  return contents
    .filter((part) => part instanceof TextPart)
    .map((part) => part.text)
    .join("\n");
}
