//! `GET /livez`, `/readyz` and `/metrics`: for monitoring.
//!
//! A daemon is ready even if its model isn't available: summaries fall behind, but reads and appends continue.

use std::time::Duration;

use axum::{
    extract::State,
    http::{
        HeaderMap, Uri,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};

use crate::http::{
    SharedApp,
    openapi::{answers, values::Switch},
    request::extract::Parameters,
    response::problem::{NOT_READY, Problem},
};

/// The database must answer within this time.
const PING_MS_MAX: u64 = 2_000;

/// Reports that the daemon answers requests.
#[utoipa::path(
    get, path = "/livez", operation_id = "live", tag = "daemon",
    responses((status = 200, description = "The daemon answers requests.", body = String, content_type = "text/plain"),
        answers::Always),
)]
pub(super) async fn live(uri: Uri) -> Result<&'static str, Problem> {
    Parameters::read(&uri, &[])?;
    Ok("ok\n")
}

/// Reports whether the daemon is ready. With `?verbose`, writes a line for each check.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "daemon",
    params(("verbose" = Option<Switch>, Query, description = "A line for each check.")),
    responses((status = 200, description = "The daemon is ready.", body = String, content_type = "text/plain"),
        answers::Always),
)]
pub(super) async fn ready(State(app): State<SharedApp>, uri: Uri) -> Result<String, Problem> {
    let is_verbose = Parameters::read(&uri, &["verbose"])?.flag("verbose")?;
    let ping = tokio::time::timeout(Duration::from_millis(PING_MS_MAX), app.parts.store.ping());
    let database = match ping.await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {PING_MS_MAX} ms")),
    };
    let ending = app.parts.ending.is_cancelled().then(|| "the daemon is shutting down".to_owned());
    let checks = [("database", database), ("running", ending)];
    if checks.iter().any(|(_, fault)| fault.is_some()) {
        let faults = checks.iter().filter_map(|(name, fault)| Some(format!("{name}: {}", fault.as_ref()?)));
        return Err(Problem::new(NOT_READY, faults.collect::<Vec<_>>().join("; ")));
    }
    if is_verbose {
        Ok(checks.map(|(name, _)| format!("{name}: ok\n")).concat())
    } else {
        Ok("ok\n".to_owned())
    }
}

/// Returns the metrics, in the format that the scraper asks for.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "daemon",
    responses((status = 200, description = "The metrics.", content((String = "text/plain"), (String = "application/openmetrics-text"))),
        answers::Always),
)]
pub(super) async fn metrics(
    State(app): State<SharedApp>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let (content_type, text) = app.parts.metrics.encode(accept);
    Ok(([(CONTENT_TYPE, content_type)], text).into_response())
}
