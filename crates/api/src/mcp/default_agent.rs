//! Decides which agent a call means if it names none.

use std::sync::Arc;

use serde_json::Value;

use super::source::{AgentLine, Source, SourceError};
use recapd_core::{domain::agent::AgentId, hash::session_agent};

/// Hosts whose sessions have agents of their own.
const HOSTS: [&str; 2] = ["claude-code", "codex"];
/// The size of a page of agents.
const PAGE: i64 = 200;
/// Limits how many pages of agents are read.
const PAGES_MAX: usize = 50;
/// Limits how many agents an error names.
const NAMED_MAX: usize = 5;
/// The metadata field in which Codex names the session of a call.
const CODEX_METADATA: &str = "x-codex-turn-metadata";

/// Finds the id of the session that the host is in now. The id is the host's own.
pub type SessionLookup = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What is known about the caller's agent. The first field that names an agent decides.
#[derive(Clone, Default)]
pub struct AgentHints {
    /// The agent that the user named for all calls.
    pub agent: Option<AgentId>,
    /// The session's id, as its host names it.
    pub session: Option<String>,
    /// Finds the session's id for hosts whose calls don't name it.
    pub lookup: Option<SessionLookup>,
    /// The project of the session's folder.
    pub project: Option<String>,
    /// True if the caller may see only some agents. Then the one that was written to last is meant.
    pub sees_only_some: bool,
}

impl AgentHints {
    /// Adds the session that a call's metadata name; otherwise the session that the host is in.
    pub(super) fn with_call(mut self, metadata: &serde_json::Map<String, Value>) -> Self {
        let looked_up = || self.lookup.as_ref().and_then(|lookup| lookup());
        self.session = session_of(metadata).or_else(looked_up);
        self
    }

    /// Decides which agent is meant.
    ///
    /// # Errors
    /// The errors of `source`. [`SourceError::Refused`] if the agent can't be decided; the error names some agents.
    pub(super) async fn resolve(&self, source: &dyn Source) -> Result<AgentId, SourceError> {
        if let Some(agent) = &self.agent {
            return Ok(agent.clone());
        }
        if let Some(agent) = self.session_agent(source).await? {
            return Ok(agent);
        }
        if let Some(project) = &self.project
            && let Some(agent) = newest_in(source, project).await?
        {
            return Ok(agent);
        }
        let page = source.agents(None, PAGE).await?;
        let has_more = page.next_cursor.is_some();
        let mut agents = page.agents;
        agents.sort_by_key(|line| std::cmp::Reverse(line.updated_at));
        let in_session = agents.iter().find(|line| self.is_in_session(line));
        let sole = agents.first().filter(|_| self.sees_only_some || (agents.len() == 1 && !has_more));
        match in_session.or(sole) {
            Some(line) => Ok(line.agent_id.clone()),
            None => Err(undecided_error(&agents)),
        }
    }

    /// Returns the session's agent, by the id that hooks and the proxy give it.
    async fn session_agent(&self, source: &dyn Source) -> Result<Option<AgentId>, SourceError> {
        let Some(session) = &self.session else {
            return Ok(None);
        };
        for host in HOSTS {
            let agent = session_agent(host, session);
            match source.summary(&agent).await {
                Ok(_) => return Ok(Some(agent)),
                Err(SourceError::UnknownAgent(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn is_in_session(&self, line: &AgentLine) -> bool {
        let last = line.agent_id.as_str().rsplit_once(':').map(|(_, last)| last);
        let session = self.session.as_deref().map(AgentId::slug);
        session.is_some_and(|session| last == Some(session.as_str()))
    }
}

/// Returns the agent of a project that last received a message.
async fn newest_in(source: &dyn Source, project: &str) -> Result<Option<AgentId>, SourceError> {
    let mut newest: Option<AgentLine> = None;
    let mut after: Option<AgentId> = None;
    for _ in 0..PAGES_MAX {
        let page = source.agents(after.as_ref(), PAGE).await?;
        let members = page.agents.into_iter().filter(|line| line.project_id.as_deref() == Some(project));
        newest = members.chain(newest).max_by_key(|line| line.updated_at);
        after = page.next_cursor;
        if after.is_none() {
            break;
        }
    }
    Ok(newest.map(|line| line.agent_id))
}

fn undecided_error(agents: &[AgentLine]) -> SourceError {
    let ids: Vec<&str> = agents.iter().take(NAMED_MAX).map(|line| line.agent_id.as_str()).collect();
    SourceError::Refused(match ids.as_slice() {
        [] => "there are no agents yet: one is made by its first message".to_owned(),
        ids => format!(
            "`agent` is missing, and it can't be told which is meant: give one, such as {}; status lists them",
            ids.join(", ")
        ),
    })
}

/// Returns the session that Codex names in a call's metadata: an object, or its JSON as text.
fn session_of(metadata: &serde_json::Map<String, Value>) -> Option<String> {
    let turn = match metadata.get(CODEX_METADATA)? {
        Value::String(text) => serde_json::from_str(text).ok()?,
        turn => turn.clone(),
    };
    Some(turn.get("session_id")?.as_str()?.to_owned())
}
