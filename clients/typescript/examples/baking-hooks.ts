/** The hooks of the demo: nobody clears the cache of a bakery that bakes, and the work ends when it is done. */
import { After, Before, type Hook, Hooks, type TurnObserved } from "callgate";

const hooks = new Hooks({ logger: console });

hooks.beforeToolCall({ hookId: "small-batches", tools: ["bake_batch"], order: 1 }, ({ toolArgs }) => {
  const count = Number(toolArgs?.count);
  if (count <= 20) return undefined;
  return {
    modifiedArgs: { ...toolArgs, count: 20 },
    additionalContext: "The oven holds 20 loaves; ask again for more.",
  };
});

hooks.beforeToolCall({ hookId: "no-clearing", tools: ["clear_*"] }, ({ mode }) => {
  return mode === "auto" ? Before.ask("clearing is for people") : Before.proceed();
});

hooks.afterToolCall({ hookId: "done", tools: ["finish_baking"] }, () => After.stop("the work is done"));

/** An object is one hook, of every point that it has a method for. */
class Journal implements Hook {
  turnFinished({ turnId, results }: TurnObserved): void {
    console.error(turnId, results.map((result) => `${result.tool} ${result.outcome}`).join(", "));
  }
}

hooks.add(new Journal(), { hookId: "journal" });
await hooks.run();
