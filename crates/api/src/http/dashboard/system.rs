//! `GET /ui/system`: serves the page about the daemon.

use axum::{extract::State, http::Uri, response::Response};

use super::{
    super::{SharedApp, request::extract::Parameters, response::problem::Problem},
    FramedPage, html_response,
};
use crate::dashboard::{System, system_page};
use recapd_store::operate::{QueueRow, QueueState};

const RUNNING_SHOWN: usize = 50;

pub(super) async fn show(
    State(app): State<SharedApp>,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let parts = &app.parts;
    let is_running = |row: &QueueRow| row.state == QueueState::Running;
    let running = parts.operator.search_queue(None, RUNNING_SHOWN, is_running);
    let system = System {
        version: env!("CARGO_PKG_VERSION"),
        started_at: app.started_at,
        running: running.await?.found,
        circuits: parts.metrics.provider.circuits(),
        examined: match &parts.health_checker {
            Some(health_checker) => Some(health_checker.examine().await),
            None => None,
        },
    };
    Ok(html_response(system_page(&frame, &system)))
}
