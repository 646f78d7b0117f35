//! Sends notices of changed resources.

use std::{sync::Arc, time::Duration};

use super::{source::SourceError, way::Way};
use crate::access::Caller;
use recapd_core::domain::agent::AgentId;

/// Two notices about one resource are at least this far apart.
const NOTICE_SPACING: Duration = Duration::from_secs(1);
/// The pause after an error.
const REST: Duration = Duration::from_secs(5);

/// Where the summaries of a client's subscriptions are read.
#[derive(Clone, Copy)]
pub(super) struct Watcher<'a> {
    pub(super) way: &'a Way,
    pub(super) caller: Option<&'a Arc<Caller>>,
}

/// Calls `tell` when the summary of `agent` has changed since `known`, and then after each change, at most once in
/// [`NOTICE_SPACING`]. Ends when `tell` returns false.
pub(super) async fn follow<F: Future<Output = bool>>(
    watcher: Watcher<'_>,
    agent: &AgentId,
    mut known_tag: Option<String>,
    tell: impl Fn() -> F,
) {
    loop {
        match changed_tag(watcher, agent, known_tag.as_deref()).await {
            Ok(tag) if tag != known_tag => {
                if !tell().await {
                    return;
                }
                known_tag = tag;
                tokio::time::sleep(NOTICE_SPACING).await;
            }
            // The summary is unchanged. A source that can't wait is queried again after this pause.
            Ok(_) => tokio::time::sleep(NOTICE_SPACING).await,
            Err(error) => {
                tracing::debug!(%error, %agent, "mcp.watch_interrupted");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// Returns the summary's tag. If the source can wait, waits for a tag other than `known`.
async fn changed_tag(
    watcher: Watcher<'_>,
    agent: &AgentId,
    known_tag: Option<&str>,
) -> Result<Option<String>, SourceError> {
    let source = watcher.way.recent_source(watcher.caller).await?;
    source.tag(agent, known_tag).await
}

/// Returns the tag of the summary of `agent`; `None` for an unknown agent.
pub(super) async fn current_tag(
    watcher: Watcher<'_>,
    agent: &AgentId,
) -> Result<Option<String>, SourceError> {
    watcher.way.source(watcher.caller).await?.tag(agent, None).await
}
