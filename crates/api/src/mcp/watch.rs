//! Sends notices of changes.

use std::{sync::Arc, time::Duration};

use super::{source::SourceError, way::Way};
use crate::access::Caller;
use recapd_core::domain::agent::AgentId;

/// The least time between two notices of one resource.
const NOTICE_SPACING: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(5);

/// Where a client's subscriptions are looked up.
#[derive(Clone, Copy)]
pub(super) struct Watcher<'a> {
    pub(super) way: &'a Way,
    pub(super) caller: Option<&'a Arc<Caller>>,
}

/// Calls `tell` whenever the summary of `agent` changed since `known`, at most once in [`NOTICE_SPACING`], until it returns false.
pub(super) async fn follow<F: Future<Output = bool>>(
    watcher: Watcher<'_>,
    agent: &AgentId,
    mut known: Option<String>,
    tell: impl Fn() -> F,
) {
    loop {
        match look_again(watcher, agent, known.as_deref()).await {
            Ok(tag) if tag != known => {
                if !tell().await {
                    return;
                }
                known = tag;
                tokio::time::sleep(NOTICE_SPACING).await;
            }
            // A source that can't wait is asked again after the same time.
            Ok(_) => tokio::time::sleep(NOTICE_SPACING).await,
            Err(error) => {
                tracing::debug!(%error, %agent, "mcp.watch_interrupted");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn look_again(
    watcher: Watcher<'_>,
    agent: &AgentId,
    known: Option<&str>,
) -> Result<Option<String>, SourceError> {
    let source = watcher.way.recent_source(watcher.caller).await?;
    source.tag(agent, known).await
}

pub(super) async fn look(watcher: Watcher<'_>, agent: &AgentId) -> Result<Option<String>, SourceError> {
    watcher.way.source(watcher.caller).await?.tag(agent, None).await
}
