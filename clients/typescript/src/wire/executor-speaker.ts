/**
 * Says to the sidecar what an executor has to say.
 *
 * Keeps nothing: without a stream reports are dropped, and results wait in the executor for the next
 * welcome.
 */
import type { OutputChannel } from "../context.js";
import type { Dispatch, Execution, ExecutorLink, RejectReason } from "../execution.js";
import type { ExecuteResult, ExecutionRef } from "../gen/callgate/v1/executor_service_pb.js";
import type { StreamLimits } from "../gen/callgate/v1/stream_pb.js";
import { CallEffect, OutputChannel as Channel } from "../gen/callgate/v1/types_pb.js";
import type { Logger } from "../logger.js";
import { cut, resultOfThrown } from "../result.js";
import { Stopped, seal, tooLarge } from "../seal.js";
import { numberOf, REJECTIONS, toolResult } from "./convert.js";
import { defined } from "./dialer.js";
import type { ExecutorConnection } from "./executor-connection.js";

const PROGRESS_MESSAGE_BYTES_MAX = 1_024;
const PROGRESS_DETAILS_BYTES_MAX = 16 * 1024;
const RESULT_BYTES_MAX = 1024 * 1024;
const METADATA_BYTES_MAX = 64 * 1024;

/** See the head of this file. `connection` gives the stream that was welcomed, if there is one. */
export class WireSpeaker implements ExecutorLink {
  #resultMax = RESULT_BYTES_MAX;
  #metadataMax = METADATA_BYTES_MAX;

  constructor(
    private readonly connection: () => ExecutorConnection | undefined,
    private readonly log: Logger,
  ) {}

  /** What the sidecar takes. Zero and absent: what the contract names. */
  setLimits(limits: StreamLimits | undefined): void {
    this.#resultMax = limits?.maxResultBytes || RESULT_BYTES_MAX;
    this.#metadataMax = limits?.maxMetadataBytes || METADATA_BYTES_MAX;
  }

  accepted(execution: Execution, queued: boolean): void {
    this.connection()?.say({ case: "accepted", value: { execution: refOf(execution.dispatch), queued } });
  }

  rejected(dispatch: Dispatch, reason: RejectReason, message: string): void {
    const value = { execution: refOf(dispatch), reason: REJECTIONS[reason], message };
    this.connection()?.say({ case: "rejected", value });
  }

  abandoned(execution: Execution, message: string): void {
    this.connection()?.say({ case: "abandoned", value: { execution: refOf(execution.dispatch), message } });
  }

  cancelAck(ref: unknown, unknown: boolean): void {
    const value = { execution: ref as ExecutionRef, unknownExecution: unknown };
    this.connection()?.say({ case: "cancelAck", value });
  }

  progress(execution: Execution, message: string, fraction: number | undefined, details: Uint8Array): void {
    const fits = details.length <= Math.min(PROGRESS_DETAILS_BYTES_MAX, this.#metadataMax);
    this.connection()?.offerWork({
      case: "progress",
      value: {
        execution: refOf(execution.dispatch),
        message: cut(message, PROGRESS_MESSAGE_BYTES_MAX),
        detailsJson: fits ? details : new Uint8Array(),
        ...defined({ fraction }),
      },
    });
  }

  output(
    execution: Execution,
    channel: OutputChannel,
    sequence: number,
    data: Uint8Array,
    dropped: number,
  ): void {
    const lost = () => execution.noteLostOutput(data.length + dropped);
    const connection = this.connection();
    if (connection === undefined) return lost();
    const value = {
      execution: refOf(execution.dispatch),
      channel: numberOf("channel", Channel, channel),
      chunkSequence: BigInt(sequence),
      data,
      droppedBytes: BigInt(dropped),
    };
    connection.sayWork({ case: "output", value }, lost);
  }

  /** Sent once per stream, in order behind the execution's own output. */
  result(execution: Execution): void {
    const connection = this.connection();
    if (connection === undefined || execution.sentOn === connection) return;
    execution.sentOn = connection;
    const ref = refOf(execution.dispatch);
    connection.sayWork({ case: "result", value: { execution: ref, outcome: this.#outcome(execution) } });
  }

  #outcome(execution: Execution): ExecuteResult["outcome"] {
    const { outcome } = execution;
    if (outcome instanceof Stopped) {
      const effect = numberOf("effect", CallEffect, outcome.effect);
      return { case: "cancelled", value: { effect, message: outcome.message } as never };
    }
    let sealed = outcome ?? seal(resultOfThrown(new Error("the tool has no result")));
    if (sealed.size > this.#resultMax) {
      this.log.warn(`a result of \`${execution.tool.name}\` is too large: ${sealed.size} bytes`);
      sealed = tooLarge(sealed.size, this.#resultMax, sealed.result.stopFlag);
    }
    const message = toolResult(sealed);
    if (message.metadataJson.length > this.#metadataMax) {
      this.log.warn(`the metadata of a result of \`${execution.tool.name}\` is too large and was left out`);
      message.metadataJson = new Uint8Array();
    }
    return { case: "result", value: message };
  }
}

function refOf(dispatch: Dispatch): ExecutionRef {
  return dispatch.ref as ExecutionRef;
}
