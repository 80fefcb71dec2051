//! `callgate audit verify`: whether the chain is whole, and who says so.
//!
//! Without a running sidecar it reads the data directory or an export, and changes neither. Exit 0
//! whole, 1 not, 2 could not tell.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use callgate_client::pb::v1 as pb;
use serde_json::json;

use super::ConfigArguments;
use super::audit::connect;
use super::client::{ClientArguments, block_on, failed};
use super::output::{Outcome, data, note, outcome};
use super::sidecar::{AUDIT_KEY_FILE, STORE_FILE};
use crate::gate::audit::{Begin, Broken, Checkpoint, Head, Line, Problem, hex, parse_hex};
use crate::gate::result::Digest;
use crate::store::SqliteAudit;
use crate::store::audit::{AuditRow, AuditSlice};
use crate::store::audit_check::{Check, Range, Report};
use crate::store::signer::Signer;

/// Most checkpoints that are compared.
const CHECKPOINTS_MAX: usize = 1_000_000;
/// Longest line of an export, in bytes.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Say whether the chain is whole.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// An export. Default: the store in the data directory.
    #[arg(long, value_name = "FILE", conflicts_with = "online")]
    file: Option<PathBuf>,
    /// The export may begin with any record: it is a part.
    #[arg(long, requires = "file")]
    part: bool,
    /// Ask the running sidecar instead of reading its data.
    #[arg(long)]
    online: bool,
    /// Signed heads that were kept outside, one a line.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// A public key whose signatures hold, besides that of the data directory. May be repeated.
    #[arg(long, value_name = "HEX")]
    public_key: Vec<String>,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    client: ClientArguments,
}

impl Verify {
    pub(super) fn run(self) -> Outcome {
        let found = match (self.online, &self.file) {
            (true, _) => block_on(self.ask()),
            (false, Some(file)) => self.check_file(file),
            (false, None) => self.check_store(),
        };
        outcome(found.and_then(|report| self.tell(&report)))
    }

    fn tell(&self, report: &Report) -> Result<(), Outcome> {
        let broken = report.broken;
        let untold = report.untold();
        if self.json {
            data(
                &json!({
                    "intact": broken.is_none() && untold.is_none(),
                    "first_bad_sequence": broken.map_or(0, |broken| broken.sequence),
                    "problem": broken.map(|broken| broken.problem.as_str()),
                    "checked_records": report.checked,
                    "first_kept_sequence": report.first,
                    "dropped_to_sequence": dropped_to(report),
                    "head_sequence": report.head.sequence,
                    "head_hash": hex(&report.head.hash.0),
                    "checkpoints": report.checkpoints,
                    "signed_to_sequence": report.signed_to,
                })
                .to_string(),
            );
        } else {
            self.tell_people(report);
        }
        match (broken, untold) {
            (None, None) => Ok(()),
            (None, Some(untold)) => Err(Outcome::failed(match report.foreign {
                Some(_) => format!(
                    "{untold}\n\nhint: if that key was lost, give its public half with `--public-key` or \
                     `audit.trusted_keys`"
                ),
                None => untold,
            })),
            (Some(_), _) if self.json => Err(Outcome::no("")),
            (Some(broken), _) => Err(Outcome::no(format!("the audit is not whole: {broken}"))),
        }
    }

    fn tell_people(&self, report: &Report) {
        let (first, head) = (report.first, report.head.sequence);
        match report.broken {
            None if report.untold().is_some() => data("unclear it cannot be told"),
            None => data(&format!("intact  {} records", report.checked)),
            Some(broken) => data(&format!("broken  {broken}")),
        }
        if report.checked > 0 {
            data(&format!("good    {first} to {head}"));
            data(&format!("head    {}", report.head.hash));
        }
        match first.saturating_sub(1) {
            0 => {}
            before if dropped_to(report) > 0 => data(&format!(
                "begin   older records, 1 to {before}, were dropped by retention"
            )),
            before => data(&format!("begin   records 1 to {before} are not looked at")),
        }
        match report.signed_to {
            0 => data("signed  nothing: no checkpoint to compare with"),
            to => data(&format!("signed  to {to}")),
        }
    }

    /// Keys whose signatures hold.
    fn trusted(&self) -> Result<Vec<[u8; 32]>, Outcome> {
        let mut keys = Vec::new();
        for text in &self.public_key {
            let wrong = || Outcome::usage("--public-key must have 64 hexadecimal digits");
            keys.push(parse_hex::<32>(text).ok_or_else(wrong)?);
        }
        Ok(keys)
    }

