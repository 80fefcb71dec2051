//! Runs on their way into their table.
//!
//! What several records say about a run is folded first, so that each costs one row. Never ends a run
//! by itself.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::live::Located;
use crate::gate::event::RunSummary;
use crate::store::disk;
use crate::store::fold::fold_run;
use crate::store::frame;

/// Runs as a slice leaves them.
#[derive(Default)]
pub(super) struct Runs<'a> {
    pub(super) by_name: BTreeMap<RunName<'a>, (RunSummary, u64)>,
}

/// A run's session and name; its hash first, so that texts are compared only where it is the same.
pub(super) type RunName<'a> = (u64, &'a [u8], &'a [u8]);

impl<'a> Runs<'a> {
    pub(super) fn take(&mut self, record: &Located<'a>) {
        let head = &record.head;
        let Some(state) = head.run_state else {
            return;
        };
        let name = (
            frame::key_hash(head.session, head.run),
            head.session,
            head.run,
        );
        let known = self.by_name.get_mut(&name);
        // Most records only say that the run goes on, and how far it is.
        if let (Some((known, touched_at)), Some((true, rounds))) =
            (known, frame::run_progress(state))
        {
            known.rounds = known.rounds.max(rounds);
            *touched_at = (*touched_at).max(head.at);
            return;
        }
        let Some(run) = read_run(state, head.session, head.run) else {
            tracing::error!("the run of a record is unreadable and is left out");
            return;
        };
        let known = self
            .by_name
            .entry(name)
            .or_insert_with(|| (run.clone(), head.at));
        fold_run(&mut known.0, run);
        known.1 = known.1.max(head.at);
    }

    pub(super) fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let mut select = connection
            .prepare_cached("SELECT body, touched_at FROM runs WHERE session = ?1 AND run = ?2")?;
        let mut write =
            connection.prepare_cached("INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4)")?;
        for (run, touched_at) in self.by_name.into_values() {
            let (session, name) = (run.session.clone(), run.run.clone());
            let (session, name) = (session.as_str(), name.as_str());
            let known = select
                .query_row([session, name], |row| {
                    let touched_at: i64 = row.get(1)?;
                    let body = row.get_ref(0)?.as_blob()?;
                    Ok((disk::run_summary(body, session, name).ok(), touched_at))
                })
                .optional()?;
            let (run, touched_at) = match known {
                Some((Some(mut known), before)) => {
                    fold_run(&mut known, run);
                    (known, touched_at.max(before.cast_unsigned()))
                }
                Some((None, _)) | None => (run, touched_at),
            };
            let touched_at = touched_at.cast_signed();
            write.execute(params![session, name, touched_at, disk::run_bytes(&run)])?;
        }
        Ok(())
    }
}

fn read_run(state: &[u8], session: &[u8], run: &[u8]) -> Option<RunSummary> {
    disk::run_summary(state, frame::text(session)?, frame::text(run)?).ok()
}
