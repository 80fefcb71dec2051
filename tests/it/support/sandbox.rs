//! A place where generated shell text can do no harm, and what it ran there.
//!
//! Namespaces of its own, a root that cannot be written, an empty home, limits on time and processes; the
//! programs are stand-ins that write down their arguments. Never runs anything outside of it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Builds the place. Runs inside the namespaces.
const BUILD: &str = include_str!("sandbox.sh");
/// Programs that run others, as they are.
const REAL: &[&str] = &["bash", "sh", "env", "timeout", "nice", "xargs", "find"];

pub(crate) struct Sandbox {
    home: TempDir,
    stand_ins: Vec<String>,
}

impl Sandbox {
    /// One in which these programs are stand-ins.
    pub(crate) fn new<'a>(stand_ins: impl IntoIterator<Item = &'a str>) -> Self {
        let home = TempDir::new().unwrap();
        std::fs::create_dir(home.path().join("root")).unwrap();
        Self {
            home,
            stand_ins: stand_ins.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Runs the text for at most two seconds. Every stand-in that ran with its arguments, as text of a
    /// shell.
    pub(crate) fn run(&self, text: &str) -> Vec<String> {
        std::fs::write(self.log(), "").unwrap();
        let output = Command::new("timeout")
            .args(["-k", "1", "2"])
            .args([
                "unshare",
                "-Urmpf",
                "--mount-proc",
                "bash",
                "-c",
                BUILD,
                "build",
            ])
            .arg(self.home.path().join("root"))
            .arg(self.log())
            .arg(text)
            .args(&self.stand_ins)
            .arg("--")
            .args(REAL)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("timeout cannot be run ({error}): install coreutils"));
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(
            problem.trim_end().ends_with("ready"),
            "no sandbox: {problem}\ninstall util-linux, and let this user make namespaces"
        );
        let log = std::fs::read(self.log()).unwrap();
        let log = String::from_utf8_lossy(&log);
        log.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn log(&self) -> PathBuf {
        self.home.path().join("log")
    }
}
