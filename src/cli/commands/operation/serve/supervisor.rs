//! Runs the worker, the batch poller and the schedule, and replaces them while the daemon runs. At SIGHUP, the
//! configuration is read again, a new worker begins to claim, and the old one completes what it holds.

use std::{pin::pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{Start, health_checker::HealthChecker, service};
use crate::cli::{backend::open::ApiKeys, exit::CommandFailure};
use recapd_config::{Config, LoadedConfig, ReloadOutcome};
use recapd_engine::assembly::Parts;
use recapd_platform::{lifecycle::Lifecycle, randomness};
use recapd_store::{Resume, SqlStore};

/// The running parts, and what a reload needs to replace them.
pub(super) struct Supervisor {
    /// Runs the worker, the batch poller and the schedule.
    pub(super) lifecycle: Lifecycle,
    pub(super) parts: Parts,
    pub(super) store: Arc<SqlStore>,
    pub(super) owner: String,
    pub(super) keys: ApiKeys,
    pub(super) health_checker: Arc<HealthChecker>,
    pub(super) start: Start,
}

impl Supervisor {
    /// Starts the worker. Reloads at each item of `hangups`, until the daemon stops.
    pub(super) async fn run(mut self, config: Config, hangups: impl Stream<Item = ()> + Send) {
        let (mut config, mut stop) = (config, self.begin());
        let mut hangups = pin!(hangups);
        let soft = self.lifecycle.soft().clone();
        while let Some(Some(())) = soft.run_until_cancelled(hangups.next()).await {
            self.start.notify.reloading();
            match self.reload(&config) {
                Ok((reloaded, resumed)) => {
                    self.parts.metrics.service.reloaded(true, self.parts.clock.now());
                    for key in &reloaded.waiting {
                        warn!(key, "config.restart_needed");
                    }
                    info!(keys = reloaded.changed.join(","), "config.reloaded");
                    // The worker is replaced even if no key of the configuration has changed: an API key or a price may
                    // have changed.
                    stop.cancel();
                    stop = self.begin();
                    self.resume(resumed);
                    config = reloaded.config;
                }
                Err(failure) => {
                    self.parts.metrics.service.reloaded(false, self.parts.clock.now());
                    error!(error = failure.text(), "config.reload_failed");
                }
            }
            // `systemctl reload` returns after `ready`. Its caller may look at the status line then, so the line comes first.
            self.start.notify.status(&service::line(&self.parts, false));
            self.start.notify.ready();
        }
    }

    /// Reads the configuration, and builds a worker from it. Also returns which waiting updates to resume, because the new
    /// configuration may help them. If this fails, nothing changes.
    fn reload(&mut self, running: &Config) -> Result<(ReloadOutcome, Resume), CommandFailure> {
        let loaded: LoadedConfig = self.start.sources.clone().load()?;
        let reloaded = ReloadOutcome::of(running, &loaded.config)?;
        let config = &reloaded.config;
        // API keys are read from their files again, whatever else has changed.
        let keys = ApiKeys::of(config, &self.start.environment)?;
        let models = keys.clone().models(config, &self.parts.clock)?;
        let seed = randomness::seed()?;
        let resumed = resumed_by(&reloaded.changed, self.keys == keys);
        self.keys = keys;
        self.start.logging.set_level(config.log.level);
        self.parts = self
            .parts
            .clone()
            .renewed((config, reloaded.prices.clone()), models.model, &self.owner, seed)
            .with_batches(config, self.store.clone(), models.batch)
            .with_database(&self.store);
        self.health_checker.renew(config.clone(), loaded.entries(), &reloaded.waiting, self.parts.clone());
        Ok((reloaded, resumed))
    }

    /// Resumes updates that wait for a limit or a provider, because either may have changed, and because the stopped
    /// batch poller may not have resumed them. Retries until that succeeds. A later reload doesn't end the retries, because
    /// it may resume fewer updates.
    fn resume(&self, resumed: Resume) {
        let (resumption, soft) = (self.parts.worker.resumption(resumed), self.lifecycle.soft().clone());
        self.lifecycle.spawn("resumption", async move { resumption.run(soft).await });
    }

    /// Starts the worker, its batch poller and the schedule. They end with the daemon, or when the returned token is
    /// cancelled.
    fn begin(&self) -> CancellationToken {
        let (lifecycle, parts) = (&self.lifecycle, &self.parts);
        let stop = lifecycle.soft().child_token();
        lifecycle.spawn_vital_until(stop.clone(), "worker", {
            let (worker, soft, hard) = (parts.worker.clone(), stop.clone(), lifecycle.hard().clone());
            async move { worker.run(soft, hard).await }
        });
        if let Some(batch_poller) = parts.worker.batch_poller() {
            let soft = stop.clone();
            lifecycle.spawn_vital_until(stop.clone(), "batch_poller", async move {
                batch_poller.run(soft).await;
            });
        }
        lifecycle.spawn_vital_until(stop.clone(), "schedule", {
            let (schedule, soft) = (parts.schedule.clone(), stop.clone());
            async move { schedule.run(soft).await }
        });
        stop
    }
}

/// Decides from the changed keys of the configuration which waiting updates a reload resumes. An update that a provider
/// refused isn't retried with the same API key at the same provider.
fn resumed_by(changed: &[String], has_same_keys: bool) -> Resume {
    let is_of_model = |key: &String| key.starts_with("model.") || key.starts_with("fallback.");
    if has_same_keys && !changed.iter().any(is_of_model) { Resume::Waiting } else { Resume::Refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_or_provider_resumes_refused_updates() {
        for (changed, has_same_keys, resumed) in [
            ("spend.calls_per_day", true, Resume::Waiting),
            ("spend.calls_per_day", false, Resume::Refused),
            ("model.base_url", true, Resume::Refused),
            ("fallback.mode", true, Resume::Refused),
        ] {
            assert_eq!(resumed_by(&[changed.to_owned()], has_same_keys), resumed, "{changed}");
        }
        assert_eq!(resumed_by(&[], true), Resume::Waiting);
    }
}
