//! `GET /v1/status`: shows the daemon's figures.

use axum::{Json, extract::State, http::Uri};
use serde::Serialize;

use crate::http::{SharedApp, openapi::answers, request::extract::Parameters, response::problem::Problem};
use recapd_core::domain::{
    spend::SpendLimits,
    time::{DAY_MS, HOUR_MS, Timestamp},
};
use recapd_store::Sample;
use recapd_telemetry::metrics::Circuit;

const WINDOW_MS: i64 = DAY_MS;

/// The daemon's figures.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Status {
    version: &'static str,
    started_at: Timestamp,
    uptime_ms: i64,
    window_hours: i64,
    #[serde(flatten)]
    sample: Sample,
    /// What all agents together may spend in a day; 0 for no limit.
    spend_limits: SpendLimits,
    /// The configured models. If a circuit breaker has stopped calls to a model: until when.
    circuits: Vec<Circuit>,
}

/// The name and version of the program.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct VersionReply {
    name: &'static str,
    version: &'static str,
}

/// Returns the name and version of the program.
#[utoipa::path(
    get, path = "/version", operation_id = "get_daemon_version", tag = "daemon",
    responses((status = 200, description = "Name and version.", body = inline(VersionReply)), answers::Always),
)]
pub(super) async fn version(uri: Uri) -> Result<Json<VersionReply>, Problem> {
    Parameters::read(&uri, &[])?;
    Ok(Json(VersionReply { name: recapd_platform::PROGRAM, version: env!("CARGO_PKG_VERSION") }))
}

/// Shows the daemon's figures.
#[utoipa::path(
    get, path = "/v1/status", operation_id = "get_status", tag = "daemon",
    responses((status = 200, description = "The daemon's figures.", body = Status),
        answers::Always),
)]
pub(super) async fn read(State(app): State<SharedApp>, uri: Uri) -> Result<Json<Status>, Problem> {
    Parameters::read(&uri, &[])?;
    let now = app.parts.clock.now();
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        started_at: app.started_at,
        uptime_ms: now.since_ms(app.started_at),
        window_hours: WINDOW_MS / HOUR_MS,
        sample: app.parts.store.sample(now, WINDOW_MS).await?,
        spend_limits: app.parts.metrics.provider.limits(),
        circuits: app.parts.metrics.provider.circuits(),
    }))
}
