//! Reads the typed part of a failure out of a gRPC status.

use bytes::Bytes;
use callgate_client::pb::v1 as pb;
use prost::Message;
use tonic::Status;

const DETAIL: &str = "type.googleapis.com/callgate.v1.ErrorDetail";

/// `google.rpc.Status`, as much as is read here.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<AnyMessage>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct AnyMessage {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The typed part of a failure.
pub(crate) fn detail(status: &Status) -> pb::ErrorDetail {
    let details = RpcStatus::decode(status.details()).unwrap().details;
    let mut details = details.into_iter();
    let found = details.find(|detail| detail.type_url == DETAIL);
    let found = found.unwrap_or_else(|| panic!("a status without detail: {status:?}"));
    pb::ErrorDetail::decode(found.value).unwrap()
}

/// The stable code of a failure.
pub(crate) fn code(status: &Status) -> String {
    detail(status).code
}
