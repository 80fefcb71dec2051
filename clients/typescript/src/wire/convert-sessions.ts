/** Protobuf messages of sessions to the package's types and back. */
import { create } from "@bufbuild/protobuf";
import { ProtocolError } from "../errors.js";
import * as sv from "../gen/callgate/v1/session_service_pb.js";
import type * as se from "../session.js";
import { nameOf, numberOf, numberOfBig, wholeMs } from "./convert.js";
import { batchPolicyNumber, batchPolicyOf, modeNumber, modeOf } from "./convert-permission.js";
import { defined } from "./dialer.js";

/** Settings on their way; what is absent is not sent. Throws `TypeError`: there is no such mode or policy. */
export function settingsMessage(settings: se.SessionSettings): sv.SessionSettings {
  const { maxParallel, toolset, cwd, approvalTtlMs } = settings;
  const approvers =
    settings.approvers === undefined ? 0 : numberOf("approvers", sv.ApproverAvailability, settings.approvers);
  return create(sv.SessionSettingsSchema, {
    mode: modeNumber(settings.mode),
    batchPolicy: batchPolicyNumber(settings.batchPolicy),
    approvers,
    ...defined({
      maxParallel,
      toolset,
      cwd,
      approvalTtlMs: approvalTtlMs === undefined ? undefined : BigInt(wholeMs(approvalTtlMs)),
    }),
  });
}

/** One session. Unknown values are the strictest. */
export function sessionOf(message: sv.Session | undefined): se.Session {
  if (message === undefined) throw new ProtocolError("the sidecar sent no session");
  const settings = message.settings ?? create(sv.SessionSettingsSchema);
  const approvers = nameOf(sv.ApproverAvailability, settings.approvers, "none") || undefined;
  return {
    sessionId: message.sessionId,
    parentSessionId: message.parentSessionId,
    rootSessionId: message.rootSessionId,
    depth: message.depth,
    settings: {
      mode: modeOf(settings.mode),
      batchPolicy: batchPolicyOf(settings.batchPolicy),
      maxParallel: settings.maxParallel,
      toolset: settings.toolset,
      cwd: settings.cwd,
      approvers: approvers as se.ApproverAvailability | undefined,
      approvalTtlMs: numberOfBig(settings.approvalTtlMs),
    },
    mode: modeOf(settings.mode),
    maxMode: modeOf(message.maxMode),
    createdAtMs: Number(message.createdAtMs),
    usedAtMs: Number(message.usedAtMs),
    closedAtMs: numberOfBig(message.closedAtMs),
    pendingApprovals: message.pendingApprovals,
    etag: message.etag,
  };
}
