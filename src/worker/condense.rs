//! Condensing: pending exchanges to items, by a model whose answer is checked before it is believed, or by digests.

use sha2::{Digest as _, Sha256};
use tracing::debug;

use super::{Hold, Interruption, Worker, reason, span};
use crate::{
    domain::{
        exchange::Exchange,
        message::Message,
        prompt::{Prompt, PromptLimits},
        reply::{self, Answer, ReplyError},
        summary::{
            coverage::{CoverageError, digest_items, items_from},
            item::{Item, ItemDraft, Origin},
        },
        transcript::Transcript,
        work::Lease,
    },
    llm::{LlmError, ModelAnswer, ModelRequest, offline::OFFLINE},
    store::{JournalledAnswer, Material, RunRecord, StoreError, StoredExchange},
    telemetry::metrics::{ProviderTokens, labels::ProviderErrorClass},
};

/// Changes with the prompt or the schema, so that an answer journalled under an older one isn't used.
const PROMPT_VERSION: &str = "1";
/// One exchange alone is never told in fewer characters than this.
const MATERIAL_CHARS_MIN: usize = 1_000;
/// The nonce of a fence, in letters and digits.
const NONCE_CHARS: usize = 16;

/// Why exchanges could not be condensed, by what to do next.
#[derive(Debug, thiserror::Error)]
pub(super) enum CondenseError {
    /// The model failed.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// The model answered, but what it said can't be believed.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The model answered about the wrong exchanges.
    #[error(transparent)]
    Coverage(#[from] CoverageError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model was waited for no longer.
    #[error("interrupted")]
    Interrupted(Interruption),
}

impl CondenseError {
    /// A short, stable name.
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Llm(error) => error.class(),
            Self::Reply(error) => error.class(),
            Self::Coverage(_) => "bad_output",
            Self::Store(_) => "db",
            Self::Interrupted(_) => "shutdown",
        }
    }

    /// Asking again later is useless until somebody changes something.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Llm(LlmError::Auth(_) | LlmError::Permanent(_) | LlmError::Refused(_))
        )
    }

    /// Asking about fewer exchanges may help.
    pub(super) fn is_too_much(&self) -> bool {
        matches!(
            self,
            Self::Llm(LlmError::ContextOverflow(_) | LlmError::Truncated)
        )
    }
}

fn rows(exchanges: &[StoredExchange]) -> Vec<Exchange> {
    exchanges.iter().map(|stored| stored.exchange.clone()).collect()
}

impl Worker {
    /// Digests in place of a model's words, to be condensed again when a model is there.
    pub(super) fn digests(&self, material: &Material) -> Vec<Item> {
        let rows: Vec<Exchange> = rows(&material.exchanges)
            .into_iter()
            .map(|row| Exchange {
                // By today's rules: it was redacted by those of its day.
                headline: row.headline.redacted(&self.parts.redactor),
                ..row
            })
            .collect();
        digest_items(&rows)
    }

