//! An executor that says exactly what a test wants it to say, true or not.
//!
//! Driven by the test: it reads only when asked to, and then answers pings by itself.

use std::collections::VecDeque;

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::executor_service_client::ExecutorServiceClient;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::sidecar::Sidecar;
use super::soon;

/// Messages that wait to be sent.
const OUT_MAX: usize = 64;

/// A hello of a plain executor with room for 16.
pub(crate) fn hello(name: &str, tools: impl IntoIterator<Item = pb::ToolDefinition>) -> pb::Hello {
    pb::Hello {
        executor_name: name.to_owned(),
        tools: tools.into_iter().collect(),
        max_concurrent_executions: 16,
        ..pb::Hello::default()
    }
}

/// A hello of one that keeps results and says when it has a call.
pub(crate) fn resuming(
    name: &str,
    instance: &str,
    tools: impl IntoIterator<Item = pb::ToolDefinition>,
) -> pb::Hello {
    pb::Hello {
        instance_id: instance.to_owned(),
        capabilities: vec![
            pb::ExecutorCapability::Resume as i32,
            pb::ExecutorCapability::Output as i32,
        ],
        ..hello(name, tools)
    }
}

/// The same process again, after its stream broke.
pub(crate) fn again(
    mut hello: pb::Hello,
    token: &str,
    in_flight: impl IntoIterator<Item = (pb::ExecutionRef, pb::InFlightState)>,
) -> pb::Hello {
    token.clone_into(&mut hello.resume_token);
    hello.in_flight = in_flight
        .into_iter()
        .map(|(execution, state)| pb::InFlightExecution {
            execution: Some(execution),
            state: state as i32,
        })
        .collect();
    hello
}

/// A stream of an executor.
pub(crate) struct Executor {
    /// None: it has closed its half.
    out: Option<mpsc::Sender<pb::ConnectRequest>>,
    inbound: Streaming<pb::ConnectResponse>,
    /// Read, and not asked for yet.
    aside: VecDeque<Heard>,
    /// The answer to the hello; empty before it.
    pub(crate) welcome: pb::Welcome,
    /// False: stays silent to pings.
    pub(crate) answers_pings: bool,
}

impl Executor {
    /// Connects and says hello, which must be welcome.
    pub(crate) async fn join(sidecar: &Sidecar, hello: pb::Hello) -> Self {
        let mut executor = Self::open(sidecar).await;
        executor.say(Word::Hello(hello)).await;
        executor.welcome = executor.welcomed().await;
        executor
    }

    /// Connects and says nothing.
    pub(crate) async fn open(sidecar: &Sidecar) -> Self {
        let (out, words) = mpsc::channel(OUT_MAX);
        let mut client = ExecutorServiceClient::new(sidecar.channel().await);
        let connecting = client.connect(ReceiverStream::new(words));
        let inbound = soon("the headers", connecting).await.unwrap().into_inner();
        Self {
            out: Some(out),
            inbound,
            aside: VecDeque::new(),
            welcome: pb::Welcome::default(),
            answers_pings: true,
        }
    }

    /// Says something.
    pub(crate) async fn say(&self, word: Word) {
        self.say_message(pb::ConnectRequest { body: Some(word) })
            .await;
    }

    /// Sends a message whatever its body. A stream that has ended swallows it.
    pub(crate) async fn say_message(&self, message: pb::ConnectRequest) {
        if let Some(out) = &self.out {
            let _ = soon("room to say something", out.send(message)).await;
        }
    }

    /// Closes its half of the stream; what the sidecar still says can be read.
    pub(crate) fn hang_up_politely(&mut self) {
        self.out = None;
    }

    /// The nonce of the next ping, which is not answered.
    pub(crate) async fn pinged(&mut self) -> u32 {
        loop {
            let message = soon("a ping", self.inbound.message()).await.unwrap();
            let heard = message.expect("the stream ended").body.unwrap();
            let Heard::Ping(ping) = heard else {
                self.aside.push_back(heard);
                continue;
            };
            return ping.nonce;
        }
    }

    /// Hangs up.
    pub(crate) fn hang_up(self) {
        drop(self);
    }

