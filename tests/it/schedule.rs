//! Scheduled jobs fire once, and again if they failed.

use std::sync::Arc;

use recapd_config::Config;
use recapd_core::domain::time::{DAY_MS, Timestamp};
use recapd_engine::assembly::Parts;
use recapd_llm::offline::OfflineModel;
use recapd_platform::clock::{Clock, ManualClock};
use recapd_store::FIRING_MS_MAX;
use tokio::{task::yield_now, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{
    PATIENCE,
    backend::{Backend as _, SqliteBackend},
    troubled_store::{Trouble, TroubledStore},
};

/// A daemon's parts over a store with planned trouble.
struct Fired {
    db: SqliteBackend,
    store: Arc<TroubledStore>,
    clock: Arc<ManualClock>,
    parts: Parts,
}

impl Fired {
    async fn new() -> Self {
        let db = SqliteBackend::fresh().await;
        let store = Arc::new(TroubledStore::new(db.store()));
        let noon = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let clock = Arc::new(ManualClock::new(noon));
        let parts = parts(&db, &store, &clock);
        Self { db, store, clock, parts }
    }

    /// The same database under a restarted daemon.
    fn restarted(self) -> Self {
        let parts = parts(&self.db, &self.store, &self.clock);
        Self { parts, ..self }
    }

    /// Waits until the sampler shows that summaries were aged at this second.
    async fn until_aged_at(&self, second: i64) {
        let line = format!("\nrecapd_aging_last_success_timestamp_seconds {second}");
        let shown = async {
            while !self.parts.metrics.encode(None).1.contains(&line) {
                yield_now().await;
            }
        };
        tokio::select! {
            () = self.parts.schedule.run(CancellationToken::new()) => panic!("it goes on"),
            shown = timeout(PATIENCE, shown) => shown.expect("the time is shown"),
        }
    }

    /// Fires what is due. Returns the schedules whose last firing is done.
    async fn done(&self) -> String {
        self.parts.schedule.fire_due().await;
        let done = "SELECT name FROM schedule_slots o WHERE done_at IS NOT NULL AND NOT EXISTS \
                    (SELECT 1 FROM schedule_slots n WHERE n.name = o.name AND n.slot > o.slot) ORDER BY name";
        self.db.texts(done, " ").await
    }
}

/// A daemon's parts with fresh counters.
fn parts(db: &SqliteBackend, store: &Arc<TroubledStore>, clock: &Arc<ManualClock>) -> Parts {
    let config = Config::default();
    let parts = Parts::new(
        (&config, config.spend.prices().unwrap()),
        Arc::clone(store) as _,
        Arc::new(OfflineModel),
        Arc::clone(clock) as Arc<dyn Clock>,
        "daemon",
        7,
    );
    parts.with_database(&db.target())
}

#[tokio::test]
async fn a_failed_firing_is_repeated() {
    let fired = Fired::new().await;
    for work in ["enqueue_ageing", "prune"] {
        fired.store.trouble(work, Trouble::Unavailable);
    }
    assert_eq!(fired.done().await, "");
    fired.store.recover();
    // A failed firing isn't retried at every look.
    assert_eq!(fired.done().await, "");
    fired.clock.advance_ms(FIRING_MS_MAX);
    assert_eq!(fired.done().await, "ageing prune");
    // It was done: trouble now has no effect before the next day.
    fired.store.trouble("take_slot", Trouble::Panic);
    fired.clock.advance_ms(FIRING_MS_MAX);
    assert_eq!(fired.done().await, "ageing prune");
    fired.store.recover();
    fired.clock.advance_ms(DAY_MS);
    assert_eq!(fired.done().await, "ageing prune");
}

/// It is done twice then, which is harmless.
#[tokio::test]
async fn a_firing_that_could_not_be_recorded_is_repeated() {
    let fired = Fired::new().await;
    fired.store.trouble("finish_slot", Trouble::Unavailable);
    assert_eq!(fired.done().await, "");
    fired.store.recover();
    fired.clock.advance_ms(FIRING_MS_MAX);
    assert_eq!(fired.done().await, "ageing prune");
}

/// Killed in between: the slot is taken, and nobody works on it.
#[tokio::test]
async fn a_firing_of_a_killed_daemon_is_made_by_the_next_one() {
    let fired = Fired::new().await;
    fired.store.trouble("enqueue_ageing", Trouble::Hang);
    let taken = async {
        let slots = "SELECT count(*) FROM schedule_slots WHERE name = 'ageing'";
        while fired.db.number(slots).await == Some(0) {
            yield_now().await;
        }
    };
    tokio::select! {
        () = fired.parts.schedule.fire_due() => panic!("it goes on"),
        taken = timeout(PATIENCE, taken) => taken.expect("the slot is taken"),
    }
    fired.store.recover();
    fired.clock.advance_ms(FIRING_MS_MAX);
    assert_eq!(fired.done().await, "ageing prune");
}

/// Otherwise later failures of ageing would go unnoticed.
#[tokio::test]
async fn a_restarted_daemon_knows_when_summaries_were_last_aged() {
    let fired = Fired::new().await;
    let aged_at = fired.clock.now().0 / 1_000;
    assert_eq!(fired.done().await, "ageing prune");
    let fired = fired.restarted();
    for days in 1..=3 {
        fired.store.trouble("enqueue_ageing", Trouble::Unavailable);
        fired.clock.advance_ms(DAY_MS);
        assert_eq!(fired.done().await, "prune", "day {days}");
    }
    fired.until_aged_at(aged_at).await;
}

/// Also if another daemon did it.
#[tokio::test]
async fn a_daemon_sees_what_another_one_has_aged() {
    let fired = Fired::new().await;
    let idle = parts(&fired.db, &fired.store, &fired.clock);
    let aged_at = fired.clock.now().0 / 1_000;
    assert_eq!(fired.done().await, "ageing prune");
    let other = Fired { parts: idle, ..fired };
    other.until_aged_at(aged_at).await;
}
