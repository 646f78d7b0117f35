//! The time to decide about evictions, for different numbers of exchanges in the window: in memory, and in the store.
//!
//! Every append overflows the window by one exchange, and exactly one exchange leaves. The agents take turns, so that
//! noise affects all of them equally.

mod measure;
#[path = "measure/place.rs"]
mod place;

use std::collections::VecDeque;

use measure::{Sample, Table, ratio, show, size};
use recapd_config::Synchronous;
use recapd_core::{
    domain::{
        agent::AgentId,
        exchange::LedgerEntry,
        ledger::{CutPoint, Ledger, Segmentation},
        message::{Format, Message},
        redaction::Redactor,
        time::Timestamp,
        tokens::count_message,
        window::{Budget, Window},
    },
    formats, tokenizer,
};
use recapd_store::{AppendRequest, AppendRules, PreparedMessage};
use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::time::Instant;

/// Exchanges in each window; ratios are relative to the smallest window.
const EXCHANGES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Appends to each window in memory.
const ROUNDS: u32 = 20_000;
/// Appends to each agent in the store.
const STORE_ROUNDS: u32 = 1_000;
/// Appends that are timed together because the clock can't resolve a single one.
const BATCH: u32 = 50;
const EXCHANGE_TOKENS: i64 = 40;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let exchanges = EXCHANGES.map(size);
    let mut table = Table::new("eviction decision", &["in the window", "p50", "p99", "× first (p50)"]);
    ledgers(&mut table, &exchanges)?;
    windows(&mut table, &exchanges)?;
    stores(&mut table, &exchanges).await?;
    table.print();
    Ok(())
}

fn rows(table: &mut Table, name: &str, exchanges: &[u32], mut samples: Vec<Sample>, share: u32) {
    let first = samples.first_mut().map(Sample::p50).unwrap_or_default();
    for (exchanges, sample) in exchanges.iter().zip(&mut samples) {
        let figures = [
            exchanges.to_string(),
            show(sample.p50() / share),
            show(sample.percentile(99) / share),
            format!("{:.2}", ratio(sample.p50(), first)),
        ];
        table.row(name, &figures);
    }
}

fn samples(exchanges: &[u32]) -> Vec<Sample> {
    exchanges.iter().map(|_| Sample::default()).collect()
}

/// Times the arithmetic alone, as the window does it: adds a message, detects the overflow, searches for the cut from
/// the oldest exchange on, and moves the boundary.
fn ledgers(table: &mut Table, exchanges: &[u32]) -> anyhow::Result<()> {
    let message = message("user", "Go on.")?;
    let entry = LedgerEntry::new(&message, EXCHANGE_TOKENS, Timestamp(0), &Redactor::standard());
    let mut ledgers: Vec<(Ledger, VecDeque<CutPoint>)> =
        exchanges.iter().map(|&count| ledger(count, &entry)).collect();
    let mut samples = samples(exchanges);
    for _ in 0..size(ROUNDS) / BATCH {
        for (((ledger, cuts), &count), sample) in ledgers.iter_mut().zip(exchanges).zip(&mut samples) {
            let budget = budget(count, EXCHANGE_TOKENS);
            let start = Instant::now();
            for _ in 0..BATCH {
                take_in(ledger, cuts, &entry);
                if let Some(overflow) = ledger.overflow(budget) {
                    let stays = |cut: &CutPoint| cut.tokens_before >= overflow.tokens_before_min;
                    while cuts.front().is_some_and(|cut| !stays(cut)) {
                        cuts.pop_front();
                    }
                    std::hint::black_box(ledger.evict_to(cuts.front().copied(), entry.at));
                }
            }
            sample.add(start.elapsed());
            let left = i64::from(count) + 1 - (ledger.last_exchange - ledger.first_exchange + 1);
            anyhow::ensure!(left == 1, "{left} exchanges too many left the ledger");
        }
    }
    rows(table, "Ledger, in memory", exchanges, samples, BATCH);
    Ok(())
}

fn ledger(count: u32, entry: &LedgerEntry) -> (Ledger, VecDeque<CutPoint>) {
    let (mut ledger, mut cuts) = (Ledger::default(), VecDeque::new());
    for _ in 0..count {
        take_in(&mut ledger, &mut cuts, entry);
    }
    (ledger, cuts)
}

fn take_in(ledger: &mut Ledger, cuts: &mut VecDeque<CutPoint>, entry: &LedgerEntry) {
    ledger.append(entry, Segmentation::default());
    cuts.extend(
        ledger
            .newest
            .as_ref()
            .map(|newest| CutPoint { exchange: newest.exchange, tokens_before: newest.tokens_before }),
    );
}

