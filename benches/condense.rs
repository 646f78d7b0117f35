//! What a model reads to keep the summary up to date: recapd, and the plain way of rewriting the whole summary at each
//! update. Computed, not measured: the same on any machine.
//!
//! `cargo bench --bench condense -- FILE` reads any conversation; without a file it is `examples/two-weeks.jsonl`.
//!
//! Assumed:
//! - The model answers as models do: an item for two or three exchanges, with texts of some 60, 25 and 10 tokens.
//! - The plain way: exchanges leave the window one by one; whenever three have left, the model reads instructions as long
//!   as recapd's, the whole summary, and the three in full, and writes the whole summary anew.
//! - Its summary is as long as recapd's at the same message.
//! - Beside it stands what rewriting costs at recapd's own updates, which are fewer, and whose material is cut.
//! - Tokens are counted in o200k, and prices are those of `prices.toml`, without a cache; batches cost half.

#[path = "measure/conversation.rs"]
mod conversation;
#[path = "measure/table.rs"]
mod table;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use recapd::{
    assembly::{self, Parts},
    clock::SystemClock,
    config::{self, Config, Synchronous},
    domain::{
        agent::AgentId,
        message::Message,
        price::Usage,
        time::Timestamp,
        tokens::{TokenCounter, count_message},
        window::{Budget, Window},
    },
    llm::{ChatModel, LlmError, ModelAnswer, ModelRequest},
    store::{SqlStore, Store},
    tokenizer,
};
use serde_json::json;
use table::Table;

/// Exchanges that the plain way waits for.
const PLAIN_BATCH: i64 = 3;
/// Whose prices are taken.
const PRICED: &str = "claude-haiku-5-5";
/// The three texts of an item have about so many words.
const ITEM_WORDS: [usize; 3] = [45, 18, 7];

/// What calls came to.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    count: i64,
    input_tokens: i64,
    output_tokens: i64,
}

impl Calls {
    fn add(&mut self, input_tokens: i64, output_tokens: i64) {
        self.count += 1;
        self.input_tokens += input_tokens;
        self.output_tokens += output_tokens;
    }
}

/// Answers with items of usual lengths, made of the words of the exchanges.
struct UsualModel {
    counter: Arc<dyn TokenCounter>,
    calls: Mutex<(Calls, i64)>,
}

impl UsualModel {
    fn so_far(&self) -> Calls {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).0
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
        let system_tokens = self.counter.count(&request.prompt.system);
        let answer = ModelAnswer {
            input_tokens: system_tokens + self.counter.count(&request.prompt.user),
            output_tokens: self.counter.count(&text),
            text,
            ..ModelAnswer::default()
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.0.add(answer.input_tokens, answer.output_tokens);
        calls.1 = system_tokens;
        Ok(answer)
    }
}

/// Items for two and three exchanges in turn.
fn answer(request: &ModelRequest) -> String {
    let numbers: Vec<i64> = request
        .transcripts
        .iter()
        .map(|transcript| transcript.exchange)
        .collect();
    let mut words = request
        .prompt
        .user
        .split_whitespace()
        .filter(|word| word.len() < 20)
        .cycle();
    let mut text = |count| words.by_ref().take(count).collect::<Vec<_>>().join(" ");
    let (mut items, mut rest) = (Vec::new(), numbers.as_slice());
    while let Some(&first) = rest.first() {
        let (these, after) = rest.split_at(rest.len().min(2 + items.len() % 2));
        let [long, brief, gist] = ITEM_WORDS.map(&mut text);
        items.push(
            json!({"exchanges": {"first": first, "last": these.last()}, "importance": "feature",
                          "text": long, "brief": brief, "gist": gist}),
        );
        rest = after;
    }
    json!({ "items": items }).to_string()
}

/// What recapd's calls came to over a conversation.
struct Lived {
    calls: Calls,
    /// The same calls, had each read and written the whole summary.
    rewriting: Calls,
    /// The tokens of its instructions.
    instructions_tokens: i64,
    evicted_tokens: i64,
    evicted_exchanges: i64,
    /// The tokens of the document after each message.
    document_tokens: Vec<i64>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let messages = conversation::given()?;
    let counter = tokenizer::counter_for("openai", "gpt-5");
    let all: i64 = messages
        .iter()
        .map(|message| count_message(counter.as_ref(), message))
        .sum();
    // A fifth of a conversation that would fit into the window as it is.
    let budget_tokens = Config::default().window.budget_tokens.min(all / 5);
    let lived = live(&messages, budget_tokens, Arc::clone(&counter)).await?;
    let plain = rewrite(&messages, budget_tokens, counter, &lived);
    let title = format!("{} messages, a window of {budget_tokens} tokens", messages.len());
    print(&title, &lived, plain);
    Ok(())
}

