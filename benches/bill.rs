//! What a long session costs at a provider that caches prompts: the whole history with every call, a window that slides
//! a little every turn, and recapd's context as the daemon builds it. Computed, not measured: the same on any machine.
//!
//! `cargo bench --bench bill -- FILE` reads any conversation; without a file it is `examples/two-weeks.jsonl`.
//!
//! Assumed, after Anthropic's documentation of prompt caching:
//! - A cached token costs 0.1 of a plain one, one that is written to the cache 1.25. Output is the same for all three.
//! - Breakpoints: one behind the instructions, three behind the last three messages. What is cached is the longest
//!   prefix of messages, equal byte for byte, that ends at a breakpoint of the request before.
//! - A prefix of fewer than 1,024 tokens isn't cached.
//! - An entry lives for five minutes after its last use, by the conversation's own times; beside it stands the bill with
//!   a cache that is kept warm.
//! - The model is called wherever it speaks next. A message's tokens are those of its JSON, in o200k.
//! - recapd's worker takes as long as three model calls; until then digests stand for what left the window.

#[path = "measure/place.rs"]
mod place;
#[path = "measure/table.rs"]
mod table;

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use place::Place;
use recapd::{
    config::{Config, Synchronous},
    context::{self, ContextQuery},
    domain::{
        agent::AgentId,
        context::{ContextOptions, build},
        message::{Kind, Message},
        time::{MINUTE_MS, Timestamp},
        tokens::TokenCounter,
        window::{Budget, Window},
    },
    formats::{
        file::FileReader,
        outgoing::{RequestFormat, render},
    },
    tokenizer::{self, BytesCounter},
};
use serde_json::Value;
use table::Table;

/// Prices in twentieths of a plain token, so that sums are exact.
const PLAIN: i64 = 20;
const READ: i64 = 2;
const WRITTEN: i64 = 25;
/// The shortest prefix that is cached, in tokens.
const CACHED_TOKENS_MIN: i64 = 1_024;
/// How long an entry lives after its last use.
const CACHE_LIFE_MS: i64 = 5 * MINUTE_MS;
/// Messages at the end of a request with a breakpoint behind them.
const BREAKPOINTS: usize = 3;
/// Model calls that an update of the summary takes.
const UPDATE_CALLS: u32 = 3;
/// Messages of a run that only shows that the program still works.
const QUICK_MESSAGES: usize = 200;

/// A request as the cache sees it.
struct Request {
    at: Timestamp,
    system: Value,
    messages: Vec<Value>,
}

impl Request {
    fn new(at: Timestamp, mut body: Value) -> Self {
        Self {
            at,
            system: body["system"].take(),
            messages: match body["messages"].take() {
                Value::Array(messages) => messages,
                _ => Vec::new(),
            },
        }
    }

    /// Instructions, then message by message.
    fn values(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.system).chain(&self.messages)
    }

    fn tokens(&self, counter: &dyn TokenCounter) -> i64 {
        self.values().map(|value| count(counter, value)).sum()
    }
}

fn count(counter: &dyn TokenCounter, value: &Value) -> i64 {
    if value.is_null() {
        0
    } else {
        counter.count(&value.to_string())
    }
}

/// What the calls of one kind of window cost, with a cache that forgets and with one that doesn't.
struct Bill {
    counter: Arc<dyn TokenCounter>,
    last: Option<(Request, Vec<i64>)>,
    calls: i64,
    sent_tokens: i64,
    forgetful: Cost,
    warm: Cost,
}

/// Tokens by what they cost.
#[derive(Default)]
struct Cost {
    read: i64,
    written: i64,
    plain: i64,
}

impl Cost {
    fn total(&self) -> i64 {
        self.read * READ + self.written * WRITTEN + self.plain * PLAIN
    }

    fn add(&mut self, tokens: i64, cached: i64) {
        let cached = if cached < CACHED_TOKENS_MIN { 0 } else { cached };
        self.read += cached;
        if tokens < CACHED_TOKENS_MIN {
            self.plain += tokens;
        } else {
            self.written += tokens - cached;
        }
    }
}

