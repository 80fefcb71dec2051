//! The sidecar as a process of its own, with directories of its own.
//!
//! Shows what the process logged if the test fails. Never outlives the test.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use callgate_client::connect::{AuthorizedChannel, Target};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::soon;

/// How to start one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    set: Vec<String>,
    env: Vec<(String, String)>,
}

impl Setup {
    /// Sets one key of the configuration.
    pub(crate) fn set(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.set.push(format!("{key}={value}"));
        self
    }

    /// Sets a variable of its environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Dies there; see `base::failpoint`.
    pub(crate) fn failpoint(self, name: &str, at: u64) -> Self {
        self.env("CALLGATE_FAILPOINTS", &format!("{name}=kill@{at}"))
    }

    /// Starts it and waits until it serves.
    pub(crate) async fn start(self) -> Sidecar {
        let (sidecar, serves) = self.launch().await;
        assert!(serves, "the sidecar ended before it served");
        sidecar
    }

    /// Starts it and waits until it serves. False: it ended before.
    pub(crate) async fn launch(self) -> (Sidecar, bool) {
        let home = home();
        let child = serve(home.path(), &self).spawn().unwrap();
        let mut sidecar = Sidecar {
            home,
            child,
            places: Vec::new(),
        };
        let serves = sidecar.try_ready().await;
        (sidecar, serves)
    }
}

/// A directory of a test's own, with a short path: sockets go into it.
pub(crate) fn home() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("cg").tempdir_in("/tmp").unwrap()
}

/// A process that should not get as far as serving: its exit code and what it said.
pub(crate) async fn refuses_to_start(setup: Setup, home: &Path) -> (Option<i32>, String) {
    let mut child = serve(home, &setup).spawn().unwrap();
    let status = soon("the process to refuse", child.wait()).await.unwrap();
    (status.code(), read_log(home))
}

fn serve(home: &Path, setup: &Setup) -> Command {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_path(home))
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_callgate"));
    command
        .arg("serve")
        .args(["--set", "server.tcp="])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("CALLGATE_DATA_DIR", home.join("d"))
        .env("CALLGATE_SOCKET_DIR", home.join("s"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true);
    for entry in &setup.set {
        command.args(["--set", entry]);
    }
    command.envs(setup.env.iter().map(|(name, value)| (name, value)));
    command
}

fn log_path(home: &Path) -> PathBuf {
    home.join("log")
}

fn read_log(home: &Path) -> String {
    std::fs::read_to_string(log_path(home)).unwrap_or_default()
}

/// A sidecar that serves.
pub(crate) struct Sidecar {
    home: TempDir,
    child: Child,
    places: Vec<String>,
}

impl Sidecar {
    /// One with defaults.
    pub(crate) async fn start() -> Self {
        Setup::default().start().await
    }

    /// Waits until it serves. False: it ended before.
    async fn try_ready(&mut self) -> bool {
        let mut lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        loop {
            match soon("the sidecar to serve", lines.next_line())
                .await
                .unwrap()
            {
                None => return false,
                Some(line) if line == "ready" => return true,
                Some(line) => self
                    .places
                    .extend(line.strip_prefix("listening ").map(str::to_owned)),
            }
        }
    }

    /// Where it keeps its state.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home.path().join("d")
    }

    /// The directory of this test.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The socket of orchestrators and executors.
    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join("s/callgate.sock")
    }

    /// The socket of administrators.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.home.path().join("s/control.sock")
    }

    /// `http://127.0.0.1:…`, if it was set.
    pub(crate) fn tcp(&self) -> String {
        let mut places = self.places.iter();
        let tcp = places.find(|place| place.starts_with("http"));
        tcp.expect("`server.tcp` was not set").clone()
    }

    /// The token of a role.
    pub(crate) fn token(&self, role: &str) -> String {
        let path = self.data_dir().join(format!("tokens/{role}.token"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// A channel of its own to the socket of orchestrators and executors.
    pub(crate) async fn channel(&self) -> AuthorizedChannel {
        open(&self.socket()).await
    }

    /// A channel of its own to the socket of administrators.
    pub(crate) async fn control_channel(&self) -> AuthorizedChannel {
        open(&self.control_socket()).await
    }

    /// Asks it to leave.
    pub(crate) async fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Asks it to leave, unless it is gone already.
    pub(crate) async fn terminate_if_alive(&self) {
        if let Some(pid) = self.child.id() {
            // Between the look and the signal it may die: then there is nobody to tell.
            let kill = Command::new("kill")
                .args(["-TERM", &pid.to_string()])
                .output();
            drop(kill.await);
        }
    }

    /// Waits for its end.
    pub(crate) async fn exited(&mut self) -> ExitStatus {
        soon("the sidecar to leave", self.child.wait())
            .await
            .unwrap()
    }

    /// Kills it as by `kill -9` and starts another one on the same directories.
    pub(crate) async fn crash_and_restart(mut self, setup: Setup) -> Self {
        self.child.kill().await.unwrap();
        self.restart(setup).await
    }

    /// Starts another one on the same directories after this one has ended.
    pub(crate) async fn restart(mut self, setup: Setup) -> Self {
        self.exited().await;
        self.child = serve(self.home.path(), &setup).spawn().unwrap();
        self.places.clear();
        assert!(self.try_ready().await, "the sidecar ended before it served");
        self
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        read_log(self.home.path())
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println_of(&format!("--- sidecar\n{}", self.log()));
        }
    }
}

#[expect(
    clippy::print_stdout,
    reason = "shown by the test runner for a test that failed"
)]
fn println_of(text: &str) {
    println!("{text}");
}

async fn open(socket: &Path) -> AuthorizedChannel {
    let target = Target {
        endpoint: Some(format!("unix://{}", socket.display())),
        token: None,
    };
    soon("a connection", target.connect()).await.unwrap()
}
