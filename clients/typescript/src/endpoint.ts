/**
 * Where the sidecar is and who we are: argument, then environment, then default.
 *
 * Never connects.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { CallgateError } from "./errors.js";

const SOCKET_NAME = "callgate.sock";
const CONTROL_NAME = "control.sock";
const SOCKET_PATH_BYTES_MAX = 107;

/** The environment, as `process.env` has it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One address. */
export interface Endpoint {
  /** As it was given. */
  readonly text: string;
  /** What HTTP/2 calls the peer, e.g. `http://127.0.0.1:50551`; of a socket `http://localhost`. */
  readonly authority: string;
  /** The path of a Unix socket; undefined: TCP. */
  readonly socketPath: string | undefined;
  readonly secure: boolean;
  /** A Unix socket or loopback. */
  readonly local: boolean;
}

/** How to trust the sidecar, and how it trusts us. All in PEM; absent: the system's roots, no certificate. */
export interface TlsOptions {
  ca?: string | Uint8Array;
  key?: string | Uint8Array;
  cert?: string | Uint8Array;
}

/** The sidecar's default Unix socket. */
export function defaultEndpoint(environ: Environment): string {
  const of = (...parts: string[]) => `unix://${join(...parts, SOCKET_NAME)}`;
  if (environ.CALLGATE_SOCKET_DIR) return of(resolve(environ.CALLGATE_SOCKET_DIR));
  if (environ.XDG_RUNTIME_DIR) return of(environ.XDG_RUNTIME_DIR, "callgate");
  if (environ.CALLGATE_DATA_DIR) return of(resolve(environ.CALLGATE_DATA_DIR), "run");
  const state = environ.XDG_STATE_HOME || join(environ.HOME || homedir(), ".local", "state");
  return of(state, "callgate", "run");
}

/**
 * Reads an endpoint.
 *
 * Throws `CallgateError` with `endpoint_invalid`: the text is no `unix:///…`, `http://…` or `https://…`
 * with a port, or names a socket path that is too long.
 */
export function resolveEndpoint(argument: string | undefined, environ: Environment = process.env): Endpoint {
  const text = argument || environ.CALLGATE_ENDPOINT || defaultEndpoint(environ);
  if (text.startsWith("unix:")) return socketEndpoint(text);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw invalid(text, "it must begin with unix:///, http:// or https://");
  }
  if (url.protocol === "ws:" || url.protocol === "wss:") {
    throw invalid(text, "this package speaks gRPC; name the same address with http or https");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw invalid(text, "it must begin with unix:///, http:// or https://");
  }
  // The standard port of a scheme is not in `url.port`, even where it was named.
  const port = url.port || /^https?:\/\/[^/?#]*:(\d+)/.exec(text)?.[1];
  if (!url.hostname || !port) throw invalid(text, "host and port are needed: http://127.0.0.1:50551");
  const secure = url.protocol === "https:";
  return {
    text,
    authority: new URL(`${url.protocol}//${url.hostname}:${port}`).origin,
    socketPath: undefined,
    secure,
    local: isLoopback(url.hostname),
  };
}

function socketEndpoint(text: string): Endpoint {
  const path = text.startsWith("unix:///") ? decodeURIComponent(text.slice("unix://".length)) : "";
  if (path === "")
    throw invalid(text, "a Unix socket needs an absolute path: unix:///run/callgate/callgate.sock");
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw invalid(text, `the path is longer than ${SOCKET_PATH_BYTES_MAX} bytes`);
  }
  // A path is no authority, and some servers refuse what is none.
  return { text, authority: "http://localhost", socketPath: path, secure: false, local: true };
}

/**
 * Reads the endpoint of an approver or a hook.
 *
 * An argument is taken as it is. The environment and the default name the sidecar; if that is its socket
 * `callgate.sock`, approvers and hooks are served at `control.sock` beside it.
 */
export function resolveControlEndpoint(
  argument: string | undefined,
  environ: Environment = process.env,
): Endpoint {
  if (argument) return resolveEndpoint(argument, environ);
  const text = environ.CALLGATE_ENDPOINT || defaultEndpoint(environ);
  return resolveEndpoint(controlEndpointBeside(text), environ);
}

/** Where the sidecar of that endpoint serves approvers and hooks, as far as its name tells. */
export function controlEndpointBeside(text: string): string {
  const suffix = `/${SOCKET_NAME}`;
  if (!text.startsWith("unix://") || !text.endsWith(suffix)) return text;
  return `${text.slice(0, -SOCKET_NAME.length)}${CONTROL_NAME}`;
}

/**
 * The bearer token, or undefined. A file is read anew each time, so that it may be renewed.
 *
 * Throws `CallgateError` with `token_unreadable`.
 */
export async function resolveToken(
  argument: string | undefined,
  environ: Environment = process.env,
): Promise<string | undefined> {
  if (argument !== undefined) return argument;
  if (environ.CALLGATE_TOKEN) return environ.CALLGATE_TOKEN;
  const path = environ.CALLGATE_TOKEN_FILE;
  if (!path) return undefined;
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CallgateError(`CALLGATE_TOKEN_FILE cannot be read: ${why}`, {
      code: "token_unreadable",
      cause: error,
    });
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function invalid(text: string, why: string): CallgateError {
  return new CallgateError(`\`${text}\` is not an endpoint: ${why}`, { code: "endpoint_invalid" });
}
