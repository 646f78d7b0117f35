//! A source in this process: a daemon's own parts, or a database that is opened for reading.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    TEXT_COLUMNS, WAIT_SECONDS,
    source::{AgentLine, AgentsPage, Desk, Source, SourceError},
};
use crate::{
    access::{Access, Caller},
    history::{self, HistoryQuery},
    recall::{self, ArchiveQuestion, ExpandQuery, ExpandReply, RecallReply},
};
use recapd_client::Summary;
use recapd_core::domain::{
    access::Scope,
    agent::AgentId,
    history::{HistoryView, render_text},
    note::Note,
    number::usize_or_max,
    time::DAY_MS,
};
use recapd_engine::{
    embedder::Embedder,
    ingest::{self, NoteRequest, WrittenNotesReply},
    snapshot::{Lookup, Snapshot, Snapshots},
};
use recapd_platform::clock::Clock;
use recapd_store::{AgentRow, Sample, Store, StoreError};

#[derive(Clone)]
pub struct Local {
    /// Reads everything but summaries.
    pub store: Arc<dyn Store>,
    /// Reads summaries.
    pub snapshots: Arc<Snapshots>,
    /// Embeds the question of a search, which then searches by meaning, too.
    pub embedder: Option<Arc<Embedder>>,
    pub clock: Arc<dyn Clock>,
    pub history: HistoryQuery,
    /// Set if the snapshots are kept up to date until this is cancelled. Otherwise each summary is read from the
    /// database.
    pub followed: Option<CancellationToken>,
    /// The caller; `None` if everybody may see everything.
    pub scope: Option<CallerScope>,
    /// Writes notes and handoffs.
    pub desk: Arc<dyn Desk>,
}

/// A caller, and the rules that say what the caller may see.
#[derive(Clone)]
pub struct CallerScope {
    pub access: Arc<Access>,
    pub caller: Arc<Caller>,
}

impl CallerScope {
    /// Checks that the caller may see `agent`. If not, fails as for an unknown agent.
    async fn check(&self, agent: &AgentId) -> Result<(), SourceError> {
        // A subscription may outlive its token.
        if !self.access.is_still_valid(&self.caller, None) {
            return Err(SourceError::Refused("the token is no longer valid".to_owned()));
        }
        if self.access.may_see(&self.caller, agent).await? {
            Ok(())
        } else {
            Err(SourceError::UnknownAgent(agent.clone()))
        }
    }
}

impl Local {
    async fn check(&self, agent: &AgentId) -> Result<(), SourceError> {
        match &self.scope {
            Some(scope) => scope.check(agent).await,
            None => Ok(()),
        }
    }

    /// Reads the agents that the caller may see, like [`Source::agents`].
    async fn rows(&self, after: Option<&AgentId>, limit: i64) -> Result<Vec<AgentRow>, SourceError> {
        let store = self.store.as_ref();
        let rows = match &self.scope {
            Some(scope) => scope.access.visible_agent_rows(store, &scope.caller, after, limit).await,
            None => store.agents(after, limit).await,
        };
        Ok(rows?)
    }

    async fn view(&self, agent: &AgentId, query: HistoryQuery) -> Result<HistoryView, SourceError> {
        self.check(agent).await?;
        let (now, redactor) = (self.clock.now(), self.snapshots.redactor());
        let view = history::load(self.store.as_ref(), agent, query, now, redactor).await?;
        view.ok_or_else(|| SourceError::UnknownAgent(agent.clone()))
    }

    async fn reading(&self, agent: &AgentId) -> Result<Lookup, SourceError> {
        self.check(agent).await?;
        let reading = match &self.followed {
            Some(_) => self.snapshots.get(agent).await?,
            None => self
                .snapshots
                .from_database(agent)
                .await?
                .map(|snapshot| Lookup { snapshot: Arc::new(snapshot), stale_since: None }),
        };
        reading.ok_or_else(|| SourceError::UnknownAgent(agent.clone()))
    }
}

#[async_trait]
impl Source for Local {
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> Result<AgentsPage, SourceError> {
        let mut rows = self.rows(after, limit.saturating_add(1)).await?;
        let limit = usize_or_max(limit);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().map(|row| row.agent.clone());
        Ok(AgentsPage {
            agents: rows.into_iter().map(AgentLine::from).collect(),
            next_cursor: last.filter(|_| has_more),
        })
    }

    async fn summary(&self, agent: &AgentId) -> Result<Summary, SourceError> {
        let reading = self.reading(agent).await?;
        Ok(document(agent, &reading))
    }

