//! How large and how many: connections and what travels on them.
//!
//! Never tests a limit by its default alone.

use std::error::Error;

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tonic::Code;

use super::refused_by;
use crate::support::executor::{Executor, hello, text_result};
use crate::support::failure::{code, detail};
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, soon, tools};

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
    let status = orchestrator.refused(above.clone()).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    refused_by(&status, "message_bytes_max", 100_000, 100_001);
    orchestrator.run_to_end(at).await;
    // What carries it on a stream counts, too.
    let asked = pb::StreamTurnsRequest {
        body: Some(pb::stream_turns_request::Body::Run(above)),
    };
    let actual = prost::Message::encoded_len(&asked) as u64;
    let mut turns = orchestrator.turns.clone();
    let streaming = turns.stream_turns(tokio_stream::once(asked));
    let mut stream = soon("the headers", streaming).await.unwrap().into_inner();
    let status = soon("the end", stream.message()).await.unwrap_err();
    refused_by(&status, "message_bytes_max", 100_000, actual);
}

#[tokio::test]
async fn messages_of_executors_have_a_size_from_the_first_one_on() {
    let setup = Setup::default()
        .set("limits.message_bytes_max", 100_000)
        .set("stream.resume_window_ms", 0);
    let sidecar = setup.start().await;
    let of = |bytes: usize| {
        let mut tool = tools::echo();
        tool.description = "x".repeat(bytes);
        hello("box", [tool])
    };
    let size = |hello: &pb::Hello| {
        prost::Message::encoded_len(&pb::ConnectRequest {
            body: Some(Word::Hello(hello.clone())),
        })
    };
    let overhead = size(&of(90_000)) - 90_000;
    let at = of(100_000 - overhead);
    assert_eq!(size(&at), 100_000);
    let mut executor = Executor::join(&sidecar, at).await;
    // The stream is open, and so it is told why it ends.
    let text = "x".repeat(100_000);
    executor.answer(&None, text_result(&text)).await;
    let (heard, status) = executor.ended().await;
    let status = status.unwrap();
    assert_eq!(code(&status), "limit_exceeded");
    let limit = detail(&status).limit.unwrap();
    assert_eq!(
        (limit.name.as_str(), limit.allowed),
        ("message_bytes_max", 100_000)
    );
    assert!(matches!(heard.last(), Some(Heard::GoAway(_))), "{heard:?}");
    let mut above = Executor::open(&sidecar).await;
    above.say(Word::Hello(of(100_001 - overhead))).await;
    let status = above.ended().await.1.unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    refused_by(&status, "message_bytes_max", 100_000, 100_001);
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
async fn a_connection_has_a_number_of_streams_and_the_next_one_waits() {
    let setup = Setup::default().set("limits.connection_streams_max", 2);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let beside = Orchestrator::connect(&sidecar).await;
    let one = |id: &str| turn(id, [call("c", "echo", "{}")]);
    let mut first = orchestrator.run(one("t1")).await;
    let _second = orchestrator.run(one("t2")).await;
    let (work, _) = (executor.work().await, executor.work().await);
    let mut third = std::pin::pin!(orchestrator.get_turn("t2"));
    // Another connection gets this answer many times over meanwhile.
    for _ in 0..100 {
        tokio::select! {
            biased;
            shown = third.as_mut() => panic!("a third stream was answered: {shown:?}"),
            shown = beside.get_turn("t2") => drop(shown.unwrap()),
        }
    }
    executor.answer_text(&work, "").await;
    first.completed().await;
    third.await.unwrap();
}

#[tokio::test]
async fn connections_have_a_number() {
    let setup = Setup::default().set("limits.connections_max", 1);
    let sidecar: Sidecar = setup.start().await;
    let first = Orchestrator::connect(&sidecar).await;
    first.run_to_end(turn("t", [])).await;
    if let Some(second) = Orchestrator::try_connect(&sidecar).await {
        let status = second.refused(turn("u", [])).await;
        // Which one it is depends on how far the client was when the connection went.
        let gone = [Code::Unavailable, Code::Unknown, Code::Cancelled];
        assert!(gone.contains(&status.code()), "{status:?}");
        // No answer of the sidecar: the connection itself is gone.
        assert!(status.source().is_some(), "{status:?}");
    }
    first.run_to_end(turn("u", [])).await;
}