    /// Heads that were kept outside.
    fn outside(&self) -> Result<Vec<Checkpoint>, Outcome> {
        let Some(path) = &self.checkpoint else {
            return Ok(Vec::new());
        };
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let read = lines.map(|line| Checkpoint::from_json(line.as_bytes()));
        let read: Result<Vec<_>, _> = read.collect();
        let problem = |problem: String| Outcome::failed(format!("`{}`: {problem}", path.display()));
        let read = read.map_err(|error| problem(error.to_string()))?;
        match read.is_empty() {
            true => Err(problem("it holds no checkpoint".to_owned())),
            false => Ok(read),
        }
    }

    fn check_store(&self) -> Result<Report, Outcome> {
        let config = self.config.load()?;
        let mut trusted = self.trusted()?;
        let own = config.trusted_keys();
        trusted.extend(own.map_err(|error| Outcome::usage(error.to_string()))?);
        verify_dir(&config.data_dir, self.outside()?, trusted)
    }

    fn check_file(&self, path: &Path) -> Result<Report, Outcome> {
        let mut trusted = self.trusted()?;
        if let Ok(config) = self.config.load() {
            let key = config.data_dir.join(AUDIT_KEY_FILE);
            trusted.extend(Signer::public_key_in(&key).ok().flatten());
            trusted.extend(config.trusted_keys().unwrap_or_default());
        }
        let mut checkpoints = self.outside()?;
        let Scan { begins, own } = scan(path)?;
        if trusted.is_empty()
            && let Some(own) = &own
        {
            note(&format!(
                "callgate: the export's own key is taken on trust: {}",
                own.key_id()
            ));
            trusted.push(own.public_key);
        }
        checkpoints.extend(own);
        let mut check = Check::new(Range::default(), &checkpoints, &trusted);
        if self.part {
            check = check.of_a_part();
        }
        let mut has_ended = false;
        for line in lines_of(path)? {
            let line = line?;
            match Line::read(&line) {
                Ok(line) if !has_ended => check.take(&one(line)),
                Err(_) if !has_ended && line.starts_with(CHECKPOINT_START) => has_ended = true,
                Ok(_) | Err(_) => check.found(Broken {
                    sequence: check.expected().unwrap_or(begins),
                    problem: Problem::Altered,
                }),
            }
            if check.report().broken.is_some() {
                return Ok(check.report());
            }
        }
        check.take(&AuditSlice::default());
        self.vouched(check.report())
    }

    /// Without a signature over its last record nobody can tell whether an export is all of it.
    fn vouched(&self, report: Report) -> Result<Report, Outcome> {
        let must_be = !self.part || !self.public_key.is_empty();
        let is_open = report.checkpoints == 0 || report.signed_to < report.head.sequence;
        if report.broken.is_none() && report.foreign.is_none() && must_be && is_open {
            let to = report.signed_to;
            return Err(Outcome::failed(format!(
                "the export is signed to record {to} only: whether it is whole behind that cannot be told"
            )));
        }
        Ok(report)
    }

    async fn ask(&self) -> Result<Report, Outcome> {
        let checkpoint = self
            .outside()?
            .into_iter()
            .max_by_key(|one| one.head.sequence);
        let checkpoint = checkpoint.map(|one| pb::AuditCheckpoint {
            sequence: one.head.sequence,
            record_hash: Bytes::copy_from_slice(&one.head.hash.0),
            signed_at_ms: one.signed_at.0,
            key_id: one.key_id(),
            signature: Bytes::copy_from_slice(&one.signature),
        });
        let request = pb::VerifyAuditRequest {
            first_sequence: 0,
            last_sequence: 0,
            checkpoint,
        };
        let answer = connect(&self.client).await?.verify_audit(request).await;
        let answer = answer.map_err(|status| failed(&status))?.into_inner();
        let problem = match answer.problem() {
            pb::AuditProblem::Unspecified if !answer.intact => {
                return Err(Outcome::failed(
                    "the sidecar cannot tell; `callgate audit verify` beside its data says why",
                ));
            }
            pb::AuditProblem::Unspecified | pb::AuditProblem::Altered => Problem::Altered,
            pb::AuditProblem::Gap => Problem::Gap,
            pb::AuditProblem::Unlinked => Problem::Unlinked,
            pb::AuditProblem::Truncated => Problem::Truncated,
            pb::AuditProblem::CheckpointMismatch => Problem::CheckpointMismatch,
        };
        Ok(Report {
            broken: (!answer.intact).then_some(Broken {
                sequence: answer.first_bad_sequence,
                problem,
            }),
            checked: answer.checked_records,
            first: answer.first_kept_sequence,
            // All of it was asked for: what is before the first one was dropped, or it were not whole.
            begin: match answer.first_kept_sequence > 1 && answer.intact {
                true => Begin::Dropped,
                false => Begin::Plain,
            },
            head: Head {
                sequence: answer.head_sequence,
                hash: Digest::from_slice(&answer.head_hash).unwrap_or(Digest([0; 32])),
            },
            checkpoints: 0,
            signed_to: answer.signed_to_sequence,
            foreign: None,
        })
    }
}

