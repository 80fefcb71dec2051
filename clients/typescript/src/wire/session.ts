/**
 * One HTTP/2 connection, made with its first request and made anew after a loss.
 *
 * Whatever goes wrong with it is an error of its requests, and never of the process: every session has a
 * listener for its errors from its first moment to its last. An idle one does not keep the process alive.
 */
import * as http2 from "node:http2";
import type { Socket } from "node:net";

const WINDOW_BYTES = 8 * 1024 * 1024;
/** Finds a half-open connection where a stream has no ping of its own. */
const PING_INTERVAL_MS = 20_000;
const PING_TIMEOUT_MS = 10_000;

/** See the head of this file. It is what the transport calls a session manager. */
export class Http2Session {
  readonly #connect: () => Socket;
  readonly #open = new Set<http2.ClientHttp2Session>();
  #current: Promise<http2.ClientHttp2Session> | undefined;
  #closed = false;

  constructor(
    readonly authority: string,
    connect: () => Socket,
  ) {
    this.#connect = connect;
  }

  /** Begins a request. Rejects: there is no connection. */
  async request(
    method: string,
    path: string,
    headers: http2.OutgoingHttpHeaders,
    options: Omit<http2.ClientSessionRequestOptions, "signal">,
  ): Promise<http2.ClientHttp2Stream> {
    if (this.#closed) throw gone("the connection was closed");
    this.#current ??= this.#begin();
    const session = await this.#current;
    const stream = session.request({ ...headers, ":method": method, ":path": path }, options);
    session.ref();
    streams.set(session, (streams.get(session) ?? 0) + 1);
    stream.once("close", () => {
      const left = (streams.get(session) ?? 1) - 1;
      streams.set(session, left);
      if (left === 0) session.unref();
    });
    return stream;
  }

  /** Told by the transport of every byte; the pings here need no such help. */
  notifyResponseByteRead(): void {}

  /** Ends the connection, and everything on it. */
  close(): void {
    this.#closed = true;
    for (const session of this.#open) session.destroy(undefined, http2.constants.NGHTTP2_CANCEL);
  }

  #begin(): Promise<http2.ClientHttp2Session> {
    const session = http2.connect(this.authority, {
      settings: { initialWindowSize: WINDOW_BYTES, enablePush: false },
      createConnection: this.#connect,
    });
    this.#open.add(session);
    const made = new Promise<http2.ClientHttp2Session>((resolve, reject) => {
      session.once("connect", () => {
        session.setLocalWindowSize(WINDOW_BYTES);
        resolve(session);
      });
      session.on("error", reject);
      session.once("close", () => reject(gone("the connection was lost")));
    });
    const ping = setInterval(() => pinged(session), PING_INTERVAL_MS).unref();
    // Whoever comes next gets a connection of its own; streams that run may end on this one.
    const leave = (): void => {
      if (this.#current === made) this.#current = undefined;
    };
    session.once("goaway", leave);
    session.once("error", leave);
    session.once("close", () => {
      leave();
      clearInterval(ping);
      this.#open.delete(session);
    });
    return made;
  }
}

/** Streams that are open on a session. */
const streams = new WeakMap<http2.ClientHttp2Session, number>();

function pinged(session: http2.ClientHttp2Session): void {
  if (session.destroyed || session.closed) return;
  const dead = setTimeout(() => session.destroy(gone("a ping was not answered")), PING_TIMEOUT_MS).unref();
  session.ping(() => clearTimeout(dead));
}

function gone(why: string): Error {
  return Object.assign(new Error(why), { code: "ECONNRESET" });
}
