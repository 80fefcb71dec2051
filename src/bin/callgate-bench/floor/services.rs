//! The relay's two services: the methods that are measured, and a refusal for every other.
//!
//! Never keeps state of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use callgate::base::tasks::Tasks;
use callgate::pb::v1 as pb;
use pb::executor_service_server::ExecutorService;
use pb::turn_service_server::TurnService;
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::relay::{OutboxStream, Relay};
use super::turn::Outlet;

/// Requests taken in one go before events go out.
const REQUESTS_AT_ONCE: usize = 64;

/// `TurnService` of the relay.
pub(super) struct Turns {
    pub(super) relay: Arc<Relay>,
}

/// `ExecutorService` of the relay.
pub(super) struct Executors {
    pub(super) relay: Arc<Relay>,
    pub(super) tasks: Tasks,
}

/// The events of one turn; ends with it.
pub(super) struct OneTurn {
    outlet: Arc<Outlet>,
    ended: bool,
}

impl Stream for OneTurn {
    type Item = Result<pb::RunTurnResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let (events, ended) = std::task::ready!(self.outlet.poll_next(context));
        self.ended = ended;
        Poll::Ready(Some(Ok(pb::RunTurnResponse { turn: Some(events) })))
    }
}

/// The events of all turns of one stream; reading it takes requests in.
pub(super) struct ManyTurns {
    relay: Arc<Relay>,
    inbound: Streaming<pb::StreamTurnsRequest>,
    inbound_ended: bool,
    outlet: Arc<Outlet>,
    open: usize,
}

impl ManyTurns {
    fn take_requests(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        for _ in 0..REQUESTS_AT_ONCE {
            if self.inbound_ended {
                return Ok(());
            }
            match Pin::new(&mut self.inbound).poll_next(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(None) => self.inbound_ended = true,
                Poll::Ready(Some(request)) => {
                    if let Some(pb::stream_turns_request::Body::Run(request)) = request?.body {
                        self.relay
                            .run(request, &self.outlet)
                            .map_err(|status| *status)?;
                        self.open += 1;
                    }
                }
            }
        }
        // More may wait: come back after what is ready has gone out.
        context.waker().wake_by_ref();
        Ok(())
    }
}

impl Stream for ManyTurns {
    type Item = Result<pb::StreamTurnsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(status) = self.take_requests(context) {
            return Poll::Ready(Some(Err(status)));
        }
        if self.inbound_ended && self.open == 0 {
            return Poll::Ready(None);
        }
        let (events, ended) = std::task::ready!(self.outlet.poll_next(context));
        self.open -= usize::from(ended);
        let body = Some(pb::stream_turns_response::Body::Turn(events));
        Poll::Ready(Some(Ok(pb::StreamTurnsResponse { body })))
    }
}

impl Drop for ManyTurns {
    fn drop(&mut self) {
        self.outlet.clear();
    }
}

impl Drop for OneTurn {
    fn drop(&mut self) {
        self.outlet.clear();
    }
}

fn absent<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("the bare relay only runs turns"))
}

#[tonic::async_trait]
impl TurnService for Turns {
    type RunTurnStream = OneTurn;
    type StreamTurnsStream = ManyTurns;
    type AttachTurnStream = tokio_stream::Empty<Result<pb::AttachTurnResponse, Status>>;

    async fn run_turn(
        &self,
        request: Request<pb::RunTurnRequest>,
    ) -> Result<Response<OneTurn>, Status> {
        let outlet = Arc::new(Outlet::default());
        self.relay
            .run(request.into_inner(), &outlet)
            .map_err(|status| *status)?;
        Ok(Response::new(OneTurn {
            outlet,
            ended: false,
        }))
    }

    async fn stream_turns(
        &self,
        request: Request<Streaming<pb::StreamTurnsRequest>>,
    ) -> Result<Response<ManyTurns>, Status> {
        Ok(Response::new(ManyTurns {
            relay: self.relay.clone(),
            inbound: request.into_inner(),
            inbound_ended: false,
            outlet: Arc::default(),
            open: 0,
        }))
    }

    async fn attach_turn(
        &self,
        _: Request<pb::AttachTurnRequest>,
    ) -> Result<Response<Self::AttachTurnStream>, Status> {
        absent()
    }

    async fn cancel_turn(
        &self,
        _: Request<pb::CancelTurnRequest>,
    ) -> Result<Response<pb::CancelTurnResponse>, Status> {
        absent()
    }

    async fn cancel_call(
        &self,
        _: Request<pb::CancelCallRequest>,
    ) -> Result<Response<pb::CancelCallResponse>, Status> {
        absent()
    }

    async fn get_turn(
        &self,
        _: Request<pb::GetTurnRequest>,
    ) -> Result<Response<pb::GetTurnResponse>, Status> {
        absent()
    }

    async fn list_turns(
        &self,
        _: Request<pb::ListTurnsRequest>,
    ) -> Result<Response<pb::ListTurnsResponse>, Status> {
        absent()
    }

    async fn get_call_result(
        &self,
        _: Request<pb::GetCallResultRequest>,
    ) -> Result<Response<pb::GetCallResultResponse>, Status> {
        absent()
    }

    async fn end_run(
        &self,
        _: Request<pb::EndRunRequest>,
    ) -> Result<Response<pb::EndRunResponse>, Status> {
        absent()
    }

    async fn get_run(
        &self,
        _: Request<pb::GetRunRequest>,
    ) -> Result<Response<pb::GetRunResponse>, Status> {
        absent()
    }

    async fn cancel_run(
        &self,
        _: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        absent()
    }
}

#[tonic::async_trait]
impl ExecutorService for Executors {
    type ConnectStream = OutboxStream;

    async fn connect(
        &self,
        request: Request<Streaming<pb::ConnectRequest>>,
    ) -> Result<Response<OutboxStream>, Status> {
        let (joined, outbox) = oneshot::channel();
        let relay = self.relay.clone();
        let mut inbound = request.into_inner();
        self.tasks.spawn("executor", async move {
            let hello = match inbound.message().await {
                Ok(Some(pb::ConnectRequest {
                    body: Some(pb::connect_request::Body::Hello(hello)),
                })) => hello,
                Ok(_) | Err(_) => return,
            };
            let outbox = relay.join(&hello);
            if joined.send(outbox.clone()).is_ok() {
                while let Ok(Some(message)) = inbound.message().await {
                    relay.take(&outbox, message);
                }
            }
            relay.leave(&outbox);
        });
        Ok(Response::new(OutboxStream {
            outbox,
            joined: None,
        }))
    }
}
