//! Sessions on their way into their table, and out of it.
//!
//! What is kept of a session is one row: settings and grants, folded. Never decides what a record
//! changes: `fold` does.

use rusqlite::{Connection, OptionalExtension, params};

use super::live::Located;
use super::reader::{ReadError, Snapshot};
use crate::gate::ids::{SessionId, UnixMillis};
use crate::gate::session::StoredSession;
use crate::store::disk::{self, Kind};
use crate::store::fold::{Fact, fold_session, newest_of_each};
use crate::store::frame;

/// Whether records of that kind change what is kept of a session.
pub(super) fn is_of_session(kind: Kind) -> bool {
    matches!(kind, Kind::SessionPut | Kind::GrantsPut)
}

/// Folds a fact into its session's row.
pub(super) fn settle(connection: &Connection, fact: Fact) -> rusqlite::Result<()> {
    let Some(session) = fact.session().cloned() else {
        return Ok(());
    };
    let mut known = match row(connection, session.as_str())? {
        None => None,
        Some(body) => match disk::stored_session(&body) {
            Ok(session) => Some(session),
            Err(error) => {
                tracing::error!(%error, %session, "what is kept of a session is unreadable");
                return Ok(());
            }
        },
    };
    fold_session(&mut known, fact);
    if let Some(known) = known {
        let sql = "INSERT OR REPLACE INTO sessions VALUES (?1, ?2, ?3)";
        let touched_at = known.touched_at.0.cast_signed();
        let row = params![session.as_str(), touched_at, disk::session_bytes(&known)];
        connection.prepare_cached(sql)?.execute(row)?;
    }
    Ok(())
}

fn row(connection: &Connection, session: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = "SELECT body FROM sessions WHERE session = ?1";
    let mut select = connection.prepare_cached(sql)?;
    select.query_row([session], |row| row.get(0)).optional()
}

/// Whether the table holds any.
pub(super) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions)";
    connection.query_row(sql, [], |row| row.get(0))
}

/// One session, settled or not.
pub(super) fn read(
    state: &Snapshot<'_>,
    session: &SessionId,
) -> Result<Option<StoredSession>, ReadError> {
    let mut known = match row(state.connection, session.as_str())? {
        Some(body) => Some(disk::stored_session(&body)?),
        None => None,
    };
    let is_its = |record: &Located<'_>| {
        is_of_session(record.head.kind) && record.head.session == session.as_str().as_bytes()
    };
    for record in state.in_journal().filter(is_its) {
        fold_session(&mut known, disk::decode(record.frame)?);
    }
    Ok(known)
}

/// Every session that is kept or had a turn.
pub(super) fn list(state: &Snapshot<'_>) -> Result<Vec<(SessionId, UnixMillis)>, ReadError> {
    let sql = "SELECT session, touched_at FROM sessions
               UNION ALL SELECT session, max(touched_at) FROM runs GROUP BY session";
    let mut select = state.connection.prepare_cached(sql)?;
    let rows = select.query_map([], |row| {
        let (session, at): (String, i64) = (row.get(0)?, row.get(1)?);
        Ok((SessionId::trusted(session), UnixMillis(at.cast_unsigned())))
    })?;
    let settled = rows.collect::<Result<Vec<_>, _>>()?;
    let in_journal = state.in_journal().filter_map(|record| {
        let session = frame::text(record.head.session).filter(|session| !session.is_empty())?;
        Some((SessionId::trusted(session), UnixMillis(record.head.at)))
    });
    Ok(newest_of_each(settled.into_iter().chain(in_journal)))
}

/// Forgets sessions that nobody touched since, and of which no turn is left.
pub(super) fn forget(connection: &Connection, before: u64) -> rusqlite::Result<()> {
    let sql = "SELECT session FROM sessions WHERE touched_at < ?1
               AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.session)";
    let mut select = connection.prepare_cached(sql)?;
    let old = select.query_map([before.cast_signed()], |row| row.get::<_, String>(0))?;
    let old = old.collect::<Result<Vec<_>, _>>()?;
    let mut open =
        connection.prepare_cached("SELECT 1 FROM open_turns WHERE session_hash = ?1 LIMIT 1")?;
    let mut delete = connection.prepare_cached("DELETE FROM sessions WHERE session = ?1")?;
    for session in old {
        let hash = frame::session_hash(session.as_bytes());
        if !open.exists([hash.cast_signed()])? {
            delete.execute([session])?;
        }
    }
    Ok(())
}
