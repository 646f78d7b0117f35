//! Forgets notes. Each later version of a note may hold the forgotten words. So all versions of the note are forgotten, in every
//! agent that shares them, including versions that a rewind has set aside.

use std::collections::BTreeSet;

use futures::TryStreamExt as _;

use crate::sql::{Connection, query, sql};

use super::{
    super::{
        super::{Forget, StoreResult},
        fork::record,
        lineage::notes,
    },
    NextExchanges, Tombstone, write_tombstones,
};
use recapd_core::domain::{
    agent::AgentId,
    note::{NoteChange, NoteName},
};

/// Forgets each note of which a version is among the messages to be forgotten. Must run before these become tombstones.
pub(super) async fn forget(tx: &mut Connection, request: &Forget, some: &NextExchanges) -> StoreResult<()> {
    let mut names = BTreeSet::new();
    for buried in some.buried.iter().filter(|message| message.kind == "note") {
        let sources = versions(tx, &buried.source).await?;
        let own = sources.into_iter().find(|version| version.seq == buried.seq);
        names.extend(own.map(|version| version.name));
    }
    if names.is_empty() {
        return Ok(());
    }
    for agent in some.touched.keys() {
        let written = versions(tx, agent).await?;
        let meant = written
            .into_iter()
            .filter(|version| names.contains(&version.name));
        let tombstones: Vec<Tombstone> = meant
            .map(|version| Tombstone {
                source: agent.clone(),
                seq: version.seq,
                kind: "note".to_owned(),
                tokens: 0,
            })
            .collect();
        write_tombstones(tx, request, &tombstones).await?;
        for name in &names {
            notes::forget(tx, agent, name).await?;
        }
        if let Some(mut kept) = record::load_if_readable(tx, agent).await? {
            kept.notes.retain(|note| !names.contains(&note.name));
            record::replace(tx, agent, &kept).await?;
        }
    }
    Ok(())
}

struct NoteVersion {
    seq: i64,
    name: NoteName,
}

async fn versions(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<NoteVersion>> {
    let sql = sql!(
        "-- sql/forget.note_versions\nSELECT seq, payload FROM message_log WHERE agent_id = $1 AND kind = 'note' \
               AND forgotten_at IS NULL ORDER BY seq"
    );
    let mut rows = query(sql).bind(agent.as_str()).fetch(tx)?;
    let mut versions = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let payload: String = row.try_get(1)?;
        if let Some(change) = NoteChange::of_payload(&payload) {
            versions.push(NoteVersion {
                seq: row.try_get(0)?,
                name: change.name,
            });
        }
    }
    Ok(versions)
}
