//! Makes embeddings for recall: an embedding model reads messages in the background, and the questions of searches.
//!
//! Nothing depends on embeddings. Messages without one are found by their words alone, and no search waits for the model longer
//! than a time limit.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use recapd_core::domain::{
    recall::{Embedding, QuestionEmbedding, text_to_embed},
    redaction::Redactor,
    time::MINUTE_MS,
};
use recapd_llm::remote::embeddings::{EmbeddingError, RemoteEmbeddings};
use recapd_platform::{clock::Clock, notice::Notices};
use recapd_store::{
    StoreError,
    embedding::{EmbeddingBatch, EmbeddingClaim, EmbeddingModel, EmbeddingOutcome, EmbeddingStore},
};
use recapd_telemetry::metrics::{Metrics, labels::EmbeddingPurpose};

/// Limits the messages of one call.
const INPUTS_MAX: i64 = 32;
/// How long an agent's messages are claimed. A call takes less time.
const CLAIM_MS: i64 = 5 * MINUTE_MS;
/// How long to wait for more messages after an append.
const GATHER: Duration = Duration::from_secs(2);
/// How often to check for messages that no notice announced.
const CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// Limits the pause between two calls. The pause is as long as the last call, so that the model has half of its time for the
/// questions of searches.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The first wait after a failure. Each further failure doubles the wait (backoff).
const BACKOFF_MIN: Duration = Duration::from_secs(5);
const BACKOFF_MAX: Duration = Duration::from_mins(10);
/// How long no question is embedded after one that failed or took too long.
const QUESTION_REST: Duration = Duration::from_secs(10);
/// Limits how many questions the model reads at the same time.
const QUESTIONS_MAX: usize = 8;

/// Why no embeddings were made.
#[derive(Debug, thiserror::Error)]
pub enum EmbedderError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Model(#[from] EmbeddingError),
}

impl EmbedderError {
    /// Returns how long the provider wants recapd to wait at least; zero if it doesn't say.
    fn retry_after(&self) -> Duration {
        let retry_after = match self {
            Self::Model(EmbeddingError::Provider(error)) => error.retry_after(),
            _ => None,
        };
        retry_after.unwrap_or_default().min(BACKOFF_MAX)
    }
}

pub struct EmbedderParts {
    pub store: Arc<dyn EmbeddingStore>,
    pub remote: Arc<RemoteEmbeddings>,
    pub clock: Arc<dyn Clock>,
    pub notices: Notices,
    pub metrics: Metrics,
    pub redactor: Redactor,
}

pub struct Embedder {
    parts: EmbedderParts,
    model: EmbeddingModel,
    /// How long a search waits for its question's embedding.
    patience: Duration,
    permits: Arc<Semaphore>,
    questions: TaskTracker,
    resting_until: Mutex<Option<Instant>>,
}

impl Embedder {
    pub fn new(parts: EmbedderParts, model: EmbeddingModel, patience: Duration) -> Self {
        Self {
            parts,
            model,
            patience,
            permits: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            questions: TaskTracker::new(),
            resting_until: Mutex::new(None),
        }
    }

