//! One accept loop for every kind of socket; gRPC on all of them.
//!
//! What tonic's own server would add is here on purpose: limits, keepalive, credentials, deadlines,
//! drain. Never serves a request that [`Gatekeeper`] did not let in.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use super::access::{Caller, Door, Gatekeeper, Refused};
use super::message_size::{Measured, read_bytes_max};
use crate::base::tasks::Tasks;
use crate::config::ServerConfig;
use crate::engine::Engine;
use crate::gate::audit::note::{self, Refused as RefusalNote};
use crate::gate::limits::Limits;

/// Longest path of a Unix socket, in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Pause after an accept that failed, so that a full file table does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Resets that a connection may cause: few over TCP, many from the same machine.
const RESETS_TCP: usize = 20;
const RESETS_UNIX: usize = 1_000;

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The path does not fit into a socket address.
    #[error("socket path `{path}` has more than {SOCKET_PATH_BYTES_MAX} bytes")]
    PathTooLong {
        /// The path.
        path: String,
    },
    /// Plaintext would leave the machine.
    #[error("`server.tcp` is `{address}`; plaintext is only served on loopback")]
    NotLoopback {
        /// The address.
        address: String,
    },
    /// Somebody listens there already.
    #[error("another process listens on `{place}`")]
    InUse {
        /// Where.
        place: String,
    },
    /// The system refused.
    #[error("cannot listen on `{place}`: {problem}")]
    Refused {
        /// Where.
        place: String,
        /// What it says.
        problem: io::Error,
    },
}

/// A socket that is open and not served yet.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// The socket of orchestrators, executors and observers.
    Local(UnixListener),
    /// The socket of approvers, hooks and administrators.
    Control(UnixListener),
}

/// Opens a TCP listener on loopback.
///
/// # Errors
/// [`ListenError`].
pub async fn listen_tcp(address: &str) -> Result<(Listener, std::net::SocketAddr), ListenError> {
    let refused = |problem: io::Error| match problem.kind() == io::ErrorKind::AddrInUse {
        true => ListenError::InUse {
            place: address.to_owned(),
        },
        false => ListenError::Refused {
            place: address.to_owned(),
            problem,
        },
    };
    let parsed: std::net::SocketAddr = address
        .parse()
        .map_err(|_| refused(io::Error::other("it is no address such as 127.0.0.1:50551")))?;
    if !parsed.ip().is_loopback() {
        return Err(ListenError::NotLoopback {
            address: address.to_owned(),
        });
    }
    let listener = TcpListener::bind(parsed).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((Listener::Tcp(listener), bound))
}

/// Opens a Unix listener that only its owner can reach. A socket that nobody serves is replaced.
///
/// # Errors
/// [`ListenError`].
pub async fn listen_unix(path: &Path) -> Result<UnixListener, ListenError> {
    let place = path.display().to_string();
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(ListenError::PathTooLong { path: place });
    }
    let refused = |problem: io::Error| ListenError::Refused {
        place: place.clone(),
        problem,
    };
    if path.exists() {
        if UnixStream::connect(path).await.is_ok() {
            return Err(ListenError::InUse { place });
        }
        std::fs::remove_file(path).map_err(refused)?;
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
    Ok(listener)
}

/// What every connection shares.
pub struct Served {
    /// The services.
    pub routes: Routes,
    /// Who may call what.
    pub gatekeeper: Gatekeeper,
    /// Listeners and connections.
    pub config: ServerConfig,
    /// The bounds.
    pub limits: Limits,
    /// Learns of refused requests.
    pub engine: Arc<Engine>,
    /// Owns connections; asked to stop when the sidecar leaves.
    pub tasks: Tasks,
    connections: Arc<Semaphore>,
}

