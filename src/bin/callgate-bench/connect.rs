//! Where a helper process connects to, and how it is known there.
//!
//! The sidecar's own client library does the connecting. Never looks at the environment's endpoint.

use std::path::PathBuf;

use callgate_client::connect::{AuthorizedChannel, Target};

use crate::problem::{Problem, io};

/// Where to connect.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Place {
    /// `unix:///…` or `http://…` on loopback.
    #[arg(long, value_name = "URL")]
    endpoint: String,
    /// File with a bearer token. None: the socket's permissions are enough.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Place {
    /// Opens a connection of its own.
    pub(crate) async fn connect(&self) -> Result<AuthorizedChannel, Problem> {
        let token = match &self.token_file {
            None => None,
            Some(file) => {
                let doing = format!("cannot read `{}`", file.display());
                let token = std::fs::read_to_string(file).map_err(io(doing))?;
                Some(token.trim().to_owned())
            }
        };
        let target = Target {
            endpoint: Some(self.endpoint.clone()),
            token,
        };
        Ok(target.connect().await?)
    }
}
