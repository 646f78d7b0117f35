//! Facts as operators see them, over HTTP and on the command line alike.

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

/// A fact, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Fact)]
pub struct FactReply {
    /// Its number within the agent, never used again.
    pub fact: i64,
    /// What it is about.
    pub kind: FactKind,
    /// One line; empty if it was forgotten.
    pub text: String,
    /// Whose words these are: `user`, `assistant`, `program`, `call`, `result` or `failed_result`; none for the
    /// summariser's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<&'static str>,
    /// The name of who said it, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub speaker: String,
    /// Since when it holds.
    pub since: Timestamp,
    /// The exchange that it comes from; 0 if an operator wrote it.
    pub exchange: i64,
    /// It leaves the document last.
    pub pinned: bool,
    /// The version that brought it.
    pub added_version: i64,
    /// The version since which it holds no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_version: Option<i64>,
    /// The exchange that ended it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_by_exchange: Option<i64>,
    /// The fact that holds in its place.
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

/// What a change of the facts by hand answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = EditedFact)]
pub struct FactEditedReply {
    /// The document's new version.
    pub version: i64,
    /// The fact now: a new text gave it a new number.
    #[serde(flatten)]
    pub fact: FactReply,
}

impl From<FactEdited> for FactEditedReply {
    fn from(edited: FactEdited) -> Self {
        Self {
            version: edited.version,
            fact: edited.row.into(),
        }
    }
}

impl Ingestor {
    /// Adds a fact by hand. Secrets in it are redacted.
    ///
    /// # Errors
    /// [`recapd_store::StoreError::UnknownAgent`], [`recapd_store::StoreError::Fact`], or what the store fails with.
    pub async fn add_fact(&self, agent: &AgentId, new: NewFact) -> StoreResult<FactEditedReply> {
        let new = new.redacted(&self.redactor);
        self.change_facts(agent, FactChange::Add(new)).await
    }

    /// Changes a fact by hand. Secrets in its new words are redacted.
    ///
    /// # Errors
    /// As of [`Self::add_fact`].
    pub async fn edit_fact(
        &self,
        agent: &AgentId,
        fact: i64,
        edit: FactEdit,
    ) -> StoreResult<FactEditedReply> {
        let edit = edit.redacted(&self.redactor);
        self.change_facts(agent, FactChange::Edit { fact, edit }).await
    }

    async fn change_facts(&self, agent: &AgentId, hand: FactChange) -> StoreResult<FactEditedReply> {
        let request = FactRequest {
            agent: agent.clone(),
            hand,
            policy: self.rules.policy,
            now: self.clock.now(),
        };
        let edited = self.store.change_fact(request).await?;
        info!(agent_id = %agent, fact = edited.row.fact.fact, version = edited.version, "summary.fact_changed");
        self.after_document(agent);
        Ok(edited.into())
    }
}
