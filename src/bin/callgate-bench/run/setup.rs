//! Starts relays, sidecars and executors, each with a directory and an environment of its own.
//!
//! Everything lives under one temporary directory, which goes with the benchmark. Nothing of the
//! user's configuration is read. Never listens on anything but Unix sockets and loopback.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::machine::file_system;
use super::process::Process;
use crate::problem::{Problem, io};

/// Longest time for a process to be ready.
const READY: Duration = Duration::from_secs(30);

/// A directory that is removed with everything in it.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    /// Makes one on a real disk: in `wanted`, else in the temporary directory, else here.
    pub(super) fn make(wanted: Option<&Path>) -> Result<Self, Problem> {
        let temporary = std::env::temp_dir();
        let here = std::env::current_dir().map_err(io("no current directory"))?;
        let parent = match wanted {
            Some(wanted) => wanted,
            None if file_system(&temporary) == "tmpfs" => &here,
            None => &temporary,
        };
        let path = parent.join(format!("cgb-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(io(format!("cannot make `{}`", path.display())))?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays; nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// How processes are started.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) scratch: Scratch,
    /// This program.
    pub(super) bench: PathBuf,
    /// The sidecar's program.
    pub(super) callgate: PathBuf,
}

/// A sidecar that serves.
#[derive(Debug)]
pub(super) struct Sidecar {
    pub(super) process: Process,
    pub(super) socket: String,
    pub(super) tcp: String,
    tokens: PathBuf,
}

impl Sidecar {
    /// The file with the token of a role.
    pub(super) fn token(&self, role: &str) -> PathBuf {
        self.tokens.join(format!("{role}.token"))
    }
}

impl Setup {
    /// A helper of this program with an environment of its own.
    pub(super) fn helper(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.bench);
        self.clean(&mut command);
        command.args(arguments);
        command
    }

    /// The same, on one processor.
    pub(super) fn pinned_helper(&self, cpu: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("taskset");
        self.clean(&mut command);
        command.args(["-c", cpu]).arg(&self.bench).args(arguments);
        command
    }

    fn clean(&self, command: &mut Command) {
        command.env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
            .env("HOME", &self.scratch.path)
            .env("XDG_CONFIG_HOME", self.scratch.path.join("config"));
    }

    /// The bare relay. Returns it with its socket's endpoint.
    pub(super) fn floor(&self) -> Result<(Process, String), Problem> {
        let socket = self.scratch.path.join("floor.sock");
        let mut command = self.helper(&["floor-relay", "--lifeline", "--socket"]);
        command.arg(&socket);
        let process = Process::start("the floor relay", &mut command)?;
        process.wait_ready(READY)?;
        Ok((process, format!("unix://{}", socket.display())))
    }

    /// The command of a sidecar whose state is in `name` under the scratch directory.
    pub(super) fn serve(&self, name: &str) -> Result<Command, Problem> {
        let dir = self.scratch.path.join(name);
        std::fs::create_dir_all(&dir).map_err(io(format!("cannot make `{}`", dir.display())))?;
        let log = File::options()
            .append(true)
            .create(true)
            .open(dir.join("log"))
            .map_err(io("cannot make a log"))?;
        let mut command = Command::new(&self.callgate);
        self.clean(&mut command);
        command
            .arg("serve")
            // The relay has one thread too.
            .args([
                "--set",
                "server.tcp=127.0.0.1:0",
                "--set",
                "server.worker_threads=1",
            ])
            .env("CALLGATE_DATA_DIR", dir.join("data"))
            .env("CALLGATE_SOCKET_DIR", dir.join("run"))
            .stderr(Stdio::from(log));
        Ok(command)
    }

    /// The socket of that sidecar.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        let dir = self.scratch.path.join(name).join("run");
        dir.join(callgate_client::connect::SOCKET_NAME)
    }

    /// The socket of its approvers.
    pub(super) fn control_socket(&self, name: &str) -> PathBuf {
        self.socket(name)
            .with_file_name(callgate_client::connect::CONTROL_SOCKET_NAME)
    }

    /// A sidecar that serves.
    pub(super) fn sidecar(&self, name: &str) -> Result<Sidecar, Problem> {
        self.sidecar_with(name, &[])
    }

    /// The same with keys of the configuration set.
    pub(super) fn sidecar_with(&self, name: &str, set: &[&str]) -> Result<Sidecar, Problem> {
        let mut command = self.serve(name)?;
        for entry in set {
            command.args(["--set", entry]);
        }
        let process = Process::start(&format!("the sidecar `{name}`"), &mut command)?;
        let places = process.wait_ready(READY).map_err(|problem| {
            let log = self.scratch.path.join(name).join("log");
            let log = std::fs::read_to_string(log).unwrap_or_default();
            Problem::Unexpected(format!("{problem}\n{log}"))
        })?;
        let tcp = places
            .iter()
            .filter_map(|line| line.strip_prefix("listening "))
            .find(|place| place.starts_with("http://"))
            .ok_or_else(|| Problem::Unexpected("the sidecar named no TCP address".to_owned()))?
            .to_owned();
        Ok(Sidecar {
            process,
            socket: format!("unix://{}", self.socket(name).display()),
            tcp,
            tokens: self.scratch.path.join(name).join("data").join("tokens"),
        })
    }

    /// Removes the state of a sidecar that has ended; returns its size in bytes.
    pub(super) fn forget(&self, name: &str) -> Result<u64, Problem> {
        let dir = self.scratch.path.join(name);
        let doing = format!("cannot remove `{}`", dir.display());
        let data = std::fs::read_dir(dir.join("data")).map_err(io(doing.as_str()))?;
        let sizes = data
            .filter_map(Result::ok)
            .filter_map(|entry| entry.metadata().ok());
        let bytes = sizes.map(|file| file.len()).sum();
        std::fs::remove_dir_all(&dir).map_err(io(doing))?;
        Ok(bytes)
    }

    /// An executor that is registered.
    pub(super) fn executor(&self, endpoint: &str, more: &[&str]) -> Result<Process, Problem> {
        let mut command = self.helper(&["executor", "--lifeline", "--endpoint", endpoint]);
        command.args(more);
        let process = Process::start("an executor", &mut command)?;
        process.wait_ready(READY)?;
        Ok(process)
    }
}
