/** Turns what the transport throws into the package's errors, in one place. */
import { Code, ConnectError } from "@connectrpc/connect";
import * as errors from "../errors.js";
import {
  type ErrorDetail,
  ErrorDetailSchema,
  ErrorReason,
  type RpcError,
} from "../gen/callgate/v1/errors_pb.js";

const BY_REASON: ReadonlyMap<ErrorReason, errors.CallgateErrorClass> = new Map<
  ErrorReason,
  errors.CallgateErrorClass
>([
  [ErrorReason.CREDENTIAL_INVALID, errors.Unauthenticated],
  [ErrorReason.ROLE_MISSING, errors.PermissionDenied],
  [ErrorReason.NAME_FORBIDDEN, errors.PermissionDenied],
  [ErrorReason.LIMIT_EXCEEDED, errors.LimitExceeded],
  [ErrorReason.OVERLOADED, errors.LimitExceeded],
  [ErrorReason.SLOW_READER, errors.LimitExceeded],
  [ErrorReason.DRAINING, errors.Unavailable],
  [ErrorReason.STORE_UNAVAILABLE, errors.Unavailable],
  [ErrorReason.NOT_FOUND, errors.NotFound],
  [ErrorReason.APPROVAL_NOT_FOUND, errors.NotFound],
  [ErrorReason.ALREADY_EXISTS, errors.Conflict],
  [ErrorReason.ETAG_MISMATCH, errors.Conflict],
  [ErrorReason.SESSION_CLOSED, errors.Conflict],
  [ErrorReason.APPROVAL_ALREADY_DECIDED, errors.DecisionConflict],
  [ErrorReason.APPROVAL_NOT_PENDING, errors.DecisionConflict],
  [ErrorReason.APPROVAL_DIGEST_MISMATCH, errors.Conflict],
  [ErrorReason.DECISION_ID_REUSED, errors.Conflict],
  [ErrorReason.MODE_NOT_ALLOWED, errors.Conflict],
  [ErrorReason.CALL_CONFLICT, errors.Conflict],
  [ErrorReason.RUN_BUSY, errors.Conflict],
  [ErrorReason.TOOLSET_IN_USE, errors.Conflict],
  [ErrorReason.TOOL_NAME_DUPLICATE, errors.Conflict],
  [ErrorReason.SNAPSHOT_EXPIRED, errors.Conflict],
  [ErrorReason.RUN_NOT_ACTIVE, errors.RunNotActive],
  [ErrorReason.PROTOCOL_UNSUPPORTED, errors.ProtocolError],
  [ErrorReason.PROTOCOL_VIOLATION, errors.ProtocolError],
  [ErrorReason.HELLO_REQUIRED, errors.ProtocolError],
  [ErrorReason.HELLO_TIMEOUT, errors.DeadlineExceeded],
  [ErrorReason.HEARTBEAT_MISSED, errors.ConnectionLost],
  [ErrorReason.SUPERSEDED, errors.Superseded],
]);

// Where there is no detail, or one that is newer than this package.
const BY_STATUS: ReadonlyMap<number, errors.CallgateErrorClass> = new Map<number, errors.CallgateErrorClass>([
  [Code.Canceled, errors.Cancelled],
  [Code.InvalidArgument, errors.InvalidRequest],
  [Code.DeadlineExceeded, errors.DeadlineExceeded],
  [Code.NotFound, errors.NotFound],
  [Code.AlreadyExists, errors.Conflict],
  [Code.PermissionDenied, errors.PermissionDenied],
  [Code.ResourceExhausted, errors.LimitExceeded],
  [Code.FailedPrecondition, errors.Conflict],
  [Code.Aborted, errors.Conflict],
  [Code.OutOfRange, errors.InvalidRequest],
  [Code.Unimplemented, errors.ProtocolError],
  [Code.Unavailable, errors.ConnectionLost],
  [Code.Unauthenticated, errors.Unauthenticated],
]);

// What Node says of a socket or a stream that is gone.
const LOST = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ENOENT", "EACCES", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH"],
  ...["ERR_HTTP2_STREAM_CANCEL", "ERR_HTTP2_SESSION_ERROR", "ERR_HTTP2_INVALID_SESSION", "ENOTFOUND"],
  ...[
    "ERR_HTTP2_GOAWAY_SESSION",
    "ERR_HTTP2_STREAM_ERROR",
    "ERR_STREAM_PREMATURE_CLOSE",
    "ERR_HTTP2_PING_CANCEL",
  ],
  ...["ERR_STREAM_WRITE_AFTER_END", "ERR_STREAM_DESTROYED", "ERR_HTTP2_INVALID_STREAM", "EAI_AGAIN"],
]);
// What Node says of a peer that does not speak HTTP/2.
const NOT_A_PEER = new Set(["ERR_HTTP2_ERROR", "HPE_INVALID_CONSTANT", "ERR_SSL_WRONG_VERSION_NUMBER"]);

/** The package's error for a failed rpc; one of its own is returned as it is. */
export function errorOf(error: unknown): errors.CallgateError {
  if (error instanceof errors.CallgateError) return error;
  const codes = nodeCodes(error);
  if (codes.some((code) => NOT_A_PEER.has(code))) {
    return new errors.ProtocolError("there is no gRPC server at this address", { cause: error });
  }
  const made = ConnectError.from(error);
  const [detail] = made.findDetails(ErrorDetailSchema);
  if (detail === undefined && (made.code === Code.Canceled || codes.some((code) => LOST.has(code)))) {
    // Nobody here cancels an rpc and looks at its end: the connection went away.
    return new errors.ConnectionLost(made.rawMessage || "the connection was lost", { cause: error });
  }
  if (detail === undefined && isBrokenStream(made)) {
    return new errors.ConnectionLost(made.rawMessage, { cause: error });
  }
  return build(made.code, made.rawMessage, detail, error);
}

/** A stream that ended without a status: its connection was cut. */
function isBrokenStream(error: ConnectError): boolean {
  const unsaid = error.code === Code.Internal || error.code === Code.Unknown;
  return (
    unsaid &&
    /missing (status|trailer)|http\/2 stream|protocol error: missing|premature|aborted/i.test(
      error.rawMessage,
    )
  );
}

/** The package's error for a status that travelled as a message. */
export function errorOfMessage(message: RpcError): errors.CallgateError {
  return build(message.status, message.message, message.detail, undefined);
}

function nodeCodes(error: unknown): string[] {
  const found: string[] = [];
  for (let one = error, depth = 0; one instanceof Error && depth < 8; one = one.cause, depth += 1) {
    if ("code" in one && typeof one.code === "string") found.push(one.code);
  }
  return found;
}

function build(
  status: number,
  text: string,
  detail: ErrorDetail | undefined,
  cause: unknown,
): errors.CallgateError {
  const byStatus = BY_STATUS.get(status) ?? errors.CallgateError;
  if (detail === undefined) return new byStatus(text, { cause });
  let Kind = BY_REASON.get(detail.reason) ?? byStatus;
  if (Kind === errors.NotFound && detail.resourceKind === "tool") Kind = errors.ToolNotFound;
  const limit = detail.limit;
  return new Kind(text, {
    code: detail.code,
    violations: detail.violations.map(({ field, code, message }) => ({
      field,
      code: code || "invalid_request",
      message,
    })),
    limit: limit && { name: limit.name, allowed: Number(limit.allowed), actual: Number(limit.actual) },
    retryAfterMs: detail.retryAfterMs,
    resourceKind: detail.resourceKind,
    resourceId: detail.resourceId,
    cause,
  });
}
