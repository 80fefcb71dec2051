//! The processes of the demo, and their end.
//!
//! A process that is dropped is killed, so that a failed demo leaves none behind.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cli::output::{Outcome, data};

/// How long a process may take to end when it is asked to.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A directory that goes away with its owner.
pub(super) struct TempDir {
    path: PathBuf,
}

impl TempDir {
    pub(super) fn make() -> Result<Self, Outcome> {
        let name = format!("callgate-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| Outcome::failed(format!("`{}`: {error}", path.display())))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What cannot be removed now, the system's cleaner removes.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A process that runs.
pub(super) struct Running {
    name: String,
    child: Child,
    /// Where the sidecar listens; for others, where they were sent.
    pub(super) endpoint: String,
}

impl Running {
    /// Starts a sidecar on a fresh directory and waits until it serves.
    pub(super) async fn sidecar(dir: &Path) -> Result<Self, Outcome> {
        let program = std::env::current_exe()
            .map_err(|error| Outcome::failed(format!("own program: {error}")))?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .args(["--set", "server.tcp="])
            .args(["--set", "log.filter=warn"])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .arg("--socket-dir")
            .arg(dir.join("run"))
            .stdout(Stdio::piped());
        let mut running = Self::spawn("the sidecar", &mut command, String::new())?;
        let Some(out) = running.child.stdout.take() else {
            return Err(Outcome::failed("the sidecar has no output"));
        };
        let mut lines = BufReader::new(out).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(place) = line.strip_prefix("listening ")
                && running.endpoint.is_empty()
            {
                running.endpoint = place.to_owned();
            }
            if line == "ready" {
                return Ok(running);
            }
        }
        Err(Outcome::failed("the sidecar did not start"))
    }

    /// Starts a Python example against a sidecar.
    pub(super) fn python(
        python: &Path,
        examples: &Path,
        script: &str,
        endpoint: &str,
    ) -> Result<Self, Outcome> {
        let mut command = Command::new(python);
        command
            .arg(examples.join(script))
            .env("CALLGATE_ENDPOINT", endpoint)
            .env("PYTHONUNBUFFERED", "1");
        Self::spawn(script, &mut command, endpoint.to_owned())
    }

    /// The same, and waits until the example says that it is ready.
    pub(super) async fn python_until_ready(
        python: &Path,
        examples: &Path,
        script: &str,
        endpoint: &str,
    ) -> Result<Self, Outcome> {
        let mut command = Command::new(python);
        command
            .arg(examples.join(script))
            .env("CALLGATE_ENDPOINT", endpoint)
            .stdout(Stdio::piped());
        let mut running = Self::spawn(script, &mut command, endpoint.to_owned())?;
        let Some(out) = running.child.stdout.take() else {
            return Err(Outcome::failed(format!("{script} has no output")));
        };
        let mut lines = BufReader::new(out).lines();
        match lines.next_line().await {
            Ok(Some(line)) if line == "ready" => Ok(running),
            _ => Err(Outcome::failed(format!("{script} did not start"))),
        }
    }

    fn spawn(name: &str, command: &mut Command, endpoint: String) -> Result<Self, Outcome> {
        let child = command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Outcome::failed(format!("{name} cannot be started: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            endpoint,
        })
    }

    /// Waits for the end, which must be a good one.
    pub(super) async fn must_succeed(mut self) -> Result<(), Outcome> {
        let ended = tokio::time::timeout(STOP_LIMIT * 3, self.child.wait()).await;
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(Outcome::failed(format!(
                "{} ended with {status}",
                self.name
            ))),
            Ok(Err(error)) => Err(Outcome::failed(format!("{}: {error}", self.name))),
            Err(_) => Err(Outcome::failed(format!("{} did not end", self.name))),
        }
    }

    /// Kills the process, which cannot do anything about it.
    pub(super) async fn kill(&mut self) -> Result<(), Outcome> {
        let killed = self.child.kill().await;
        killed.map_err(|error| Outcome::failed(format!("{}: {error}", self.name)))
    }

    /// Asks the process to end, as an operator would, and waits for it.
    pub(super) async fn stop(&mut self) -> Result<(), Outcome> {
        let Some(pid) = self.child.id() else {
            return Ok(());
        };
        let told = Command::new("kill")
            .args(["-TERM", &pid.to_string()])
            .status();
        told.await
            .map_err(|error| Outcome::failed(format!("kill: {error}")))?;
        match tokio::time::timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => {
                data(&format!("{} has drained and ended", self.name));
                Ok(())
            }
            Ok(Ok(status)) => Err(Outcome::failed(format!(
                "{} ended with {status}",
                self.name
            ))),
            Ok(Err(error)) => Err(Outcome::failed(format!("{}: {error}", self.name))),
            Err(_) => Err(Outcome::failed(format!(
                "{} did not drain in time",
                self.name
            ))),
        }
    }
}
