//! Follows the sidecar's streams of approvals and of events, for as long as the panel is there.
//!
//! A stream that is lost is taken up again where it broke, with waits that grow. Never gives up on a
//! sidecar that is gone, and never asks again where it was told no.

use std::time::Duration;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::event_service_client::EventServiceClient;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

use super::state::Message;
use crate::cli::deciding::Desk;

/// Wait before the first attempt to take a stream up again; it doubles.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// Longest such wait.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// The sidecar says something every 15 s; a stream that is silent for three times that is gone.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Where messages for the panel go. Closed: the panel is gone.
pub(super) type Out = mpsc::Sender<Message>;

/// Why a stream ended.
enum End {
    /// It broke.
    Lost(String),
    /// It goes on from another place.
    Again,
    /// The sidecar says no.
    Refused(String),
    /// Nobody listens any more.
    Unheard,
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        let text = format!("{:?}: {}", status.code(), status.message());
        match status.code() {
            Code::Unimplemented
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::InvalidArgument => End::Refused(text),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => End::Lost(text),
        }
    }
}

/// Waits that grow until something is heard.
struct Patience(Duration);

impl Patience {
    fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(RETRY_MAX);
        wait
    }
}

/// The next message of a stream that still lives.
async fn heard<T>(stream: &mut Streaming<T>) -> Result<T, End> {
    let message = tokio::time::timeout(SILENCE_MAX, stream.message()).await;
    let message = message.map_err(|_| End::Lost("it is silent".to_owned()))??;
    message.ok_or_else(|| End::Lost("the stream ended".to_owned()))
}

async fn tell(out: &Out, message: Message) -> Result<(), End> {
    out.send(message).await.map_err(|_| End::Unheard)
}

/// Tells the panel what waits and every change, until the panel is gone or the sidecar says no.
pub(super) async fn approvals(mut desk: Desk, filter: pb::ApprovalFilter, out: Out) {
    let mut cursor = String::new();
    let mut patience = Patience(RETRY_MIN);
    loop {
        let end = match watch(&mut desk, &filter, &mut cursor, &mut patience, &out).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        let told = match end {
            End::Unheard => return,
            End::Again => continue,
            End::Refused(problem) => {
                // The last word: whether it is heard matters to nobody.
                let _ = out.send(Message::Refused(problem)).await;
                return;
            }
            End::Lost(problem) => {
                let wait = patience.next();
                let retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                let told = tell(&out, Message::WatchLost { problem, retry_ms }).await;
                tokio::time::sleep(wait).await;
                told
            }
        };
        if told.is_err() {
            return;
        }
    }
}

async fn watch(
    desk: &mut Desk,
    filter: &pb::ApprovalFilter,
    cursor: &mut String,
    patience: &mut Patience,
    out: &Out,
) -> Result<std::convert::Infallible, End> {
    let request = pb::WatchApprovalsRequest {
        filter: Some(filter.clone()),
        after_cursor: cursor.clone(),
    };
    let fresh = cursor.is_empty();
    let mut stream = match desk.watch_approvals(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) if status.code() == Code::OutOfRange && !fresh => {
            cursor.clear();
            return Err(End::Again);
        }
        Err(status) => return Err(status.into()),
    };
    tell(out, Message::WatchBegan { fresh }).await?;
    let mut complete = !fresh;
    loop {
        let message = heard(&mut stream).await?;
        *patience = Patience(RETRY_MIN);
        complete |= message.snapshot_complete;
        // Half a snapshot cannot be taken up: what is gone meanwhile would stay on the list.
        if complete && !message.cursor.is_empty() {
            *cursor = message.cursor;
        }
        let approvals = Message::Approvals {
            approvals: message.approvals,
            snapshot_complete: message.snapshot_complete,
        };
        tell(out, approvals).await?;
    }
}

/// Tells the panel what happens to calls and sessions, until the panel is gone or nobody serves that.
pub(super) async fn events(channel: AuthorizedChannel, filter: pb::EventFilter, out: Out) {
    let mut events = EventServiceClient::new(channel);
    let mut cursor = String::new();
    let mut patience = Patience(RETRY_MIN);
    loop {
        let end = match subscribe(&mut events, &filter, &mut cursor, &mut patience, &out).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        let told = match end {
            End::Unheard => return,
            End::Again => continue,
            End::Refused(_) => {
                let _ = out.send(Message::FeedNotServed).await;
                return;
            }
            End::Lost(_) => {
                let told = tell(&out, Message::FeedLost).await;
                tokio::time::sleep(patience.next()).await;
                told
            }
        };
        if told.is_err() {
            return;
        }
    }
}

async fn subscribe(
    events: &mut EventServiceClient<AuthorizedChannel>,
    filter: &pb::EventFilter,
    cursor: &mut String,
    patience: &mut Patience,
    out: &Out,
) -> Result<std::convert::Infallible, End> {
    let fresh = cursor.is_empty();
    let request = pb::SubscribeRequest {
        filter: Some(filter.clone()),
        after_cursor: cursor.clone(),
        include_snapshot: fresh,
    };
    let mut stream = match events.subscribe(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) if status.code() == Code::OutOfRange && !fresh => {
            cursor.clear();
            return Err(End::Again);
        }
        Err(status) => return Err(status.into()),
    };
    tell(out, Message::FeedBegan { fresh }).await?;
    loop {
        let message = heard(&mut stream).await?;
        *patience = Patience(RETRY_MIN);
        if !message.cursor.is_empty() {
            *cursor = message.cursor;
        }
        if !message.events.is_empty() {
            tell(out, Message::Events(message.events)).await?;
        }
        if let Some(lagged) = message.lagged {
            *cursor = lagged.resume_cursor;
            return Err(End::Lost("too slow".to_owned()));
        }
    }
}
