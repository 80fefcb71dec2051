//! How large and how many: connections and what travels on them.
//!
//! Never tests a limit by its default alone.

use callgate_client::pb::v1 as pb;
use tonic::Code;

use crate::support::orchestrator::{Orchestrator, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, soon};

#[tokio::test]
async fn messages_have_a_size() {
    let setup = Setup::default().set("limits.message_bytes_max", 100_000);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let of = |bytes: usize| {
        let mut request = turn("t", []);
        request.model_message = vec![b'x'; bytes].into();
        let without = prost::Message::encoded_len(&request) - bytes;
        (request, without)
    };
    let overhead = of(99_900).1;
    let (at, _) = of(100_000 - overhead);
    let (above, _) = of(100_001 - overhead);
    let status = orchestrator.refused(above).await;
    // The codec refuses it before anybody has seen it, so there is no detail.
    assert_eq!(status.code(), Code::OutOfRange);
    orchestrator.run_to_end(at).await;
}

#[tokio::test]
async fn headers_have_a_size() {
    let setup = Setup::default().set("limits.header_bytes_max", 2_000);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let ask = async |bytes: usize| {
        let mut request = tonic::Request::new(pb::GetServerInfoRequest {});
        let value = "x".repeat(bytes).parse().unwrap();
        request.metadata_mut().insert("x-large", value);
        soon(
            "an answer",
            orchestrator.server.clone().get_server_info(request),
        )
        .await
    };
    ask(1_000).await.unwrap();
    ask(2_000).await.unwrap_err();
    ask(1_000).await.unwrap();
}

#[tokio::test]
async fn connections_have_a_number() {
    let setup = Setup::default().set("limits.connections_max", 1);
    let sidecar: Sidecar = setup.start().await;
    let first = Orchestrator::connect(&sidecar).await;
    first.run_to_end(turn("t", [])).await;
    if let Some(second) = Orchestrator::try_connect(&sidecar).await {
        let status = second.refused(turn("u", [])).await;
        assert!(
            matches!(status.code(), Code::Unavailable | Code::Unknown),
            "{status:?}"
        );
    }
    first.run_to_end(turn("u", [])).await;
}
