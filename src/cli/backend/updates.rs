//! Updates, as operators see and change them.

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};

use super::api::{Api, behind};
use crate::cli::exit::CommandFailure;
use recapd_core::domain::{
    agent::AgentId,
    cursor::{self, PagedList},
    time::Timestamp,
};
use recapd_engine::ingest::AgedReply;
use recapd_store::{
    audit::{AuditQuery, AuditRow},
    operate::{QueueRow, Run, RunOutcome, RunQuery},
};

/// A page of the queue, by agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct QueuePage {
    /// Since when all updates are paused; none if they aren't.
    pub(crate) paused_since: Option<Timestamp>,
    /// Its rows.
    pub(crate) rows: Vec<QueueRow>,
    /// Where the next page begins; none on the last one.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(crate) next_cursor: Option<AgentId>,
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunPage {
    /// The runs.
    pub(crate) runs: Vec<Run>,
    /// Where the next page begins; none on the last one.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(crate) next_cursor: Option<i64>,
}

/// A page of the audit, newest first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AuditPage {
    /// The events.
    pub(crate) events: Vec<AuditRow>,
    /// Where the next page begins; none on the last one.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(crate) next_cursor: Option<i64>,
}

impl Api {
    /// A page of the queue.
    pub(crate) async fn queue(
        &self,
        after: Option<&AgentId>,
        limit: i64,
    ) -> Result<QueuePage, CommandFailure> {
        let cursor = behind(PagedList::Queue, after);
        self.read(&format!("/v1/queue?limit={limit}{cursor}")).await
    }

    /// An agent's row.
    pub(crate) async fn row(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.read(&format!("/v1/queue/{agent}")).await
    }

    /// Asks for an update at once.
    pub(crate) async fn refresh(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.act(&format!("/v1/agents/{agent}/refresh")).await
    }

    /// Makes a row due.
    pub(crate) async fn retry(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.act(&format!("/v1/queue/{agent}/retry")).await
    }

    /// Parks a row.
    pub(crate) async fn cancel(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.act(&format!("/v1/queue/{agent}/cancel")).await
    }

    /// Pauses an agent's updates, or goes on with them.
    pub(crate) async fn set_agent_paused(&self, agent: &AgentId, paused: bool) -> Result<(), CommandFailure> {
        let action = pause_action(paused);
        let path = format!("/v1/agents/{agent}/{action}");
        self.post(&path, &json!({})).await.map(|IgnoredAny| ())
    }

    /// Pauses all updates, or goes on with them. Returns since when they are paused.
    pub(crate) async fn set_paused(&self, paused: bool) -> Result<Option<Timestamp>, CommandFailure> {
        let reply: Value = self.act(&format!("/v1/queue/{}", pause_action(paused))).await?;
        let since = reply.get("paused_since").cloned().unwrap_or_default();
        Ok(serde_json::from_value(since).map_err(anyhow::Error::new)?)
    }

    /// Has documents aged, or says which would be.
    pub(crate) async fn age(&self, dry_run: bool) -> Result<AgedReply, CommandFailure> {
        self.post("/v1/age", &json!({ "dry_run": dry_run })).await
    }

    /// A page of runs, newest first.
    pub(crate) async fn runs(&self, query: RunQuery) -> Result<RunPage, CommandFailure> {
        let parts = [
            query.agent.as_ref().map(|agent| format!("&agent={agent}")),
            query
                .outcome
                .map(|outcome: RunOutcome| format!("&outcome={}", outcome.name())),
            Some(behind(PagedList::Runs, query.before.as_ref())),
        ];
        let more: String = parts.into_iter().flatten().collect();
        let page: RunPage = self
            .read(&format!("/v1/runs?limit={}{more}", query.limit))
            .await?;
        if let Some(agent) = query.agent.filter(|_| page.runs.is_empty()) {
            // No runs, or no such agent?
            self.get(&format!("/v1/agents/{agent}"), "application/json")
                .await?;
        }
        Ok(page)
    }

    /// One run.
    pub(crate) async fn run(&self, run: i64) -> Result<Run, CommandFailure> {
        self.read(&format!("/v1/runs/{run}")).await
    }

    /// A page of the audit, newest first.
    pub(crate) async fn audit(&self, query: AuditQuery) -> Result<AuditPage, CommandFailure> {
        let parts = [
            query.agent.as_ref().map(|agent| format!("&agent={agent}")),
            query.since.map(|since| format!("&since={since}")),
            Some(behind(PagedList::Audit, query.before.as_ref())),
        ];
        let more: String = parts.into_iter().flatten().collect();
        self.read(&format!("/v1/audit?limit={}{more}", query.limit)).await
    }

    /// Posts to a path that needs nothing more.
    async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.post(path, &json!({})).await
    }
}

fn pause_action(paused: bool) -> &'static str {
    if paused { "pause" } else { "resume" }
}
