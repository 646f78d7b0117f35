//! A daemon's parts over a fresh database, a clock turned by hand, and a model and a store that fail as planned.

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

/// The parts, and what they stand on.
pub(crate) struct Rig {
    /// The database, for looks past the parts.
    pub(crate) db: SqliteBackend,
    /// The store that the parts use.
    pub(crate) flaky: Arc<FlakyStore>,
    /// The model that the worker asks.
    pub(crate) model: Arc<ScriptedModel>,
    /// Their time.
    pub(crate) clock: Arc<ManualClock>,
    /// The parts.
    pub(crate) parts: Parts,
    /// The agent of the test.
    pub(crate) agent: AgentId,
}

/// A window of some two turns, and no jitter between updates of a batch.
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
    /// The parts of a daemon with this configuration.
    pub(crate) async fn new(config: &Config) -> Self {
        Self::asking(config, |model, _| model).await
    }

    /// The same, with a worker that asks what `ask` makes of the model.
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
        Self {
            db,
            flaky,
            model,
            clock,
            parts,
            agent: agent("a"),
        }
    }

    /// Says so many turns of three or five messages.
    pub(crate) async fn say(&self, turns: usize) {
        for turn in 0..turns {
            let mut messages = vec![native("user", "Please fix the next of the failing tests")];
            if turn % 2 == 0 {
                messages.extend([
                    native("tool_call", "bash"),
                    native("tool_result", "test result: ok"),
                ]);
            }
            messages.push(native("assistant", "Fixed, and it was an off-by-one error."));
            self.append(messages).await;
        }
    }

    /// Appends what the agent's client keeps trying to append.
    pub(crate) async fn append(&self, messages: Vec<Message>) {
        self.parts.ingestor.append(&self.agent, messages).await.unwrap();
        self.clock.advance_ms(1_000);
    }

    /// Works off what is due.
    pub(crate) async fn drain(&self) -> Vec<Outcome> {
        self.parts.worker.drain().await.unwrap()
    }

    /// Lets time pass until everything that waits is due, and works it off.
    pub(crate) async fn drain_later(&self) -> Vec<Outcome> {
        self.clock.advance_ms(20 * MINUTE_MS);
        self.drain().await
    }

    /// Works off what is due, and `times` more what has waited since.
    pub(crate) async fn drain_on(&self, times: usize) -> Vec<Outcome> {
        let mut outcomes = self.drain().await;
        for _ in 0..times {
            outcomes.extend(self.drain_later().await);
        }
        outcomes
    }

    /// How many failures of the database were counted.
    pub(crate) fn db_errors(&self) -> usize {
        let metrics = self.parts.metrics.encode(None).1;
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("recapd_db_errors_total{class=\"io\"} "));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// The agent's row.
    pub(crate) async fn row(&self) -> AgentRow {
        self.db.store().agent(&self.agent).await.unwrap().unwrap()
    }

    /// The report on the agent, with which nothing may be wrong.
    #[track_caller]
    pub(crate) fn assert_clean(report: &AgentReport) {
        assert_eq!(report.breaches, [], "{report:?}");
    }

    /// How many provisional digests stand for exchanges.
    pub(crate) async fn digests(&self) -> i64 {
        let digests = "SELECT count(*) FROM summary_items WHERE origin = 'digest' AND provisional = 1 \
                       AND removed_version IS NULL";
        self.db.number(digests).await.unwrap()
    }

    /// How many digests stand for exchanges for good.
    pub(crate) async fn lasting_digests(&self) -> i64 {
        let digests = "SELECT count(*) FROM summary_items WHERE origin = 'digest' AND provisional = 0 \
                       AND removed_version IS NULL";
        self.db.number(digests).await.unwrap()
    }

    /// What `verify` says.
    pub(crate) async fn verify(&self) -> AgentReport {
        let report = self.db.store().verify(&self.agent).await.unwrap();
        Self::assert_clean(&report);
        report
    }

    /// The document.
    pub(crate) async fn content(&self) -> String {
        self.db
            .store()
            .summary(&self.agent)
            .await
            .unwrap()
            .unwrap()
            .content
    }
}
