//! Opens the database for commands, and runs their futures.

use std::{future::Future, sync::Arc, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};

use super::{cure, target};
use crate::cli::{
    exit::{CONFIGURATION, CommandFailure, UNAVAILABLE},
    terminal::likeness,
};
use recapd_config::{self as config, Config, Environment};
use recapd_core::domain::agent::AgentId;
use recapd_engine::assembly::{self, Models};
use recapd_platform::{background, clock::Clock, threads};
use recapd_store::{SqlStore, Store, StoreError};

/// How many agents are compared to suggest the one that was meant.
const AGENTS_COMPARED_MAX: i64 = 1_000;
/// How many agents an error names if none of them is similar to the unknown one.
pub(super) const AGENTS_SHOWN_MAX: usize = 10;

/// When a command ends, it waits this long for other threads, which may hang on a name server or a disk, and then again
/// this long for its databases to close.
const CLOSING: Duration = Duration::from_secs(10);

/// Runs a command's future on a runtime of its own. Then waits up to twice [`CLOSING`] for background work.
pub(crate) fn block_on<T>(
    future: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let runtime = threads::runtime()?;
    let outcome = runtime.block_on(future);
    // After this, no task uses a database any more, so the databases close.
    runtime.shutdown_timeout(CLOSING);
    background::wait_for_all(CLOSING);
    outcome
}

/// The API keys of the model and of its fallback.
#[derive(Clone, Debug)]
pub(crate) struct ApiKeys([Option<SecretString>; 2]);

impl ApiKeys {
    pub(crate) fn of(config: &Config, environment: &Environment) -> Result<Self, CommandFailure> {
        Ok(Self([
            config::api_key(&config.model, environment)?,
            config::fallback_api_key(&config.fallback, &config.model, environment)?,
        ]))
    }

    /// Builds the configured models with these keys.
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

/// Builds the configured models with their keys.
pub(crate) fn models(
    config: &Config,
    environment: &Environment,
    clock: &Arc<dyn Clock>,
) -> Result<Models, CommandFailure> {
    ApiKeys::of(config, environment)?.models(config, clock)
}

/// Opens the configured database for reading. A daemon may be using it.
pub(crate) async fn look(config: &Config) -> Result<SqlStore, CommandFailure> {
    let settings = assembly::database_settings(&config.database);
    let store = SqlStore::look(&settings).await;
    store.map_err(|error| failure(&config.database.url, error))
}

/// Adds the database's name and a hint to an error.
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
pub(crate) fn failure(url: &str, error: StoreError) -> CommandFailure {
    let hint = match &error {
        StoreError::InUse(_) => "stop it first",
        StoreError::Unavailable(_) => cure::hint(url, &error),
        _ => "is this the right database? name another with --db",
    };
    let code = if matches!(error, StoreError::Schema(_)) { CONFIGURATION } else { UNAVAILABLE };
    let is_unavailable = matches!(error, StoreError::Unavailable(_));
    let text = cure::wrong_file_hint(url).filter(|_| is_unavailable);
    let text = text.unwrap_or_else(|| format!("{url}: {error}; {hint}"));
    CommandFailure::new(code, anyhow::Error::msg(text))
}

/// Returns the failure for an unknown agent, with the names of existing agents.
pub(crate) async fn unknown(store: &dyn Store, agent: &AgentId) -> CommandFailure {
    let rows = store.agents(None, AGENTS_COMPARED_MAX).await.unwrap_or_default();
    let names: Vec<&str> = rows.iter().map(|row| row.agent.as_str()).collect();
    CommandFailure::not_found(likeness::unknown_agent(agent.as_str(), &names, AGENTS_SHOWN_MAX))
}

/// Opens the configured database for a change; fails if it doesn't exist, or if a daemon uses it and it is an SQLite
/// database: that daemon would answer readers with data from before the change.
pub(crate) async fn work(config: &Config) -> Result<Arc<SqlStore>, CommandFailure> {
    look(config).await?;
    make(config).await
}

/// Like [`work`], but creates the database if it doesn't exist.
pub(crate) async fn make(config: &Config) -> Result<Arc<SqlStore>, CommandFailure> {
    let store = assembly::open_store(config).await.map_err(|error| match error {
        StoreError::InUse(_) => {
            let server = target::base(&config.http);
            let token = "with a token in RECAPD_TOKEN or --token-file if it needs one";
            let hint = format!("use the running daemon: --server {server}, {token}");
            CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("{error}; {hint}"))
        }
        error => error.into(),
    })?;
    Ok(Arc::new(store))
}