impl Served {
    /// What every connection shares.
    pub fn new(
        routes: Routes,
        gatekeeper: Gatekeeper,
        config: ServerConfig,
        limits: Limits,
        engine: Arc<Engine>,
        tasks: Tasks,
    ) -> Arc<Self> {
        let connections = usize::try_from(limits.connections_max)
            .unwrap_or(Semaphore::MAX_PERMITS)
            .min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            routes: routes.prepare(),
            gatekeeper,
            config,
            limits,
            engine,
            tasks,
            connections: Arc::new(Semaphore::new(connections)),
        })
    }

    /// Accepts connections until the tasks are asked to stop.
    pub fn serve(self: &Arc<Self>, listener: Listener) {
        let served = self.clone();
        self.tasks.spawn("accept", async move {
            loop {
                let accepted = tokio::select! {
                    () = served.tasks.stopped() => return,
                    accepted = served.accept_one(&listener) => accepted,
                };
                if let Err(error) = accepted {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        });
    }

    async fn accept_one(self: &Arc<Self>, listener: &Listener) -> io::Result<()> {
        match listener {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it a turn of two small messages takes 44 ms.
                stream.set_nodelay(true)?;
                self.open(stream, Door::Tcp);
            }
            Listener::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                self.open(stream, Door::Local { uid });
            }
            Listener::Control(listener) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                self.open(stream, Door::Control { uid });
            }
        }
        Ok(())
    }

    fn open<S: Socket>(self: &Arc<Self>, stream: S, door: Door) {
        let Ok(permit) = self.connections.clone().try_acquire_owned() else {
            tracing::warn!(limit = "connections_max", "connection refused");
            return;
        };
        let served = self.clone();
        self.tasks.spawn("connection", async move {
            served.run(stream, door).await;
            drop(permit);
        });
    }

    async fn run<S: Socket>(self: Arc<Self>, stream: S, door: Door) {
        let handshake = Duration::from_millis(self.config.handshake_timeout_ms);
        // A connection that sends nothing is not worth keeping.
        match tokio::time::timeout(handshake, stream.wait_readable()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
        let builder = self.builder(&door);
        let at_door = self.gatekeeper.at_door(&door);
        let served = self.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (served, door, at_door) = (served.clone(), door.clone(), at_door.clone());
            async move { Ok::<_, Infallible>(served.answer(request, &door, at_door).await) }
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut told = false;
        loop {
            let stopped = async {
                match told {
                    true => std::future::pending().await,
                    false => self.tasks.stopped().await,
                }
            };
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = stopped => {
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn builder(&self, door: &Door) -> auto::Builder<TokioExecutor> {
        let as_u32 = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let resets = match door {
            Door::Tcp => RESETS_TCP,
            Door::Local { .. } | Door::Control { .. } => RESETS_UNIX,
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(self.config.handshake_timeout_ms));
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_millis(
                self.config.keepalive_interval_ms,
            )))
            .keep_alive_timeout(Duration::from_millis(self.config.keepalive_timeout_ms))
            .max_concurrent_streams(as_u32(self.limits.connection_streams_max))
            .max_pending_accept_reset_streams(resets)
            .max_header_list_size(as_u32(self.limits.header_bytes_max));
        builder
    }

    /// One request: credentials, deadline, sizes, service.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        door: &Door,
        at_door: Option<Caller>,
    ) -> Response<Body> {
        let admitted =
            self.gatekeeper
                .admit(request.uri().path(), request.headers(), at_door.as_ref());
        match admitted {
            Ok(Some(caller)) => {
                request.extensions_mut().insert(caller);
            }
            Ok(None) => {}
            Err(refused) => {
                let by = at_door.as_ref();
                if let Some(note) = refusal_note(refused, door, by, request.uri().path()) {
                    self.engine.note_refused(note);
                }
                return Status::from(refused).into_http();
            }
        }
        let timeout = request
            .headers()
            .get("grpc-timeout")
            .and_then(|value| parse_timeout(value.to_str().ok()?));
        let bytes_max = read_bytes_max(request.uri().path(), self.limits.message_bytes_max);
        let request = request.map(|body| Measured::new(body, bytes_max));
        let call = self.routes.clone().oneshot(request);
        let Some(timeout) = timeout else {
            return infallible(call.await);
        };
        match tokio::time::timeout(timeout, call).await {
            Ok(answered) => infallible(answered),
            Err(_) => {
                Status::deadline_exceeded("the request's own deadline has passed").into_http()
            }
        }
    }
}

/// What the audit says of a refused request. None: it asked for nothing that there is.
fn refusal_note(
    refused: Refused,
    door: &Door,
    by: Option<&Caller>,
    path: &str,
) -> Option<RefusalNote> {
    let reason = match refused {
        Refused::Unknown => return None,
        Refused::Unauthenticated => "unauthenticated",
        Refused::RoleMissing => "role_missing",
    };
    let (door, peer) = match door {
        Door::Local { uid } => ("local", format!("uid:{uid}")),
        Door::Control { uid } => ("control", format!("uid:{uid}")),
        Door::Tcp => ("tcp", String::new()),
    };
    Some(RefusalNote {
        principal: by.map_or_else(String::new, |caller| caller.principal.to_string()),
        door,
        peer,
        method: note::cut(path).to_owned(),
        reason,
        unwritten: 0,
    })
}

fn infallible<T>(outcome: Result<T, Infallible>) -> T {
    match outcome {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

/// Reads a `grpc-timeout`: at most 8 digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// A stream that can say when it has something.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn wait_readable(&self) -> impl Future<Output = io::Result<()>> + Send;
}

impl Socket for TcpStream {
    async fn wait_readable(&self) -> io::Result<()> {
        self.readable().await
    }
}

impl Socket for UnixStream {
    async fn wait_readable(&self) -> io::Result<()> {
        self.readable().await
    }
}

/// Where the two sockets are.
pub fn socket_paths(dir: &Path) -> (PathBuf, PathBuf) {
    (
        dir.join(callgate_client::connect::SOCKET_NAME),
        dir.join(callgate_client::connect::CONTROL_SOCKET_NAME),
    )
}
