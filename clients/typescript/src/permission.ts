/**
 * What decides whether a call runs: modes, rules, grants, the verdict that they come to, and what a
 * tool itself says of a call.
 *
 * Plain data. Decides nothing: the sidecar does.
 */

export type Mode = "plan" | "default" | "accept_edits" | "auto";
export type BatchPolicy = "freeze_atomic" | "freeze_partial" | "eager_safe";
export type PermissionEffect = "allow" | "ask" | "deny";
export type RuleSource =
  | "policy_settings"
  | "user_settings"
  | "project_settings"
  | "local_settings"
  | "flag_settings"
  | "cli_arg"
  | "command"
  | "session";
export type DecisionStage =
  | "validation"
  | "deny_rule"
  | "safety_floor"
  | "hook"
  | "ask_rule"
  | "mode_block"
  | "tool_check"
  | "allow_rule"
  | "grant"
  | "skip_permission"
  | "mode_default"
  | "no_approver";
/** "unknown" is one that is newer than this package: such a grant gives nothing and does not count. */
export type GrantKind = "tool" | "command_prefix" | "command_exact" | "accept_edits" | "unknown";
export type GrantState = "active" | "revoked" | "void" | "expired" | "unknown";

/** A name of one of these lists, or of one that is newer than this package. */
export type Open<T extends string> = T | (string & {});

/** A rule as someone writes it, e.g. `{ effect: "deny", rule: "run_shell(rm *)" }`. */
export interface RuleSpec {
  effect: PermissionEffect;
  /** `Tool` or `Tool(spec)`. */
  rule: string;
  /** Examples that must match, tried before the rule counts. */
  matches?: readonly string[];
  /** Examples that must not. */
  notMatches?: readonly string[];
  /** Shown with every verdict of this rule; for "deny" the model reads it too. */
  message?: string;
  /** Unix time. Absent: never. */
  expiresAtMs?: number | undefined;
  /** Modes in which it counts. Empty: all. */
  modes?: readonly Mode[];
}

/**
 * Why a call may run, must be asked for or must not run.
 *
 * `stage` and `source` are a number as text where the sidecar is newer than this package, and empty
 * where there is none. `message` is for people and never text from the model.
 */
export interface PermissionVerdict {
  readonly effect: PermissionEffect | undefined;
  readonly stage: Open<DecisionStage>;
  readonly rule: string;
  readonly source: Open<RuleSource>;
  readonly origin: string;
  /** The part of a command that decided. */
  readonly segment: string;
  readonly segmentIndex: number | undefined;
  readonly message: string;
  readonly policyRevision: number;
  readonly hookId: string;
}

/**
 * What approving for the session would store, to be shown word for word.
 *
 * Candidates of one `segmentIndex` exclude each other, and each segment needs one. `alsoCovers` counts
 * other pending approvals that it would cover as well.
 */
export interface GrantCandidate {
  readonly candidateId: string;
  readonly kind: GrantKind;
  readonly rule: string;
  readonly summary: string;
  readonly segment: string;
  readonly segmentIndex: number | undefined;
  readonly alsoCovers: number;
}

/** A permission that an approver gave for a session. It counts while `state` is "active". */
export interface Grant {
  readonly grantId: string;
  readonly sessionId: string;
  readonly kind: GrantKind;
  readonly rule: string;
  readonly tool: string;
  readonly owner: string;
  readonly toolDigest: Uint8Array;
  readonly approvalId: string;
  readonly grantedBy: string;
  readonly grantedAtMs: number;
  readonly expiresAtMs: number | undefined;
  readonly uses: number;
  readonly state: GrantState;
  readonly revokedBy: string;
  readonly endedAtMs: number | undefined;
}

export type PermissionSays = "deny" | "ask" | "ask_firm" | "allow" | "passthrough";

/** What a tool says of one call. Made by the methods named as what they say. */
export class Permission {
  private constructor(
    readonly says: PermissionSays,
    /** Shown to the approver as the tool's words; cut at 1 KiB. */
    readonly reason = "",
    /** Read by the model of a denied call; cut at 1 KiB. */
    readonly message = "",
  ) {}

  /** Must not run, whoever would allow it. The model reads `message`. */
  static deny(message = ""): Permission {
    return new Permission("deny", "", message);
  }

  /** Somebody should be asked, unless a rule or a grant allows the call. */
  static ask(reason = ""): Permission {
    return new Permission("ask", reason);
  }

  /** Somebody must be asked, whatever allows the call. */
  static askFirm(reason = ""): Permission {
    return new Permission("ask_firm", reason);
  }

  /** May run unasked. Counts only if the sidecar trusts this executor, and never for a dangerous tool. */
  static allow(): Permission {
    return new Permission("allow");
  }

  /** No opinion: rules and the mode decide. */
  static passthrough(): Permission {
    return new Permission("passthrough");
  }
}

/** What a path in the arguments really is, as this process told the sidecar. */
export interface PathFact {
  /** Where it stands in the arguments. */
  readonly pointer: string;
  /** The path found there. */
  readonly value: string;
  /** Absolute, links followed. Empty: it could not be told, see `error`. */
  readonly canonical: string;
  /** Undefined: nobody looked. */
  readonly exists: boolean | undefined;
  readonly error: string;
}

/** What a permission check may know besides the arguments. */
export interface PermissionContext {
  readonly toolName: string;
  readonly callId: string;
  /** The session's. */
  readonly mode: Mode;
  /** As far as they are known. */
  readonly facts: readonly PathFact[];
  /** The allow rule or grant that matches so far; empty: none. */
  readonly matchedRule: string;
  readonly matchedSource: Open<RuleSource>;
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  /** The session's working directory; empty: none was set. */
  readonly cwd: string;
}
