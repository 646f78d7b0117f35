//! The worker and what goes with it, which can be replaced while the daemon runs: at SIGHUP the configuration is read
//! again, a new worker begins to claim, and the one of before finishes what it holds.

use std::{pin::pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{Start, examiner::Examiner, service};
use crate::{
    assembly::Parts,
    cli::{exit::Failed, open},
    config::{Config, Loaded, Reloaded},
    lifecycle::Lifecycle,
    randomness,
    store::SqlStore,
};

/// What a reload needs beside the configuration.
pub(super) struct Crew {
    /// Where the worker and what goes with it run.
    pub(super) lifecycle: Lifecycle,
    pub(super) parts: Parts,
    pub(super) store: Arc<SqlStore>,
    pub(super) owner: String,
    pub(super) examiner: Arc<Examiner>,
    pub(super) given: Start,
}

impl Crew {
    /// Sets the worker to work, and replaces it whenever `hangups` say so, until the daemon ends.
    pub(super) async fn run(mut self, config: Config, hangups: impl Stream<Item = ()> + Send) {
        let (mut config, mut stop) = (config, self.begin());
        let mut hangups = pin!(hangups);
        let soft = self.lifecycle.soft().clone();
        while let Some(Some(())) = soft.run_until_cancelled(hangups.next()).await {
            self.given.notify.reloading();
            match self.reload(&config) {
                Ok(reloaded) => {
                    self.parts.metrics.service.reloaded(true, self.parts.clock.now());
                    for key in &reloaded.waiting {
                        warn!(key, "config.restart_needed");
                    }
                    info!(keys = reloaded.changed.join(","), "config.reloaded");
                    // Though no key of the configuration is another one, a provider's key or a price may be.
                    stop.cancel();
                    stop = self.begin();
                    self.resume(stop.clone());
                    config = reloaded.config;
                }
                Err(failed) => {
                    self.parts.metrics.service.reloaded(false, self.parts.clock.now());
                    error!(error = failed.text(), "config.reload_failed");
                }
            }
            // `systemctl reload` is over with what follows, and whoever asked for it looks then.
            self.given.notify.status(&service::line(&self.parts, false));
            self.given.notify.ready();
        }
    }

    /// Reads the configuration, and makes a worker by it. Nothing is changed on an error.
    fn reload(&mut self, running: &Config) -> Result<Reloaded, Failed> {
        let loaded: Loaded = self.given.sources.clone().load()?;
        let reloaded = Reloaded::of(running, &loaded.config)?;
        let config = &reloaded.config;
        // Keys are read from their files again, whatever else changed.
        let models = open::models(config, &self.given.environment, &self.parts.clock)?;
        let seed = randomness::seed()?;
        self.given.logging.set_level(config.log.level);
        self.parts = self
            .parts
            .clone()
            .renewed((config, reloaded.prices.clone()), models.model, &self.owner, seed)
            .with_batches(config, self.store.clone(), models.batch)
            .with_database(&self.store);
        self.examiner.renew(
            config.clone(),
            loaded.entries(),
            &reloaded.waiting,
            self.parts.clone(),
        );
        Ok(reloaded)
    }

    /// Lets updates go on that wait for a limit or a provider: it may be another one now, or have another key, and a courier
    /// may have been stopped when it owed them that. Should it fail, it is tried until it is done, or until `stop`: the next
    /// reload begins anew.
    fn resume(&self, stop: CancellationToken) {
        let resumption = self.parts.worker.resumption();
        self.lifecycle
            .spawn("resumption", async move { resumption.run(stop).await });
    }

    /// Starts the worker, its courier and the schedule; they end with the daemon, or when what is returned is cancelled.
    fn begin(&self) -> CancellationToken {
        let (lifecycle, parts) = (&self.lifecycle, &self.parts);
        let stop = lifecycle.soft().child_token();
        lifecycle.spawn_vital_until(stop.clone(), "worker", {
            let (worker, soft, hard) = (parts.worker.clone(), stop.clone(), lifecycle.hard().clone());
            async move { worker.run(soft, hard).await }
        });
        if let Some(courier) = parts.worker.courier() {
            let soft = stop.clone();
            lifecycle.spawn_vital_until(stop.clone(), "courier", async move { courier.run(soft).await });
        }
        lifecycle.spawn_vital_until(stop.clone(), "schedule", {
            let (schedule, soft) = (parts.schedule.clone(), stop.clone());
            async move { schedule.run(soft).await }
        });
        stop
    }
}
