//! How long the file of the write-ahead log is.
//!
//! A commit that makes a file longer waits for the journal of the file system as well, which more than
//! doubles its time; one that writes over what is there does not. So the file is made long once, and
//! stays. Never touches what the log holds: SQLite takes nothing behind its last frame for one.

use std::fs::{File, OpenOptions};
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::Path;

/// How many zeros are written at once, in bytes.
const CHUNK: usize = 64 << 10;

/// Makes the file `length` bytes long, if it is shorter. Only the writer calls this: nobody else may
/// append to the log meanwhile.
///
/// # Errors
/// The disk's: then the file is as long as it was, so that a small disk is not filled with zeros.
pub(super) fn lengthen(log: &Path, length: u64) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(log)?;
    let before = file.seek(SeekFrom::End(0))?;
    let lengthened = append_zeros(&mut file, before, length).and_then(|()| file.sync_all());
    if lengthened.is_err() {
        file.set_len(before)?;
    }
    lengthened
}

fn append_zeros(file: &mut File, from: u64, length: u64) -> Result<()> {
    let zeros = vec![0_u8; CHUNK];
    let mut at = from;
    while at < length {
        let rest = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
        file.write_all(zeros.get(..rest).unwrap_or(&zeros))?;
        at += rest as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_longer_and_keeps_what_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, b"frames").unwrap();
        let length = CHUNK as u64 + 10;
        lengthen(&path, length).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, length);
        assert_eq!(bytes.get(..8), Some(&b"frames\0\0"[..]));
        lengthen(&path, 3).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        assert!(lengthen(&directory.path().join("none"), 1).is_err());
    }
}
