/** An approver for the terminal: shows what waits, and asks. */
import { createInterface } from "node:readline/promises";
import { Approvals } from "callgate";

const terminal = createInterface({ input: process.stdin, output: process.stderr });
await using approvals = new Approvals();
for await (const update of approvals.watch()) {
  for (const changed of update.approvals) {
    // Whole, because who has not seen the end should not approve.
    const approval = await approvals.get(changed.approvalId);
    if (approval.state !== "pending") continue;
    console.error(`\n${approval.tool} (${approval.risk}), session ${approval.sessionId}`);
    console.error(approval.displayArguments);
    const answer = await terminal.question("[o]nce, [d]eny, anything else: later? ");
    if (answer === "o") await approvals.approveOnce(approval);
    else if (answer === "d") await approvals.deny(approval, await terminal.question("why? "));
  }
}
