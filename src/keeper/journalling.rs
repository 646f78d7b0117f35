//! The live journal's copy of what was stored.

use std::borrow::Cow;

use tracing::warn;

use super::Keeper;
use crate::{
    domain::{agent::AgentId, journal::MessageRecord},
    store::{AppendOutcome, AppendRequest, Prepared},
};

impl Keeper {
    /// The messages are stored: that a copy fails is no reason to fail the append.
    pub(super) async fn write_journal(&self, agent: &AgentId, records: Vec<MessageRecord>) {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else {
            return;
        };
        let lines = records.len();
        match journal.append(agent, records).await {
            Ok(()) => self.metrics.window.journalled(lines),
            Err(error) => {
                self.metrics.window.journal_failed(lines);
                warn!(agent.id = %agent, %error, lines, "journal.failed");
            }
        }
    }
}

/// What a journal says of the messages that were stored.
pub(super) fn records(request: &AppendRequest, outcome: &AppendOutcome) -> Vec<MessageRecord> {
    let stored = outcome.stored.iter();
    stored
        .filter_map(|at| Some((at, request.messages.get(at.place)?)))
        .map(|(at, Prepared { message, entry })| MessageRecord {
            agent_id: request.agent.clone(),
            seq: at.seq,
            exchange: at.exchange,
            session: at.session,
            kind: message.kind.name().to_owned(),
            format: message.format,
            tokens: entry.tokens,
            count_method: request.count_method.clone(),
            client_id: at.client_id(message).map(Cow::into_owned),
            said_at: entry.at,
            received_at: request.now,
            payload: message.payload.clone(),
        })
        .collect()
}
