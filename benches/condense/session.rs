//! Runs a conversation through the daemon's own ingestor and worker.

use std::sync::Arc;

use recapd_config::{Config, Synchronous};
use recapd_core::domain::{agent::AgentId, message::Message, time::Timestamp, tokens::TokenCounter};
use recapd_engine::assembly::{self, Parts};
use recapd_platform::clock::{Clock, ManualClock};
use recapd_store::{SqlStore, Store};

use super::usual::{Calls, UsualModel};

/// The time between two messages of a conversation without times.
const APART_MS: i64 = 30_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSize {
    pub(crate) budget_tokens: i64,
    pub(crate) low_water: f64,
}

/// The totals of recapd's calls over a conversation.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: Calls,
    /// The same calls, if each call read and wrote the whole summary.
    pub(crate) rewriting: Calls,
    pub(crate) evicted_tokens: i64,
    pub(crate) evicted_exchanges: i64,
    /// The tokens of the document after each message.
    pub(crate) document_tokens: Vec<i64>,
}

/// The daemon's parts, and the totals so far.
struct Daemon {
    parts: Parts,
    store: Arc<SqlStore>,
    model: Arc<UsualModel>,
    clock: Arc<ManualClock>,
    agent: AgentId,
    document_tokens: i64,
    totals: Totals,
}

/// Runs the conversation with the default configuration, apart from the window. The clock follows the messages' times,
/// so that delays are realistic.
pub(crate) async fn run(
    messages: &[Message],
    window: WindowSize,
    counter: Arc<dyn TokenCounter>,
) -> anyhow::Result<Totals> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let mut config = Config::default();
    config.window.budget_tokens = window.budget_tokens;
    config.window.low_water = window.low_water;
    config.model.mode = recapd_config::ModelMode::Anthropic;
    config.database.url = format!("sqlite:{}", folder.path().join("condense.db").display());
    config.database.synchronous = Synchronous::Off;
    let begins = messages.first().and_then(|message| message.at);
    let mut daemon = Daemon::new(&config, begins.unwrap_or_default(), counter).await?;
    for message in messages {
        daemon.say(message).await?;
    }
    daemon.clock.advance_ms(config.queue.max_wait_ms);
    daemon.work().await?;
    let row = daemon.store.agent(&daemon.agent).await?;
    Ok(Totals {
        evicted_exchanges: row.map_or(0, |row| row.ledger.first_exchange - 1),
        calls: daemon.model.so_far(),
        ..daemon.totals
    })
}

impl Daemon {
    async fn new(config: &Config, begins: Timestamp, counter: Arc<dyn TokenCounter>) -> anyhow::Result<Self> {
        let store = Arc::new(SqlStore::open(&assembly::database_settings(&config.database)).await?);
        let model = Arc::new(UsualModel::new(counter));
        let clock = Arc::new(ManualClock::new(begins));
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let parts =
            Parts::new((config, config.spend.prices()?), store.clone(), model.clone(), time, "bench", 0);
        Ok(Self {
            parts,
            store,
            model,
            clock,
            agent: "condense".parse()?,
            document_tokens: 0,
            totals: Totals::default(),
        })
    }

    /// Advances the clock to the message's time, runs the worker, and appends the message.
    async fn say(&mut self, message: &Message) -> anyhow::Result<()> {
        let now = self.clock.now();
        let at = message.at.unwrap_or(now.plus_ms(APART_MS));
        self.clock.set(at.max(now));
        self.work().await?;
        let outcome = self.parts.ingestor.replay(&self.agent, vec![message.clone()]).await?;
        let evicted = outcome.evictions.iter().map(|eviction| eviction.tokens);
        self.totals.evicted_tokens += evicted.sum::<i64>();
        self.totals.document_tokens.push(self.document_tokens);
        Ok(())
    }

    async fn work(&mut self) -> anyhow::Result<()> {
        let before = self.model.so_far();
        if self.parts.worker.drain().await?.is_empty() {
            return Ok(());
        }
        let calls = self.model.so_far().since(before);
        let read_tokens = self.document_tokens;
        let row = self.store.agent(&self.agent).await?;
        self.document_tokens = row.map_or(0, |row| row.summary_tokens);
        self.totals.rewriting.add(Calls {
            input_tokens: calls.input_tokens + calls.count * read_tokens,
            output_tokens: calls.count * self.document_tokens,
            ..calls
        });
        Ok(())
    }
}