impl Bill {
    fn new() -> Self {
        Self {
            counter: tokenizer::counter_for("openai", "gpt-5"),
            last: None,
            calls: 0,
            sent_tokens: 0,
            forgetful: Cost::default(),
            warm: Cost::default(),
        }
    }

    fn call(&mut self, request: Request) {
        let last = self
            .last
            .as_ref()
            .filter(|(last, _)| last.system == request.system);
        let (shared, is_alive, known) = last.map_or((None, false, [].as_slice()), |(last, tokens)| {
            let pairs = last.messages.iter().zip(&request.messages);
            let shared = pairs.take_while(|(before, now)| before == now).count();
            let is_alive = request.at.since_ms(last.at) <= CACHE_LIFE_MS;
            (Some(shared), is_alive, tokens.as_slice())
        });
        // The instructions come first.
        let mut tokens: Vec<i64> = known
            .iter()
            .copied()
            .take(shared.map_or(0, |shared| shared + 1))
            .collect();
        let new = request.values().skip(tokens.len());
        tokens.extend(new.map(|value| count(self.counter.as_ref(), value)));
        let cached = shared.map_or(0, |shared| {
            let end = known.len() - 1;
            let mut breakpoints = (end.saturating_sub(BREAKPOINTS - 1)..=end).rev();
            let hit = breakpoints.find(|&end| end <= shared).unwrap_or(0);
            tokens.iter().take(hit + 1).sum()
        });
        self.add(tokens.iter().sum(), cached, is_alive);
        self.last = Some((request, tokens));
    }

    fn add(&mut self, tokens: i64, cached: i64, is_alive: bool) {
        self.calls += 1;
        self.sent_tokens += tokens;
        self.warm.add(tokens, cached);
        self.forgetful.add(tokens, if is_alive { cached } else { 0 });
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let file = given.map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/two-weeks.jsonl")),
        PathBuf::from,
    );
    let mut messages: Vec<Message> = FileReader::open(&file, None)?
        .filter_map(|record| record.ok().map(|record| record.message))
        .collect();
    if !std::env::args().any(|argument| argument == "--bench") {
        messages.truncate(QUICK_MESSAGES);
    }
    // A message without a time was said when the one before it was.
    let mut at = Timestamp(0);
    for message in &mut messages {
        at = message.at.unwrap_or(at);
        message.at = Some(at);
    }
    let budget = Config::default().window.budget_tokens.min(budget_of(&messages));
    let (whole, sliding) = (whole(&messages), sliding(&messages, budget));
    let recapd = recapd(&messages, budget).await?;
    print(
        &format!("{} messages, a window of {budget} tokens", messages.len()),
        &[
            ("whole history, every call", &whole),
            ("window that slides every turn", &sliding),
            ("recapd", &recapd),
        ],
    );
    Ok(())
}

