//! The command line as a client of the sidecar, like any other.
//!
//! Never starts a sidecar.

use callgate_client::connect::{AuthorizedChannel, ConnectError, Target};
use callgate_client::pb::v1 as pb;
use tonic::Status;

use super::output::Outcome;

/// Where the sidecar is.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ClientArguments {
    /// unix:///… or http://…. Default: $CALLGATE_ENDPOINT, else the sidecar's Unix socket.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint: Option<String>,
    /// Bearer token. Default: $CALLGATE_TOKEN, else the file in $CALLGATE_TOKEN_FILE.
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<String>,
}

impl ClientArguments {
    pub(super) async fn connect(&self) -> Result<AuthorizedChannel, Outcome> {
        let target = Target {
            endpoint: self.endpoint.clone(),
            token: self.token.clone(),
        };
        target
            .connect()
            .await
            .map_err(|error| not_connected(&error))
    }
}

/// What it means for the command that there is no channel.
pub(super) fn not_connected(error: &ConnectError) -> Outcome {
    match error {
        ConnectError::EndpointInvalid(_) | ConnectError::TokenInvalid(_) => {
            Outcome::usage(error.to_string())
        }
        ConnectError::Unreachable { .. } => {
            Outcome::failed(format!("{error}\n\nhint: start one with  callgate serve"))
        }
    }
}

/// Runs a command's work to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Outcome>>) -> Result<T, Outcome> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Outcome::failed(format!("no runtime: {error}")))?
        .block_on(work)
}

/// What a failed request means for the command.
pub(super) fn failed(status: &Status) -> Outcome {
    Outcome::failed(format!("{:?}: {}", status.code(), status.message()))
}

/// The word of an enum's value: its name without the prefix, in lower case.
pub(super) fn word(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase()
}

/// The word of a call's state.
pub(super) fn state_word(state: i32) -> String {
    let state = pb::CallState::try_from(state).unwrap_or(pb::CallState::Unspecified);
    word(state.as_str_name(), "CALL_STATE_")
}
