//! A model whose answers are as long as real ones; counts tokens.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use recapd_core::domain::tokens::TokenCounter;
use recapd_llm::{ChatModel, LlmError, ModelAnswer, ModelRequest};
use serde_json::{Value, json};

pub(crate) const PRICED: &str = "claude-haiku-5-5";
/// The number of words in each of an item's three texts. Texts by real models are about as long.
const ITEM_WORDS: [usize; 3] = [45, 18, 7];
const FACT_WORDS: usize = 12;
const FACTS_ADDED: usize = 2;
/// With more facts than this, each answer closes [`FACTS_ADDED`] of them.
const FACTS_MAX: usize = 20;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) count: i64,
    pub(crate) input_tokens: i64,
    pub(crate) output_tokens: i64,
    /// The tokens of the instructions; `input_tokens` includes them.
    pub(crate) instructions_tokens: i64,
}

impl Calls {
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.instructions_tokens += other.instructions_tokens;
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            count: self.count - before.count,
            input_tokens: self.input_tokens - before.input_tokens,
            output_tokens: self.output_tokens - before.output_tokens,
            instructions_tokens: self.instructions_tokens - before.instructions_tokens,
        }
    }
}

/// A model that answers with items and facts of usual lengths, made of words from the exchanges.
pub(crate) struct UsualModel {
    counter: Arc<dyn TokenCounter>,
    calls: Mutex<Calls>,
}

impl UsualModel {
    pub(crate) fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter, calls: Mutex::default() }
    }

    pub(crate) fn so_far(&self) -> Calls {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChatModel for UsualModel {
    fn provider(&self) -> &'static str {
        "usual"
    }

    fn model(&self) -> &'static str {
        PRICED
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let text = answer(request);
        let instructions_tokens = self.counter.count(&request.prompt.system);
        let answer = ModelAnswer {
            input_tokens: instructions_tokens + self.counter.count(&request.prompt.user),
            output_tokens: self.counter.count(&text),
            text,
            ..ModelAnswer::default()
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.add(Calls {
            count: 1,
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
            instructions_tokens,
        });
        Ok(answer)
    }
}

/// Returns items for two and three exchanges alternately, or for more if the prompt limits the number of items.
fn answer(request: &ModelRequest) -> String {
    let numbers: Vec<i64> = request.transcripts.iter().map(|transcript| transcript.exchange).collect();
    let mut words = request.prompt.user.split_whitespace().filter(|word| word.len() < 20).cycle();
    let mut text = |count| words.by_ref().take(count).collect::<Vec<_>>().join(" ");
    let fewest = numbers.len().div_ceil(items_max(&request.prompt.user).max(1));
    let (mut items, mut rest) = (Vec::new(), numbers.as_slice());
    while let Some(&first) = rest.first() {
        let joined = (2 + items.len() % 2).max(fewest);
        let (these, after) = rest.split_at(rest.len().min(joined));
        let [long, brief, gist] = ITEM_WORDS.map(&mut text);
        items.push(json!({"exchanges": {"first": first, "last": these.last()}, "text": long, "brief": brief,
                   "gist": gist, "importance": "result"}));
        rest = after;
    }
    json!({ "items": items, "facts": facts(request, numbers.last(), &mut text) }).to_string()
}

/// Returns the highest number of items that the prompt allows.
fn items_max(user: &str) -> usize {
    let asked = user.rsplit_once(", at most ").map(|(_, asked)| asked);
    let number = asked.and_then(|asked| asked.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
}

fn facts(request: &ModelRequest, last: Option<&i64>, text: &mut dyn FnMut(usize) -> String) -> Value {
    let kinds = ["open", "state"].iter().cycle().take(FACTS_ADDED);
    let add: Vec<Value> =
        kinds.map(|kind| json!({"kind": kind, "text": text(FACT_WORDS), "exchange": last})).collect();
    let oldest = request.facts.iter().take(FACTS_ADDED);
    let close: Vec<Value> = oldest
        .filter(|_| request.facts.len() > FACTS_MAX)
        .map(|fact| json!({"fact": fact.fact, "exchange": last}))
        .collect();
    json!({"add": add, "replace": [], "close": close})
}
