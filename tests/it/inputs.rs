//! Finds the public test inputs that are not part of this repository.
//!
//! Never fetches them: `make inputs` does.

use std::path::PathBuf;

/// The unpacked folder of that name.
///
/// # Panics
/// If it is not there, with what to do about it.
pub(crate) fn folder(name: &str) -> PathBuf {
    let root = std::env::var_os("CALLGATE_TEST_INPUTS")
        .map_or_else(|| PathBuf::from("target/test-inputs"), PathBuf::from);
    let folder = root.join(name);
    assert!(
        folder.is_dir(),
        "`{}` is missing: run `make inputs`",
        folder.display()
    );
    folder
}

/// All files below a folder that end in `.json`, sorted.
pub(crate) fn json_files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
