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
    let at = bytes.windows(MARK.len()).position(|part| part == MARK);
    let byte = at.and_then(|at| bytes.get_mut(at + MARK.len() - 2));
    let byte = byte.ok_or_else(|| Outcome::failed("no call was decided"))?;
    *byte ^= 1;
    std::fs::write(copy.join(STORE_FILE), bytes).map_err(io)?;
    data("the same of a copy in which one byte is another");
    match verify_dir(&copy, Vec::new(), Vec::new())?.broken {
        Some(broken) => data(&format!("  → broken: {broken}")),
        None => return Err(Outcome::failed("the changed byte is not found")),
    }
    Ok(())
}
