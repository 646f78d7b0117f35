//! Forgetting: the store does it, this daemon's live journal is rewritten, and readers are notified.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::Ingestor;
use recapd_core::domain::{agent::AgentId, settings::AgentSettings};
use recapd_store::{Deletion, Forget, Forgettable, Forgotten, StoreError, StoreResult};

/// The most agents with something to go on with that are looked up at once.
const BEGUN_MAX: i64 = 100;

/// What forgetting did, over HTTP and on the command line alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Forgotten)]
pub struct ForgetReply {
    /// Messages that are tombstones now and weren't before.
    pub messages: i64,
    /// The exchanges that they stood in.
    pub exchanges: Vec<i64>,
    /// The legs of these exchanges that weren't named: what was said in them is still stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs_left: Vec<LegsLeft>,
    /// The agents that shared them.
    pub agents: Vec<AgentId>,
    /// Items of summaries that were withdrawn or lost their text.
    pub items: i64,
    /// Earlier versions of summaries whose text is gone.
    pub versions: i64,
    /// Nothing of it is left in the database's files.
    pub scrubbed: bool,
    /// Agents whose file in this daemon's live journal still holds it: it couldn't be written anew. Others have their own.
    pub journals_left: Vec<AgentId>,
}

/// Legs of an exchange that are left when others are forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LegsLeft {
    /// The exchange, by its first leg.
    pub exchange: i64,
    /// The legs that are left.
    pub legs: Vec<i64>,
}

/// What the deletion of an agent did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Deletion)]
pub struct DeleteReply {
    /// The agent.
    pub agent_id: AgentId,
    /// Its messages.
    pub messages: i64,
    /// Nothing of it is left in the database's files.
    pub scrubbed: bool,
    /// Its file in this daemon's live journal is gone, or there was none. Others have their own.
    pub journal_removed: bool,
}

impl Ingestor {
    /// Forgets the exchanges or the message of `agent` in all agents that share them, and in this daemon's live
    /// journal. It does the latter even if the store has forgotten them already, since each daemon has a live journal
    /// of its own.
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
        let legs_left = if are_exchanges {
            self.legs_left(agent, &forgotten.exchanges).await
        } else {
            Vec::new()
        };
        let Forgotten {
            messages,
            exchanges,
            agents,
            items,
            versions,
            is_scrubbed,
        } = forgotten;
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

    /// The other legs of exchanges of which some were forgotten. Of what is forgotten for good that is no reason to fail.
    async fn legs_left(&self, agent: &AgentId, forgotten: &[i64]) -> Vec<LegsLeft> {
        let mut left: Vec<LegsLeft> = Vec::new();
        let mut seen: HashSet<i64> = HashSet::new();
        for &number in forgotten {
            if seen.contains(&number) {
                continue;
            }
            let rows = match self.store.legs(agent, number).await {
                Ok(rows) => rows,
                Err(error) => {
                    warn!(agent_id = %agent, %error, "forget.legs_unknown");
                    return left;
                }
            };
            seen.extend(rows.iter().map(|row| row.exchange));
            let others = rows.iter().filter(|row| !row.headline.is_forgotten());
            let legs: Vec<i64> = others
                .map(|row| row.exchange)
                .filter(|leg| !forgotten.contains(leg))
                .collect();
            if let Some(first) = rows.first().filter(|_| !legs.is_empty()) {
                left.push(LegsLeft {
                    exchange: first.begins_with(),
                    legs,
                });
            }
        }
        left
    }

    /// Deletes an agent, and its file in this daemon's live journal, the latter even if the agent is gone already.
    ///
    /// # Errors
    /// As [`recapd_store::Store::delete_agent`].
    pub async fn delete(&self, agent: &AgentId) -> StoreResult<DeleteReply> {
        let deleted = self.store.delete_agent(agent, self.clock.now()).await;
        let journal_removed = match (&self.journal, &deleted) {
            // Gone already: another daemon may have deleted the agent, but not from this one's journal.
            (Some(journal), Ok(_) | Err(StoreError::UnknownAgent(_))) => journal.remove(agent).await.is_ok(),
            _ => true,
        };
        let Deletion {
            messages,
            is_scrubbed,
        } = deleted?;
        info!(agent_id = %agent, messages, "forget.agent_deleted");
        self.counters.learn(agent, &AgentSettings::default());
        self.notices.agent_changed(agent);
        Ok(DeleteReply {
            agent_id: agent.clone(),
            messages,
            scrubbed: is_scrubbed,
            journal_removed,
        })
    }

    /// Goes on with what a crash or a failure broke off: forgettings, deletions, running totals. Who forgets at this moment
    /// does, too: that they do it together does no harm.
    ///
    /// # Errors
    /// What the store fails with first; it goes on with the others, and the next time with that one.
    pub async fn finish_begun(&self) -> StoreResult<()> {
        let mut outcome = Ok(());
        for agent in self.store.forgettings_due(BEGUN_MAX).await? {
            warn!(agent_id = %agent, "forget.goes_on");
            outcome = outcome.and(self.forget(&agent, Forgettable::Begun).await.map(drop));
        }
        for agent in self.store.deletions_due(BEGUN_MAX).await? {
            warn!(agent_id = %agent, "forget.deletion_goes_on");
            outcome = outcome.and(self.delete(&agent).await.map(drop));
        }
        for agent in self.store.totals_due(BEGUN_MAX).await? {
            outcome = outcome.and(self.settle(&agent).await);
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
