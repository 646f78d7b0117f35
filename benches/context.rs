//! The time to build a context of about 90,000 tokens, for each provider: from a window in memory, and from the
//! daemon's database, including reading. Then the same within one exchange of very many rounds.

mod measure;
#[path = "measure/messages.rs"]
mod messages;
#[path = "measure/place.rs"]
mod place;
#[path = "measure/rounds.rs"]
mod rounds;
#[path = "measure/texts.rs"]
mod texts;

use anyhow::Context as _;
use measure::{Sample, Table, ratio, show, size};
use messages::Messages;
use place::Place;
use recapd_api::context::{self, ContextQuery};
use recapd_config::{Config, Synchronous};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{ContextOptions, build},
        message::Message,
        time::Timestamp,
        window::{Budget, Window},
    },
    formats::outgoing::{RequestFormat, render},
    tokenizer,
};
use recapd_engine::assembly::Parts;
use rounds::{Rounds, said};
use tokio::time::Instant;

/// The window's budget; after an eviction, the window is filled to nine tenths.
const BUDGET_TOKENS: u32 = 100_000;
const LOW_WATER: f64 = 0.9;
const ROUNDS: u32 = 200;
/// Messages per append while the window fills.
const CHUNK: usize = 16;
/// Rounds of the exchange; ratios are relative to the shortest exchange.
const EXCHANGES: [u32; 3] = [300, 3_000, 30_000];
/// The fill of that exchange's window when the context is built, in percent of its budget.
const FILLED_PERCENT: std::ops::Range<i64> = 91..92;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut source = Messages::new(6);
    let mut messages = source.turn()?;
    messages.extend(source.mix(usize::try_from(size(20_000))?)?);
    let columns = ["tokens", "fastest", "p50", "p99", "× counting it anew"];
    let mut table = Table::new("building a context", &columns);
    let mut counting = in_memory(&mut table, &messages);
    from_store(&mut table, &messages, &mut counting).await?;
    table.print();
    one_exchange().await
}

fn row(table: &mut Table, name: &str, tokens: i64, sample: &mut Sample, counting: &mut Sample) {
    let figures = [
        tokens.to_string(),
        show(sample.percentile(0)),
        show(sample.p50()),
        show(sample.percentile(99)),
        format!("{:.2}", ratio(sample.p50(), counting.p50())),
    ];
    table.row(name, &figures);
}

/// Times the embedded library: from a window to a provider's request. Returns the time to count the window's payloads.
fn in_memory(table: &mut Table, messages: &[Message]) -> Sample {
    let counter = tokenizer::counter_for("openai", "gpt-5");
    let budget = i64::from(size(BUDGET_TOKENS));
    let mut window = Window::new(Budget::new(budget, LOW_WATER), counter.clone());
    let mut has_evicted = false;
    for message in messages {
        has_evicted |= !window.push(message.clone(), Timestamp(0)).is_empty();
        // Stop slightly above the low-water mark.
        if has_evicted && window.tokens() <= budget * 91 / 100 {
            break;
        }
    }
    let mut counting = Sample::default();
    let texts: Vec<&str> = window.messages().map(|message| message.payload.as_str()).collect();
    for _ in 0..size(ROUNDS) {
        let start = Instant::now();
        std::hint::black_box(texts.iter().map(|text| counter.count(text)).sum::<i64>());
        counting.add(start.elapsed());
    }
    for format in RequestFormat::ALL {
        let options = ContextOptions {
            system_in_place: format.takes_system_in_place(),
            max_tokens: 2 * budget,
            ..ContextOptions::default()
        };
        let (mut sample, mut tokens) = (Sample::default(), 0);
        for _ in 0..size(ROUNDS) {
            let start = Instant::now();
            let input = window.context_input();
            let context = build(&input, &options, counter.as_ref());
            std::hint::black_box(render(format, &context.turns));
            sample.add(start.elapsed());
            tokens = context.tokens;
        }
        row(table, &format!("window in memory: {}", format.name()), tokens, &mut sample, &mut counting);
    }
    counting
}

