//! The store: what goes in comes out, after a restart, a full disk or a kill, too.

mod failure;
mod model;
mod open;
mod reads;
mod samples;
