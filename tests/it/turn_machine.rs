//! The turn machine as lists of inputs and effects.
//!
//! Never waits and never starts a runtime: time is a number.

mod asking;
mod cancelling;
mod changing;
mod checking;
mod deadlines;
mod deciding;
mod diagnosing;
mod dispatching;
pub(crate) mod drive;
mod granting;
pub(crate) mod hooking;
mod hooking_after;
mod hooks_reach;
pub(crate) mod judging;
mod lines;
mod looking;
mod looping;
mod losing;
mod random;
mod recovering;
mod replies;
mod resolving;
mod states;
mod together;
pub(crate) mod tools;
mod world;
mod world_approver;
