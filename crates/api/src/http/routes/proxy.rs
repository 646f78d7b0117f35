//! `GET` and `POST /v1/agents/{id}/proxy`: what the proxy did for an agent.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};

use super::{agents::existing_agent, lineage};
use crate::http::{
    SharedApp,
    openapi::{answers, parameters::AgentPath},
    request::extract::{Agent, Parameters},
    response::problem::{INVALID_BODY, Problem},
};
use recapd_core::domain::proxy_traffic::ProxyReport;
use recapd_store::operate::ProxyTotals;

const EXAMPLE: &str = r#"{"report": "5f1c-1", "traffic": {"requests": 3}}"#;

/// Shows what the proxy did for an agent.
#[utoipa::path(
    get, path = "/v1/agents/{id}/proxy", operation_id = "get_proxy_traffic", tag = "agents",
    params(AgentPath),
    responses((status = 200, description = "The totals; zeros if no request went through the proxy.", body = ProxyTotals),
        answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<ProxyTotals>, Problem> {
    Parameters::read(&uri, &[])?;
    existing_agent(&app, &agent).await?;
    Ok(Json(app.parts.operator.proxy_totals(&agent).await?))
}

/// Adds what a proxy counted since its report before. A report that comes again counts once.
#[utoipa::path(
    post, path = "/v1/agents/{id}/proxy", operation_id = "report_proxy_traffic", tag = "agents",
    params(AgentPath),
    request_body(content = ProxyReport, example = json!({"report": "5f1c-1", "traffic": {"requests": 3}})),
    responses((status = 200, description = "The totals, with this report.", body = ProxyTotals),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn report(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<ProxyTotals>, Problem> {
    let report: ProxyReport = lineage::read(&app, request, EXAMPLE).await?;
    if !report.is_named() || !report.traffic.is_valid() {
        let detail = "the report's name isn't 1 to 64 letters, digits and hyphens, or a count is negative";
        return Err(Problem::new(INVALID_BODY, detail).hint(format!("send `{EXAMPLE}`")));
    }
    let operator = app.parts.operator.clone();
    let totals = app.see_through(async move { operator.count_proxy_traffic(&agent, &report).await }).await?;
    Ok(Json(totals))
}
