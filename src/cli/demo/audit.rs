//! The demo's last act: its own audit verifies, and a copy with one byte changed does not.
//!
//! Never touches the store itself.

use std::path::Path;

use super::read_bytes;
use crate::cli::audit_verify::verify_dir;
use crate::cli::output::{Outcome, data};
use crate::cli::sidecar::{AUDIT_KEY_FILE, STORE_FILE};

/// What stands in every record of a decision.
const MARK: &[u8] = b"\"kind\":\"call.decided\"";

/// Verifies the audit that the sidecar left in `data` under `dir`, and a damaged copy of it.
pub(super) fn play(dir: &Path) -> Result<(), Outcome> {
    data("\nthe audit of all this: callgate audit verify");
    let own = dir.join("data");
    let report = verify_dir(&own, Vec::new(), Vec::new())?;
    if let Some(broken) = report.broken {
        return Err(Outcome::failed(format!("it is not whole: {broken}")));
    }
    let (records, signed) = (report.checked, report.signed_to);
    data(&format!(
        "  → intact: {records} records, signed to {signed}"
    ));
    let copy = dir.join("copy");
    let io = |error: std::io::Error| Outcome::failed(format!("the copy: {error}"));
    std::fs::create_dir(&copy).map_err(io)?;
    std::fs::copy(own.join(AUDIT_KEY_FILE), copy.join(AUDIT_KEY_FILE)).map_err(io)?;
    let mut bytes = read_bytes(&own.join(STORE_FILE))?;
    let places = bytes.windows(MARK.len()).enumerate();
    let places = places.filter(|(_, part)| *part == MARK).map(|(at, _)| at);
    let places: Vec<usize> = places.collect();
    data("the same of a copy in which one byte is another");
    for at in places {
        let Some(byte) = bytes.get_mut(at + MARK.len() - 2) else {
            continue;
        };
        *byte ^= 1;
        std::fs::write(copy.join(STORE_FILE), &bytes).map_err(io)?;
        if let Some(broken) = verify_dir(&copy, Vec::new(), Vec::new())?.broken {
            data(&format!("  → broken: {broken}"));
            return Ok(());
        }
        // It stood in room that the store does not use any more.
        if let Some(byte) = bytes.get_mut(at + MARK.len() - 2) {
            *byte ^= 1;
        }
    }
    Err(Outcome::failed("no changed byte is found"))
}
