//! Stores notes: one row per version, derived from the messages alone. The texts stay in the messages.
//!
//! Only a live append checks that a change names the present version, and that there aren't too many notes. A replay accepts
//! everything.

use crate::sql::{Connection, Row, query, sql};

use super::super::{
    super::{AppendRequest, NoteQuery, StepOutcome, StoreError, StoreResult},
    row,
};
use recapd_core::domain::{
    agent::AgentId,
    journal::NoteRecord,
    note::{NOTE_VERSIONS_MAX, NOTES_MAX, Note, NoteChange, NoteName},
    time::Timestamp,
};

/// Where the message of a note's version is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotePosition {
    pub(crate) seq: i64,
    pub(crate) exchange: i64,
    pub(crate) at: Timestamp,
}

/// Writes a version. Fails if the request is live and the change doesn't fit the present notes.
pub(crate) async fn write_within(
    tx: &mut Connection,
    request: &AppendRequest,
    change: &NoteChange,
    position: NotePosition,
) -> StoreResult<StepOutcome> {
    if !request.replayed {
        check(tx, &request.agent, change).await?;
    }
    write(tx, &request.agent, change, position).await
}

async fn check(tx: &mut Connection, agent: &AgentId, change: &NoteChange) -> StoreResult<()> {
    let version = version(tx, agent, &change.name).await?;
    if change.replaces.is_some_and(|replaced| replaced != version) {
        return Err(StoreError::NoteChanged { name: change.name.clone(), version });
    }
    if version > 0 || change.text.is_none() {
        return Ok(());
    }
    let sql = sql!(
        "-- sql/notes.count\nSELECT count(*) FROM notes n WHERE n.agent_id = $1 AND n.deleted = {false} AND n.seq = \
               (SELECT max(o.seq) FROM notes o WHERE o.agent_id = n.agent_id AND o.name = n.name)"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    if row.try_get::<i64>(0)? >= NOTES_MAX {
        return Err(StoreError::NotesFull);
    }
    Ok(())
}

/// Returns the present version of a note; 0 if there is no such note.
async fn version(tx: &mut Connection, agent: &AgentId, name: &NoteName) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/notes.version\nSELECT seq, deleted FROM notes WHERE agent_id = $1 AND name = $2 ORDER BY seq DESC LIMIT 1"
    );
    let query = query(sql).bind(agent.as_str()).bind(name.as_str());
    let Some(row) = query.fetch_optional(tx).await? else {
        return Ok(0);
    };
    let is_deleted: bool = row.try_get(1)?;
    Ok(if is_deleted { 0 } else { row.try_get(0)? })
}

pub(crate) async fn write(
    tx: &mut Connection,
    agent: &AgentId,
    change: &NoteChange,
    position: NotePosition,
) -> StoreResult<StepOutcome> {
    if change.text.is_none() && version(tx, agent, &change.name).await? == 0 {
        return Ok(StepOutcome::NoNote { name: change.name.clone() });
    }
    let record = NoteRecord {
        source: agent.clone(),
        name: change.name.clone(),
        seq: position.seq,
        exchange: position.exchange,
        written_at: position.at,
        bytes: change.bytes(),
        title: change.title(),
        deleted: change.text.is_none(),
    };
    restore(tx, agent, &record).await?;
    Ok(StepOutcome::Noted { version: position.seq })
}

/// Writes the row of a version.
pub(crate) async fn restore(tx: &mut Connection, agent: &AgentId, record: &NoteRecord) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/notes.write\nINSERT INTO notes (agent_id, name, seq, source_agent_id, exchange, written_at, bytes, title, \
               deleted) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(record.name.as_str())
        .bind(record.seq)
        .bind(record.source.as_str())
        .bind(record.exchange)
        .bind(record.written_at)
        .bind(record.bytes)
        .bind(record.title.as_str())
        .bind(record.deleted)
        .execute(tx)
        .await?;
    Ok(())
}

/// Removes the versions in exchanges after `last_exchange`, for a rewind.
pub(super) async fn withdraw(tx: &mut Connection, agent: &AgentId, last_exchange: i64) -> StoreResult<()> {
    let sql = sql!("-- sql/notes.withdraw\nDELETE FROM notes WHERE agent_id = $1 AND exchange > $2");
    query(sql).bind(agent.as_str()).bind(last_exchange).execute(tx).await?;
    Ok(())
}

