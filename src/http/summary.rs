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
    extract::{Agent, Parameters},
    negotiate::is_known,
    observe,
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

/// Reads a summary.
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let headers = request.headers();
    let wait = match request.uri().query() {
        None => None,
        Some(_) => wait(&app, &Parameters::read(request.uri(), &["wait"])?)?,
    };
    let form = Form::wanted(headers);
    let (snapshots, is_known) = (&app.parts.snapshots, |etag: &str| is_known(headers, etag));
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
        Ok(Some(reading)) => whole(&app, &agent, &reading, (form, headers)),
        Err(error) => unavailable(error, form),
    };
    observe::observe_read(&app.parts.metrics, result, took);
    Ok(answer)
}

/// How long the request may wait: it must be on its way before its time is up.
fn wait(app: &SharedApp, parameters: &Parameters) -> Result<Option<Duration>, Problem> {
    let wait = parameters
        .seconds("wait", WAIT_SECONDS_MAX)?
        .map(Duration::from_secs);
    Ok(wait.map(|wait| wait.min(app.settings.request_timeout().mul_f64(WAIT_SHARE))))
}

/// The whole document, by what is prepared.
fn whole(
    app: &SharedApp,
    agent: &AgentId,
    reading: &Reading,
    (form, asked): (Form, &HeaderMap),
) -> (ReadResult, Response) {
    let (snapshots, now) = (&app.parts.snapshots, app.parts.clock.now());
    let snapshot = &reading.snapshot;
    let prepare = || Prepared::new(&snapshot.etag, own_headers(snapshot));
    let Some(prepared) = snapshot.kept.get_or_make(prepare) else {
        return document(agent, reading).answer(form, asked, now);
    };
    prepared.answer(reading, snapshots, (form, asked), now, || {
        let make = || json(agent, reading);
        match reading.stale_since {
            None => prepared.json(snapshots, snapshot, make),
            // It says since when.
            Some(_) => make().into(),
        }
    })
}

fn json(agent: &AgentId, reading: &Reading) -> Vec<u8> {
    serde_json::to_vec(&summary(agent, reading)).expect("texts and numbers can be written as JSON")
}

fn own_headers(snapshot: &Snapshot) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(VERSION, snapshot.version.into());
    headers.insert(PENDING, snapshot.pending_exchanges.into());
    if snapshot.version > 0 {
        let http_date = snapshot.updated_at.format("%a, %d %b %Y %H:%M:%S GMT");
        insert(&mut headers, LAST_MODIFIED, http_date);
    }
    headers
}

fn summary<'a>(agent: &'a AgentId, reading: &'a Reading) -> Summary<'a> {
    let snapshot = &reading.snapshot;
    Summary {
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
