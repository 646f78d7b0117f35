//! Actions of pages: checks the signed form, acts, and redirects to the page with the form.

use axum::{
    extract::{Request, State},
    http::header::REFERER,
    response::Response,
};

use super::{
    super::{SharedApp, request::extract::Agent, response::problem::Problem, routes::queue::not_queued},
    session::{check, redirect_to, unreadable_form},
    updates::matching,
};
use crate::dashboard::{Filter, QUEUE_STATES, value};
use recapd_core::domain::agent::AgentId;
use recapd_engine::ingest::Operator;
use recapd_store::{StoreResult, operate::OperatorOutcome};

/// Returns the path of the dashboard's page that the request comes from, or `otherwise`.
fn came_from(request: &Request, default_path: &str) -> String {
    let referer = request.headers().get(REFERER).and_then(|value| value.to_str().ok());
    // The referrer is one of recapd's own pages, because requests of other origins were refused before.
    let path = referer.and_then(|referer| referer.split_once("://")?.1.split_once('/'));
    match path {
        Some((_, path)) if path.starts_with("ui/") => format!("/{path}"),
        _ => default_path.to_owned(),
    }
}

/// Carries out an action if the form is one of recapd's, even if the browser disconnects. Then redirects to the page
/// with the form.
async fn run_action<Done, T>(
    app: &SharedApp,
    request: Request,
    default_path: &str,
    act: impl FnOnce(Operator) -> Done,
) -> Result<(Response, T), Problem>
where
    T: Send + 'static,
    Done: Future<Output = StoreResult<T>> + Send + 'static,
{
    let return_path = came_from(&request, default_path);
    check(app, request).await?;
    let result = app.see_through(act(app.parts.operator.clone())).await?;
    Ok((redirect_to(&return_path), result))
}

fn row_outcome(
    (response, outcome): (Response, OperatorOutcome),
    agent: &AgentId,
) -> Result<Response, Problem> {
    match outcome {
        OperatorOutcome::Done(_) | OperatorOutcome::Running(_) => Ok(response),
        OperatorOutcome::NoRow => Err(not_queued(agent)),
    }
}

pub(super) async fn refresh(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let act = async move |operator: Operator| operator.refresh(&agent).await;
    run_action(&app, request, "/ui/queue", act).await.map(|(response, _)| response)
}

pub(super) async fn restore(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let fields = check(&app, request).await?;
    let version = fields.get("version").and_then(|version| version.parse().ok());
    let version = version.ok_or_else(|| unreadable_form("the form doesn't name the version to restore"))?;
    let (ingestor, agent_id) = (app.parts.ingestor.clone(), agent.clone());
    app.see_through(async move { ingestor.roll_back(&agent_id, version).await }).await?;
    Ok(redirect_to(&format!("/ui/agents/{agent}")))
}

pub(super) async fn retry(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let agent_id = agent.clone();
    let act = async move |operator: Operator| operator.retry(&agent_id).await;
    row_outcome(run_action(&app, request, "/ui/queue", act).await?, &agent)
}

/// Makes all queue rows that match a filter due now.
pub(super) async fn retry_matching(
    State(app): State<SharedApp>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = check(&app, request).await?;
    let query = fields.get("q").map_or("", String::as_str);
    let filter = Filter::parse(query, &QUEUE_STATES).map_err(|error| unreadable_form(error.to_string()))?;
    if filter.is_empty() {
        return Err(unreadable_form("the form doesn't say which rows to retry"));
    }
    let (operator, agents) = (app.parts.operator.clone(), matching(&app, &filter).await?);
    let retried = app.see_through(async move {
        let mut retried = 0;
        for agent in &agents {
            retried += i64::from(matches!(operator.retry(agent).await?, OperatorOutcome::Done(_)));
        }
        Ok(retried)
    });
    let retried: i64 = retried.await?;
    let path = format!("/ui/queue?q={}&retried={retried}", value(filter.text()));
    Ok(redirect_to(&path))
}

pub(super) async fn cancel(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let agent_id = agent.clone();
    let act = async move |operator: Operator| operator.cancel(&agent_id).await;
    row_outcome(run_action(&app, request, "/ui/queue", act).await?, &agent)
}

pub(super) async fn pause_agent(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    set_agent_paused(&app, agent, request, true).await
}

pub(super) async fn resume_agent(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    set_agent_paused(&app, agent, request, false).await
}

async fn set_agent_paused(
    app: &SharedApp,
    agent: AgentId,
    request: Request,
    paused: bool,
) -> Result<Response, Problem> {
    let act = async move |operator: Operator| operator.set_agent_paused(&agent, paused).await;
    run_action(app, request, "/ui/queue", act).await.map(|(response, ())| response)
}

pub(super) async fn pause_all(State(app): State<SharedApp>, request: Request) -> Result<Response, Problem> {
    let act = async move |operator: Operator| operator.set_paused(true).await;
    run_action(&app, request, "/ui/queue", act).await.map(|(response, _)| response)
}

pub(super) async fn resume_all(State(app): State<SharedApp>, request: Request) -> Result<Response, Problem> {
    let act = async move |operator: Operator| operator.set_paused(false).await;
    run_action(&app, request, "/ui/queue", act).await.map(|(response, _)| response)
}
