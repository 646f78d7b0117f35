//! Reads and changes the queue and runs through the HTTP interface.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::api::Api;
use crate::cli::exit::CommandFailure;
use recapd_core::domain::{agent::AgentId, time::Timestamp};
use recapd_engine::ingest::AgedReply;
use recapd_store::operate::{QueueRow, Run};

impl Api {
    /// Returns when all updates were paused; `None` if they aren't paused.
    pub(crate) async fn paused_since(&self) -> Result<Option<Timestamp>, CommandFailure> {
        let page: Value = self.read("/v1/queue?limit=1").await?;
        paused_since(&page)
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
        paused_since(&reply)
    }

    /// Queues documents for ageing. With `dry_run`, only lists the documents that are due.
    pub(crate) async fn age(&self, dry_run: bool) -> Result<AgedReply, CommandFailure> {
        self.post("/v1/age", &json!({ "dry_run": dry_run })).await
    }

    /// Returns the newest run of an agent.
    pub(crate) async fn last_run(&self, agent: &AgentId) -> Result<Option<Run>, CommandFailure> {
        let mut page: Value = self.read(&format!("/v1/runs?limit=1&agent={agent}")).await?;
        let runs: Vec<Run> = serde_json::from_value(page["runs"].take()).map_err(anyhow::Error::new)?;
        Ok(runs.into_iter().next())
    }

    pub(crate) async fn run(&self, run: i64) -> Result<Run, CommandFailure> {
        self.read(&format!("/v1/runs/{run}")).await
    }

    /// Posts an empty object to `path`.
    async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.post(path, &json!({})).await
    }
}

fn paused_since(answer: &Value) -> Result<Option<Timestamp>, CommandFailure> {
    let since = answer.get("paused_since").cloned().unwrap_or_default();
    Ok(serde_json::from_value(since).map_err(anyhow::Error::new)?)
}

fn pause_action(paused: bool) -> &'static str {
    if paused { "pause" } else { "resume" }
}
