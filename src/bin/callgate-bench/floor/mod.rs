//! `floor-relay`: the two hops of a turn with nothing between them.
//!
//! The same messages, events and sizes as the sidecar's, on the same kind of runtime and allocator.
//! What it costs is what carrying costs; what the sidecar costs more is what its gates cost. Never
//! checks, records or acknowledges anything unless told to.

mod relay;
mod services;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;

use callgate::base::tasks::Tasks;
use callgate::pb::v1::executor_service_server::ExecutorServiceServer;
use callgate::pb::v1::turn_service_server::TurnServiceServer;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::{Router, TcpIncoming};

use crate::lifeline;
use crate::output::data;
use crate::problem::{Problem, io};

/// The bare two-hop relay that everything is compared with.
#[derive(Debug, clap::Args)]
pub(crate) struct FloorRelay {
    /// Unix socket to listen on.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Loopback address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    tcp: std::net::SocketAddr,
    /// Acknowledge results, as the sidecar does. Not part of the floor.
    #[arg(long)]
    acks: bool,
    /// End when standard input ends.
    #[arg(long)]
    lifeline: bool,
}

impl FloorRelay {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        if !self.tcp.ip().is_loopback() {
            return Err(Problem::Unexpected("only loopback is served".to_owned()));
        }
        let relay = Arc::new(relay::Relay::new(self.acks));
        let tasks = Tasks::new();
        let local = UnixListener::bind(&self.socket)
            .map_err(io(format!("cannot listen on `{}`", self.socket.display())))?;
        let tcp = TcpIncoming::bind(self.tcp)
            .map_err(io(format!("cannot listen on `{}`", self.tcp)))?
            .with_nodelay(Some(true));
        let address = tcp.local_addr().map_err(io("no local address"))?;
        data(&format!("listening unix://{}", self.socket.display()));
        data(&format!("listening http://{address}"));
        data("ready");
        let served = async {
            tokio::try_join!(
                router(&relay, &tasks).serve_with_incoming(UnixListenerStream::new(local)),
                router(&relay, &tasks).serve_with_incoming(tcp),
            )
        };
        tokio::select! {
            ended = served => match ended {
                Ok(_) => Ok(()),
                Err(error) => Err(Problem::Unexpected(format!("cannot serve: {error}"))),
            },
            () = lifeline::cut(self.lifeline) => Ok(()),
        }
    }
}

fn router(relay: &Arc<relay::Relay>, tasks: &Tasks) -> Router {
    let turns = services::Turns {
        relay: relay.clone(),
    };
    let executors = services::Executors {
        relay: relay.clone(),
        tasks: tasks.clone(),
    };
    Server::builder()
        .add_service(TurnServiceServer::new(turns))
        .add_service(ExecutorServiceServer::new(executors))
}
