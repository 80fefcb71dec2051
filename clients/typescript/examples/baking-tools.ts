/** The executor of the demo: a small bakery with one tool for every way a call can go. */
import { setTimeout as sleep } from "node:timers/promises";
import { Client, ToolCancelled, type ToolContext, ToolError, ToolResult, type ToolService } from "callgate";
import * as z from "zod";

/** One thing that was baked. */
interface BakingRecord {
  record_id: string;
  name: string;
  minutes: number;
  celsius: number;
}

/** The bakery's records, shared by the handlers as a service. */
class RecordStore implements ToolService {
  /** What tools name in `services`. */
  readonly serviceId = "records";
  cacheSize = 3;

  constructor(readonly records: readonly BakingRecord[]) {}
}

const client = new Client({ executorName: "bakery", maxConcurrency: 8, logger: console });
client.services.register(
  new RecordStore([
    { record_id: "r1", name: "sourdough", minutes: 45, celsius: 240 },
    { record_id: "r2", name: "brioche", minutes: 30, celsius: 180 },
    { record_id: "r3", name: "focaccia", minutes: 22, celsius: 220 },
  ]),
);

/** The records, which every tool here that wants them must have declared. */
function storeOf(ctx: ToolContext): RecordStore {
  const store = ctx.services.get<RecordStore>("records");
  if (store === undefined) {
    throw new ToolError("records_unavailable", "the records cannot be read now", { retryable: true });
  }
  return store;
}

client.tool({
  name: "read_baking_records",
  description: "Reads the baking records, or one of them.",
  risk: "safe",
  kind: "read",
  services: ["records"],
  input: z.object({
    record_id: z.string().default("").describe("Id of one record; empty for all of them."),
  }),
  handler: ({ record_id }, ctx) => {
    const records = storeOf(ctx).records.filter((one) => record_id === "" || one.record_id === record_id);
    // Never fake success: an empty list would let the model make something up.
    if (records.length === 0) throw new ToolError("record_not_found", `there is no record \`${record_id}\``);
    return { records };
  },
});

client.tool({
  name: "clear_baking_cache",
  description: "Deletes everything in the cache of baking results. Cannot be undone.",
  risk: "dangerous",
  kind: "delete",
  services: ["records"],
  input: z.object({ confirm: z.string().describe('Must be the word "clear".') }),
  handler: ({ confirm }, ctx) => {
    // Which words count is a business rule, so it is checked here and not in the schema.
    if (confirm !== "clear") {
      throw new ToolError("confirmation_missing", 'say confirm="clear" to clear the cache');
    }
    const store = storeOf(ctx);
    const cleared = store.cacheSize;
    store.cacheSize = 0;
    return `cleared ${cleared} entries`;
  },
});

client.tool({
  name: "find_record",
  description: "Finds a record by its position.",
  risk: "safe",
  kind: "read",
  services: ["records"],
  // A schema by hand, in the core dialect.
  input: {
    type: "object",
    properties: { index: { type: "integer", description: "Position of the record, from 0." } },
    required: ["index"],
  },
  handler: ({ index }, ctx) => {
    const { records } = storeOf(ctx);
    const found = records[Number(index)];
    if (found === undefined) {
      const message = `there is no record at ${index}; there are ${records.length}`;
      throw new ToolError("record_not_found", message, { path: "$.index" });
    }
    return found;
  },
});

client.tool({
  name: "proof_dough",
  description: "Lets the dough rest. Slow; stops early when it is cancelled.",
  risk: "safe",
  kind: "read",
  timeoutMs: 600_000,
  input: z.object({ seconds: z.number().default(30).describe("How long the dough rests.") }),
  handler: async ({ seconds }, ctx) => {
    const steps = Math.max(1, Math.floor(seconds * 10));
    for (let step = 0; step < steps; step += 1) {
      try {
        // Hand the signal to whatever waits: it wakes up at once when the call is cancelled.
        await sleep((seconds * 1_000) / steps, undefined, { signal: ctx.signal });
      } catch {
        throw new ToolCancelled(`stopped after ${step} of ${steps} steps`, { effect: "executed" });
      }
      ctx.progress("proofing", (step + 1) / steps);
    }
    return `proofed for ${seconds} s`;
  },
});

client.tool({
  name: "bake_batch",
  description: "Bakes some loaves, and tells about each of them.",
  risk: "safe",
  kind: "other",
  input: z.object({ count: z.number().describe("How many loaves.") }),
  handler: async ({ count }, ctx) => {
    if (!Number.isInteger(count) || count < 1 || count > 100) {
      throw new ToolError("batch_size_invalid", "between 1 and 100 loaves fit", { path: "$.count" });
    }
    for (let loaf = 1; loaf <= count; loaf += 1) {
      await sleep(50, undefined, { signal: ctx.signal });
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
    throw new Error("the oven does not heat");
  },
});

client.tool({
  name: "finish_baking",
  description: "Ends the work: call it when everything that was asked for is done.",
  risk: "safe",
  kind: "other",
  input: z.object({ summary: z.string().describe("What was done.") }),
  handler: ({ summary }) => ToolResult.of(`finished: ${summary}`, { stop: true }),
});

await client.run();
