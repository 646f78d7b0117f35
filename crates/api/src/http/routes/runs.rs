//! `GET /v1/runs`, `GET /v1/runs/{n}`, `GET /v1/stats`: shows the results of updates.

use axum::{
    Extension, Json,
    extract::{FromRequestParts, Path, State},
    http::{Uri, request::Parts},
};
use serde::Serialize;

use crate::{
    access::Caller,
    http::{
        App, SharedApp,
        edge::access::{self, CallerExtension},
        openapi::{answers, parameters::Paging},
        request::{
            extract::{Parameters, agent_id, invalid},
            page,
        },
        response::problem::{INVALID_PARAMETER, Problem, UNKNOWN_RUN},
    },
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    time::{DAY_MS, HOUR_MS, Timestamp},
};
use recapd_store::{
    Sample,
    operate::{Run, RunFigures, RunOutcome, RunQuery},
};

/// The default span of the figures: a day.
const WINDOW_HOURS: i64 = DAY_MS / HOUR_MS;
/// The longest span of the figures: a year.
const WINDOW_HOURS_MAX: i64 = 366 * WINDOW_HOURS;

/// A page of runs, newest first.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RunPage)]
pub(super) struct RunsPage {
    runs: Vec<Run>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// The figures of a span of time, and of the present.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Stats {
    window_hours: i64,
    /// Updates that ended in the span of time.
    updates: RunFigures,
    /// Queue rows that are due.
    ready: i64,
    /// Queue rows that aren't due yet.
    scheduled: i64,
    /// Queue rows that workers hold.
    running: i64,
    parked: i64,
    agents: i64,
    /// True if `agents`, `documents` and `documents_tokens` are estimates. They are once there are thousands.
    stock_is_estimated: bool,
    documents: i64,
    documents_tokens: i64,
}

/// Lists attempts to update summaries.
#[utoipa::path(
    get, path = "/v1/runs", operation_id = "list_runs", tag = "updates",
    params(Paging,
        ("agent" = Option<AgentId>, Query, description = "Only runs of this agent."),
        ("outcome" = Option<RunOutcome>, Query, description = "Only runs with this outcome."),
        ("since" = Option<Timestamp>, Query, description = "Only runs that ended at or after this time."),
        ("until" = Option<Timestamp>, Query, description = "Only runs that ended before this time.")),
    responses((status = 200, description = "The stored runs, newest first.", body = RunsPage), answers::Always),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
) -> Result<Json<RunsPage>, Problem> {
    let (runs, last) = runs_of(&app, &caller, &uri).await?;
    Ok(Json(RunsPage { runs, next_cursor: page::next(PagedList::Runs, last) }))
}

/// Reads the requested page of runs if `caller` may see it. Returns the runs, and the run after which the next page begins.
async fn runs_of(app: &App, caller: &Caller, uri: &Uri) -> Result<(Vec<Run>, Option<i64>), Problem> {
    let parameters = Parameters::read(uri, &["limit", "cursor", "agent", "outcome", "since", "until"])?;
    let limit = page::limit(&parameters)?;
    let outcome = |name| {
        let cure = "send completed, failed, superseded or postponed";
        RunOutcome::from_name(name).ok_or_else(|| invalid("outcome", &format!("can't be `{name}`"), cure))
    };
    let query = RunQuery {
        agent: parameters.text("agent").map(agent_id).transpose()?,
        outcome: parameters.text("outcome").map(outcome).transpose()?,
        since: parameters.time("since")?,
        until: parameters.time("until")?,
        before: page::cursor(&parameters, PagedList::Runs)?,
        limit: limit + 1,
    };
    match &query.agent {
        Some(agent) => access::see(app, caller, agent).await?,
        None if caller.reach.names().is_some() => return Err(which_agent()),
        None => {}
    }
    let found = app.parts.operator.runs(query).await?;
    Ok(page::cut(found, limit, |run| run.run))
}

/// Returns the problem for a token for some agents that requests the runs of all agents.
pub(crate) fn which_agent() -> Problem {
    invalid("agent", "is missing", "name the agent: this token is for some agents only")
}

/// The number of a run, from the path.
pub(crate) struct Number(i64);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let invalid = |detail| Problem::new(INVALID_PARAMETER, detail).hint("send an integer, such as 12");
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| invalid(rejection.body_text()))?;
        let number = text.parse();
        number.map(Self).map_err(|_| invalid(format!("the path ends with `{text}`, which isn't a number")))
    }
}

/// Shows one attempt.
#[utoipa::path(
    get, path = "/v1/runs/{n}", operation_id = "get_run", tag = "updates",
    params(("n" = i64, Path, description = "The run's number.", minimum = 1)),
    responses((status = 200, description = "The run.", body = Run), answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    number: Number,
    uri: Uri,
) -> Result<Json<Run>, Problem> {
    Parameters::read(&uri, &[])?;
    run_of(&app, &caller, number).await.map(Json)
}

/// Reads the run with this number. Fails if there is none, or if `caller` may not see it.
pub(crate) async fn run_of(app: &App, caller: &Caller, Number(number): Number) -> Result<Run, Problem> {
    let run = app.parts.operator.run(number).await?;
    let visible = match run {
        Some(run) if app.parts.access.may_see(caller, &run.agent_id).await? => Some(run),
        _ => None,
    };
    visible.ok_or_else(|| {
        Problem::new(UNKNOWN_RUN, format!("there is no run {number}"))
            .hint("GET /v1/runs lists the stored runs")
    })
}

/// Shows figures about updates.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "get_stats", tag = "updates",
    params(("window" = Option<String>, Query, pattern = "^([1-9][0-9]{0,2}h|[1-9][0-9]?d)$", example = "24h",
        description = "The span of time, in hours or days; a day by default.")),
    responses((status = 200, description = "The figures.", body = Stats), answers::Always),
)]
pub(super) async fn stats(State(app): State<SharedApp>, uri: Uri) -> Result<Json<Stats>, Problem> {
    let parameters = Parameters::read(&uri, &["window"])?;
    let window_hours = parameters.text("window").map_or(Ok(WINDOW_HOURS), hours)?;
    let updates = app.parts.operator.run_figures(window_hours * HOUR_MS).await?;
    // A span of 0 ms, because `run_figures` has already computed the figures of the span.
    let now = app.parts.clock.now();
    let sample: Sample = app.parts.store.sample(now, 0).await?;
    Ok(Json(Stats {
        window_hours,
        updates,
        ready: sample.ready,
        scheduled: sample.scheduled,
        running: sample.running,
        parked: sample.parked,
        agents: sample.agents,
        stock_is_estimated: sample.stock_is_estimated,
        documents: sample.documents,
        documents_tokens: sample.documents_tokens,
    }))
}

/// Parses `24h` or `7d`; returns hours.
fn hours(text: &str) -> Result<i64, Problem> {
    let (digits, factor) = match text.strip_suffix('d') {
        Some(days) => (days, WINDOW_HOURS),
        None => (text.strip_suffix('h').unwrap_or_default(), 1),
    };
    let hours = digits.parse::<i64>().ok().and_then(|number| number.checked_mul(factor));
    hours.filter(|hours| (1..=WINDOW_HOURS_MAX).contains(hours)).ok_or_else(|| {
        let cure = format!("send hours or days, such as 24h or 7d, at most {WINDOW_HOURS_MAX}h");
        invalid("window", &format!("can't be `{text}`"), &cure)
    })
}
