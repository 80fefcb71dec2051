//! `executor`: tools in Rust that answer at once with the text of their arguments.
//!
//! One message in, one message out; acknowledgements are read and dropped. Never the bottleneck of
//! what is measured, and the same program on both sides.

use std::time::Duration;

use bytes::Bytes;
use callgate::base::mint::Mint;
use callgate::pb::v1 as pb;
use callgate_client::connect::AuthorizedChannel;
use pb::connect_request::Body as Say;
use pb::connect_response::Body as Heard;
use pb::executor_service_client::ExecutorServiceClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::connect::Place;
use crate::lifeline;
use crate::output::data;
use crate::payload::{ASKED_TOOL, SCHEMA, TOOL};
use crate::problem::Problem;

/// Most tools in one message.
const TOOLS_PER_MESSAGE: usize = 1_000;
/// Answers that may wait to be sent.
const ANSWERS_MAX: usize = 4_096;
/// Largest message taken.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An executor whose tools answer with the text of their arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Executor {
    #[command(flatten)]
    place: Place,
    /// Tools to register; the first is `echo`.
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// Register `write` too, which must be asked.
    #[arg(long)]
    asked: bool,
    /// Streams, each of an instance of its own.
    #[arg(long, default_value_t = 1)]
    streams: usize,
    /// All streams share one connection.
    #[arg(long)]
    share_connection: bool,
    /// Executions at once, per stream.
    #[arg(long, default_value_t = 1_024)]
    slots: u32,
    /// Time that each call takes, in microseconds; the clock has whole milliseconds.
    #[arg(long, default_value_t = 0)]
    work_us: u64,
    /// End when standard input ends.
    #[arg(long)]
    lifeline: bool,
}

impl Executor {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let mut streams = JoinSet::new();
        let mint = Mint::new();
        let mut shared = None;
        let mut tools = definitions(self.tools);
        if self.asked {
            tools.push(asked());
        }
        for _ in 0..self.streams {
            let channel = match (&shared, self.share_connection) {
                (Some(channel), true) => AuthorizedChannel::clone(channel),
                (None, true) => shared.insert(self.place.connect().await?).clone(),
                (_, false) => self.place.connect().await?,
            };
            let hello = Joined::hello("bench", mint.id(), self.slots);
            let joined = Joined::join(channel, hello, &tools).await?;
            streams.spawn(joined.answer(self.work_us));
        }
        data("ready");
        tokio::select! {
            ended = streams.join_next() => match ended {
                Some(Ok(problem)) => Err(problem),
                Some(Err(_)) | None => Err(Problem::Unexpected("no stream is left".to_owned())),
            },
            () = lifeline::cut(self.lifeline) => Ok(()),
        }
    }
}

/// A tool like `echo` that must be asked.
fn asked() -> pb::ToolDefinition {
    pb::ToolDefinition {
        name: ASKED_TOOL.to_owned(),
        risk_level: pb::RiskLevel::Sensitive as i32,
        kind: pb::ToolKind::Other as i32,
        idempotent: false,
        ..definition(TOOL.to_owned())
    }
}

/// `echo` and fillers of the same form.
fn definitions(count: usize) -> Vec<pb::ToolDefinition> {
    let fillers = (1..count).map(|number| definition(format!("filler_{number:05}")));
    std::iter::once(definition(TOOL.to_owned()))
        .chain(fillers)
        .collect()
}

fn definition(name: String) -> pb::ToolDefinition {
    pb::ToolDefinition {
        name,
        description: "Answers with the text of its arguments.".to_owned(),
        parameters_json: Bytes::from_static(SCHEMA.as_bytes()),
        schema_dialect: pb::SchemaDialect::Core as i32,
        risk_level: pb::RiskLevel::Safe as i32,
        kind: pb::ToolKind::Read as i32,
        idempotent: true,
        ..pb::ToolDefinition::default()
    }
}

/// A stream that was welcomed.
pub(crate) struct Joined {
    /// The way out.
    pub(crate) say: mpsc::Sender<pb::ConnectRequest>,
    /// The way in.
    pub(crate) heard: Streaming<pb::ConnectResponse>,
}

impl Joined {
    /// The hello of one instance, without its tools.
    pub(crate) fn hello(name: &str, instance_id: String, slots: u32) -> pb::Hello {
        pb::Hello {
            executor_name: name.to_owned(),
            instance_id,
            max_concurrent_executions: slots,
            capabilities: vec![
                pb::ExecutorCapability::Resume as i32,
                pb::ExecutorCapability::Output as i32,
            ],
            ..pb::Hello::default()
        }
    }

