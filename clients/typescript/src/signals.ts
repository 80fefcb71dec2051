/** What ends a process that serves. */

/** Calls `action` at SIGTERM and SIGINT; the function that is returned stops that. */
export function onSignals(action: () => void): () => void {
  process.on("SIGTERM", action);
  process.on("SIGINT", action);
  return () => {
    process.off("SIGTERM", action);
    process.off("SIGINT", action);
  };
}
