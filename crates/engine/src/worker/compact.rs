//! Compacting: shortens a document that grew too big, by operations that a model proposes once per update.
//!
//! If that fails, the document is composed without a model: shorter texts and fewer items need none.

use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use tracing::{debug, info};

use super::{
    Interruption, LeaseGuard, Worker, ageing::as_of, condense::CondenseError, condensed::Condensation,
};
use recapd_core::domain::{
    agent::AgentId,
    prompt::Prompt,
    reply::{ReplyError, parse_operations},
    summary::{
        compaction::{Path, SummaryPolicy, beside_facts, compose},
        item::Item,
        operations::{CarriedOut, NoProgress, Operations, Question, Rules},
        state::FactUpdate,
    },
};
use recapd_llm::{LlmError, ModelRequest, limits::LimitWait};
use recapd_store::{JournalledAnswer, Material, RunRecord, StoreError};

/// Tokens of an answer that the texts of one operation need.
const WORDING_TOKENS: i64 = 300;
/// After a useless answer, no model is asked for this many versions of the document.
const VERSIONS_BETWEEN: i64 = 8;
/// The most agents for which a useless answer is remembered.
const AGENTS_MAX: usize = 10_000;

/// The contents of a new version.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The items to compose the document of; new ones have the number 0.
    pub(super) items: Vec<Item>,
    /// Items that leave the document, stored or new.
    pub(super) dropped: Vec<Item>,
    /// The numbers of stored items that others replace.
    pub(super) replaced: Vec<i64>,
    /// The path that the document needed before a model compacted it; `None` if none did.
    pub(super) path: Option<Path>,
    pub(super) facts: FactUpdate,
    /// True if only time has changed the document. Then only items that are too old leave. An item without room now may find some when
    /// others have aged, so the result doesn't depend on how often the ageing job runs.
    pub(super) only_ages: bool,
    pub(super) merged: usize,
    pub(super) condensed: usize,
}

impl Draft {
    /// The shown items, with `added` in place of the revisited ones.
    pub(super) fn new(material: &Material, added: Vec<Item>) -> Self {
        let kept = material
            .items
            .iter()
            .filter(|item| !material.revisited.contains(&item.item));
        Self {
            items: kept.cloned().chain(added).collect(),
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
        Self {
            only_ages: true,
            ..Self::new(material, Vec::new())
        }
    }

    /// The shown items; the revisited ones become final, and no model is asked about them again.
    pub(super) fn lasting(material: &Material) -> Self {
        let revisited = material
            .items
            .iter()
            .filter(|item| material.revisited.contains(&item.item));
        let lasting = revisited.map(|item| Item {
            item: 0,
            provisional: false,
            ..item.clone()
        });
        Self::new(material, lasting.collect())
    }

    fn compacted(self, done: CarriedOut, path: Path) -> Self {
        Self {
            items: done.items,
            dropped: done.dropped,
            replaced: [self.replaced, done.replaced].concat(),
            path: Some(path),
            facts: self.facts,
            only_ages: false,
            merged: done.merged,
            condensed: done.condensed,
        }
    }
}

/// The versions at which a model's compaction was useless. The next versions aren't worth a call either.
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
    /// The shown items without the revisited ones, with what was condensed.
    pub(super) fn draft(&self, material: &Material, condensed: Condensation) -> Draft {
        let facts = self.believed_facts(material, &condensed.facts);
        Draft {
            facts,
            ..Draft::new(material, condensed.items)
        }
    }

    /// Has a model compact `draft`, if the document is too big for its items as they are.
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
            || !self.in_vain.is_worth_asking(agent, version)
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
            Ok(done) => {
                info!(
                    agent_id = %agent, path = path.name(), merged = done.merged, condensed = done.condensed,
                    dropped = done.dropped.len(), saved_tokens = done.saved_tokens, refused = done.refused.len(),
                    "update.compacted"
                );
                Ok(draft.compacted(done, path))
            }
            Err(CompactError::Call(CondenseError::Interrupted(why))) => Err(why),
            // No model was asked, so nothing is known about its usefulness.
            Err(CompactError::Call(
                CondenseError::Paused(_) | CondenseError::Llm(LlmError::Waiting { .. }),
            )) => Ok(draft),
            Err(error) => {
                if let CompactError::Store(error) | CompactError::Call(CondenseError::Store(error)) = &error {
                    self.parts.metrics.service.db_failed(error.class());
                }
                info!(agent_id = %agent, %error, "update.not_compacted");
                self.in_vain.note(agent, version);
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
        let done = question.carry_out(&operations)?;
        for fault in &done.refused {
            debug!(agent_id = %lease.agent, %fault, "update.operation_refused");
        }
        Ok(done)
    }

    /// Asks for operations, and journals those that are valid.
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
            // No agent, so no turn is kept for it: if the limits would make it wait long, the update goes on without compaction.
            agent: None,
            held: LimitWait::default(),
        };
        let answer = self.call(self.parts.model.as_ref(), guard, &request, run).await?;
        let operations = parse_operations(&answer.text, &question.demands(), &self.parts.redactor)?;
        let journalled = JournalledAnswer {
            answer: serde_json::to_string(&operations).unwrap_or(answer.text),
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
        };
        self.parts
            .store
            .journal(&guard.lease.agent, key, &journalled, self.parts.clock.now())
            .await?;
        Ok(operations)
    }
}
