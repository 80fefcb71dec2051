//! Every limit that a peer can reach: at it, and one above.
//!
//! Small values where the defaults would take long. Never tests a limit by its default alone.

mod connections;
mod definitions;
mod executors;
mod memory;
mod requests;

use crate::support::failure::{code, detail};

/// A whole request that is refused for a limit.
fn refused_by(status: &tonic::Status, name: &str, allowed: u64, actual: u64) {
    assert_eq!(code(status), "limit_exceeded");
    let limit = detail(status).limit.unwrap();
    assert_eq!(
        (limit.name.as_str(), limit.allowed, limit.actual),
        (name, allowed, actual)
    );
}