    /// Says hello, registers all tools, and makes sure that each was taken.
    pub(crate) async fn join(
        channel: AuthorizedChannel,
        mut hello: pb::Hello,
        tools: &[pb::ToolDefinition],
    ) -> Result<Self, Problem> {
        let (say, said) = mpsc::channel(ANSWERS_MAX);
        let mut client = ExecutorServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let heard = client
            .connect(ReceiverStream::new(said))
            .await?
            .into_inner();
        let mut joined = Self { say, heard };
        let mut chunks = tools.chunks(TOOLS_PER_MESSAGE);
        hello.tools = chunks.next().unwrap_or_default().to_vec();
        joined.send(Say::Hello(hello)).await?;
        joined.await_registrations().await?;
        for (number, chunk) in chunks.enumerate() {
            let update = pb::ToolUpdate {
                update_id: number.to_string(),
                upsert: chunk.to_vec(),
                remove: Vec::new(),
            };
            joined.send(Say::ToolUpdate(update)).await?;
            joined.await_registrations().await?;
        }
        Ok(joined)
    }

    async fn await_registrations(&mut self) -> Result<(), Problem> {
        loop {
            let registrations = match self.next().await? {
                Heard::Welcome(welcome) => welcome.registrations,
                Heard::ToolUpdateResult(result) => result.registrations,
                Heard::Ping(ping) => {
                    self.send(Say::Pong(pb::Pong { nonce: ping.nonce })).await?;
                    continue;
                }
                other @ (Heard::Execute(_)
                | Heard::ResultAck(_)
                | Heard::Cancel(_)
                | Heard::OutputCredit(_)
                | Heard::PermissionCheck(_)
                | Heard::ResolveFacts(_)
                | Heard::Pong(_)
                | Heard::DrainStarted(_)
                | Heard::GoAway(_)
                | Heard::Notice(_)) => {
                    return Err(Problem::Unexpected(format!("not a welcome: {other:?}")));
                }
            };
            let refused = registrations
                .iter()
                .find(|registration| registration.state() != pb::RegistrationState::Active);
            return match refused {
                None => Ok(()),
                Some(refused) => Err(Problem::Unexpected(format!(
                    "tool `{}` was refused: {:?}",
                    refused.name, refused.error
                ))),
            };
        }
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Heard, Problem> {
        let message = self.heard.message().await?;
        message
            .and_then(|message| message.body)
            .ok_or_else(|| Problem::Unexpected("the stream of an executor ended".to_owned()))
    }

    /// Says one thing.
    pub(crate) async fn send(&self, body: Say) -> Result<(), Problem> {
        let message = pb::ConnectRequest { body: Some(body) };
        let sent = self.say.send(message).await;
        sent.map_err(|_| Problem::Unexpected("the stream of an executor ended".to_owned()))
    }

    /// Answers until the stream ends; returns why.
    async fn answer(mut self, work_us: u64) -> Problem {
        let mut at_work = JoinSet::new();
        loop {
            let heard = match self.next().await {
                Ok(heard) => heard,
                Err(problem) => return problem,
            };
            let answer = match heard {
                Heard::Execute(request) if work_us > 0 => {
                    let say = self.say.clone();
                    at_work.spawn(async move {
                        tokio::time::sleep(Duration::from_micros(work_us)).await;
                        let body = Some(echo(request));
                        // A stream that has ended needs no answer.
                        let _ = say.send(pb::ConnectRequest { body }).await;
                    });
                    while at_work.try_join_next().is_some() {}
                    continue;
                }
                Heard::Execute(request) => echo(request),
                Heard::Ping(ping) => Say::Pong(pb::Pong { nonce: ping.nonce }),
                Heard::Notice(notice) => {
                    return Problem::Unexpected(format!("notice: {}", notice.message));
                }
                Heard::GoAway(_) => return Problem::Unexpected("told to go".to_owned()),
                Heard::Welcome(_)
                | Heard::ResultAck(_)
                | Heard::Cancel(_)
                | Heard::OutputCredit(_)
                | Heard::PermissionCheck(_)
                | Heard::ResolveFacts(_)
                | Heard::Pong(_)
                | Heard::ToolUpdateResult(_)
                | Heard::DrainStarted(_) => continue,
            };
            if let Err(problem) = self.send(answer).await {
                return problem;
            }
        }
    }
}

/// The one answer: the text of the arguments.
fn echo(request: pb::ExecuteRequest) -> Say {
    let text = String::from_utf8(request.arguments_json.into()).unwrap_or_default();
    Say::Result(pb::ExecuteResult {
        execution: request.execution,
        outcome: Some(pb::execute_result::Outcome::Result(pb::ToolResult {
            contents: vec![pb::ContentPart {
                content: Some(pb::content_part::Content::Text(text)),
            }],
            ..pb::ToolResult::default()
        })),
    })
}
