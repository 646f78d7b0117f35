//! `GET /ui/queue`, `/ui/runs`, `/ui/runs/{n}`: the updates.

use axum::{Extension, extract::State, http::Uri, response::Response};

use super::{
    super::{SharedApp, access::Asking, page, problem::Problem, queue::queue_of, runs},
    Framed, shown,
};
use crate::dashboard::{QueueList, RunList, queue_page, run_page, runs_page};

/// Shows the queue.
pub(super) async fn queue(
    State(app): State<SharedApp>,
    Extension(caller): Asking,
    uri: Uri,
    Framed(frame): Framed,
) -> Result<Response, Problem> {
    let (rows, next, paused_since) = queue_of(&app, &caller, &uri, page::place).await?;
    let list = QueueList {
        rows,
        next,
        paused_since,
    };
    Ok(shown(queue_page(&frame, &list)))
}

/// Shows what came of updates.
pub(super) async fn runs(
    State(app): State<SharedApp>,
    Extension(caller): Asking,
    uri: Uri,
    Framed(frame): Framed,
) -> Result<Response, Problem> {
    let (query, runs, next) = runs::runs_of(&app, &caller, &uri, page::place).await?;
    let list = RunList {
        runs,
        agent: query.agent,
        outcome: query.outcome,
        next,
    };
    Ok(shown(runs_page(&frame, &list)))
}

/// Shows one run.
pub(super) async fn run(
    State(app): State<SharedApp>,
    Extension(caller): Asking,
    number: runs::Number,
    Framed(frame): Framed,
) -> Result<Response, Problem> {
    let run = runs::run_of(&app, &caller, number).await?;
    Ok(shown(run_page(&frame, &run)))
}
