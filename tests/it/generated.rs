//! The generated code that is committed is what the wire contract generates.
//!
//! Never writes: `make generate` does.

use std::process::Command;

#[test]
fn committed_code_is_what_the_contract_generates() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--locked"])
        .args(["--package", "callgate-codegen", "--", "--check"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
