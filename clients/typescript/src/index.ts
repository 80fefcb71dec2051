/**
 * Callgate: every tool call of an AI agent passes a gate. This is its client for TypeScript.
 *
 * `Client` registers and runs tools, and runs turns; `Approvals` decides the calls that wait; `Hooks` is asked
 * before and after calls, about approvals and about loops; `callgate/testing` tests tools, hooks and approvers
 * without a sidecar.
 */
export * from "./approval.js";
export * from "./approvals.js";
export type { Backoff } from "./backoff.js";
export * from "./client.js";
export type { CancelOptions, ConnectionOptions } from "./client-turns.js";
export * from "./content.js";
export {
  AllowedServices,
  Cancellation,
  type CancelReason,
  type OutputChannel,
  type SessionState,
  ToolContext,
  type ToolService,
  ToolServiceRegistry,
} from "./context.js";
export type { Endpoint, TlsOptions } from "./endpoint.js";
export * from "./errors.js";
export * from "./events.js";
export {
  After,
  type AfterHandler,
  type AfterOptions,
  type AfterOutput,
  ApprovalAnswer,
  type ApprovalHandler,
  type ApprovalRequestedInput,
  Before,
  type BeforeHandler,
  type BeforeOptions,
  type DiagnosisHandler,
  type EarlierHook,
  type Hook,
  type HookAnswer,
  type HookHead,
  type HookInput,
  type HookMatcher,
  type HookOptions,
  type HookOutput,
  type HookPoint,
  type HookQuestion,
  type HookSpec,
  type Injected,
  type LoopDiagnosis,
  type LoopHandler,
  type LoopOpinion,
  type LoopSuspected as LoopSuspectedInput,
  type OnFailure,
  type TurnHandler,
  type TurnObserved,
} from "./hook.js";
export { Hooks, type HooksOptions } from "./hooks.js";
export { NotJson, parseJson, toJson } from "./json.js";
export type { Logger } from "./logger.js";
export * from "./permission.js";
export type { Registration, RegistrationState, ToolWarning } from "./registration.js";
export type * from "./registry.js";
export {
  type CallEffect,
  type CallOutcome,
  CallResult,
  type CallResultFields,
  type CallTiming,
  type ErrorInfo,
  errorInfo,
  ToolResult,
  type ToolResultFields,
} from "./result.js";
export type { Dialect, JsonSchema, StandardSchema } from "./schema.js";
export type { RevokedGrants, Session, SessionSettings, SessionUpdate } from "./session.js";
export { Sessions } from "./sessions.js";
export {
  type ArgumentsOf,
  type Risk,
  type Subject,
  type SubjectType,
  Tool,
  type ToolInput,
  type ToolKind,
  type ToolOptions,
} from "./tool.js";
export { Turn } from "./turn.js";
export type { AttachOptions, TurnOptions, ViewOptions } from "./turn-options.js";
export { VERSION } from "./version.js";
export type { ApprovalConditions } from "./wire/convert-approvals.js";
export type { ClientState } from "./wire/executor-stream.js";
