//! `POST /v1/agents/{id}/forget` and `DELETE /v1/agents/{id}`.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use serde::Deserialize;

use super::lineage;
use crate::http::{
    SharedApp,
    openapi::{answers, parameters::AgentPath},
    request::extract::{Agent, Parameters, invalid},
    response::problem::{INVALID_BODY, Problem},
};
use recapd_engine::ingest::{DeleteReply, ForgetReply};
use recapd_store::{FORGET_EXCHANGES_MAX, Forgettable};

/// Hints put this text between backticks.
const EXAMPLE: &str = r#"{"exchanges": [12, 13]}` or `{"message": 38}"#;

/// The body of a request to forget exchanges or one message.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForgetBody)]
struct ForgetRequest {
    exchanges: Option<Vec<i64>>,
    message: Option<i64>,
}

/// Forgets exchanges, or one message.
#[utoipa::path(
    post, path = "/v1/agents/{id}/forget", operation_id = "forget", tag = "history",
    params(AgentPath),
    request_body(content = ForgetRequest, description = "Either exchanges or one message.", example = json!({"exchanges": [12, 13]})),
    responses((status = 200, description = "What was forgotten.", body = ForgetReply),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn forget(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<ForgetReply>, Problem> {
    let target = match lineage::read(&app, request, EXAMPLE).await? {
        ForgetRequest { exchanges: Some(exchanges), message: None }
            if (1..=FORGET_EXCHANGES_MAX).contains(&exchanges.len()) =>
        {
            Forgettable::Exchanges(exchanges)
        }
        ForgetRequest { exchanges: None, message: Some(seq) } => Forgettable::Message(seq),
        ForgetRequest { .. } => {
            let detail =
                format!("the body names neither one message nor 1 to {FORGET_EXCHANGES_MAX} exchanges");
            return Err(Problem::new(INVALID_BODY, detail).hint(format!("send `{EXAMPLE}`")));
        }
    };
    let ingestor = app.parts.ingestor.clone();
    app.parts.calls.forget(&agent);
    let reply = app.see_through(async move { ingestor.forget(&agent, target).await });
    Ok(Json(reply.await?))
}

/// Deletes an agent with all of its data.
#[utoipa::path(
    delete, path = "/v1/agents/{id}", operation_id = "delete_agent", tag = "agents",
    params(AgentPath,
        ("confirm" = String, Query, description = "The agent's id again, as a confirmation: deletion is final.")),
    responses((status = 200, description = "The agent is deleted.", body = DeleteReply),
        answers::OfAgent, answers::Conflicting),
)]
pub(super) async fn delete(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<DeleteReply>, Problem> {
    let parameters = Parameters::read(&uri, &["confirm"])?;
    if parameters.text("confirm") != Some(agent.as_str()) {
        let cure = format!("deletion can't be undone; to confirm it, send: ?confirm={agent}");
        return Err(invalid("confirm", "isn't the agent's id", &cure));
    }
    let ingestor = app.parts.ingestor.clone();
    app.parts.calls.forget(&agent);
    let reply = app.see_through(async move { ingestor.delete(&agent).await });
    Ok(Json(reply.await?))
}