/// Times the daemon: reading window, anchor and a full summary from the database, and building the context.
async fn from_store(table: &mut Table, messages: &[Message], counting: &mut Sample) -> anyhow::Result<()> {
    let budget = i64::from(size(BUDGET_TOKENS));
    let Place { parts, folder: _folder } = place::open(place::disk(), Synchronous::Off, |config| {
        config.window.budget_tokens = budget;
        config.window.low_water = LOW_WATER;
        config.queue.debounce_ms = 0;
        config.queue.max_wait_ms = 0;
    })
    .await?;
    let agent: AgentId = "context".parse()?;
    for chunk in messages.chunks(CHUNK) {
        let outcome = parts.ingestor.replay(&agent, chunk.to_vec()).await?;
        // By now enough has left the window to fill the summary.
        if outcome.first_exchange > i64::from(size(800)) && outcome.window_tokens <= budget * 92 / 100 {
            break;
        }
    }
    parts.worker.drain().await?;
    let (counter, options) = (tokenizer::counter_for("openai", "gpt-5"), Config::default().context.options());
    let (mut reading, mut tokens) = (Sample::default(), 0);
    for format in RequestFormat::ALL {
        let query = ContextQuery {
            format,
            budget_tokens: None,
            alternation: None,
            summary_max_tokens: None,
            keeps_open_thinking: false,
        };
        let mut building = Sample::default();
        for _ in 0..size(ROUNDS) {
            let start = Instant::now();
            let snapshot = parts.snapshots.of_step(&agent).await?.context("the agent is there")?;
            context::payload_bytes(parts.store.as_ref(), &agent, &snapshot).await?;
            let material = context::load(parts.store.as_ref(), &agent, &snapshot, None).await?;
            reading.add(start.elapsed());
            let start = Instant::now();
            let reply = material.build(query, options, counter.as_ref());
            building.add(start.elapsed());
            tokens = reply.tokens;
        }
        row(table, &format!("daemon: {}", format.name()), tokens, &mut building, counting);
    }
    row(table, "daemon: reading from the database", tokens, &mut reading, counting);
    Ok(())
}

/// Times reading and building within one exchange, for different numbers of rounds that have left the window.
async fn one_exchange() -> anyhow::Result<()> {
    let Place { parts, folder: _folder } = place::open(place::disk(), Synchronous::Off, |config| {
        config.window.budget_tokens = i64::from(size(BUDGET_TOKENS));
        config.window.low_water = LOW_WATER;
        config.queue.debounce_ms = 0;
        config.queue.max_wait_ms = 0;
    })
    .await?;
    let mut runs = Vec::new();
    for rounds in EXCHANGES.map(size) {
        let agent: AgentId = format!("run-{rounds}").parse()?;
        fill(&parts, &agent, rounds).await?;
        runs.push((rounds, agent, Sample::default(), 0));
    }
    parts.worker.drain().await?;
    for _ in 0..size(ROUNDS) {
        for (_, agent, sample, tokens) in &mut runs {
            let start = Instant::now();
            *tokens = read_and_build(&parts, agent).await?;
            sample.add(start.elapsed());
        }
    }
    let first = runs.first_mut().map(|(_, _, sample, _)| sample.p50()).unwrap_or_default();
    let columns = ["tokens", "p50", "p99", "× the first (p50)"];
    let mut table = Table::new("daemon: a context within one exchange of", &columns);
    for (rounds, _, mut sample, tokens) in runs {
        let figures = [
            tokens.to_string(),
            show(sample.p50()),
            show(sample.percentile(99)),
            format!("{:.2}", ratio(sample.p50(), first)),
        ];
        table.row(&format!("{rounds} rounds"), &figures);
    }
    table.print();
    Ok(())
}

/// Appends a user message and `rounds` rounds; then a few rounds more, until the window is as full as required.
async fn fill(parts: &Parts, agent: &AgentId, rounds: u32) -> anyhow::Result<()> {
    let budget = i64::from(size(BUDGET_TOKENS));
    let mut source = Rounds::new(8);
    let request = said("user", &source.texts.prose(400))?;
    parts.ingestor.replay(agent, vec![request]).await?;
    for _ in 1..rounds {
        let Some(round) = source.next() else { break };
        parts.ingestor.replay(agent, Vec::from(round?)).await?;
    }
    loop {
        let round = source.next().context("there is always another round")??;
        let outcome = parts.ingestor.replay(agent, Vec::from(round)).await?;
        let percent = outcome.window_tokens * 100 / budget;
        if outcome.first_exchange > 1 && FILLED_PERCENT.contains(&percent) {
            return Ok(());
        }
    }
}

async fn read_and_build(parts: &Parts, agent: &AgentId) -> anyhow::Result<i64> {
    let query = ContextQuery {
        format: RequestFormat::Anthropic,
        budget_tokens: None,
        alternation: None,
        summary_max_tokens: None,
        keeps_open_thinking: false,
    };
    let counter = tokenizer::counter_for("openai", "gpt-5");
    let snapshot = parts.snapshots.of_step(agent).await?.context("the agent is there")?;
    context::payload_bytes(parts.store.as_ref(), agent, &snapshot).await?;
    let material = context::load(parts.store.as_ref(), agent, &snapshot, None).await?;
    let reply = material.build(query, Config::default().context.options(), counter.as_ref());
    Ok(reply.tokens)
}
