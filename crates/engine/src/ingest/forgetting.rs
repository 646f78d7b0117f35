//! Forgets messages: the store forgets them, this daemon rewrites its live journal, and readers are notified.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::Ingestor;
use recapd_core::domain::{agent::AgentId, settings::AgentSettings};
use recapd_store::{Deletion, Forget, Forgettable, Forgotten, StoreError, StoreResult};

/// Limits how many agents with interrupted work of one kind are read at once. The next call reads more.
const INTERRUPTED_AGENTS_MAX: i64 = 100;

/// The reply to a request to forget, over HTTP and on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Forgotten)]
pub struct ForgetReply {
    /// Messages that became tombstones.
    pub messages: i64,
    /// The exchanges of these messages.
    pub exchanges: Vec<i64>,
    /// Other legs of the same exchanges, which weren't named and are still stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs_left: Vec<LegsLeft>,
    /// The agents that shared these exchanges.
    pub agents: Vec<AgentId>,
    /// Items of summaries that were withdrawn or lost their text.
    pub items: i64,
    /// Earlier versions of summaries whose text is gone.
    pub versions: i64,
    /// True if nothing of these messages is left in the database's files.
    pub scrubbed: bool,
    /// Agents whose file in this daemon's live journal still holds the messages, because rewriting the file failed. Each daemon has its own journal.
    pub journals_left: Vec<AgentId>,
}

/// Legs of an exchange that remain after others were forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LegsLeft {
    /// The number of the exchange's first leg.
    pub exchange: i64,
    /// The remaining legs.
    pub legs: Vec<i64>,
}

/// The reply to the deletion of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Deletion)]
pub struct DeleteReply {
    /// The deleted agent.
    pub agent_id: AgentId,
    /// How many messages were deleted.
    pub messages: i64,
    /// True if nothing of the agent is left in the database's files.
    pub scrubbed: bool,
    /// True if this daemon's live journal holds no file of the agent any more. Each daemon has its own journal.
    pub journal_removed: bool,
}

impl Ingestor {
    /// Forgets exchanges or a message of `agent` in all agents that share them, and rewrites this daemon's live journal. Rewrites
    /// the journal even if another daemon has made the store forget them already, because each daemon has its own journal.
    ///
    /// # Errors
    /// As [`recapd_store::Store::forget`].
    pub async fn forget(&self, agent: &AgentId, what: Forgettable) -> StoreResult<ForgetReply> {
        let are_exchanges = matches!(what, Forgettable::Exchanges(_));
        let request = Forget {
            agent: agent.clone(),
            what,
            rules: self.rules,
            redactor: self.redactor.clone(),
            now: self.clock.now(),
        };
        let forgotten = self.store.forget(request).await?;
        info!(agent_id = %agent, messages = forgotten.messages, agents = forgotten.agents.len(), "forget.done");
        let mut journals_left = Vec::new();
        for changed in &forgotten.agents {
            if !self.rewrite_journal(changed).await {
                journals_left.push(changed.clone());
            }
            self.notices.agent_changed(changed);
        }
        self.notices.wake_queue();
        let legs_left =
            if are_exchanges { self.legs_left(agent, &forgotten.exchanges).await } else { Vec::new() };
        let Forgotten { messages, exchanges, agents, items, versions, is_scrubbed } = forgotten;
        Ok(ForgetReply {
            messages,
            exchanges,
            legs_left,
            agents,
            items,
            versions,
            scrubbed: is_scrubbed,
            journals_left,
        })
    }

    /// Lists the other legs of partly forgotten exchanges. If reading them fails, returns what it has, because the forgetting
    /// itself is done.
    async fn legs_left(&self, agent: &AgentId, forgotten: &[i64]) -> Vec<LegsLeft> {
        let mut legs_left: Vec<LegsLeft> = Vec::new();
        let mut visited: HashSet<i64> = HashSet::new();
        for &number in forgotten {
            if visited.contains(&number) {
                continue;
            }
            let rows = match self.store.legs(agent, number).await {
                Ok(rows) => rows,
                Err(error) => {
                    warn!(agent_id = %agent, %error, "forget.legs_unknown");
                    return legs_left;
                }
            };
            visited.extend(rows.iter().map(|row| row.exchange));
            let remaining = rows.iter().filter(|row| !row.headline.is_forgotten());
            let legs: Vec<i64> =
                remaining.map(|row| row.exchange).filter(|leg| !forgotten.contains(leg)).collect();
            if let Some(first) = rows.first().filter(|_| !legs.is_empty()) {
                legs_left.push(LegsLeft { exchange: first.first_leg(), legs });
            }
        }
        legs_left
    }

    /// Deletes an agent and its file in this daemon's live journal. Deletes the file even if the agent doesn't exist any more.
    ///
    /// # Errors
    /// As [`recapd_store::Store::delete_agent`].
    pub async fn delete(&self, agent: &AgentId) -> StoreResult<DeleteReply> {
        let deleted = self.store.delete_agent(agent, self.clock.now()).await;
        let journal_removed = match (&self.journal, &deleted) {
            // Another daemon may have deleted the agent, but it couldn't delete this daemon's file.
            (Some(journal), Ok(_) | Err(StoreError::UnknownAgent(_))) => journal.remove(agent).await.is_ok(),
            _ => true,
        };
        let Deletion { messages, is_scrubbed } = deleted?;
        info!(agent_id = %agent, messages, "forget.agent_deleted");
        self.counters.learn(agent, &AgentSettings::default());
        self.notices.agent_changed(agent);
        Ok(DeleteReply { agent_id: agent.clone(), messages, scrubbed: is_scrubbed, journal_removed })
    }

    /// Finishes what a crash or a failure interrupted: forgettings, deletions, running totals, rollbacks, rebuilds. May safely
    /// run at the same time as the original request.
    ///
    /// # Errors
    /// The first error of the store. The other agents are still handled, and the next call retries.
    pub async fn finish_interrupted(&self) -> StoreResult<()> {
        let mut outcome = Ok(());
        for agent in self.store.forgettings_due(INTERRUPTED_AGENTS_MAX).await? {
            warn!(agent_id = %agent, "forget.goes_on");
            outcome = outcome.and(self.forget(&agent, Forgettable::Begun).await.map(drop));
        }
        for agent in self.store.deletions_due(INTERRUPTED_AGENTS_MAX).await? {
            warn!(agent_id = %agent, "forget.deletion_goes_on");
            outcome = outcome.and(self.delete(&agent).await.map(drop));
        }
        for agent in self.store.totals_due(INTERRUPTED_AGENTS_MAX).await? {
            outcome = outcome.and(self.settle(&agent).await);
        }
        for agent in self.store.withdrawals_due(INTERRUPTED_AGENTS_MAX).await? {
            outcome = outcome.and(self.withdraw(&agent).await);
        }
        outcome
    }

    async fn rewrite_journal(&self, agent: &AgentId) -> bool {
        let Some(journal) = &self.journal else { return true };
        match journal.rewrite(agent).await {
            Ok(()) => true,
            Err(error) => {
                warn!(agent_id = %agent, %error, "journal.not_rewritten");
                false
            }
        }
    }
}
