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
    FramedPage, shown,
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
    let after = page::place(&parameters)?;
    let asked = parameters.text("q").unwrap_or_default();
    let filter = Filter::parse(asked, &QUEUE_STATES);
    let operator = &app.parts.operator;
    let mut list = QueueList {
        rows: Vec::new(),
        asked: filter.as_ref().map_or(asked, Filter::text).to_owned(),
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
        let searched = rows(&app, &caller, after.as_ref(), filter).await?;
        (list.rows, list.next) = (searched.found, searched.next);
    }
    Ok(shown(queue_page(&frame, &list)))
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
    operator
        .search_queue(after, ROWS_SHOWN, |row| filter.matches_row(row))
        .await
}

/// Returns the agents whose rows match `filter`, at most [`RETRIED_MAX`].
pub(super) async fn matching(app: &App, filter: &Filter) -> StoreResult<Vec<AgentId>> {
    let matches = |row: &QueueRow| filter.matches_row(row);
    let searched = app.parts.operator.search_queue(None, RETRIED_MAX, matches);
    let rows = searched.await?.found.into_iter();
    Ok(rows.map(|row| row.agent_id).collect())
}

pub(super) async fn runs(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["q", "cursor"])?;
    let asked = parameters.text("q").unwrap_or_default();
    let filter = Filter::parse(asked, &RUN_STATES);
    let before = page::place(&parameters)?;
    let agent = filter.as_ref().ok().and_then(Filter::agent).cloned();
    match &agent {
        Some(agent) => access::see(&app, &caller, agent).await?,
        None if caller.reach.named().is_some() => return Err(which_agent()),
        None => {}
    }
    let mut list = RunList {
        runs: Vec::new(),
        asked: filter.as_ref().map_or(asked, Filter::text).to_owned(),
        next: None,
        filter,
    };
    if let Ok(filter) = &list.filter {
        let query = RunQuery {
            agent,
            before,
            limit: i64_or_max(ROWS_SHOWN),
            ..RunQuery::default()
        };
        let matches = |run: &_| filter.matches_run(run);
        let searched = app.parts.operator.search_runs(query, matches).await?;
        (list.runs, list.next) = (searched.found, searched.next);
    }
    Ok(shown(runs_page(&frame, &list)))
}

pub(super) async fn run(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    number: runs::Number,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let run = runs::run_of(&app, &caller, number).await?;
    let calls = app.parts.calls.of(&run.agent_id, run.started_at, run.finished_at);
    Ok(shown(run_page(&frame, &run, &calls)))
}
