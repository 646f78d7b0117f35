//! Compacting: shortens a document that has become too big, by operations that a model proposes once per update.
//!
//! If the model fails, the document is composed without it, with shorter texts and fewer items.

use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use tracing::{debug, info};

use super::{
    Interruption, LeaseGuard, Worker, condensed::Condensation, error::CondenseError, material::as_of,
};
use recapd_core::domain::{
    agent::AgentId,
    prompt::Prompt,
    reply::{ReplyError, parse_operations},
    summary::{
        compaction::{Composition, Path, SummaryPolicy, beside_facts, compose},
        item::Item,
        operations::{CarriedOut, NoProgress, Operations, Question, Rules},
        state::FactUpdate,
    },
    time::Timestamp,
};
use recapd_llm::{LlmError, ModelRequest, limits::LimitWait};
use recapd_store::{JournalledAnswer, Material, RunRecord, StoreError};

/// How many tokens of an answer the texts of one operation need.
const WORDING_TOKENS: i64 = 300;
/// After a useless answer no model is asked for this many versions of the document.
const VERSIONS_BETWEEN: i64 = 8;
/// Limits for how many agents a useless answer is remembered.
const AGENTS_MAX: usize = 10_000;

/// The contents of a new version.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The document's items. New items have the number 0.
    pub(super) items: Vec<Item>,
    /// Items that leave the document, stored or new ones.
    pub(super) dropped: Vec<Item>,
    /// The numbers of stored items that other items replace.
    pub(super) replaced: Vec<i64>,
    /// How the document would have been composed before a model compacted it; `None` if no model did.
    pub(super) path: Option<Path>,
    pub(super) facts: FactUpdate,
    /// True if only ageing has changed the document. Then only items that are too old leave. An item without room now may find
    /// room when others have aged, so the result doesn't depend on how often the ageing job runs.
    pub(super) only_ages: bool,
    /// How many items a model's compaction merged.
    pub(super) merged: usize,
    /// How many items a model's compaction shortened.
    pub(super) condensed: usize,
}

pub(super) struct Contents<'a> {
    pub(super) draft: Draft,
    pub(super) composition: &'a Composition,
    pub(super) as_of: Timestamp,
}

impl Draft {
    /// Returns a draft of the shown items, with `added` in place of the revisited ones.
    pub(super) fn new(material: &Material, added: Vec<Item>) -> Self {
        let kept_items = material.items.iter().filter(|item| !material.revisited.contains(&item.item));
        Self {
            items: kept_items.cloned().chain(added).collect(),
            dropped: Vec::new(),
            replaced: material.revisited.clone(),
            path: None,
            facts: FactUpdate::default(),
            only_ages: false,
            merged: 0,
            condensed: 0,
        }
    }

    pub(super) fn aged(material: &Material) -> Self {
        Self { only_ages: true, ..Self::new(material, Vec::new()) }
    }

    /// Returns a draft of the shown items in which the revisited ones become final, so that no model is asked about them again.
    pub(super) fn lasting(material: &Material) -> Self {
        let revisited = material.items.iter().filter(|item| material.revisited.contains(&item.item));
        let lasting = revisited.map(|item| Item { item: 0, provisional: false, ..item.clone() });
        Self::new(material, lasting.collect())
    }

    fn compacted(self, outcome: CarriedOut, path: Path) -> Self {
        Self {
            items: outcome.items,
            dropped: outcome.dropped,
            replaced: [self.replaced, outcome.replaced].concat(),
            path: Some(path),
            facts: self.facts,
            only_ages: false,
            merged: outcome.merged,
            condensed: outcome.condensed,
        }
    }
}

/// The versions at which a model's compaction was useless. For the next versions no model is asked.
#[derive(Debug)]
pub(super) struct CompactionCooldown(Mutex<LruCache<AgentId, i64>>);

impl Default for CompactionCooldown {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(AGENTS_MAX)))
    }
}

impl CompactionCooldown {
    fn is_worth_asking(&self, agent: &AgentId, version: i64) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted
            .get(agent)
            .is_none_or(|noted| !(*noted..noted.saturating_add(VERSIONS_BETWEEN)).contains(&version))
    }

    fn note(&self, agent: &AgentId, version: i64) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(agent.clone(), version);
    }
}

