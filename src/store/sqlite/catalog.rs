//! Records about no turn on their way into their tables.
//!
//! They change rarely and are read once, at start. Never checks a definition.

use rusqlite::{Connection, params};

use super::live::Located;
use super::sessions;
use crate::gate::ids::{HookId, ToolName};
use crate::store::disk;
use crate::store::fold::{Catalog, Change, Fact};

/// Settles a record that is about no turn.
pub(super) fn settle(connection: &Connection, record: &Located<'_>) -> rusqlite::Result<()> {
    let fact = match disk::decode(record.frame) {
        Ok(
            fact @ (Fact::ToolRegistered(_)
            | Fact::ToolRemoved(_)
            | Fact::HookRegistered(_)
            | Fact::HookRemoved(_)
            | Fact::ToolsetPut(_)
            | Fact::ToolsetDeleted(_)),
        ) => fact,
        Ok(fact @ (Fact::SessionPut(_) | Fact::GrantsPut { .. })) => {
            return sessions::settle(connection, fact);
        }
        // Runs are taken up by their heads.
        Ok(Fact::Turn { .. } | Fact::Run(_)) => return Ok(()),
        Err(error) => {
            tracing::error!(%error, "a record of the journal is unreadable and is left out");
            return Ok(());
        }
    };
    let mut catalog = Catalog::default();
    match catalog.fold(record.position, fact) {
        Some(Change::Tool(name)) => write_tool(connection, &catalog, &name),
        Some(Change::Hook(id)) => write_hook(connection, &catalog, &id),
        Some(Change::Toolset(name)) => write_toolset(connection, &catalog, &name),
        None => Ok(()),
    }
}

fn write_tool(connection: &Connection, catalog: &Catalog, name: &ToolName) -> rusqlite::Result<()> {
    match catalog.tool(name) {
        Some((position, tool)) => {
            let sql = "INSERT OR REPLACE INTO tools VALUES (?1, ?2, ?3)";
            let (position, body) = (position.cast_signed(), disk::tool_bytes(tool));
            let row = params![name.as_str(), position, body];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        None => {
            let sql = "DELETE FROM tools WHERE name = ?1";
            connection.prepare_cached(sql)?.execute([name.as_str()])?;
        }
    }
    Ok(())
}

fn write_hook(connection: &Connection, catalog: &Catalog, id: &HookId) -> rusqlite::Result<()> {
    match catalog.hook(id) {
        Some(hook) => {
            let sql = "INSERT OR REPLACE INTO hooks VALUES (?1, ?2)";
            let row = params![id.as_str(), disk::hook_bytes(hook)];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        None => {
            let sql = "DELETE FROM hooks WHERE id = ?1";
            connection.prepare_cached(sql)?.execute([id.as_str()])?;
        }
    }
    Ok(())
}

fn write_toolset(connection: &Connection, catalog: &Catalog, name: &str) -> rusqlite::Result<()> {
    match catalog.toolset(name) {
        Some(toolset) => {
            let sql = "INSERT OR REPLACE INTO toolsets VALUES (?1, ?2)";
            let row = params![name, disk::toolset_bytes(toolset)];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        None => {
            let sql = "DELETE FROM toolsets WHERE name = ?1";
            connection.prepare_cached(sql)?.execute([name])?;
        }
    }
    Ok(())
}
