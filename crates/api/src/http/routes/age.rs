//! `POST /v1/age`: runs the ageing job.

use axum::{
    Json,
    extract::{Request, State},
};
use serde::Deserialize;

use super::lineage;
use crate::http::{SharedApp, openapi::answers, response::problem::Problem};
use recapd_engine::ingest::AgedReply;

/// The body of a request to age summaries.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AgeBody)]
pub(super) struct AgeRequest {
    /// Only reports which documents the job would age.
    #[serde(default)]
    dry_run: bool,
}

/// Ages the summaries that have a line too old for its section.
///
/// The daemon also does so by itself, at the times in `schedule.ageing`.
#[utoipa::path(
    post, path = "/v1/age", operation_id = "age_summaries", tag = "updates",
    request_body(content = AgeRequest, example = json!({"dry_run": true})),
    responses((status = 200, description = "The documents that are aged, or would be.", body = AgedReply),
        answers::Always, answers::WithBody),
)]
pub(super) async fn age(State(app): State<SharedApp>, request: Request) -> Result<Json<AgedReply>, Problem> {
    let AgeRequest { dry_run } = lineage::read(&app, request, r#"{"dry_run": true}"#).await?;
    let operator = app.parts.operator.clone();
    let aged = app.see_through(async move { operator.age(dry_run).await }).await?;
    Ok(Json(aged))
}
