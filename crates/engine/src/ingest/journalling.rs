//! Copies stored messages to the live journal.

use std::{borrow::Cow, mem, time::Duration};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Ingestor;
use crate::journal::live::Journal;
use recapd_core::domain::{agent::AgentId, journal::MessageRecord, time::Timestamp};
use recapd_store::{AppendOutcome, AppendRequest, PreparedMessage, StoredAt};

/// How often to check for messages that are missing in the journal's files.
const MEND_EVERY: Duration = Duration::from_secs(10);
/// The pause between two chunks of one file, in multiples of the last chunk's duration, so that appends go first.
const REST: u32 = 3;

impl Ingestor {
    /// Adds missing messages to the live journal's files until `stop`.
    pub async fn tend_journal(&self, stop: CancellationToken) {
        if self.journal.is_none() {
            return;
        }
        let work = async {
            loop {
                sleep(MEND_EVERY).await;
                self.mend_journal().await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Copies missing messages to the live journal's files once. An agent's next append copies them, too, but an agent may never
    /// append again.
    pub async fn mend_journal(&self) {
        let Some(journal) = &self.journal else { return };
        for agent in journal.incomplete() {
            self.mend_file(journal, &agent).await;
        }
    }

    async fn mend_file(&self, journal: &Journal, agent: &AgentId) {
        loop {
            let start = Instant::now();
            match journal.mend(agent).await {
                Ok(0) => return,
                Ok(lines) => {
                    self.metrics.window.journalled(lines);
                    info!(agent_id = %agent, lines, "journal.mended");
                }
                Err(error) => {
                    debug!(agent_id = %agent, %error, "journal.not_mended");
                    return;
                }
            }
            sleep(start.elapsed() * REST).await;
        }
    }

    /// Writes stored messages of an agent that was created at `since` to the journal. Only logs and counts a failure.
    pub(super) async fn write_journal(&self, agent: &AgentId, since: Timestamp, records: Vec<MessageRecord>) {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else {
            return;
        };
        let lines = records.len();
        // Boxed, because few daemons keep a journal, and otherwise every append's future would be larger.
        match Box::pin(journal.append(agent, since, records)).await {
            Ok(written) => self.metrics.window.journalled(written),
            Err(error) => {
                self.metrics.window.journal_failed(lines);
                warn!(agent_id = %agent, %error, lines, "journal.failed");
            }
        }
    }
}

pub(super) fn records(request: AppendRequest, outcome: &AppendOutcome) -> Vec<MessageRecord> {
    let AppendRequest { agent, mut messages, count_method, now, .. } = request;
    let record = |stored: &StoredAt| {
        let PreparedMessage { message, entry } = messages.get_mut(stored.index)?;
        Some(MessageRecord {
            agent_id: agent.clone(),
            seq: stored.seq,
            exchange: stored.exchange,
            session: stored.session,
            begins_leg: stored.begins_leg,
            kind: message.kind.name().to_owned(),
            format: message.format,
            tokens: entry.tokens,
            count_method: count_method.clone(),
            client_id: stored.client_id(message).map(Cow::into_owned),
            said_at: entry.at,
            received_at: now,
            payload: mem::take(&mut message.payload),
        })
    };
    outcome.stored.iter().filter_map(record).collect()
}
