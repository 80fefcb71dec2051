//! The command line: subcommands, one file each.
//!
//! stdout is data, everything else goes to stderr. Exit 0 fine, 1 the answer is "no", 2 could not tell,
//! 64 wrong usage or configuration.

mod approval_text;
mod approvals;
mod audit;
mod audit_verify;
mod call;
mod client;
mod config_show;
mod deciding;
mod demo;
pub mod explain;
mod health;
mod live;
mod output;
mod panel;
mod rules;
mod running;
mod serve;
mod sessions;
mod sidecar;
mod tools;
mod turn;
mod verdict;
mod visible;
mod waiting;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{Config, ConfigError, ProcessEnvironment, Sources};
use output::Outcome;

/// The gRPC sidecar through which every tool call of an AI agent passes.
#[derive(Debug, Parser)]
#[command(name = "callgate", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar until it is told to stop.
    Serve(serve::Serve),
    /// Run a sidecar, a Python executor and recorded messages, and check that each ends as it must.
    Demo(demo::Demo),
    /// List the tools that a model may see, export them, or check definitions in a file.
    Tools(tools::Tools),
    /// Make one tool call by hand.
    Call(call::Call),
    /// Run the calls of a provider's message from a file.
    Turn(turn::Turn),
    /// See and decide what waits for a person.
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// See sessions, change their mode, take grants back.
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// Read, follow, export and verify the record of what happened.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Ask whether the sidecar serves.
    Health(health::Health),
    /// Show what is configured.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check, list, reload or trust the rules that decide which calls may run.
    #[command(subcommand)]
    Rules(rules::Rules),
    /// Explain an error code, or how a call would be decided: `run_shell(git push)`.
    Explain(explain::Explain),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the configuration that holds here, with every limit.
    Show(config_show::Show),
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Default, clap::Args)]
struct ConfigArguments {
    /// Config file. Default: $CALLGATE_CONFIG, else $XDG_CONFIG_HOME/callgate/callgate.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Where state is kept. Default: $CALLGATE_DATA_DIR, else $XDG_STATE_HOME/callgate.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<std::path::PathBuf>,
    /// Where the Unix sockets are. Default: $CALLGATE_SOCKET_DIR, else $XDG_RUNTIME_DIR/callgate.
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<std::path::PathBuf>,
    /// Set one key, e.g. server.tcp=127.0.0.1:6000. May be repeated.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArguments {
    /// Whether any of them is given.
    fn names_anything(&self) -> bool {
        let files = [&self.config, &self.data_dir, &self.socket_dir];
        files.into_iter().any(Option::is_some) || !self.set.is_empty()
    }

    fn load(&self) -> Result<Config, Outcome> {
        let sources = Sources {
            config: self.config.clone(),
            data_dir: self.data_dir.clone(),
            socket_dir: self.socket_dir.clone(),
            set: self.set.clone(),
        };
        sources
            .load(&ProcessEnvironment)
            .map_err(|error| match error {
                ConfigError::UnknownKey { .. } => Outcome::usage(format!(
                    "{error}\n\nhint: see every key with  callgate config show"
                )),
                ConfigError::Unreadable { .. }
                | ConfigError::Invalid { .. }
                | ConfigError::OutOfRange { .. } => Outcome::usage(error.to_string()),
            })
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::clap_error(&error),
    };
    let outcome = match arguments.command {
        Command::Serve(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Tools(command) => command.run(),
        Command::Call(command) => command.run(),
        Command::Turn(command) => command.run(),
        Command::Approvals(command) => command.run(),
        Command::Sessions(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Health(command) => command.run(),
        Command::Config(ConfigCommand::Show(command)) => command.run(),
        Command::Rules(command) => command.run(),
        Command::Explain(command) => command.run(),
    };
    outcome.exit()
}
