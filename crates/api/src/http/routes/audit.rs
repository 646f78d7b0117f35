//! `GET /v1/audit`: who changed something, was refused, or signed in.

use axum::{Json, extract::State, http::Uri};
use serde::Serialize;

use crate::http::{
    SharedApp,
    openapi::{answers, parameters::Paging},
    request::{
        extract::{Parameters, agent_id},
        page,
    },
    response::problem::Problem,
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    time::Timestamp,
};
use recapd_store::audit::{AuditQuery, AuditRow};

/// A page of the audit, newest first.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditPage)]
pub(super) struct AuditPage {
    events: Vec<AuditRow>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// Lists who changed something, was refused, or signed in.
///
/// The newest `http.audit_rows_max` events of each kind are kept. An event appears a second or two after its request.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit", tag = "daemon",
    params(Paging,
        ("agent" = Option<AgentId>, Query, description = "Only events of this agent."),
        ("since" = Option<Timestamp>, Query, description = "Only events at or after this time."),
        ("until" = Option<Timestamp>, Query, description = "Only events before this time.")),
    responses((status = 200, description = "The stored events, newest first.", body = AuditPage), answers::Always),
)]
pub(super) async fn list(State(app): State<SharedApp>, uri: Uri) -> Result<Json<AuditPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor", "agent", "since", "until"])?;
    let limit = page::limit(&parameters)?;
    let query = AuditQuery {
        agent: parameters.text("agent").map(agent_id).transpose()?,
        since: parameters.time("since")?,
        until: parameters.time("until")?,
        before: page::cursor(&parameters, PagedList::Audit)?,
        limit: limit + 1,
    };
    let found = app.parts.audited.audit(query).await?;
    let (events, last) = page::cut(found, limit, |row| row.event);
    Ok(Json(AuditPage { events, next_cursor: page::next(PagedList::Audit, last) }))
}
