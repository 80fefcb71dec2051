/**
 * How one client reaches the sidecar: one connection that unary calls and watches share, made with first use.
 *
 * Long streams have connections of their own, so that none holds up another.
 */
import type { DescService } from "@bufbuild/protobuf";
import { type CallOptions, type Client, createClient } from "@connectrpc/connect";
import { ClientClosed } from "../errors.js";
import type { Connection, Dialer } from "./dialer.js";
import { errorOf } from "./status.js";

/** See the head of this file. `timeoutMs` is for one answer. */
export class Link {
  closed = false;
  #connection: Connection | undefined;

  constructor(
    readonly dialer: Dialer,
    readonly timeoutMs: number,
  ) {}

  /** Throws `ClientClosed`. */
  checkOpen(): void {
    if (this.closed) throw new ClientClosed("the client is closed");
  }

  /** A client of a service, on the shared connection. It connects anew by itself after a loss. */
  stub<S extends DescService>(service: S): Client<S> {
    this.checkOpen();
    this.#connection ??= this.dialer.open();
    return createClient(service, this.#connection.transport);
  }

  /** Asks once. What goes wrong is a `CallgateError`. */
  async ask<S extends DescService, R>(
    service: S,
    method: (stub: Client<S>, options: CallOptions) => Promise<R>,
  ): Promise<R> {
    const stub = this.stub(service);
    try {
      return await method(stub, { headers: await this.dialer.headers(), timeoutMs: this.timeoutMs });
    } catch (error) {
      if (this.closed) throw new ClientClosed("the client was closed");
      throw errorOf(error);
    }
  }

  /** Closes the connection, and with it everything that still runs on it. May be called twice. */
  close(): void {
    this.closed = true;
    this.#connection?.close();
    this.#connection = undefined;
  }
}