/// Copies all versions of the parent's notes to the child, because the child may rewind to a mark from before the fork.
pub(crate) async fn copy(tx: &mut Connection, parent: &AgentId, child: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/notes.copy\nINSERT INTO notes (agent_id, name, seq, source_agent_id, exchange, written_at, bytes, title, \
               deleted) SELECT $2, name, seq, source_agent_id, exchange, written_at, bytes, title, deleted FROM notes \
               WHERE agent_id = $1"
    );
    let query = query(sql).bind(parent.as_str()).bind(child.as_str());
    query.execute(tx).await?;
    Ok(())
}

/// Deletes the rows of a forgotten note.
pub(crate) async fn forget(tx: &mut Connection, agent: &AgentId, name: &NoteName) -> StoreResult<()> {
    let sql = sql!("-- sql/notes.forget\nDELETE FROM notes WHERE agent_id = $1 AND name = $2");
    query(sql).bind(agent.as_str()).bind(name.as_str()).execute(tx).await?;
    Ok(())
}

pub(crate) async fn records(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<NoteRecord>> {
    let sql = sql!(
        "-- sql/notes.records\nSELECT name, seq, source_agent_id, exchange, written_at, bytes, title, deleted FROM notes \
               WHERE agent_id = $1 ORDER BY seq, name"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let records = found.iter().map(|row| {
        Ok(NoteRecord {
            name: name(row, agent)?,
            seq: row.try_get(1)?,
            source: row::agent_id_of(row, 2, agent.as_str())?,
            exchange: row.try_get(3)?,
            written_at: row.try_get(4)?,
            bytes: row.try_get(5)?,
            title: row.try_get(6)?,
            deleted: row.try_get(7)?,
        })
    });
    records.collect()
}

macro_rules! note_columns {
    () => {
        "n.name, n.seq, n.written_at, n.bytes, n.title, n.deleted, (SELECT min(f.written_at) FROM notes f \
         WHERE f.agent_id = n.agent_id AND f.name = n.name), CASE WHEN $2 THEN m.payload END, n.exchange FROM notes n \
         JOIN message_log m ON m.agent_id = n.source_agent_id AND m.seq = n.seq WHERE n.agent_id = $1"
    };
}

/// See [`super::super::super::Store::notes`].
pub(crate) async fn list(tx: &mut Connection, agent: &AgentId, filter: &NoteQuery) -> StoreResult<Vec<Note>> {
    let all = sql!(
        "-- sql/notes.all\nSELECT ",
        note_columns!(),
        " AND n.deleted = {false} AND n.seq = (SELECT max(o.seq) FROM notes o WHERE o.agent_id = n.agent_id \
          AND o.name = n.name AND o.exchange < $3) ORDER BY n.name"
    );
    let versions = sql!(
        "-- sql/notes.versions\nSELECT ",
        note_columns!(),
        " AND n.name = $3 ORDER BY n.seq DESC LIMIT $4"
    );
    let found = match &filter.versions_of {
        None => query(all).bind(agent.as_str()).bind(filter.texts).bind(filter.before.unwrap_or(i64::MAX)),
        Some(name) => query(versions)
            .bind(agent.as_str())
            .bind(filter.texts)
            .bind(name.as_str())
            .bind(if filter.latest { 1 } else { NOTE_VERSIONS_MAX }),
    };
    let found = found.fetch_all(tx).await?;
    let notes = found.iter().map(|row| -> StoreResult<Note> {
        let payload: Option<String> = row.try_get(7)?;
        let change = payload.as_deref().and_then(NoteChange::of_payload);
        Ok(Note {
            name: name(row, agent)?,
            version: row.try_get(1)?,
            exchange: row.try_get(8)?,
            written_at: row.try_get(2)?,
            bytes: row.try_get(3)?,
            title: row.try_get(4)?,
            deleted: row.try_get(5)?,
            created_at: row.try_get(6)?,
            text: change.and_then(|change| change.text).unwrap_or_default(),
        })
    });
    notes.collect()
}

fn name(row: &Row, agent: &AgentId) -> StoreResult<NoteName> {
    let name: String = row.try_get(0)?;
    let parsed = name.parse();
    parsed.map_err(|_| row::inconsistent("notes", agent.to_string(), "name", name))
}
