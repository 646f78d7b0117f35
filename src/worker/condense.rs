//! Condensing: pending exchanges to items, by a model whose answer is checked before it is believed, or by digests.

use sha2::{Digest as _, Sha256};

use super::{Hold, Interruption, Worker, reason, span};
use crate::{
    domain::{
        exchange::Exchange,
        message::Message,
        prompt::Prompt,
        reply::{self, ReplyError},
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

/// Digests in place of a model's words, to be condensed again when a model is there.
pub(super) fn digests(material: &Material) -> Vec<Item> {
    digest_items(&rows(&material.exchanges))
}

fn rows(exchanges: &[StoredExchange]) -> Vec<Exchange> {
    exchanges.iter().map(|stored| stored.exchange.clone()).collect()
}

impl Worker {
    /// Asks the model about the exchanges of `material`. An answer that was paid for before a crash is used.
    pub(super) async fn condense(
        &self,
        hold: &Hold,
        material: &Material,
        run: &mut RunRecord,
    ) -> Result<Vec<Item>, CondenseError> {
        let asked: Vec<i64> = material
            .exchanges
            .iter()
            .map(|stored| stored.exchange.exchange)
            .collect();
        let lease = &hold.lease;
        let key = self.journal_key(lease, material);
        let drafts = match self.parts.store.journalled(&lease.agent, &key).await? {
            Some(journalled) => reply::parse(&journalled.answer, &asked)?.drafts,
            None => self.ask(hold, material, &asked, &key, run).await?,
        };
        let origin = if self.is_offline() {
            Origin::Offline
        } else {
            Origin::Model
        };
        let mut items = items_from(&drafts, &rows(&material.exchanges), origin)?;
        // What the model left out will be left out again: its digests are there to stay.
        for item in &mut items {
            item.provisional = false;
        }
        Ok(items)
    }

    async fn ask(
        &self,
        hold: &Hold,
        material: &Material,
        asked: &[i64],
        key: &str,
        run: &mut RunRecord,
    ) -> Result<Vec<ItemDraft>, CondenseError> {
        let mut request = self.request(material);
        let mut answer = self.call(hold, &request, run).await?;
        let checked = match reply::parse(&answer.text, asked) {
            Err(fault) if fault.is_worth_asking_again() => {
                request.prompt = request.prompt.again(&fault);
                answer = self.call(hold, &request, run).await?;
                reply::parse(&answer.text, asked)?
            }
            checked => checked?,
        };
        if !self.is_offline() {
            let ModelAnswer {
                text,
                input_tokens,
                output_tokens,
                ..
            } = answer;
            let journalled = JournalledAnswer {
                answer: text,
                input_tokens,
                output_tokens,
            };
            self.parts
                .store
                .journal(&hold.lease.agent, key, &journalled, self.parts.clock.now())
                .await?;
        }
        Ok(checked.drafts)
    }

    fn request(&self, material: &Material) -> ModelRequest {
        let transcripts: Vec<Transcript> = material
            .exchanges
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
                Transcript::new(&stored.exchange, &messages, self.settings.transcript)
            })
            .collect();
        let nonce: String = self.draw(|random| {
            std::iter::repeat_with(|| random.alphanumeric())
                .take(NONCE_CHARS)
                .collect()
        });
        ModelRequest {
            prompt: Prompt::new(&transcripts, &nonce, self.settings.prompt),
            transcripts,
            output_tokens_max: self.settings.output_tokens_max,
        }
    }

    async fn call(
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
    fn is_offline(&self) -> bool {
        self.parts.model.provider() == OFFLINE
    }

    /// Names a question: the same question asked again, after a crash, has the same answer.
    fn journal_key(&self, lease: &Lease, material: &Material) -> String {
        let (model, Material { version, lo, hi, .. }) = (&self.parts.model, material);
        // Which exchanges are revisited, the watermarks don't tell.
        let asked: Vec<String> = material
            .exchanges
            .iter()
            .map(|stored| stored.exchange.exchange.to_string())
            .collect();
        let question = [
            PROMPT_VERSION,
            model.provider(),
            model.model(),
            lease.agent.as_str(),
            &version.to_string(),
            &lo.to_string(),
            &hi.to_string(),
            &asked.join(","),
        ];
        let digest = Sha256::digest(question.join("\n"));
        digest.iter().fold(String::new(), |mut hex, byte| {
            hex.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            hex.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
            hex
        })
    }
}
