//! A hook process that says exactly what a test wants it to say, true or not.
//!
//! Driven by the test: it reads only when asked to, and then answers pings by itself.

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::hook_service_client::HookServiceClient;
use pb::connect_hook_request::Body as Word;
use pb::connect_hook_response::Body as Heard;
use pb::hook_verdict::Verdict;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::sidecar::Sidecar;
use super::soon;

/// Messages that wait to be sent.
const OUT_MAX: usize = 64;

/// A hook of these points.
pub(crate) fn registration(id: &str, points: &[pb::HookPoint]) -> pb::HookRegistration {
    pb::HookRegistration {
        hook_id: id.to_owned(),
        points: points.iter().map(|point| *point as i32).collect(),
        ..pb::HookRegistration::default()
    }
}

/// A hello of one process with these hooks.
pub(crate) fn hello(
    instance: &str,
    hooks: impl IntoIterator<Item = pb::HookRegistration>,
) -> pb::HookHello {
    pb::HookHello {
        hooks: hooks.into_iter().collect(),
        instance_id: instance.to_owned(),
        max_concurrent_invocations: 4,
        ..pb::HookHello::default()
    }
}

/// What a hook says before a call.
pub(crate) fn before(action: pb::BeforeAction) -> pb::BeforeVerdict {
    pb::BeforeVerdict {
        action: action as i32,
        ..pb::BeforeVerdict::default()
    }
}

/// A stream of a hook process.
pub(crate) struct HookProcess {
    /// None: it has closed its half.
    out: Option<mpsc::Sender<pb::ConnectHookRequest>>,
    inbound: Streaming<pb::ConnectHookResponse>,
    /// The answer to the hello; empty before it.
    pub(crate) welcome: pb::HookWelcome,
}

impl HookProcess {
    /// Connects and says hello, which must be welcome.
    pub(crate) async fn join(sidecar: &Sidecar, hello: pb::HookHello) -> Self {
        let mut process = Self::open(sidecar).await;
        process.say(Word::Hello(hello)).await;
        let heard = process.hear().await.unwrap();
        let Heard::Welcome(welcome) = heard else {
            panic!("no welcome: {heard:?}");
        };
        process.welcome = welcome;
        process
    }

    /// Connects and says nothing.
    pub(crate) async fn open(sidecar: &Sidecar) -> Self {
        let (out, words) = mpsc::channel(OUT_MAX);
        let mut client = HookServiceClient::new(sidecar.control_channel().await);
        let connecting = client.connect_hook(ReceiverStream::new(words));
        let inbound = soon("the headers", connecting).await.unwrap().into_inner();
        Self {
            out: Some(out),
            inbound,
            welcome: pb::HookWelcome::default(),
        }
    }

    /// Says something. A stream that has ended swallows it.
    pub(crate) async fn say(&self, word: Word) {
        if let Some(out) = &self.out {
            let message = pb::ConnectHookRequest { body: Some(word) };
            let _ = soon("room to say something", out.send(message)).await;
        }
    }

    /// Takes its hooks along, and waits for the end.
    pub(crate) async fn leave(mut self) {
        self.say(Word::Leave(pb::HookLeave {})).await;
        self.out = None;
        while self.hear().await.is_ok() {}
    }

    /// Closes its half of the stream without a word, as a process that crashes may, and waits for the
    /// other half.
    pub(crate) async fn crash(mut self) {
        self.out = None;
        while self.hear().await.is_ok() {}
    }

    /// The next word of the sidecar; pings are answered on the way. An error: how the stream ended.
    pub(crate) async fn hear(&mut self) -> Result<Heard, Option<Status>> {
        // Pings do not prolong the wait for anything else.
        let word = async {
            loop {
                let body = match self.inbound.message().await {
                    Ok(Some(message)) => message.body.unwrap(),
                    Ok(None) => return Err(None),
                    Err(status) => return Err(Some(status)),
                };
                let Heard::Ping(ping) = body else {
                    return Ok(body);
                };
                self.say(Word::Pong(pb::Pong { nonce: ping.nonce })).await;
            }
        };
        soon("a word for the hook", word).await
    }

    /// The next question.
    pub(crate) async fn asked(&mut self) -> pb::HookInvocation {
        let heard = self.hear().await.unwrap();
        let Heard::Invocation(invocation) = heard else {
            panic!("no question: {heard:?}");
        };
        invocation
    }

    /// Answers one question.
    pub(crate) async fn answer(&self, invocation: &pb::HookInvocation, verdict: Option<Verdict>) {
        self.say(Word::Verdict(pb::HookVerdict {
            invocation_id: invocation.invocation_id.clone(),
            verdict,
        }))
        .await;
    }

    /// Answers the next question before a call, and returns it.
    pub(crate) async fn says(&mut self, verdict: pb::BeforeVerdict) -> pb::HookInvocation {
        let invocation = self.asked().await;
        let verdict = Some(Verdict::Before(verdict));
        self.answer(&invocation, verdict).await;
        invocation
    }
}
