//! `GET` and `PATCH /v1/agents/{id}`: shows an agent, and changes its settings.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use serde::Serialize;
use serde_json::Value;

use super::agents::{AgentFigures, existing_agent};
use crate::http::{
    SharedApp,
    openapi::{answers, parameters::AgentPath},
    request::{
        body,
        extract::{Agent, Parameters, suggestion},
    },
    response::problem::{Finding, INVALID_BODY, INVALID_SETTING, Problem, RequestPlace},
};
use recapd_core::domain::settings::{AgentSettings, InForce, SettingsError, SettingsPatch};
use recapd_store::SpendPause;

/// An agent with its settings.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Agent)]
pub(super) struct SettingsView {
    #[serde(flatten)]
    figures: AgentFigures,
    /// The settings that this agent overrides.
    settings: AgentSettings,
    /// All settings of this agent, and where each value comes from.
    in_force: Vec<InForce>,
    /// If updates wait because of a spending limit: which limit, and until when.
    paused: Option<SpendPause>,
}

/// Shows an agent.
#[utoipa::path(
    get, path = "/v1/agents/{id}", operation_id = "get_agent", tag = "agents",
    params(AgentPath),
    responses((status = 200, description = "The agent.", body = SettingsView),
        answers::OfAgent),
)]
pub(super) async fn show(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<SettingsView>, Problem> {
    Parameters::read(&uri, &[])?;
    let row = existing_agent(&app, &agent).await?;
    let configured = &app.settings.configured;
    Ok(Json(SettingsView {
        paused: app.parts.store.paused(&agent).await?,
        in_force: row.settings.in_force(&configured.settings, &configured.basis),
        settings: row.settings.clone(),
        figures: row.into(),
    }))
}

/// Changes settings by a merge patch (RFC 7396), from the next append on. The agent need not exist yet. Returns all
/// settings that the agent overrides.
#[utoipa::path(
    patch, path = "/v1/agents/{id}", operation_id = "change_agent", tag = "agents",
    params(AgentPath),
    request_body(description = "A merge patch (RFC 7396): null removes an override.", content((AgentSettings = "application/json", example = json!({"budget_tokens": 50000, "model": null})), (AgentSettings = "application/merge-patch+json"))),
    responses((status = 200, description = "All settings that the agent now overrides.", body = AgentSettings),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn change(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<AgentSettings>, Problem> {
    Parameters::read(request.uri(), &[])?;
    let body = body::read_short(&app, request).await?;
    let patch: Value = serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::new(INVALID_BODY, format!("the body isn't JSON: {error}")).hint(EXAMPLE))?;
    let patch = SettingsPatch::parse(patch).map_err(refusal)?;
    let ingestor = app.parts.ingestor.clone();
    let settings = app.see_through(async move { ingestor.change_settings(&agent, &patch).await }).await?;
    Ok(Json(settings))
}

const EXAMPLE: &str =
    r#"send an object such as {"budget_tokens": 50000, "model": null}; null removes an override"#;

fn refusal(error: SettingsError) -> Problem {
    let detail = error.to_string();
    let (name, hint) = match error {
        SettingsError::NotAnObject => return Problem::new(INVALID_SETTING, detail).hint(EXAMPLE),
        SettingsError::Unknown(name) => {
            let names: Vec<&str> = AgentSettings::names().collect();
            let hint = suggestion(&name, "settings", &names);
            (name, hint)
        }
        SettingsError::Invalid { name, expected } => (name.to_owned(), format!("send {expected}")),
    };
    Problem::new(INVALID_SETTING, detail)
        .hint(hint.clone())
        .findings(vec![Finding { place: RequestPlace::member(&name), detail: hint }])
}
