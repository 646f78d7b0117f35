//! The cost of a long conversation with a provider that caches prompts. Three kinds of calls are compared: with the
//! whole history, with a window that slides by one turn at a time, and with recapd's context. Then the same for one
//! user message that the model answers in a thousand rounds, with a window that slides by one round at a time.
//! The costs are computed, not measured, and so equal on all machines.
//!
//! `cargo bench --bench bill -- FILE` reads a conversation; without a file, the bench reads `examples/two-weeks.jsonl`.
//! The long run is generated, and far larger than the window.
//!
//! Assumptions, from the providers' documentation of prompt caching:
//! - A cached token costs 0.1 of an uncached token, a token written to the cache 1.25. Output costs the same in all.
//! - Anthropic: breakpoints are after the instructions and after each of the last three messages. The longest prefix
//!   of messages that is equal byte for byte and ends at a breakpoint of the previous request is cached. An entry
//!   expires five minutes after its last use. Instructions within a conversation move to its start.
//! - OpenAI: any prefix of the previous request's messages is cached, for thirty minutes.
//! - A prefix of fewer than 1,024 tokens isn't cached.
//! - The time is that of the conversation. The cost with a cache that never expires is shown too.
//! - The model is called wherever the conversation continues with a model message. Tokens are those of the JSON, in
//!   o200k.
//! - recapd's worker takes as long as three model calls; until then digests stand for what left the window.

#[path = "measure/conversation.rs"]
mod conversation;
#[path = "measure/place.rs"]
mod place;
#[path = "measure/rounds.rs"]
mod rounds;
#[path = "measure/size.rs"]
mod size;
#[path = "measure/table.rs"]
mod table;
#[path = "measure/texts.rs"]
mod texts;

use std::{collections::HashMap, sync::Arc};

use anyhow::Context as _;
use place::Place;
use recapd_api::context::{self, ContextQuery};
use recapd_config::{Config, Synchronous};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{ContextOptions, build},
        message::{Kind, Message},
        time::{MINUTE_MS, SECOND_MS, Timestamp},
        tokens::{TokenCounter, count_message},
        window::{Budget, Window},
    },
    formats::outgoing::{RequestFormat, render},
    tokenizer::{self, BytesCounter},
};
use rounds::{Rounds, said};
use serde_json::Value;
use size::size;
use table::Table;

/// Prices in twentieths of a plain token, so that sums are exact.
const PLAIN: i64 = 20;
const READ: i64 = 2;
const WRITTEN: i64 = 25;
/// The shortest cached prefix, in tokens.
const CACHED_TOKENS_MIN: i64 = 1_024;
/// The last messages of a request to Anthropic, each of which is followed by a breakpoint.
const BREAKPOINTS: usize = 3;
const UPDATE_CALLS: u32 = 3;
/// Rounds of the long run, and the time between two rounds.
const ROUNDS: u32 = 1_000;
const ROUND_MS: i64 = 20 * SECOND_MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    Anthropic,
    OpenAi,
}

impl Provider {
    fn format(self) -> RequestFormat {
        match self {
            Self::Anthropic => RequestFormat::Anthropic,
            Self::OpenAi => RequestFormat::OpenAiChat,
        }
    }

    fn cache_life_ms(self) -> i64 {
        match self {
            Self::Anthropic => 5 * MINUTE_MS,
            Self::OpenAi => 30 * MINUTE_MS,
        }
    }

    /// Returns how many of a request's `sent` messages are cached if the next request begins with `shared` of them.
    fn cached(self, sent: usize, shared: usize) -> usize {
        match self {
            Self::Anthropic if shared + BREAKPOINTS > sent => shared,
            Self::Anthropic => 0,
            Self::OpenAi => shared,
        }
    }
}

/// A request as the provider's cache sees it.
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

    /// Returns the instructions, then each message.
    fn values(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.system).chain(&self.messages)
    }
}

/// Counts the tokens of values; caches the counts.
struct Counter {
    counter: Arc<dyn TokenCounter>,
    known: HashMap<String, i64>,
}

impl Counter {
    fn count(&mut self, value: &Value) -> i64 {
        if value.is_null() {
            return 0;
        }
        let text = value.to_string();
        if let Some(&tokens) = self.known.get(&text) {
            return tokens;
        }
        let tokens = self.counter.count(&text);
        self.known.insert(text, tokens);
        tokens
    }
}

/// The cost of all calls with one kind of window: with a cache that expires (`forgetful`), and with one that doesn't.
struct Bill {
    provider: Provider,
    counter: Counter,
    last: Option<(Request, Vec<i64>)>,
    calls: i64,
    /// Calls whose request doesn't begin with the whole previous request.
    breaks: i64,
    sent_tokens: i64,
    forgetful: Cost,
    warm: Cost,
}

