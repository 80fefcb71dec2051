//! `callgate approvals watch`: a panel in the terminal that shows what waits and takes decisions.
//!
//! `state` says what happens, `view` how it looks, `run` talks to the terminal and the sidecar. Never
//! decides by itself, and never shows text of others as it came.

mod calls;
mod keys;
mod layout;
mod review;
mod run;
#[cfg(test)]
mod samples;
mod state;
#[cfg(test)]
mod state_tests;
mod terminal;
mod view;
#[cfg(test)]
mod view_tests;
mod watch;

use std::io::IsTerminal;

use super::client::{ClientArguments, block_on};
use super::output::Outcome;
use run::{Scope, run};

/// Watch and decide in a panel.
#[derive(Debug, clap::Args)]
pub(super) struct Watch {
    /// Only of this session.
    #[arg(long, value_name = "SESSION", default_value = "")]
    session: String,
    /// Only of this session and its child sessions. May be repeated.
    #[arg(long, value_name = "SESSION")]
    root: Vec<String>,
    #[command(flatten)]
    client: ClientArguments,
}

impl Watch {
    pub(super) fn run(self) -> Result<(), Outcome> {
        if !std::io::stdout().is_terminal() {
            return Err(Outcome::usage(
                "the panel needs a terminal\n\nhint: for a script use  callgate approvals list --json",
            ));
        }
        block_on(async {
            let channel = self.client.connect_control().await?;
            let scope = Scope {
                root_session_ids: self.root,
                session_id: self.session,
            };
            run(channel, scope).await
        })
    }
}
