//! `GET /v1/agents/{id}/summary`: the read path. It is answered from memory, and while the database is away from the
//! last copy, which says so.

use std::sync::Arc;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LAST_MODIFIED, RETRY_AFTER, VARY},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    SharedApp,
    extract::{Agent, Parameters},
    negotiate::{is_known, preferred},
    observe,
    problem::{Problem, RETRY_AFTER_SECONDS},
};
use crate::{
    domain::{
        agent::AgentId,
        time::{SECOND_MS, Timestamp},
    },
    snapshot::{Reading, Snapshot},
    store::StoreError,
    telemetry::metrics::labels::ReadResult,
};

pub(super) const MARKDOWN: &str = "text/markdown";
pub(super) const JSON: &str = "application/json";
pub(super) const MARKDOWN_UTF8: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
/// What a reader is to see when there is nothing better.
const PLACEHOLDER: &str = "[Summary temporarily unavailable]";
const VERSION: HeaderName = HeaderName::from_static("recapd-version");
const PENDING: HeaderName = HeaderName::from_static("recapd-pending-exchanges");
const STALE: HeaderName = HeaderName::from_static("recapd-stale");

/// The summary as JSON.
#[derive(Serialize)]
struct Document<'a> {
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
    let form = preferred(&headers, &[MARKDOWN, JSON]);
    let (result, answer) = match app.parts.snapshots.get(&agent).await {
        Ok(None) => return Err(Problem::unknown_agent(&agent)),
        Ok(Some(reading)) => answer(&agent, &reading, form, &headers, app.parts.clock.now()),
        Err(error) => (ReadResult::Unavailable, unavailable(error, form)),
    };
    observe::observe_read(&app.parts.metrics, result, began.elapsed());
    Ok(answer)
}

fn answer(
    agent: &AgentId,
    reading: &Reading,
    form: &'static str,
    headers: &HeaderMap,
    now: Timestamp,
) -> (ReadResult, Response) {
    let about = about(reading, form, now);
    let etag = about.get(ETAG).and_then(|value| value.to_str().ok());
    let is_known = is_known(headers, etag.unwrap_or_default());
    let result = match reading {
        Reading {
            stale_since: Some(_), ..
        } => ReadResult::Stale,
        _ if is_known => ReadResult::NotModified,
        Reading { snapshot, .. } if snapshot.markdown.is_empty() => ReadResult::Empty,
        _ => ReadResult::Hit,
    };
    let response = if is_known {
        (StatusCode::NOT_MODIFIED, about).into_response()
    } else if form == JSON {
        (about, Json(document(agent, reading))).into_response()
    } else {
        let bytes = Bytes::from_owner(Markdown(Arc::clone(&reading.snapshot)));
        (about, [(CONTENT_TYPE, MARKDOWN_UTF8)], Body::from(bytes)).into_response()
    };
    (result, response)
}

/// The headers about a summary, the same with and without its text.
fn about(reading: &Reading, form: &str, now: Timestamp) -> HeaderMap {
    let snapshot = &reading.snapshot;
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(VERSION, snapshot.version.into());
    headers.insert(PENDING, snapshot.pending_exchanges.into());
    // As JSON it also tells its age, which changes while the document doesn't.
    let weak = if form == JSON { "W/" } else { "" };
    let mut insert = |name, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    insert(ETAG, format!("{weak}{}", snapshot.etag));
    if snapshot.version > 0 {
        insert(
            LAST_MODIFIED,
            snapshot.updated_at.format("%a, %d %b %Y %H:%M:%S GMT"),
        );
    }
    if let Some(since) = reading.stale_since {
        insert(STALE, format!("{}s", now.since_ms(since).max(0) / SECOND_MS));
    }
    headers
}

fn document<'a>(agent: &'a AgentId, reading: &'a Reading) -> Document<'a> {
    let snapshot = &reading.snapshot;
    Document {
        agent_id: agent,
        content: &snapshot.markdown,
        tokens: snapshot.tokens,
        version: snapshot.version,
        updated_at: (snapshot.version > 0).then_some(snapshot.updated_at),
        covers_through: snapshot.covers_through,
        first_exchange: snapshot.first_exchange,
        pending_exchanges: snapshot.pending_exchanges,
        pending_since: snapshot.pending_since,
        stale_since: reading.stale_since,
    }
}

/// The answer without a database and without a copy: a text that can be shown to a model as it is, or a problem.
pub(super) fn unavailable(error: StoreError, form: &str) -> Response {
    let problem = Problem::from(error);
    if form == JSON || !problem.may_pass() {
        return problem.into_response();
    }
    let headers = [
        (CONTENT_TYPE, MARKDOWN_UTF8),
        (RETRY_AFTER, RETRY_AFTER_SECONDS.into()),
    ];
    (StatusCode::SERVICE_UNAVAILABLE, headers, PLACEHOLDER).into_response()
}