    /// Asks the model about the exchanges of `material`: in one question or, where revisited items are too much for
    /// the model, in several about fewer exchanges each, so that each exchange still stands in exactly one item.
    pub(super) async fn condense(
        &self,
        hold: &Hold,
        material: &Material,
        run: &mut RunRecord,
    ) -> Result<Vec<Item>, CondenseError> {
        let mut items = Vec::new();
        // Last in, first out: so the pieces come in the order of their exchanges.
        let mut pieces = vec![material.exchanges.as_slice()];
        while let Some(piece) = pieces.pop() {
            match self.condense_piece(hold, material, piece, run).await {
                Ok(of_piece) => items.extend(of_piece),
                // Pending exchanges are taken in smaller batches instead, one update each.
                Err(fault) if fault.is_too_much() && !material.revisited.is_empty() && piece.len() > 1 => {
                    let (first, second) = piece.split_at(piece.len() / 2);
                    debug!(agent_id = %hold.lease.agent, exchanges = first.len(), "update.revisit_halved");
                    pieces.extend([second, first]);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(items)
    }

    /// Asks the model about some exchanges. An answer that was paid for before a crash is used.
    async fn condense_piece(
        &self,
        hold: &Hold,
        material: &Material,
        exchanges: &[StoredExchange],
        run: &mut RunRecord,
    ) -> Result<Vec<Item>, CondenseError> {
        let asked: Vec<i64> = exchanges.iter().map(|stored| stored.exchange.exchange).collect();
        let lease = &hold.lease;
        // Which exchanges are revisited, the watermarks don't tell.
        let named: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let key = self.journal_key(lease, material, &named.join(","));
        let drafts = match self.parts.store.journalled(&lease.agent, &key).await? {
            Some(journalled) => self.believed(&journalled.answer, &asked)?,
            None => self.ask(hold, exchanges, &asked, &key, run).await?,
        };
        let origin = if self.is_offline() {
            Origin::Offline
        } else {
            Origin::Model
        };
        let mut items = items_from(&drafts, &rows(exchanges), origin)?;
        // What the model left out will be left out again: its digests are there to stay.
        for item in &mut items {
            item.provisional = false;
        }
        Ok(items)
    }

    async fn ask(
        &self,
        hold: &Hold,
        exchanges: &[StoredExchange],
        asked: &[i64],
        key: &str,
        run: &mut RunRecord,
    ) -> Result<Vec<ItemDraft>, CondenseError> {
        let mut limits = self.settings.prompt;
        let mut request = self.request(exchanges, limits);
        let mut answer = loop {
            match self.call(hold, &request, run).await {
                // One exchange can't be divided, but it can be told in fewer words.
                Err(CondenseError::Llm(LlmError::ContextOverflow(_)))
                    if exchanges.len() == 1 && limits.material_chars_max > MATERIAL_CHARS_MIN =>
                {
                    let chars = request.prompt.user.len().min(limits.material_chars_max);
                    limits.material_chars_max = (chars / 2).max(MATERIAL_CHARS_MIN);
                    debug!(agent_id = %hold.lease.agent, chars = limits.material_chars_max, "update.material_halved");
                    request = self.request(exchanges, limits);
                }
                answer => break answer?,
            }
        };
        let drafts = match self.believed(&answer.text, asked) {
            Err(fault) if fault.is_worth_asking_again() => {
                request.prompt = request.prompt.again(&fault);
                answer = self.call(hold, &request, run).await?;
                self.believed(&answer.text, asked)?
            }
            drafts => drafts?,
        };
        if !self.is_offline() {
            // What is believed, not what was said: no secret that a model repeats is kept.
            let believed = Answer {
                items: drafts.clone(),
            };
            let journalled = JournalledAnswer {
                answer: serde_json::to_string(&believed).unwrap_or(answer.text),
                input_tokens: answer.input_tokens,
                output_tokens: answer.output_tokens,
            };
            self.parts
                .store
                .journal(&hold.lease.agent, key, &journalled, self.parts.clock.now())
                .await?;
        }
        Ok(drafts)
    }

    /// What is believed of an answer.
    fn believed(&self, answer: &str, asked: &[i64]) -> Result<Vec<ItemDraft>, ReplyError> {
        Ok(reply::parse_redacted(answer, asked, &self.parts.redactor)?.drafts)
    }

    fn request(&self, exchanges: &[StoredExchange], limits: PromptLimits) -> ModelRequest {
        let transcripts: Vec<Transcript> = exchanges
            .iter()
            .map(|stored| {
                let messages: Vec<Message> = stored
                    .messages
                    .iter()
                    .map(|stored| Message {
                        at: Some(stored.said_at),
                        ..stored.message.clone()
                    })
                    .collect();
                Transcript::redacted(
                    &stored.exchange,
                    &messages,
                    self.settings.transcript,
                    &self.parts.redactor,
                )
            })
            .collect();
        ModelRequest {
            prompt: Prompt::new(&transcripts, &self.nonce(), limits),
            transcripts,
            output_tokens_max: self.settings.output_tokens_max,
        }
    }

    /// What marks the fence of one prompt.
    pub(super) fn nonce(&self) -> String {
        self.draw(|random| {
            std::iter::repeat_with(|| random.alphanumeric())
                .take(NONCE_CHARS)
                .collect()
        })
    }

    pub(super) async fn call(
        &self,
        hold: &Hold,
        request: &ModelRequest,
        run: &mut RunRecord,
    ) -> Result<ModelAnswer, CondenseError> {
        let model = &self.parts.model;
        run.provider = Some(model.provider().to_owned());
        run.model = Some(model.model().to_owned());
        run.model_calls += i64::from(!self.is_offline());
        let asked_at = self.parts.clock.now();
        let answer = tokio::select! {
            answer = model.answer(request) => answer,
            why = hold.interrupted() => return Err(CondenseError::Interrupted(why)),
        };
        let took = span(self.parts.clock.now().since_ms(asked_at));
        let metrics = &self.parts.metrics.provider;
        match &answer {
            Ok(answer) => {
                let tokens = ProviderTokens {
                    input: answer.input_tokens - answer.cached_input_tokens - answer.cache_write_tokens,
                    cache_read: answer.cached_input_tokens,
                    cache_write: answer.cache_write_tokens,
                    output: answer.output_tokens,
                };
                metrics.answered(model.provider(), model.model(), tokens, took);
            }
            Err(error) => {
                let class = reason(error.class());
                let class = ProviderErrorClass::from_reason(class).unwrap_or(ProviderErrorClass::Server);
                metrics.failed(model.provider(), model.model(), class, took);
            }
        }
        let answer = answer?;
        run.input_tokens += answer.input_tokens;
        run.output_tokens += answer.output_tokens;
        Ok(answer)
    }

    /// The built-in summariser costs nothing: its answers aren't counted as calls, nor journalled.
    pub(super) fn is_offline(&self) -> bool {
        self.parts.model.provider() == OFFLINE
    }

    /// Names a question: the same question asked again, after a crash, has the same answer.
    pub(super) fn journal_key(&self, lease: &Lease, material: &Material, asked: &str) -> String {
        let (model, Material { version, lo, hi, .. }) = (&self.parts.model, material);
        let question = [
            PROMPT_VERSION,
            model.provider(),
            model.model(),
            lease.agent.as_str(),
            &version.to_string(),
            &lo.to_string(),
            &hi.to_string(),
            asked,
        ];
        let digest = Sha256::digest(question.join("\n"));
        digest.iter().fold(String::new(), |mut hex, byte| {
            hex.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            hex.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
            hex
        })
    }
}
