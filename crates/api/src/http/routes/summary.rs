//! `GET /v1/agents/{id}/summary`: reads a summary from memory. While the database is unavailable, returns the last copy and marks
//! it as stale.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Uri, header::LAST_MODIFIED},
    response::Response,
};
use tokio::time::Instant;

use crate::{
    access::quota::Lack,
    http::{
        App, SharedApp,
        edge::{access, observe},
        openapi::{answers, parameters::AgentPath, values::View},
        request::extract::{Agent, Parameters},
        response::{
            document::{Document, Form, insert, unavailable},
            excerpt,
            negotiate::is_known,
            prepared::PreparedResponses,
            problem::{Problem, TOO_MANY_REQUESTS},
        },
    },
};
use recapd_core::domain::{
    agent::AgentId,
    summary::brief::{BriefOptions, Excerpt},
};
use recapd_engine::snapshot::{Lookup, Snapshot, SummaryReply};
use recapd_telemetry::metrics::labels::ReadResult;

const WAIT_SECONDS_MAX: u64 = 60;
/// A request waits at most this share of the request's timeout.
const WAIT_SHARE: f64 = 0.9;
pub(crate) const PATH: &str = "/v1/agents/{id}/summary";
/// If too many clients wait for changes, a client should retry after this many seconds.
const WAITS_RETRY_SECONDS: u32 = 5;
const VERSION: HeaderName = HeaderName::from_static("recapd-version");
const HINT: HeaderName = HeaderName::from_static("recapd-hint");
const NO_ROOM: &str = "no line of the summary fits: allow more tokens or characters";
const PENDING: HeaderName = HeaderName::from_static("recapd-pending-exchanges");

