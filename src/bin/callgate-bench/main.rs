//! The benchmark: the sidecar beside a bare relay.
//!
//! Never part of a release.

fn main() {}
