//! `GET /ui/`: serves the overview.

use std::time::Duration;

use axum::{
    Extension,
    extract::State,
    http::Uri,
    response::{IntoResponse as _, Redirect, Response},
};

use super::{
    super::{
        App, SharedApp, edge::access::CallerExtension, request::extract::Parameters,
        response::problem::Problem,
    },
    FramedPage, html_response,
};
use crate::dashboard::{Overview, Stale, overview_page};
use recapd_core::domain::time::DAY_MS;
use recapd_store::StoreResult;

/// The database must answer within this time.
const ANSWER_MS_MAX: u64 = 2_000;
const STALE_SHOWN: i64 = 5;

/// Shows the overview. A caller who may see only some agents is redirected to their list.
pub(super) async fn show(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    if caller.reach.names().is_some() {
        return Ok(Redirect::to("/ui/agents").into_response());
    }
    let overview = app.overview.take(|| read_in_time(&app)).await;
    Ok(html_response(overview_page(&frame, &overview)))
}

async fn read_in_time(app: &App) -> Overview {
    let read = tokio::time::timeout(Duration::from_millis(ANSWER_MS_MAX), read(app)).await;
    match read {
        Ok(Ok(overview)) => overview,
        Ok(Err(error)) => without(app, error.to_string()),
        Err(_) => without(app, format!("no answer within {ANSWER_MS_MAX} ms")),
    }
}

async fn read(app: &App) -> StoreResult<Overview> {
    let operator = &app.parts.operator;
    let now = app.parts.clock.now();
    // A ping also fails if the database accepts no writes. The reads below may still work then.
    let database = app.parts.store.ping().await.err();
    let stale = operator.stalest(STALE_SHOWN).await?;
    let stale = stale.into_iter().map(|(agent, since, exchanges)| Stale { agent, since, exchanges });
    Ok(Overview {
        sample: Some(app.parts.store.sample(now, DAY_MS).await?),
        hours: operator.run_hours(DAY_MS).await?,
        stale: stale.collect(),
        paused_since: operator.paused_since().await?,
        ..without(app, String::new())
    })
    .map(|overview| Overview { database: database.map(|error| error.to_string()), ..overview })
}

/// Returns the overview if the database failed with the error `database`.
fn without(app: &App, database: String) -> Overview {
    Overview {
        sample: None,
        hours: Vec::new(),
        depths: app.parts.metrics.queue.depths(),
        stale: Vec::new(),
        circuits: app.parts.metrics.provider.circuits(),
        paused_since: None,
        database: Some(database),
        batch_wait_ms: app.parts.metrics.batches.wait_limit_ms(),
        summary_tokens_max: app.settings.summary_tokens_max,
        spend: app.parts.metrics.provider.limits(),
    }
}