/// The daemon's own keeper and worker, with the defaults for everything but the waiting.
async fn live(
    messages: &[Message],
    budget_tokens: i64,
    counter: Arc<dyn TokenCounter>,
) -> anyhow::Result<Lived> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let mut config = Config::default();
    config.window.budget_tokens = budget_tokens;
    config.queue.debounce_ms = 0;
    config.database.url = format!("sqlite:{}", folder.path().join("condense.db").display());
    config.database.synchronous = Synchronous::Off;
    let store = Arc::new(SqlStore::open(&assembly::database_settings(&config.database)).await?);
    let model = Arc::new(UsualModel {
        counter,
        calls: Mutex::default(),
    });
    let parts = Parts::new(
        (&config, config.spend.prices()?),
        store.clone(),
        model.clone(),
        Arc::new(SystemClock),
        "bench",
        0,
    );
    let agent: AgentId = "condense".parse()?;
    let mut lived = Lived {
        calls: Calls::default(),
        rewriting: Calls::default(),
        instructions_tokens: 0,
        evicted_tokens: 0,
        evicted_exchanges: 0,
        document_tokens: Vec::with_capacity(messages.len()),
    };
    let mut document_tokens = 0;
    for message in messages {
        let outcome = parts.keeper.replay(&agent, vec![message.clone()]).await?;
        if !outcome.evictions.is_empty() {
            lived.evicted_tokens += outcome
                .evictions
                .iter()
                .map(|eviction| eviction.tokens)
                .sum::<i64>();
            let before = model.so_far();
            parts.worker.drain().await?;
            let row = store.agent(&agent).await?;
            let read_tokens = document_tokens;
            document_tokens = row.map_or(0, |row| row.summary_tokens);
            let after = model.so_far();
            let calls = after.count - before.count;
            lived.rewriting.count += calls;
            lived.rewriting.input_tokens += after.input_tokens - before.input_tokens + calls * read_tokens;
            lived.rewriting.output_tokens += calls * document_tokens;
        }
        lived.document_tokens.push(document_tokens);
    }
    let row = store.agent(&agent).await?;
    lived.evicted_exchanges = row.map_or(0, |row| row.ledger.first_exchange - 1);
    (lived.calls, lived.instructions_tokens) = *model.calls.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(lived)
}

/// The plain way over the same conversation, and the tokens that left its window.
fn rewrite(
    messages: &[Message],
    budget_tokens: i64,
    counter: Arc<dyn TokenCounter>,
    lived: &Lived,
) -> (Calls, i64) {
    let mut window = Window::new(Budget::new(budget_tokens, 1.0), counter);
    let (mut calls, mut evicted_tokens) = (Calls::default(), 0);
    let (mut waiting, mut waiting_tokens) = (0, 0);
    for (message, document_tokens) in messages.iter().zip(&lived.document_tokens) {
        for eviction in window.push(message.clone(), Timestamp(0)) {
            waiting += 1;
            waiting_tokens += eviction.tokens.iter().sum::<i64>();
        }
        if waiting >= PLAIN_BATCH {
            evicted_tokens += waiting_tokens;
            calls.add(
                lived.instructions_tokens + document_tokens + waiting_tokens,
                *document_tokens,
            );
            (waiting, waiting_tokens) = (0, 0);
        }
    }
    (calls, evicted_tokens)
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn print(title: &str, lived: &Lived, (plain, plain_evicted): (Calls, i64)) {
    let prices = config::shipped_prices();
    let cost = |calls: Calls| {
        let usage = Usage {
            input: calls.input_tokens,
            output: calls.output_tokens,
            ..Usage::default()
        };
        // Call by call none is long.
        let price = prices
            .of(PRICED)
            .map(|price| recapd::domain::price::Price { long: None, ..*price });
        price.map_or(0, |price| price.cost_microusd(usage)) as f64 / 1e6
    };
    let mut table = Table::new(
        title,
        &[
            "calls",
            "a 1,000 exchanges",
            "tokens read",
            "an evicted token",
            "tokens written",
            "costs, $",
            "× rewriting",
        ],
    );
    let exchanges = lived.evicted_exchanges.max(1) as f64;
    let mut row = |name: &str, calls: Calls, evicted: i64, factor: f64| {
        let cells = [
            calls.count.to_string(),
            format!("{:.1}", calls.count as f64 * 1e3 / exchanges),
            calls.input_tokens.to_string(),
            format!("{:.3}", calls.input_tokens as f64 / evicted.max(1) as f64),
            calls.output_tokens.to_string(),
            format!("{:.4}", cost(calls) * factor),
            format!("{:.2}", cost(calls) * factor / cost(plain).max(1e-9)),
        ];
        table.row(name, &cells);
    };
    row("rewriting the whole summary", plain, plain_evicted, 1.0);
    row(
        "rewriting it at recapd's updates",
        lived.rewriting,
        lived.evicted_tokens,
        1.0,
    );
    row("recapd", lived.calls, lived.evicted_tokens, 1.0);
    row("recapd, in batches", lived.calls, lived.evicted_tokens, 0.5);
    table.print();
    let per_token = |calls: Calls, evicted: i64| calls.input_tokens as f64 / evicted.max(1) as f64;
    let ratio = per_token(lived.calls, lived.evicted_tokens) / per_token(plain, plain_evicted).max(1e-9);
    let mut table = Table::new("model input tokens per evicted token", &["× rewriting"]);
    table.row("recapd", &[format!("{ratio:.2}")]);
    table.print();
}
