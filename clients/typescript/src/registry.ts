/** What the registry shows: tools, their export for a model, and what the sidecar is. Plain data. */
import type { Open } from "./permission.js";
import type { Dialect, JsonSchema } from "./schema.js";
import type { Risk, ToolKind } from "./tool.js";

export type ProviderFormat = "openai_chat";
export type ToolState = "active" | "unavailable" | "removed";
export type Health = "unknown" | "serving" | "not_serving" | "service_unknown";

/** A tool as the registry has it. */
export interface ToolInfo {
  readonly name: string;
  readonly description: string;
  readonly schema: JsonSchema | undefined;
  readonly dialect: Open<Dialect>;
  readonly risk: Risk;
  readonly kind: ToolKind;
  readonly idempotent: boolean;
  readonly exclusive: boolean;
  /** Undefined: the sidecar's default. */
  readonly timeoutMs: number | undefined;
  readonly version: string;
  readonly annotations: unknown;
  readonly owner: string;
  readonly state: ToolState;
  readonly generation: number;
  readonly digest: Uint8Array;
  readonly instances: number;
  readonly inFlight: number;
}

/** One thing that a provider's form could not hold, and what became of it. */
export interface ExportLoss {
  readonly tool: string;
  readonly callId: string;
  readonly path: string;
  readonly keyword: string;
  readonly action: string;
}

/** What a model may see. */
export interface ToolList {
  /** Names this very list; goes into `runTurn({ toolSnapshotId })`. */
  readonly snapshotId: string;
  /** Without a format: the tools by name. */
  readonly tools: readonly ToolInfo[];
  /** With one: the provider's `tools` value. Empty: leave it out of the request. */
  readonly exported: readonly Record<string, unknown>[];
  /** Names that the model sees to the tools that they stand for. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly losses: readonly ExportLoss[];
}

/** One limit that holds in the sidecar; `unit` is `bytes`, `ms`, `count` or `per_second`. */
export interface Limit {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly ceiling: number;
}

/** What the sidecar is and allows. `state`: "serving", "draining" or "store_unavailable". */
export interface ServerInfo {
  readonly version: string;
  readonly processId: string;
  readonly state: string;
  readonly store: string;
  readonly features: readonly string[];
  readonly dialects: readonly string[];
  readonly formats: readonly string[];
  readonly limits: readonly Limit[];
  readonly callerRoles: readonly string[];
  readonly callerPrincipal: string;
  readonly startedAtMs: number;
}