/// Reads a summary.
#[utoipa::path(
    get, path = "/v1/agents/{id}/summary", operation_id = "get_summary", tag = "summary",
    params(AgentPath,
        ("view" = Option<View>, Query, description = "`brief`: the open exchange, if there is one, and the newest lines; at most 9,000 characters and 2,300 tokens. The last line says where the whole document is."),
        ("max_tokens" = Option<i64>, Query, minimum = 1, maximum = 1_000_000, description = "Returns only the newest lines, at most this many tokens."),
        ("max_chars" = Option<i64>, Query, minimum = 1, maximum = 10_000_000, description = "Returns only the newest lines, at most this many characters."),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,2}s?$", description = "With `If-None-Match`: waits up to this many seconds (at most 60) for the summary to change.", example = "30s"),
        ("if-none-match" = Option<String>, Header, description = "The `etag` of the copy that the client has."),
        ("accept-encoding" = Option<String>, Header, description = "`gzip`: returns the compressed document if it exists already. The two forms have different `etag`s, but `If-None-Match` accepts either.")),
    responses((status = 200, description = "The document. Before the first summary, it is empty and has version 0.", content((SummaryReply<'static> = "application/json"), (String = "text/markdown")), headers(("etag" = String, description = "Changes whenever the document changes. What a brief says about the open exchange doesn't change it."), ("recapd-version" = i64, description = "The summary's version."), ("recapd-pending-exchanges" = i64, description = "Exchanges that wait to be summarised."), ("recapd-hint" = String, description = "Why the document is empty, and what to do."), ("recapd-stale" = String, description = "While the database is unavailable or slow: the age of this copy, such as `41s`."))),
        (status = 304, description = "The client's copy is current."),
        (status = 503, description = "There is no copy, and the database doesn't answer within two seconds. The Markdown text is safe to show to a model.", content((crate::http::response::problem::Wire<'static> = "application/problem+json"), (String = "text/markdown"))),
        answers::OfAgentInOutage),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let headers = request.headers();
    let SummaryQuery { options, wait } = SummaryQuery::read(&app, request.uri())?;
    let form = Form::preferred_by(headers);
    let (snapshots, is_known) = (&app.parts.snapshots, |etag: &str| is_known(headers, etag));
    let read = match wait {
        None => snapshots.get(&agent).await,
        Some(wait) => {
            let slot = app.waits.take(&access::holder(request.extensions()), 1);
            let _slot = slot.map_err(too_many_waits)?;
            let (deadline, stop) = (began + wait, &app.parts.stop);
            snapshots.get_changed(&agent, is_known, deadline, stop).await
        }
    };
    let took = wait.is_none().then(|| began.elapsed());
    let (result, answer) = match (read, options) {
        (Ok(None), _) => return Err(Problem::unknown_agent(&agent)),
        (Ok(Some(reading)), None) if reading.snapshot.markdown.is_empty() => {
            let nothing = Excerpt::default();
            empty(&app, &agent, &reading, &nothing).await.answer(form, headers, app.parts.clock.now())
        }
        (Ok(Some(reading)), None) => whole_document(&app, &agent, &reading, (form, headers)),
        (Ok(Some(reading)), Some(options)) => {
            let excerpt = excerpt::cut(options, &app, &agent, &reading).await?;
            let document = if excerpt.text.is_empty() {
                empty(&app, &agent, &reading, &excerpt).await
            } else {
                document(&agent, &reading, &excerpt)
            };
            document.answer(form, headers, app.parts.clock.now())
        }
        (Err(error), _) => unavailable(error, form),
    };
    observe::observe_read(&app.parts.metrics, result, took);
    Ok(answer)
}

fn too_many_waits(lack: Lack) -> Problem {
    let detail = match lack {
        Lack::All => "as many clients wait for changes as there can be connections",
        Lack::Share => "this token, or this address, already waits for as many changes as it may",
    };
    Problem::new(TOO_MANY_REQUESTS, detail)
        .hint(
            "wait for fewer agents at once, or use GET /v1/events; the limit is half of http.connections_max",
        )
        .retry_after(WAITS_RETRY_SECONDS)
}

/// Answers a request for the whole document with a `reading` from memory.
pub(crate) fn answer_cached(app: &App, agent: &AgentId, reading: &Lookup, headers: &HeaderMap) -> Response {
    let began = Instant::now();
    let (result, answer) = whole_document(app, agent, reading, (Form::preferred_by(headers), headers));
    observe::observe_read(&app.parts.metrics, result, Some(began.elapsed()));
    answer
}

#[derive(Default)]
struct SummaryQuery {
    options: Option<BriefOptions>,
    wait: Option<Duration>,
}

impl SummaryQuery {
    fn read(app: &SharedApp, uri: &Uri) -> Result<Self, Problem> {
        if uri.query().is_none() {
            return Ok(Self::default());
        }
        let names = ["wait", excerpt::VIEW, excerpt::MAX_TOKENS, excerpt::MAX_CHARS];
        let parameters = Parameters::read(uri, &names)?;
        let wait = parameters.seconds("wait", WAIT_SECONDS_MAX)?.map(Duration::from_secs);
        // The response must be sent before the request times out.
        let wait_max = app.settings.request_timeout().mul_f64(WAIT_SHARE);
        Ok(Self { options: excerpt::read_options(&parameters)?, wait: wait.map(|wait| wait.min(wait_max)) })
    }
}

/// Returns the response with the whole document. Uses the prepared responses.
fn whole_document(
    app: &App,
    agent: &AgentId,
    reading: &Lookup,
    request_form: (Form, &HeaderMap),
) -> (ReadResult, Response) {
    let (snapshots, snapshot) = (&app.parts.snapshots, &reading.snapshot);
    let make_headers = || document_headers(snapshot);
    let unstored;
    let prepared = if let Some(stored) = PreparedResponses::of_snapshot(snapshot, make_headers) {
        stored
    } else {
        // The snapshot has no room for the responses, so they are prepared for this answer alone.
        unstored = PreparedResponses::new(&snapshot.etag, make_headers());
        &unstored
    };
    prepared.answer(reading, snapshots, request_form, app.parts.clock.now(), || {
        let make = || json(agent, reading);
        match reading.stale_since {
            None => prepared.json(snapshots, snapshot, make),
            // The JSON holds the document's age, so it isn't kept.
            Some(_) => make().into(),
        }
    })
}

fn json(agent: &AgentId, reading: &Lookup) -> Vec<u8> {
    let snapshot = &reading.snapshot;
    let reply = SummaryReply::of(agent, snapshot, reading.stale_since, None);
    serde_json::to_vec(&reply).expect("texts and numbers can be written as JSON")
}

fn document<'a>(agent: &'a AgentId, reading: &'a Lookup, excerpt: &'a Excerpt) -> Document<SummaryReply<'a>> {
    Document {
        etag: reading.snapshot.etag.clone(),
        bytes: Bytes::copy_from_slice(excerpt.text.as_bytes()),
        json: SummaryReply::of(agent, &reading.snapshot, reading.stale_since, Some(excerpt)),
        stale_since: reading.stale_since,
        headers: document_headers(&reading.snapshot),
    }
}

/// Returns a document without text. If the database knows, adds a hint that says why there is no text.
async fn empty<'a>(
    app: &App,
    agent: &'a AgentId,
    reading: &'a Lookup,
    excerpt: &'a Excerpt,
) -> Document<SummaryReply<'a>> {
    let mut document = document(agent, reading, excerpt);
    let hint = if reading.snapshot.markdown.is_empty() {
        let row = excerpt::read_optional(app.parts.store.agent(agent)).await.flatten();
        row.map(|row| row.fill().hint())
    } else {
        Some(NO_ROOM.to_owned())
    };
    if let Some(hint) = &hint {
        insert(&mut document.headers, HINT, hint.clone());
    }
    document.json.hint = hint;
    document
}

fn document_headers(snapshot: &Snapshot) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(VERSION, snapshot.version.into());
    headers.insert(PENDING, snapshot.pending_exchanges.into());
    if let Some(written_at) = snapshot.written_at() {
        let http_date = written_at.format("%a, %d %b %Y %H:%M:%S GMT");
        insert(&mut headers, LAST_MODIFIED, http_date);
    }
    headers
}
