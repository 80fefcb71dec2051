//! The gRPC sidecar through which every tool call of an AI agent passes.
//!
//! An orchestrator hands over the calls that a model made; the sidecar checks, dispatches, watches and
//! records them; the tools run in other processes, which connected to it.
//!
//! # The map
//!
//! ```text
//! main ─► cli ─► server ─► engine ─┬─► executor ─┬─► gate     gate      decides, and never waits
//!           │       │              └─► store ────┘            engine    does: owns turns and tasks
//!           │       └─► pb ◄── executor                       executor  talks to tool processes
//!           └─► callgate_client ─► pb                         store     remembers
//!                                                             server    translates the wire
//! beside all: base (clock, tasks, ids), config (plain data), telemetry (logs)
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`gate`] | admission, arguments, schemas, registry, loops, permission, hooks, approvals, the turn machine, results, the audit: pure |
//! | [`engine`] | one task per turn, event logs, runs, sessions, what waits for approvers, recovery |
//! | [`executor`] | the executor stream over any carrier, slots, resume |
//! | [`store`] | SQLite: a journal with group commit, folded into tables; the audit beside it |
//! | [`server`] | listeners, credentials, services, the one mapper from errors to status |
//! | [`cli`] | the program; `cli/sidecar.rs` puts everything together |
//! | [`pb`] | generated messages and traits |
//!
//! # Reading order
//!
//! `gate/call.rs` → `gate/turn/mod.rs` → one transcript in `tests/golden` → `engine/turn_task.rs` →
//! `executor/session.rs` → `server/turns.rs`. Twenty minutes.
//!
//! # Invariants
//!
//! - Nothing in `gate` waits, reads a clock or knows protobuf. A test holds what may import what.
//! - A call has exactly one final state and exactly one result, under the id that came in.
//! - Effects happen in the order in which the machine gives them; `Persist` is a barrier. Nothing that
//!   must be durable is told or sent before it is.
//! - One function emits a dispatch, and it takes a permit that only a decision can make, of rules or of a
//!   person who saw exactly this call.
//! - What waits for a person is on the disk before it is shown, and a decision before it is answered.
//! - A call that must not run twice is recorded before it is sent, and never sent again without proof
//!   that it did not begin.
//! - A record of the audit is written in the transaction of its fact, and derived from it in one place.
//! - No lock is held across an await; a turn is owned by one task.
//! - Every queue, map, message and wait has a bound with a name.

pub mod base;
pub mod cli;
pub mod config;
pub mod engine;
pub mod executor;
pub mod gate;
pub mod pb;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod tool_import;