    /// The next word of the sidecar; pings are answered on the way. An error: how the stream ended.
    pub(crate) async fn hear(&mut self) -> Result<Heard, Option<Status>> {
        loop {
            let message = soon("a word of the sidecar", self.inbound.message()).await;
            let heard = message.map_err(Some)?.ok_or(None)?.body.unwrap();
            let Heard::Ping(ping) = heard else {
                return Ok(heard);
            };
            if self.answers_pings {
                self.say(Word::Pong(pb::Pong { nonce: ping.nonce })).await;
            }
        }
    }

    /// The first word that `pick` takes; others are put aside.
    pub(crate) async fn hear_some<T>(&mut self, what: &str, pick: fn(&Heard) -> Option<T>) -> T {
        if let Some(position) = self.aside.iter().position(|heard| pick(heard).is_some()) {
            let heard = self.aside.remove(position).unwrap();
            return pick(&heard).unwrap();
        }
        let until_it_comes = async {
            loop {
                match self.hear().await {
                    Ok(heard) => match pick(&heard) {
                        Some(picked) => return picked,
                        None => self.aside.push_back(heard),
                    },
                    Err(end) => panic!("the stream ended with {end:?} before {what}"),
                }
            }
        };
        // Pings in between do not prolong it.
        soon(what, until_it_comes).await
    }

    pub(crate) async fn welcomed(&mut self) -> pb::Welcome {
        self.hear_some("a welcome", |heard| {
            let Heard::Welcome(welcome) = heard else {
                return None;
            };
            Some(welcome.clone())
        })
        .await
    }

    /// The next call to execute.
    pub(crate) async fn work(&mut self) -> pb::ExecuteRequest {
        self.hear_some("work", |heard| {
            let Heard::Execute(request) = heard else {
                return None;
            };
            Some(request.clone())
        })
        .await
    }

    /// The next question for a tool about a call.
    pub(crate) async fn checks(&mut self) -> pb::PermissionCheckRequest {
        self.hear_some("a question for a tool", |heard| {
            let Heard::PermissionCheck(request) = heard else {
                return None;
            };
            Some(request.clone())
        })
        .await
    }

    /// Says what the tool thinks.
    pub(crate) async fn verdict(&self, check_id: &str, verdict: pb::PermissionCheckVerdict) {
        self.say(Word::PermissionCheckResult(pb::PermissionCheckResult {
            check_id: check_id.to_owned(),
            verdict: verdict as i32,
            reason_for_user: "for the user".to_owned(),
            reason_for_model: "for the model".to_owned(),
        }))
        .await;
    }

    /// The next question about paths.
    pub(crate) async fn resolves(&mut self) -> pb::ResolveFactsRequest {
        self.hear_some("a question about paths", |heard| {
            let Heard::ResolveFacts(request) = heard else {
                return None;
            };
            Some(request.clone())
        })
        .await
    }

    /// Says what paths are: (pointer, value, canonical).
    pub(crate) async fn facts(&self, request_id: &str, facts: &[(&str, &str, &str)]) {
        let facts = facts
            .iter()
            .map(|(pointer, value, canonical)| pb::SubjectFact {
                pointer: (*pointer).to_owned(),
                value: (*value).to_owned(),
                canonical: (*canonical).to_owned(),
                ..pb::SubjectFact::default()
            });
        self.say(Word::ResolveFactsResult(pb::ResolveFactsResult {
            request_id: request_id.to_owned(),
            facts: facts.collect(),
        }))
        .await;
    }

    /// What became of a result.
    pub(crate) async fn acked(&mut self) -> pb::ResultAckStatus {
        self.hear_some("an acknowledgement", |heard| {
            let Heard::ResultAck(ack) = heard else {
                return None;
            };
            Some(ack.status())
        })
        .await
    }

    /// The next wish to stop something.
    pub(crate) async fn told_to_stop(&mut self) -> pb::CancelExecution {
        self.hear_some("a cancellation", |heard| {
            let Heard::Cancel(cancel) = heard else {
                return None;
            };
            Some(cancel.clone())
        })
        .await
    }

