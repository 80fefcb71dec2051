/**
 * Makes connections, and the headers that go with every request.
 *
 * Never tries again by itself: our own loops decide when, and this would hide losses from them.
 */
import * as net from "node:net";
import * as tls from "node:tls";
import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Endpoint, resolveToken, type TlsOptions } from "../endpoint.js";
import { VERSION } from "../version.js";
import { Http2Session } from "./session.js";

/** The largest frame of the contract; limits proper are agreed on each stream. */
export const MESSAGE_BYTES_MAX = 5_242_864;

/** One HTTP/2 connection, made with its first request. `close` ends everything on it. */
export interface Connection {
  readonly transport: Transport;
  close(): void;
}

/** What is needed to open a connection, as often as it takes. */
export class Dialer {
  constructor(
    readonly endpoint: Endpoint,
    private readonly token: string | undefined,
    private readonly tlsOptions: TlsOptions | undefined,
  ) {}

  /** A new connection of its own. */
  open(): Connection {
    const { authority } = this.endpoint;
    const session = new Http2Session(authority, () => this.#connect());
    const transport = createGrpcTransport({
      baseUrl: authority,
      sessionManager: session,
      readMaxBytes: MESSAGE_BYTES_MAX,
      writeMaxBytes: MESSAGE_BYTES_MAX,
      acceptCompression: [],
    });
    return { transport, close: () => session.close() };
  }

  #connect(): net.Socket {
    const { socketPath, authority, secure } = this.endpoint;
    if (socketPath !== undefined) return net.connect({ path: socketPath });
    const url = new URL(authority);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const port = Number(url.port || (secure ? 443 : 80));
    // A small message must not wait 40 ms for the acknowledgement of the one before. Node sees to that for
    // HTTP/2, too; it is the contract's, and so stands here.
    if (!secure) return net.connect({ host, port, noDelay: true });
    const { ca, key, cert } = this.tlsOptions ?? {};
    const pem = (value: string | Uint8Array | undefined) =>
      value === undefined || typeof value === "string" ? value : Buffer.from(value);
    const servername = net.isIP(host) === 0 ? host : undefined;
    const socket = tls.connect({
      host,
      port,
      ALPNProtocols: ["h2"],
      ...defined({ ca: pem(ca), key: pem(key), cert: pem(cert), servername }),
    });
    socket.setNoDelay(true);
    return socket;
  }

  /** Who is calling. The token is read here, so a renewed file is used at once. */
  async headers(): Promise<Record<string, string>> {
    const token = await resolveToken(this.token);
    return {
      "callgate-client": `callgate-typescript/${VERSION}`,
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    };
  }
}

/** The entries that have a value. */
export function defined<T extends object>(given: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as never;
}
