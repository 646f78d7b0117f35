//! Exports a history from the database to a journal.

use std::io::{self, Write};

use super::chunk;
use recapd_core::domain::agent::AgentId;
use recapd_store::archive::{Archive, ArchiveError};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database fails, or contains something that a journal can't hold.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("can't write the journal: {0}")]
    Io(#[from] io::Error),
}

/// Writes an agent's history to `out`, up to the last message at the start of the export. Calls `progress` with the number of
/// messages of each step. Returns the number of messages; `None` for an unknown agent.
///
/// # Errors
/// [`ExportError`]. What was written before stays.
pub async fn export(
    archive: &dyn Archive,
    agent: &AgentId,
    out: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Option<u64>, ExportError> {
    let Some(head) = archive.head(agent).await? else {
        return Ok(None);
    };
    writeln!(out, "{}", head.line())?;
    let (mut after_seq, mut messages) = (0, 0);
    loop {
        let range = chunk(after_seq, head.last_seq);
        let records = archive.records(agent, range).await.map_err(ArchiveError::from)?;
        let Some(last) = records.last() else { break };
        after_seq = last.seq;
        for record in &records {
            writeln!(out, "{}", record.line())?;
        }
        let written = records.len() as u64;
        messages += written;
        progress(written);
    }
    Ok(Some(messages))
}
