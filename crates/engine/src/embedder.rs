//! The second list of recall: an embedding model reads messages in the background, and the questions of searches.
//!
//! Nothing needs it: what it hasn't read, or fails to read, is found by words alone. No search waits for it longer than its patience.

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

/// The most messages of one call.
const INPUTS_MAX: i64 = 32;
/// How long an agent's messages are claimed: longer than a call takes.
const CLAIM_MS: i64 = 5 * MINUTE_MS;
/// How long to gather more messages after an append.
const GATHER: Duration = Duration::from_secs(2);
/// How often to look for messages of which no notice came.
const NET_EVERY: Duration = Duration::from_mins(5);
/// The longest pause between two calls; otherwise it is as long as the last call, so that questions get half of the time.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The first wait after a failure, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(10));
/// How long no question is put to the model after one that failed or was late.
const QUESTION_REST: Duration = Duration::from_secs(10);
/// The most questions that the model reads at the same time.
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
    /// How long to wait at least.
    fn retry_after(&self) -> Duration {
        let asked = match self {
            Self::Model(EmbeddingError::Provider(error)) => error.retry_after(),
            _ => None,
        };
        asked.unwrap_or_default().min(BACKOFF.1)
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
    places: Arc<Semaphore>,
    questions: TaskTracker,
    resting_until: Mutex<Option<Instant>>,
}

impl Embedder {
    pub fn new(parts: EmbedderParts, model: EmbeddingModel, patience: Duration) -> Self {
        Self {
            parts,
            model,
            patience,
            places: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            questions: TaskTracker::new(),
            resting_until: Mutex::new(None),
        }
    }

    /// Embeds appended messages until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let work = async {
            let mut wait = BACKOFF.0;
            loop {
                let mut moves = self.parts.notices.moves();
                match self.embed_all().await {
                    Ok(()) => {
                        wait = BACKOFF.0;
                        drop(timeout(NET_EVERY, moves.recv()).await);
                        sleep(GATHER).await;
                    }
                    Err(error) => {
                        if let EmbedderError::Store(error) = &error {
                            self.parts.metrics.service.db_failed(error.class());
                        }
                        warn!(%error, "recall.not_embedded");
                        sleep(wait.max(error.retry_after())).await;
                        wait = (wait * 2).min(BACKOFF.1);
                    }
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Embeds all messages, some at a time. Where one of several can't be read, fewer are tried.
    ///
    /// # Errors
    /// The first that isn't about a message's text; what was embedded before stays.
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

    /// Embeds the next messages; false if there are none. A text that the model can't read goes without an embedding.
    async fn embed_some(&self, messages_max: i64) -> Result<bool, EmbedderError> {
        let now = self.parts.clock.now();
        let claim = EmbeddingClaim {
            model: self.model.clone(),
            messages_max,
            now,
            until: now.plus_ms(CLAIM_MS),
        };
        let Some(batch) = self.parts.store.claim_unembedded(claim).await? else {
            return Ok(false);
        };
        let (seqs, texts): (Vec<i64>, Vec<String>) = batch
            .messages
            .iter()
            .filter_map(|stored| Some((stored.seq, text_to_embed(&stored.message, &self.parts.redactor)?)))
            .unzip();
        let asked = if texts.is_empty() {
            Ok(Vec::new())
        } else {
            let (remote, metrics) = (&self.parts.remote, &self.parts.metrics);
            embed(remote, metrics, EmbeddingPurpose::Messages, &texts).await
        };
        match asked {
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

    /// The embedding of a search's question; `None` if the model fails, is late or rests. The call of a late one goes on, as the model may
    /// have to be loaded first.
    pub async fn question(&self, words: &str) -> Option<QuestionEmbedding> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        let place = place.filter(|_| !self.is_resting())?;
        let text = self.parts.redactor.redact(words).into_owned();
        let (remote, metrics) = (Arc::clone(&self.parts.remote), self.parts.metrics.clone());
        let call = self.questions.spawn(async move {
            let asked = embed(&remote, &metrics, EmbeddingPurpose::Question, &[text]).await;
            drop(place);
            asked
        });
        let asked = timeout(self.patience, call).await;
        if asked.is_err() {
            self.parts
                .metrics
                .embeddings
                .failed(EmbeddingPurpose::Question, "timeout");
        }
        let embedding = asked
            .ok()
            .and_then(Result::ok)
            .and_then(Result::ok)
            .and_then(|mut embeddings| embeddings.pop());
        if embedding.is_none() {
            *self.resting() = Some(Instant::now() + QUESTION_REST);
        }
        Some(QuestionEmbedding {
            model: self.model.name.clone(),
            embedding: embedding?,
        })
    }

    fn is_resting(&self) -> bool {
        self.resting().is_some_and(|until| Instant::now() < until)
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls the model, and measures that.
async fn embed(
    remote: &RemoteEmbeddings,
    metrics: &Metrics,
    purpose: EmbeddingPurpose,
    texts: &[String],
) -> Result<Vec<Embedding>, EmbeddingError> {
    let start = Instant::now();
    let asked = remote.embed(texts).await;
    metrics.embeddings.answered(purpose, start.elapsed());
    if let Err(error) = &asked {
        metrics.embeddings.failed(purpose, error.class());
    }
    asked
}
