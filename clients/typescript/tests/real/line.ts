/** A line to the sidecar that a test can cut. */
import { connect, createServer, type Server, type Socket } from "node:net";

export class Line implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  cuts = 0;
  endpoint = "";

  private constructor(port: number) {
    this.#server = createServer((here) => {
      const there = connect({ port, host: "127.0.0.1", noDelay: true });
      for (const [one, other] of [
        [here, there],
        [there, here],
      ] as const) {
        this.#sockets.add(one);
        one.pipe(other);
        one.on("error", () => other.destroy());
        one.once("close", () => {
          this.#sockets.delete(one);
          other.destroy();
        });
      }
    });
  }

  static async to(port: number): Promise<Line> {
    const made = new Line(port);
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    const address = made.#server.address();
    made.endpoint = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
    return made;
  }

  /** Ends every connection, as if a cable were pulled. */
  cut(): void {
    this.cuts += 1;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
