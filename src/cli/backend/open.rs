//! Opening the database for commands that only look, and running their futures.

use std::{future::Future, sync::Arc, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};

use super::{api, cure};
use crate::cli::{
    exit::{CONFIGURATION, CommandFailure, UNAVAILABLE},
    terminal::likeness,
};
use recapd_config::{self as config, Config, Environment};
use recapd_core::domain::agent::AgentId;
use recapd_engine::assembly::{self, Models};
use recapd_platform::{background, clock::Clock, threads};
use recapd_store::{SqlStore, Store, StoreError};

/// Agents among which the one that was meant is looked for.
const AGENTS_COMPARED_MAX: i64 = 1_000;
/// Agents that are named where none is like the one that was asked for.
pub(super) const AGENTS_SHOWN_MAX: usize = 10;

/// How long the end of a command waits for what it leaves on other threads: a name server or a disk may hang; and then again
/// until the databases that it had open are closed.
const CLOSING: Duration = Duration::from_secs(10);

/// Runs a command's future on a runtime of its own, and waits a while for what it leaves to be finished.
pub(crate) fn block_on<T>(
    future: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let runtime = threads::runtime()?;
    let outcome = runtime.block_on(future);
    // Whoever still holds a database lets go of it.
    runtime.shutdown_timeout(CLOSING);
    background::wait_for_all(CLOSING);
    outcome
}

/// The keys of the model and of the second one.
#[derive(Clone, Debug)]
pub(crate) struct ApiKeys([Option<SecretString>; 2]);

impl ApiKeys {
    /// The keys of the configuration's models.
    pub(crate) fn of(config: &Config, environment: &Environment) -> Result<Self, CommandFailure> {
        Ok(Self([
            config::api_key(&config.model, environment)?,
            config::fallback_api_key(&config.fallback, &config.model, environment)?,
        ]))
    }

    /// The models of the configuration with these keys.
    pub(crate) fn models(self, config: &Config, clock: &Arc<dyn Clock>) -> Result<Models, CommandFailure> {
        Ok(assembly::models(config, self.0, clock).map_err(anyhow::Error::new)?)
    }
}

impl PartialEq for ApiKeys {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|pair| match pair {
            (Some(one), Some(other)) => one.expose_secret() == other.expose_secret(),
            (None, None) => true,
            _ => false,
        })
    }
}

/// The models of the configuration with their keys.
pub(crate) fn models(
    config: &Config,
    environment: &Environment,
    clock: &Arc<dyn Clock>,
) -> Result<Models, CommandFailure> {
    ApiKeys::of(config, environment)?.models(config, clock)
}

/// Opens the database of the configuration beside a daemon that may be running.
pub(crate) async fn look(config: &Config) -> Result<SqlStore, CommandFailure> {
    let settings = assembly::database_settings(&config.database);
    let store = SqlStore::look(&settings).await;
    let store = store.map_err(|error| named(&config.database.url, error))?;
    Ok(store.with_fairness(config.queue.fairness()))
}

/// What is wrong with a database, and with which.
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
pub(crate) fn named(url: &str, error: StoreError) -> CommandFailure {
    let hint = match &error {
        // The configuration is right, or the cure is told.
        StoreError::InUse(_) => "stop it first",
        StoreError::Unavailable(_) => cure::of(url, &error),
        _ => "is that the right database? name another with --db",
    };
    let code = if matches!(error, StoreError::Schema(_)) {
        CONFIGURATION
    } else {
        UNAVAILABLE
    };
    CommandFailure::new(code, anyhow::anyhow!("{url}: {error}; {hint}"))
}

/// The error for an agent that isn't there, with the agents that are.
pub(crate) async fn unknown(store: &dyn Store, agent: &AgentId) -> CommandFailure {
    let known = store.agents(None, AGENTS_COMPARED_MAX).await.unwrap_or_default();
    let names: Vec<&str> = known.iter().map(|row| row.agent.as_str()).collect();
    CommandFailure::not_found(likeness::unknown_agent(agent.as_str(), &names, AGENTS_SHOWN_MAX))
}

/// Opens the database of the configuration for a change, which no daemon may have open on SQLite: it would answer readers
/// from before the change. A database that isn't there isn't made.
pub(crate) async fn work(config: &Config) -> Result<Arc<SqlStore>, CommandFailure> {
    look(config).await?;
    make(config).await
}

/// As [`work`], but a database that isn't there is made.
pub(crate) async fn make(config: &Config) -> Result<Arc<SqlStore>, CommandFailure> {
    let store = assembly::open_store(config).await.map_err(|error| match error {
        StoreError::InUse(_) => {
            let server = api::base(&config.http);
            let token = "with its token in RECAPD_TOKEN or --token-file if it demands one";
            let hint = format!("ask the daemon that runs there: --server {server}, {token}");
            CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("{error}; {hint}"))
        }
        error => error.into(),
    })?;
    Ok(Arc::new(store))
}
