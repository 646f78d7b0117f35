//! A daemon's parts over a fresh database, a clock that tests move, and a model and a store that fail as planned.

use std::sync::Arc;

use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, message::Message, time::MINUTE_MS};
use recapd_engine::{assembly::Parts, worker::Outcome};
use recapd_llm::ChatModel;
use recapd_platform::clock::{Clock, ManualClock};
use recapd_store::{AgentRow, Store, verify::AgentReport};

use super::{
    backend::{Backend as _, SqliteBackend},
    conversation::{T0, agent, native},
    flaky_store::FlakyStore,
    scripted::ScriptedModel,
};

pub(crate) struct Rig {
    /// The database, for checks that bypass the parts.
    pub(crate) db: SqliteBackend,
    /// The store that the parts use.
    pub(crate) flaky: Arc<FlakyStore>,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) parts: Parts,
    pub(crate) agent: AgentId,
}

/// A window of about two turns, and no jitter between the updates of a batch.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.window.budget_tokens = 40;
    config.window.low_water = 0.5;
    config.queue.debounce_ms = 0;
    config.queue.batch_tokens_min = 0;
    config.summary.compact_by_model = true;
    config
}

impl Rig {
    pub(crate) async fn new(config: &Config) -> Self {
        Self::asking(config, |model, _| model).await
    }

    /// The same as [`Self::new`], with the worker's model wrapped by `ask`.
    pub(crate) async fn asking(
        config: &Config,
        ask: impl FnOnce(Arc<dyn ChatModel>, Arc<dyn Clock>) -> Arc<dyn ChatModel>,
    ) -> Self {
        let db = SqliteBackend::fresh().await;
        let flaky = Arc::new(FlakyStore::new(db.store()));
        let model = Arc::new(ScriptedModel::default());
        let clock = Arc::new(ManualClock::new(T0));
        let store: Arc<dyn Store> = Arc::<FlakyStore>::clone(&flaky);
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let asked = ask(Arc::<ScriptedModel>::clone(&model), Arc::clone(&time));
        let prices = config.spend.prices().unwrap();
        let parts = Parts::new((config, prices), store, asked, time, "daemon", 7);
        Self { db, flaky, model, clock, parts, agent: agent("a") }
    }

    /// Appends this many turns of three or five messages.
    pub(crate) async fn say(&self, turns: usize) {
        for turn in 0..turns {
            let mut messages = vec![native("user", "Please fix the next of the failing tests")];
            if turn % 2 == 0 {
                messages.extend([native("tool_call", "bash"), native("tool_result", "test result: ok")]);
            }
            messages.push(native("assistant", "Fixed, and it was an off-by-one error."));
            self.append(messages).await;
        }
    }

    /// Appends messages, and advances the clock by a second.
    pub(crate) async fn append(&self, messages: Vec<Message>) {
        self.parts.ingestor.append(&self.agent, messages).await.unwrap();
        self.clock.advance_ms(1_000);
    }

    pub(crate) async fn drain(&self) -> Vec<Outcome> {
        self.parts.worker.drain().await.unwrap()
    }

    /// Advances the clock until everything that waits is due, and makes the updates.
    pub(crate) async fn drain_later(&self) -> Vec<Outcome> {
        self.clock.advance_ms(20 * MINUTE_MS);
        self.drain().await
    }

    /// Makes the due updates, then advances the clock and repeats that `times` times.
    pub(crate) async fn drain_on(&self, times: usize) -> Vec<Outcome> {
        let mut outcomes = self.drain().await;
        for _ in 0..times {
            outcomes.extend(self.drain_later().await);
        }
        outcomes
    }

    /// Counts the recorded failures of the database.
    pub(crate) fn db_errors(&self) -> usize {
        let metrics = self.parts.metrics.encode(None).1;
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("recapd_db_errors_total{class=\"io\"} "));
        count.map_or(0, |count| count.parse().unwrap())
    }

    pub(crate) async fn row(&self) -> AgentRow {
        self.db.store().agent(&self.agent).await.unwrap().unwrap()
    }

    /// Asserts that the report has no breaches.
    #[track_caller]
    pub(crate) fn assert_clean(report: &AgentReport) {
        assert_eq!(report.breaches, [], "{report:?}");
    }

    /// Counts the provisional digests in the document.
    pub(crate) async fn digests(&self) -> i64 {
        let digests = "SELECT count(*) FROM summary_items WHERE origin = 'digest' AND provisional = 1 \
                       AND removed_version IS NULL";
        self.db.number(digests).await.unwrap()
    }

    /// Counts the permanent digests in the document.
    pub(crate) async fn lasting_digests(&self) -> i64 {
        let digests = "SELECT count(*) FROM summary_items WHERE origin = 'digest' AND provisional = 0 \
                       AND removed_version IS NULL";
        self.db.number(digests).await.unwrap()
    }

    /// Verifies the agent, and asserts that nothing is wrong.
    pub(crate) async fn verify(&self) -> AgentReport {
        let report = self.db.store().verify(&self.agent).await.unwrap();
        Self::assert_clean(&report);
        report
    }

    pub(crate) async fn content(&self) -> String {
        self.db.store().summary(&self.agent).await.unwrap().unwrap().content
    }
}
