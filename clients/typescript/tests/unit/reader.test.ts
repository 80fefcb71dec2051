/** Where the reading of a turn stands: no event twice, none skipped, whatever streams bring. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import * as tu from "../../src/gen/callgate/v1/turn_service_pb.js";
import { TurnReader } from "../../src/wire/turn-reader.js";

/** Events of these sequences; 0 is a heartbeat, which is not kept. */
function events(epoch: number, ...sequences: number[]): tu.TurnEvents {
  return create(tu.TurnEventsSchema, {
    turnId: "t",
    epoch,
    events: sequences.map((sequence) => ({
      sequence: BigInt(sequence),
      body:
        sequence === 0
          ? { case: "heartbeat" as const, value: { waitingFor: "tool" } }
          : { case: "turnSuspended" as const, value: { batchId: "b", approvalIds: [`a${sequence}`] } },
    })),
  });
}

const taken = (reader: TurnReader, message: tu.TurnEvents) =>
  reader.take(message).map((event) => event.sequence);

test("events that were seen are not passed on again", () => {
  const reader = new TurnReader("t");
  assert.deepEqual(taken(reader, events(1, 1, 2, 0)), [1, 2, 0]);
  assert.deepEqual(taken(reader, events(1, 1, 2, 3, 0)), [3, 0]);
  assert.equal(reader.attachRequest("s", undefined, 0).afterSequence, 3n);
});

test("a new epoch begins anew, and an old one is over", () => {
  const reader = new TurnReader("t", { epoch: 1, afterSequence: 5 });
  assert.equal(reader.accepted, true);
  assert.deepEqual(taken(reader, events(2, 1, 2)), [1, 2]);
  assert.deepEqual(taken(reader, events(1, 6, 7)), []);
  assert.deepEqual(reader.suspended()?.approvalIds, ["a2"]);
});

test("a snapshot of an ended turn is its end", () => {
  const reader = new TurnReader("t");
  const completed = { outcome: tu.TurnOutcome.COMPLETED };
  const snapshot = { turnId: "t", state: tu.TurnState.COMPLETED, lastSequence: 9n, completed };
  const message = create(tu.TurnEventsSchema, { turnId: "t", epoch: 3, snapshot });
  const types = reader.take(message).map((event) => [event.type, event.sequence]);
  assert.deepEqual(types, [
    ["turn_snapshot", 0],
    ["turn_completed", 9],
  ]);
  assert.equal(reader.completed, true);
});

test("an event that is newer than this package counts and is not shown", () => {
  const reader = new TurnReader("t");
  const unknown = create(tu.TurnEventsSchema, { turnId: "t", epoch: 1, events: [{ sequence: 1n }] });
  assert.deepEqual(reader.take(unknown), []);
  assert.deepEqual(taken(reader, events(1, 1, 2)), [2]);
  reader.startAgain();
  assert.deepEqual([reader.accepted, taken(reader, events(1, 1))], [false, [1]]);
});
