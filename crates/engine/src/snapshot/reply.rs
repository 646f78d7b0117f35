//! A summary as JSON. HTTP and the command line share it.

use serde::Serialize;

use super::Snapshot;
use recapd_core::domain::{
    agent::AgentId,
    summary::brief::{DocumentSection, Excerpt, sections},
    time::Timestamp,
};

/// The summary of an agent.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Summary)]
pub struct SummaryReply<'a> {
    agent_id: &'a AgentId,
    content: &'a str,
    /// The content divided by its headings.
    sections: Vec<DocumentSection<'a>>,
    tokens: i64,
    /// True if lines were left out because the request asked for less.
    truncated: bool,
    version: i64,
    updated_at: Option<Timestamp>,
    covers_through: i64,
    first_exchange: i64,
    pending_exchanges: i64,
    pending_since: Option<Timestamp>,
    stale_since: Option<Timestamp>,
    /// Why the content is empty, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl<'a> SummaryReply<'a> {
    /// Builds the reply from the whole summary, or from `excerpt` if the request asked for a part.
    pub fn of(
        agent: &'a AgentId,
        snapshot: &'a Snapshot,
        stale_since: Option<Timestamp>,
        excerpt: Option<&'a Excerpt>,
    ) -> Self {
        let (content, tokens, truncated) = match excerpt {
            Some(excerpt) => (excerpt.text.as_str(), excerpt.tokens, excerpt.truncated),
            None => (snapshot.markdown.as_str(), snapshot.tokens, false),
        };
        Self {
            agent_id: agent,
            content,
            sections: sections(content),
            tokens,
            truncated,
            version: snapshot.version,
            updated_at: snapshot.written_at(),
            covers_through: snapshot.covers_through,
            first_exchange: snapshot.first_exchange,
            pending_exchanges: snapshot.pending_exchanges,
            pending_since: snapshot.pending_since,
            stale_since,
            hint: None,
        }
    }
}
