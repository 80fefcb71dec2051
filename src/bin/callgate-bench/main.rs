//! `callgate-bench`: what Callgate costs, beside a bare relay measured in the same run.
//!
//! `run` starts everything else as processes of their own, from this very file. Nothing leaves the
//! machine: Unix sockets and loopback only.
//!
//! ```text
//! drive ──RunTurn / StreamTurns──► floor-relay or callgate serve ──Connect──► executor
//! ```

mod approval_probe;
mod cancel_probe;
mod clock;
mod connect;
mod drive;
mod executor;
mod floor;
mod histogram;
mod hook_ping;
mod hook_side;
mod lifeline;
mod output;
mod payload;
mod problem;
mod run;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use problem::Problem;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Callgate beside a bare relay.
#[derive(Debug, Parser)]
#[command(name = "callgate-bench", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    FloorRelay(floor::FloorRelay),
    Executor(executor::Executor),
    Drive(drive::Drive),
    CancelProbe(cancel_probe::CancelProbe),
    ApprovalProbe(approval_probe::ApprovalProbe),
    #[command(name = "hook")]
    HookSide(hook_side::HookSide),
    HookPing(hook_ping::HookPing),
    Run(run::Run),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().command {
        Command::FloorRelay(command) => on_one_thread(command.run()),
        Command::Executor(command) => on_one_thread(command.run()),
        Command::Drive(command) => on_one_thread(command.run()),
        Command::CancelProbe(command) => on_one_thread(command.run()),
        Command::ApprovalProbe(command) => on_one_thread(command.run()),
        Command::HookSide(command) => on_one_thread(command.run()),
        Command::HookPing(command) => on_one_thread(command.run()),
        Command::Run(command) => on_one_thread(command.run()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            output::note(&format!("callgate-bench: {problem}"));
            ExitCode::from(if matches!(problem, Problem::Missed(_)) {
                1
            } else {
                2
            })
        }
    }
}

/// Every helper has one thread, as the sidecar has on a small machine.
fn on_one_thread(work: impl Future<Output = Result<(), Problem>>) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(problem::io("no runtime"))?;
    let ended = runtime.block_on(work);
    // A thread that waits for standard input must not hold the process.
    runtime.shutdown_background();
    ended
}
