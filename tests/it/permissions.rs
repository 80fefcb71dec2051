//! Rules, calls and what becomes of them: vectors, properties, and what a decision costs.
//!
//! Never holds a case itself: those are in `tests/vectors/permissions`.

pub(crate) mod build;
mod commands;
mod cost;
mod explained;
mod properties;
mod really_run;
mod tables;
mod vectors;
