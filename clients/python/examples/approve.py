"""Shows each call that waits, and asks on standard input whether it may run."""

import asyncio

import callgate


async def main() -> None:
    """Decides until it is interrupted."""
    async with callgate.Approvals() as approvals, approvals.watch() as watch:
        async for update in watch:
            for changed in update.approvals:
                approval = await approvals.get(changed.approval_id)  # Whole, and as it is now.
                if not approval.pending:
                    continue
                print(f"{approval.tool}, {approval.risk}: {approval.verdict.message}\n{approval.display_arguments}")
                answer = await asyncio.to_thread(input, "y to run it once, else why not: ")
                try:
                    if answer == "y":
                        await approvals.approve_once(approval)
                    else:
                        await approvals.deny(approval, answer)
                except (callgate.DecisionConflict, callgate.DecisionRefused) as error:
                    print(error)


if __name__ == "__main__":
    asyncio.run(main())
