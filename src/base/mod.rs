//! What every layer but `gate` may use: the clock, tasks, ids, failpoints.
//!
//! Imports nothing of ours.

pub mod clock;
pub mod failpoint;
pub mod mint;
pub mod tasks;
