//! `callgate serve`: the sidecar, until a signal or an administrator ends it.
//!
//! Prints where it listens, then `ready`. Never daemonises.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};

use super::ConfigArguments;
use super::output::{Outcome, data, outcome};
use super::sidecar::Sidecar;
use crate::config::Config;
use crate::telemetry;

/// Run the sidecar until it is told to stop.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArguments,
    /// A file of rules besides those of the configuration; it must be there.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// An allow rule, e.g. `run_shell(git status)`. May be repeated, as may the other two.
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// An ask rule.
    #[arg(long, value_name = "RULE")]
    ask: Vec<String>,
    /// A deny rule.
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
}

impl Serve {
    pub(super) fn run(self) -> Outcome {
        outcome(
            self.config
                .load()
                .map(|config| self.with_rules(config))
                .and_then(serve),
        )
    }

    fn with_rules(self, mut config: Config) -> Config {
        let permissions = &mut config.permissions;
        permissions.settings_file = self
            .settings
            .unwrap_or(std::mem::take(&mut permissions.settings_file));
        permissions.allow.extend(self.allow);
        permissions.ask.extend(self.ask);
        permissions.deny.extend(self.deny);
        config
    }
}

fn serve(config: Config) -> Result<(), Outcome> {
    telemetry::start(&config.log).map_err(Outcome::usage)?;
    let runtime = runtime(config.server.worker_threads)
        .map_err(|error| Outcome::failed(format!("no runtime: {error}")))?;
    runtime.block_on(async {
        // Before anything is served, so that no signal is missed.
        let mut terminate = listen_for(SignalKind::terminate())?;
        let mut interrupt = listen_for(SignalKind::interrupt())?;
        let sidecar = Sidecar::start(config).await.map_err(Outcome::failed)?;
        for place in &sidecar.places {
            data(&format!("listening {place}"));
        }
        data("ready");
        let drain = sidecar.drain.clone();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = drain.asked() => {}
        }
        tracing::info!("leaving");
        // A second signal does not wait.
        tokio::select! {
            left = sidecar.leave() => {
                tracing::info!(turns_left = left, "left");
                Ok(())
            }
            _ = terminate.recv() => Err(Outcome::failed("ended before everything had")),
            _ = interrupt.recv() => Err(Outcome::failed("ended before everything had")),
        }
    })
}

pub(super) fn listen_for(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Outcome> {
    signal(kind).map_err(|error| Outcome::failed(format!("no signal handler: {error}")))
}

/// One thread for everything on a small machine: a second one costs more than it brings there.
fn runtime(worker_threads: usize) -> std::io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match worker_threads {
        0 if cores <= 2 => 1,
        0 => cores,
        set => set,
    };
    match threads {
        1 => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
        threads => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build(),
    }
}
