//! Reads and changes the queue, runs and the audit through the HTTP interface.

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

/// A page of the queue, ordered by agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct QueuePage {
    /// When all updates were paused; `None` if they aren't paused.
    pub(crate) paused_since: Option<Timestamp>,
    pub(crate) rows: Vec<QueueRow>,
    /// `None` on the last page.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(crate) next_cursor: Option<AgentId>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunPage {
    pub(crate) runs: Vec<Run>,
    /// `None` on the last page.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(crate) next_cursor: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AuditPage {
    pub(crate) events: Vec<AuditRow>,
    /// `None` on the last page.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub(crate) next_cursor: Option<i64>,
}

impl Api {
    pub(crate) async fn queue(
        &self,
        after: Option<&AgentId>,
        limit: i64,
    ) -> Result<QueuePage, CommandFailure> {
        let cursor = behind(PagedList::Queue, after);
        self.read(&format!("/v1/queue?limit={limit}{cursor}")).await
    }

    pub(crate) async fn row(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.read(&format!("/v1/queue/{agent}")).await
    }

    pub(crate) async fn refresh(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.act(&format!("/v1/agents/{agent}/refresh")).await
    }

    /// Makes a row due now.
    pub(crate) async fn retry(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.act(&format!("/v1/queue/{agent}/retry")).await
    }

    pub(crate) async fn cancel(&self, agent: &AgentId) -> Result<QueueRow, CommandFailure> {
        self.act(&format!("/v1/queue/{agent}/cancel")).await
    }

    pub(crate) async fn set_agent_paused(&self, agent: &AgentId, paused: bool) -> Result<(), CommandFailure> {
        let action = pause_action(paused);
        let path = format!("/v1/agents/{agent}/{action}");
        self.post(&path, &json!({})).await.map(|IgnoredAny| ())
    }

    /// Pauses or resumes all updates. Returns when they were paused.
    pub(crate) async fn set_paused(&self, paused: bool) -> Result<Option<Timestamp>, CommandFailure> {
        let reply: Value = self.act(&format!("/v1/queue/{}", pause_action(paused))).await?;
        let since = reply.get("paused_since").cloned().unwrap_or_default();
        Ok(serde_json::from_value(since).map_err(anyhow::Error::new)?)
    }

    /// Queues documents for ageing. With `dry_run`, only lists the documents that are due.
    pub(crate) async fn age(&self, dry_run: bool) -> Result<AgedReply, CommandFailure> {
        self.post("/v1/age", &json!({ "dry_run": dry_run })).await
    }

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
            // An empty page may also mean that the agent doesn't exist.
            self.get(&format!("/v1/agents/{agent}"), "application/json")
                .await?;
        }
        Ok(page)
    }

    pub(crate) async fn run(&self, run: i64) -> Result<Run, CommandFailure> {
        self.read(&format!("/v1/runs/{run}")).await
    }

    pub(crate) async fn audit(&self, query: AuditQuery) -> Result<AuditPage, CommandFailure> {
        let parts = [
            query.agent.as_ref().map(|agent| format!("&agent={agent}")),
            query.since.map(|since| format!("&since={since}")),
            Some(behind(PagedList::Audit, query.before.as_ref())),
        ];
        let more: String = parts.into_iter().flatten().collect();
        self.read(&format!("/v1/audit?limit={}{more}", query.limit)).await
    }

    /// Posts an empty object to `path`.
    async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.post(path, &json!({})).await
    }
}

fn pause_action(paused: bool) -> &'static str {
    if paused { "pause" } else { "resume" }
}
