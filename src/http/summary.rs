//! `GET /v1/agents/{id}/summary`: the read path. It is answered from memory, and while the database is away from the
//! last copy, which says so.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, Uri, header::LAST_MODIFIED},
    response::Response,
};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    SharedApp,
    document::{Document, Form, insert, unavailable},
    extract::{Agent, Parameters},
    observe,
    problem::Problem,
};
use crate::{
    domain::{agent::AgentId, time::Timestamp},
    snapshot::{Reading, Snapshot},
};

const VERSION: HeaderName = HeaderName::from_static("recapd-version");
const PENDING: HeaderName = HeaderName::from_static("recapd-pending-exchanges");

/// The summary as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    agent_id: &'a AgentId,
    content: &'a str,
    tokens: i64,
    version: i64,
    updated_at: Option<Timestamp>,
    covers_through: i64,
    first_exchange: i64,
    pending_exchanges: i64,
    pending_since: Option<Timestamp>,
    stale_since: Option<Timestamp>,
}

/// The bytes of a snapshot's document, shared with the snapshot.
struct Markdown(Arc<Snapshot>);

impl AsRef<[u8]> for Markdown {
    fn as_ref(&self) -> &[u8] {
        self.0.markdown.as_bytes()
    }
}

/// Reads a summary.
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let began = Instant::now();
    Parameters::read(&uri, &[])?;
    let form = Form::wanted(&headers);
    let (result, answer) = match app.parts.snapshots.get(&agent).await {
        Ok(None) => return Err(Problem::unknown_agent(&agent)),
        Ok(Some(reading)) => document(&agent, &reading).answer(form, &headers, app.parts.clock.now()),
        Err(error) => unavailable(error, form),
    };
    observe::observe_read(&app.parts.metrics, result, began.elapsed());
    Ok(answer)
}

fn document<'a>(agent: &'a AgentId, reading: &'a Reading) -> Document<Summary<'a>> {
    let snapshot = &reading.snapshot;
    let mut headers = HeaderMap::new();
    headers.insert(VERSION, snapshot.version.into());
    headers.insert(PENDING, snapshot.pending_exchanges.into());
    let updated_at = (snapshot.version > 0).then_some(snapshot.updated_at);
    if let Some(updated_at) = updated_at {
        let http_date = updated_at.format("%a, %d %b %Y %H:%M:%S GMT");
        insert(&mut headers, LAST_MODIFIED, http_date);
    }
    Document {
        etag: snapshot.etag.clone(),
        bytes: Bytes::from_owner(Markdown(Arc::clone(snapshot))),
        json: Summary {
            agent_id: agent,
            content: &snapshot.markdown,
            tokens: snapshot.tokens,
            version: snapshot.version,
            updated_at,
            covers_through: snapshot.covers_through,
            first_exchange: snapshot.first_exchange,
            pending_exchanges: snapshot.pending_exchanges,
            pending_since: snapshot.pending_since,
            stale_since: reading.stale_since,
        },
        stale_since: reading.stale_since,
        headers,
    }
}
