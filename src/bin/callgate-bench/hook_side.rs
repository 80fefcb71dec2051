//! `hook`: a hook process in Rust that has no opinion.
//!
//! One question in, one answer out. The same program before the sidecar and before the bare ping.

use callgate::base::mint::Mint;
use callgate::pb::v1 as pb;
use pb::connect_hook_request::Body as Say;
use pb::connect_hook_response::Body as Heard;
use pb::hook_service_client::HookServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::connect::Place;
use crate::lifeline;
use crate::output::data;
use crate::problem::Problem;

/// Answers that may wait to be sent.
const ANSWERS_MAX: usize = 64;

/// A hook before every call that answers PROCEED.
#[derive(Debug, clap::Args)]
pub(crate) struct HookSide {
    #[command(flatten)]
    place: Place,
    /// End when standard input ends.
    #[arg(long)]
    lifeline: bool,
}

impl HookSide {
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let (say, said) = mpsc::channel(ANSWERS_MAX);
        say_to(&say, Say::Hello(hello())).await?;
        let mut client = HookServiceClient::new(self.place.connect().await?);
        let heard = client.connect_hook(ReceiverStream::new(said)).await?;
        tokio::select! {
            ended = answer(heard.into_inner(), say) => ended,
            () = lifeline::cut(self.lifeline) => Ok(()),
        }
    }
}

fn hello() -> pb::HookHello {
    pb::HookHello {
        hooks: vec![pb::HookRegistration {
            hook_id: "bench".to_owned(),
            points: vec![pb::HookPoint::BeforeToolCall as i32],
            ..pb::HookRegistration::default()
        }],
        instance_id: Mint::new().id(),
        max_concurrent_invocations: 16,
        ..pb::HookHello::default()
    }
}

async fn say_to(say: &mpsc::Sender<pb::ConnectHookRequest>, body: Say) -> Result<(), Problem> {
    let message = pb::ConnectHookRequest { body: Some(body) };
    let sent = say.send(message).await;
    sent.map_err(|_| Problem::Unexpected("the stream of a hook ended".to_owned()))
}

async fn answer(
    mut heard: Streaming<pb::ConnectHookResponse>,
    say: mpsc::Sender<pb::ConnectHookRequest>,
) -> Result<(), Problem> {
    // Whoever asks ends first, and need not do so in order.
    while let Ok(Some(message)) = heard.message().await {
        match message.body {
            Some(Heard::Invocation(asked)) => {
                say_to(&say, Say::Verdict(proceed(asked.invocation_id))).await?;
            }
            Some(Heard::Ping(ping)) => {
                say_to(&say, Say::Pong(pb::Pong { nonce: ping.nonce })).await?;
            }
            Some(Heard::Welcome(welcome)) => {
                if let Some(refused) = welcome.registered.iter().find(|one| one.error.is_some()) {
                    return Err(Problem::Unexpected(format!("refused: {refused:?}")));
                }
                data("ready");
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn proceed(invocation_id: String) -> pb::HookVerdict {
    pb::HookVerdict {
        invocation_id,
        verdict: Some(pb::hook_verdict::Verdict::Before(pb::BeforeVerdict {
            action: pb::BeforeAction::Proceed as i32,
            ..pb::BeforeVerdict::default()
        })),
    }
}
