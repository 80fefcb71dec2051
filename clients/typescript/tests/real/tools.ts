/** What the tests against the real sidecar share: the demo's tools, and how to wait for something. */

import * as z from "zod";
import { type Client, type ClientOptions, ToolCancelled, ToolError, ToolResult } from "../../src/index.js";
import type { Sidecar } from "./sidecar.js";

const RECORDS = [
  { record_id: "r1", name: "sourdough" },
  { record_id: "r2", name: "brioche" },
];

/** One tool for every way a call can go. */
export function addBakery(client: Client): void {
  client.tool({
    name: "find_record",
    description: "Finds a record by its position.",
    risk: "safe",
    kind: "read",
    input: z.object({ index: z.int() }),
    handler: ({ index }) => {
      const record = RECORDS[index];
      if (record === undefined) {
        throw new ToolError("record_not_found", `there is no record at ${index}`, { path: "$.index" });
      }
      return record;
    },
  });
  client.tool({
    name: "proof_dough",
    description: "Lets the dough rest; stops early when it is cancelled.",
    risk: "safe",
    kind: "read",
    timeoutMs: 600_000,
    handler: async (_args, ctx) => {
      ctx.progress("proofing", 0);
      await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      throw new ToolCancelled("stopped", { effect: "executed" });
    },
  });
  client.tool({
    name: "bake_batch",
    description: "Bakes some loaves, and tells about each of them.",
    risk: "safe",
    kind: "other",
    input: z.object({ count: z.int().min(1) }),
    handler: async ({ count }, ctx) => {
      for (let loaf = 1; loaf <= count; loaf += 1) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        ctx.output(`loaf ${loaf} is done\n`, "stdout");
        ctx.progress(`${loaf} of ${count}`, loaf / count);
      }
      return { baked: count };
    },
  });
  client.tool({
    name: "broken_oven",
    description: "Fails in a way that nobody thought of.",
    risk: "safe",
    kind: "read",
    handler: () => {
      throw new RangeError("the oven does not heat");
    },
  });
  client.tool({
    name: "finish_baking",
    description: "Ends the work.",
    risk: "safe",
    kind: "other",
    handler: () => ToolResult.of("finished", { stop: true }),
  });
}

/** An executor with these tools, ready. */
export async function bakery(sidecar: Sidecar, options: ClientOptions = {}): Promise<Client> {
  const client = sidecar.client({ executorName: "bakery", ...options });
  addBakery(client);
  await client.waitReady();
  return client;
}

/** A handler that waits until the test lets it go on, and counts how often it ran. */
export class Held {
  runs = 0;
  #open!: () => void;
  readonly opened = new Promise<void>((resolve) => {
    this.#open = resolve;
  });

  /** Adds it as a tool. */
  addTo(client: Client, name: string): void {
    client.tool({
      name,
      description: "Waits.",
      risk: "safe",
      kind: "other",
      handler: async (_args, ctx) => {
        this.runs += 1;
        ctx.progress("began");
        await this.opened;
        return "done";
      },
    });
  }

  open(): void {
    this.#open();
  }
}
