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

/// Forgets each note that has a version among the messages to be forgotten. Must run before these messages become tombstones.
pub(super) async fn forget(tx: &mut Connection, request: &Forget, next: &NextExchanges) -> StoreResult<()> {
    let mut names = BTreeSet::new();
    for message in next.tombstones.iter().filter(|message| message.kind == "note") {
        let all = versions(tx, &message.source).await?;
        let written = all.into_iter().find(|version| version.seq == message.seq);
        names.extend(written.map(|version| version.name));
    }
    if names.is_empty() {
        return Ok(());
    }
    for agent in next.touched.keys() {
        let all = versions(tx, agent).await?;
        let forgotten = all.into_iter().filter(|version| names.contains(&version.name));
        let tombstones: Vec<Tombstone> = forgotten
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
        if let Some(mut fork) = record::load_if_recorded(tx, agent).await? {
            fork.notes.retain(|note| !names.contains(&note.name));
            record::replace(tx, agent, &fork).await?;
        }
    }
    Ok(())
}

/// A message that writes a version of a note.
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
            versions.push(NoteVersion { seq: row.try_get(0)?, name: change.name });
        }
    }
    Ok(versions)
}
