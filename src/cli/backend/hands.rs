//! The updates in an operator's hands: through the daemon, or in the database.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    open,
    remote::{Remote, behind},
};
use crate::cli::{GlobalOptions, exit::CommandFailure};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    cursor::{self, PagedList},
    time::Timestamp,
};
use recapd_engine::{
    assembly,
    ingest::{AgedReply, Operator},
};
use recapd_platform::clock::SystemClock;
use recapd_store::{
    SqlStore, Store as _,
    audit::{AuditQuery, AuditRow, AuditStore as _},
    operate::{OperatorOutcome, QueueRow, Run, RunOutcome, RunQuery},
};

/// A page of the queue, by agent.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct QueuePage {
    /// Since when all updates are paused; none if they aren't.
    pub(in crate::cli) paused_since: Option<Timestamp>,
    /// Its rows.
    pub(in crate::cli) rows: Vec<QueueRow>,
    /// Where the next page begins; none on the last one.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(in crate::cli) next_cursor: Option<AgentId>,
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct RunPage {
    /// The runs.
    pub(in crate::cli) runs: Vec<Run>,
    /// Where the next page begins; none on the last one.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(in crate::cli) next_cursor: Option<i64>,
}

/// A page of the audit, newest first.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct AuditPage {
    /// The events.
    pub(in crate::cli) events: Vec<AuditRow>,
    /// Where the next page begins; none on the last one.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(in crate::cli) next_cursor: Option<i64>,
}

/// Who is asked.
pub(in crate::cli) enum Hands {
    /// A daemon that runs.
    Daemon(Remote),
    /// The database.
    Database(Operator, Arc<SqlStore>),
}

