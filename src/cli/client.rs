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
    /// unix:///… or http://…. Default: $CALLGATE_ENDPOINT, else the Unix socket for this command.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint: Option<String>,
    /// Bearer token. Default: $CALLGATE_TOKEN, else the file in $CALLGATE_TOKEN_FILE.
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<String>,
}

impl ClientArguments {
    /// As whoever runs turns.
    pub(super) async fn connect(&self) -> Result<AuthorizedChannel, Outcome> {
        connect(self.target()).await
    }

    /// As whoever decides: without an endpoint it is the control socket.
    pub(super) async fn connect_control(&self) -> Result<AuthorizedChannel, Outcome> {
        connect(self.target().or_control()).await
    }

    fn target(&self) -> Target {
        Target {
            endpoint: self.endpoint.clone(),
            token: self.token.clone(),
        }
    }
}

/// What it means for the command that there is no channel.
pub(super) fn not_connected(error: &ConnectError) -> Outcome {
    match error {
        ConnectError::EndpointInvalid(_) | ConnectError::TokenInvalid(_) => {
            Outcome::usage(error.to_string())
        }
        ConnectError::Unreachable { .. } => Outcome::failed(format!(
            "{error}

hint: start one with  callgate serve"
        )),
    }
}

async fn connect(target: Target) -> Result<AuthorizedChannel, Outcome> {
    let connected = target.connect().await;
    connected.map_err(|error| not_connected(&error))
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