    /// The code of the next notice.
    pub(crate) async fn noticed(&mut self) -> String {
        self.hear_some("a notice", |heard| {
            let Heard::Notice(notice) = heard else {
                return None;
            };
            Some(notice.code.clone())
        })
        .await
    }

    /// Reads everything that still comes, to the end of the stream.
    pub(crate) async fn ended(&mut self) -> (Vec<Heard>, Option<Status>) {
        let mut heard: Vec<Heard> = self.aside.drain(..).collect();
        let until_the_end = async {
            loop {
                match self.hear().await {
                    Ok(word) => heard.push(word),
                    Err(end) => return end,
                }
            }
        };
        let end = soon("the end of the stream", until_the_end).await;
        (heard, end)
    }

    /// Says that it has a call and that the handler runs.
    pub(crate) async fn accept(&self, request: &pb::ExecuteRequest) {
        self.say(Word::Accepted(pb::ExecuteAccepted {
            execution: request.execution.clone(),
            queued: false,
        }))
        .await;
    }

    /// Answers a call.
    pub(crate) async fn answer(
        &self,
        execution: &Option<pb::ExecutionRef>,
        result: pb::ToolResult,
    ) {
        self.say(Word::Result(pb::ExecuteResult {
            execution: execution.clone(),
            outcome: Some(pb::execute_result::Outcome::Result(result)),
        }))
        .await;
    }

    /// Answers a call with a text.
    pub(crate) async fn answer_text(&self, request: &pb::ExecuteRequest, text: &str) {
        self.answer(&request.execution, text_result(text)).await;
    }

    /// Says that the handler stopped because it was told to.
    pub(crate) async fn answer_cancelled(
        &self,
        execution: &Option<pb::ExecutionRef>,
        effect: pb::CallEffect,
    ) {
        self.say(Word::Result(pb::ExecuteResult {
            execution: execution.clone(),
            outcome: Some(pb::execute_result::Outcome::Cancelled(
                pb::ExecutionCancelled {
                    effect: effect as i32,
                    message: String::new(),
                },
            )),
        }))
        .await;
    }

    /// Prints something.
    pub(crate) async fn print(&self, request: &pb::ExecuteRequest, sequence: u64, data: &[u8]) {
        self.say(Word::Output(pb::OutputChunk {
            execution: request.execution.clone(),
            channel: pb::OutputChannel::Stdout as i32,
            chunk_sequence: sequence,
            data: data.to_vec().into(),
            dropped_bytes: 0,
        }))
        .await;
    }

    /// Reports how far a call is.
    pub(crate) async fn report(&self, request: &pb::ExecuteRequest, message: &str) {
        self.say(Word::Progress(pb::ExecutionProgress {
            execution: request.execution.clone(),
            message: message.to_owned(),
            ..pb::ExecutionProgress::default()
        }))
        .await;
    }

    /// Proves that nothing came for it until now: everything said before was heard before the answer.
    pub(crate) async fn has_no_work(&mut self) {
        self.say(Word::ToolUpdate(pb::ToolUpdate {
            update_id: "are you done?".to_owned(),
            ..pb::ToolUpdate::default()
        }))
        .await;
        self.hear_some("the answer", |heard| {
            matches!(heard, Heard::ToolUpdateResult(_)).then_some(())
        })
        .await;
        let work = self
            .aside
            .iter()
            .find(|heard| matches!(heard, Heard::Execute(_)));
        assert_eq!(work, None);
    }

    /// Gives a call back.
    pub(crate) async fn reject(&self, request: &pb::ExecuteRequest, reason: pb::RejectReason) {
        self.say(Word::Rejected(pb::ExecuteRejected {
            execution: request.execution.clone(),
            reason: reason as i32,
            message: String::new(),
            retry_after_ms: 0,
        }))
        .await;
    }
}

/// A result of one text.
pub(crate) fn text_result(text: &str) -> pb::ToolResult {
    pb::ToolResult {
        contents: vec![pb::ContentPart {
            content: Some(pb::content_part::Content::Text(text.to_owned())),
        }],
        ..pb::ToolResult::default()
    }
}
