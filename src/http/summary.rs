//! `GET /v1/agents/{id}/summary`: the read path. It is answered from memory, and while the database is away from the
//! last copy, which says so.

use std::{sync::Arc, time::Duration};

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
    excerpt::{self, Excerpt, Wanted},
    extract::{Agent, Parameters},
    negotiate::is_known,
    observe,
    openapi::{answers, parameters::AgentPath, values::View},
    problem::Problem,
};
use crate::{
    domain::{agent::AgentId, time::Timestamp},
    snapshot::{Reading, Snapshot},
};

/// The longest wait that can be asked for, in seconds.
const WAIT_SECONDS_MAX: u64 = 60;
/// The part of a request's time that it may wait.
const WAIT_SHARE: f64 = 0.9;
const VERSION: HeaderName = HeaderName::from_static("recapd-version");
const PENDING: HeaderName = HeaderName::from_static("recapd-pending-exchanges");

/// The summary as JSON.
#[derive(Serialize, utoipa::ToSchema)]
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
#[utoipa::path(
    get, path = "/v1/agents/{id}/summary", operation_id = "get_summary", tag = "summary",
    params(AgentPath,
        ("view" = Option<View>, Query, description = "`brief`: the newest lines first, at most 9,000 characters and 2,300 tokens, ending in a line that says where the whole is."),
        ("max_tokens" = Option<i64>, Query, minimum = 1, maximum = 1_000_000, description = "Only the newest lines, of at most so many tokens."),
        ("max_chars" = Option<i64>, Query, minimum = 1, maximum = 10_000_000, description = "Only the newest lines, of at most so many characters."),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,2}s?$", description = "With `If-None-Match`: answer when the summary changes, at the latest after so many seconds, at most 60.", example = "30s"),
        ("if-none-match" = Option<String>, Header, description = "The `etag` of what is known already.")),
    responses((status = 200, description = "The document. Without a summary yet it is empty and has version 0.", content((Summary<'static> = "application/json"), (String = "text/markdown")), headers(("etag" = String, description = "Changes whenever the document does."), ("recapd-version" = i64, description = "The summary's version."), ("recapd-pending-exchanges" = i64, description = "Exchanges that wait to be summarised."), ("recapd-stale" = String, description = "While the database is away: the age of this copy, such as `41s`."))),
        (status = 304, description = "It is known already."),
        (status = 503, description = "There is no copy and no database. As Markdown, the text is one that can be shown to a model.", content((super::problem::Wire<'static> = "application/problem+json"), (String = "text/markdown"))),
        answers::Faults,
        answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let parameters = Parameters::read(
        &uri,
        &["wait", excerpt::VIEW, excerpt::MAX_TOKENS, excerpt::MAX_CHARS],
    )?;
    let wanted = Wanted::read(&parameters)?;
    let wait = parameters
        .seconds("wait", WAIT_SECONDS_MAX)?
        .map(Duration::from_secs);
    // The answer must be on its way before the request's time is up.
    let wait = wait.map(|wait| wait.min(app.settings.request_timeout().mul_f64(WAIT_SHARE)));
    let form = Form::wanted(&headers);
    let (snapshots, is_known) = (&app.parts.snapshots, |etag: &str| is_known(&headers, etag));
    let read = match wait {
        None => snapshots.get(&agent).await,
        Some(wait) => {
            let (deadline, stop) = (began + wait, &app.parts.stop);
            snapshots.get_changed(&agent, is_known, deadline, stop).await
        }
    };
    let took = wait.is_none().then(|| began.elapsed());
    let (result, answer) = match read {
        Ok(None) => return Err(Problem::unknown_agent(&agent)),
        Ok(Some(reading)) => {
            let excerpt = match wanted {
                None => None,
                Some(wanted) => Some(wanted.of(&app, &agent, Arc::clone(&reading.snapshot)).await?),
            };
            let document = document(&agent, &reading, excerpt.as_ref());
            document.answer(form, &headers, app.parts.clock.now())
        }
        Err(error) => unavailable(error, form),
    };
    observe::observe_read(&app.parts.metrics, result, took);
    Ok(answer)
}

fn document<'a>(
    agent: &'a AgentId,
    reading: &'a Reading,
    excerpt: Option<&'a Excerpt>,
) -> Document<Summary<'a>> {
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
        bytes: excerpt.map_or_else(
            || Bytes::from_owner(Markdown(Arc::clone(snapshot))),
            |excerpt| Bytes::copy_from_slice(excerpt.text.as_bytes()),
        ),
        json: Summary {
            agent_id: agent,
            content: excerpt.map_or(&snapshot.markdown, |excerpt| &excerpt.text),
            tokens: excerpt.map_or(snapshot.tokens, |excerpt| excerpt.tokens),
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