/// Verifies the store of a data directory against its own checkpoints and others'.
pub(super) fn verify_dir(
    dir: &Path,
    outside: Vec<Checkpoint>,
    mut trusted: Vec<[u8; 32]>,
) -> Result<Report, Outcome> {
    let store = dir.join(STORE_FILE);
    let failed = |error: crate::store::StoreError| {
        Outcome::failed(format!("{error}: `{}`", store.display()))
    };
    let key = dir.join(AUDIT_KEY_FILE);
    trusted.extend(Signer::public_key_in(&key).map_err(|error| unreadable(&key, &error))?);
    let audit = SqliteAudit::open(&store).map_err(failed)?;
    let mut checkpoints = outside;
    checkpoints.extend(
        audit
            .checkpoints(u64::MAX, CHECKPOINTS_MAX)
            .map_err(failed)?,
    );
    let mut check = Check::new(Range::default(), &checkpoints, &trusted);
    while let Some(ask) = check.ask() {
        check.take(&audit.read(&ask).map_err(failed)?);
    }
    Ok(check.report())
}

/// How the last line of an export begins.
const CHECKPOINT_START: &[u8] = b"{\"checkpoint\":";

/// What must be known of an export before it is read record by record.
struct Scan {
    /// The record that its first line stands for, were it the right one.
    begins: u64,
    /// The checkpoint at its end. None: it has none.
    own: Option<Checkpoint>,
}

fn scan(path: &Path) -> Result<Scan, Outcome> {
    let mut begins = None;
    let mut own = None;
    for (place, line) in (0..).zip(lines_of(path)?) {
        let line = line?;
        let Some(inner) = line.strip_prefix(CHECKPOINT_START) else {
            // The first line may be the one that is altered.
            begins =
                begins.or_else(|| Some(Line::read(&line).ok()?.sequence.saturating_sub(place)));
            continue;
        };
        let wrong = |problem: &str| {
            Outcome::no(format!("the audit is not whole: the checkpoint: {problem}"))
        };
        let inner = inner.strip_suffix(b"}");
        let inner = inner.ok_or_else(|| wrong("its line is not whole"))?;
        let read = Checkpoint::from_json(inner);
        own = Some(read.map_err(|error| wrong(&error.to_string()))?);
    }
    let begins = begins.unwrap_or_default().max(1);
    Ok(Scan { begins, own })
}

/// The last record that retention dropped. Zero: none, or nothing says so.
fn dropped_to(report: &Report) -> u64 {
    match report.begin {
        Begin::Dropped => report.first.saturating_sub(1),
        Begin::Plain | Begin::Unsigned => 0,
    }
}

/// One record, with more to come.
fn one(line: Line) -> AuditSlice {
    AuditSlice {
        next: Some(line.sequence.saturating_add(1)),
        rows: vec![AuditRow {
            place: line.sequence,
            record_json: line.record_json,
            previous: line.previous,
            hash: line.hash,
        }],
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Outcome {
    Outcome::failed(format!("`{}`: {error}", path.display()))
}

/// The lines of a file, without their ends. One that is too long ends them with an error.
fn lines_of(path: &Path) -> Result<impl Iterator<Item = Result<Bytes, Outcome>>, Outcome> {
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut reader = std::io::BufReader::with_capacity(1 << 20, file);
    let path = path.to_owned();
    Ok(std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut reader, LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut line);
        match read {
            Err(error) => Some(Err(unreadable(&path, &error))),
            Ok(0) => None,
            Ok(length) if length > LINE_BYTES_MAX => {
                let problem = format!("`{}`: a line is too long", path.display());
                Some(Err(Outcome::failed(problem)))
            }
            Ok(_) => {
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                Some(Ok(Bytes::from(line)))
            }
        }
    }))
}