#[derive(Debug, thiserror::Error)]
enum CompactError {
    #[error(transparent)]
    Call(#[from] CondenseError),
    #[error(transparent)]
    Reply(#[from] ReplyError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    NoProgress(#[from] NoProgress),
}

impl Worker {
    /// Returns a draft of the shown items without the revisited ones, together with what was condensed.
    pub(super) fn draft(&self, material: &Material, condensed: Condensation) -> Draft {
        let facts = self.supported_facts(material, &condensed.facts);
        Draft { facts, ..Draft::new(material, condensed.items) }
    }

    /// Makes a model compact `draft`, if the document is too big with the items as they are.
    ///
    /// # Errors
    /// When the update was interrupted. After any other failure the draft stays as it is.
    pub(super) async fn compact(
        &self,
        guard: &LeaseGuard,
        material: &Material,
        draft: Draft,
        run: &mut RunRecord,
    ) -> Result<Draft, Interruption> {
        let (agent, version) = (&guard.lease.agent, material.version);
        if !self.settings.compact_by_model
            || self.is_offline()
            || !self.compaction_cooldown.is_worth_asking(agent, version)
        {
            return Ok(draft);
        }
        let (as_of, counter) = (as_of(material, run), self.parts.counter.as_ref());
        let policy = self.policy(material);
        let policy = beside_facts(&policy, &draft.facts.holding(&material.facts), counter);
        let rules = Rules {
            as_of,
            policy: &policy,
            counter,
            fixed: &material.fixed,
            tokens_max: self.settings.limits.tokens_max,
        };
        let path = compose(&draft.items, as_of, rules.policy, rules.counter).path;
        let Some(question) = Question::about(&draft.items, path, rules) else {
            return Ok(draft);
        };
        match self.carry_out(guard, material, &question, run).await {
            Ok(outcome) => {
                info!(
                    agent_id = %agent, path = path.name(), merged = outcome.merged, condensed = outcome.condensed,
                    dropped = outcome.dropped.len(), saved_tokens = outcome.saved_tokens, refused = outcome.refused.len(),
                    "update.compacted"
                );
                Ok(draft.compacted(outcome, path))
            }
            Err(CompactError::Call(CondenseError::Interrupted(why))) => Err(why),
            // No model was asked, so this says nothing about its usefulness.
            Err(CompactError::Call(
                CondenseError::Paused(_) | CondenseError::Llm(LlmError::Waiting { .. }),
            )) => Ok(draft),
            Err(error) => {
                if let CompactError::Store(error) | CompactError::Call(CondenseError::Store(error)) = &error {
                    self.parts.metrics.service.db_failed(error.class());
                }
                info!(agent_id = %agent, %error, "update.not_compacted");
                self.compaction_cooldown.note(agent, version);
                Ok(draft)
            }
        }
    }

    pub(super) fn policy(&self, material: &Material) -> SummaryPolicy {
        self.settings.policy.for_agent(material.time)
    }

    async fn carry_out(
        &self,
        guard: &LeaseGuard,
        material: &Material,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<CarriedOut, CompactError> {
        let lease = &guard.lease;
        let key = self.journal_key(lease, material, &question.lines().join("\n"));
        let operations = match self.parts.store.journalled(&lease.agent, &key).await? {
            Some(journalled) => {
                parse_operations(&journalled.answer, &question.demands(), &self.parts.redactor)?
            }
            None => self.propose(guard, question, &key, run).await?,
        };
        let outcome = question.carry_out(&operations)?;
        for fault in &outcome.refused {
            debug!(agent_id = %lease.agent, %fault, "update.operation_refused");
        }
        Ok(outcome)
    }

    /// Asks a model for operations, and journals the valid ones.
    async fn propose(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        key: &str,
        run: &mut RunRecord,
    ) -> Result<Operations, CompactError> {
        let texts_max = (self.settings.output_tokens_max / WORDING_TOKENS).max(1);
        let request = ModelRequest {
            prompt: Prompt::for_operations(question, &self.nonce(), texts_max),
            transcripts: Vec::new(),
            facts: Vec::new(),
            output_tokens_max: self.settings.output_tokens_max,
            // Without an agent the call gets no reserved turn: if the limits would make it wait long, the update continues
            // without compaction.
            agent: None,
            limit_wait: LimitWait::default(),
        };
        let answer = self.call(self.parts.model.as_ref(), guard, &request, run).await?;
        let operations = parse_operations(&answer.text, &question.demands(), &self.parts.redactor)?;
        let journalled = JournalledAnswer {
            answer: serde_json::to_string(&operations).unwrap_or(answer.text),
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
        };
        self.parts.store.journal(&guard.lease.agent, key, &journalled, self.parts.clock.now()).await?;
        Ok(operations)
    }
}