/// Tokens by their price.
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
    fn new(provider: Provider) -> Self {
        Self {
            provider,
            counter: Counter { counter: counter(), known: HashMap::new() },
            last: None,
            calls: 0,
            breaks: 0,
            sent_tokens: 0,
            forgetful: Cost::default(),
            warm: Cost::default(),
        }
    }

    fn call(&mut self, request: Request) {
        let last = self.last.take();
        let last = last.filter(|(last, _)| last.system == request.system);
        let shared = last.as_ref().map(|(last, _)| {
            let pairs = last.messages.iter().zip(&request.messages);
            pairs.take_while(|(before, now)| before == now).count()
        });
        // The first count is that of the instructions.
        let (sent_at, known) = last.map_or((None, Vec::new()), |(last, tokens)| (Some(last.at), tokens));
        let sent = known.len().saturating_sub(1);
        let mut tokens: Vec<i64> = known.into_iter().take(shared.map_or(0, |shared| shared + 1)).collect();
        for value in request.values().skip(tokens.len()) {
            tokens.push(self.counter.count(value));
        }
        let cached = shared.map_or(0, |shared| self.provider.cached(sent, shared) + 1);
        let cached = tokens.iter().take(cached).sum();
        self.breaks += i64::from(shared.is_none_or(|shared| shared < sent));
        self.add(tokens.iter().sum(), cached, self.is_alive(sent_at, request.at));
        self.last = Some((request, tokens));
    }

    /// Returns whether a cache entry of `sent_at` hasn't expired.
    fn is_alive(&self, sent_at: Option<Timestamp>, now: Timestamp) -> bool {
        sent_at.is_some_and(|sent_at| now.since_ms(sent_at) <= self.provider.cache_life_ms())
    }

    fn add(&mut self, tokens: i64, cached: i64, is_alive: bool) {
        self.calls += 1;
        self.sent_tokens += tokens;
        self.warm.add(tokens, cached);
        self.forgetful.add(tokens, if is_alive { cached } else { 0 });
    }
}

/// A conversation whose cost is computed.
struct Session {
    title: &'static str,
    messages: Vec<Message>,
    budget_tokens: i64,
    /// What leaves a sliding window together.
    slides_by: Unit,
}