    /// Embeds appended messages until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let work = async {
            let mut wait = BACKOFF_MIN;
            loop {
                let mut moves = self.parts.notices.moves();
                match self.embed_all().await {
                    Ok(()) => {
                        wait = BACKOFF_MIN;
                        drop(timeout(CHECK_INTERVAL, moves.recv()).await);
                        sleep(GATHER).await;
                    }
                    Err(error) => {
                        if let EmbedderError::Store(error) = &error {
                            self.parts.metrics.service.db_failed(error.class());
                        }
                        warn!(%error, "recall.not_embedded");
                        sleep(wait.max(error.retry_after())).await;
                        wait = (wait * 2).min(BACKOFF_MAX);
                    }
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Embeds all messages, some at a time. If the model can't read one of several texts, tries fewer at a time (bisects).
    ///
    /// # Errors
    /// The first error that isn't about a message's text. Embeddings made before it stay.
    pub async fn embed_all(&self) -> Result<(), EmbedderError> {
        let mut size = INPUTS_MAX;
        loop {
            let start = Instant::now();
            let waiting = self.parts.store.unembedded(&self.model).await?;
            self.parts.metrics.embeddings.waiting(waiting);
            match self.embed_some(size).await {
                Ok(true) => size = (size * 2).min(INPUTS_MAX),
                Ok(false) => return Ok(()),
                Err(EmbedderError::Model(error)) if error.is_about_the_text() && size > 1 => size /= 2,
                Err(error) => return Err(error),
            }
            sleep(start.elapsed().min(PAUSE_MAX)).await;
        }
    }

    /// Embeds the next messages. Returns false if there are none. A text that the model can't read gets no embedding.
    async fn embed_some(&self, messages_max: i64) -> Result<bool, EmbedderError> {
        let now = self.parts.clock.now();
        let claim =
            EmbeddingClaim { model: self.model.clone(), messages_max, now, until: now.plus_ms(CLAIM_MS) };
        let Some(batch) = self.parts.store.claim_unembedded(claim).await? else {
            return Ok(false);
        };
        let (seqs, texts): (Vec<i64>, Vec<String>) = batch
            .messages
            .iter()
            .filter_map(|stored| Some((stored.seq, text_to_embed(&stored.message, &self.parts.redactor)?)))
            .unzip();
        let result = if texts.is_empty() {
            Ok(Vec::new())
        } else {
            let (remote, metrics) = (&self.parts.remote, &self.parts.metrics);
            embed(remote, metrics, EmbeddingPurpose::Messages, &texts).await
        };
        match result {
            Ok(embeddings) => {
                let through_seq = batch.through_seq;
                let embeddings = seqs.into_iter().zip(embeddings).collect();
                self.keep(batch, embeddings, through_seq).await?;
            }
            Err(error) if error.is_about_the_text() && texts.len() == 1 => {
                let through_seq = batch.through_seq;
                self.keep(batch, Vec::new(), through_seq).await?;
            }
            Err(error) => {
                // Ends the claim. The messages stay unembedded.
                let after_seq = batch.after_seq;
                self.keep(batch, Vec::new(), after_seq).await?;
                return Err(error.into());
            }
        }
        Ok(true)
    }

    async fn keep(
        &self,
        batch: EmbeddingBatch,
        embeddings: Vec<(i64, Embedding)>,
        through_seq: i64,
    ) -> Result<(), StoreError> {
        let outcome = EmbeddingOutcome {
            agent: batch.agent,
            model: self.model.clone(),
            embeddings,
            after_seq: batch.after_seq,
            through_seq,
            claimed_until: batch.claimed_until,
        };
        let stored = self.parts.store.keep_embeddings(outcome).await?;
        self.parts.metrics.embeddings.stored(stored);
        Ok(())
    }

    /// Returns the embedding of a search's question. Returns `None` if the model fails, takes too long, or rests after a failure.
    /// A call that takes too long continues, because the model may have to be loaded first.
    pub async fn question(&self, query: &str) -> Option<QuestionEmbedding> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        let permit = permit.filter(|_| !self.is_resting())?;
        let text = self.parts.redactor.redact(query).into_owned();
        let (remote, metrics) = (Arc::clone(&self.parts.remote), self.parts.metrics.clone());
        let call = self.questions.spawn(async move {
            let result = embed(&remote, &metrics, EmbeddingPurpose::Question, &[text]).await;
            drop(permit);
            result
        });
        let result = timeout(self.patience, call).await;
        if result.is_err() {
            self.parts.metrics.embeddings.failed(EmbeddingPurpose::Question, "timeout");
        }
        let embedding =
            result.ok().and_then(Result::ok).and_then(Result::ok).and_then(|mut embeddings| embeddings.pop());
        if embedding.is_none() {
            *self.resting() = Some(Instant::now() + QUESTION_REST);
        }
        Some(QuestionEmbedding { model: self.model.name.clone(), embedding: embedding? })
    }

    fn is_resting(&self) -> bool {
        self.resting().is_some_and(|until| Instant::now() < until)
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls the model and measures the call.
async fn embed(
    remote: &RemoteEmbeddings,
    metrics: &Metrics,
    purpose: EmbeddingPurpose,
    texts: &[String],
) -> Result<Vec<Embedding>, EmbeddingError> {
    let start = Instant::now();
    let result = remote.embed(texts).await;
    metrics.embeddings.answered(purpose, start.elapsed());
    if let Err(error) = &result {
        metrics.embeddings.failed(purpose, error.class());
    }
    result
}
