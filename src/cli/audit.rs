//! `callgate audit`: reads, follows and exports the record of what happened.
//!
//! Verifying is `audit_verify`. Text of others is made visible where a terminal would obey it. Never
//! changes a record.

use std::io::Write;
use std::path::PathBuf;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::audit_service_client::AuditServiceClient;
use clap::Subcommand;

use super::audit_verify::Verify;
use super::client::{ClientArguments, block_on, failed};
use super::output::{Outcome, data, foreign, note, outcome};
use super::visible::visible;
use crate::gate::audit::{Checkpoint, Head};
use crate::gate::ids::UnixMillis;
use crate::gate::result::Digest;

/// Most bytes of an answer: the server's own bound is far below.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Read, follow, export and verify the record of what happened.
#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Show the last records, oldest first; with --follow, those that come as well.
    Tail(Tail),
    /// Find records, newest first.
    Search(Search),
    /// Say whether the chain is whole, from a data directory, an export, or a running sidecar.
    Verify(Verify),
    /// Write records as lines of JSON, to verify them elsewhere.
    Export(Export),
}

/// Which records.
#[derive(Debug, Clone, Default, clap::Args)]
struct Which {
    /// Of this session.
    #[arg(long, default_value = "")]
    session: String,
    /// Of this run.
    #[arg(long, default_value = "")]
    run: String,
    /// Of this turn.
    #[arg(long, default_value = "")]
    turn: String,
    /// Of this call.
    #[arg(long, default_value = "")]
    call: String,
    /// Of this tool, or of those that a glob fits.
    #[arg(long, default_value = "")]
    tool: String,
    /// By this principal, e.g. uid:1000.
    #[arg(long, default_value = "")]
    principal: String,
    /// Of this kind, e.g. approval.decided, or approval. May be repeated.
    #[arg(long)]
    kind: Vec<String>,
    /// Written at or after this moment, in Unix milliseconds.
    #[arg(long, value_name = "MS")]
    since: Option<u64>,
    /// Written before this moment, in Unix milliseconds.
    #[arg(long, value_name = "MS")]
    until: Option<u64>,
    /// Whose text contains this, letter case ignored.
    #[arg(long, default_value = "")]
    text: String,
}

impl Which {
    fn filter(&self) -> pb::AuditFilter {
        let own = self.clone();
        pb::AuditFilter {
            session_id: own.session,
            run_id: own.run,
            turn_id: own.turn,
            call_id: own.call,
            tool: own.tool,
            principal: own.principal,
            kinds: own.kind,
            since_ms: own.since,
            until_ms: own.until,
            text: own.text,
        }
    }
}

/// Show the last records, oldest first.
#[derive(Debug, clap::Args)]
pub(super) struct Tail {
    /// How many, at most 1 000.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    lines: u32,
    /// Go on with those that come.
    #[arg(short, long)]
    follow: bool,
    /// Each record as it was hashed, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    client: ClientArguments,
}

/// Find records, newest first.
#[derive(Debug, clap::Args)]
pub(super) struct Search {
    /// Most records.
    #[arg(short = 'n', long, default_value_t = 100)]
    limit: usize,
    /// Each record as it was hashed, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    client: ClientArguments,
}

/// Write records as lines of JSON.
#[derive(Debug, clap::Args)]
pub(super) struct Export {
    /// Where to. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The first record. Default: the first that is kept.
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    first: u64,
    /// The last record. Default: the last that there is.
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    last: u64,
    #[command(flatten)]
    client: ClientArguments,
}

pub(super) type Client = AuditServiceClient<AuthorizedChannel>;

pub(super) async fn connect(client: &ClientArguments) -> Result<Client, Outcome> {
    let channel = client.connect_control().await?;
    Ok(AuditServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX))
}

impl Audit {
    pub(super) fn run(self) -> Outcome {
        match self {
            Audit::Tail(command) => outcome(block_on(command.run())),
            Audit::Search(command) => outcome(block_on(command.run())),
            Audit::Verify(command) => command.run(),
            Audit::Export(command) => outcome(block_on(command.run())),
        }
    }
}

