/** Sessions as the sidecar keeps them: settings, and what a change of them did. Plain data. */
import type { BatchPolicy, Grant, Mode } from "./permission.js";

export type ApproverAvailability = "expected" | "connected" | "none";

/** What can be set about a session. What is absent stays as it is, or gets the configured default. */
export interface SessionSettings {
  /** How much runs unasked. */
  readonly mode?: Mode | undefined;
  /** For turns that name none. */
  readonly batchPolicy?: BatchPolicy | undefined;
  /** Most calls of a turn that execute at once. */
  readonly maxParallel?: number | undefined;
  /** For turns that name none. Empty: the whole registry. */
  readonly toolset?: string | undefined;
  /** Working directory of its tools, for relative paths in rules. */
  readonly cwd?: string | undefined;
  /** Whether somebody can be asked: now or later, only while an approver watches, or nobody. */
  readonly approvers?: ApproverAvailability | undefined;
  /** After which an approval expires. 0: never. */
  readonly approvalTtlMs?: number | undefined;
}

/** One conversation. */
export interface Session {
  readonly sessionId: string;
  /** What it was forked from. Empty: nothing. */
  readonly parentSessionId: string;
  /** The first of its line; its own id if it has no parent. */
  readonly rootSessionId: string;
  readonly depth: number;
  /** All of them, as they hold. */
  readonly settings: SessionSettings;
  /** How much runs unasked. */
  readonly mode: Mode;
  /** The freest mode that it may have. */
  readonly maxMode: Mode;
  readonly createdAtMs: number;
  readonly usedAtMs: number;
  /** Undefined: it is open. */
  readonly closedAtMs: number | undefined;
  /** Those that wait, child sessions included. */
  readonly pendingApprovals: number;
  /** Changes with every change. */
  readonly etag: string;
}

/** A changed session, and how many calls that waited may run now or are denied now. */
export interface SessionUpdate {
  readonly session: Session;
  readonly released: number;
  readonly denied: number;
}

/** The grants that were meant, as they are now, and the session's mode. */
export interface RevokedGrants {
  readonly grants: readonly Grant[];
  readonly mode: Mode;
}