/// Times the embedded library, including token counting.
fn windows(table: &mut Table, exchanges: &[u32]) -> anyhow::Result<()> {
    let counter = tokenizer::counter_for("openai", "gpt-5");
    let said = message("user", "Go on, and run the tests again.")?;
    let tokens = count_message(counter.as_ref(), &said);
    let mut windows = Vec::new();
    for &count in exchanges {
        let mut window = Window::new(budget(count, tokens), counter.clone());
        for _ in 0..count {
            window.push(said.clone(), Timestamp(0));
        }
        windows.push(window);
    }
    let mut samples = samples(exchanges);
    for _ in 0..size(ROUNDS) {
        for (window, sample) in windows.iter_mut().zip(&mut samples) {
            let message = said.clone();
            let start = Instant::now();
            let left = window.push(message, Timestamp(0));
            sample.add(start.elapsed());
            anyhow::ensure!(left.len() == 1, "{} exchanges left the window", left.len());
        }
    }
    rows(table, "Window::push, in memory", exchanges, samples, 1);
    Ok(())
}

/// Times whole appends of an exchange. SQLite doesn't wait for the disk, since that would hide the decision's time.
async fn stores(table: &mut Table, exchanges: &[u32]) -> anyhow::Result<()> {
    let place = place::open(place::disk(), Synchronous::Off, |_| {}).await?;
    let store = place.parts.store.as_ref();
    let rules = *place.parts.ingestor.rules();
    let options = SqliteConnectOptions::new().filename(place.folder.path().join(place::DATABASE));
    let mut filler = SqliteConnection::connect_with(&options).await?;
    let mut agents: Vec<(AgentId, AppendRules)> = Vec::new();
    for &count in exchanges {
        let agent: AgentId = format!("agent-{count}").parse()?;
        let rules = AppendRules { budget: budget(count, EXCHANGE_TOKENS), ..rules };
        let first = prepared("user", EXCHANGE_TOKENS)?;
        store.append(request(&agent, &rules, vec![first])).await?;
        fill(&mut filler, &agent, count).await?;
        agents.push((agent, rules));
    }
    let exchange = vec![prepared("user", EXCHANGE_TOKENS / 2)?, prepared("assistant", EXCHANGE_TOKENS / 2)?];
    let mut samples = samples(exchanges);
    for _ in 0..size(STORE_ROUNDS) {
        for ((agent, rules), sample) in agents.iter().zip(&mut samples) {
            let request = request(agent, rules, exchange.clone());
            let start = Instant::now();
            let outcome = store.append(request).await?;
            sample.add(start.elapsed());
            let evictions = outcome.evictions.as_slice();
            let is_one = matches!(evictions, [one] if one.from_exchange == one.through_exchange);
            anyhow::ensure!(is_one, "{evictions:?} left the window of {agent}");
        }
    }
    rows(table, "Store::append of an exchange, SQLite", exchanges, samples, 1);
    Ok(())
}

/// Repeats the agent's first exchange until the agent has `count` exchanges.
async fn fill(connection: &mut SqliteConnection, agent: &AgentId, count: u32) -> anyhow::Result<()> {
    let statements = [
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) \
         INSERT INTO message_log (agent_id, seq, exchange, kind, format, payload, tokens, count_method, said_at, received_at) \
         SELECT m.agent_id, n.i, n.i, m.kind, m.format, m.payload, m.tokens, m.count_method, m.said_at, m.received_at \
         FROM n CROSS JOIN message_log m WHERE m.agent_id = ?1 AND m.seq = 1",
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) \
         INSERT INTO exchange_log (agent_id, exchange, role, session, source_agent_id, first_seq, last_seq, tokens, \
         tokens_before, state, opened_at, last_at, headline) \
         SELECT e.agent_id, n.i, e.role, e.session, e.source_agent_id, n.i, n.i, e.tokens, e.tokens * (n.i - 1), \
         e.state, e.opened_at, e.last_at, e.headline \
         FROM n CROSS JOIN exchange_log e WHERE e.agent_id = ?1 AND e.exchange = 1",
        "UPDATE agents SET last_seq = ?2, last_exchange = ?2, newest_exchange = ?2 WHERE agent_id = ?1",
    ];
    let mut tx = connection.begin().await?;
    for statement in statements {
        sqlx::query(statement).bind(agent.as_str()).bind(count).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Returns the budget that `exchanges` exchanges fill exactly.
fn budget(exchanges: u32, exchange_tokens: i64) -> Budget {
    Budget::new(i64::from(exchanges) * exchange_tokens, 1.0)
}

fn request(agent: &AgentId, rules: &AppendRules, messages: Vec<PreparedMessage>) -> AppendRequest {
    AppendRequest {
        agent: agent.clone(),
        messages,
        key: None,
        count_method: "o200k".to_owned(),
        rules: *rules,
        replayed: false,
        now: Timestamp(0),
    }
}

fn prepared(role: &str, tokens: i64) -> anyhow::Result<PreparedMessage> {
    let message = message(role, "Go on, and run the tests again.")?;
    Ok(PreparedMessage {
        entry: LedgerEntry::new(&message, tokens, Timestamp(0), &Redactor::standard()),
        message,
    })
}

fn message(role: &str, text: &str) -> anyhow::Result<Message> {
    let payload = serde_json::json!({"role": role, "content": text}).to_string();
    Ok(formats::parse(Format::OpenAiChat, &payload)?)
}
