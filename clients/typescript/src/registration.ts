/** What became of a tool when it was registered. Plain data. */
import type { ErrorInfo } from "./result.js";

export type RegistrationState = "active" | "refused" | "removed";

/** Something dubious in a definition that was taken all the same. */
export interface ToolWarning {
  readonly code: string;
  readonly path: string;
  readonly message: string;
}

/** The sidecar's answer about one tool. Of a refused one, `error` says why. */
export interface Registration {
  readonly name: string;
  readonly state: RegistrationState;
  readonly error: ErrorInfo | undefined;
  readonly digest: Uint8Array;
  readonly generation: number;
  readonly warnings: readonly ToolWarning[];
}