    async fn tag(&self, agent: &AgentId, known_tag: Option<&str>) -> Result<Option<String>, SourceError> {
        match self.check(agent).await {
            Err(SourceError::UnknownAgent(_)) => return Ok(None),
            checked => checked?,
        }
        let reading = match &self.followed {
            Some(stop) => {
                let deadline = Instant::now() + Duration::from_secs(WAIT_SECONDS);
                let is_known = |tag: &str| known_tag == Some(tag);
                self.snapshots.get_changed(agent, is_known, deadline, stop).await?
            }
            None => match self.reading(agent).await {
                Err(SourceError::UnknownAgent(_)) => None,
                reading => Some(reading?),
            },
        };
        Ok(reading.map(|reading| reading.snapshot.etag.clone()))
    }

    async fn history(&self, agent: &AgentId) -> Result<String, SourceError> {
        let view = self.view(agent, self.history).await?;
        Ok(render_text(&view, TEXT_COLUMNS))
    }

    async fn window(&self, agent: &AgentId, all: bool) -> Result<Value, SourceError> {
        let window_only = HistoryQuery { archived: 0, ..self.history };
        let without_lines = HistoryQuery { lines: false, ..self.history.all() };
        let view = self.view(agent, if all { without_lines } else { window_only }).await?;
        serde_json::to_value(&view).map_err(|error| SourceError::Unavailable(error.to_string()))
    }

    async fn recall(&self, agent: &AgentId, parameters: &[(&str, &str)]) -> Result<RecallReply, SourceError> {
        self.check(agent).await?;
        let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, text)| *text);
        let question = ArchiveQuestion::read(parameter, self.clock.now())
            .map_err(|error| SourceError::Refused(error.to_string()))?;
        let redactor = self.snapshots.redactor();
        let found =
            recall::search(self.store.as_ref(), agent, &question, redactor, self.embedder.as_deref()).await?;
        found.ok_or_else(|| SourceError::UnknownAgent(agent.clone()))
    }

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError> {
        self.check(agent).await?;
        if let Some(reply) = recall::expand(self.store.as_ref(), agent, exchange, query).await? {
            return Ok(reply);
        }
        let agent = agent.clone();
        Err(match self.store.agent(&agent).await? {
            Some(_) => SourceError::UnknownExchange { agent, exchange },
            None => SourceError::UnknownAgent(agent),
        })
    }

    async fn notes(&self, agent: &AgentId) -> Result<Vec<Note>, SourceError> {
        self.check(agent).await?;
        let reply = ingest::notes(self.store.as_ref(), agent, true).await?;
        Ok(reply.notes.into_iter().map(Into::into).collect())
    }

    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError> {
        self.check(agent).await?;
        if self.scope.as_ref().is_some_and(|scope| scope.caller.scope < Scope::Write) {
            return Err(SourceError::Refused("this token may only read".to_owned()));
        }
        self.desk.write_notes(agent, requests).await
    }

    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError> {
        self.check(agent).await?;
        self.desk.handoff(agent, max_tokens).await
    }

    async fn sample(&self) -> Result<Sample, SourceError> {
        let is_limited = |scope: &CallerScope| scope.caller.reach.names().is_some();
        if self.scope.as_ref().is_some_and(is_limited) {
            return Err(SourceError::Refused("this token is for some agents".to_owned()));
        }
        Ok(self.store.sample(self.clock.now(), DAY_MS).await?)
    }
}

fn document(agent: &AgentId, reading: &Lookup) -> Summary {
    let snapshot: &Snapshot = &reading.snapshot;
    Summary {
        agent_id: agent.clone(),
        content: snapshot.markdown.clone(),
        tokens: snapshot.tokens,
        version: snapshot.version,
        updated_at: snapshot.written_at(),
        covers_through: snapshot.covers_through,
        first_exchange: snapshot.first_exchange,
        pending_exchanges: snapshot.pending_exchanges,
        pending_since: snapshot.pending_since,
        stale_since: reading.stale_since,
    }
}

impl From<AgentRow> for AgentLine {
    fn from(row: AgentRow) -> Self {
        Self {
            exchanges: row.ledger.last_exchange,
            pending_exchanges: row.pending_exchanges,
            window_tokens: row.ledger.window_tokens(),
            version: row.version,
            summary_tokens: row.summary_tokens,
            covers_through: row.ledger.summarized_through,
            updated_at: row.updated_at,
            agent_id: row.agent,
            project_id: row.project,
        }
    }
}

impl From<StoreError> for SourceError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownAgent(agent) => Self::UnknownAgent(agent),
            StoreError::NoteChanged { .. } => Self::NoteChanged(error.to_string()),
            StoreError::Note(_) | StoreError::UnknownNote(_) | StoreError::NotesFull => {
                Self::Refused(error.to_string())
            }
            StoreError::Unavailable(_) => {
                tracing::warn!(%error, "mcp.database_unavailable");
                Self::Unavailable("the database doesn't answer; ask again later".to_owned())
            }
            error @ StoreError::Panicked(_) => Self::Unavailable(error.to_string()),
            error => {
                tracing::error!(%error, "mcp.database_failed");
                Self::Unavailable("recapd failed; its log says why".to_owned())
            }
        }
    }
}
