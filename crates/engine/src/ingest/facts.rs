//! Applies operators' changes to facts. HTTP and the command line share the replies.

use serde::Serialize;
use tracing::info;

use super::Ingestor;
use recapd_core::domain::{
    agent::AgentId,
    summary::fact::{
        FactKind,
        edit::{FactEdit, NewFact},
    },
    time::Timestamp,
    transcript::Voice,
};
use recapd_store::{FactChange, FactEdited, FactRequest, FactRow, StoreResult};

/// A fact and its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Fact)]
pub struct FactReply {
    /// The fact's number within the agent; it is never reused.
    pub fact: i64,
    pub kind: FactKind,
    /// One line; empty if the fact was forgotten.
    pub text: String,
    /// Who said it: `user`, `assistant`, `program`, `call`, `result` or `failed_result`; absent if the summariser worded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<&'static str>,
    /// The speaker's name, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub speaker: String,
    /// The time since which it holds.
    pub since: Timestamp,
    /// The exchange that it comes from; 0 if an operator wrote it.
    pub exchange: i64,
    /// True if it leaves the document last.
    pub pinned: bool,
    /// The version that added it.
    pub added_version: i64,
    /// The version that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_version: Option<i64>,
    /// The exchange that ended it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_by_exchange: Option<i64>,
    /// The number of the fact that replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<i64>,
}

impl From<FactRow> for FactReply {
    fn from(row: FactRow) -> Self {
        let fact = row.fact;
        Self {
            fact: fact.fact,
            kind: fact.kind,
            text: fact.text,
            voice: fact.voice.map(Voice::name),
            speaker: fact.speaker,
            since: fact.since,
            exchange: fact.exchange,
            pinned: fact.pinned,
            added_version: row.added_version,
            closed_version: row.closed_version,
            closed_by_exchange: row.closed_by_exchange,
            replaced_by: row.replaced_by,
        }
    }
}

/// The reply to an operator's change of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = EditedFact)]
pub struct FactEditedReply {
    /// The document's new version.
    pub version: i64,
    /// The fact after the change. A new text gives it a new number.
    #[serde(flatten)]
    pub fact: FactReply,
}

impl From<FactEdited> for FactEditedReply {
    fn from(edited: FactEdited) -> Self {
        Self { version: edited.version, fact: edited.row.into() }
    }
}

impl Ingestor {
    /// Adds an operator's fact. Secrets in it are redacted.
    ///
    /// # Errors
    /// [`recapd_store::StoreError::UnknownAgent`], [`recapd_store::StoreError::Fact`], or another error of the store.
    pub async fn add_fact(&self, agent: &AgentId, new: NewFact) -> StoreResult<FactEditedReply> {
        let new = new.redacted(&self.redactor);
        self.change_facts(agent, FactChange::Add(new)).await
    }

    /// Changes a fact for an operator. Secrets in the new text are redacted.
    ///
    /// # Errors
    /// As [`Self::add_fact`].
    pub async fn edit_fact(
        &self,
        agent: &AgentId,
        fact: i64,
        edit: FactEdit,
    ) -> StoreResult<FactEditedReply> {
        let edit = edit.redacted(&self.redactor);
        self.change_facts(agent, FactChange::Edit { fact, edit }).await
    }

    async fn change_facts(&self, agent: &AgentId, change: FactChange) -> StoreResult<FactEditedReply> {
        let request = FactRequest {
            agent: agent.clone(),
            hand: change,
            policy: self.rules.policy,
            now: self.clock.now(),
        };
        let outcome = self.store.change_fact(request).await?;
        info!(agent_id = %agent, fact = outcome.row.fact.fact, version = outcome.version, "summary.fact_changed");
        self.after_document(agent);
        Ok(outcome.into())
    }
}
