//! Measures the messages of a request and names the limit that one of them is beyond.
//!
//! tonic's codec refuses a large message, too, but without a detail that clients can match on. So the
//! length that stands before each gRPC message is read here, where the bytes come in. Never looks into
//! a message.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use super::status::Failure;

/// Bytes before each message: whether it is compressed, then its length, the highest byte first.
const PREFIX_BYTES: u8 = 5;

/// The stream on which one answer that is too large is to cost its own question only.
const HOOK_STREAM: &str = "/callgate.v1.HookService/ConnectHook";
/// How many times as large one of its messages may be before the stream itself ends.
const HOOK_STREAM_FACTOR: u64 = 4;

/// Largest message that is read on the stream of a hook process. Of a larger one nothing is read, and so
/// nothing behind it either.
pub(super) fn hook_stream_bytes_max(message_bytes_max: u64) -> u64 {
    message_bytes_max.saturating_mul(HOOK_STREAM_FACTOR)
}

/// Largest message that is read on that path.
pub(super) fn read_bytes_max(path: &str, message_bytes_max: u64) -> u64 {
    match path == HOOK_STREAM {
        true => hook_stream_bytes_max(message_bytes_max),
        false => message_bytes_max,
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A message is larger than the sidecar takes.
#[derive(Debug, thiserror::Error)]
#[error("a message of {actual} bytes, {allowed} are allowed")]
pub(super) struct TooLarge {
    /// The limit.
    pub(super) allowed: u64,
    /// What came.
    pub(super) actual: u64,
    /// What tonic finds on its way out, and sends.
    source: Status,
}

impl TooLarge {
    fn new(allowed: u64, actual: u64) -> Self {
        Self {
            allowed,
            actual,
            source: Failure::limit("message_bytes_max", allowed, actual, false).into(),
        }
    }

    /// The one that led to this status, if one did.
    pub(super) fn behind(status: &Status) -> Option<&Self> {
        let first = std::error::Error::source(status);
        let mut causes = std::iter::successors(first, |cause| cause.source());
        causes.find_map(|cause| cause.downcast_ref())
    }
}

/// A request's body, which breaks at the first message that is too large.
pub(super) struct Measured<B> {
    body: B,
    allowed: u64,
    /// Bytes read of the prefix that is being read.
    prefix_read: u8,
    /// The length that it says so far.
    length: u32,
    /// Bytes of the present message that have not come yet.
    rest: usize,
}

impl<B> Measured<B> {
    /// A body of messages of at most `allowed` bytes.
    pub(super) fn new(body: B, allowed: u64) -> Self {
        Self {
            body,
            allowed,
            prefix_read: 0,
            length: 0,
            rest: 0,
        }
    }

    fn measure(&mut self, mut data: &[u8]) -> Result<(), TooLarge> {
        loop {
            let (_, after) = data.split_at(self.rest.min(data.len()));
            self.rest -= data.len() - after.len();
            let Some((byte, after)) = after.split_first() else {
                return Ok(());
            };
            data = after;
            if self.prefix_read > 0 {
                self.length = (self.length << 8) | u32::from(*byte);
            }
            self.prefix_read += 1;
            if self.prefix_read == PREFIX_BYTES {
                let length = std::mem::take(&mut self.length);
                if u64::from(length) > self.allowed {
                    return Err(TooLarge::new(self.allowed, length.into()));
                }
                self.prefix_read = 0;
                self.rest = usize::try_from(length).unwrap_or(usize::MAX);
            }
        }
    }
}

impl<B> Body for Measured<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        if let Some(data) = frame.data_ref()
            && let Err(too_large) = self.measure(data)
        {
            return Poll::Ready(Some(Err(too_large.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::{Measured, read_bytes_max};

    /// The messages, each behind its prefix.
    fn framed(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for length in lengths {
            bytes.push(0);
            bytes.extend(u32::try_from(*length).unwrap().to_be_bytes());
            // A byte that would be a huge length, were it taken for one.
            bytes.extend(std::iter::repeat_n(0xff, *length));
        }
        bytes
    }

    #[test]
    fn only_the_stream_of_hooks_reads_more_than_the_limit() {
        assert_eq!(
            read_bytes_max("/callgate.v1.HookService/ConnectHook", 10),
            40
        );
        for path in [
            "/callgate.v1.HookService/ListHooks",
            "/callgate.v1.ExecutorService/Connect",
        ] {
            assert_eq!(read_bytes_max(path, 10), 10, "{path}");
        }
    }

    #[test]
    fn messages_are_measured_wherever_the_frames_part_them() {
        let bytes = framed(&[300, 0, 1, 299, 301, 2]);
        for size in 1..=bytes.len() {
            let mut measured = Measured::new((), 300);
            let refused = bytes
                .chunks(size)
                .find_map(|chunk| measured.measure(chunk).err());
            assert_eq!(refused.unwrap().actual, 301, "frames of {size} bytes");
            let mut measured = Measured::new((), 301);
            let mut chunks = bytes.chunks(size);
            assert!(chunks.all(|chunk| measured.measure(chunk).is_ok()));
        }
    }
}
