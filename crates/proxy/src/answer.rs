//! Decides whether the proxy answers a host's compaction request itself, from recapd's memory, or forwards it.
//!
//! Only a request that is certainly a compaction is treated as one. The proxy answers it only if recapd holds the conversation.
//! Otherwise it forwards the request, and a model answers it.

mod capsule;
mod claude;
mod codex;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
pub(crate) use capsule::CapsuleKey;
use recapd_config::ProxyMode;
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    copies::path,
    daemon::ProxyDaemon,
    dialect::{Dialect, EndpointKind},
    session::{RequestClass, Session},
};
use recapd_core::domain::{agent::AgentId, continuation::SentExtent};

/// Limits the time in which an answer is made. A model would take half a minute.
const PATIENCE: Duration = Duration::from_secs(2);

/// A host's compaction request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compaction {
    dialect: Dialect,
    /// True if the host has a route of its own for compactions and uses it.
    is_own_route: bool,
    /// A request with only the conversation, without the order to compact it.
    conversation: Bytes,
}

/// The answer to a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompactionAnswer {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// The version of the summary in the answer.
    pub(crate) version: i64,
}

/// The daemon's text for a compaction (`POST /v1/agents/{id}/compact`).
#[derive(Clone, Debug, Deserialize)]
struct CompactReply {
    summary_version: i64,
    text: String,
    tokens: i64,
    /// How many exchanges are neither summarised nor quoted. The text has a line about each.
    unquoted: i64,
}

/// Recognises a compaction request; returns `None` for other requests.
pub(crate) fn compaction(
    dialect: Dialect,
    endpoint: EndpointKind,
    class: RequestClass,
    body: &[u8],
) -> Option<Compaction> {
    let (conversation, is_own_route) = match dialect {
        _ if matches!(endpoint, EndpointKind::Count(_)) => return None,
        Dialect::Anthropic => (claude::conversation(class, body)?, false),
        Dialect::OpenAiResponses if endpoint == EndpointKind::Compaction => {
            (Bytes::copy_from_slice(body), true)
        }
        Dialect::OpenAiResponses => (codex::conversation(body)?, false),
        Dialect::OpenAiChat | Dialect::Gemini => return None,
    };
    Some(Compaction { dialect, is_own_route, conversation })
}

/// True if a request may hold capsules.
pub(crate) fn may_hold_capsules(body: &[u8]) -> bool {
    capsule::may_be_in(body)
}

/// Replaces recapd's capsules in a request with their texts; `None` if there are none.
pub(crate) fn expand_capsules(dialect: Dialect, body: &[u8], key: &CapsuleKey) -> Option<Vec<u8>> {
    (dialect == Dialect::OpenAiResponses).then(|| capsule::expand(body, key)).flatten()
}

/// Answers compactions.
pub(crate) struct Compactor {
    daemon: Arc<dyn ProxyDaemon>,
    mode: ProxyMode,
    key: CapsuleKey,
}

impl Compactor {
    pub(crate) fn new(daemon: Arc<dyn ProxyDaemon>, mode: ProxyMode, key: CapsuleKey) -> Self {
        Self { daemon, mode, key }
    }

    /// Answers a compaction; `None` if the request should be forwarded.
    pub(crate) async fn answer(
        &self,
        session: &Session,
        compaction: &Compaction,
        body: &[u8],
    ) -> Option<CompactionAnswer> {
        let agent = session.agent.as_ref()?;
        if self.mode == ProxyMode::Observe {
            return None;
        }
        let reply = timeout(PATIENCE, self.text(agent, session.client, compaction)).await;
        let text = reply.ok().flatten()?;
        // There is no document, so only lines would replace the exchanges that aren't quoted.
        if text.summary_version == 0 && text.unquoted > 0 {
            return None;
        }
        tracing::info!(agent_id = %agent, version = text.summary_version, tokens = text.tokens, "proxy.compaction_answered");
        match compaction.dialect {
            Dialect::Anthropic => claude::answer(&text, body),
            _ => codex::answer(&text, agent, &self.key, compaction.is_own_route, body),
        }
    }

    /// Stores what is new in the conversation, and asks for the text that replaces the conversation.
    async fn text(&self, agent: &AgentId, client: &str, compaction: &Compaction) -> Option<CompactReply> {
        let path = path(agent, compaction.dialect, client, SentExtent::Whole);
        let stored = self.daemon.post(&path, compaction.conversation.clone()).await.ok()?;
        if !stored.status.is_success() {
            return None;
        }
        let StoreReply { agent_id } = serde_json::from_slice(&stored.body).ok()?;
        let answer = self.daemon.post(&format!("/v1/agents/{agent_id}/compact"), Bytes::new()).await.ok()?;
        let text: CompactReply =
            answer.status.is_success().then(|| serde_json::from_slice(&answer.body).ok())??;
        (!text.text.trim().is_empty()).then_some(text)
    }
}

#[derive(Deserialize)]
struct StoreReply {
    agent_id: AgentId,
}

#[cfg(test)]
mod tests;
