//! Whether a command asks a running sidecar or reads the files itself, and how it says so.
//!
//! Options that name files mean the files. Otherwise whoever answers at the endpoint is asked, and only
//! where nobody does and nobody was named are the files read. Never starts a sidecar.

use callgate_client::connect::{
    AuthorizedChannel, CONTROL_SOCKET_NAME, ConnectError, Target, default_socket_dir,
};

use super::ConfigArguments;
use super::client::{ClientArguments, not_connected};
use super::output::{Outcome, note};

/// Where an answer comes from.
#[derive(Debug, Clone)]
pub(super) enum Live {
    /// A running sidecar.
    Sidecar {
        /// To it.
        channel: AuthorizedChannel,
        /// Where it is.
        endpoint: String,
    },
    /// The files, read by this command.
    Files,
}

/// Which of a sidecar's two sockets a command needs, where no endpoint is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Socket {
    /// That of orchestrators, executors and observers.
    Local,
    /// That of approvers and administrators.
    Control,
}

impl Live {
    /// Looks for a sidecar. `offline`: for none.
    pub(super) async fn find(
        client: &ClientArguments,
        config: &ConfigArguments,
        offline: bool,
        socket: Socket,
    ) -> Result<Self, Outcome> {
        if offline || config.names_anything() {
            return Ok(Live::Files);
        }
        let target = target(client, socket);
        let endpoint = target.endpoint();
        match target.connect().await {
            Ok(channel) => Ok(Live::Sidecar { channel, endpoint }),
            Err(ConnectError::Unreachable { .. }) if !is_named(client) => Ok(Live::Files),
            Err(
                error @ (ConnectError::EndpointInvalid(_)
                | ConnectError::TokenInvalid(_)
                | ConnectError::Unreachable { .. }),
            ) => Err(not_connected(&error)),
        }
    }

    /// Says on standard error which of the two it was.
    pub(super) fn tell(&self) {
        note(&match self {
            Live::Sidecar { endpoint, .. } => format!("answered by the sidecar at {endpoint}"),
            Live::Files => "answered with the files here; no sidecar was asked".to_owned(),
        });
    }
}

/// A channel to a sidecar that must be there.
pub(super) async fn connect_control(
    client: &ClientArguments,
) -> Result<AuthorizedChannel, Outcome> {
    let connected = target(client, Socket::Control).connect().await;
    connected.map_err(|error| not_connected(&error))
}

fn target(client: &ClientArguments, socket: Socket) -> Target {
    let control = || {
        let path = default_socket_dir().join(CONTROL_SOCKET_NAME);
        format!("unix://{}", path.display())
    };
    Target {
        endpoint: match (is_named(client), socket) {
            (false, Socket::Control) => Some(control()),
            (true, Socket::Control) | (_, Socket::Local) => client.endpoint.clone(),
        },
        token: client.token.clone(),
    }
}

/// Whether somebody said where the sidecar is.
fn is_named(client: &ClientArguments) -> bool {
    let set = std::env::var_os("CALLGATE_ENDPOINT");
    client.endpoint.is_some() || set.is_some_and(|value| !value.is_empty())
}
