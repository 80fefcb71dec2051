/** A real sidecar in a folder of its own. `CALLGATE_BIN` names the binary. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { Approvals, type ApprovalsOptions, Client, type ClientOptions } from "../../src/index.js";

export const QUICK = { initialMs: 20, capMs: 200 };
const READY_MS = 15_000;
const STOP_MS = 10_000;

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

/** One `callgate serve`. `settings` are keys of its configuration, as the environment spells them. */
export class Sidecar implements AsyncDisposable {
  // Short, because the path of a socket is.
  readonly folder = mkdtempSync("/tmp/cgt-");
  readonly endpoint = `unix://${this.folder}/s/callgate.sock`;
  readonly controlEndpoint = `unix://${this.folder}/s/control.sock`;
  #process: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly settings: Record<string, string>,
  ) {}

  static async start(settings: Record<string, string> = {}): Promise<Sidecar> {
    const made = new Sidecar(await freePort(), settings);
    await made.start();
    return made;
  }

  get tcpEndpoint(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts it, and resolves when its health says that it is ready. */
  async start(): Promise<void> {
    const binary = process.env.CALLGATE_BIN;
    if (!binary) throw new Error("set CALLGATE_BIN to the callgate binary, e.g. target/debug/callgate");
    const inherited = Object.entries(process.env).filter(([key]) => !/^(CALLGATE|XDG)/.test(key));
    const env = {
      ...Object.fromEntries(inherited),
      CALLGATE_DATA_DIR: `${this.folder}/d`,
      CALLGATE_SOCKET_DIR: `${this.folder}/s`,
      CALLGATE__SERVER__TCP: `127.0.0.1:${this.port}`,
      XDG_CONFIG_HOME: `${this.folder}/c`,
      ...this.settings,
    };
    const log = openSync(`${this.folder}/log`, "a");
    this.#process = spawn(binary, ["serve"], { env, stdio: ["ignore", log, log] });
    await using client = new Client({ endpoint: this.endpoint });
    await client.waitReady(READY_MS).catch((error: unknown) => {
      throw new Error(`the sidecar is not ready: ${error}\n${this.log()}`);
    });
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  /** Ends it with a signal and starts it again with what it has kept. */
  async restart(signal: NodeJS.Signals): Promise<void> {
    await this.stop(signal);
    await this.start();
  }

  log(): string {
    return readFileSync(`${this.folder}/log`, "utf8").slice(-4_000);
  }

  token(role: string): string {
    return readFileSync(`${this.folder}/d/tokens/${role}.token`, "utf8").trim();
  }

  client(options: ClientOptions = {}): Client {
    return new Client({ endpoint: this.endpoint, backoff: QUICK, ...options });
  }

  approver(options: ApprovalsOptions = {}): Approvals {
    return new Approvals({ endpoint: this.controlEndpoint, backoff: QUICK, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
