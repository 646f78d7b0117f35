//! `GET /ui/queue`, `/ui/runs` and `/ui/runs/{n}`: serves the pages about updates.

use axum::{Extension, extract::State, http::Uri, response::Response};

use super::{
    super::{
        App, SharedApp,
        edge::access::{self, CallerExtension},
        request::{extract::Parameters, page},
        response::problem::Problem,
        routes::{
            queue::rows_of,
            runs::{self, which_agent},
        },
    },
    FramedPage, html_response,
};
use crate::{
    access::Caller,
    dashboard::{
        Filter, QUEUE_STATES, QueueList, RETRIED_MAX, RUN_STATES, RunList, queue_page, run_page, runs_page,
    },
};
use recapd_core::domain::{access::Scope, agent::AgentId, number::i64_or_max};
use recapd_engine::ingest::SearchReport;
use recapd_store::{
    StoreResult,
    operate::{QueueRow, RunQuery},
};

const ROWS_SHOWN: usize = 50;

pub(super) async fn queue(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["q", "cursor", "retried"])?;
    let after = page::plain_cursor(&parameters)?;
    let text = parameters.text("q").unwrap_or_default();
    let filter = Filter::parse(text, &QUEUE_STATES);
    let operator = &app.parts.operator;
    let mut list = QueueList {
        rows: Vec::new(),
        query: filter.as_ref().map_or(text, Filter::text).to_owned(),
        matching: None,
        next: None,
        paused_since: operator.paused_since().await?,
        retried: parameters.integer("retried", 0..=i64::MAX)?,
        filter,
    };
    if let Ok(filter) = &list.filter {
        if frame.viewer.may(Scope::Admin) && frame.viewer.sees_all && !filter.is_empty() {
            list.matching = Some(matching(&app, filter).await?.len());
        }
        let report = rows(&app, &caller, after.as_ref(), filter).await?;
        (list.rows, list.next) = (report.found, report.next);
    }
    Ok(html_response(queue_page(&frame, &list)))
}

/// Reads the queue rows that match `filter` and that `caller` may see.
async fn rows(
    app: &App,
    caller: &Caller,
    after: Option<&AgentId>,
    filter: &Filter,
) -> StoreResult<SearchReport<QueueRow, AgentId>> {
    let operator = &app.parts.operator;
    let limit = i64_or_max(ROWS_SHOWN);
    if let Some(agents) = app.parts.access.visible_agents(caller, after, limit).await? {
        let (mut found, next) = rows_of(operator, agents, limit).await?;
        found.retain(|row| filter.matches_row(row));
        return Ok(SearchReport { found, next });
    }
    if let Some(agent) = filter.agent() {
        let row = operator.row(agent).await?;
        let found = row.into_iter().filter(|row| filter.matches_row(row)).collect();
        return Ok(SearchReport { found, next: None });
    }
    operator.search_queue(after, ROWS_SHOWN, |row| filter.matches_row(row)).await
}

/// Returns the agents whose rows match `filter`, at most [`RETRIED_MAX`].
pub(super) async fn matching(app: &App, filter: &Filter) -> StoreResult<Vec<AgentId>> {
    let matches = |row: &QueueRow| filter.matches_row(row);
    let report = app.parts.operator.search_queue(None, RETRIED_MAX, matches);
    let rows = report.await?.found.into_iter();
    Ok(rows.map(|row| row.agent_id).collect())
}

pub(super) async fn runs(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["q", "cursor"])?;
    let text = parameters.text("q").unwrap_or_default();
    let filter = Filter::parse(text, &RUN_STATES);
    let before = page::plain_cursor(&parameters)?;
    let agent = filter.as_ref().ok().and_then(Filter::agent).cloned();
    match &agent {
        Some(agent) => access::see(&app, &caller, agent).await?,
        None if caller.reach.names().is_some() => return Err(which_agent()),
        None => {}
    }
    let mut list = RunList {
        runs: Vec::new(),
        query: filter.as_ref().map_or(text, Filter::text).to_owned(),
        next: None,
        filter,
    };
    if let Ok(filter) = &list.filter {
        let query = RunQuery { agent, before, limit: i64_or_max(ROWS_SHOWN), ..RunQuery::default() };
        let matches = |run: &_| filter.matches_run(run);
        let report = app.parts.operator.search_runs(query, matches).await?;
        (list.runs, list.next) = (report.found, report.next);
    }
    Ok(html_response(runs_page(&frame, &list)))
}

pub(super) async fn run(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    number: runs::Number,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let run = runs::run_of(&app, &caller, number).await?;
    let calls = app.parts.calls.of(&run.agent_id, run.started_at, run.finished_at);
    Ok(html_response(run_page(&frame, &run, &calls)))
}
