/** Runs the calls of one recorded model message, tells what happens, and prints what to append to the history. */
import { readFileSync } from "node:fs";
import { Client } from "callgate";

const [file, sessionId = "demo"] = process.argv.slice(2);
if (file === undefined) {
  console.error("usage: orchestrator MESSAGE.json [SESSION]");
  process.exit(64);
}
await using client = new Client();
const turn = client.runTurn(sessionId, [], { openaiMessage: readFileSync(file, "utf8"), output: true });
// Ctrl-C cancels the turn; the loop below sees how that ends.
process.once("SIGINT", () => turn.cancel("the user has pressed Ctrl-C"));
for await (const event of turn) {
  if (event.type === "call_state_changed") console.error(`${event.callId}: ${event.state}`);
  else if (event.type === "call_progress") console.error(`${event.callId}: ${event.message}`);
  else if (event.type === "call_output") process.stderr.write(event.data);
  else if (event.type === "approval_required") {
    for (const { approvalId, tool } of event.approvals)
      console.error(`${tool} waits for approval ${approvalId}`);
  }
}
const result = await turn;
for (const message of [...result.messages, ...result.closingMessages]) console.log(JSON.stringify(message));