/// Up to `limit` records, newest first, and whether there are more.
async fn list(
    client: &mut Client,
    filter: pb::AuditFilter,
    limit: usize,
) -> Result<Vec<pb::AuditRecord>, Outcome> {
    let mut found = Vec::new();
    let mut page_token = String::new();
    while found.len() < limit {
        let left = u32::try_from(limit - found.len()).unwrap_or(u32::MAX);
        let request = pb::ListAuditRecordsRequest {
            filter: Some(filter.clone()),
            page_size: left.min(1_000),
            page_token: std::mem::take(&mut page_token),
        };
        let answer = client.list_audit_records(request).await;
        let page = answer.map_err(|status| failed(&status))?.into_inner();
        found.extend(page.records);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    Ok(found)
}

impl Tail {
    async fn run(self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        let limit = self.lines as usize;
        let mut last = list(&mut client, self.which.filter(), limit).await?;
        last.reverse();
        last.iter().for_each(|record| show(record, self.json));
        if !self.follow {
            return Ok(());
        }
        let request = pb::WatchAuditRecordsRequest {
            filter: Some(self.which.filter()),
            after_sequence: last.last().map(|record| record.sequence),
        };
        let answer = client.watch_audit_records(request).await;
        let mut records = answer.map_err(|status| failed(&status))?.into_inner();
        loop {
            let message = tokio::select! {
                message = records.message() => message.map_err(|status| failed(&status))?,
                _ = tokio::signal::ctrl_c() => return Ok(()),
            };
            let Some(message) = message else {
                return Err(Outcome::failed("the sidecar ended the stream"));
            };
            message
                .records
                .iter()
                .for_each(|record| show(record, self.json));
        }
    }
}

impl Search {
    async fn run(self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        let found = list(&mut client, self.which.filter(), self.limit).await?;
        found.iter().for_each(|record| show(record, self.json));
        match found.is_empty() {
            true => Err(Outcome::no("no such record")),
            false => Ok(()),
        }
    }
}

fn show(record: &pb::AuditRecord, as_json: bool) {
    let text = String::from_utf8_lossy(&record.record_json);
    if as_json {
        foreign(&text);
        return;
    }
    let moment = i64::try_from(record.recorded_at_ms).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(moment)
        .map_or_else(|_| record.recorded_at_ms.to_string(), |at| at.to_string());
    let names = [
        ("by", &record.principal),
        ("session", &record.session_id),
        ("run", &record.run_id),
        ("turn", &record.turn_id),
        ("call", &record.call_id),
        ("tool", &record.tool),
    ];
    let named = names.into_iter().filter(|(_, value)| !value.is_empty());
    let named: Vec<String> = named
        .map(|(name, value)| format!("{name}={}", visible(value)))
        .collect();
    let (sequence, kind) = (record.sequence, visible(&record.kind));
    data(format!("{sequence}  {moment}  {kind}  {}", named.join(" ")).trim_end());
}

impl Export {
    async fn run(self) -> Result<(), Outcome> {
        let mut client = connect(&self.client).await?;
        let keys = pb::ListAuditCheckpointsRequest {
            page_size: 1,
            page_token: String::new(),
        };
        let answer = client.list_audit_checkpoints(keys).await;
        let key = answer.map_err(|status| failed(&status))?.into_inner();
        let request = pb::ExportAuditRequest {
            filter: None,
            first_sequence: self.first,
            last_sequence: self.last,
        };
        let answer = client.export_audit(request).await;
        let mut lines = answer.map_err(|status| failed(&status))?.into_inner();
        let mut out: Box<dyn Write> = match &self.out {
            Some(path) => {
                let file = std::fs::File::create(path);
                let file = file
                    .map_err(|error| Outcome::failed(format!("`{}`: {error}", path.display())))?;
                Box::new(std::io::BufWriter::new(file))
            }
            None => Box::new(std::io::stdout().lock()),
        };
        let write = |error: std::io::Error| Outcome::failed(format!("the export: {error}"));
        let mut signed = None;
        while let Some(message) = lines.message().await.map_err(|status| failed(&status))? {
            out.write_all(&message.lines).map_err(write)?;
            signed = message.checkpoint.or(signed);
        }
        if let Some(checkpoint) =
            signed.and_then(|signed| read_checkpoint(&signed, &key.public_key))
        {
            let line = [b"{\"checkpoint\":", checkpoint.to_json().as_slice(), b"}\n"].concat();
            out.write_all(&line).map_err(write)?;
        } else {
            note("callgate: the export has no checkpoint");
        }
        out.flush().map_err(write)
    }
}

/// The checkpoint with the key that signed it. None: it is another key's.
fn read_checkpoint(signed: &pb::AuditCheckpoint, public_key: &[u8]) -> Option<Checkpoint> {
    let checkpoint = Checkpoint {
        head: Head {
            sequence: signed.sequence,
            hash: Digest::from_slice(&signed.record_hash)?,
        },
        signed_at: UnixMillis(signed.signed_at_ms),
        public_key: public_key.try_into().ok()?,
        signature: signed.signature.as_ref().try_into().ok()?,
    };
    (checkpoint.key_id() == signed.key_id).then_some(checkpoint)
}