/// What leaves a window together.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Turn,
    Round,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Round => "round",
        }
    }

    /// Returns the budget of a window from which as few units as possible leave.
    fn budget(self, budget_tokens: i64) -> Budget {
        let budget = Budget::new(budget_tokens, 1.0);
        match self {
            Self::Turn => budget,
            Self::Round => budget.with_leg_tokens(1),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    for session in [conversation()?, long_run()?] {
        for provider in [Provider::Anthropic, Provider::OpenAi] {
            let (whole, sliding) = (whole(provider, &session.messages), sliding(provider, &session));
            let recapd = recapd(provider, &session.messages, session.budget_tokens).await?;
            print(provider, &session, [&whole, &sliding, &recapd]);
        }
    }
    Ok(())
}

fn conversation() -> anyhow::Result<Session> {
    let mut messages = conversation::read()?;
    // A message without a time has the time of the message before it.
    let mut at = Timestamp(0);
    for message in &mut messages {
        at = message.at.unwrap_or(at);
        message.at = Some(at);
    }
    Ok(Session {
        title: "a conversation",
        budget_tokens: Config::default().window.budget_tokens.min(budget_of(&messages)),
        messages,
        slides_by: Unit::Turn,
    })
}

/// Generates one user message and the many rounds in which the model answers.
fn long_run() -> anyhow::Result<Session> {
    let mut source = Rounds::new(9);
    let mut messages = vec![said("user", &source.texts.prose(400))?];
    for round in source.take(usize::try_from(size(ROUNDS))?) {
        messages.extend(round?);
    }
    for (place, message) in (0..).zip(&mut messages) {
        message.at = Some(Timestamp((place + 1) / 2 * ROUND_MS));
    }
    Ok(Session {
        title: "one long run",
        budget_tokens: Config::default().window.budget_tokens.min(budget_of(&messages)),
        messages,
        slides_by: Unit::Round,
    })
}

fn counter() -> Arc<dyn TokenCounter> {
    tokenizer::counter_for("openai", "gpt-5")
}

/// Returns the window budget for a conversation that fits into the default window: a fifth of its tokens.
fn budget_of(messages: &[Message]) -> i64 {
    let counter = counter();
    let tokens = messages.iter().map(|message| count_message(counter.as_ref(), message));
    tokens.sum::<i64>() / 5
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn print(provider: Provider, session: &Session, [whole, sliding, recapd]: [&Bill; 3]) {
    let title = format!(
        "{provider:?}: {} of {} messages, a window of {} tokens",
        session.title,
        session.messages.len(),
        session.budget_tokens
    );
    let columns = [
        "calls",
        "breaks",
        "tokens sent",
        "read from cache",
        "written to cache",
        "costs, in plain tokens",
        "× sliding",
        "kept warm",
        "× sliding",
    ];
    let mut table = Table::new(&title, &columns);
    let slides = format!("window that slides every {}", session.slides_by.name());
    let plain = |cost: &Cost| cost.total() as f64 / PLAIN as f64;
    let figures = |cost: &Cost, other: &Cost| {
        [format!("{:.0}", plain(cost)), format!("{:.2}", plain(cost) / plain(other))]
    };
    for (name, bill) in [("whole history, every call", whole), (slides.as_str(), sliding), ("recapd", recapd)]
    {
        let sums = [bill.calls, bill.breaks, bill.sent_tokens, bill.forgetful.read, bill.forgetful.written];
        let costs = [figures(&bill.forgetful, &sliding.forgetful), figures(&bill.warm, &sliding.warm)];
        let cells: Vec<String> = sums.iter().map(i64::to_string).chain(costs.into_iter().flatten()).collect();
        table.row(name, &cells);
    }
    table.print();
}

/// Returns whether the model is called after the message at `place`: the next message of the conversation is its.
fn is_call(messages: &[Message], place: usize) -> bool {
    let is_model = |message: &Message| matches!(message.kind, Kind::Assistant | Kind::ToolCall);
    let mut later = messages.iter().skip(place + 1).filter(|message| message.kind.is_conversation());
    let is_asked =
        messages.get(place).is_some_and(|message| matches!(message.kind, Kind::User | Kind::ToolResult));
    is_asked && later.next().is_some_and(is_model)
}

/// Computes the cost without a window: each call reads from the cache what the previous call sent, and writes the rest.
fn whole(provider: Provider, messages: &[Message]) -> Bill {
    let mut bill = Bill::new(provider);
    // The window holds the newest exchange alone; messages before it can't change any more.
    let mut window = Window::new(Budget::new(1, 1.0).with_leg_tokens(0), counter());
    let (mut before_tokens, mut newest_tokens, mut sent_tokens, mut sent_at) = (0, 0, 0, None);
    for (place, message) in messages.iter().enumerate() {
        if !window.push(message.clone(), Timestamp(0)).is_empty() {
            before_tokens += newest_tokens;
        }
        let sent = in_full(provider, &window);
        newest_tokens = sent.values().map(|value| bill.counter.count(value)).sum();
        if is_call(messages, place) {
            let (at, all) = (message.at.unwrap_or_default(), before_tokens + newest_tokens);
            bill.add(all, sent_tokens, bill.is_alive(sent_at, at));
            (sent_tokens, sent_at) = (all, Some(at));
        }
    }
    bill
}

/// Computes the cost of a window that slides by as few turns or rounds as possible.
fn sliding(provider: Provider, session: &Session) -> Bill {
    let mut bill = Bill::new(provider);
    let mut window = Window::new(session.slides_by.budget(session.budget_tokens), counter());
    for (place, message) in session.messages.iter().enumerate() {
        window.push(message.clone(), Timestamp(0));
        if is_call(&session.messages, place) {
            bill.call(Request { at: message.at.unwrap_or_default(), ..in_full(provider, &window) });
        }
    }
    bill
}

/// Returns the request with the whole window.
fn in_full(provider: Provider, window: &Window) -> Request {
    let options = ContextOptions {
        system_in_place: provider.format().takes_system_in_place(),
        ..ContextOptions::default()
    };
    let turns = build(&window.context_input(), &options, &BytesCounter).turns;
    Request::new(Timestamp(0), render(provider.format(), &turns).body)
}

/// Computes the cost of recapd's contexts, with the daemon's own ingestor, worker and database.
async fn recapd(provider: Provider, messages: &[Message], budget_tokens: i64) -> anyhow::Result<Bill> {
    let Place { parts, folder: _folder } = place::open(place::disk(), Synchronous::Off, |config| {
        config.window.budget_tokens = budget_tokens;
        config.queue.batch_exchanges = 1;
        config.queue.debounce_ms = 0;
        config.queue.max_wait_ms = 0;
    })
    .await?;
    let (agent, options): (AgentId, _) = ("bill".parse()?, Config::default().context.options());
    let query = ContextQuery {
        format: provider.format(),
        budget_tokens: None,
        alternation: None,
        summary_max_tokens: None,
        keeps_open_thinking: false,
    };
    let (counter, mut bill) = (counter(), Bill::new(provider));
    let mut update_in = None;
    for (place, message) in messages.iter().enumerate() {
        let outcome = parts.ingestor.replay(&agent, vec![message.clone()]).await?;
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
        let snapshot = parts.snapshots.of_step(&agent).await?;
        let snapshot = snapshot.context("the agent is there")?;
        let material = context::load(parts.store.as_ref(), &agent, &snapshot, None).await?;
        let body = material.build(query, options, counter.as_ref()).body;
        bill.call(Request::new(message.at.unwrap_or_default(), body));
    }
    Ok(bill)
}