/// A fifth of a conversation that would fit into the window as it is.
fn budget_of(messages: &[Message]) -> i64 {
    let counter = tokenizer::counter_for("openai", "gpt-5");
    let tokens = messages
        .iter()
        .map(|message| recapd::domain::tokens::count_message(counter.as_ref(), message));
    tokens.sum::<i64>() / 5
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn print(title: &str, bills: &[(&str, &Bill)]) {
    let columns = [
        "calls",
        "tokens sent",
        "read from cache",
        "written to it",
        "costs, in plain tokens",
        "× sliding",
        "cache kept warm",
        "× sliding",
    ];
    let mut table = Table::new(title, &columns);
    let sliding = bills
        .iter()
        .find(|(name, _)| name.contains("slides"))
        .map(|(_, bill)| bill);
    let plain = |cost: &Cost| cost.total() as f64 / PLAIN as f64;
    for (name, bill) in bills {
        let share = |cost: fn(&Bill) -> &Cost| {
            let other = sliding.map_or(1.0, |sliding| plain(cost(sliding)));
            format!("{:.2}", plain(cost(bill)) / other)
        };
        table.row(
            name,
            &[
                bill.calls.to_string(),
                bill.sent_tokens.to_string(),
                bill.forgetful.read.to_string(),
                bill.forgetful.written.to_string(),
                format!("{:.0}", plain(&bill.forgetful)),
                share(|bill| &bill.forgetful),
                format!("{:.0}", plain(&bill.warm)),
                share(|bill| &bill.warm),
            ],
        );
    }
    table.print();
}

/// Whether the model is called after the message at `place`: it speaks next.
fn is_call(messages: &[Message], place: usize) -> bool {
    let is_model = |message: &Message| matches!(message.kind, Kind::Assistant | Kind::ToolCall);
    let mut later = messages
        .iter()
        .skip(place + 1)
        .filter(|message| message.kind.is_conversation());
    let is_asked = messages
        .get(place)
        .is_some_and(|message| matches!(message.kind, Kind::User | Kind::ToolResult));
    is_asked && later.next().is_some_and(is_model)
}

/// Nothing ever leaves: each call reads all that the call before it sent, and writes what is new.
fn whole(messages: &[Message]) -> Bill {
    let mut bill = Bill::new();
    // A window of the newest exchange; what it sent before it left is counted once more, whole.
    let mut window = Window::new(Budget::new(1, 1.0), Arc::clone(&bill.counter));
    let (mut before_tokens, mut sent_tokens, mut newest_tokens) = (0, 0, 0);
    let mut last_at = None;
    for (place, message) in messages.iter().enumerate() {
        let has_left = !window.push(message.clone(), Timestamp(0)).is_empty();
        if has_left {
            before_tokens += newest_tokens;
        }
        let sent = in_full(&window);
        newest_tokens = sent.tokens(bill.counter.as_ref());
        if is_call(messages, place) {
            let at = message.at.unwrap_or_default();
            let is_alive = last_at.is_some_and(|last: Timestamp| at.since_ms(last) <= CACHE_LIFE_MS);
            let all = before_tokens + newest_tokens;
            bill.add(all, sent_tokens, is_alive);
            (sent_tokens, last_at) = (all, Some(at));
        }
    }
    bill
}

/// Each turn just enough leaves.
fn sliding(messages: &[Message], budget_tokens: i64) -> Bill {
    let mut bill = Bill::new();
    let mut window = Window::new(Budget::new(budget_tokens, 1.0), Arc::clone(&bill.counter));
    for (place, message) in messages.iter().enumerate() {
        window.push(message.clone(), Timestamp(0));
        if is_call(messages, place) {
            bill.call(Request {
                at: message.at.unwrap_or_default(),
                ..in_full(&window)
            });
        }
    }
    bill
}

/// All that is in the window.
fn in_full(window: &Window) -> Request {
    let turns = build(&window.context_input(), &ContextOptions::default(), &BytesCounter).turns;
    Request::new(Timestamp(0), render(RequestFormat::Anthropic, &turns).body)
}

/// The daemon's own keeper, worker and context, over a database.
async fn recapd(messages: &[Message], budget_tokens: i64) -> anyhow::Result<Bill> {
    let Place {
        parts,
        folder: _folder,
    } = place::open(Synchronous::Off, |config| {
        config.window.budget_tokens = budget_tokens;
        config.queue.batch_exchanges = 1;
        config.queue.debounce_ms = 0;
        config.queue.max_wait_ms = 0;
    })
    .await?;
    let (agent, options): (AgentId, _) = ("bill".parse()?, Config::default().context.options());
    let query = ContextQuery {
        format: RequestFormat::Anthropic,
        budget_tokens: None,
        alternation: None,
    };
    let mut bill = Bill::new();
    let mut update_in = None;
    for (place, message) in messages.iter().enumerate() {
        let outcome = parts.keeper.replay(&agent, vec![message.clone()]).await?;
        if !outcome.evictions.is_empty() {
            update_in = Some(UPDATE_CALLS);
        }
        if !is_call(messages, place) {
            continue;
        }
        if update_in == Some(0) {
            parts.worker.drain().await?;
        }
        update_in = update_in.and_then(|calls| calls.checked_sub(1));
        let snapshot = parts
            .snapshots
            .of_step(&agent)
            .await?
            .context("the agent is there")?;
        let material = context::load(parts.store.as_ref(), &agent, &snapshot).await?;
        let body = material.build(query, options, bill.counter.as_ref()).body;
        bill.call(Request::new(message.at.unwrap_or_default(), body));
    }
    Ok(bill)
}
