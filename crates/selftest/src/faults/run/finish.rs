//! The end of a run: all turns are pushed, the queue drains, the daemons end, and the data is judged.

use std::time::Duration;

use tokio::{task::JoinSet, time::Instant};

use super::{END_MS_MAX, Run, TICK_MS, after_ms};
use crate::faults::{
    daemon::{Daemon, State},
    findings::Promise,
    judge,
    settings::{CEILING_TOKENS, DRAIN_MS},
};
use recapd_core::domain::{agent::AgentId, time::Timestamp, work::Reason};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::{
    SqlStore, Store as _, StoreResult,
    operate::{OperatorStore as _, QueueState},
};

const AGENTS_READ: i64 = 100;
/// How long the queue may make no progress, beyond two leases, before it counts as stuck: longer than two unanswered model
/// calls (60 s each) and two statements (35 s each), as daemons have it by default.
const DRY_MS_MAX: u64 = 200_000;
/// How long it may make progress: a backlog of hundreds of exchanges that goes out in batches of four takes a quarter of an hour.
const DRY_MS_IN_ALL: u64 = 1_800_000;

impl Run {
    /// Waits until all clients have ended. Returns false on a timeout.
    pub(super) async fn until_over(&mut self, clients: &mut JoinSet<()>) -> bool {
        let until = after_ms(DRY_MS_MAX);
        while !clients.is_empty() {
            while clients.try_join_next().is_some() {}
            if Instant::now() >= until {
                return false;
            }
            self.pause(TICK_MS).await;
        }
        for refused in self.load.refused() {
            self.broken(refused);
        }
        true
    }

    /// Lets the queue drain, ends the daemons, and judges the data.
    pub(super) async fn finish(&mut self) {
        let store = match SqlStore::look(&self.place.settings()).await {
            Ok(store) => store,
            Err(error) => return self.broken(format!("the database can't be opened: {error}")),
        };
        if let Err(error) = self.until_dry(&store).await {
            self.broken(format!("the queue can't be read: {error}"));
        }
        self.end_daemons().await;
        match store.agents(None, AGENTS_READ).await {
            Ok(agents) => {
                for agent in agents {
                    judge::judge(&store, &agent.agent, CEILING_TOKENS, &mut self.found).await;
                }
            }
            Err(error) => self.broken(format!("agents can't be read: {error}")),
        }
        store.close().await;
        judge::judge_rows(&self.place, &self.load.ledger.all(), &mut self.found);
    }

    async fn until_dry(&mut self, store: &SqlStore) -> StoreResult<()> {
        let (mut until, in_all) = (Instant::now(), after_ms(DRY_MS_IN_ALL));
        let mut written = None;
        loop {
            let before = written.replace(versions(store).await?);
            if written != before {
                until = after_ms(DRY_MS_MAX + 2 * self.lease_ms).min(in_all);
            }
            let sample = store.sample(self.latest(), 1_000).await?;
            let left = sample.ready + sample.scheduled + sample.running;
            let parked = u64::try_from(sample.parked).unwrap_or_default();
            let is_dry = left == 0 && sample.oldest_pending_at.is_none();
            if is_dry || Instant::now() >= until {
                self.found.parked += parked;
            }
            if is_dry {
                return Ok(());
            }
            if Instant::now() >= until {
                let breach = format!("rows are left, or pending exchanges have none: {sample:?}");
                let times = u64::try_from(left).unwrap_or(1).max(1);
                self.found.break_promise(Promise::Drained, times, breach);
                return Ok(());
            }
            if left == 0 && parked > 0 {
                self.revive(store).await?;
            }
            self.pause(TICK_MS * 5).await;
        }
    }

    /// Revives parked rows: exchanges evicted after a row was parked wait for the next eviction, or an operator. Agents
    /// without any row are left alone, so that the fault shows.
    async fn revive(&mut self, store: &SqlStore) -> StoreResult<()> {
        let now = self.latest();
        for agent in parked_and_pending(store, now).await? {
            store.enqueue(&agent, Reason::Manual, 0, now).await?;
            self.found.revived += 1;
        }
        Ok(())
    }

    /// Pending exchanges and their row are written in one transaction, so no fault excuses a missing row.
    pub(super) fn count_repairs(&mut self) {
        for (number, daemon) in self.daemons.iter().enumerate() {
            let (promise, times, breach) = match daemon.repairs() {
                Ok(0) => continue,
                Ok(times) => {
                    let breach = format!("daemon {number} found rows missing in the queue, {times} times");
                    (Promise::Drained, times, breach)
                }
                Err(error) => {
                    let breach = format!("the log of daemon {number} can't be read: {error}");
                    (Promise::Other, 1, breach)
                }
            };
            self.found.break_promise(promise, times, breach);
        }
    }

    /// The latest time that a daemon's clock has shown.
    fn latest(&self) -> Timestamp {
        SystemClock.now().plus_ms(self.furthest_ms)
    }

    async fn end_daemons(&mut self) {
        for number in self.up() {
            self.with(number, Daemon::terminate);
        }
        let until = after_ms(DRAIN_MS + END_MS_MAX);
        loop {
            for daemon in &mut self.daemons {
                if daemon.ended().is_some() {
                    daemon.state = State::Away(until);
                }
            }
            if !self.daemons.iter().any(Daemon::runs) {
                return;
            }
            if Instant::now() >= until {
                return self.broken("a daemon doesn't end when it is asked to".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
        }
    }
}

/// The number of versions of all summaries.
async fn versions(store: &SqlStore) -> StoreResult<i64> {
    let mut versions = 0;
    for agent in store.agents(None, AGENTS_READ).await? {
        let summary = store.summary(&agent.agent).await?;
        versions += summary.map_or(0, |summary| summary.version);
    }
    Ok(versions)
}

/// Agents with pending exchanges and a parked row.
async fn parked_and_pending(store: &SqlStore, now: Timestamp) -> StoreResult<Vec<AgentId>> {
    let mut found = Vec::new();
    for row in store.queue_rows(None, AGENTS_READ, now).await? {
        if row.state == QueueState::Parked {
            let agent = store.agent(&row.agent_id).await?;
            if agent.is_some_and(|agent| agent.pending_since.is_some()) {
                found.push(row.agent_id);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
