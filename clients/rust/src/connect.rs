//! Finds the sidecar and opens a channel to it.
//!
//! Looks in this order: argument, environment, default. Never retries by itself: a channel reconnects
//! on the next request.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};

/// Name of the socket of orchestrators, executors and observers.
pub const SOCKET_NAME: &str = "callgate.sock";
/// Name of the socket of approvers, hooks and administrators.
pub const CONTROL_SOCKET_NAME: &str = "control.sock";

/// Where the sidecar is and how to be known there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// `unix:///…`, `http://…`. None: environment, then default.
    pub endpoint: Option<String>,
    /// A bearer token. None: environment, then none.
    pub token: Option<String>,
}

/// Why there is no channel.
#[derive(Debug)]
pub enum ConnectError {
    /// The endpoint is of no known form.
    EndpointInvalid(String),
    /// The token cannot be read or is no header value.
    TokenInvalid(String),
    /// Nobody answers there.
    Unreachable {
        /// Where.
        endpoint: String,
        /// What happened.
        problem: String,
    },
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectError::EndpointInvalid(endpoint) => write!(
                out,
                "endpoint `{endpoint}` must begin with `unix://` or `http://`"
            ),
            ConnectError::TokenInvalid(problem) => write!(out, "token: {problem}"),
            ConnectError::Unreachable { endpoint, problem } => {
                write!(out, "no sidecar at `{endpoint}`: {problem}")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

/// A channel whose requests carry the token.
pub type AuthorizedChannel = InterceptedService<Channel, Bearer>;

/// Adds the token to every request.
#[derive(Debug, Clone, Default)]
pub struct Bearer {
    header: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.header {
            request
                .metadata_mut()
                .insert("authorization", header.clone());
        }
        Ok(request)
    }
}

/// Directory of the sockets, by environment: `CALLGATE_SOCKET_DIR`, else under `XDG_RUNTIME_DIR`, else
/// under the data directory.
pub fn default_socket_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set("CALLGATE_SOCKET_DIR") {
        return PathBuf::from(dir);
    }
    if let Some(dir) = set("XDG_RUNTIME_DIR") {
        return Path::new(&dir).join("callgate");
    }
    default_data_dir().join("run")
}

/// Data directory, by environment: `CALLGATE_DATA_DIR`, else under `XDG_STATE_HOME`, else under the home.
pub fn default_data_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set("CALLGATE_DATA_DIR") {
        return PathBuf::from(dir);
    }
    if let Some(dir) = set("XDG_STATE_HOME") {
        return Path::new(&dir).join("callgate");
    }
    let home = set("HOME").unwrap_or_else(|| "/".into());
    Path::new(&home).join(".local/state/callgate")
}

impl Target {
    /// The endpoint that holds: argument, environment, default socket.
    pub fn endpoint(&self) -> String {
        let set = std::env::var("CALLGATE_ENDPOINT").ok();
        self.endpoint
            .clone()
            .or(set.filter(|value| !value.is_empty()))
            .unwrap_or_else(|| {
                let socket = default_socket_dir().join(SOCKET_NAME);
                format!("unix://{}", socket.display())
            })
    }

    /// The same for approvers, hooks and administrators: the default is their socket.
    #[must_use]
    pub fn or_control(mut self) -> Self {
        let is_set = std::env::var_os("CALLGATE_ENDPOINT").is_some_and(|value| !value.is_empty());
        if self.endpoint.is_none() && !is_set {
            let socket = default_socket_dir().join(CONTROL_SOCKET_NAME);
            self.endpoint = Some(format!("unix://{}", socket.display()));
        }
        self
    }

    fn bearer(&self) -> Result<Bearer, ConnectError> {
        let Some(token) = self.find_token()? else {
            return Ok(Bearer::default());
        };
        let header = format!("Bearer {}", token.trim())
            .parse()
            .map_err(|_| ConnectError::TokenInvalid("it is no header value".to_owned()))?;
        Ok(Bearer {
            header: Some(header),
        })
    }

    fn find_token(&self) -> Result<Option<String>, ConnectError> {
        if let Some(token) = &self.token {
            return Ok(Some(token.clone()));
        }
        if let Ok(token) = std::env::var("CALLGATE_TOKEN")
            && !token.is_empty()
        {
            return Ok(Some(token));
        }
        match std::env::var("CALLGATE_TOKEN_FILE") {
            Ok(file) if !file.is_empty() => std::fs::read_to_string(&file)
                .map(Some)
                .map_err(|problem| ConnectError::TokenInvalid(format!("`{file}`: {problem}"))),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// [`ConnectError`]: the endpoint or token is malformed, or nobody answers.
    pub async fn connect(&self) -> Result<AuthorizedChannel, ConnectError> {
        let endpoint = self.endpoint();
        let bearer = self.bearer()?;
        let channel = open(&endpoint).await?;
        Ok(InterceptedService::new(channel, bearer))
    }
}

async fn open(endpoint: &str) -> Result<Channel, ConnectError> {
    let unreachable = |problem: tonic::transport::Error| ConnectError::Unreachable {
        endpoint: endpoint.to_owned(),
        problem: root_cause(&problem),
    };
    if let Some(path) = endpoint.strip_prefix("unix://") {
        let path = PathBuf::from(path);
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let address = Endpoint::from_static("http://localhost");
        return address
            .connect_with_connector(connector)
            .await
            .map_err(unreachable);
    }
    if !endpoint.starts_with("http://") {
        return Err(ConnectError::EndpointInvalid(endpoint.to_owned()));
    }
    let address = Endpoint::from_shared(endpoint.to_owned())
        .map_err(|_| ConnectError::EndpointInvalid(endpoint.to_owned()))?;
    address
        .tcp_nodelay(true)
        .connect()
        .await
        .map_err(unreachable)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