impl Hands {
    /// To look at things.
    pub(in crate::cli) async fn looking(
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<Self, CommandFailure> {
        match &shared.server {
            Some(server) => Ok(Self::Daemon(Remote::new(server)?)),
            None => Ok(Self::over(Arc::new(open::look(config).await?))),
        }
    }

    /// To change them.
    pub(in crate::cli) async fn working(
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<Self, CommandFailure> {
        match &shared.server {
            Some(server) => Ok(Self::Daemon(Remote::new(server)?)),
            None => Ok(Self::over(open::work(config).await?)),
        }
    }

    fn over(store: Arc<SqlStore>) -> Self {
        let operator = assembly::operator_alone(Arc::clone(&store) as _, Arc::new(SystemClock));
        Self::Database(operator, store)
    }

    /// A page of the queue.
    pub(in crate::cli) async fn queue(
        &self,
        after: Option<&AgentId>,
        limit: i64,
    ) -> Result<QueuePage, CommandFailure> {
        match self {
            Self::Daemon(daemon) => {
                let cursor = behind(PagedList::Queue, after);
                daemon.read(&format!("/v1/queue?limit={limit}{cursor}")).await
            }
            Self::Database(operator, _) => {
                // One more than asked for tells whether there is a next page.
                let rows = operator.queue(after, limit + 1).await?;
                let (rows, next_cursor) = cursor::cut(rows, limit, |row| row.agent_id.clone());
                Ok(QueuePage {
                    paused_since: operator.paused_since().await?,
                    next_cursor,
                    rows,
                })
            }
        }
    }

    /// An agent's row.
    pub(in crate::cli) async fn row(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        match self {
            Self::Daemon(daemon) => daemon.read(&format!("/v1/queue/{agent}")).await,
            Self::Database(operator, store) => match operator.row(agent).await? {
                Some(row) => Ok(row),
                None => Err(missing(store, agent).await),
            },
        }
    }

    /// Asks for an update at once.
    pub(in crate::cli) async fn refresh(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        match self {
            Self::Daemon(daemon) => posted(daemon, &format!("/v1/agents/{agent}/refresh")).await,
            Self::Database(operator, store) => {
                if store.agent(agent).await?.is_none() {
                    return Err(open::unknown(store.as_ref(), agent).await);
                }
                Ok(operator.refresh(agent).await?)
            }
        }
    }

    /// Makes a row due.
    pub(in crate::cli) async fn retry(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        match self {
            Self::Daemon(daemon) => posted(daemon, &format!("/v1/queue/{agent}/retry")).await,
            Self::Database(operator, store) => match operator.retry(agent).await? {
                OperatorOutcome::NoRow => Err(missing(store, agent).await),
                OperatorOutcome::Done(row) | OperatorOutcome::Running(row) => Ok(*row),
            },
        }
    }

    /// Parks a row.
    pub(in crate::cli) async fn cancel(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        match self {
            Self::Daemon(daemon) => posted(daemon, &format!("/v1/queue/{agent}/cancel")).await,
            Self::Database(operator, store) => match operator.cancel(agent).await? {
                OperatorOutcome::NoRow => Err(missing(store, agent).await),
                OperatorOutcome::Done(row) | OperatorOutcome::Running(row) => Ok(*row),
            },
        }
    }

    /// Pauses an agent's updates, or goes on with them.
    pub(in crate::cli) async fn set_agent_paused(
        &self,
        agent: &AgentId,
        paused: bool,
    ) -> Result<(), CommandFailure> {
        match self {
            Self::Daemon(daemon) => {
                let action = if paused { "pause" } else { "resume" };
                let path = format!("/v1/agents/{agent}/{action}");
                daemon.post(&path, &json!({})).await.map(drop)
            }
            Self::Database(operator, store) => {
                if store.agent(agent).await?.is_none() {
                    return Err(open::unknown(store.as_ref(), agent).await);
                }
                Ok(operator.set_agent_paused(agent, paused).await?)
            }
        }
    }

    /// Pauses all updates, or goes on with them. Returns since when they are paused.
    pub(in crate::cli) async fn set_paused(&self, paused: bool) -> Result<Option<Timestamp>, CommandFailure> {
        match self {
            Self::Daemon(daemon) => {
                let action = if paused { "pause" } else { "resume" };
                let reply: Value = posted(daemon, &format!("/v1/queue/{action}")).await?;
                let since = reply.get("paused_since").cloned().unwrap_or_default();
                Ok(serde_json::from_value(since).map_err(anyhow::Error::new)?)
            }
            Self::Database(operator, _) => Ok(operator.set_paused(paused).await?),
        }
    }

    /// Has documents aged, or tells which would be.
    pub(in crate::cli) async fn age(&self, dry_run: bool) -> Result<AgedReply, CommandFailure> {
        match self {
            Self::Daemon(daemon) => {
                let text = daemon.post("/v1/age", &json!({ "dry_run": dry_run })).await?;
                Ok(serde_json::from_str(&text).map_err(anyhow::Error::new)?)
            }
            Self::Database(operator, _) => Ok(operator.age(dry_run).await?),
        }
    }

    /// A page of runs, newest first.
    pub(in crate::cli) async fn runs(&self, query: RunQuery) -> Result<RunPage, CommandFailure> {
        match self {
            Self::Daemon(daemon) => {
                let parts = [
                    query.agent.as_ref().map(|agent| format!("&agent={agent}")),
                    query
                        .outcome
                        .map(|outcome: RunOutcome| format!("&outcome={}", outcome.name())),
                    Some(behind(PagedList::Runs, query.before.as_ref())),
                ];
                let more: String = parts.into_iter().flatten().collect();
                let page: RunPage = daemon
                    .read(&format!("/v1/runs?limit={}{more}", query.limit))
                    .await?;
                if let Some(agent) = query.agent.filter(|_| page.runs.is_empty()) {
                    // No runs, or no such agent?
                    daemon
                        .get(&format!("/v1/agents/{agent}"), "application/json")
                        .await?;
                }
                Ok(page)
            }
            Self::Database(operator, store) => {
                if let Some(agent) = &query.agent
                    && store.agent(agent).await?.is_none()
                {
                    return Err(open::unknown(store.as_ref(), agent).await);
                }
                let limit = query.limit;
                let runs = operator
                    .runs(RunQuery {
                        limit: limit + 1,
                        ..query
                    })
                    .await?;
                let (runs, next_cursor) = cursor::cut(runs, limit, |run| run.run);
                Ok(RunPage { runs, next_cursor })
            }
        }
    }

    /// A page of the audit, newest first.
    pub(in crate::cli) async fn audit(&self, query: AuditQuery) -> Result<AuditPage, CommandFailure> {
        match self {
            Self::Daemon(daemon) => {
                let parts = [
                    query.agent.as_ref().map(|agent| format!("&agent={agent}")),
                    query.since.map(|since| format!("&since={since}")),
                    Some(behind(PagedList::Audit, query.before.as_ref())),
                ];
                let more: String = parts.into_iter().flatten().collect();
                daemon
                    .read(&format!("/v1/audit?limit={}{more}", query.limit))
                    .await
            }
            Self::Database(_, store) => {
                let limit = query.limit;
                let events = store
                    .audit(AuditQuery {
                        limit: limit + 1,
                        ..query
                    })
                    .await?;
                let (events, next_cursor) = cursor::cut(events, limit, |row| row.event);
                Ok(AuditPage { events, next_cursor })
            }
        }
    }

    /// One run.
    pub(in crate::cli) async fn run(&self, run: i64) -> Result<Run, CommandFailure> {
        match self {
            Self::Daemon(daemon) => daemon.read(&format!("/v1/runs/{run}")).await,
            Self::Database(operator, _) => {
                let found = operator.run(run).await?;
                found.ok_or_else(|| {
                    CommandFailure::not_found(format!(
                        "there is no run {run}; `recapd runs` lists those that are kept"
                    ))
                })
            }
        }
    }
}

async fn posted<T: serde::de::DeserializeOwned>(daemon: &Remote, path: &str) -> Result<T, CommandFailure> {
    let text = daemon.post(path, &json!({})).await?;
    Ok(serde_json::from_str(&text).map_err(anyhow::Error::new)?)
}

/// Why an agent has no row.
async fn missing(store: &SqlStore, agent: &AgentId) -> CommandFailure {
    match store.agent(agent).await {
        Ok(Some(_)) => not_queued(agent),
        Ok(None) => open::unknown(store, agent).await,
        Err(error) => error.into(),
    }
}

fn not_queued(agent: &AgentId) -> CommandFailure {
    CommandFailure::not_found(format!("agent `{agent}` isn't in the queue"))
}
